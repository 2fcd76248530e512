//! Rows of the kinds that need the preload shim: wrong clocks, and power that fails before a sync.
//!
//! Owns these rows of the table, and which kinds these are. Must not know how a fault is injected.
use super::{CLIENTS, KindInfo, NODES};
use crate::plan::FaultKind;

/// Whether a fault of this kind needs the shim in every server.
pub(in crate::plan) fn shims_servers(kind: FaultKind) -> bool {
    matches!(kind, FaultKind::NodeClock | FaultKind::NodePowerLoss)
}

pub(super) const NODE_CLOCK: KindInfo = KindInfo {
    kind: FaultKind::NodeClock,
    name: "node-clock",
    about: "a server's wall clock steps, or runs at another speed",
    effect: "A preload shim adds `step` (\"+60s\", \"-60s\") to the server's time of day, at once, and from then on `drift` \
             seconds a second (0.05 is 5 % fast). Redis keeps times to live as wall clock times, so a step forward ends \
             leases early and a step back makes them longer. Monotonic clocks are true. Healing a step is a step the \
             other way: after a step back it ends leases early, which were granted in between. Servers of the run are \
             started with the shim (cc is needed). On ZooKeeper the target is `leader`: its sessions run on the \
             monotonic clock, and no answer of a follower tells the time.",
    targets: NODES,
    allowed: &["for", "until", "step", "drift"],
    required: &[],
    quorum_only: false,
    plain: false,
    inverse: "the true time again, which is a step itself; without `for` or `until` at the end of the load",
    attestation: "TIME on a direct connection, against this machine's clock, has gone on by the step, and PTTL of a key \
                  has fallen by it; of a drift, TIME goes on at that speed; then TIME is true again. Of ZooKeeper's leader: \
                  the ctime by which it stamps a new node, in place of both",
};

pub(super) const CLIENT_CLOCK: KindInfo = KindInfo {
    kind: FaultKind::ClientClock,
    name: "client-clock",
    about: "a client's wall clock steps, or runs at another speed",
    effect: "As node-clock, for the client's process. Monotonic clocks are true, so only a library that takes leases by \
             the time of day is hit. Programs that are linked statically (Go) do not load the shim: then the fault \
             does not bite.",
    targets: CLIENTS,
    allowed: &["for", "until", "step", "drift"],
    required: &[],
    quorum_only: false,
    plain: false,
    inverse: "the true time again; without `for` or `until` at the end of the load",
    attestation: "/proc/PID/maps of the client shows the shim and its page, and `date` on that same page tells the time \
                  that is meant, then the true one",
};

pub(super) const NODE_POWER_LOSS: KindInfo = KindInfo {
    kind: FaultKind::NodePowerLoss,
    name: "node-power-loss",
    about: "a server's machine loses its power: what was not synced is gone",
    effect: "SIGKILL, then, before the server reads a byte at its next start (after `down`, at once by default), each file \
             is cut to the size that its last fsync or fdatasync had covered. The shim notes that size at each such call; \
             what was written but not synced is lost, all else stays: names of files survive, and the disk is honest \
             about its syncs. Needs persistence; \"aof-everysec\" may lose the last second, \"aof-always\" nothing that \
             was answered.",
    targets: NODES,
    allowed: &["down", "demote_after"],
    required: &[],
    quorum_only: false,
    plain: false,
    inverse: "the start is part of it",
    attestation: "another run id, the shim's note of the cut, and the size of the append-only file in INFO, which is that \
                  of before less what was cut",
};
