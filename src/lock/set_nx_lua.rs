//! `set-nx-lua`: SET NX PX with a fresh value; released and extended by a script that compares the value and acts in
//! one step. Right, as far as one server and a lease can be: see its paragraph in `about`.
use super::single::{grant, one_or_not_owner, replicated};
use super::{Cmd, Env, Grant, Held, Lock, LockError, Script, Settings, validity};
use async_trait::async_trait;
use std::time::Duration;

/// Compares and acts in one step.
pub(super) struct SetNxLua(pub Settings);

#[async_trait(?Send)]
impl<E: Env> Lock<E> for SetNxLua {
    async fn acquire(&self, env: &E, key: &str, owner: &str) -> Result<Grant, LockError> {
        let grant = grant(env, self.0, key, owner, Some(self.0.ttl)).await?;
        if grant.validity == Some(Duration::ZERO) {
            let undone =
                one_or_not_owner(env, self.0, Cmd::Run(Script::Unlock { key, owner })).await;
            let clean = matches!(undone, Ok(()) | Err(LockError::NotOwner));
            return Err(LockError::TooLate { clean });
        }
        Ok(grant)
    }

    async fn release(&self, env: &E, key: &str, held: Held<'_>) -> Result<(), LockError> {
        let owner = held.owner;
        one_or_not_owner(env, self.0, Cmd::Run(Script::Unlock { key, owner })).await
    }

    async fn extend(
        &self,
        env: &E,
        key: &str,
        held: Held<'_>,
        ttl: Duration,
    ) -> Result<Option<Duration>, LockError> {
        let start = env.now();
        let owner = held.owner;
        one_or_not_owner(env, self.0, Cmd::Run(Script::Extend { key, owner, ttl })).await?;
        if !replicated(env, self.0).await {
            return Err(LockError::NoQuorum { clean: false });
        }
        validity(ttl, env.now().saturating_sub(start))
            .map(Some)
            .ok_or(LockError::TooLate { clean: false })
    }
}
