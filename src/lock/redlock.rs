//! `redlock`: a lease on a majority of N servers that know nothing of each other
//! (<https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/>).
//!
//! | rule | here |
//! |---|---|
//! | ask all servers at once, a fresh owner value an attempt | `acquire` |
//! | granted iff q = ⌊N/2⌋+1 said OK and `ttl − elapsed − (ttl·0.01 + 2 ms)` > 0 | the clock is read after the q-th OK |
//! | a timeout per server, far below the lease | `within` |
//! | on failure unlock all N, those that seemed not locked too: their SET may still be on its way | `give_up` |
//! | extend on a majority, within the validity | `extend` |
//!
//! An operation ends as soon as its outcome is certain; it does not wait for servers that can no longer change it.
//! Must not know when to retry: that, after a random delay, is the caller's.
use super::{
    CallError, Cmd, Env, Grant, Held, Lock, LockError, Reply, Script, Settings, validity, within,
};
use async_trait::async_trait;
use futures_util::future::join;
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::time::Duration;

/// A lease on a quorum.
pub(super) struct Redlock(pub Settings);

/// The smallest majority of `nodes` servers.
pub(super) fn quorum(nodes: usize) -> usize {
    nodes / 2 + 1
}

/// Whether an attempt's value is on one server, as far as the answer to its SET tells.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    /// It is not, and will not be.
    Absent,
    /// It was set.
    Set,
    /// No answer: set, or not, or later.
    Maybe,
}

impl Mark {
    fn of(answer: &Result<Reply, CallError>) -> Mark {
        match answer {
            Ok(Reply::Ok) => Mark::Set,
            Ok(_) | Err(CallError::NotSent(_) | CallError::Server(_)) => Mark::Absent,
            Err(CallError::Unknown(_)) => Mark::Maybe,
        }
    }
}

/// Answers of a script that says 1 (done) or 0 (not mine), counted until they decide.
enum Votes {
    /// A quorum did it.
    Done,
    /// So many said 0 that no quorum can have done it.
    NotOwner,
    /// Too few answered.
    Undecided,
}

impl Redlock {
    /// Run `script` on all servers until the outcome is certain. All are sent, whatever the outcome.
    async fn vote<E: Env>(&self, env: &E, script: Script<'_>) -> Votes {
        let nodes = env.nodes();
        let mut calls: FuturesUnordered<_> = (0..nodes)
            .map(|node| within(env, self.0.node_timeout, node, Cmd::Run(script)))
            .collect();
        let (mut done, mut not_mine) = (0, 0);
        while let Some(answer) = calls.next().await {
            match answer {
                Ok(Reply::Int(1)) => done += 1,
                Ok(Reply::Int(0)) => not_mine += 1,
                _ => {}
            }
            if done >= quorum(nodes) {
                return Votes::Done;
            }
            if not_mine > nodes - quorum(nodes) {
                return Votes::NotOwner;
            }
        }
        Votes::Undecided
    }

    /// Unlock every server while the rest of the SETs are answered; true iff the value is certainly nowhere any more.
    async fn give_up<E: Env>(
        &self,
        env: &E,
        key: &str,
        owner: &str,
        marks: &mut [Mark],
        rest: impl Future<Output = Vec<(usize, Mark)>>,
    ) -> bool {
        let unlocks: FuturesUnordered<_> = (0..env.nodes())
            .map(|node| {
                let call = within(
                    env,
                    self.0.node_timeout,
                    node,
                    Cmd::Run(Script::Unlock { key, owner }),
                );
                async move { (node, call.await) }
            })
            .collect();
        let (late, unlocks) = join(rest, unlocks.collect::<Vec<_>>()).await;
        for (node, mark) in late {
            marks[node] = mark;
        }
        unlocks.iter().all(|(node, answer)| match marks[*node] {
            Mark::Absent => true,
            Mark::Set => matches!(answer, Ok(Reply::Int(_))),
            // A 0 does not help: the SET may have been overtaken, on another connection, and come later.
            Mark::Maybe => matches!(answer, Ok(Reply::Int(1))),
        })
    }
}

#[async_trait(?Send)]
impl<E: Env> Lock<E> for Redlock {
    async fn acquire(&self, env: &E, key: &str, owner: &str) -> Result<Grant, LockError> {
        let (nodes, ttl) = (env.nodes(), self.0.ttl);
        let quorum = quorum(nodes);
        let start = env.now();
        let mut calls: FuturesUnordered<_> = (0..nodes)
            .map(|node| {
                let set = Cmd::SetNxPx {
                    key,
                    value: owner,
                    ttl,
                };
                let call = within(env, self.0.node_timeout, node, set);
                async move { (node, Mark::of(&call.await)) }
            })
            .collect();
        let mut marks = vec![Mark::Maybe; nodes];
        let (mut granted, mut refused) = (0, 0);
        while let Some((node, mark)) = calls.next().await {
            marks[node] = mark;
            match mark {
                Mark::Set => granted += 1,
                Mark::Absent | Mark::Maybe => refused += 1,
            }
            if granted >= quorum || refused > nodes - quorum {
                break;
            }
        }
        let left = validity(ttl, env.now().saturating_sub(start));
        if granted >= quorum
            && let Some(left) = left
        {
            return Ok(Grant {
                validity: Some(left),
                token: None,
            });
        }
        let clean = self
            .give_up(env, key, owner, &mut marks, calls.collect())
            .await;
        Err(if granted >= quorum {
            LockError::TooLate { clean }
        } else {
            LockError::NoQuorum { clean }
        })
    }

    async fn release(&self, env: &E, key: &str, held: Held<'_>) -> Result<(), LockError> {
        let owner = held.owner;
        match self.vote(env, Script::Unlock { key, owner }).await {
            Votes::Done => Ok(()),
            Votes::NotOwner => Err(LockError::NotOwner),
            Votes::Undecided => Err(LockError::NoQuorum { clean: false }),
        }
    }

    async fn extend(
        &self,
        env: &E,
        key: &str,
        held: Held<'_>,
        ttl: Duration,
    ) -> Result<Option<Duration>, LockError> {
        let start = env.now();
        if held.until.is_some_and(|until| start >= until) {
            return Err(LockError::LeaseOver);
        }
        let owner = held.owner;
        match self.vote(env, Script::Extend { key, owner, ttl }).await {
            Votes::Done => validity(ttl, env.now().saturating_sub(start))
                .map(Some)
                .ok_or(LockError::TooLate { clean: false }),
            Votes::NotOwner => Err(LockError::NotOwner),
            Votes::Undecided => Err(LockError::NoQuorum { clean: false }),
        }
    }
}
