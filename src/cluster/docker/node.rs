//! One server's container: what it is now, and what may be done to it.
//!
//! Owns its readiness, its signals and its states. Must not know the cluster around it.
use super::container::{self, Live, Recipe};
use super::{NOTICE, PORT};
use crate::cluster::{ClusterError, NodeState, Phase, READY, Speaks, etcd, probe, zookeeper};
use crate::reaper::engine;
use bollard::Docker as Engine;
use bollard::errors::Error as EngineError;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::cell::{Cell, RefCell};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

/// Bound on one try to hear a server that starts.
const TRY: Duration = Duration::from_millis(500);

pub(super) struct Node {
    pub(super) name: String,
    pub(super) recipe: Recipe,
    pub(super) live: RefCell<Live>,
    /// Paused by the engine; a SIGSTOP is undone by a signal, this by the engine.
    pub(super) frozen: Cell<bool>,
    /// What containers said that were replaced since.
    pub(super) past: RefCell<String>,
}

impl Node {
    pub(super) async fn start(
        engine: &Engine,
        name: String,
        recipe: Recipe,
    ) -> Result<Self, ClusterError> {
        let id = recipe.run(engine).await?;
        let live = recipe.look(engine, &id).await?;
        Ok(Self {
            name,
            recipe,
            live: RefCell::new(live),
            frozen: Cell::new(false),
            past: RefCell::default(),
        })
    }

    pub(super) fn id(&self) -> String {
        self.live.borrow().id.clone()
    }

    /// A server has one port.
    pub(super) fn port(&self) -> u16 {
        self.recipe.ports.first().copied().unwrap_or(PORT)
    }

    pub(super) fn address(&self, published: bool) -> SocketAddr {
        address(&self.live.borrow(), self.port(), published)
    }

    /// As Toxiproxy reaches it.
    pub(super) fn upstream(&self) -> String {
        format!("{}:{}", self.recipe.name, self.port())
    }

    /// The pid for signals, checked once more to be the container's.
    pub(super) fn fast(&self) -> Option<i32> {
        let live = self.live.borrow();
        let (pid, start) = live.process?;
        container::belongs(pid, start, &live.id).then_some(pid)
    }

    pub(super) fn signal(
        &self,
        pid: i32,
        signal: Signal,
        name: &'static str,
    ) -> Result<(), ClusterError> {
        kill(Pid::from_raw(pid), signal).map_err(|e| ClusterError::Signal {
            node: self.name.clone(),
            signal: name,
            why: e.to_string(),
        })
    }

    pub(super) fn refused(&self, what: &str, e: &EngineError) -> ClusterError {
        ClusterError::Refused {
            what: format!("{what} {}", self.name),
            why: e.to_string(),
        }
    }

    /// It says PONG; a member of etcd listens to the others, a server of ZooKeeper to clients, which each does before it
    /// serves these.
    pub(super) async fn answers(&self, published: bool, deadline: Duration) -> Result<(), String> {
        match self.recipe.speaks {
            Speaks::Resp => probe::until_pong(self.address(published), deadline, || None).await,
            Speaks::Etcd => {
                let at = address(&self.live.borrow(), etcd::PEERS, published);
                etcd::until_listens(at, deadline).await
            }
            Speaks::ZooKeeper => zookeeper::until_listens(self.address(published), deadline).await,
        }
    }

    pub(super) async fn ready(&self, engine: &Engine, published: bool) -> Result<(), ClusterError> {
        let since = Instant::now();
        loop {
            let pong = self.answers(published, TRY).await;
            // Looked at in the moment of its start, it may have had no address yet, or a shell for its process.
            let now = self.recipe.look(engine, &self.id()).await?;
            let running = now.running;
            self.live.replace(now);
            let why = match pong {
                Ok(()) if running => return Ok(()),
                Err(why) if running && since.elapsed() < READY => {
                    tracing::trace!("{} is not ready: {why}", self.name);
                    continue;
                }
                Err(why) if running => why,
                _ => "its container ended".to_owned(),
            };
            return Err(ClusterError::NotReady {
                node: self.name.clone(),
                waited: since.elapsed(),
                why,
                log: container::log_tail(engine, &self.id()).await,
            });
        }
    }

    pub(super) async fn wait_dead(&self, engine: &Engine) -> Result<(), ClusterError> {
        let end = Instant::now() + NOTICE;
        loop {
            let state = self.engine_state(engine).await;
            if state.phase == Phase::Dead {
                return Ok(());
            }
            // The engine takes some milliseconds to notice a kill; a node that nobody killed would run on.
            if Instant::now() >= end {
                return Err(ClusterError::State {
                    node: self.name.clone(),
                    state: state.proof,
                    action: "started",
                });
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    pub(super) async fn engine_state(&self, engine: &Engine) -> NodeState {
        let seen = container::inspect(engine, &self.id()).await;
        let (phase, proof) = match seen.map(|c| c.state.unwrap_or_default()) {
            Err(e) if engine::is_gone(&e) => (Phase::Dead, "the container is gone".to_owned()),
            // Neither alive nor dead is proved; what follows a kill or a pause asks for the other states.
            Err(e) => (Phase::Running, format!("the engine does not say: {e}")),
            Ok(s) if s.paused == Some(true) => (Phase::Stopped, "engine: paused".to_owned()),
            Ok(s) if s.running == Some(true) => (Phase::Running, "engine: running".to_owned()),
            Ok(s) => {
                let code = s.exit_code.unwrap_or_default();
                (Phase::Dead, format!("engine: exited with {code}"))
            }
        };
        NodeState { phase, proof }
    }
}

/// Where a port of a container is reached from here. Port 0: nowhere.
pub(super) fn address(live: &Live, port: u16, published: bool) -> SocketAddr {
    if published {
        let port = live.ports.get(&port).copied().unwrap_or(0);
        return (Ipv4Addr::LOCALHOST, port).into();
    }
    live.ip
        .map_or((Ipv4Addr::LOCALHOST, 0).into(), |ip| (ip, port).into())
}
