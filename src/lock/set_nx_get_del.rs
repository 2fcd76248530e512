//! `set-nx-get-del`: SET NX PX; the release looks with GET, then deletes with DEL. Its one mistake: these are two
//! steps, and between them the lease can end and another client's begin.
use super::single::{NODE, garbled, grant, one_or_not_owner};
use super::{Cmd, Env, Grant, Held, Lock, LockError, Reply, Settings, validity, within};
use async_trait::async_trait;
use std::time::Duration;

/// Looks, then acts.
pub(super) struct SetNxGetDel(pub Settings);

impl SetNxGetDel {
    async fn look<E: Env>(&self, env: &E, key: &str, owner: &str) -> Result<(), LockError> {
        match within(env, self.0.node_timeout, NODE, Cmd::Get { key }).await? {
            Reply::Text(value) if value == owner => Ok(()),
            Reply::Text(_) | Reply::Nil => Err(LockError::NotOwner),
            _ => Err(garbled()),
        }
    }
}

#[async_trait(?Send)]
impl<E: Env> Lock<E> for SetNxGetDel {
    async fn acquire(&self, env: &E, key: &str, owner: &str) -> Result<Grant, LockError> {
        grant(env, self.0, key, owner, Some(self.0.ttl)).await
    }

    async fn release(&self, env: &E, key: &str, held: Held<'_>) -> Result<(), LockError> {
        self.look(env, key, held.owner).await?;
        one_or_not_owner(env, self.0, Cmd::Del { key }).await
    }

    async fn extend(
        &self,
        env: &E,
        key: &str,
        held: Held<'_>,
        ttl: Duration,
    ) -> Result<Option<Duration>, LockError> {
        self.look(env, key, held.owner).await?;
        let start = env.now();
        one_or_not_owner(env, self.0, Cmd::PExpire { key, ttl }).await?;
        Ok(Some(
            validity(ttl, env.now().saturating_sub(start)).unwrap_or_default(),
        ))
    }
}
