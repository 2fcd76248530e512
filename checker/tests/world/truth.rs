//! The perfect view: who was promised the lock until when, by the servers' own times.
//!
//! Owns what the history cannot show: when a server really did what it answered. Must not know the checker: it counts
//! the overlaps of true promises, pair by pair, the slow way.
use super::{MS, TTL};
use std::collections::BTreeMap;

/// A hold, as it really was.
struct Hold {
    client: usize,
    owner: u64,
    pieces: Vec<(u64, u64)>,
    end: u64,
}

/// All holds.
#[derive(Default)]
pub struct Truth {
    /// When the first server did it: by owner value for a SET, by call for an extension.
    done: BTreeMap<u64, u64>,
    holds: Vec<Hold>,
    /// The hold of each client.
    of: BTreeMap<usize, usize>,
}

/// What one may count on of a lease.
fn usable(lease: u64) -> u64 {
    (lease / 100 * 99).saturating_sub(2 * MS)
}

impl Truth {
    /// A server did the SET of an owner value, or an extension's call.
    pub fn done(&mut self, what: u64, now: u64) {
        self.done.entry(what).or_insert(now);
    }

    /// A client reads that it was granted the lock; its lease began with `start`, a value's SET or a call.
    pub fn granted(
        &mut self,
        client: usize,
        (owner, start): (u64, u64),
        now: u64,
        claim_ms: Option<f64>,
    ) {
        let Some(start) = self.done.get(&start) else {
            return;
        };
        let end = (start + usable(TTL)).min(claimed(now, claim_ms));
        self.of.insert(client, self.holds.len());
        self.holds.push(Hold {
            client,
            owner,
            pieces: vec![(now, end)],
            end: u64::MAX,
        });
    }

    /// A client reads that its lease was extended.
    pub fn extended(
        &mut self,
        client: usize,
        call: u64,
        lease: u64,
        now: u64,
        claim_ms: Option<f64>,
    ) {
        let (Some(start), Some(hold)) = (self.done.get(&call), self.of.get(&client)) else {
            return;
        };
        let end = (start + usable(lease)).min(claimed(now, claim_ms));
        let pieces = &mut self.holds[*hold].pieces;
        let last = pieces.last_mut().expect("the grant");
        if now > last.1 {
            pieces.push((now, end));
        } else {
            last.1 = end;
        }
    }

    /// A server timed an owner value anew: what is less than was left counts whether or not it is answered.
    pub fn retimed(&mut self, owner: u64, lease: u64, now: u64) {
        for hold in self
            .holds
            .iter_mut()
            .rev()
            .take(8)
            .filter(|h| h.owner == owner)
        {
            for piece in &mut hold.pieces {
                piece.1 = piece.1.min(now + usable(lease));
            }
        }
    }

    /// The client lets go, is told, or dies.
    pub fn ended(&mut self, client: usize, now: u64) {
        if let Some(hold) = self.of.remove(&client) {
            self.holds[hold].end = now;
        }
    }

    /// Pairs of owner values whose promises overlapped.
    pub fn double_grants(&self) -> Vec<(u64, u64)> {
        let mut pairs = Vec::new();
        for (i, a) in self.holds.iter().enumerate() {
            for b in &self.holds[i + 1..] {
                let overlap = |p: &(u64, u64), q: &(u64, u64)| {
                    p.0.max(q.0) < p.1.min(a.end).min(q.1).min(b.end)
                };
                let any = a
                    .pieces
                    .iter()
                    .any(|p| b.pieces.iter().any(|q| overlap(p, q)));
                if a.client != b.client && any {
                    pairs.push((a.owner, b.owner));
                }
            }
        }
        pairs
    }
}

fn claimed(now: u64, claim_ms: Option<f64>) -> u64 {
    claim_ms.map_or(u64::MAX, |ms| now + (ms.max(0.0) * 1e6) as u64)
}
