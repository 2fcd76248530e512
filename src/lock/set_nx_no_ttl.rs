//! `set-nx-no-ttl`: SET NX without a time to live. Its one mistake: a holder that dies holds for ever.
use super::single::{grant, one_or_not_owner};
use super::{Cmd, Env, Grant, Held, Lock, LockError, Script, Settings};
use async_trait::async_trait;
use std::time::Duration;

/// The key stays until its owner deletes it.
pub(super) struct SetNxNoTtl(pub Settings);

#[async_trait(?Send)]
impl<E: Env> Lock<E> for SetNxNoTtl {
    async fn acquire(&self, env: &E, key: &str, owner: &str) -> Result<Grant, LockError> {
        grant(env, self.0, key, owner, None).await
    }

    async fn release(&self, env: &E, key: &str, held: Held<'_>) -> Result<(), LockError> {
        let owner = held.owner;
        one_or_not_owner(env, self.0, Cmd::Run(Script::Unlock { key, owner })).await
    }

    async fn extend(
        &self,
        _: &E,
        _: &str,
        _: Held<'_>,
        _: Duration,
    ) -> Result<Option<Duration>, LockError> {
        Err(LockError::Unsupported(
            "a lock without lease has nothing to extend",
        ))
    }
}
