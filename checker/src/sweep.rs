//! Pairs of overlapping intervals in one sort and one sweep.
//!
//! Owns the geometry: `[s1, e1)` and `[s2, e2)` conflict iff s1 < e2 and s2 < e1; a point inside another counts,
//! touching does not. Must not know what an interval means. Pairs go to `analysis`.
use crate::mutant::{self, Mutant};
use crate::section::{Ns, Piece};
use std::collections::BTreeSet;

/// Pairs of pieces that are looked at one by one; more are only counted.
pub(crate) const PAIRS_MAX: u64 = 200_000;

/// Two sections that overlap, in the order in which their overlapping pieces start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pair {
    pub a: u32,
    pub b: u32,
    /// The overlap: `[from, to)`.
    pub from: Ns,
    pub to: Ns,
    /// Number of the maximal cluster of overlapping pieces that it belongs to, over all sweeps of one `Sweep`.
    pub cluster: u32,
}

/// What a sweep found.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// How many others a piece may overlap: a semaphore's permits less one. Then a piece that overlaps more counts
    /// once, with one of them.
    pub room: usize,
    /// The pairs, at most [`PAIRS_MAX`].
    pub pairs: Vec<Pair>,
    /// Number of all pairs of pieces.
    pub count: u64,
    pub clusters: u32,
}

impl Sweep {
    /// Adds what was found of later keys. However the keys are put together, the sum is the same.
    pub(crate) fn append(&mut self, mut later: Self) {
        for p in &mut later.pairs {
            p.cluster += self.clusters;
        }
        self.pairs.append(&mut later.pairs);
        self.pairs.truncate(PAIRS_MAX as usize);
        self.count += later.count;
        self.clusters += later.clusters;
    }

    fn pair(&self, open: &(Ns, Ns, u32), p: &Piece) -> Pair {
        Pair {
            a: open.2,
            b: p.section,
            from: p.start,
            to: open.0.min(p.end),
            cluster: self.clusters,
        }
    }

    /// Sweeps over the pieces of one key, by start, end and section. `reads` says of a section whether it may overlap all
    /// others of which that is true, `conflict` whether two may conflict at all.
    pub(crate) fn run(
        &mut self,
        pieces: &[Piece],
        reads: impl Fn(u32) -> bool,
        conflict: impl Fn(u32, u32) -> bool,
    ) {
        // Pieces that are open at the sweep line, by end; readers apart, who need not look at each other.
        let (mut open, mut readers) = (Open::new(), Open::new());
        for p in pieces {
            for set in [&mut open, &mut readers] {
                while set
                    .first()
                    .is_some_and(|o| mutant::before(Mutant::Ended, o.0, p.start))
                {
                    set.pop_first();
                }
            }
            if open.is_empty() && readers.is_empty() {
                self.clusters += 1;
            }
            let mine = reads(p.section);
            let beside = if mine { None } else { Some(&readers) };
            let held = open.len() + beside.map_or(0, BTreeSet::len);
            let mut others = open
                .iter()
                .chain(beside.into_iter().flatten())
                .filter(|o| conflict(o.2, p.section));
            if self.room > 0 {
                // The one beside `room` others that lasts longest.
                let one_more = if held > self.room {
                    others.nth(self.room)
                } else {
                    None
                };
                if let Some(o) = one_more {
                    self.count += 1;
                    if self.count <= PAIRS_MAX {
                        self.pairs.push(self.pair(o, p));
                    }
                }
            } else if self.count < PAIRS_MAX {
                for o in others {
                    self.count += 1;
                    self.pairs.push(self.pair(o, p));
                }
            } else {
                self.count += held as u64;
            }
            if p.start < p.end {
                let set = if mine { &mut readers } else { &mut open };
                set.insert((p.end, p.start, p.section));
            }
        }
    }
}

/// End, start and section.
type Open = BTreeSet<(Ns, Ns, u32)>;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sweep(intervals: &[(Ns, Ns)]) -> (u64, BTreeSet<(u32, u32)>, u32) {
        sweep_where(intervals, |_| false, 0)
    }

    /// Of a lock of `room` more holders than one, or with readers.
    fn sweep_where(
        intervals: &[(Ns, Ns)],
        reads: impl Fn(u32) -> bool,
        room: usize,
    ) -> (u64, BTreeSet<(u32, u32)>, u32) {
        let mut pieces: Vec<Piece> = (0u32..)
            .zip(intervals)
            .map(|(section, (start, end))| Piece {
                key: 0,
                start: *start,
                end: *end,
                section,
            })
            .collect();
        pieces.sort_unstable_by_key(|p| (p.start, p.end, p.section));
        let mut sweep = Sweep {
            room,
            ..Sweep::default()
        };
        let asked = std::cell::Cell::new(0);
        let conflict = |x, y| {
            asked.set(asked.get() + 1);
            !(reads(x) && reads(y))
        };
        sweep.run(&pieces, &reads, conflict);
        // Whoever may overlap is not asked after one by one.
        assert!(asked.get() <= sweep.count * (room as u64 + 1));
        let pairs = sweep.pairs.iter();
        let pairs = pairs.map(|p| (p.a.min(p.b), p.a.max(p.b))).collect();
        (sweep.count, pairs, sweep.clusters)
    }

    #[test]
    fn touching_is_no_overlap() {
        assert_eq!(sweep(&[(0, 5), (5, 9)]).0, 0);
        assert_eq!(sweep(&[(0, 6), (5, 9)]).0, 1);
        assert_eq!(sweep(&[(0, Ns::MAX), (5, Ns::MAX), (7, 8)]).0, 3);
    }

    #[test]
    fn holders_that_may_overlap_cost_nothing() {
        let all: Vec<(Ns, Ns)> = (0..50_000).map(|i| (i, Ns::MAX)).collect();
        assert_eq!(sweep_where(&all, |_| true, 0).0, 0);
        assert_eq!(sweep_where(&all, |_| false, all.len() - 1).0, 0);
        assert_eq!(sweep_where(&all[..3], |_| false, 1).0, 1);
    }

    proptest! {
        #[test]
        fn agrees_with_all_pairs_of_readers(v in prop::collection::vec((0u64..30, 1u64..12), 0..14)) {
            let v: Vec<(Ns, Ns)> = v.into_iter().map(|(s, l)| (s, s + l)).collect();
            let reads = |i: u32| !i.is_multiple_of(3);
            let (_, expected, clusters) = sweep(&v);
            let expected: BTreeSet<(u32, u32)> = expected
                .into_iter()
                .filter(|(i, j)| !(reads(*i) && reads(*j)))
                .collect();
            let found = sweep_where(&v, reads, 0);
            prop_assert_eq!(found, (expected.len() as u64, expected, clusters));
        }

        #[test]
        fn agrees_with_all_pairs(v in prop::collection::vec((0u64..30, 1u64..12), 0..14)) {
            let v: Vec<(Ns, Ns)> = v.into_iter().map(|(s, l)| (s, s + l)).collect();
            let mut expected = BTreeSet::new();
            for (i, x) in (0u32..).zip(&v) {
                for (j, y) in (0u32..).zip(&v).skip(i as usize + 1) {
                    if x.0 < y.1 && y.0 < x.1 {
                        expected.insert((i, j));
                    }
                }
            }
            let (count, pairs, _) = sweep(&v);
            prop_assert_eq!(count, expected.len() as u64);
            prop_assert_eq!(pairs, expected);
        }
    }
}
