//! Servers of one run, on Docker or as local processes, with Toxiproxy in front of each link.
//!
//! Owns nodes, links and their states. Must not know locks, faults' schedules or checking. `run` starts and stops a
//! cluster; `fault` acts on it; `observe` goes around Toxiproxy by [`Cluster::direct`]; clients get [`Cluster::link`].
//!
//! ```text
//! client c1 --link c1>n1--> Toxiproxy --> n1 <--direct-- observer
//!           --link c1>n2--> Toxiproxy --> n2
//! ```
//! Each link is a proxy of its own, so a fault can hit one client, one node, one direction. Links keep their addresses
//! for the whole run; Toxiproxy is never restarted.
//!
//! | file | owns |
//! |---|---|
//! | `mod` | [`Cluster`], the two backends behind one face |
//! | [`local`] | servers as child processes |
//! | [`docker`] | servers as containers in a network of their own |
//! | [`toxiproxy`] | the one file that talks to Toxiproxy |
//! | [`toxic`] | toxics and Toxiproxy's errors, as types |
//! | `connect` | the links, made once servers run, and servers that find each other |
//! | `layout` | servers that talk to each other: addresses, links |
//! | `sentinel` | a primary, replicas and Sentinels: settings |
//! | `etcd`, `zookeeper` | members of such a cluster: settings |
//! | [`shim`] | clocks and syncs of processes, by a preloaded library |
//! | [`probe`] | PING and INFO, the proof of readiness |
//! | [`tools`] | programs and ports of this machine |
//! | [`error`] | [`ClusterError`] |
mod connect;
mod docker;
pub mod error;
mod etcd;
mod layout;
mod local;
pub mod probe;
mod sentinel;
pub mod shim;
mod tools;
pub mod toxic;
pub mod toxiproxy;
mod zookeeper;

pub use error::ClusterError;
pub use local::{SHARED_ADDRESS, SHARED_NETWORK};
pub use sentinel::{SERVICE, master};
pub use tools::toxiproxy as find_toxiproxy;
pub use toxic::{ProxyState, Toxic, ToxicKind, ToxiproxyError};
pub use toxiproxy::Toxiproxy;

use crate::plan::{ClusterPlan, Persistence, RestartData, Topology};
use crate::reaper::{Reaper, engine};
use docker::Docker;
use layout::Layout;
use local::Local;
use nix::sys::signal::Signal;
use shim::Shim;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bound on the time from a server's start to its first PONG.
pub(crate) const READY: Duration = Duration::from_secs(30);

/// Bound on a server's answer at the end of a run.
const REACH: Duration = Duration::from_secs(3);

/// Where servers run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// Containers.
    Docker,
    /// Child processes.
    Local,
}

/// What the user asked for: a backend, or (none) whichever is there.
pub type Choice = Option<Backend>;

impl Backend {
    /// Read `auto`, `docker` or `local`.
    ///
    /// # Errors
    /// [`ClusterError::Backend`].
    pub fn parse(text: &str) -> Result<Choice, ClusterError> {
        match text {
            "auto" => Ok(None),
            "docker" => Ok(Some(Self::Docker)),
            "local" => Ok(Some(Self::Local)),
            other => Err(ClusterError::Backend(other.to_owned())),
        }
    }

    /// As [`Backend::parse`] reads it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Local => "local",
        }
    }
}

/// Settle a choice, with the reason on one line: Docker where an engine answers, else local processes.
pub async fn resolve(choice: Choice) -> (Backend, String) {
    match choice {
        Some(backend) => (backend, format!("{}: as asked for", backend.name())),
        None => match engine::connect().await {
            Ok(_) => (Backend::Docker, "docker: an engine answers".to_owned()),
            Err(e) => (Backend::Local, format!("local: {e}")),
        },
    }
}

/// What a cluster is made from.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Where servers run.
    pub backend: Backend,
    /// Topology, persistence, images.
    pub plan: ClusterPlan,
    /// Client names, `c1` …; each gets a link to each node.
    pub clients: Vec<String>,
    /// The run's id.
    pub run: String,
    /// Folder for the servers' own folders and logs, such as [`Reaper::scratch`].
    pub dir: PathBuf,
    /// Local servers' argv without port and settings; empty: `redis-server`, else `valkey-server`, from PATH.
    pub command: Vec<String>,
}

/// A node's state, and what proves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeState {
    /// The state.
    pub phase: Phase,
    /// Where it was read and what was read, such as `pid 4711 state T`.
    pub proof: String,
}

/// What a server does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It may run.
    Running,
    /// Stopped by a signal, or paused by the engine.
    Stopped,
    /// It has ended.
    Dead,
}

/// What servers speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaks {
    /// Redis' protocol.
    Resp,
    /// etcd's v3 API.
    Etcd,
    /// ZooKeeper's protocol.
    ZooKeeper,
}

impl Speaks {
    /// What the servers of a topology speak.
    fn of(topology: Topology) -> Self {
        match topology {
            Topology::Single | Topology::Independent | Topology::Sentinel => Self::Resp,
            Topology::Etcd => Self::Etcd,
            Topology::ZooKeeper => Self::ZooKeeper,
        }
    }
}

/// A network namespace of a node's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    /// A process in it, in this host's numbering.
    pub pid: i32,
    /// Toxiproxy's address, as seen from there.
    pub toxiproxy: std::net::IpAddr,
}

enum Servers {
    Local(Box<Local>),
    Docker(Box<Docker>),
}

/// Running servers and links. Stop it with [`Cluster::stop`]; a dropped one is removed too, without waiting for it.
pub struct Cluster {
    servers: Servers,
    nodes: usize,
    speaks: Speaks,
    layout: Option<Layout>,
    /// Listeners by source and server; none where it cannot be reached from here.
    links: BTreeMap<(String, usize), Option<SocketAddr>>,
    /// One a node, where the plan needs them.
    shims: Vec<Shim>,
    toxiproxy: Toxiproxy,
    versions: BTreeMap<String, String>,
    /// Numbers given out by [`Cluster::fresh`].
    given: Cell<u64>,
}

impl Cluster {
    /// Start all nodes and Toxiproxy side by side, make a proxy for each link, and PING through each.
    ///
    /// # Errors
    /// [`ClusterError`]; whatever was started by then is removed first.
    pub async fn start(spec: Spec, reaper: &Reaper) -> Result<Self, ClusterError> {
        let nodes = match spec.plan.topology {
            Topology::Single => 1,
            Topology::Independent | Topology::Etcd | Topology::ZooKeeper => {
                spec.plan.nodes.max(1) as usize
            }
            Topology::Sentinel => spec.plan.nodes.max(2) as usize,
        };
        let layout = Layout::new(&spec.plan, spec.backend, tools::free_port)?;
        let speaks = Speaks::of(spec.plan.topology);
        let count = if spec.plan.shim { nodes } else { 0 };
        let shims: Vec<Shim> = (0..count)
            .map(|n| Shim::create(&shim::folder(&spec.dir, &format!("n{}", n + 1))))
            .collect::<Result<_, _>>()?;
        let servers = match spec.backend {
            Backend::Local => Servers::Local(Box::new(
                Local::start(&spec, nodes, layout.as_ref(), reaper).await?,
            )),
            Backend::Docker => Servers::Docker(Box::new(
                Docker::start(&spec, nodes, layout.as_ref(), reaper).await?,
            )),
        };
        let toxiproxy = match Toxiproxy::connect(servers.api()).await {
            Ok(toxiproxy) => toxiproxy,
            Err(e) => {
                leave(servers.stop().await);
                return Err(e.into());
            }
        };
        let mut cluster = Self {
            servers,
            nodes,
            speaks,
            layout,
            links: BTreeMap::new(),
            shims,
            toxiproxy,
            versions: BTreeMap::new(),
            given: Cell::new(0),
        };
        let mut made = cluster.connect_servers(&spec.plan).await;
        if made.is_ok() {
            made = cluster.connect_links(&spec.clients).await;
        }
        match made {
            Ok(()) => Ok(cluster),
            Err(e) => {
                leave(cluster.stop().await);
                Err(e)
            }
        }
    }

    /// Number of nodes.
    pub fn node_count(&self) -> usize {
        self.nodes
    }

    /// Nodes, and the Sentinels behind them.
    pub fn server_count(&self) -> usize {
        self.layout.as_ref().map_or(self.nodes, Layout::servers)
    }

    /// `n1` for node 0; the Sentinels behind the nodes are `s1` …
    pub fn node_name(&self, node: usize) -> String {
        layout::name(self.nodes, node)
    }

    /// A number that nothing on these servers and links has had. Runs share servers, and a key that a probe of an earlier
    /// run left behind proves nothing.
    pub fn fresh(&self) -> u64 {
        self.given.replace(self.given.get() + 1)
    }

    /// What the nodes speak.
    pub fn speaks(&self) -> Speaks {
        self.speaks
    }

    /// There are Sentinels, and so a primary that may change.
    pub fn has_sentinels(&self) -> bool {
        self.layout.as_ref().is_some_and(Layout::has_sentinels)
    }

    /// The address under which servers know a server and which Sentinels tell clients, such as `toxi:7001`; none
    /// where servers do not talk to each other.
    pub fn announced(&self, server: usize) -> Option<String> {
        self.layout.as_ref().map(|l| l.announced(server))
    }

    /// The links between two groups of servers, either way: source and server of each.
    ///
    /// # Errors
    /// Why they cannot be told from other links, or that servers here do not talk to each other.
    pub fn links_between(
        &self,
        one: &[usize],
        other: &[usize],
    ) -> Result<Vec<(String, usize)>, String> {
        match &self.layout {
            Some(layout) => layout.between(one, other),
            None => Err("the servers of this topology do not talk to each other".to_owned()),
        }
    }

    /// A node's address around Toxiproxy. It may change when the node is started again, so ask each time.
    ///
    /// # Panics
    /// When there is no such node.
    pub fn direct(&self, node: usize) -> SocketAddr {
        match &self.servers {
            Servers::Local(l) => l.direct(node),
            Servers::Docker(d) => d.direct(node),
        }
    }

    /// The Toxiproxy listener of a client's link; it never changes.
    ///
    /// # Panics
    /// When there is no such client or node.
    pub fn link(&self, client: &str, node: usize) -> SocketAddr {
        let address = self.links[&(client.to_owned(), node)];
        address.unwrap_or_else(|| panic!("{client} is no client"))
    }

    /// The listener of any link, if it is reached from here: those between servers are not where only published
    /// ports are.
    pub fn reachable(&self, from: &str, server: usize) -> Option<SocketAddr> {
        *self.links.get(&(from.to_owned(), server))?
    }

    /// Name of a link's proxy, such as `c1>n1`.
    pub fn proxy_name(&self, client: &str, node: usize) -> String {
        format!("{client}>{}", self.node_name(node))
    }

    /// Names of all proxies of a link: a server of ZooKeeper is reached by another at two ports.
    pub fn proxies(&self, from: &str, server: usize) -> Vec<String> {
        let name = self.proxy_name(from, server);
        let inner = (0..self.server_count()).any(|s| self.node_name(s) == from);
        if self.speaks == Speaks::ZooKeeper && inner {
            return vec![name.clone(), name + layout::QUORUM];
        }
        vec![name]
    }

    /// A handle to Toxiproxy.
    pub fn toxiproxy(&self) -> Toxiproxy {
        self.toxiproxy.clone()
    }

    /// How clients reach Toxiproxy: `container address`, `published port` or `loopback`.
    pub fn reach(&self) -> String {
        match &self.servers {
            Servers::Local(_) => "loopback".to_owned(),
            Servers::Docker(d) => d.reach().to_owned(),
        }
    }

    /// How a node is paused and killed: `signal` (to the host's pid), or `engine` (its API).
    pub fn route(&self, node: usize) -> &'static str {
        match &self.servers {
            Servers::Local(_) => "signal",
            Servers::Docker(d) => d.route(node),
        }
    }

    /// The shim of a node; none: it was started without.
    pub fn shim(&self, node: usize) -> Option<&Shim> {
        self.shims.get(node)
    }

    /// Where a node's packets can be filtered.
    ///
    /// # Errors
    /// [`ClusterError::NoNamespace`] with the reason, [`ClusterError::NoNode`].
    pub fn namespace(&self, n: usize) -> Result<Namespace, ClusterError> {
        self.exists(n)?;
        match &self.servers {
            Servers::Local(_) => Err(ClusterError::NoNamespace {
                node: self.node_name(n),
                why: SHARED_NETWORK,
            }),
            Servers::Docker(d) => d.namespace(n),
        }
    }

    /// Versions: `server`, `toxiproxy`, and on Docker `engine`, `image`.
    pub fn versions(&self) -> BTreeMap<String, String> {
        self.versions.clone()
    }

    /// Stop a node where it stands: SIGSTOP, or the engine's pause. Returns when the call is made;
    /// [`Cluster::node_state`] is the proof.
    ///
    /// # Errors
    /// [`ClusterError::Signal`], [`ClusterError::Refused`], [`ClusterError::NoNode`].
    pub async fn pause_node(&self, n: usize) -> Result<(), ClusterError> {
        self.exists(n)?;
        match &self.servers {
            Servers::Local(l) => l.signal(n, Signal::SIGSTOP, "SIGSTOP"),
            Servers::Docker(d) => d.pause(n).await,
        }
    }

    /// Let a paused node go on.
    ///
    /// # Errors
    /// As [`Cluster::pause_node`].
    pub async fn resume_node(&self, n: usize) -> Result<(), ClusterError> {
        self.exists(n)?;
        match &self.servers {
            Servers::Local(l) => l.signal(n, Signal::SIGCONT, "SIGCONT"),
            Servers::Docker(d) => d.resume(n).await,
        }
    }

    /// SIGKILL. A killed server loses no write that it has answered, where it persists them: it wrote them to the page
    /// cache first. That is no power loss.
    ///
    /// # Errors
    /// As [`Cluster::pause_node`].
    pub async fn kill_node(&self, n: usize) -> Result<(), ClusterError> {
        self.exists(n)?;
        match &self.servers {
            Servers::Local(l) => l.signal(n, Signal::SIGKILL, "SIGKILL"),
            Servers::Docker(d) => d.kill(n).await,
        }
    }

    /// Start a killed node again. Returns once it answers PING directly (a member of a cluster: once it listens). Toxiproxy finds
    /// it at the same upstream.
    ///
    /// # Errors
    /// [`ClusterError::State`] when it does not die, [`ClusterError::DataLeft`] when its data could not be dropped,
    /// [`ClusterError::NotReady`] with the end of its log, and the general ones.
    pub async fn start_node(&self, n: usize, data: RestartData) -> Result<(), ClusterError> {
        self.exists(n)?;
        match &self.servers {
            Servers::Local(l) => l.restart(n, data).await,
            Servers::Docker(d) => d.restart(n, data).await,
        }
    }

    /// What the kernel (or, where its process cannot be seen, the engine) says of a node now.
    ///
    /// # Panics
    /// When there is no such node.
    pub async fn node_state(&self, n: usize) -> NodeState {
        match &self.servers {
            Servers::Local(l) => l.state(n),
            Servers::Docker(d) => d.state(n).await,
        }
    }

    /// The servers, Sentinels among them, that do not run now or do not answer, in words: `s2: the container is gone`.
    pub async fn lost(&self) -> Vec<String> {
        let looks = (0..self.server_count()).map(|n| async move {
            let why = self.alive(n).await.err()?;
            Some(format!("{}: {why}", self.node_name(n)))
        });
        let found = futures_util::future::join_all(looks).await;
        found.into_iter().flatten().collect()
    }

    /// It runs, and answers around Toxiproxy.
    async fn alive(&self, n: usize) -> Result<(), String> {
        let state = self.node_state(n).await;
        if state.phase != Phase::Running {
            return Err(state.proof);
        }
        match &self.servers {
            Servers::Local(l) => probe::ping(l.direct(n), REACH).await,
            Servers::Docker(d) => d.alive(n, REACH).await,
        }
    }

    /// Lets servers of Redis or Valkey forget their scripts: a library then sends them, and a tap learns them, in each run.
    pub async fn forget_scripts(&self) {
        if self.speaks() == Speaks::Resp {
            let flush = |n| probe::text(self.direct(n), "SCRIPT FLUSH", REACH);
            futures_util::future::join_all((0..self.node_count()).map(flush)).await;
        }
    }

    /// Why a link does not pass any more: Toxiproxy has no proxy for it, or has it closed.
    pub async fn link_lost(&self) -> Option<String> {
        for (from, server) in self.links.keys() {
            for proxy in self.proxies(from, *server) {
                match self.toxiproxy.state(&proxy).await {
                    Err(error) => return Some(error.to_string()),
                    Ok(state) if !state.enabled => return Some(format!("`{proxy}` is closed")),
                    Ok(_) => {}
                }
            }
        }
        None
    }

    /// Write each server's log to `dir`: `n1.log` …, `toxiproxy.log`. What cannot be saved is warned of.
    pub async fn save_logs(&self, dir: &Path) {
        match &self.servers {
            Servers::Local(l) => l.save_logs(dir),
            Servers::Docker(d) => d.save_logs(dir).await,
        }
    }

    /// Remove all that was started, and wait until it is gone.
    ///
    /// # Errors
    /// The first thing that could not be removed; the rest is removed all the same, and the reaper tries again.
    pub async fn stop(self) -> Result<(), ClusterError> {
        self.servers.stop().await
    }

    fn exists(&self, n: usize) -> Result<(), ClusterError> {
        if n < self.server_count() {
            return Ok(());
        }
        Err(ClusterError::NoNode {
            number: n + 1,
            nodes: self.nodes,
        })
    }
}

impl Servers {
    fn api(&self) -> SocketAddr {
        match self {
            Self::Local(l) => l.api(),
            Self::Docker(d) => d.api(),
        }
    }

    /// Where the proxy of link number `link` listens, and where it connects to, as Toxiproxy sees it.
    fn endpoints(&self, link: usize, node: usize) -> Result<(String, String), ClusterError> {
        match self {
            Self::Local(l) => {
                let port = tools::free_port("a link")?;
                Ok((format!("127.0.0.1:{port}"), l.direct(node).to_string()))
            }
            Self::Docker(d) => Ok(d.endpoints(link, node)),
        }
    }

    /// A listener's address as clients see it.
    fn reachable(&self, bound: SocketAddr) -> Result<SocketAddr, ClusterError> {
        match self {
            Self::Local(_) => Ok(bound),
            Self::Docker(d) => d.reachable(bound),
        }
    }

    fn versions(&self) -> BTreeMap<String, String> {
        match self {
            Self::Local(_) => BTreeMap::new(),
            Self::Docker(d) => d.versions(),
        }
    }

    async fn stop(self) -> Result<(), ClusterError> {
        match self {
            Self::Local(l) => l.stop(),
            Self::Docker(d) => d.stop().await,
        }
    }
}

/// After a failed start the first error is the one to tell; the reaper removes what is left.
fn leave(removed: Result<(), ClusterError>) {
    if let Err(error) = removed {
        tracing::warn!(%error, "not everything was removed; the reaper tries again");
    }
}

/// Settings of every node on both backends. `DEBUG` stays disabled, as it is by default since Redis 7; the flag that
/// says so would stop older servers from starting.
fn server_flags(persistence: Persistence) -> Vec<String> {
    let mut flags = vec![
        "--notify-keyspace-events",
        "E$gxe",
        "--save",
        "",
        "--maxmemory",
        "0",
    ];
    flags.extend(match persistence {
        Persistence::None => ["--appendonly", "no"].as_slice(),
        Persistence::Aof => &["--appendonly", "yes", "--appendfsync", "everysec"],
        Persistence::AofAlways => &["--appendonly", "yes", "--appendfsync", "always"],
    });
    flags.into_iter().map(str::to_owned).collect()
}
