//! Who holds and who tries for each key, as the events come.
//!
//! Owns contention, the beginning of each wait, and the times in which a lock that nobody held was tried for in vain.
//! Must not know leases or checks. Waits go into sections, gaps to the checks `progress` and `minority`.
use crate::hash::Map;
use crate::names::Name;
use crate::section::{NEVER, Ns};
use std::collections::BTreeSet;

/// A worker of a client, and a key.
pub(crate) type Seat = (Name, u32, Name);

/// A gap is kept if its last try began at least this long after the lock was let go.
const GAP_MIN: Ns = 1_000_000_000;
/// Gaps kept.
const GAPS_MAX: usize = 10_000;

/// A time in which nobody held a key, no acquire was in doubt, and all that tried for it were refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gap {
    pub key: Name,
    /// Since when nobody held it.
    pub since: Ns,
    pub tries: u64,
    /// Invoke and return of the last try that was refused.
    pub last: (Ns, Ns),
}

/// A worker that never got what it tried for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Waiting {
    pub key: Name,
    pub client: Name,
    pub worker: u32,
    /// Its first try.
    pub since: Ns,
}

#[derive(Debug, Clone, Copy, Default)]
struct Crowd {
    trying: u32,
    holding: u32,
    since: Ns,
    tries: u64,
    last: (Ns, Ns),
}

/// All keys.
#[derive(Debug, Default)]
pub(crate) struct Crowds {
    keys: Map<Name, Crowd>,
    /// The first try of each worker that waits.
    waiting: Map<Seat, Ns>,
    /// The workers that ever tried in vain.
    in_vain: BTreeSet<Seat>,
    pub gaps: Vec<Gap>,
}

impl Crowds {
    /// A worker tries for a key; whether another holds it or tries, too.
    pub(crate) fn tries(&mut self, seat: Seat, at: Ns) -> bool {
        self.waiting.entry(seat).or_insert(at);
        let crowd = self.keys.entry(seat.2).or_default();
        let contended = crowd.trying + crowd.holding > 0;
        crowd.trying += 1;
        contended
    }

    /// A try was answered.
    pub(crate) fn answered(&mut self, key: Name) {
        let crowd = self.keys.entry(key).or_default();
        crowd.trying = crowd.trying.saturating_sub(1);
    }

    /// A worker holds the key from now on: since when it had waited, and whether it ever tried in vain.
    pub(crate) fn granted(&mut self, seat: Seat, at: Ns) -> (Ns, bool) {
        self.end_gap(seat.2);
        self.keys.entry(seat.2).or_default().holding += 1;
        // Stamps of different processes need not rise: what was tried later than this is no earlier try.
        let since = self.waiting.remove(&seat).map_or(at, |first| first.min(at));
        (since, self.in_vain.contains(&seat))
    }

    /// A worker that holds already was granted the key once more.
    pub(crate) fn waits_no_more(&mut self, seat: Seat) {
        self.waiting.remove(&seat);
    }

    /// A try was refused, or its outcome is in doubt: then it may hold.
    pub(crate) fn denied(&mut self, seat: Seat, try_: (Ns, Ns), doubt: bool) {
        self.in_vain.insert(seat);
        let key = seat.2;
        if doubt {
            self.end_gap(key);
        }
        let crowd = self.keys.entry(key).or_default();
        if doubt {
            crowd.since = crowd.since.max(try_.1);
        } else if crowd.holding == 0 {
            crowd.tries += 1;
            crowd.last = try_;
        }
    }

    /// A holder lets go, is told that it lost the lock, or dies.
    pub(crate) fn let_go(&mut self, key: Name, at: Ns) {
        let crowd = self.keys.entry(key).or_default();
        crowd.holding = crowd.holding.saturating_sub(1);
        crowd.since = crowd.since.max(at);
    }

    /// A release did not happen.
    pub(crate) fn holds_on(&mut self, key: Name) {
        self.keys.entry(key).or_default().holding += 1;
    }

    /// A client is gone, and waits no more.
    pub(crate) fn died(&mut self, client: Name) {
        self.waiting.retain(|seat, _| seat.0 != client);
    }

    /// All is read: the gaps that are still open, and who still waits.
    pub(crate) fn finish(&mut self) -> Vec<Waiting> {
        let keys: Vec<Name> = self.keys.keys().copied().collect();
        for key in keys {
            self.end_gap(key);
        }
        self.gaps.sort_unstable_by_key(|g| (g.key, g.since));
        let waiting = self.waiting.iter().map(|(seat, since)| Waiting {
            key: seat.2,
            client: seat.0,
            worker: seat.1,
            since: *since,
        });
        let mut waiting: Vec<Waiting> = waiting.collect();
        waiting.sort_unstable();
        waiting
    }

    fn end_gap(&mut self, key: Name) {
        let crowd = self.keys.entry(key).or_default();
        let Crowd {
            since, tries, last, ..
        } = *crowd;
        (crowd.tries, crowd.last) = (0, (0, 0));
        let long = last.0 != NEVER && last.0 >= since.saturating_add(GAP_MIN);
        if tries > 0 && long && self.gaps.len() < GAPS_MAX {
            self.gaps.push(Gap {
                key,
                since,
                tries,
                last,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Ns = 1_000_000_000;

    #[test]
    fn a_free_lock_that_is_refused_leaves_a_gap() {
        let mut c = Crowds::default();
        assert!(!c.tries((0, 0, 7), S));
        assert!(c.tries((1, 0, 7), S));
        c.answered(7);
        assert_eq!(c.granted((0, 0, 7), 2 * S), (S, false));
        c.let_go(7, 3 * S);
        c.denied((1, 0, 7), (3 * S, 4 * S), false);
        c.denied((1, 0, 7), (5 * S, 6 * S), false);
        assert_eq!(c.granted((1, 0, 7), 7 * S), (S, true));
        let gap = Gap {
            key: 7,
            since: 3 * S,
            tries: 2,
            last: (5 * S, 6 * S),
        };
        assert_eq!(c.gaps, [gap]);
        assert_eq!(c.finish(), []);
    }

    #[test]
    fn who_may_hold_ends_a_gap() {
        let mut c = Crowds::default();
        c.tries((0, 0, 7), 0);
        c.denied((0, 0, 7), (5 * S, 6 * S), true);
        c.denied((0, 0, 7), (6 * S, 6 * S), false);
        let waiting = c.finish();
        assert_eq!((c.gaps.len(), waiting.len()), (0, 1));
    }
}
