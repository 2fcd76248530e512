//! The Docker backend: nodes and Toxiproxy as containers in one network made for the run; servers that talk to each
//! other are alone with Toxiproxy in a network each.
//!
//! Owns the networks, the way in (the containers' own addresses or published ports), and the actions on a node, each
//! with a fast route (a signal to the server's pid on this host, checked to be the container's) and the engine's API.
//! Must not know Toxiproxy's API or clients. Everything carries the run's labels; only containers made here are touched.
//!
//! Each container of a shared network has an address of its own for the whole run. Left to the engine, two nodes that are
//! restarted at once may get each other's address, and whoever was just connecting to one of them, a client's link or the
//! observer, talks to the other from then on. Toxiproxy connects to nodes by name, which costs about a millisecond a
//! connection: where servers are alone in a network each, Toxiproxy is in all of them.
mod container;
mod image;
mod kitchen;
mod network;
mod node;
mod sentinels;

use super::error::ClusterError;
use super::layout::Layout;
use super::{
    Namespace, NodeState, Phase, READY, Speaks, Spec, etcd, local, probe, sentinel, server_flags,
    shim, zookeeper,
};
use crate::plan::{Persistence, Reach, RestartData, Topology};
use crate::reaper::{Reaper, engine};
use bollard::Docker as Engine;
use bollard::query_parameters::{KillContainerOptionsBuilder, StartContainerOptions};
use container::Live;
use futures_util::future::{join_all, try_join_all};
use image::Image;
use kitchen::Kitchen;
use nix::sys::signal::Signal;
use node::{Node, address};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::Path;
use std::time::{Duration, Instant};

/// Servers' port inside their containers.
const PORT: u16 = 6379;
/// Toxiproxy's API inside its container.
const API: u16 = 8474;
/// The first link's port inside Toxiproxy's container.
const LINKS: u16 = 20_000;
/// A removal is looked at this often at least before it counts as failed.
const LOOKS: u32 = 2;
/// Bound on the engine's noticing that a process has ended.
const NOTICE: Duration = Duration::from_secs(10);
/// A container's own address answers within this, or is out of reach.
const REACH: Duration = Duration::from_secs(4);

/// Containers of one run.
pub(super) struct Docker {
    engine: Engine,
    nodes: Vec<Node>,
    toxiproxy: Live,
    published: bool,
    /// Toxiproxy's address in each server's own network, where servers have one.
    inside: Vec<IpAddr>,
    kitchen: Kitchen,
    images: [Image; 2],
    engine_version: String,
    reaper: Reaper,
    stopped: bool,
}

impl Docker {
    /// Start everything. With `reach = "auto"` the containers' own addresses are tried first: where the network's
    /// gateway is an address of this very machine, its containers are reachable as a rule.
    pub(super) async fn start(
        spec: &Spec,
        nodes: usize,
        layout: Option<&Layout>,
        reaper: &Reaper,
    ) -> Result<Self, ClusterError> {
        let engine = engine::connect().await?;
        let images = [
            Image::look(&engine, &spec.plan.image).await?,
            Image::look(&engine, &spec.plan.toxiproxy_image).await?,
        ];
        reaper.watch_docker();
        let mut under_way = UnderWay(Some(reaper));
        let mut outcome = Self::attempt(
            &engine,
            &images,
            spec,
            nodes,
            layout,
            reaper,
            spec.plan.reach,
        )
        .await;
        if spec.plan.reach == Reach::Auto && matches!(outcome, Ok(Started::OutOfReach)) {
            engine::sweep(&engine, &spec.run).await?;
            outcome = Self::attempt(
                &engine,
                &images,
                spec,
                nodes,
                layout,
                reaper,
                Reach::Published,
            )
            .await;
        }
        under_way.0 = None;
        match outcome {
            Ok(Started::Whole(docker)) => Ok(*docker),
            Ok(Started::OutOfReach) => {
                engine::sweep(&engine, &spec.run).await?;
                Err(ClusterError::NotReady {
                    node: "toxiproxy".to_owned(),
                    waited: REACH,
                    why: "its container's own address does not answer from here; `reach = \"published\"` \
                          goes by a port on 127.0.0.1"
                        .to_owned(),
                    log: String::new(),
                })
            }
            Err(e) => {
                if let Err(left) = engine::sweep(&engine, &spec.run).await {
                    tracing::warn!(%left, "not everything was removed; the reaper tries again");
                }
                Err(e)
            }
        }
    }

    async fn attempt(
        engine: &Engine,
        images: &[Image; 2],
        spec: &Spec,
        nodes: usize,
        layout: Option<&Layout>,
        reaper: &Reaper,
        reach: Reach,
    ) -> Result<Started, ClusterError> {
        let network = format!("fencepost-{}", spec.run);
        // Servers that are alone in their networks have no neighbour whose address they could get.
        let shared = layout.is_none();
        let made = network::make(engine, &network, shared, reaper).await?;
        let published = match reach {
            Reach::Published => true,
            Reach::Container => false,
            Reach::Auto => made
                .gateway
                .is_none_or(|g| TcpListener::bind((g, 0)).is_err()),
        };
        let kitchen = Kitchen {
            network,
            reaper: reaper.clone(),
            published,
            apart: layout.is_some(),
            speaks: Speaks::of(spec.plan.topology),
        };
        let servers = layout.map_or(nodes, Layout::servers);
        let apart: Vec<String> = layout.map_or_else(Vec::new, |l| {
            (0..servers)
                .map(|n| kitchen.own_network(&l.name(n)))
                .collect()
        });
        network::make_all(engine, &apart, reaper).await?;
        let links = u16::try_from(spec.clients.len() * servers).unwrap_or(u16::MAX);
        let ports = std::iter::once(API).chain((0..links).map(|l| LINKS.saturating_add(l)));
        let flags = ["-host", "0.0.0.0", "-port", &API.to_string()].map(str::to_owned);
        let arguments = images[1].arguments(flags);
        let mut toxiproxy = kitchen.recipe("toxiproxy", &images[1], arguments, ports.collect());
        toxiproxy.ip = made.address(0);
        let each = (0..nodes).map(|n| {
            let name = format!("n{}", n + 1);
            let (flags, ports) = settings(spec, layout, n);
            let arguments = images[0].arguments(flags);
            let mut recipe = kitchen.server(&name, &images[0], arguments, ports);
            recipe.shim = shim::made(&spec.dir, &name);
            recipe.ip = made.address(n + 1);
            Node::start(engine, name, recipe)
        });
        let toxiproxy = async {
            let id = toxiproxy.run(engine).await?;
            let inside = network::join(engine, &id, &apart).await?;
            Ok::<_, ClusterError>((toxiproxy.look(engine, &id).await?, inside))
        };
        // All of them end before an error is acted on: nothing may be under way when the rest is removed.
        let (toxiproxy, nodes) = futures_util::future::join(toxiproxy, join_all(each)).await;
        let (toxiproxy, inside) = toxiproxy?;
        let nodes = nodes.into_iter().collect::<Result<_, _>>()?;
        let docker = Self {
            engine: engine.clone(),
            nodes,
            toxiproxy,
            published,
            inside,
            kitchen,
            images: images.clone(),
            engine_version: version(engine).await,
            reaper: reaper.clone(),
            stopped: false,
        };
        docker.ready().await
    }

    /// Toxiproxy's API is open and every node says PONG, or listens.
    async fn ready(self) -> Result<Started, ClusterError> {
        let wait = if self.published { READY } else { REACH };
        if let Err(why) = probe::until_open(self.api(), wait, || None).await {
            let live = self.toxiproxy.clone();
            let runs = container::inspect(&self.engine, &live.id).await;
            let runs = runs.is_ok_and(|c| c.state.and_then(|s| s.running) == Some(true));
            let log = container::log_tail(&self.engine, &live.id).await;
            if runs && !self.published {
                return Ok(Started::OutOfReach);
            }
            return Err(ClusterError::NotReady {
                node: "toxiproxy".to_owned(),
                waited: wait,
                why,
                log,
            });
        }
        try_join_all(
            self.nodes
                .iter()
                .map(|n| n.ready(&self.engine, self.published)),
        )
        .await?;
        Ok(Started::Whole(Box::new(self)))
    }

    pub(super) fn api(&self) -> SocketAddr {
        address(&self.toxiproxy, API, self.published)
    }

    pub(super) fn direct(&self, node: usize) -> SocketAddr {
        self.nodes[node].address(self.published)
    }

    pub(super) fn endpoints(&self, link: usize, node: usize) -> (String, String) {
        let port = usize::from(LINKS) + link;
        (format!("0.0.0.0:{port}"), self.nodes[node].upstream())
    }

    pub(super) fn reachable(&self, bound: SocketAddr) -> Result<SocketAddr, ClusterError> {
        let at = address(&self.toxiproxy, bound.port(), self.published);
        if at.port() == 0 {
            return Err(ClusterError::Port {
                what: "a link".to_owned(),
                why: format!("the engine published no port for {}", bound.port()),
            });
        }
        Ok(at)
    }

    pub(super) fn reach(&self) -> &'static str {
        if self.published {
            "published port"
        } else {
            "container address"
        }
    }

    pub(super) fn route(&self, node: usize) -> &'static str {
        match self.nodes[node].fast() {
            Some(_) => "signal",
            None => "engine",
        }
    }

    pub(super) fn namespace(&self, n: usize) -> Result<Namespace, ClusterError> {
        let node = &self.nodes[n];
        let no = |why| ClusterError::NoNamespace {
            node: node.name.clone(),
            why,
        };
        let pid = node
            .fast()
            .ok_or_else(|| no("its process is not one of this host's, or not ours to touch"))?;
        let toxiproxy = self.toxiproxy.ip;
        let toxiproxy = toxiproxy.ok_or_else(|| no("Toxiproxy has no address in its network"))?;
        Ok(Namespace { pid, toxiproxy })
    }

    pub(super) fn versions(&self) -> BTreeMap<String, String> {
        let [server, toxiproxy] = &self.images;
        let image = |i: &Image| format!("{} {}", i.name, i.id);
        BTreeMap::from([
            ("engine".to_owned(), self.engine_version.clone()),
            ("image".to_owned(), image(server)),
            ("toxiproxy_image".to_owned(), image(toxiproxy)),
        ])
    }

    pub(super) async fn pause(&self, n: usize) -> Result<(), ClusterError> {
        let node = &self.nodes[n];
        if let Some(pid) = node.fast() {
            return node.signal(pid, Signal::SIGSTOP, "SIGSTOP");
        }
        let id = node.id();
        let outcome = self.engine.pause_container(&id).await;
        outcome.map_err(|e| node.refused("pause", &e))?;
        node.frozen.set(true);
        Ok(())
    }

    pub(super) async fn resume(&self, n: usize) -> Result<(), ClusterError> {
        let node = &self.nodes[n];
        if !node.frozen.get()
            && let Some(pid) = node.fast()
        {
            return node.signal(pid, Signal::SIGCONT, "SIGCONT");
        }
        let id = node.id();
        let outcome = self.engine.unpause_container(&id).await;
        outcome.map_err(|e| node.refused("resume", &e))?;
        node.frozen.set(false);
        Ok(())
    }

    pub(super) async fn kill(&self, n: usize) -> Result<(), ClusterError> {
        let node = &self.nodes[n];
        // A frozen process takes no signal until it is thawed; the engine does both.
        if !node.frozen.get()
            && let Some(pid) = node.fast()
        {
            return node.signal(pid, Signal::SIGKILL, "SIGKILL");
        }
        let options = KillContainerOptionsBuilder::new().signal("SIGKILL").build();
        let id = node.id();
        let outcome = self.engine.kill_container(&id, Some(options)).await;
        outcome.map_err(|e| node.refused("kill", &e))?;
        node.frozen.set(false);
        Ok(())
    }

    pub(super) async fn state(&self, n: usize) -> NodeState {
        let node = &self.nodes[n];
        let process = node.live.borrow().process;
        if let Some((pid, start)) = process
            && !node.frozen.get()
        {
            let mut state = local::state_of(pid, start);
            state.proof = format!("host {}", state.proof);
            return state;
        }
        node.engine_state(&self.engine).await
    }

    /// It runs by the engine, too, which alone knows whom it has paused, and answers.
    pub(super) async fn alive(&self, n: usize, deadline: Duration) -> Result<(), String> {
        let node = &self.nodes[n];
        let state = node.engine_state(&self.engine).await;
        if state.phase != Phase::Running {
            return Err(state.proof);
        }
        node.answers(self.published, deadline).await
    }

    /// Start a dead node again. Kept data lives in the container's own layer. Dropped data goes with the container: a
    /// new one of the same name takes its place, and it is looked at that it is new and the old one is gone.
    pub(super) async fn restart(&self, n: usize, data: RestartData) -> Result<(), ClusterError> {
        let node = &self.nodes[n];
        node.wait_dead(&self.engine).await?;
        let old = node.id();
        let id = if data == RestartData::Keep {
            let options = None::<StartContainerOptions>;
            let outcome = self.engine.start_container(&old, options).await;
            outcome.map_err(|e| node.refused("start", &e))?;
            old
        } else {
            let said = container::log(&self.engine, &old).await;
            node.past.borrow_mut().push_str(&said);
            let outcome = engine::remove_container(&self.engine, &old).await;
            outcome.map_err(|e| node.refused("remove", &e))?;
            let id = node.recipe.run(&self.engine).await?;
            let gone = container::inspect(&self.engine, &old).await;
            if id == old || !gone.is_err_and(|e| engine::is_gone(&e)) {
                return Err(ClusterError::DataLeft {
                    node: node.name.clone(),
                    why: format!("its old container {old} is still there"),
                });
            }
            id
        };
        let live = node.recipe.look(&self.engine, &id).await?;
        node.live.replace(live);
        node.frozen.set(false);
        node.ready(&self.engine, self.published).await
    }

    pub(super) async fn save_logs(&self, dir: &Path) {
        let nodes = self
            .nodes
            .iter()
            .map(|n| (n.name.clone(), n.id(), n.past.borrow().clone()));
        let toxiproxy = (
            "toxiproxy".to_owned(),
            self.toxiproxy.id.clone(),
            String::new(),
        );
        join_all(nodes.chain([toxiproxy]).map(|(name, id, past)| async move {
            let text = past + &container::log(&self.engine, &id).await;
            if let Err(error) = std::fs::write(dir.join(format!("{name}.log")), text) {
                tracing::warn!(%error, "the log of {name} is not saved");
            }
        }))
        .await;
    }

    /// Remove all containers at once, then the network, and look that nothing is left.
    pub(super) async fn stop(mut self) -> Result<(), ClusterError> {
        let run = self.reaper.run().to_owned();
        let end = Instant::now() + NOTICE;
        // On a busy machine one removal of fourteen things outlasts any bound; what counts is that a later look finds
        // them again.
        for looks in 0.. {
            let swept = engine::sweep(&self.engine, &run).await;
            let found = swept.map_err(|error| ClusterError::Left {
                run: run.clone(),
                why: error.to_string(),
            })?;
            if found.is_empty() {
                break;
            }
            if looks >= LOOKS && Instant::now() >= end {
                return Err(ClusterError::Left {
                    why: format!("{} come back", found.join(", ")),
                    run,
                });
            }
        }
        self.stopped = true;
        Ok(())
    }
}

/// Dropped with a start that is given up half way (Ctrl-C): the engine still works on requests that nobody awaits.
struct UnderWay<'a>(Option<&'a Reaper>);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Some(reaper) = self.0 {
            reaper.unsettled();
        }
    }
}

enum Started {
    Whole(Box<Docker>),
    OutOfReach,
}

impl Drop for Docker {
    fn drop(&mut self) {
        if !self.stopped {
            self.reaper.sweep_docker();
        }
    }
}

/// What a node is started with, and its ports, the one for clients first.
fn settings(spec: &Spec, layout: Option<&Layout>, node: usize) -> (Vec<String>, Vec<u16>) {
    match (layout, spec.plan.topology) {
        (Some(layout), Topology::Etcd) => {
            (etcd::flags(layout, node), vec![etcd::CLIENTS, etcd::PEERS])
        }
        (Some(layout), Topology::ZooKeeper) => {
            (zookeeper::flags(layout, node), vec![zookeeper::CLIENTS])
        }
        (layout, _) => {
            let own = layout.map(|l| sentinel::node_flags(&spec.plan, l, node));
            let mut flags = node_flags(spec.plan.persistence);
            flags.extend(own.unwrap_or_default());
            (flags, vec![PORT])
        }
    }
}

fn node_flags(persistence: Persistence) -> Vec<String> {
    let open = ["--bind", "0.0.0.0", "--protected-mode", "no"].map(str::to_owned);
    open.into_iter().chain(server_flags(persistence)).collect()
}

async fn version(engine: &Engine) -> String {
    let version = engine.version().await.ok().and_then(|v| v.version);
    format!("docker {}", version.as_deref().unwrap_or("?"))
}
