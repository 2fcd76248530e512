//! `set-nx-del`: SET NX PX, released by a plain DEL. Its one mistake: nobody looks whose key it deletes (or, with
//! PEXPIRE, extends), so a holder that comes late frees the next holder's lock.
use super::single::{grant, one_or_not_owner};
use super::{Cmd, Env, Grant, Held, Lock, LockError, Settings, validity};
use async_trait::async_trait;
use std::time::Duration;

/// Deletes whatever is there.
pub(super) struct SetNxDel(pub Settings);

#[async_trait(?Send)]
impl<E: Env> Lock<E> for SetNxDel {
    async fn acquire(&self, env: &E, key: &str, owner: &str) -> Result<Grant, LockError> {
        grant(env, self.0, key, owner, Some(self.0.ttl)).await
    }

    async fn release(&self, env: &E, key: &str, _: Held<'_>) -> Result<(), LockError> {
        one_or_not_owner(env, self.0, Cmd::Del { key }).await
    }

    async fn extend(
        &self,
        env: &E,
        key: &str,
        _: Held<'_>,
        ttl: Duration,
    ) -> Result<Option<Duration>, LockError> {
        let start = env.now();
        one_or_not_owner(env, self.0, Cmd::PExpire { key, ttl }).await?;
        Ok(Some(
            validity(ttl, env.now().saturating_sub(start)).unwrap_or_default(),
        ))
    }
}
