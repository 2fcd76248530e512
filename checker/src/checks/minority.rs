//! N − q nodes lost, or hung, fail nothing.
//!
//! Owns what a minority must not cause: calls over their bound; a free lock that is refused all through the outage; a
//! release or an extension without success whose acquire had succeeded in the same outage, so that the quorum that
//! granted was there all along. The bounds are those of `progress`. That a try fails, or a release of what was granted on
//! a quorum of which a node is lost since, is no finding: that happens to the best.
//!
//! How many such calls make a finding follows from how many were made. Say that a slow machine, for less than the
//! recorded stalls, spoils one call in twenty of a good lock, each by itself; then k failures of n calls are a finding
//! where so many or more would come about in less than one of a thousand runs (the upper tail of the binomial
//! distribution): 3 of 3, 5 of 10, 14 of 100.
use super::deadlock::bound;
use super::progress::{gap_finding, late_finding, too_late};
use super::{Answer, CheckInfo};
use crate::analysis::{Analysis, Found, finding};
use crate::facts::{Facts, seconds};
use crate::outage::{Outage, outage, spare};
use crate::proof;
use crate::section::{Ended, NEVER, Ns, Section};
use crate::verdict::{Blame, Class};
use statrs::function::beta::beta_reg;

pub(super) const INFO: CheckInfo = CheckInfo {
    name: "minority",
    class: Class::Liveness,
    about: "with a minority of the servers down or hung, calls did not end, or did not succeed",
    invariant: "I9",
    run,
};

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
    let small =
        |client, from, to| matches!(outage(f, client, from, to), Outage::Nodes(n) if n <= spare(f));
    for w in &f.faults.windows {
        let (from, to) = w.span();
        outages += u64::from(w.bit.is_some() && small(w_client(f, w), from, to.min(f.last)));
    }
    for late in &f.late {
        if too_late(f, late) && small(Some(late.client), late.inv, late.ret) {
            found.add(None, || late_finding(f, "minority", late));
        }
    }
    for gap in &f.gaps {
        let late = gap.last.0 >= gap.since.saturating_add(bound(f));
        if late && small(None, gap.since, gap.last.1) {
            found.add(None, || gap_finding(f, "minority", gap, gap.since));
        }
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
    small: impl Fn(Option<u32>, Ns, Ns) -> bool + 'a,
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
        let counts = answered && promised_until(s, inv) && small(Some(s.client), s.inv, to);
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
            f.model().nodes,
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
