//! A plain WGL search: is there an order of the operations, each inside of its interval, that a mutex could give?
//!
//! Owns the lock's meaning, written down as a machine with one state: the acquire that owns it. Must not know the checker.
//! After Wing and Gong (1993) and Lowe (2017), with the set of done operations and the owner in a bitset.
use super::random::{Fate, Op};

/// Operations in a history, at most.
pub(super) const OPS_MAX: usize = 12;
/// No owner, in place of the acquire that owns.
const FREE: u8 = 15;

/// What an operation asks of the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    /// Free before, this acquire's after.
    Take,
    /// Somebody's, and stays so.
    Refused,
    /// Owned by an earlier acquire of the same worker before, free after.
    Give,
    /// Not owned by an earlier acquire of the same worker after.
    CleanUp,
}

#[derive(Debug, Clone, Copy)]
struct Step {
    act: Act,
    worker: u8,
    inv: u64,
    /// The latest time at which it can take effect.
    end: u64,
    /// It did take effect.
    certain: bool,
}

/// Operations as steps; those that certainly did nothing are left out. What a worker releases that it was not
/// granted, or after a release without a definite answer, is clean-up: it may give the lock back, or find it given back.
/// Once it is answered ok, that is so; what an acquire in doubt does later stays open.
fn steps(ops: &[Op]) -> Vec<Step> {
    #[derive(Clone, Copy, Default)]
    struct Worker {
        granted: bool,
        /// Its release had no definite answer.
        loose: bool,
        doubt: bool,
    }
    let mut workers = [Worker::default(); 8];
    let mut steps = Vec::with_capacity(ops.len());
    for op in ops {
        let w = &mut workers[usize::from(op.worker)];
        let indefinite = matches!(op.fate, Fate::Info | Fate::Never);
        let end = if indefinite { u64::MAX } else { op.ret };
        let mut step = Step {
            act: Act::Take,
            worker: op.worker,
            inv: op.inv,
            end,
            certain: !indefinite,
        };
        match (op.release, op.fate) {
            (false, Fate::Ok) => (w.granted, w.loose) = (true, false),
            (false, Fate::Held) => step.act = Act::Refused,
            (false, Fate::Info | Fate::Never) => w.doubt = true,
            (true, Fate::Ok) => {
                let sure = !w.loose && (w.granted || !w.doubt);
                step.act = if sure { Act::Give } else { Act::CleanUp };
                (w.granted, w.loose) = (false, false);
            }
            (true, Fate::Info | Fate::Never) => {
                step.act = Act::Give;
                w.loose |= w.granted;
            }
            (_, Fate::Fail) | (true, Fate::Held) => continue,
        }
        steps.push(step);
    }
    steps
}

/// Whether the operations are those of an owner-aware mutex.
pub(super) fn linearizable(ops: &[Op]) -> bool {
    let steps = steps(ops);
    let n = steps.len();
    assert!(n <= OPS_MAX);
    let mut seen = [0u64; (1 << OPS_MAX) * 16 / 64];
    let mut stack: Vec<(u16, u8)> = vec![(0, FREE)];
    while let Some((done, owner)) = stack.pop() {
        let at = usize::from(done) << 4 | usize::from(owner);
        if seen[at / 64] & 1 << (at % 64) != 0 {
            continue;
        }
        seen[at / 64] |= 1 << (at % 64);
        let left = || (0..n).filter(|i| done & 1 << i == 0);
        let deadline = left()
            .filter(|i| steps[*i].certain)
            .map(|i| steps[i].end)
            .min();
        let Some(deadline) = deadline else {
            return true;
        };
        for i in left() {
            let s = steps[i];
            if s.inv > deadline {
                continue;
            }
            let next = match (s.act, owner) {
                (Act::Take, FREE) => i as u8,
                (Act::Refused, o) if o != FREE => o,
                (Act::Give | Act::CleanUp, o)
                    if usize::from(o) < i && steps[usize::from(o)].worker == s.worker =>
                {
                    FREE
                }
                (Act::CleanUp, o) => o,
                _ => continue,
            };
            // What can only have been before this one was not at all.
            let gone = left().filter(|j| steps[*j].end < s.inv);
            let gone = gone.fold(0, |mask, j| mask | 1 << j);
            stack.push((done | 1 << i | gone, next));
        }
    }
    false
}

/// Whether the checker may miss what the search finds: an acquire in doubt that was cleaned up, beside failed tries.
pub(super) fn one_sided(ops: &[Op]) -> bool {
    let steps = steps(ops);
    let refused = steps.iter().any(|s| s.act == Act::Refused);
    let doubts = steps.iter().enumerate();
    let mut doubts = doubts.filter(|(_, s)| s.act == Act::Take && !s.certain);
    refused
        && doubts.any(|(i, s)| {
            let mut later = steps[i + 1..].iter();
            let cleans = |t: &Step| t.act == Act::CleanUp || (t.act == Act::Give && !t.certain);
            later.any(|t| t.worker == s.worker && cleans(t))
        })
}
