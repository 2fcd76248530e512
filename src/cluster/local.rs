//! The local backend: servers as child processes, each with a folder and a process group of its own.
//!
//! Owns spawning, signalling and reaping. Must not know Toxiproxy's API or clients. Servers listen on 127.0.0.1 only.
use super::error::ClusterError;
use super::layout::Layout;
use super::{NodeState, Phase, READY, Spec, probe, sentinel, server_flags, shim, tools};
use crate::plan::{ClusterPlan, Persistence, RestartData};
use crate::reaper::{Reaper, procs};
use futures_util::future::try_join_all;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::cell::RefCell;
use std::fs::OpenOptions;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Why nothing can be done to one server's packets here.
pub const SHARED_NETWORK: &str = "its servers share this machine's network";

/// Why one server cannot be told from another as the source of a link here.
pub const SHARED_ADDRESS: &str = "all servers reach a server by one and the same address, so only all of its links \
    together can be cut (link:primary>servers); on Docker each has its own";

/// Bound on the death of a killed process.
const DEATH: Duration = Duration::from_secs(5);

/// Servers and Toxiproxy of one run.
pub(super) struct Local {
    nodes: Vec<Node>,
    toxiproxy: Server,
    api: SocketAddr,
    /// The servers' program and first arguments.
    argv: Vec<String>,
    dir: PathBuf,
    reaper: Reaper,
}

struct Node {
    name: String,
    folder: PathBuf,
    argv: Vec<String>,
    persistence: Persistence,
    /// What its environment holds beside the usual.
    variables: Vec<(String, String)>,
    reaper: Reaper,
    address: SocketAddr,
    server: RefCell<Server>,
}

/// One child process, leader of its group. Dropping it kills the group and reaps the child.
struct Server {
    child: Child,
    pid: i32,
    start: u64,
    log: PathBuf,
    /// Where its own words begin in it.
    log_from: usize,
    reaper: Reaper,
}

impl Local {
    pub(super) async fn start(
        spec: &Spec,
        count: usize,
        layout: Option<&Layout>,
        reaper: &Reaper,
    ) -> Result<Self, ClusterError> {
        let dir = &spec.dir;
        let argv = tools::server(&spec.command)?;
        let program = tools::toxiproxy()?;
        reaper.watch_program(Path::new(&argv[0]));
        reaper.watch_program(&program);
        let persistence = spec.plan.persistence;
        let nodes = try_join_all((0..count).map(|n| {
            let own = layout.map_or_else(Vec::new, |l| sentinel::node_flags(&spec.plan, l, n));
            let program = &argv;
            let argv = move |port: u16, _: &Path| Ok(node_argv(program, port, persistence, &own));
            Node::start(format!("n{}", n + 1), dir, argv, persistence, reaper)
        }));
        let toxiproxy = start_toxiproxy(dir, &program, reaper);
        let (nodes, (toxiproxy, api)) = futures_util::future::try_join(nodes, toxiproxy).await?;
        Ok(Self {
            nodes,
            toxiproxy,
            api,
            argv,
            dir: dir.clone(),
            reaper: reaper.clone(),
        })
    }

    /// Start the Sentinels; the links of servers to each other must be there.
    pub(super) async fn start_sentinels(
        &mut self,
        plan: &ClusterPlan,
        layout: &Layout,
    ) -> Result<(), ClusterError> {
        let this = &*self;
        let each = (layout.nodes()..layout.servers()).map(|server| {
            let argv = move |port: u16, folder: &Path| {
                let file = folder.join("sentinel.conf");
                let text = sentinel::sentinel_file(plan, layout, server, (port, "127.0.0.1"));
                std::fs::write(&file, text).map_err(ClusterError::disk(&file))?;
                let own = [file.to_string_lossy().into_owned(), "--sentinel".to_owned()];
                Ok(this.argv.iter().cloned().chain(own).collect())
            };
            let name = layout.name(server);
            Node::start(name, &this.dir, argv, Persistence::None, &this.reaper)
        });
        let started = try_join_all(each).await?;
        self.nodes.extend(started);
        Ok(())
    }

    pub(super) fn api(&self) -> SocketAddr {
        self.api
    }

    pub(super) fn direct(&self, node: usize) -> SocketAddr {
        self.nodes[node].address
    }

    pub(super) fn signal(
        &self,
        node: usize,
        signal: Signal,
        name: &'static str,
    ) -> Result<(), ClusterError> {
        let node = &self.nodes[node];
        let pid = node.server.borrow().pid;
        killpg(Pid::from_raw(pid), signal).map_err(|e| ClusterError::Signal {
            node: node.name.clone(),
            signal: name,
            why: e.to_string(),
        })
    }

    pub(super) fn state(&self, node: usize) -> NodeState {
        let mut server = self.nodes[node].server.borrow_mut();
        // Reaps a server that ended; what it was is in /proc until then, and the state is `Dead` before and after.
        let _ = server.child.try_wait();
        state_of(server.pid, server.start)
    }

    pub(super) async fn restart(&self, node: usize, data: RestartData) -> Result<(), ClusterError> {
        self.nodes[node].restart(data).await
    }

    pub(super) fn save_logs(&self, dir: &Path) {
        let nodes = self
            .nodes
            .iter()
            .map(|n| (&n.name, n.server.borrow().log.clone()));
        let toxiproxy = "toxiproxy".to_owned();
        let all = nodes.chain([(&toxiproxy, self.toxiproxy.log.clone())]);
        for (name, log) in all {
            if let Err(error) = std::fs::copy(&log, dir.join(format!("{name}.log"))) {
                tracing::warn!(%error, "the log of {name} is not saved");
            }
        }
    }

    /// Kill everything, wait until it is gone, remove the servers' folders.
    pub(super) fn stop(self) -> Result<(), ClusterError> {
        let folders: Vec<PathBuf> = self.nodes.iter().map(|n| n.folder.clone()).collect();
        for node in &self.nodes {
            node.server.borrow().kill();
        }
        self.toxiproxy.kill();
        drop(self);
        for folder in folders {
            std::fs::remove_dir_all(&folder).map_err(ClusterError::disk(folder))?;
        }
        Ok(())
    }
}

/// What `/proc` says of the process that started at `start`.
pub(super) fn state_of(pid: i32, start: u64) -> NodeState {
    let (phase, proof) = match procs::stat(pid).filter(|s| s.start == start) {
        None => (Phase::Dead, format!("pid {pid} is gone")),
        Some(s) => {
            let phase = match s.state {
                'T' | 't' => Phase::Stopped,
                _ if s.alive() => Phase::Running,
                _ => Phase::Dead,
            };
            (phase, format!("pid {pid} state {}", s.state))
        }
    };
    NodeState { phase, proof }
}

impl Node {
    async fn start(
        name: String,
        dir: &Path,
        argv: impl Fn(u16, &Path) -> Result<Vec<String>, ClusterError>,
        persistence: Persistence,
        reaper: &Reaper,
    ) -> Result<Self, ClusterError> {
        let folder = dir.join(&name);
        let shim = shim::made(dir, &name);
        let variables = shim.map(|f| shim::variables(&f)).unwrap_or_default();
        make_dir(&folder.join("data"))?;
        let mut tries = 0;
        loop {
            tries += 1;
            let port = tools::free_port(&name)?;
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            let argv = argv(port, &folder)?;
            let (data, log) = (folder.join("data"), folder.join("log"));
            let mut server = Server::spawn(&argv, &data, &log, &variables, reaper)?;
            match server.ready(&name, address, true).await {
                Ok(()) => {
                    return Ok(Self {
                        name,
                        folder,
                        argv,
                        persistence,
                        variables,
                        reaper: reaper.clone(),
                        address,
                        server: RefCell::new(server),
                    });
                }
                Err(_) if server.port_was_taken() => {
                    tools::next_try(&name, &address.to_string(), tries)?;
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// Start a dead server again on its port; `Drop` empties its folder first, and looks that it is empty.
    async fn restart(&self, data: RestartData) -> Result<(), ClusterError> {
        self.wait_dead().await?;
        let folder = self.folder.join("data");
        if data == RestartData::Drop {
            std::fs::remove_dir_all(&folder).map_err(ClusterError::disk(&folder))?;
            make_dir(&folder)?;
            let left = std::fs::read_dir(&folder).map_err(ClusterError::disk(&folder))?;
            let left = left.count();
            if left > 0 {
                return Err(ClusterError::DataLeft {
                    node: self.name.clone(),
                    why: format!("{} holds {left} files", folder.display()),
                });
            }
        } else if self.persistence == Persistence::None {
            tracing::debug!("{} keeps an empty folder: it persists nothing", self.name);
        }
        let log = self.folder.join("log");
        let mut server = Server::spawn(&self.argv, &folder, &log, &self.variables, &self.reaper)?;
        let ready = server.ready(&self.name, self.address, true).await;
        // In place even when it is not ready: then it can still be looked at, killed and started again.
        self.server.replace(server);
        ready
    }

    async fn wait_dead(&self) -> Result<(), ClusterError> {
        let end = Instant::now() + DEATH;
        loop {
            let ended = matches!(self.server.borrow_mut().child.try_wait(), Ok(Some(_)));
            if ended {
                return Ok(());
            }
            let state = {
                let server = self.server.borrow();
                state_of(server.pid, server.start)
            };
            // A kill that was just made takes a moment; a server that nobody killed would run on.
            if Instant::now() >= end {
                return Err(ClusterError::State {
                    node: self.name.clone(),
                    state: state.proof,
                    action: "started",
                });
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

fn node_argv(argv: &[String], port: u16, persistence: Persistence, more: &[String]) -> Vec<String> {
    let own = [
        "--port",
        &port.to_string(),
        "--bind",
        "127.0.0.1",
        "--dir",
        ".",
    ]
    .map(str::to_owned);
    argv.iter()
        .cloned()
        .chain(own)
        .chain(server_flags(persistence))
        .chain(more.iter().cloned())
        .collect()
}

async fn start_toxiproxy(
    dir: &Path,
    program: &Path,
    reaper: &Reaper,
) -> Result<(Server, SocketAddr), ClusterError> {
    let folder = dir.join("toxiproxy");
    make_dir(&folder)?;
    let mut tries = 0;
    loop {
        tries += 1;
        let port = tools::free_port("toxiproxy")?;
        let argv = [
            program.to_string_lossy().into_owned(),
            "-host".to_owned(),
            "127.0.0.1".to_owned(),
            "-port".to_owned(),
            port.to_string(),
        ];
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut server = Server::spawn(&argv, &folder, &folder.join("log"), &[], reaper)?;
        match server.ready("toxiproxy", address, false).await {
            Ok(()) => return Ok((server, address)),
            Err(_) if server.port_was_taken() => {
                tools::next_try("toxiproxy", &address.to_string(), tries)?;
            }
            Err(e) => return Err(e),
        }
    }
}

impl Server {
    fn spawn(
        argv: &[String],
        folder: &Path,
        log: &Path,
        variables: &[(String, String)],
        reaper: &Reaper,
    ) -> Result<Self, ClusterError> {
        let out = OpenOptions::new().create(true).append(true).open(log);
        let out = out.map_err(ClusterError::disk(log))?;
        let log_from = out.metadata().map_or(0, |m| m.len() as usize);
        let err = out.try_clone().map_err(ClusterError::disk(log))?;
        let keep = ["PATH", "HOME", "LANG"].into_iter();
        let kept = keep.filter_map(|name| Some((name, std::env::var_os(name)?)));
        let child = Command::new(&argv[0])
            .args(&argv[1..])
            .current_dir(folder)
            .env_clear()
            .envs(kept)
            // At its default Toxiproxy writes several lines a connection.
            .env("LOG_LEVEL", "error")
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .spawn()
            .map_err(|source| ClusterError::Spawn {
                program: PathBuf::from(&argv[0]),
                source,
            })?;
        let pid = child.id().cast_signed();
        // The child is not reaped yet, so /proc has it even if it ended at once.
        let start = procs::start_time(pid).unwrap_or(0);
        reaper.watch_group(pid, start);
        Ok(Self {
            child,
            pid,
            start,
            log: log.to_path_buf(),
            log_from,
            reaper: reaper.clone(),
        })
    }

    /// Wait for PONG (or, from what speaks no RESP, for an answer to HTTP). On failure the error carries the log's end.
    async fn ready(&mut self, name: &str, at: SocketAddr, resp: bool) -> Result<(), ClusterError> {
        let since = Instant::now();
        let (child, log, from) = (&mut self.child, &self.log, self.log_from);
        // Toxiproxy lives on, deaf, where its port is taken.
        let dead = || match child.try_wait() {
            Ok(None) => says_port_taken(log, from).then(|| "its port is in use".to_owned()),
            Ok(Some(status)) => Some(format!("it ended ({status})")),
            Err(e) => Some(e.to_string()),
        };
        let outcome = if resp {
            probe::until_pong(at, READY, dead).await
        } else {
            probe::until_http(at, "/version", READY, dead).await
        };
        // Somebody else's server on this port would answer too: ours must be alive after the answer.
        let outcome = outcome.and_then(|()| match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(format!("it ended ({status})")),
            Err(e) => Err(e.to_string()),
        });
        outcome.map_err(|why| ClusterError::NotReady {
            node: name.to_owned(),
            waited: since.elapsed(),
            why,
            log: tools::tail(&text(&self.log), 8),
        })
    }

    fn port_was_taken(&self) -> bool {
        says_port_taken(&self.log, self.log_from)
    }

    fn kill(&self) {
        procs::kill_group(self.pid, self.start);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        let _ = self.child.wait();
        if procs::wait_group_gone(self.pid, DEATH) {
            self.reaper.forget_group(self.pid);
        }
    }
}

/// Whether a server says in its log that its port is in use; what stands before the byte `from` is another server's.
fn says_port_taken(log: &Path, from: usize) -> bool {
    let bytes = std::fs::read(log).unwrap_or_default();
    let own = String::from_utf8_lossy(bytes.get(from..).unwrap_or_default());
    own.to_ascii_lowercase().contains("address already in use")
}

fn text(log: &Path) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn make_dir(path: &Path) -> Result<(), ClusterError> {
    std::fs::create_dir_all(path).map_err(ClusterError::disk(path))
}
