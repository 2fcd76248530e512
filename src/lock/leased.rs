//! `etcd` and `zookeeper`: a key under a lease of its own, created if nobody has it; released by ending the lease
//! (<https://etcd.io/docs/v3.4/learning/api/#lease-api>). On ZooKeeper the lease is a session, and the key a node in a queue
//! of such (<https://zookeeper.apache.org/doc/r3.8.0/recipes.html#sc_recipes_Locks>); what a request is there, `client`
//! knows.
//!
//! | rule | here |
//! |---|---|
//! | the lease's id is made from the attempt's owner value, so every request may be sent twice | [`lease`] |
//! | the lease is granted first: it runs from before the key is there | `acquire` |
//! | create, if nobody has the key; the revision of its creation is the token | [`Kv::Create`] |
//! | the key goes with its lease, also where its creation is still on its way: that then fails | [`Kv::Revoke`] |
//! | a member that does not answer costs `node_timeout`, then the next is asked | [`Leased::ask`] |
//!
//! Must not know when to retry: that, after a random delay, is the caller's.
use super::{
    CallError, Cmd, Cut, Env, Grant, Held, Kv, Lock, LockError, Reply, Settings, validity, within,
};
use async_trait::async_trait;
use std::cell::Cell;
use std::time::Duration;

/// A key under a lease.
pub(super) struct Leased {
    settings: Settings,
    /// The member that answered last; none was asked yet.
    member: Cell<Option<usize>>,
}

/// An answer, and whether the same request may have been executed before by a member that did not answer.
struct Said {
    reply: Reply,
    again: bool,
}

/// The id of the lease of the attempt with this owner value: 63 of its bits, never 0.
pub(super) fn lease(owner: &str) -> i64 {
    let bits = owner.get(..16).unwrap_or(owner);
    let bits = u64::from_str_radix(bits, 16).unwrap_or(1);
    ((bits & (i64::MAX as u64)) as i64).max(1)
}

impl Leased {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            settings,
            member: Cell::new(None),
        }
    }

    /// When an operation that begins now asks no further member: well before a caller would give up, and not after the
    /// lease that is asked for would be over.
    fn end<E: Env>(&self, env: &E) -> Duration {
        env.now() + self.settings.ttl.min(self.settings.node_timeout * 4)
    }

    /// Ask the members one after the other, from the one that answered last, until one answers; no further one after
    /// `end`.
    async fn ask<E: Env>(&self, env: &E, kv: Kv<'_>, end: Duration) -> Result<Said, CallError> {
        let members = env.nodes();
        let first = self
            .member
            .get()
            .unwrap_or_else(|| (env.random() % members.max(1) as u64) as usize);
        let mut why = CallError::NotSent(Cut::Refused);
        for turn in 0..members {
            let member = (first + turn) % members;
            if turn > 0 && env.now() >= end {
                break;
            }
            match within(env, self.settings.node_timeout, member, Cmd::Kv(kv)).await {
                Ok(reply) => {
                    self.member.set(Some(member));
                    let again = matches!(why, CallError::Unknown(_));
                    return Ok(Said { reply, again });
                }
                Err(CallError::NotSent(cut)) if matches!(why, CallError::NotSent(_)) => {
                    why = CallError::NotSent(cut);
                }
                Err(CallError::NotSent(_)) => {}
                Err(doubt @ CallError::Unknown(_)) => why = doubt,
                Err(said @ CallError::Server(_)) => return Err(said),
            }
            self.member.set(Some((member + 1) % members));
        }
        Err(why)
    }

    /// End an attempt's lease. True: it is gone for good, and so is its key, also one that is still to be created.
    async fn revoke<E: Env>(&self, env: &E, owner: &str) -> bool {
        let end = env.now() + self.settings.node_timeout;
        let lease = lease(owner);
        self.ask(env, Kv::Revoke { lease }, end).await.is_ok()
    }
}

/// Nothing was written that could hold the lock: a failed read, or a lease without a key.
fn harmless(error: CallError) -> LockError {
    match error {
        CallError::Unknown(_) => LockError::NoQuorum { clean: true },
        sure => LockError::Call(sure),
    }
}

#[async_trait(?Send)]
impl<E: Env> Lock<E> for Leased {
    async fn acquire(&self, env: &E, key: &str, owner: &str) -> Result<Grant, LockError> {
        let start = env.now();
        let end = self.end(env);
        let lease = lease(owner);
        // A look costs the cluster no write, so a lock that is held is asked for without one.
        let there = self.ask(env, Kv::Read { key }, end).await;
        if there.map_err(harmless)?.reply != Reply::Nil {
            return Err(LockError::Held);
        }
        let ttl = self.settings.ttl;
        let granted = self.ask(env, Kv::Grant { lease, ttl }, end).await;
        let Reply::Int(millis) = granted.map_err(harmless)?.reply else {
            return Err(LockError::Call(CallError::Unknown(Cut::Garbled)));
        };
        let ttl = ttl.min(Duration::from_millis(millis.unsigned_abs()));
        let created = self.ask(env, Kv::Create { key, owner, lease }, end).await;
        let revision = match created.map(|said| said.reply) {
            Ok(Reply::Int(revision)) => revision,
            Ok(_) => {
                self.revoke(env, owner).await;
                return Err(LockError::Held);
            }
            Err(error) => {
                let clean = self.revoke(env, owner).await;
                return Err(if clean {
                    LockError::NoQuorum { clean }
                } else {
                    LockError::Call(error)
                });
            }
        };
        let Some(validity) = validity(ttl, env.now().saturating_sub(start)) else {
            let clean = self.revoke(env, owner).await;
            return Err(LockError::TooLate { clean });
        };
        let token = u64::try_from(revision).ok();
        Ok(Grant {
            validity: Some(validity),
            token: token.filter(|_| self.settings.fencing),
        })
    }

    async fn release(&self, env: &E, _key: &str, held: Held<'_>) -> Result<(), LockError> {
        let lease = lease(held.owner);
        let said = self.ask(env, Kv::Revoke { lease }, self.end(env)).await?;
        match said.reply {
            Reply::Nil if said.again => Err(LockError::Call(CallError::Unknown(Cut::Timeout))),
            Reply::Nil => Err(LockError::NotOwner),
            _ => Ok(()),
        }
    }

    async fn extend(
        &self,
        env: &E,
        _key: &str,
        held: Held<'_>,
        ttl: Duration,
    ) -> Result<Option<Duration>, LockError> {
        let start = env.now();
        let lease = lease(held.owner);
        let alive = Kv::KeepAlive { lease };
        let said = self.ask(env, alive, self.end(env)).await?;
        let Reply::Int(millis) = said.reply else {
            return Err(LockError::NotOwner);
        };
        let ttl = ttl.min(Duration::from_millis(millis.unsigned_abs()));
        validity(ttl, env.now().saturating_sub(start))
            .map(Some)
            .ok_or(LockError::TooLate { clean: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::sim::{Link, World};
    use crate::lock::{build, owner_value};

    const KEY: &str = "fp:lock:0";
    const TTL: Duration = Duration::from_secs(2);
    const NODE_TIMEOUT: Duration = Duration::from_millis(50);

    fn lock() -> Box<dyn Lock<World>> {
        let settings = Settings {
            ttl: TTL,
            node_timeout: NODE_TIMEOUT,
            fencing: true,
            wait: 0,
        };
        build("zookeeper", settings).expect("a built-in lock")
    }

    fn held(owner: &str) -> Held<'_> {
        Held { owner, until: None }
    }

    #[test]
    fn one_holder_at_a_time_and_each_grant_has_a_greater_token() {
        let (world, lock) = (World::new(3), lock());
        let first = world.run(lock.acquire(&world, KEY, "a")).expect("free");
        assert_eq!(
            world.run(lock.acquire(&world, KEY, "b")),
            Err(LockError::Held)
        );
        assert_eq!(world.run(lock.release(&world, KEY, held("a"))), Ok(()));
        let second = world.run(lock.acquire(&world, KEY, "b")).expect("free");
        assert!(second.token > first.token && first.token.is_some());
        // A release that comes late ends a lease that is gone, and nothing of the next holder's.
        assert_eq!(
            world.run(lock.release(&world, KEY, held("a"))),
            Err(LockError::NotOwner)
        );
        assert_eq!(world.value(0, KEY).as_deref(), Some("b"));
    }

    #[test]
    fn a_keep_alive_renews_and_a_session_that_is_over_is_told() {
        let (world, lock) = (World::new(3), lock());
        world.run(lock.acquire(&world, KEY, "a")).expect("free");
        world.pass(Duration::from_millis(1500));
        let left = world.run(lock.extend(&world, KEY, held("a"), TTL));
        assert!(left.expect("renewed") > Some(Duration::from_millis(1900)));
        world.pass(Duration::from_millis(1500));
        assert_eq!(world.value(0, KEY).as_deref(), Some("a"));
        world.pass(Duration::from_secs(1));
        assert_eq!(
            world.run(lock.extend(&world, KEY, held("a"), TTL)),
            Err(LockError::NotOwner)
        );
        world
            .run(lock.acquire(&world, KEY, "b"))
            .expect("free again");
    }

    #[test]
    fn a_member_that_hangs_costs_its_timeout_once() {
        let (world, lock) = (World::new(3), lock());
        for hung in 0..3 {
            world.link(hung, Link::RequestLost);
            let began = world.now();
            let owner = owner_value(&world);
            world.run(lock.acquire(&world, KEY, &owner)).expect("free");
            world
                .run(lock.release(&world, KEY, held(&owner)))
                .expect("held");
            assert!(world.now() < began + NODE_TIMEOUT * 2);
            let up = Duration::from_millis(1);
            world.link(hung, Link::Takes(up, up));
        }
    }

    #[test]
    fn without_an_answer_nothing_is_held_and_the_call_ends() {
        for (link, why) in [
            (Link::RequestLost, LockError::NoQuorum { clean: true }),
            (
                Link::Refused,
                LockError::Call(CallError::NotSent(Cut::Refused)),
            ),
        ] {
            let (world, lock) = (World::new(3), lock());
            (0..3).for_each(|n| world.link(n, link));
            assert_eq!(world.run(lock.acquire(&world, KEY, "a")), Err(why));
            assert!(world.now() <= NODE_TIMEOUT * 3);
        }
    }

    #[test]
    fn a_release_that_may_have_been_executed_before_is_in_doubt() {
        let (world, lock) = (World::new(3), lock());
        world.run(lock.acquire(&world, KEY, "a")).expect("free");
        // Whichever member is asked first executes it, and its answer is lost.
        let up = Duration::from_millis(1);
        (0..3).for_each(|n| world.link(n, Link::AnswerLost(up)));
        let released = world.run(lock.release(&world, KEY, held("a")));
        let doubt = LockError::Call(CallError::Unknown(Cut::Timeout));
        assert_eq!(released, Err(doubt));
        assert_eq!(world.value(0, KEY), None);
    }

    #[test]
    fn a_lease_has_an_id_of_its_attempt() {
        assert_eq!(lease("00000000000000000000000000000000"), 1);
        assert_eq!(lease("ffffffffffffffff0000000000000000"), i64::MAX);
        assert_ne!(lease("0123456789abcdef"), lease("0123456789abcdee"));
    }
}
