//! The resolved plan: everything that a run needs, fixed before the first operation.
//!
//! Owns the plan's types ([`Plan`] is also what plan.toml in the results holds, all defaults filled in). Must not
//! know how anything is run. [`load`] (the workload file and its errors) makes it; `run` obeys it.
//!
//! ```text
//! text -tree-> values with places -file, read, fault-> Plan -write-> plan.toml, itself a workload file
//!                                        `-error-> every mistake at its place
//! ```
pub mod duration;
pub mod each;
mod error;
mod excerpt;
mod fault;
mod file;
pub mod kinds;
mod measures;
pub mod message;
mod moment;
pub mod names;
mod read;
pub mod replicated;
mod schema;
mod sections;
pub mod step;
#[cfg(test)]
mod tests;
mod tree;
mod write;

pub use error::{PlanError, Problem};
pub use fault::is_server;
pub use file::{Overrides, load, load_resolved, parse};
pub use measures::Measures;
pub use message::{MessageAction, MessageConnection, MessagePattern, MessagePlan};
pub use schema::schema;
pub use step::{Doing, StepPlan};

use fencepost_checker::{Expect, Fence};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// A whole workload, resolved: one variant, overrides applied, defaults filled in.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// The file's stem.
    pub name: String,
    /// The variant's name, where the file has variants.
    pub variant: Option<String>,
    /// What the workload shows, from the comment at the head of the file or its `about` key.
    pub about: String,
    /// Seed of every random stream.
    pub seed: u64,
    /// Each command and reply goes on record, also where no fault is keyed on a message.
    pub tap: bool,
    /// Servers.
    pub cluster: ClusterPlan,
    /// The lock under test.
    pub lock: LockPlan,
    /// Who uses it how.
    pub load: LoadPlan,
    /// The protected resource.
    pub resource: ResourcePlan,
    /// The nemesis, in the order of the file.
    pub faults: Vec<FaultPlan>,
    /// An exact schedule for some clients; the others work in loops beside it.
    pub steps: Vec<StepPlan>,
    /// Expected outcome by check or class.
    pub expect: BTreeMap<String, Expect>,
}

/// `cluster = {...}`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClusterPlan {
    /// How the servers stand to each other.
    pub topology: Topology,
    /// Number of servers (`single`: 1).
    pub nodes: u32,
    /// What survives a restart.
    pub persistence: Persistence,
    /// Image of the servers (docker), such as `fencepost/redis:7`, `redis:7.4`, `valkey/valkey:8`.
    pub image: String,
    /// Image of Toxiproxy (docker).
    pub toxiproxy_image: String,
    /// How clients reach Toxiproxy in Docker.
    pub reach: Reach,
    /// Topology `sentinel`: a server that is silent for this long counts as down to a Sentinel.
    #[serde(with = "duration::optional", skip_serializing_if = "Option::is_none")]
    pub down_after: Option<Duration>,
    /// Topology `sentinel`: the primary refuses writes with fewer replicas than this in reach; 0: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_replicas: Option<u32>,
    /// Topology `sentinel`: a replica that was silent for longer is out of reach to `min_replicas`; whole seconds.
    #[serde(with = "duration::optional", skip_serializing_if = "Option::is_none")]
    pub max_lag: Option<Duration>,
    /// Servers are started with the preload shim: some fault needs it. Follows from the faults.
    #[serde(skip)]
    pub shim: bool,
}

/// How the servers stand to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Topology {
    /// One server.
    Single,
    /// N servers that know nothing of each other (Redlock).
    Independent,
    /// One primary, its replicas, and three Sentinels that promote one of them when it is gone.
    Sentinel,
    /// Members of an etcd cluster, one of which is the leader.
    Etcd,
    /// Servers of a ZooKeeper ensemble, one of which is the leader.
    #[serde(rename = "zookeeper")]
    ZooKeeper,
}

impl Topology {
    /// As a workload file names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Independent => "independent",
            Self::Sentinel => "sentinel",
            Self::Etcd => "etcd",
            Self::ZooKeeper => "zookeeper",
        }
    }

    /// Its nodes are members that agree by consensus, and answer as one.
    pub fn is_replicated(self) -> bool {
        match self {
            Self::Single | Self::Independent | Self::Sentinel => false,
            Self::Etcd | Self::ZooKeeper => true,
        }
    }
}

/// What survives a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Persistence {
    /// Nothing: `--save '' --appendonly no`.
    None,
    /// Append-only file, `appendfsync everysec`; `aof-everysec` is the same.
    Aof,
    /// Append-only file, `appendfsync always`.
    AofAlways,
}

/// How clients reach Toxiproxy in Docker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reach {
    /// The container's own address where it answers, else as `Published`.
    Auto,
    /// The container's own address.
    Container,
    /// A port published on 127.0.0.1.
    Published,
}

/// `lock = {...}`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LockPlan {
    /// A built-in lock's name; none: `command` is an adapter.
    pub name: Option<String>,
    /// An adapter's argv, run without a shell.
    pub command: Vec<String>,
    /// Names of environment variables that an adapter gets beside PATH, HOME and LANG.
    pub env: Vec<String>,
    /// The lease asked for.
    #[serde(with = "duration")]
    pub ttl: Duration,
    /// Longest pause between two tries; the real one is drawn from [retry/2, retry].
    #[serde(with = "duration")]
    pub retry: Duration,
    /// Bound on one call of the client protocol.
    #[serde(with = "duration")]
    pub timeout: Duration,
    /// Bound on one command to one server.
    #[serde(with = "duration")]
    pub node_timeout: Duration,
    /// The driver extends every TTL/3 during the work.
    pub renew: bool,
    /// The client looks at its lease before it writes.
    pub respect_validity: bool,
    /// The lock gives out fencing tokens (single node: an atomic INCR with the grant).
    pub fencing: bool,
    /// For a lock that queues: how many others may be granted it while a worker waits; none: it states no such bound.
    pub bypass: Option<u64>,
    /// A grant and an extension count only once this many replicas have acknowledged them (`WAIT`); 0: not asked.
    pub wait: u32,
    /// Clients that keep to the first primary for good, where the others ask the Sentinels.
    pub stick: Vec<String>,
    /// One pipelined connection a client and node, or one a worker and node.
    pub connection: Connection,
    /// Passed through to an adapter's `init`.
    pub options: BTreeMap<String, serde_json::Value>,
}

/// Connections of built-in locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Connection {
    /// One pipelined connection a client and node.
    Shared,
    /// One connection a worker and node.
    Worker,
}

/// `load = {...}`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoadPlan {
    /// Client processes, `c1` …
    pub clients: u32,
    /// Workers in each.
    pub workers: u32,
    /// Lock keys; worker w of client c uses key (its number) mod `keys`.
    pub keys: u32,
    /// Time spent in the critical section.
    pub work: Work,
    /// Length of the load phase.
    #[serde(rename = "for", with = "duration")]
    pub length: Duration,
    /// Time between a release and the same worker's next acquire.
    #[serde(with = "duration")]
    pub think: Duration,
    /// Open loop: intended starts a second over all workers; none: closed loop.
    pub rate: Option<f64>,
    /// Clients whose links no fault on all links (`*`, `clients`, `node:1` …) hits.
    pub clean: Vec<String>,
    /// The nodes that a client knows, by number from 1; one that is not named knows all.
    pub nodes: BTreeMap<String, Vec<u32>>,
    /// Quiet tail after healing, with the same clients acquiring again; default: three leases, at
    /// least a lease, a retry and a second (what `deadlock` and `leak` need), at most 10 s.
    #[serde(with = "duration")]
    pub tail: Duration,
}

impl LoadPlan {
    /// Whether this client knows that node (from 0).
    pub fn reaches(&self, client: &str, node: usize) -> bool {
        let mine = self.nodes.get(client);
        mine.is_none_or(|nodes| nodes.iter().any(|n| *n as usize == node + 1))
    }
}

/// Distribution of the work time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Always the same.
    Fixed(#[serde(with = "duration")] Duration),
    /// Uniform between two durations.
    Uniform(
        #[serde(with = "duration")] Duration,
        #[serde(with = "duration")] Duration,
    ),
    /// Exponential with this mean, cut at 20 means.
    Exponential(#[serde(with = "duration")] Duration),
}

impl Work {
    /// The longest that it draws; of an exponential one, which has none, the mean.
    fn longest(self) -> Duration {
        match self {
            Self::Fixed(d) | Self::Uniform(_, d) | Self::Exponential(d) => d,
        }
    }
}

/// `resource = {...}`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ResourcePlan {
    /// How the resource checks fencing tokens.
    pub fence: Fence,
}

/// One `[[fault]]`: flat; which keys a kind takes is in `plan::kinds`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FaultPlan {
    /// Its name for `after` and `until`; default `f<number>`.
    pub id: String,
    /// Its kind.
    pub kind: FaultKind,
    /// What it hits; a role is resolved when the fault is injected.
    pub target: Target,
    /// When it is injected.
    pub when: When,
    /// How long it stays; none: `until`, or (kill without restart, restart) no end of its own.
    #[serde(rename = "for", with = "duration::optional")]
    pub length: Option<Duration>,
    /// It stays until this trigger matches.
    pub until: Option<Trigger>,
    /// Which direction of a link.
    pub direction: Direction,
    /// How a partition treats bytes.
    pub mode: PartitionMode,
    /// Added latency, or the delay of a resource write.
    #[serde(with = "duration::optional")]
    pub latency: Option<Duration>,
    /// Uniform jitter around the latency.
    #[serde(with = "duration::optional")]
    pub jitter: Option<Duration>,
    /// Work time of the slowed section (`slow-work`).
    #[serde(with = "duration::optional")]
    pub work: Option<Duration>,
    /// A restart keeps the data directory or empties it.
    pub data: RestartData,
    /// Time between the kill and the start of a restart.
    #[serde(with = "duration::optional")]
    pub down: Option<Duration>,
    /// What is done to a message.
    pub message: Option<MessagePlan>,
    /// Topology `sentinel`: how long a primary that was replaced stays writable once the fault itself is undone.
    #[serde(with = "duration::optional")]
    pub demote_after: Option<Duration>,
    /// What it needs beside times.
    pub measures: Measures,
}

impl FaultPlan {
    /// Whether it waits for a message, at its beginning or at its end.
    pub fn on_message(&self) -> bool {
        let on = match &self.when {
            When::On(trigger) => trigger.message.is_some(),
            _ => false,
        };
        on || self.until.as_ref().is_some_and(|t| t.message.is_some())
    }
}

/// Kinds of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// SIGSTOP, then SIGCONT, to a client's process group.
    ClientPause,
    /// SIGKILL to a client's process group; it stays dead.
    ClientKill,
    /// SIGKILL to a client's process group; a new process takes its place.
    ClientRestart,
    /// The client lives, but its critical section takes `work`.
    SlowWork,
    /// SIGSTOP, then SIGCONT, to a server.
    NodePause,
    /// SIGKILL to a server; started again when the fault ends.
    NodeKill,
    /// SIGKILL to a server and start after `down`; `data` kept or dropped.
    NodeRestart,
    /// A link is cut.
    Partition,
    /// A link is slowed.
    Latency,
    /// The target client loses its links to N−q nodes, so that a grant has exactly a quorum.
    QuorumThin,
    /// Writes of the target client reach the protected resource late.
    ResourceDelay,
    /// `SENTINEL FAILOVER`: another node is promoted although the primary is well.
    Failover,
    /// Another member of an etcd cluster becomes the leader although the leader is well.
    LeaderChange,
    /// The session that carries a lock is ended by somebody else.
    SessionExpiry,
    /// A server closes its clients' connections.
    NodeDropClients,
    /// A server forgets loaded scripts.
    NodeScriptFlush,
    /// A server is emptied.
    NodeFlush,
    /// A lock's key is deleted by an outsider.
    NodeDelete,
    /// A server evicts keys for a cache.
    NodeEvict,
    /// A server is out of memory.
    NodeFull,
    /// A server is busy with one slow command.
    NodeSlow,
    /// A server refuses writes.
    NodeReadonly,
    /// A link carries few bytes a second.
    Bandwidth,
    /// A link passes the end of a connection on late.
    SlowClose,
    /// A link carries bytes in pieces.
    Slicer,
    /// A link breaks connections after some bytes.
    LimitData,
    /// Packets to a server are lost.
    PacketLoss,
    /// Links are cut and healed one after the other.
    Swizzle,
    /// A server's wall clock steps or drifts.
    NodeClock,
    /// A client's wall clock steps or drifts.
    ClientClock,
    /// A server loses its power, and what it had not synced.
    NodePowerLoss,
    /// A rule keyed on single messages.
    Message,
}

/// What a fault hits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// The client of the last ok acquire that is not yet released (of the trigger's operation, if it is one).
    Holder,
    /// A client with an acquire in flight or in retries.
    Waiter,
    /// A node without which the holder's value is below a quorum.
    QuorumEdge,
    /// A client, such as `c1`.
    Client(String),
    /// All clients.
    Clients,
    /// A node by number from 1.
    Node(u32),
    /// All nodes.
    Nodes,
    /// The node that the Sentinels name as the primary; the leader of etcd's or ZooKeeper's members.
    Primary,
    /// A replica by number from 1, in the order of the nodes.
    Replica(u32),
    /// A Sentinel by number from 1.
    Sentinel(u32),
    /// All Sentinels.
    Sentinels,
    /// Links of some clients (`holder`, `waiter`, `c1`, `*`) to some nodes (`n1`, `*`, `quorum-edge`); with Sentinels also the
    /// links between servers (`primary`, `replicas`, `replica:1`, `sentinels`, `sentinel:1`, `servers`), either way.
    Link(String, String),
}

/// When a fault is injected.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum When {
    /// This long after the load phase begins.
    At(#[serde(with = "duration")] Duration),
    /// Again and again: exponential gaps with this mean, drawn from the seed.
    Every(#[serde(with = "duration")] Duration),
    /// When this operation is seen.
    On(Trigger),
    /// This long after another fault bit.
    After(String, #[serde(with = "duration")] Duration),
}

/// A rule over operations, matched in one place in the driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Trigger {
    /// `acquire`, `release`, `extend`, `work`, `write`, `read`; `message` where it waits for one.
    pub op: String,
    /// `invoke`, `ok`, `fail`, `info`; of a message `request` or `reply`.
    pub result: String,
    /// Only this client (`c1`), or `holder` / `other` than the client that the fault hit.
    pub client: Option<String>,
    /// The n-th match counts, from 1, counted from the moment `after` was met.
    pub nth: u32,
    /// Only once this fault has bitten.
    pub after: Option<String>,
    /// What the message must be like.
    pub message: Option<MessagePattern>,
}

/// Which direction of a link a fault hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Both.
    #[default]
    Both,
    /// From client to server.
    Requests,
    /// From server to client.
    Replies,
}

/// How a partition treats bytes in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartitionMode {
    /// Connections stay open, bytes vanish; the connection is closed at healing.
    #[default]
    BlackHole,
    /// Connections are closed and new ones refused.
    Reset,
    /// Bytes wait and are delivered at healing.
    Stall,
}

/// What a restart does to the data directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RestartData {
    /// Kept (what is kept depends on the node's persistence).
    #[default]
    Keep,
    /// Emptied before the start.
    Drop,
}

impl Plan {
    /// Whether clients reach the servers through taps.
    pub fn taps(&self) -> bool {
        let on_message =
            |step: &StepPlan| matches!(step, StepPlan::Until(t) if t.message.is_some());
        self.tap
            || self.faults.iter().any(FaultPlan::on_message)
            || self.steps.iter().any(on_message)
    }

    /// Whether this client does what the steps say, and no load of its own.
    pub fn scripted(&self, client: &str) -> bool {
        let of_client = |step: &StepPlan| matches!(step, StepPlan::Do(d) if d.client == client);
        self.steps.iter().any(of_client)
    }
}

/// How long a run takes after the cluster is ready: load, healing and tail. What the driver says first.
///
/// A lower bound: a window that outlasts the load is healed at its end; each fault that then still stands, and the
/// operations in flight, cost up to a call's bound more. A section that outlasts the tail is waited for.
pub fn expected_duration(plan: &Plan) -> Duration {
    plan.load.length + plan.load.tail.max(plan.load.work.longest())
}

/// The quiet that `deadlock` and `leak` need after the last fault: a lease, a retry and a second.
fn quiet(lock: &LockPlan) -> Duration {
    lock.ttl + lock.retry + Duration::from_secs(1)
}

/// What is allowed but probably not meant, one sentence each.
pub fn warnings(plan: &Plan) -> Vec<String> {
    let text = duration::text;
    let mut all = Vec::new();
    let (lock, load) = (&plan.lock, &plan.load);
    let lease = lock
        .name
        .as_deref()
        .and_then(names::lock_rules)
        .is_none_or(|r| r.lease);
    if lease && lock.ttl < Duration::from_millis(500) {
        all.push(format!(
            "lock.ttl = {}: below 500ms a busy machine alone outlasts the lease (new connections took up to 80 ms)",
            text(lock.ttl)
        ));
    }
    let longest = load.work.longest();
    if lease && longest >= lock.ttl && !lock.renew {
        all.push(format!(
            "load.work takes {} and the lease {}: without lock.renew every section outlasts its lease",
            text(longest),
            text(lock.ttl)
        ));
    }
    if lock.node_timeout >= lock.ttl && plan.cluster.topology == Topology::Independent {
        all.push(format!(
            "lock.node_timeout = {}: one hung node costs the whole lease; keep it far below lock.ttl",
            text(lock.node_timeout)
        ));
    }
    let quiet = quiet(lock);
    if load.tail < quiet {
        all.push(format!(
            "load.tail = {}: `deadlock` and `leak` can be judged only after TTL + retry + 1s = {}",
            text(load.tail),
            text(quiet)
        ));
    }
    if load.clients * load.workers <= load.keys {
        all.push("each worker has a key of its own: no lock is contended".to_owned());
    }
    all
}
