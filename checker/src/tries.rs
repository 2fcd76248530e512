//! Failed tries as evidence: a lock without lease that was free all through a try should have been granted.
//!
//! Owns the times in which such a lock may have been held. Must not know how they are reported. Goes to the check
//! `service`.
//!
//! Each section holds from some time in its acquire to some time in its release, and the sections of a key whose
//! cores are disjoint follow each other in the order of the cores. So section k can have held from the later of its
//! acquire's invoke and the end of the core before, until the earlier of its release's return and the start of the
//! next core; and all of them can have held for as long as that at once. A *ghost* (an acquire without a definite
//! answer) may have held from its invoke on: after the last section, or, where its worker cleaned up later on, in
//! the gap in which that clean-up was. A try that touches none of these times is a violation.
use crate::facts::{Facts, Ghost, Try};
use crate::mutant::{self, Mutant};
use crate::names::Name;
use crate::section::{NEVER, Ns};

/// A span in which the lock may have been held, its ends included.
type Span = (Ns, Ns);
/// A core and how far the hold around it can reach: (acquire.inv, core start, core end, release.ret).
type Core = (Ns, Ns, Ns, Ns);

/// The tries during which nobody can have held the lock, each with the end of the hold before it (0: none) and the
/// beginning of the next ([`NEVER`]: none).
pub(crate) fn in_vain(f: &Facts) -> Vec<(Try, Span)> {
    let mut tries = f.tries.clone();
    tries.sort_unstable_by_key(|t| (t.key, t.inv, t.ret));
    let mut ghosts = f.ghosts.clone();
    ghosts.sort_unstable_by_key(|g| (g.key, g.inv, g.release));
    let mut found = Vec::new();
    for of_key in tries.chunk_by(|a, b| a.key == b.key) {
        let key = of_key[0].key;
        let Some(cores) = cores(f, key) else {
            continue; // The holders themselves overlapped: that is what is wrong.
        };
        let start = ghosts.partition_point(|g| g.key < key);
        let end = ghosts.partition_point(|g| g.key <= key);
        let held = merged(spans(&cores, &ghosts[start..end]));
        // Both stamps may be off, each in its own way.
        let u = f.uncertainty().saturating_mul(2);
        for t in of_key {
            let (inv, ret) = (t.inv.saturating_sub(u), t.ret.saturating_add(u));
            let next = held.partition_point(|h| mutant::before(Mutant::TryEnd, h.0, ret));
            let last = next.checked_sub(1).map_or(0, |i| held[i].1);
            if next == 0 || !mutant::before(Mutant::TryStart, inv, last) {
                found.push((*t, (last, held.get(next).map_or(NEVER, |h| h.0))));
            }
        }
    }
    found
}

/// The cores of a key in order; none if two overlap.
fn cores(f: &Facts, key: Name) -> Option<Vec<Core>> {
    let sections = f.granted_in(key, 0, NEVER).iter().map(|i| f.section(*i));
    // Until a release was answered ok, that or one that was begun before, it may have let go or hold on.
    let cores = sections.map(|s| (s.inv, s.ret, s.belief_end, s.release_ret));
    let mut cores: Vec<Core> = cores.collect();
    cores.sort_unstable_by_key(|c| (c.1, c.2));
    let disjoint = cores.windows(2).all(|w| w[0].2 <= w[1].1);
    disjoint.then_some(cores)
}

fn spans(cores: &[Core], ghosts: &[Ghost]) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::with_capacity(cores.len() + ghosts.len());
    for (i, c) in cores.iter().enumerate() {
        let before = i.checked_sub(1).map_or(0, |i| cores[i].2);
        let next = cores.get(i + 1).filter(|_| !mutant::wrong(Mutant::Reach));
        let after = next.map_or(NEVER, |c| c.1);
        spans.push((c.0.max(before), c.3.min(after)));
    }
    for g in ghosts {
        // The last core that begins before the release (or the end), and where it ends.
        let i = cores.partition_point(|c| !mutant::before(Mutant::GhostCore, g.release.0, c.1));
        let last = i.checked_sub(1).map_or(0, |i| cores[i].2);
        if last == NEVER && g.release.0 == NEVER {
            continue;
        }
        // Inside of a core the ghost cannot have held; from the release on, it may have in a later gap.
        let from = if last <= g.release.0 && !mutant::wrong(Mutant::GhostGap) {
            last
        } else {
            g.release.0
        };
        spans.push((g.inv.max(from), g.release.1));
    }
    spans
}

/// The spans joined where they touch, in order.
fn merged(mut spans: Vec<Span>) -> Vec<Span> {
    spans.retain(|s| s.0 <= s.1);
    spans.sort_unstable();
    let mut joined: Vec<Span> = Vec::with_capacity(spans.len());
    for s in spans {
        match joined.last_mut() {
            Some(last) if s.0 <= last.1 => last.1 = last.1.max(s.1),
            _ => joined.push(s),
        }
    }
    joined
}
