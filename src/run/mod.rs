//! The driver: set up, warm up, load, heal, quiet tail, final reads, tear down, check.
//!
//! Owns the phases of a run. Must not know how results are shown. [`run`] takes a plan and a session and leaves a
//! results folder with plan.toml, history.jsonl, verdict.json and logs.
pub mod arrivals;
pub mod board;
pub mod clients;
mod error;
pub mod grants;
mod header;
mod lost;
pub mod members;
pub mod recorder;
pub mod resource;
pub mod results;
pub mod servers;
pub mod session;
pub mod shared;
pub mod streams;
mod worker;

use crate::client::{ClientSpec, Init};
use crate::cluster::shim::Shim;
use crate::cluster::{Cluster, ClusterError, Speaks};
use crate::fault::{Messages, Nemesis, World};
use crate::observe::{Hiccups, Members, Nodes, Observer};
use crate::plan::{FaultKind, FaultPlan, Plan};
use crate::reaper::{self, Reaper};
use crate::record::{Clock, Sink};
use crate::tap::{TapLink, Taps};
pub use error::RunError;

use board::Board;
use clients::{Clients, Recipe};
use fencepost_checker::{Event, EventType, Process, Value, Verdict};
use grants::Grants;
use header::header;
use recorder::Recorder;
use session::Session;
use shared::Shared;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// How long a client may take to answer at the end of a run, when nothing is asked of it any more.
const SIGN_OF_LIFE: Duration = Duration::from_secs(2);

/// What a run leaves.
pub struct Done {
    /// The results folder.
    pub dir: PathBuf,
    /// What the checker says.
    pub verdict: Verdict,
    /// At the end all servers ran and answered, and all links passed.
    pub intact: bool,
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Operations completed.
    pub operations: u64,
    /// Grants.
    pub grants: u64,
    /// Faults that bit.
    pub bites: u64,
    /// Grants while another worker had not let go: a first sign, before the check.
    pub doubles: u64,
}

/// Is told how far a run is. `()` does not listen.
pub trait Watcher {
    /// A phase begins, and how long it will take if that is known.
    fn phase(&self, name: &str, expected: Option<Duration>);
    /// The counters so far.
    fn tick(&self, counters: Counters);
}

impl Watcher for () {
    fn phase(&self, _name: &str, _expected: Option<Duration>) {}
    fn tick(&self, _counters: Counters) {}
}

/// Makes one run of `plan`, whose keys all begin with `prefix`, on the servers of `session`.
///
/// # Errors
/// See [`RunError`]. Clients that were started are ended in any case.
pub async fn run(
    session: &Session,
    plan: Rc<Plan>,
    prefix: &str,
    root: &Path,
    progress: &dyn Watcher,
) -> Result<Done, RunError> {
    let dir = results::create(root, &plan).map_err(|source| RunError::Results {
        path: root.to_owned(),
        source,
    })?;
    let broken = |source| RunError::Results {
        path: dir.clone(),
        source,
    };
    results::write_atomically(&dir.join("plan.toml"), plan.to_toml().as_bytes()).map_err(broken)?;
    let stage = Stage::set(session, plan, prefix, &dir, progress).await?;
    let outcome = stage.play(progress).await;
    session.save_logs(&dir).await;
    let intact = outcome.map_err(broken)?;
    let history = dir.join("history.jsonl");
    std::fs::metadata(&history).map_err(broken)?;
    progress.phase("check", None);
    let verdict = check(&dir).await?;
    let bytes = serde_json::to_vec_pretty(&verdict).map_err(|e| broken(e.into()))?;
    results::write_atomically(&dir.join("verdict.json"), &bytes).map_err(broken)?;
    results::point_latest(&dir).map_err(broken)?;
    Ok(Done {
        dir,
        verdict,
        intact,
    })
}

/// Checks off the runtime's thread, so that a signal is still heard.
async fn check(dir: &Path) -> Result<Verdict, RunError> {
    let path = dir.join("history.jsonl");
    match tokio::task::spawn_blocking(move || fencepost_checker::check_path(&path)).await {
        Ok(verdict) => Ok(verdict?),
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}

/// Everything that a run needs, standing ready.
struct Stage {
    world: Rc<World>,
    shared: Rc<Shared>,
    hiccups: Hiccups,
    writer: JoinHandle<()>,
}

impl Stage {
    async fn set(
        session: &Session,
        plan: Rc<Plan>,
        prefix: &str,
        dir: &Path,
        progress: &dyn Watcher,
    ) -> Result<Self, RunError> {
        crate::fault::possible(&plan, &session.cluster)?;
        progress.phase("clients", None);
        let clock = Clock::start();
        let history = dir.join("history.jsonl");
        let mut versions = session.cluster.versions();
        versions.insert("fencepost".into(), env!("CARGO_PKG_VERSION").into());
        versions.insert("reach".into(), session.cluster.reach());
        let recorder = Recorder::create(&history, &header(&plan, versions)).map_err(|source| {
            RunError::Results {
                path: dir.to_owned(),
                source,
            }
        })?;
        let writer = tokio::task::spawn_local(recorder.clone().write_out());
        recorder.emit(driver_event(clock.now(), "phase", |value| {
            value.phase = Some("warm-up".into());
        }));
        let nodes = Rc::new(ClusterNodes {
            cluster: session.cluster.clone(),
            lease: plan.lock.ttl,
        });
        let observer = Rc::new(
            Observer::start(nodes, prefix.to_owned(), clock, Rc::new(recorder.clone())).await?,
        );
        let control =
            (plan.lock.name.as_deref() == Some("perfect")).then(|| Rc::new(Grants::default()));
        let reaper = session.reaper.clone();
        session.cluster.forget_scripts().await;
        let taps = start_taps(&plan, &session.cluster, prefix, clock, &recorder).await;
        let taps = taps.map_err(|source| RunError::Results {
            path: dir.to_owned(),
            source,
        })?;
        let recipe = recipe(&plan, &session.cluster, taps.as_ref(), prefix, dir, &reaper)?;
        let clients =
            Clients::start(recipe, clock, recorder.clone(), reaper, control.clone()).await?;
        say_library(&recorder, clock, &clients);
        let board = Rc::new(Board::default());
        let arrivals = arrivals::Arrivals::new(
            plan.load.rate,
            clock.now(),
            streams::stream(plan.seed, "arrivals"),
        );
        let shared = Shared::new(
            plan.clone(),
            clock,
            recorder.clone(),
            board.clone(),
            arrivals,
            control,
        );
        let world = World {
            random: RefCell::new(streams::stream(plan.seed, "faults")),
            prefix: prefix.to_owned(),
            messages: Messages::default(),
            taps,
            plan,
            clock,
            recorder: recorder.clone(),
            cluster: session.cluster.clone(),
            clients,
            observer,
            board,
        };
        let hiccups = Hiccups::start(clock, Rc::new(recorder));
        Ok(Self {
            world: Rc::new(world),
            shared: Rc::new(shared),
            hiccups,
            writer,
        })
    }

    /// The phases, and whether all was there at their end. An error is the history's file refusing a write; the clients
    /// are ended in any case.
    async fn play(self, progress: &dyn Watcher) -> std::io::Result<bool> {
        let recorder = self.world.recorder.clone();
        let outcome = tokio::select! {
            intact = self.phases(progress) => Ok(intact),
            error = recorder.failure() => Err(error),
        };
        let Self {
            world,
            hiccups,
            writer,
            ..
        } = self;
        world.clients.shutdown(Duration::from_millis(500)).await;
        hiccups.stop().await;
        say_phase(&world, "end");
        recorder.flush();
        writer.abort();
        let world = Rc::try_unwrap(world).ok();
        if let Some(observer) = world.and_then(|world| Rc::try_unwrap(world.observer).ok()) {
            observer.stop().await;
        }
        recorder.take_failure().map_or(outcome, Err)
    }

    async fn phases(&self, progress: &dyn Watcher) -> bool {
        let load = &self.shared.plan.load;
        self.phase("load");
        progress.phase("load", Some(load.length));
        let nemesis = Nemesis::arm(&self.world);
        let mut workers = self.start_workers(false);
        let mut script = worker::script::Script::start(self);
        let names = self.world.clients.slots().iter();
        let all = names
            .map(|slot| &slot.name)
            .all(|c| self.shared.plan.scripted(c));
        tokio::select! {
            () = self.wait(load.length, progress) => {}
            () = worker::script::finished(script.as_mut()), if all => {}
        }
        let played = match script {
            Some(script) => script.end(&self.shared),
            None => true,
        };
        self.phase("heal");
        progress.phase("heal", None);
        nemesis.end().await;
        let mut lost = lost::proxy(&self.world, "when the faults had ended").await;
        self.phase("tail");
        progress.phase("tail", Some(load.tail));
        if played {
            workers.extend(self.start_workers(true));
        }
        self.wait(load.tail, progress).await;
        self.shared.stop();
        for worker in workers {
            if let Err(error) = worker.await
                && error.is_panic()
            {
                std::panic::resume_unwind(error.into_panic());
            }
        }
        self.world.clients.roll_call(SIGN_OF_LIFE).await;
        if !lost {
            lost = lost::proxy(&self.world, "at the end of the run").await;
        }
        lost |= lost::servers(&self.world).await;
        self.phase("final");
        progress.phase("final reads", None);
        self.world.observer.sample().await;
        !lost
    }

    /// The loops of the clients that no step names, or of those that one does.
    fn start_workers(&self, scripted: bool) -> Vec<JoinHandle<()>> {
        let load = &self.shared.plan.load;
        let mut workers = Vec::new();
        let mut count = 0;
        for slot in self.world.clients.slots() {
            for number in 0..load.workers {
                let key = format!("lock:{}", count % load.keys);
                count += 1;
                if self.shared.plan.scripted(&slot.name) != scripted {
                    continue;
                }
                let random = streams::stream(
                    self.shared.plan.seed,
                    &format!("worker {}/{number}", slot.name),
                );
                let worker =
                    worker::Worker::new(self.shared.clone(), slot.clone(), number, key, random);
                workers.push(tokio::task::spawn_local(worker.run()));
            }
        }
        workers
    }

    /// Lets time pass, and shows how far things are.
    async fn wait(&self, length: Duration, progress: &dyn Watcher) {
        let end = tokio::time::Instant::now() + length;
        loop {
            let now = tokio::time::Instant::now();
            let board = &self.shared.board;
            progress.tick(Counters {
                operations: self.shared.operations.get(),
                grants: self.shared.grants.get(),
                bites: board.bites(),
                doubles: board.doubles(),
            });
            if now >= end {
                return;
            }
            tokio::time::sleep((end - now).min(Duration::from_millis(200))).await;
        }
    }

    fn phase(&self, name: &str) {
        say_phase(&self.world, name);
    }
}

fn say_phase(world: &World, name: &str) {
    world
        .recorder
        .emit(driver_event(world.clock.now(), "phase", |value| {
            value.phase = Some(name.into());
        }));
}

fn say_library(recorder: &Recorder, clock: Clock, clients: &Clients) {
    let about = serde_json::to_string(&clients.about).unwrap_or_default();
    recorder.emit(driver_event(clock.now(), "library", |value| {
        value.proof = Some(about.as_str().into());
    }));
}

pub(crate) fn driver_event<'a>(
    time: u64,
    f: &'a str,
    fill: impl FnOnce(&mut Value<'a>),
) -> Event<'a> {
    let mut value = Value::default();
    fill(&mut value);
    Event {
        index: 0,
        time,
        process: Process::Named("driver".into()),
        client: None,
        worker: None,
        kind: EventType::Info,
        f: f.into(),
        key: None,
        value,
        error: None,
    }
}

/// A shim for each client, where a fault needs them: in the scratch folder, a new one for each run.
fn shims(plan: &Plan, reaper: &Reaper) -> Result<BTreeMap<String, Shim>, ClusterError> {
    let needed = |f: &FaultPlan| f.kind == FaultKind::ClientClock;
    if !plan.faults.iter().any(needed) {
        return Ok(BTreeMap::new());
    }
    let names = (1..=plan.load.clients).map(|n| format!("c{n}"));
    names
        .map(|name| {
            let folder = format!("{name}-shim-{}", reaper::fresh_run());
            Ok((name, Shim::create(&reaper.scratch().join(folder))?))
        })
        .collect()
}

/// A tap in front of each link, where the plan asks for taps.
async fn start_taps(
    plan: &Plan,
    cluster: &Cluster,
    prefix: &str,
    clock: Clock,
    recorder: &Recorder,
) -> std::io::Result<Option<Taps>> {
    if !plan.taps() {
        return Ok(None);
    }
    let mut links = Vec::new();
    for client in (1..=plan.load.clients).map(|n| format!("c{n}")) {
        links.extend((0..cluster.node_count()).map(|node| TapLink {
            client: client.clone(),
            node,
            name: cluster.node_name(node),
            upstream: cluster.link(&client, node),
        }));
    }
    let sink = Rc::new(recorder.clone());
    Taps::start(links, prefix, clock, sink).await.map(Some)
}

fn recipe(
    plan: &Plan,
    cluster: &Cluster,
    taps: Option<&Taps>,
    prefix: &str,
    dir: &Path,
    reaper: &Reaper,
) -> Result<Recipe, ClusterError> {
    let names = (1..=plan.load.clients).map(|n| format!("c{n}"));
    let links = |name: &str| -> Vec<SocketAddr> {
        let tapped = |n| taps.and_then(|taps| taps.address(name, n));
        (0..cluster.node_count())
            .filter(|n| plan.load.reaches(name, *n))
            .map(|n| tapped(n).unwrap_or_else(|| cluster.link(name, n)))
            .collect()
    };
    let millis = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
    let mut options: serde_json::Map<String, serde_json::Value> =
        plan.lock.options.clone().into_iter().collect();
    // These are the built-in locks' own settings; an adapter gets the workload's table and no more.
    if plan.lock.command.is_empty() {
        options.insert("fencing".into(), plan.lock.fencing.into());
        options.insert(
            "connection".into(),
            serde_json::to_value(plan.lock.connection).unwrap_or_default(),
        );
    }
    if plan.lock.wait > 0 {
        options.insert("wait".into(), plan.lock.wait.into());
    }
    if cluster.has_sentinels() {
        let nodes = 0..cluster.node_count();
        let announced: Vec<String> = nodes.filter_map(|n| cluster.announced(n)).collect();
        options.insert("announced".into(), announced.into());
        options.insert("service".into(), crate::cluster::SERVICE.into());
    }
    Ok(Recipe {
        spec: ClientSpec {
            name: String::new(),
            argv: argv(plan, reaper),
            env: plan.lock.env.clone(),
            variables: Vec::new(),
            log: PathBuf::new(),
            // Where the harness was started, so that an adapter's path is the one that was typed.
            dir: std::env::current_dir().unwrap_or_else(|_| ".".into()),
        },
        shims: shims(plan, reaper)?,
        logs: dir.join("clients"),
        init: Init {
            nodes: Vec::new(),
            ttl_ms: millis(plan.lock.ttl),
            prefix: prefix.to_owned(),
            retry_ms: millis(plan.lock.retry),
            node_timeout_ms: millis(plan.lock.node_timeout),
            workers: plan.load.workers,
            lock: plan.lock.name.clone(),
            options,
        },
        links: names.map(|name| (name.clone(), links(&name))).collect(),
        own: (1..=plan.load.clients)
            .map(|n| format!("c{n}"))
            .map(|name| (name.clone(), own_options(plan, cluster, &name)))
            .collect(),
        deadline: plan.lock.timeout.max(Duration::from_secs(20)),
    })
}

/// Options that differ from client to client: where it finds the Sentinels, and whether it asks them again.
fn own_options(
    plan: &Plan,
    cluster: &Cluster,
    client: &str,
) -> serde_json::Map<String, serde_json::Value> {
    let mut own = serde_json::Map::new();
    if cluster.has_sentinels() {
        let sentinels = cluster.node_count()..cluster.server_count();
        let links = sentinels.map(|s| cluster.link(client, s).to_string());
        own.insert("sentinels".into(), links.collect::<Vec<_>>().into());
    }
    if plan.lock.stick.iter().any(|c| c == client) {
        own.insert("stick".into(), true.into());
    }
    own
}

/// A built-in lock runs in a process of its own, too: this very program.
fn argv(plan: &Plan, reaper: &Reaper) -> Vec<String> {
    match &plan.lock.name {
        None => plan.lock.command.clone(),
        Some(name) => reaper.own().argv(&["client", "--lock", name]),
    }
}

/// The observer's view of the cluster.
struct ClusterNodes {
    cluster: Rc<Cluster>,
    lease: Duration,
}

impl Nodes for ClusterNodes {
    fn count(&self) -> usize {
        self.cluster.node_count()
    }

    fn name(&self, node: usize) -> String {
        self.cluster.node_name(node)
    }

    fn direct(&self, node: usize) -> SocketAddr {
        self.cluster.direct(node)
    }

    fn roles(&self) -> bool {
        self.cluster.has_sentinels()
    }

    fn members(&self) -> Option<(Members, Duration)> {
        let members = match self.cluster.speaks() {
            Speaks::Resp => return None,
            Speaks::Etcd => Members::Etcd,
            Speaks::ZooKeeper => Members::ZooKeeper,
        };
        Some((members, self.lease))
    }
}
