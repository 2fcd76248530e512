//! Calls end within their stated bound; a waiter gets a free lock.
//!
//! Owns the judgement of calls and of free locks during the load. Must not know the tail: that is `deadlock`'s. Two
//! bounds, both stated elsewhere: a call's is the model's `call_ms` (plus the `wait_ms` of its invoke) + ε, or the
//! caller's own giving up; a free lock's is TTL + retry + ε, as for `deadlock`, counted from when the last holder let
//! go, the last acquire in doubt returned, and the last fault was proved to be gone. What a stopped or killed client, or a
//! machine that stood still, did not do in time is no finding; a server that hangs is no excuse for a call.
use super::deadlock::bound;
use super::{Answer, CheckInfo};
use crate::analysis::{Analysis, Found, finding_on};
use crate::crowd::Gap;
use crate::facts::{Facts, Late, Vain, length, seconds};
use crate::outage::{Past, outage};
use crate::proof;
use crate::section::Ns;
use crate::vain;
use crate::verdict::{Blame, Class, Finding};

pub(super) const INFO: CheckInfo = CheckInfo {
    name: "progress",
    class: Class::Liveness,
    about: "a call did not end within its stated bound, or a lock that nobody held was refused",
    invariant: "I8",
    run,
};

fn run(a: &mut Analysis) -> Answer {
    let f = &a.facts;
    let mut found = Found::default();
    for late in &f.late {
        if too_late(f, late) && !during_spare_outage(f, late) {
            let finding = || late_finding(f, "progress", late);
            found.add(None, finding);
        }
    }
    for gap in f.gaps.iter().filter(|g| in_load(f, g)) {
        if let Some(since) = refused_since(f, gap) {
            found.add(None, || gap_finding(f, "progress", gap, since));
        }
    }
    let unstated = f.model().call_ms.is_none();
    for v in &f.vain {
        if let Some(what) = vain::for_nothing(f, v) {
            found.add(None, || vain_finding(f, v, &what));
        }
    }
    Answer {
        found,
        unknown: unstated.then(|| "not asked: no bound is stated on calls".to_owned()),
        note: None,
    }
}

fn vain_finding(f: &Facts, v: &Vain, what: &str) -> Finding {
    let (client, key) = (f.names.text(v.client), f.names.text(v.key));
    let sentence = format!("{client} did not get {key} by {}: {what}", seconds(v.ret));
    let blame = Blame::Library(client.to_owned());
    let span = (v.inv, v.ret);
    finding_on(f, "progress", blame, v.key, span, &[], sentence)
        .proved(proof::progress::vain(f, v, what))
}

/// Over its bound by more than ε, or given up at it, with nothing that stopped the client or the machine.
pub(super) fn too_late(f: &Facts, late: &Late) -> bool {
    let over = late.ret - late.inv > late.bound.saturating_add(f.epsilon());
    let client = f.names.text(late.client);
    let hit = |w: &crate::faults::Window| {
        w.kind.starts_with("client-") && (w.client.as_deref() == Some(client) || w.target == client)
    };
    let stopped = f.faults.active(late.inv, late.ret).any(hit);
    let stopped = stopped || f.stopped.contains(&late.client);
    (over || late.given_up) && !stopped && !f.faults.stalled_in(late.inv, late.ret)
}

/// It was made while a minority of the nodes was lost and nothing else was wrong: `minority` judges it.
fn during_spare_outage(f: &Facts, late: &Late) -> bool {
    let span = (late.inv, late.ret);
    outage(f, Some(late.client), span, Past::Nothing).is_small(f)
}

pub(super) fn late_finding(f: &Facts, check: &str, late: &Late) -> Finding {
    let client = f.names.text(late.client);
    let what = if late.given_up {
        "was given up"
    } else {
        "was answered"
    };
    let sentence = format!(
        "the {} of {} by {client}, begun at {}, {what} after {}, though its bound is {}",
        late.op,
        f.names.text(late.key),
        seconds(late.inv),
        length(late.ret - late.inv),
        length(late.bound),
    );
    let blame = Blame::Library(client.to_owned());
    let span = (late.inv, late.ret);
    finding_on(f, check, blame, late.key, span, &[], sentence)
        .proved(proof::progress::late(f, late))
}

/// The gap was over before the quiet tail.
fn in_load(f: &Facts, gap: &Gap) -> bool {
    f.tail_from.is_none_or(|tail| gap.last.1 <= tail)
}

/// Since when the lock was free with nothing wrong, if a try that began after the bound was refused all the same.
fn refused_since(f: &Facts, gap: &Gap) -> Option<Ns> {
    // Without a lease whoever died holds for ever, and `service` judges tries in vain exactly.
    f.model().ttl_ms?;
    let mut since = gap.since;
    for w in f.faults.active(gap.since, gap.last.1) {
        since = since.max(w.healed?);
    }
    let seen = &f.servers.nodes;
    let blind = seen.iter().any(|n| f.servers.blind(*n, since, gap.last.1));
    (gap.last.0 >= since.saturating_add(bound(f)) && !blind).then_some(since)
}

pub(super) fn gap_finding(f: &Facts, check: &str, gap: &Gap, since: Ns) -> Finding {
    let before = f.granted_in(gap.key, 0, gap.since);
    let holder: Vec<u32> = before.last().copied().into_iter().collect();
    let sentence = format!(
        "{} was free from {} on, but the last of {} tries, begun at {}, was refused at {}, though the bound is {}",
        f.names.text(gap.key),
        seconds(since),
        gap.tries,
        seconds(gap.last.0),
        seconds(gap.last.1),
        length(bound(f)),
    );
    let span = (since, gap.last.1);
    let proof = proof::progress::gap(f, gap, since, bound(f), holder.first().copied());
    finding_on(f, check, Blame::Unknown, gap.key, span, &holder, sentence).proved(proof)
}
