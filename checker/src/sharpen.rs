//! When a lease can have begun at the earliest: no lock grants inside of a promise that it gave to another.
//!
//! Owns the sharpening of D. Must not know how intervals are compared. The promises of one key come in the order of
//! their grants; each moves the beginning of later leases, never their answers.
//!
//! Why this is sound. Let A be asked for at i and answered at r, and let Z be promised the lock at i. Either A was
//! granted inside of a promise of another (then the lock broke that promise), or at the earliest e ≥ i that lies in
//! none. In the second case the servers count A's lease from e or later, and a holder B before e + ℓ(L) breaks it. So a
//! finding that rests on e says that one of the two happened. Where the servers were watched, that is not enough to
//! say who did it: there e is at most the time by which A's value was seen on a server; and on a single server it is at
//! least the earliest time at which the SET that was seen can have been done.
use crate::model::{LockKind, Model};
use crate::section::{Ns, Piece, Section};
use crate::servers::Servers;

/// Promises that are looked at for one grant, from the last: more could only move its lease further.
const DEPTH: usize = 16;

/// The promises of one key, as far as they are proved.
#[derive(Debug, Default)]
pub(crate) struct Proved {
    pieces: Vec<Piece>,
}

/// Whether leases can be sharpened at all: where one may hold at a time, and all stamps come from one clock.
pub(crate) fn applies(model: &Model) -> bool {
    let exclusive = matches!(model.kind, LockKind::Mutex | LockKind::Reentrant);
    exclusive && model.ttl_ms.is_some() && model.clock_uncertainty_ms == 0.0
}

impl Proved {
    /// Takes the pieces of the next section's promise.
    pub(crate) fn add(&mut self, pieces: &[Piece]) {
        self.pieces.extend_from_slice(pieces);
    }

    /// The earliest time at which `s` can have been granted if no promise was broken (its invoke, if there is none), where
    /// a server had its value from some time in `seen` on.
    pub(crate) fn earliest(&self, s: &Section, sections: &[Section], seen: (Ns, Ns)) -> Ns {
        let mut at = s.inv;
        let recent = &self.pieces[self.pieces.len().saturating_sub(DEPTH)..];
        // Each round leaves one promise behind.
        for _ in 0..recent.len() {
            let holder = recent.iter().find(|p| {
                p.start <= at && at < p.end && !sections[p.section as usize].same_owner(s)
            });
            match holder {
                Some(p) => at = p.end,
                None => break,
            }
        }
        let at = if at > s.ret { s.inv } else { at };
        at.min(seen.1).max(seen.0)
    }
}

/// When the first server had the value of `s`, as far as that was seen: `[earliest, latest]`. Where nobody looked, it
/// can be any time; where it was not seen, nothing is assumed.
pub(crate) fn seen(s: &Section, servers: &Servers, model: &Model) -> (Ns, Ns) {
    if !model.observed {
        return (s.inv, Ns::MAX);
    }
    let (mut count, mut earliest, mut latest) = (0, s.inv, Ns::MAX);
    for e in servers.sets_of(s.owner).map(|i| servers.at(i)) {
        if e.key == s.key {
            (count, earliest, latest) = (count + 1, e.not_before, latest.min(e.at));
        }
    }
    match count {
        0 => (s.inv, s.inv),
        1 if model.nodes == 1 => (earliest.clamp(s.inv, s.ret), latest),
        // Of several servers another may have had it before, unseen; and a value that is set again was set before.
        _ => (s.inv, latest),
    }
}
