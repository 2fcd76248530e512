//! The client processes of a run: started, told apart, killed and replaced.
//!
//! Owns which process stands behind `c1`, `c2` … and the `birth`, `death` and `adapter` events. Must not know what the
//! clients do. Workers take a process from here for each cycle; faults signal through here.
use crate::client::{
    About, ClientError, ClientProcess, ClientSpec, Init, Notice, ProcState, Request,
};
use crate::cluster::shim::Shim;
use crate::reaper::Reaper;
use crate::record::{Clock, Sink};
use crate::run::grants::Grants;
use crate::run::recorder::Recorder;
use fencepost_checker::{Event, EventType, Process, Value};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc};

/// How each client is started and greeted.
pub struct Recipe {
    /// Command line, environment names and working folder; `name` and `log` are set a client.
    pub spec: ClientSpec,
    /// The preload shim of each client by name, where a fault needs them.
    pub shims: BTreeMap<String, Shim>,
    /// The handshake; `nodes` is set a client.
    pub init: Init,
    /// Where each client's standard error is kept.
    pub logs: std::path::PathBuf,
    /// Link addresses by client name.
    pub links: BTreeMap<String, Vec<std::net::SocketAddr>>,
    /// Options of one client alone, by its name.
    pub own: BTreeMap<String, serde_json::Map<String, serde_json::Value>>,
    /// Bound on the handshake.
    pub deadline: Duration,
}

/// One client's place: the process in it may change.
pub struct Slot {
    /// `c1` …
    pub name: String,
    process: RefCell<Option<ClientProcess>>,
    born: Notify,
    mourned: Cell<bool>,
    /// The logical process of each worker, for events that the harness stamps on its behalf.
    pub logical: RefCell<BTreeMap<u32, u64>>,
}

/// All clients of a run.
pub struct Clients {
    slots: Vec<Rc<Slot>>,
    recipe: Recipe,
    clock: Clock,
    recorder: Recorder,
    reaper: Reaper,
    notices: mpsc::UnboundedSender<Notice>,
    grants: Option<Rc<Grants>>,
    /// What the library says of itself.
    pub about: About,
}

impl Clients {
    /// Starts all clients side by side and greets them; connections are warm when this returns.
    ///
    /// # Errors
    /// A command that cannot be started, or a handshake that went wrong; the clients that did start are ended.
    pub async fn start(
        recipe: Recipe,
        clock: Clock,
        recorder: Recorder,
        reaper: Reaper,
        grants: Option<Rc<Grants>>,
    ) -> Result<Rc<Self>, ClientError> {
        let (notices, inbox) = mpsc::unbounded_channel();
        let starts = recipe
            .links
            .keys()
            .map(|name| launch(&recipe, name, clock, &reaper, &notices));
        let mut slots = Vec::new();
        let mut about = None;
        let mut failed = None;
        for outcome in futures_util::future::join_all(starts).await {
            match outcome {
                Ok((process, says)) => {
                    about.get_or_insert(says);
                    slots.push(Rc::new(Slot::new(process)));
                }
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        if let Some(error) = failed {
            for slot in &slots {
                slot.end(Duration::ZERO).await;
            }
            return Err(error);
        }
        let about = about.unwrap_or_default();
        let clients = Rc::new(Self {
            slots,
            recipe,
            clock,
            recorder,
            reaper,
            notices,
            grants,
            about,
        });
        for slot in &clients.slots {
            clients.say_born(&slot.name);
        }
        tokio::task::spawn_local(listen(Rc::downgrade(&clients), inbox));
        Ok(clients)
    }

    /// The places, in order of name.
    pub fn slots(&self) -> &[Rc<Slot>] {
        &self.slots
    }

    /// The preload shim of a client; none: it was started without.
    pub fn shim(&self, name: &str) -> Option<&Shim> {
        self.recipe.shims.get(name)
    }

    /// The place of a client.
    pub fn slot(&self, name: &str) -> Option<&Rc<Slot>> {
        self.slots.iter().find(|slot| slot.name == name)
    }

    /// Kills a client's process group; its death is on record before the signal is sent.
    ///
    /// # Errors
    /// There is no such process, or the signal was refused.
    pub fn kill(&self, name: &str) -> std::io::Result<()> {
        let slot = self.slot(name).ok_or(std::io::ErrorKind::NotFound)?;
        let process = slot.process().ok_or(std::io::ErrorKind::NotFound)?;
        slot.mourned.set(true);
        self.say(name, "death", "killed by the nemesis", None);
        self.recorder.flush();
        process.kill()
    }

    /// Puts a new process in the place of a dead one.
    ///
    /// # Errors
    /// As [`Clients::start`].
    pub async fn replace(&self, name: &str) -> Result<(), ClientError> {
        let Some(slot) = self.slot(name) else {
            return Ok(());
        };
        slot.end(Duration::ZERO).await;
        let (process, _) =
            launch(&self.recipe, name, self.clock, &self.reaper, &self.notices).await?;
        *slot.process.borrow_mut() = Some(process);
        slot.mourned.set(false);
        self.say_born(name);
        slot.born.notify_waiters();
        Ok(())
    }

    /// Ends all clients: each is asked to close, then its group is killed and reaped. What one says of the commands that
    /// it sent goes on record.
    pub async fn shutdown(&self, grace: Duration) {
        let ends = self.slots.iter().map(|slot| async move {
            if let Some(messages) = slot.end(grace).await {
                self.say_messages(&slot.name, messages);
            }
        });
        futures_util::future::join_all(ends).await;
    }

    /// Asks every living client for a sign of life; one that gives none is lost, and that goes on record.
    pub async fn roll_call(&self, deadline: Duration) {
        for slot in &self.slots {
            if slot.alive().is_none() && !slot.mourned.get() {
                let what = "closed its output and was lost to the run";
                self.say(&slot.name, "adapter", what, Some("silent"));
            }
        }
        let calls = self.slots.iter().filter_map(|slot| {
            let process = slot.alive()?;
            Some(async move {
                let answer = process.request(Request::Tick { n: 0 }, deadline).await;
                // A refusal is a sign of life, too.
                let lost = ["deadline", "client-died", "client-gone", "client-backlog"];
                if answer
                    .result
                    .is_err_and(|f| lost.contains(&f.code.as_str()))
                {
                    if process.state() == ProcState::Stopped {
                        let what = "was stopped (state T) by no fault of the run";
                        self.say(&slot.name, "adapter", what, Some("stopped"));
                        return;
                    }
                    let mut what = "gave no sign of life at the end of the run".to_owned();
                    if let Some(misdeed) = process.misdeed() {
                        what = format!("{what}; the first thing that was wrong: it {misdeed}");
                    }
                    self.say(&slot.name, "adapter", &what, Some("silent"));
                }
            })
        });
        futures_util::future::join_all(calls).await;
    }

    fn say_born(&self, name: &str) {
        let pid = self
            .slot(name)
            .and_then(|slot| slot.process())
            .map_or(0, |process| process.pid());
        self.say(name, "birth", &format!("answers as pid {pid}"), None);
    }

    fn say(&self, client: &str, f: &str, proof: &str, error: Option<&str>) {
        if f == "death"
            && let Some(grants) = &self.grants
        {
            grants.died(client);
        }
        self.recorder.emit(Event {
            index: 0,
            time: self.clock.now(),
            process: Process::Named("driver".into()),
            client: Some(client.into()),
            worker: None,
            kind: EventType::Info,
            f: f.into(),
            key: None,
            value: Value {
                proof: Some(proof.into()),
                ..Value::default()
            },
            error: error.map(Into::into),
        });
    }

    fn say_messages(&self, client: &str, messages: u64) {
        let mut event = super::driver_event(self.clock.now(), "messages", |value| {
            value.messages = Some(messages);
        });
        event.client = Some(client.into());
        self.recorder.emit(event);
    }

    fn take(&self, notice: &Notice) {
        match notice {
            Notice::Lost {
                client,
                worker,
                key,
                ..
            } => self.say_lost(client, *worker, key),
            Notice::Misbehaved { client, what, .. } => self.say(client, "adapter", what, None),
            Notice::Died { client, status, .. } => {
                if let Some(slot) = self.slot(client)
                    && !slot.mourned.replace(true)
                {
                    self.say(client, "death", status, Some("unplanned"));
                }
            }
        }
    }

    fn say_lost(&self, client: &str, worker: u32, key: &str) {
        let process = self
            .slot(client)
            .and_then(|slot| slot.logical.borrow().get(&worker).copied())
            .unwrap_or(0);
        self.recorder.emit(Event {
            index: 0,
            time: self.clock.now(),
            process: Process::Id(process),
            client: Some(client.into()),
            worker: Some(worker),
            kind: EventType::Info,
            f: "lost".into(),
            key: Some(key.into()),
            value: Value::default(),
            error: None,
        });
    }
}

impl Slot {
    fn new(process: ClientProcess) -> Self {
        Self {
            name: process.name().to_owned(),
            process: RefCell::new(Some(process)),
            born: Notify::new(),
            mourned: Cell::new(false),
            logical: RefCell::default(),
        }
    }

    /// The process in this place, dead or alive.
    pub fn process(&self) -> Option<ClientProcess> {
        self.process.borrow().clone()
    }

    /// The living process in this place.
    pub fn alive(&self) -> Option<ClientProcess> {
        self.process().filter(ClientProcess::alive)
    }

    /// Waits until a new process stands in this place.
    pub async fn born(&self) {
        self.born.notified().await;
    }

    async fn end(&self, grace: Duration) -> Option<u64> {
        self.mourned.set(true);
        let process = self.process.borrow_mut().take();
        process?.shutdown(grace).await
    }
}

async fn launch(
    recipe: &Recipe,
    name: &str,
    clock: Clock,
    reaper: &Reaper,
    notices: &mpsc::UnboundedSender<Notice>,
) -> Result<(ClientProcess, About), ClientError> {
    let mut spec = recipe.spec.clone();
    name.clone_into(&mut spec.name);
    spec.variables = recipe
        .shims
        .get(name)
        .map(Shim::variables)
        .unwrap_or_default();
    spec.log = recipe.logs.join(format!("{name}.log"));
    let mut init = recipe.init.clone();
    init.nodes = recipe.links.get(name).cloned().unwrap_or_default();
    init.options
        .extend(recipe.own.get(name).cloned().unwrap_or_default());
    let process = ClientProcess::spawn(spec, clock, reaper, notices.clone())?;
    match process.init(&init, recipe.deadline).await {
        Ok(about) => Ok((process, about)),
        Err(error) => {
            process.shutdown(Duration::ZERO).await;
            Err(error)
        }
    }
}

async fn listen(clients: std::rc::Weak<Clients>, mut inbox: mpsc::UnboundedReceiver<Notice>) {
    while let Some(notice) = inbox.recv().await {
        let Some(clients) = clients.upgrade() else {
            return;
        };
        clients.take(&notice);
    }
}
