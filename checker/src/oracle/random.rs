//! Random histories of at most twelve operations: half of them by a real lock, so that both sides agree often that
//! nothing is wrong, with one thing changed now and then; half of them by chance alone.
//!
//! Owns chance. Must not know what is right. Times are small, so that many are equal.
use super::wgl::OPS_MAX;
use crate::LockKind;

/// What became of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Ok,
    /// It failed because another held the lock.
    Held,
    /// It failed for a reason that tells nothing.
    Fail,
    Info,
    /// Never answered; its worker goes on as another process.
    Never,
}

/// One operation. Those of one worker are in their order, and do not touch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Op {
    pub worker: u8,
    pub process: u64,
    pub release: bool,
    /// An acquire of a reader.
    pub shared: bool,
    pub inv: u64,
    pub ret: u64,
    pub fate: Fate,
}

/// A worker while its operations are invented.
#[derive(Debug, Clone, Copy)]
struct Worker {
    now: u64,
    process: u64,
    /// What it believes to hold.
    holds: u64,
    left: u64,
}

/// Chance: splitmix64 (Steele, Lea and Flood, 2014).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Of a lock of this kind, with two permits where it has any.
    pub(super) fn history(&mut self, kind: LockKind) -> Vec<Op> {
        let real = self.one_in(2);
        let count = 1 + self.below(4) as usize;
        let each = 1 + self.below(5);
        let mut workers: Vec<Worker> = (0..count)
            .map(|w| Worker {
                now: self.below(6),
                process: w as u64,
                holds: 0,
                left: 1 + self.below(each),
            })
            .collect();
        // (point of effect, worker, operation), the earliest point last.
        let mut points: Vec<(u64, usize, Op)> = Vec::new();
        for w in 0..count {
            points.extend(self.next(w, &mut workers, kind));
        }
        let (mut owners, mut ops) = (Vec::new(), Vec::new());
        while !points.is_empty() && ops.len() < OPS_MAX {
            points.sort_by_key(|p| std::cmp::Reverse((p.0, p.1)));
            let Some((_, w, mut op)) = points.pop() else {
                break;
            };
            op.fate = if real {
                self.truth(&op, &mut owners, kind)
            } else {
                self.chance(&op)
            };
            let worker = &mut workers[w];
            worker.now = op.ret;
            match op.fate {
                Fate::Ok if op.release => worker.holds = worker.holds.saturating_sub(1),
                Fate::Ok if kind == LockKind::Mutex => worker.holds = 1,
                Fate::Ok => worker.holds += 1,
                // Nobody knows, nor ever will; it goes on as another process.
                Fate::Info | Fate::Never => {
                    worker.process += 10;
                    worker.holds = worker.holds.saturating_sub(u64::from(op.release));
                }
                Fate::Held | Fate::Fail => {}
            }
            ops.push(op);
            points.extend(self.next(w, &mut workers, kind));
        }
        if real && self.one_in(2) && !ops.is_empty() {
            self.change(&mut ops);
        }
        ops
    }

    /// A worker's next operation, without its fate, and when it takes effect if it does.
    fn next(
        &mut self,
        w: usize,
        workers: &mut [Worker],
        kind: LockKind,
    ) -> Option<(u64, usize, Op)> {
        let worker = workers[w];
        let again = kind != LockKind::Mutex && self.one_in(3);
        workers[w].left = worker.left.checked_sub(1)?;
        let inv = worker.now + 1 + self.below(5);
        let point = inv + self.below(4);
        let op = Op {
            worker: w as u8,
            process: worker.process,
            release: (worker.holds > 0 && !again) != self.one_in(8),
            shared: kind == LockKind::ReadWrite && self.one_in(2),
            inv,
            ret: point + self.below(4),
            fate: Fate::Never,
        };
        Some((point, w, op))
    }

    /// What a lock answers, if its answer is not lost.
    fn truth(&mut self, op: &Op, owners: &mut Vec<(u8, bool)>, kind: LockKind) -> Fate {
        let lost = self.one_in(5);
        let mine = owners.iter().position(|o| o.0 == op.worker);
        let free = match kind {
            LockKind::Mutex => owners.is_empty(),
            LockKind::Reentrant => owners.iter().all(|o| o.0 == op.worker),
            LockKind::Semaphore => owners.len() < 2,
            LockKind::ReadWrite => owners.iter().all(|o| o.1 && op.shared),
        };
        let fate = match (op.release, mine) {
            (false, _) if free => Fate::Ok,
            (false, _) => Fate::Held,
            (true, Some(_)) => Fate::Ok,
            (true, None) => Fate::Fail,
        };
        if lost && self.one_in(2) {
            return self.doubt(); // It never came to the lock.
        }
        match (fate, mine) {
            (Fate::Ok, Some(at)) if op.release => drop(owners.swap_remove(at)),
            (Fate::Ok, _) => owners.push((op.worker, op.shared)),
            _ => {}
        }
        if lost { self.doubt() } else { fate }
    }

    fn doubt(&mut self) -> Fate {
        if self.one_in(3) {
            Fate::Never
        } else {
            Fate::Info
        }
    }

    fn chance(&mut self, op: &Op) -> Fate {
        match self.below(10) {
            0..=5 => Fate::Ok,
            6 => Fate::Fail,
            7 if op.release => Fate::Fail,
            7 => Fate::Held,
            _ => self.doubt(),
        }
    }

    /// Changes one thing: a time, or what became of an operation.
    fn change(&mut self, ops: &mut [Op]) {
        let i = self.below(ops.len() as u64) as usize;
        let op = ops[i];
        let mut others = ops
            .iter()
            .enumerate()
            .filter(|(j, o)| *j != i && o.worker == op.worker);
        let low = others
            .clone()
            .filter(|(j, _)| *j < i)
            .map(|(_, o)| o.ret)
            .max()
            .unwrap_or(0);
        let high = others
            .find(|(j, _)| *j > i)
            .map_or(u64::MAX, |(_, o)| o.inv - 1);
        match self.below(3) {
            0 => ops[i].inv = low + 1 + self.below(op.inv - low),
            1 => ops[i].ret = (op.ret + self.below(6)).min(high),
            _ if op.fate == Fate::Info => ops[i].fate = Fate::Ok,
            _ if op.fate == Fate::Held => ops[i].fate = Fate::Ok,
            _ => {}
        }
    }
}
