//! Where a library promises renewal, or a notice of loss: its holder knows at or before its lease's end.
//!
//! Owns the choice of overruns that nothing forced (no stop of the client, no fault, no stall meanwhile), and of the
//! holders that went on though their lease was over by any count, with nobody else to profit. The time between the
//! lease's end and the notice is the *zombie window*. Where another holder proves that the lease is over, no time is
//! allowed for it; where none does, the whole lease from the last confirmed answer, its drift, and ε.
use super::{Answer, CheckInfo};
use crate::analysis::{Analysis, Found, finding};
use crate::facts::{Facts, length, seconds};
use crate::proof;
use crate::section::{Ended, NEVER, Ns};
use crate::verdict::{Blame, Class};
use std::collections::HashSet;

pub(super) const INFO: CheckInfo = CheckInfo {
    name: "notice",
    class: Class::Library,
    about: "a library that promises renewal or a notice let its holder go on past its lease, with nothing in its way",
    invariant: "I7",
    run,
};

fn run(a: &mut Analysis) -> Answer {
    if !a.facts.model().promises_notice {
        return Answer::unknown("not asked: the library promises neither renewal nor a notice");
    }
    let f = &a.facts;
    let mut found = Found::default();
    let told: HashSet<u32> = a.unforced.iter().map(|p| p.a).collect();
    let alone = (0u32..f.sections.len() as u32).filter(|i| !told.contains(i));
    let mut stood_still = a.stood_still.clone();
    for (i, over) in alone.filter_map(|i| zombie(f, i).map(|over| (i, over))) {
        let s = f.section(i);
        if f.faults.stalled_in(s.inv, over) {
            stood_still.insert(i);
            continue;
        }
        let client = f.names.text(s.client);
        let blame = Blame::Library(client.to_owned());
        found.add(None, || {
            let sentence = format!(
                "A ({client}) was not told that its lease of {} was over by {} at the latest: it went on for {}",
                f.names.text(s.key),
                seconds(over),
                length(s.belief_end.min(f.last) - over),
            );
            finding(f, "notice", blame, over, &[i], sentence)
                .proved(proof::notice::zombie(f, i, over, confirmed(f, i)))
        });
    }
    for pair in &a.unforced {
        let (s, b) = (f.section(pair.a), f.section(pair.b));
        let client = f.names.text(s.client);
        let blame = Blame::Library(client.to_owned());
        found.add(Some(pair.cluster), || {
            let zombie = length(s.belief_end.min(pair.to).saturating_sub(s.promise_end));
            let sentence = format!(
                "A ({client}) was not told that its lease of {} ended at {}: it went on for {zombie}, while B ({}) held it from {}",
                f.names.text(s.key),
                seconds(s.promise_end),
                f.names.text(b.client),
                seconds(b.ret),
            );
            finding(f, "notice", blame, pair.from, &[pair.a, pair.b], sentence)
                .proved(proof::notice::notice(f, *pair))
        });
    }
    // What is found is found all the same.
    let unsure = (!stood_still.is_empty()).then(|| {
        format!(
            "{} holders that went on past their lease are not judged: the machine stood still meanwhile",
            stood_still.len()
        )
    });
    Answer {
        found,
        unknown: unsure,
        ..Answer::default()
    }
}

/// When the lease of a holder that still believes was over by any count, if nothing but perhaps a stall of the machine
/// forced it to go on.
///
/// Its own renewals are not in the history unless the servers or the library tell of them, so a value that was seen
/// re-timed, or seen on a server later, is no zombie's.
fn zombie(f: &Facts, i: u32) -> Option<Ns> {
    let s = f.section(i);
    if s.lease == NEVER || !f.model().observed || f.owned_by(s.owner) != Some(i) {
        return None;
    }
    let last = confirmed(f, i);
    let drift = (last.1 as f64 * f.model().drift) as Ns;
    let over = last
        .0
        .saturating_add(last.1)
        .saturating_add(drift)
        .saturating_add(f.epsilon());
    let went_on = over < s.belief_end.min(f.last);
    let forced = || f.faults.active(s.inv, over).next().is_some();
    // Gone from every server that had it, and by its own time.
    let stays = f.servers.stays(s.key, s.owner, s.ret);
    let gone = || {
        !stays.is_empty()
            && stays
                .iter()
                .all(|x| x.loss.is_some_and(|l| f.servers.at(l.seen).at <= over))
    };
    (went_on && !forced() && gone()).then_some(over)
}

/// When a section's lease was last answered for, and the longest lease that it asked for.
fn confirmed(f: &Facts, i: u32) -> (Ns, Ns) {
    let s = f.section(i);
    let confirmed = f.extensions_of(i).iter().filter(|e| e.ended == Ended::Ok);
    confirmed.fold((s.ret, s.lease), |(at, lease), e| {
        (at.max(e.ret), lease.max(e.lease))
    })
}
