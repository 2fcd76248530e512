//! Calls that were made in vain: trying for a lock that nobody else held.
//!
//! Owns what is certain without a stated bound: by the tap, a call that tried for a second or more while no value but
//! its own stood on the servers. Faults in the way excuse it, single messages only while their rule is there. The check
//! `progress` reports it.
use crate::facts::{Facts, Vain, seconds};
use crate::names::NONE;
use crate::section::{NEVER, Ns};
use crate::servers::SeenKind;

/// A call must have tried for so long with nothing in its way, and with so many commands.
const LONG_NS: Ns = 1_000_000_000;
const MANY: usize = 3;

/// The call went on for long after the last fault was gone, sent commands, and met no value but its own.
pub(crate) fn for_nothing(f: &Facts, v: &Vain) -> Option<String> {
    let model = f.model();
    if f.wire.is_empty() || !model.observed || !f.ended {
        return None;
    }
    let windows = f.faults.active(v.inv, v.ret);
    let from = windows.map(|w| w.span().1).fold(v.inv, Ns::max);
    if from == NEVER || v.ret.saturating_sub(from) < LONG_NS {
        return None;
    }
    let sent = f.wire.sent_in(v.client, from, v.ret);
    if sent < MANY {
        return None;
    }
    let lease = model.ttl_ms?.saturating_mul(1_000_000);
    let before = from.saturating_sub(lease.saturating_mul(2));
    let values = f.servers.between(v.key, before, v.ret);
    let foreign = values.map(|i| (i, f.servers.at(i))).any(|(i, s)| {
        let value = matches!(s.kind, SeenKind::Set | SeenKind::Value);
        let own = s.owner != NONE && !f.wire.carried(v.client, s.owner).is_empty();
        let gone = || f.servers.loss(i).map(|l| f.servers.at(l.seen).at);
        value && !own && gone().is_none_or(|at| at >= from)
    });
    (!foreign).then(|| {
        format!(
            "from {} on it sent {sent} commands, and no value but its own stood on the servers",
            seconds(from)
        )
    })
}
