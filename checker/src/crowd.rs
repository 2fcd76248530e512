//! Who holds and who tries for each key, as the events come.
//!
//! Owns contention, and the times in which a lock that nobody held was tried for in vain. Must not know leases, workers
//! or checks. Gaps go to the checks `progress` and `minority`.
use crate::hash::Map;
use crate::names::Name;
use crate::section::{NEVER, Ns};
use std::collections::VecDeque;

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

#[derive(Debug, Clone)]
struct Crowd {
    key: Name,
    trying: u32,
    holding: u32,
    since: Ns,
    tries: u64,
    /// Invoke and return of the last of them, by return.
    recent: VecDeque<(Ns, Ns)>,
}

/// All keys, by number.
#[derive(Debug, Default)]
pub(crate) struct Crowds {
    all: Vec<Crowd>,
    by_key: Map<Name, u32>,
    gaps: Vec<Gap>,
}

impl Crowds {
    /// The number of a key's crowd, a new one if it was never seen.
    pub(crate) fn number(&mut self, key: Name) -> u32 {
        let all = &mut self.all;
        *self.by_key.entry(key).or_insert_with(|| {
            all.push(Crowd {
                key,
                trying: 0,
                holding: 0,
                since: 0,
                tries: 0,
                recent: VecDeque::new(),
            });
            (all.len() - 1) as u32
        })
    }

    fn of(&mut self, crowd: u32) -> &mut Crowd {
        &mut self.all[crowd as usize]
    }

    /// A worker tries for the key; whether another holds it or tries, too.
    pub(crate) fn tries(&mut self, crowd: u32) -> bool {
        let crowd = self.of(crowd);
        let contended = crowd.trying + crowd.holding > 0;
        crowd.trying += 1;
        contended
    }

    /// A try was answered.
    pub(crate) fn answered(&mut self, crowd: u32) {
        let crowd = self.of(crowd);
        crowd.trying = crowd.trying.saturating_sub(1);
    }

    /// A worker holds the key, by a call that was invoked at `inv`.
    pub(crate) fn granted(&mut self, crowd: u32, inv: Ns) {
        self.end_gap(crowd, inv);
        self.of(crowd).holding += 1;
    }

    /// A try was refused, or its outcome is in doubt: then it may hold.
    pub(crate) fn denied(&mut self, crowd: u32, try_: (Ns, Ns), doubt: bool) {
        if doubt {
            self.end_gap(crowd, try_.0);
        }
        let crowd = self.of(crowd);
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
    pub(crate) fn unanswered(&mut self, crowd: u32, inv: Ns) {
        self.end_gap(crowd, inv);
    }

    /// A holder lets go, is told that it lost the lock, or dies.
    pub(crate) fn let_go(&mut self, crowd: u32, at: Ns) {
        let crowd = self.of(crowd);
        crowd.holding = crowd.holding.saturating_sub(1);
        crowd.since = crowd.since.max(at);
    }

    /// A release ended in doubt at `at`: until then its client may have kept alive what it was letting go of, as locks on
    /// sessions and watchdogs do, and what is left is to be counted from there.
    pub(crate) fn gave_up(&mut self, crowd: u32, at: Ns) {
        let crowd = self.of(crowd);
        crowd.since = crowd.since.max(at);
    }

    /// A release did not happen.
    pub(crate) fn holds_on(&mut self, crowd: u32) {
        self.of(crowd).holding += 1;
    }

    /// All is read: the gaps, by key and time.
    pub(crate) fn finish(&mut self) -> Vec<Gap> {
        for crowd in 0..self.all.len() as u32 {
            self.end_gap(crowd, NEVER);
        }
        let mut gaps = std::mem::take(&mut self.gaps);
        gaps.sort_unstable_by_key(|g| (g.key, g.since));
        gaps
    }

    /// Somebody may hold the key from `until` on: a try that was answered after that met no free lock for certain.
    fn end_gap(&mut self, crowd: u32, until: Ns) {
        let crowd = self.of(crowd);
        let (key, since, tries) = (crowd.key, crowd.since, std::mem::take(&mut crowd.tries));
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
        let k = c.number(7);
        assert_eq!(c.number(7), k);
        assert!(!c.tries(k));
        assert!(c.tries(k));
        c.answered(k);
        c.granted(k, S);
        c.let_go(k, 3 * S);
        c.denied(k, (3 * S, 4 * S), false);
        c.denied(k, (5 * S, 6 * S), false);
        c.granted(k, 7 * S);
        let gap = Gap {
            key: 7,
            since: 3 * S,
            tries: 2,
            last: (5 * S, 6 * S),
        };
        assert_eq!(c.finish(), [gap]);
    }

    #[test]
    fn who_may_hold_ends_a_gap() {
        let mut c = Crowds::default();
        let k = c.number(7);
        c.tries(k);
        c.denied(k, (5 * S, 6 * S), true);
        c.denied(k, (6 * S, 6 * S), false);
        assert_eq!(c.finish(), []);
    }

    #[test]
    fn who_gets_it_may_have_had_it_while_others_were_refused() {
        let mut c = Crowds::default();
        let (k, unanswered, many) = (c.number(7), c.number(8), c.number(9));
        c.denied(k, (3 * S, 4 * S), false);
        c.denied(k, (5 * S, 6 * S), false);
        c.denied(k, (7 * S, 9 * S), false);
        c.granted(k, 8 * S);
        let gap = Gap {
            key: 7,
            since: 0,
            tries: 2,
            last: (5 * S, 6 * S),
        };
        // The same where its call was never answered, and where more was refused meanwhile than is kept.
        c.denied(unanswered, (7 * S, 9 * S), false);
        c.unanswered(unanswered, 8 * S);
        for _ in 0..2 * RECENT {
            c.denied(many, (7 * S, 9 * S), false);
        }
        c.granted(many, 8 * S);
        assert_eq!(c.finish(), [gap]);
    }
}
