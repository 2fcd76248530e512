//! Calls end within their bound, and a lock that nobody holds can be had.
//!
//! Owns the judgement of acquires without a grant, one by one. Two things are certain: a client that never answered,
//! though nothing stood in its way; and, by the tap, a call that tried for a second or more while no value but its own
//! stood on the servers. Faults in the way excuse both, single messages only while their rule is there.
use super::{Answer, CheckInfo};
use crate::analysis::{Analysis, Found, finding};
use crate::facts::{Facts, Vain, length, seconds};
use crate::names::NONE;
use crate::section::{NEVER, Ns};
use crate::servers::SeenKind;
use crate::verdict::{Blame, Class};

pub(super) const INFO: CheckInfo = CheckInfo {
    name: "progress",
    class: Class::Liveness,
    about: "a call never ended, or tried in vain for a lock that nobody else held",
    invariant: "I8",
    run,
};

/// A call must have tried for so long with nothing in its way, and with so many commands.
const LONG_NS: Ns = 1_000_000_000;
const MANY: usize = 3;

fn run(a: &mut Analysis) -> Answer {
    let f = &a.facts;
    let mut found = Found::default();
    for v in &f.vain {
        let what = unanswered(f, v).or_else(|| for_nothing(f, v));
        let Some(what) = what else { continue };
        let (client, key) = (f.names.text(v.client), f.names.text(v.key));
        found.add(None, || {
            let sentence = format!("{client} did not get {key} by {}: {what}", seconds(v.ret));
            let blame = Blame::Library(client.to_owned());
            let mut found = finding(f, "progress", blame, v.ret, &[], sentence);
            found.key = Some(key.to_owned());
            found
        });
    }
    Answer {
        found,
        ..Answer::default()
    }
}

/// The client did not answer in time, and nothing was in its way in the call's second half.
fn unanswered(f: &Facts, v: &Vain) -> Option<String> {
    let half = v.inv + (v.ret - v.inv) / 2;
    let quiet = f.faults.active(half, v.ret).next().is_none() && !f.faults.stalled_in(half, v.ret);
    let spoke = !f.lost.contains(&v.client) && !f.wire.is_empty();
    (v.deadline && quiet && spoke).then(|| {
        let waited = length(v.ret - v.inv);
        format!("the call did not end in {waited}")
    })
}

/// The call went on for long after the last fault was gone, sent commands, and met no value but its own.
fn for_nothing(f: &Facts, v: &Vain) -> Option<String> {
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
