//! Rows of the kinds that give a server commands: what an operator, a cache or a neighbour does to it.
//!
//! Owns these rows of the table. Must not know how a fault is injected.
use super::{KindInfo, NODES};
use crate::plan::FaultKind;

pub(super) const LEADER_CHANGE: KindInfo = KindInfo {
    kind: FaultKind::LeaderChange,
    name: "leader-change",
    about: "another member of an etcd cluster becomes the leader although the leader is well",
    effect: "MoveLeader at the leader, to the next member. Requests that the old leader had not finished are answered by an \
             error or not at all; leases start anew at the new leader, so they end later, never sooner.",
    targets: &["primary"],
    allowed: &[],
    required: &[],
    quorum_only: false,
    plain: false,
    inverse: "none needed: there is one leader again",
    attestation: "members, each asked directly, name another leader than before; at the end all that run name one",
};

pub(super) const SESSION_EXPIRY: KindInfo = KindInfo {
    kind: FaultKind::SessionExpiry,
    name: "session-expiry",
    about: "the ZooKeeper session that carries the lock is ended although its client lives",
    effect: "Somebody else connects with the session's id and password, which follows from the id, and closes it: the servers \
             end it by the same transaction as when its time is over, its nodes go, and the next in the queue may have the lock. \
             The client is told when it goes on with the session.",
    targets: &["holder"],
    allowed: &[],
    required: &[],
    quorum_only: false,
    plain: true,
    inverse: "none needed: the client opens a new session for its next try",
    attestation: "the leader lists the session and its node before, and neither after",
};

pub(super) const NODE_DROP_CLIENTS: KindInfo = KindInfo {
    kind: FaultKind::NodeDropClients,
    name: "node-drop-clients",
    about: "a server closes the connections of all its clients",
    effect: "CLIENT KILL TYPE normal: every connection but the observer's ends at once. What was read from them was \
             executed, and its answers are lost; clients connect again. Nothing stored changes.",
    targets: NODES,
    allowed: &[],
    required: &[],
    quorum_only: false,
    plain: false,
    inverse: "none needed: clients connect again",
    attestation: "a connection made before is closed, and none of the ids that CLIENT LIST gave before is left",
};

pub(super) const NODE_SCRIPT_FLUSH: KindInfo = KindInfo {
    kind: FaultKind::NodeScriptFlush,
    name: "node-script-flush",
    about: "a server forgets the scripts that clients have loaded",
    effect: "SCRIPT FLUSH SYNC: EVALSHA is answered by NOSCRIPT until a client sends the text again. Nothing stored \
             changes.",
    targets: NODES,
    allowed: &[],
    required: &[],
    quorum_only: false,
    plain: false,
    inverse: "none needed: clients send the text again",
    attestation: "a script that was loaded before, and that SCRIPT EXISTS knew, is known no more",
};

pub(super) const NODE_FLUSH: KindInfo = KindInfo {
    kind: FaultKind::NodeFlush,
    name: "node-flush",
    about: "somebody empties a server",
    effect: "FLUSHALL SYNC: all keys are gone at once, lock keys too; with an append-only file this is persisted. No \
             keyspace event tells of it, an invalidation does.",
    targets: NODES,
    allowed: &[],
    required: &[],
    quorum_only: false,
    plain: false,
    inverse: "none: what is gone is gone",
    attestation: "a key that was set and read before is gone, asked on another connection",
};

pub(super) const NODE_DELETE: KindInfo = KindInfo {
    kind: FaultKind::NodeDelete,
    name: "node-delete",
    about: "an outsider deletes the key of a lock that is held",
    effect: "DEL of the key of the trigger's operation, else of the last holder's, by a connection that is no lock \
             client's. Nothing else changes.",
    targets: NODES,
    allowed: &[],
    required: &[],
    quorum_only: false,
    plain: false,
    inverse: "none: what is gone is gone",
    attestation: "the value that was read before stands there no more, asked on another connection",
};

pub(super) const NODE_EVICT: KindInfo = KindInfo {
    kind: FaultKind::NodeEvict,
    name: "node-evict",
    about: "a cache on the same server pushes lock keys out",
    effect: "maxmemory is set 2 MB above what is used, maxmemory-policy to allkeys-lru; then cache keys of 64 kB are \
             written, until 400 keys more were evicted than before. Locks and cache share one server, and lock keys \
             are as good a victim as any.",
    targets: NODES,
    allowed: &["for", "until"],
    required: &[],
    quorum_only: false,
    plain: false,
    inverse: "maxmemory 0, noeviction, and the cache keys are removed; without `for` or `until` at the end of the load",
    attestation: "INFO shows more evicted keys than before, then maxmemory 0 and noeviction",
};

pub(super) const NODE_FULL: KindInfo = KindInfo {
    kind: FaultKind::NodeFull,
    name: "node-full",
    about: "a server is out of memory and takes no more writes",
    effect: "maxmemory 1 under noeviction: each command that may grow memory is answered by OOM, a SET too; DEL and \
             reads go on. Nothing is evicted.",
    targets: NODES,
    allowed: &["for", "until"],
    required: &["for"],
    quorum_only: false,
    plain: false,
    inverse: "maxmemory 0",
    attestation: "a SET on another connection is answered by OOM, then by OK",
};

pub(super) const NODE_SLOW: KindInfo = KindInfo {
    kind: FaultKind::NodeSlow,
    name: "node-slow",
    about: "one slow command keeps a server busy",
    effect: "A script that spins for at least `for` (4s at most; from 5s on a server answers BUSY by itself). The server is \
             single-threaded: everything else waits in its sockets and is executed afterwards, also what nobody waits \
             for any more. The process runs all the while.",
    targets: NODES,
    allowed: &["for"],
    required: &["for"],
    quorum_only: false,
    plain: false,
    inverse: "the script ends by itself",
    attestation: "a direct PING gets no answer while the process is not stopped, then PING is answered",
};

pub(super) const NODE_READONLY: KindInfo = KindInfo {
    kind: FaultKind::NodeReadonly,
    name: "node-readonly",
    about: "a server is demoted and refuses writes",
    effect: "REPLICAOF to an address where nobody listens: writes, scripts that write included, are answered by \
             READONLY. It keeps its keys, and none expires by its own doing until it is a primary again.",
    targets: NODES,
    allowed: &["for", "until"],
    required: &["for"],
    quorum_only: false,
    plain: false,
    inverse: "REPLICAOF NO ONE",
    attestation: "INFO names it a replica and a SET on another connection is answered by READONLY, then by OK",
};
