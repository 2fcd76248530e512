//! N − q nodes lost, or hung, fail nothing.
//!
//! Owns what a minority must not cause: calls over their bound; a free lock that is refused all through the outage; a
//! release or an extension without success whose acquire had succeeded in the same outage, so that the quorum that
//! granted was there all along; a key that nobody at all is granted for longer than the bound, though many tries were
//! made, whatever they were answered. The bounds are those of `progress`, and have the stalls of the machine in them. That
//! a try fails, or a release of what was granted on a quorum of which a node is lost since, is no finding: that happens to
//! the best.
//!
//! Where members answer as one node, nobody says which of them answered: there only calls count whose acquire was invoked
//! after the outage was proved, since a leader that is lost takes an election along. A member whose links to the others are
//! cut is lost, too.
//!
//! How many such calls make a finding follows from how many were made. Say that a slow machine, for less than the
//! recorded stalls, spoils one call in twenty of a good lock, each by itself; then k failures of n calls are a finding
//! where so many or more would come about in less than one of a thousand runs (the upper tail of the binomial
//! distribution): 3 of 3, 5 of 10, 14 of 100.
use super::deadlock::bound;
use super::progress::{gap_finding, late_finding, too_late};
use super::{Answer, CheckInfo};
use crate::analysis::{Analysis, Found, finding, finding_on};
use crate::facts::{Facts, length, seconds};
use crate::faults::Window;
use crate::names::Name;
use crate::outage::{Past, counted_anew, loses_nodes, outage, servers, spare};
use crate::proof;
use crate::section::{Ended, NEVER, Ns, Section};
use crate::verdict::{Blame, Class, Finding};
use statrs::function::beta::beta_reg;

pub(super) const INFO: CheckInfo = CheckInfo {
    name: "minority",
    class: Class::Liveness,
    about: "with a minority of the servers down or hung, calls did not end, or did not succeed",
    invariant: "I9",
    run,
};

/// Tries that make a finding where nobody was granted the key: two that vote against each other have met often enough.
const TRIES_MIN: usize = 10;
/// The share of a good lock's calls that a slow machine may spoil.
const SPOILED: f64 = 0.05;
/// How often that may make a finding of a good lock.
const CHANCE: f64 = 0.001;

fn run(a: &mut Analysis) -> Answer {
    let f = &a.facts;
    if spare(f) == 0 {
        return Answer::unknown("not asked: no server can be spared");
    }
    let mut found = Found::default();
    let mut outages = 0u64;
    let small = |client, span| outage(f, client, span, Past::Nothing).is_small(f);
    for w in &f.faults.windows {
        let (from, to) = w.span();
        let lost = outage(f, w_client(f, w), (from, to.min(f.last)), Past::Stalls);
        outages += u64::from(w.bit.is_some() && lost.is_small(f));
    }
    for late in &f.late {
        if too_late(f, late) && small(Some(late.client), (late.inv, late.ret)) {
            found.add(None, || late_finding(f, "minority", late));
        }
    }
    let mut refused: Vec<Name> = Vec::new();
    for gap in &f.gaps {
        // Whoever let go of it in doubt may have left a lease, and a new leader counts that anew.
        let since = counted_anew(f, gap.since, gap.last.1, begun);
        let late = gap.last.0 >= since.saturating_add(bound(f));
        let span = (gap.since, gap.last.1);
        if late && outage(f, None, span, Past::Stalls).is_small(f) {
            refused.push(gap.key);
            found.add(None, || gap_finding(f, "minority", gap, since));
        }
    }
    for vain in nobody(f).filter(|v| !refused.contains(&v.key)) {
        found.add(None, || nobody_finding(f, vain));
    }
    let (failed, good): (Vec<Judged<'_>>, Vec<Judged<'_>>) =
        judged(f, small).partition(|call| call.failed);
    let all = failed.len() + good.len();
    if more_than_chance(failed.len(), all) {
        let failed: Vec<(u32, Ns, &str)> =
            failed.iter().map(|c| (c.section, c.inv, c.op)).collect();
        report(f, &failed, all, &mut found);
    }
    Answer {
        found,
        unknown: (outages == 0)
            .then(|| "no minority of the servers was lost on its own".to_owned()),
        note: None,
    }
}

/// Tries for a key in an outage in which nobody was granted it any more.
#[derive(Debug, Clone, Copy)]
struct Nobody {
    key: Name,
    /// The outage had begun and the last holder had let go.
    since: Ns,
    tries: usize,
    /// Invoke and return of the last one.
    last: (Ns, Ns),
}

/// Keys that nobody was granted for longer than the bound, a minority being lost all the while and nothing else wrong. What
/// a holder in doubt left on the servers is gone by then: its lease is in the bound.
fn nobody(f: &Facts) -> impl Iterator<Item = Nobody> + '_ {
    let windows = f.faults.windows.iter().filter(|w| loses_nodes(w));
    let outages = windows.filter_map(move |w| Some((w.bit?, w.heal.or(w.healed)?.min(f.last))));
    let outages = outages.filter(move |span| outage(f, None, *span, Past::Stalls).is_small(f));
    let mut keys: Vec<Name> = f.vain.iter().map(|v| v.key).collect();
    keys.sort_unstable();
    keys.dedup();
    outages.flat_map(move |(from, to)| {
        let each = keys.clone().into_iter();
        each.filter_map(move |key| nobody_granted(f, key, (from, to)))
    })
}

/// A leader that a fault took along is followed by another soon after; that is in the bound's ε.
fn begun(w: &Window) -> Ns {
    w.bit.unwrap_or_default()
}

fn nobody_granted(f: &Facts, key: Name, (from, to): (Ns, Ns)) -> Option<Nobody> {
    let holds = f.granted_in(key, 0, to).iter();
    let since = holds.fold(from, |since, i| since.max(f.section(*i).belief_end));
    let since = counted_anew(f, since, to, begun);
    let tries = f
        .vain
        .iter()
        .filter(|v| v.key == key && v.inv >= since && v.ret <= to);
    let tries: Vec<(Ns, Ns)> = tries.map(|v| (v.inv, v.ret)).collect();
    let last = tries.iter().copied().max()?;
    let long = last.0 >= since.saturating_add(bound(f));
    (long && tries.len() >= TRIES_MIN).then_some(Nobody {
        key,
        since,
        tries: tries.len(),
        last,
    })
}

fn nobody_finding(f: &Facts, v: Nobody) -> Finding {
    let sentence = format!(
        "nobody was granted {} from {} on, in {} tries, the last begun at {}, though no more than {} of {} servers were lost \
         and the bound is {}",
        f.names.text(v.key),
        seconds(v.since),
        v.tries,
        seconds(v.last.0),
        spare(f),
        servers(f),
        length(bound(f)),
    );
    let span = (v.since, v.last.1);
    let proof = proof::minority::nobody(f, v.since, v.tries, v.last, bound(f));
    finding_on(f, "minority", Blame::Unknown, v.key, span, &[], sentence).proved(proof)
}

/// The client that a window hits, if it hits one.
fn w_client(f: &Facts, w: &crate::faults::Window) -> Option<u32> {
    let client = w.client.as_deref()?;
    let mut sections = f.sections.iter().map(|s| s.client);
    sections.find(|c| f.names.text(*c) == client)
}

/// Whether `failed` of `all` calls are more than a slow machine explains: P(X ≥ failed), X ~ Binomial(all, [`SPOILED`]).
fn more_than_chance(failed: usize, all: usize) -> bool {
    let tail = |k: f64, n: f64| beta_reg(k, n - k + 1.0, SPOILED);
    failed > 0 && tail(failed as f64, all as f64) < CHANCE
}

/// A release or an extension that should have succeeded.
struct Judged<'a> {
    section: u32,
    inv: Ns,
    op: &'a str,
    failed: bool,
}

/// Releases and extensions inside of the promise of an acquire that succeeded in the same outage.
fn judged<'a>(
    f: &'a Facts,
    small: impl Fn(Option<u32>, (Ns, Ns)) -> bool + 'a,
) -> impl Iterator<Item = Judged<'a>> {
    let sections = (0u32..).zip(&f.sections);
    let ends = sections.flat_map(|(i, s)| {
        let release = (s.release, s.release_inv, s.release_ret, "release");
        let extensions = f.extensions_of(i).iter();
        let extensions = extensions.map(|e| (e.ended, e.inv, e.ret, "extend"));
        let calls = std::iter::once(release).chain(extensions);
        calls.map(move |c| (i, s, c))
    });
    ends.filter_map(move |(section, s, (ended, inv, ret, op))| {
        let answered = matches!(ended, Ended::Ok | Ended::Info | Ended::Fail);
        let to = if ret == NEVER {
            inv.saturating_add(f.epsilon())
        } else {
            ret
        };
        // Of members that answer as one, the grant shows that a majority was there only where the outage had begun.
        let begun = || {
            let mut windows = f.faults.active(s.inv, to);
            f.model().members == 0 || windows.all(|w| w.bit.is_some_and(|bit| bit <= s.inv))
        };
        let small = || small(Some(s.client), (s.inv, to)) && begun();
        let counts = answered && promised_until(s, inv) && small();
        counts.then_some(Judged {
            section,
            inv,
            op,
            failed: ended != Ended::Ok,
        })
    })
}

/// The first promise, as granted, still ran.
fn promised_until(s: &Section, at: Ns) -> bool {
    s.inv.saturating_add(s.lease / 2) > at
}

fn report(f: &Facts, failed: &[(u32, Ns, &str)], all: usize, found: &mut Found) {
    let (i, inv, op) = failed[0];
    let s = f.section(i);
    let client = f.names.text(s.client);
    found.add(None, || {
        let sentence = format!(
            "A ({client}) was granted {} at {} while no more than {} of {} servers were lost, but its {op}, begun at {}, did \
             not succeed; nor did {} more of {all} such calls",
            f.names.text(s.key),
            seconds(s.ret),
            spare(f),
            servers(f),
            seconds(inv),
            failed.len() - 1,
        );
        let blame = Blame::Library(client.to_owned());
        finding(f, "minority", blame, inv, &[i], sentence)
            .proved(proof::minority::in_vain(f, failed, all, spare(f)))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_many_failures_are_no_chance() {
        for (least, all) in [(3, 3), (3, 4), (4, 5), (5, 10), (14, 100)] {
            assert!(more_than_chance(least, all), "{least} of {all}");
            assert!(!more_than_chance(least - 1, all), "{} of {all}", least - 1);
        }
        assert!(!more_than_chance(0, 0) && !more_than_chance(1, 1) && !more_than_chance(2, 2));
    }
}
