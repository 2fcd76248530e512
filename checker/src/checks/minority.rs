//! N − q nodes lost, or hung, fail nothing.
//!
//! Owns what a minority must not cause: calls over their bound; a free lock that is refused all through the outage; a
//! release or an extension without success whose acquire had succeeded in the same outage, so that the quorum that
//! granted was there all along. The bounds are those of `progress`. That a try fails, or a release of what was granted on
//! a quorum of which a node is lost since, is no finding: that happens to the best.
use super::deadlock::bound;
use super::progress::{gap_finding, late_finding, too_late};
use super::{Answer, CheckInfo};
use crate::analysis::{Analysis, Found, finding};
use crate::facts::{Facts, seconds};
use crate::outage::{Outage, outage, spare};
use crate::proof;
use crate::section::{Ended, NEVER, Ns, Section};
use crate::verdict::{Blame, Class};

pub(super) const INFO: CheckInfo = CheckInfo {
    name: "minority",
    class: Class::Liveness,
    about: "with a minority of the servers down or hung, calls did not end, or did not succeed",
    invariant: "I9",
    run,
};

/// Releases and extensions in vain that make a finding: a slow machine can spoil one or two.
const IN_VAIN_MIN: usize = 3;

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
    let failed: Vec<(u32, Ns, &str)> = in_vain(f, small).collect();
    if failed.len() >= IN_VAIN_MIN {
        report(f, &failed, &mut found);
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

/// Releases and extensions without success, inside of the promise of an acquire that succeeded in the same outage.
fn in_vain<'a>(
    f: &'a Facts,
    small: impl Fn(Option<u32>, Ns, Ns) -> bool + 'a,
) -> impl Iterator<Item = (u32, Ns, &'static str)> + 'a {
    let sections = (0u32..).zip(&f.sections);
    let ends = sections.flat_map(|(i, s)| {
        let release = (s.release, s.release_inv, s.release_ret, "release");
        let extensions = f.extensions_of(i).iter();
        let extensions = extensions.map(|e| (e.ended, e.inv, e.ret, "extend"));
        let calls = std::iter::once(release).chain(extensions);
        calls.map(move |c| (i, s, c))
    });
    ends.filter_map(move |(i, s, (ended, inv, ret, op))| {
        let failed = matches!(ended, Ended::Info | Ended::Fail);
        let to = if ret == NEVER {
            inv.saturating_add(f.epsilon())
        } else {
            ret
        };
        (failed && promised_until(s, inv) && small(Some(s.client), s.inv, to))
            .then_some((i, inv, op))
    })
}

/// The first promise, as granted, still ran.
fn promised_until(s: &Section, at: Ns) -> bool {
    s.inv.saturating_add(s.lease / 2) > at
}

fn report(f: &Facts, failed: &[(u32, Ns, &str)], found: &mut Found) {
    let (i, inv, op) = failed[0];
    let s = f.section(i);
    let client = f.names.text(s.client);
    found.add(None, || {
        let sentence = format!(
            "A ({client}) was granted {} at {} while no more than {} of {} servers were lost, but its {op}, begun at {}, did \
             not succeed; nor did {} more",
            f.names.text(s.key),
            seconds(s.ret),
            spare(f),
            f.model().nodes,
            seconds(inv),
            failed.len() - 1,
        );
        let blame = Blame::Library(client.to_owned());
        finding(f, "minority", blame, inv, &[i], sentence)
            .proved(proof::minority::in_vain(f, failed, spare(f)))
    });
}
