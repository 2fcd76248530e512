//! A plain search for locks of which a worker may hold several: is there an order that a reentrant lock, a semaphore of two or
//! a read-write lock could give?
//!
//! Owns the meaning of these kinds, written down as a machine whose state is the set of acquires that hold. Must not know the
//! checker. Failed tries are no evidence here.
use super::random::{Fate, Op};
use crate::LockKind;
use std::collections::HashSet;

#[derive(Debug, Clone, Copy)]
struct Step {
    op: Op,
    end: u64,
    certain: bool,
    /// A release that may find that there is nothing left to give back.
    lenient: bool,
}

/// Operations as steps. A release is lenient where its worker may hold more or less than it was told, since an acquire or a
/// release of it had no definite answer; but one more than it was ever granted is a stranger's.
fn steps(ops: &[Op]) -> Vec<Step> {
    #[derive(Clone, Copy, Default)]
    struct Worker {
        most: u32,
        /// A release had no definite answer.
        loose: bool,
        doubt: bool,
    }
    let mut workers = [Worker::default(); 8];
    let mut steps = Vec::new();
    for op in ops {
        let w = &mut workers[usize::from(op.worker)];
        let indefinite = matches!(op.fate, Fate::Info | Fate::Never);
        if !indefinite && op.fate != Fate::Ok {
            continue;
        }
        steps.push(Step {
            op: *op,
            end: if indefinite { u64::MAX } else { op.ret },
            certain: !indefinite,
            lenient: op.release && (w.doubt || (w.loose && w.most > 0)),
        });
        match (op.release, indefinite) {
            (false, false) => w.most += 1,
            (false, true) => w.doubt = true,
            (true, false) => w.most = w.most.saturating_sub(1),
            (true, true) => w.loose = true,
        }
    }
    steps
}

/// Whether a lock of this kind can have given these answers.
pub(super) fn possible(ops: &[Op], kind: LockKind) -> bool {
    let steps = steps(ops);
    let mut seen = HashSet::new();
    let mut stack: Vec<(u16, u16)> = vec![(0, 0)];
    let members = |set: u16| (0..steps.len()).filter(move |i| set & 1 << i != 0);
    while let Some((done, held)) = stack.pop() {
        if !seen.insert((done, held)) {
            continue;
        }
        let left = || (0..steps.len()).filter(|i| done & 1 << i == 0);
        let certain = left().filter(|i| steps[*i].certain);
        let Some(deadline) = certain.map(|i| steps[i].end).min() else {
            return true;
        };
        for i in left().filter(|i| steps[*i].op.inv <= deadline) {
            let s = steps[i];
            // What can only have been before this one was not at all.
            let gone = left().filter(|j| steps[*j].end < s.op.inv);
            let gone = gone.fold(0, |mask, j| mask | 1 << j);
            let done = done | 1 << i | gone;
            let of = |j: &usize| steps[*j].op.worker == s.op.worker;
            if s.op.release {
                let mine: Vec<usize> = members(held).filter(|j| *j < i && of(j)).collect();
                stack.extend(mine.iter().map(|j| (done, held & !(1 << j))));
                if mine.is_empty() && s.lenient {
                    stack.push((done, held));
                }
                continue;
            }
            let free = match kind {
                LockKind::Mutex => held == 0,
                LockKind::Reentrant => members(held).all(|j| of(&j)),
                LockKind::Semaphore => held.count_ones() < 2,
                LockKind::ReadWrite => members(held).all(|j| s.op.shared && steps[j].op.shared),
            };
            if free {
                stack.push((done, held | 1 << i));
            }
        }
    }
    false
}
