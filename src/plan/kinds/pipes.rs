//! Rows of the kinds that let links limp: slow, in pieces, for so many bytes, with lost packets, one after the other.
//!
//! Owns these rows of the table. Must not know how a fault is injected.
use super::{KindInfo, LINKS};
use crate::plan::FaultKind;

pub(super) const BANDWIDTH: KindInfo = KindInfo {
    kind: FaultKind::Bandwidth,
    name: "bandwidth",
    about: "links carry only so many kilobytes a second",
    effect: "In Toxiproxy: `rate` kilobytes a second, connection and direction; bytes stay in order. What is still held \
             at healing is delivered at once.",
    targets: LINKS,
    allowed: &["for", "until", "rate", "direction"],
    required: &["rate", "for"],
    quorum_only: false,
    plain: false,
    inverse: "the toxic is removed",
    attestation: "an ECHO of known size through the link takes at least its bytes over the rate, then less",
};

pub(super) const SLOW_CLOSE: KindInfo = KindInfo {
    kind: FaultKind::SlowClose,
    name: "slow-close",
    about: "links notice late that a connection was closed",
    effect: "In Toxiproxy: the end of a connection is passed on `latency` late, in both directions; bytes are not \
             delayed. A client of a server that closed its connection goes on to write into it.",
    targets: LINKS,
    allowed: &["for", "until", "latency"],
    required: &["latency", "for"],
    quorum_only: false,
    plain: false,
    inverse: "the toxic is removed",
    attestation: "the end that follows QUIT through the link comes no sooner than `latency`, then at once",
};

pub(super) const SLICER: KindInfo = KindInfo {
    kind: FaultKind::Slicer,
    name: "slicer",
    about: "links carry bytes in small pieces",
    effect: "In Toxiproxy: each chunk is cut into pieces of about `bytes`, `latency` apart (microseconds count). Commands \
             and answers arrive in parts, as through a bad middlebox.",
    targets: LINKS,
    allowed: &["for", "until", "bytes", "latency", "direction"],
    required: &["bytes", "latency", "for"],
    quorum_only: false,
    plain: false,
    inverse: "the toxic is removed",
    attestation: "an ECHO of twenty pieces through the link takes at least ten times `latency`, then less",
};

pub(super) const LIMIT_DATA: KindInfo = KindInfo {
    kind: FaultKind::LimitData,
    name: "limit-data",
    about: "links break each connection after so many bytes",
    effect: "In Toxiproxy: after `bytes` in the direction named the connection is closed, in the middle of a command or \
             an answer; the next one begins to count anew. Open connections count from the injection on.",
    targets: LINKS,
    allowed: &["for", "until", "bytes", "direction"],
    required: &["bytes", "for"],
    quorum_only: false,
    plain: false,
    inverse: "the toxic is removed",
    attestation: "an ECHO longer than `bytes` through the link ends before its answer is whole, then it is answered whole",
};

pub(super) const PACKET_LOSS: KindInfo = KindInfo {
    kind: FaultKind::PacketLoss,
    name: "packet-loss",
    about: "packets between Toxiproxy and a server are lost at random",
    effect: "A rule of iptables in the server's own network namespace, entered by nsenter: each packet from (requests) or \
             to (replies) Toxiproxy is dropped with the chance `loss`. TCP sends again, after 200 ms and then twice as \
             long each time, so answers are late and in order; a connection may break. The observer's own path is spared. \
             Needs servers in containers on this host, nsenter, iptables and root.",
    targets: &["node:1", "nodes", "quorum-edge"],
    allowed: &["for", "until", "loss", "direction"],
    required: &["loss", "for"],
    quorum_only: false,
    plain: false,
    inverse: "the rule is deleted",
    attestation: "of a batch of PINGs through the links some are a retransmission late, then none is",
};

pub(super) const SWIZZLE: KindInfo = KindInfo {
    kind: FaultKind::Swizzle,
    name: "swizzle",
    about: "links are cut one after the other, and healed one after the other in another order",
    effect: "Each link is cut as by partition with mode = \"black-hole\", `gap` after the one before (default 100ms), in an \
             order drawn from the seed; then, after `for`, healed in another order, again `gap` apart.",
    targets: LINKS,
    allowed: &["for", "until", "gap"],
    required: &["for"],
    quorum_only: false,
    plain: false,
    inverse: "the toxics are removed one by one",
    attestation: "a probe through each link gets no answer, then one is answered",
};
