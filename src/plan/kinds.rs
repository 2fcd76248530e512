//! The table of fault kinds: what each does, to whom, with which keys, how it is undone and how it is proved.
//!
//! Owns the table [`kinds`], which the parser obeys, `schema` publishes and `list faults` prints. Must not know how a
//! fault is injected; `fault` does what this table says.
pub(super) mod clocks;
mod commands;
mod pipes;

use super::{FaultKind, Target};

/// What there is to know of one kind of fault.
#[derive(Debug, Clone, Copy)]
pub struct KindInfo {
    /// The kind.
    pub kind: FaultKind,
    /// Its name in a workload file.
    pub name: &'static str,
    /// What it is, in one line.
    pub about: &'static str,
    /// Exactly what happens to processes, and to bytes in flight.
    pub effect: &'static str,
    /// What it may hit, one example of each form ([`form`]).
    pub targets: &'static [&'static str],
    /// Keys that it takes beside [`COMMON_KEYS`].
    pub allowed: &'static [&'static str],
    /// Keys that it needs, `kind`, `target` and one of [`WHEN_KEYS`] apart. One of `for` and `until` is enough for `for`.
    pub required: &'static [&'static str],
    /// It needs independent nodes.
    pub quorum_only: bool,
    /// It asks nothing of the way in which servers are set up, so that runs with it and without it can share servers.
    pub plain: bool,
    /// How it is undone.
    pub inverse: &'static str,
    /// The proof, by another path than the injection, that it took effect and that it is gone.
    pub attestation: &'static str,
}

/// The form of a target, as it stands in a row's `targets`.
pub fn form(target: &Target) -> &'static str {
    match target {
        Target::Holder => "holder",
        Target::Waiter => "waiter",
        Target::QuorumEdge => "quorum-edge",
        Target::Client(_) => "client:c1",
        Target::Clients => "clients",
        Target::Node(_) => "node:1",
        Target::Nodes => "nodes",
        Target::Primary => "primary",
        Target::Replica(_) => "replica:1",
        Target::Sentinel(_) => "sentinel:1",
        Target::Sentinels => "sentinels",
        Target::Link(from, _) if super::fault::is_server(from) => "link:primary>replicas",
        Target::Link(..) => "link:holder>*",
    }
}

/// Keys that every fault takes; `delay` only beside `after`.
pub const COMMON_KEYS: &[&str] = &[
    "id", "kind", "target", "at", "every", "on", "after", "delay",
];

/// Keys that say when a fault is injected: exactly one of them.
pub const WHEN_KEYS: &[&str] = &["at", "every", "on", "after"];

const CLIENTS: &[&str] = &["holder", "waiter", "client:c1"];
const NODES: &[&str] = &["node:1", "nodes", "quorum-edge", "primary", "replica:1"];
/// Nodes, and the Sentinels beside them.
const SERVERS: &[&str] = &[
    "node:1",
    "nodes",
    "quorum-edge",
    "primary",
    "replica:1",
    "sentinel:1",
    "sentinels",
];
/// A client stands for all its links, a node for all links to it.
const LINKS: &[&str] = &[
    "link:holder>*",
    "holder",
    "waiter",
    "client:c1",
    "clients",
    "node:1",
    "nodes",
    "quorum-edge",
    "link:primary>replicas",
];

/// All kinds, in the order of [`FaultKind`].
pub fn kinds() -> &'static [KindInfo] {
    KINDS
}

/// The kind's row.
pub fn info(kind: FaultKind) -> &'static KindInfo {
    // The table is in the enum's order; a test holds that.
    &KINDS[kind as usize]
}

const KINDS: &[KindInfo] = &[
    KindInfo {
        kind: FaultKind::ClientPause,
        name: "client-pause",
        about: "a client stands still, as under a long garbage collection or a suspended machine",
        effect: "SIGSTOP to the client's process group. Answers already in its pipe are still read (up to 16 were \
                 seen); requests wait in its pipe and sockets and are served after SIGCONT, timers that ran out \
                 meanwhile fire at once. Its connections stay open and the server's replies wait in its socket.",
        targets: CLIENTS,
        allowed: &["for", "until"],
        required: &["for"],
        quorum_only: false,
        plain: true,
        inverse: "SIGCONT",
        attestation: "state T in /proc, then no longer T",
    },
    KindInfo {
        kind: FaultKind::ClientKill,
        name: "client-kill",
        about: "a client dies at once and stays dead",
        effect: "SIGKILL to the client's process group. Commands that its kernel had sent are executed; nothing else \
                 is. Its open operations end as info; its workers are over.",
        targets: CLIENTS,
        allowed: &[],
        required: &[],
        quorum_only: false,
        plain: true,
        inverse: "none: a crash is not undone",
        attestation: "the process is gone from /proc",
    },
    KindInfo {
        kind: FaultKind::ClientRestart,
        name: "client-restart",
        about: "a client dies at once; a new process takes its place",
        effect: "SIGKILL as in client-kill; when the fault ends a new process is started under the same name, with \
                 nothing of the old one's memory, and its workers go on.",
        targets: CLIENTS,
        allowed: &["for", "until"],
        required: &["for"],
        quorum_only: false,
        plain: true,
        inverse: "the new process",
        attestation: "the old process is gone from /proc, then the new one answers init",
    },
    KindInfo {
        kind: FaultKind::SlowWork,
        name: "slow-work",
        about: "the client lives, but its critical section takes longer",
        effect: "Nothing stops: one critical section takes `work` instead of the load's work time, that which the \
                 trigger's acquire began, else the next of the target's first worker. Renewal goes on.",
        targets: CLIENTS,
        allowed: &["work"],
        required: &["work"],
        quorum_only: false,
        plain: true,
        inverse: "the load's own work time",
        attestation: "the answer to `work` came no sooner than `work`, and the process was never stopped",
    },
    KindInfo {
        kind: FaultKind::NodePause,
        name: "node-pause",
        about: "a server hangs: it accepts connections and answers nothing",
        effect: "SIGSTOP to the server. The kernel still accepts connections and acknowledges bytes; commands wait \
                 in its sockets and are executed after SIGCONT, also those whose client gave up: a late SET gets its \
                 full TTL then. Keys do not expire actively meanwhile, but their time runs.",
        targets: SERVERS,
        allowed: &["for", "until", "demote_after"],
        required: &["for"],
        quorum_only: false,
        plain: true,
        inverse: "SIGCONT",
        attestation: "a direct PING gets no answer and the process is stopped, then PING is answered",
    },
    KindInfo {
        kind: FaultKind::NodeKill,
        name: "node-kill",
        about: "a server dies; it is started again when the fault ends",
        effect: "SIGKILL to the server: connections end, new ones are refused or end at once. What it had read and \
                 not answered may or may not have been executed. With persistence \"aof\" every acknowledged write \
                 survives, since the pages outlive the process; with \"none\" nothing does.",
        targets: NODES,
        allowed: &["for", "until", "demote_after"],
        required: &[],
        quorum_only: false,
        plain: true,
        inverse: "start with the data directory kept; without `for` or `until` at the end of the load",
        attestation: "the process is gone and a direct connection is refused, then a direct PING is answered under a \
                      new run id",
    },
    KindInfo {
        kind: FaultKind::NodeRestart,
        name: "node-restart",
        about: "a server dies and comes back, with its data or without",
        effect: "SIGKILL as in node-kill, then a start after `down` (at once by default). data = \"drop\" empties the \
                 data directory in between; data = \"keep\" keeps what the persistence kept.",
        targets: NODES,
        allowed: &["data", "down", "demote_after"],
        required: &[],
        quorum_only: false,
        plain: true,
        inverse: "the start is part of it",
        attestation: "a direct PING is answered under a new run id; the observer reads each lock key again",
    },
    KindInfo {
        kind: FaultKind::Partition,
        name: "partition",
        about: "links are cut, in both directions or one",
        effect: "In Toxiproxy. mode = \"black-hole\": connections stay open, bytes vanish for good, and each \
                 connection that was hit is closed at healing. mode = \"reset\": connections are closed and new ones \
                 are closed at once; both directions only. mode = \"stall\": bytes wait and are delivered at \
                 healing, in order. direction = \"requests\": the server sees nothing, its replies still pass; \
                 \"replies\": commands are executed and their answers lost.",
        targets: LINKS,
        allowed: &["for", "until", "mode", "direction", "demote_after"],
        required: &["for"],
        quorum_only: false,
        plain: true,
        inverse: "the toxic is removed, the proxy enabled",
        attestation: "a probe connection through the link gets no answer, then one is answered",
    },
    KindInfo {
        kind: FaultKind::Latency,
        name: "latency",
        about: "links are slowed",
        effect: "In Toxiproxy: bytes of one or both directions are held for `latency`, give or take `jitter`, and \
                 stay in order. direction = \"both\" adds it twice to a round trip. Bytes still held at healing are \
                 delivered at once.",
        targets: LINKS,
        allowed: &["for", "until", "latency", "jitter", "direction"],
        required: &["latency", "for"],
        quorum_only: false,
        plain: true,
        inverse: "the toxic is removed",
        attestation: "a probe's round trip through the link takes at least the latency, then less",
    },
    KindInfo {
        kind: FaultKind::QuorumThin,
        name: "quorum-thin",
        about: "a client reaches only a bare quorum, so that losing one more node loses its lock",
        effect: "The target's links to N−q nodes, drawn from the seed, are cut as by partition, with `mode`. \
                 Its grants then stand on exactly q nodes.",
        targets: &["client:c1", "waiter"],
        allowed: &["for", "until", "mode"],
        required: &[],
        quorum_only: true,
        plain: true,
        inverse: "as for partition; without `for` or `until` at the end of the load",
        attestation: "probes through the cut links get no answer, through the others they do",
    },
    KindInfo {
        kind: FaultKind::ResourceDelay,
        name: "resource-delay",
        about: "a holder's write to the protected resource is late on its way",
        effect: "The driver holds each write that the target sends while the fault lasts for `latency` on its way to \
                 the resource; the client waits for the answer.",
        targets: CLIENTS,
        allowed: &["latency", "for", "until"],
        required: &["latency", "for"],
        quorum_only: false,
        plain: true,
        inverse: "writes pass at once",
        attestation: "the resource's own log shows the write's arrival no sooner than `latency` after its sending",
    },
    KindInfo {
        kind: FaultKind::Failover,
        name: "failover",
        about: "a planned failover: the Sentinels promote a replica although the primary is well",
        effect: "SENTINEL FAILOVER at one Sentinel. The primary is not asked: it takes writes until it is told to follow \
                 the new one, which the Sentinels do after about 10 s and this fault does when it ends. What it \
                 accepted meanwhile is lost then. Clients that ask the Sentinels hear of the new primary after about \
                 a second.",
        targets: &["primary"],
        allowed: &["for", "until"],
        required: &["for"],
        quorum_only: false,
        plain: false,
        inverse: "REPLICAOF to the old primary",
        attestation: "ROLE of another node says master, then that of one node only, and the Sentinels name it",
    },
    commands::LEADER_CHANGE,
    commands::SESSION_EXPIRY,
    commands::NODE_DROP_CLIENTS,
    commands::NODE_SCRIPT_FLUSH,
    commands::NODE_FLUSH,
    commands::NODE_DELETE,
    commands::NODE_EVICT,
    commands::NODE_FULL,
    commands::NODE_SLOW,
    commands::NODE_READONLY,
    pipes::BANDWIDTH,
    pipes::SLOW_CLOSE,
    pipes::SLICER,
    pipes::LIMIT_DATA,
    pipes::PACKET_LOSS,
    pipes::SWIZZLE,
    clocks::NODE_CLOCK,
    clocks::CLIENT_CLOCK,
    clocks::NODE_POWER_LOSS,
    KindInfo {
        kind: FaultKind::Message,
        name: "message",
        about: "single messages are held, lost, delayed, answered with an error, doubled, or end their connection",
        effect: "In a proxy of the harness that reads RESP, in front of Toxiproxy. `on = { message = \"SET\", edge = \
                 \"reply\", nth = 2 }` names the first message, `count` how many of its kind are hit from there on \
                 (one; with `for` or `until`, all while the fault lasts). action = \"hold\": it waits until the \
                 fault ends; \"delay\": it passes `latency` later; \"drop\": the server never sees the command; \
                 \"swallow\": the client never sees the reply; \"error\": the client gets `error` instead, and at \
                 the request's edge the server never sees the command; \"reset\": both ends get a RST; \
                 \"black-hole\": nothing passes any more on that connection; \"duplicate\": the command is sent \
                 twice. What stands behind a message on its connection waits with it. connection = \"keep\": after \
                 a loss nothing more passes in that direction, since a stream cannot lose a part of itself; \
                 \"close\": the connection ends; of a command on hold only the client's end of it, so that the \
                 command outlives it, and what the client sends next may overtake.",
        targets: LINKS,
        allowed: &[
            "for",
            "until",
            "action",
            "error",
            "connection",
            "count",
            "latency",
        ],
        required: &["action"],
        quorum_only: false,
        plain: true,
        inverse: "the rule is removed, what waits goes on, what lies in a black hole is closed",
        attestation: "the wire's record: the message, and what became of it",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_enums_order_and_speaks_its_names() {
        for (index, row) in kinds().iter().enumerate() {
            assert_eq!(row.kind as usize, index, "{}", row.name);
            let name = serde_json::to_value(row.kind).expect("a name");
            assert_eq!(name, row.name);
            for key in row.required {
                assert!(row.allowed.contains(key), "{} needs {key}", row.name);
            }
        }
        assert_eq!(info(FaultKind::ResourceDelay).name, "resource-delay");
    }
}
