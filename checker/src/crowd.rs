//! Who holds and who tries for each key, as the events come.
//!
//! Owns contention, the beginning of each wait, and the times in which a lock that nobody held was tried for in vain.
//! Must not know leases or checks. Waits go into sections, gaps to the checks `progress` and `minority`.
use crate::hash::Map;
use crate::names::Name;
use crate::section::{NEVER, Ns};
use std::collections::{BTreeSet, VecDeque};

/// A worker of a client, and a key.
pub(crate) type Seat = (Name, u32, Name);

/// A gap is kept if its last try began at least this long after the lock was let go.
const GAP_MIN: Ns = 1_000_000_000;
/// Gaps kept.
const GAPS_MAX: usize = 10_000;
/// The last tries of a gap that are kept: who gets the lock in the end may have had it during some of them.
const RECENT: usize = 32;

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

#[derive(Debug, Clone, Default)]
struct Crowd {
    trying: u32,
    holding: u32,
    since: Ns,
    tries: u64,
    /// Invoke and return of the last of them, by return.
    recent: VecDeque<(Ns, Ns)>,
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

    /// A worker holds the key, by a call that was invoked at `inv`: since when it had waited, and whether it ever tried in
    /// vain.
    pub(crate) fn granted(&mut self, seat: Seat, inv: Ns) -> (Ns, bool) {
        self.end_gap(seat.2, inv);
        self.keys.entry(seat.2).or_default().holding += 1;
        // Stamps of different processes need not rise: what was tried later than this is no earlier try.
        let since = self
            .waiting
            .remove(&seat)
            .map_or(inv, |first| first.min(inv));
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
            self.end_gap(key, try_.0);
        }
        let crowd = self.keys.entry(key).or_default();
        if doubt {
            crowd.since = crowd.since.max(try_.1);
        } else if crowd.holding == 0 {
            crowd.tries += 1;
            if crowd.recent.len() == RECENT {
                crowd.recent.pop_front();
            }
            crowd.recent.push_back(try_);
        }
    }

    /// A try that nobody answered: from its invoke on it may hold.
    pub(crate) fn unanswered(&mut self, key: Name, inv: Ns) {
        self.end_gap(key, inv);
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
            self.end_gap(key, NEVER);
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

    /// Somebody may hold the key from `until` on: a try that was answered after that met no free lock for certain.
    fn end_gap(&mut self, key: Name, until: Ns) {
        let crowd = self.keys.entry(key).or_default();
        let (since, tries) = (crowd.since, std::mem::take(&mut crowd.tries));
        let excused = |t: &&(Ns, Ns)| t.1 > until;
        let late = crowd.recent.iter().rev().take_while(excused).count();
        let last = crowd.recent.iter().rev().nth(late).copied();
        crowd.recent.clear();
        let Some(last) = last.filter(|l| l.0 >= since.saturating_add(GAP_MIN)) else {
            return;
        };
        if self.gaps.len() < GAPS_MAX {
            self.gaps.push(Gap {
                key,
                since,
                tries: tries - late as u64,
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
        assert_eq!(c.granted((0, 0, 7), S), (S, false));
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

    #[test]
    fn who_gets_it_may_have_had_it_while_others_were_refused() {
        let mut c = Crowds::default();
        c.denied((0, 0, 7), (3 * S, 4 * S), false);
        c.denied((0, 0, 7), (5 * S, 6 * S), false);
        c.denied((0, 0, 7), (7 * S, 9 * S), false);
        c.granted((1, 0, 7), 8 * S);
        let gap = Gap {
            key: 7,
            since: 0,
            tries: 2,
            last: (5 * S, 6 * S),
        };
        assert_eq!(c.gaps, [gap]);
        // The same where its call was never answered, and where more was refused meanwhile than is kept.
        c.denied((0, 0, 8), (7 * S, 9 * S), false);
        c.unanswered(8, 8 * S);
        for _ in 0..2 * RECENT {
            c.denied((0, 0, 9), (7 * S, 9 * S), false);
        }
        c.granted((1, 0, 9), 8 * S);
        c.finish();
        assert_eq!(c.gaps, [gap]);
    }
}
