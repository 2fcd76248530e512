//! `none`, a control: never locks and always says yes. Every check for exclusion must catch it.
use super::{Env, Grant, Held, Lock, LockError, Settings, validity};
use async_trait::async_trait;
use std::time::Duration;

/// Grants at once, to everybody, without asking any server.
pub(super) struct NoLock(pub Settings);

#[async_trait(?Send)]
impl<E: Env> Lock<E> for NoLock {
    async fn acquire(&self, _: &E, _: &str, _: &str) -> Result<Grant, LockError> {
        Ok(Grant {
            validity: validity(self.0.ttl, Duration::ZERO),
            token: None,
        })
    }

    async fn release(&self, _: &E, _: &str, _: Held<'_>) -> Result<(), LockError> {
        Ok(())
    }

    async fn extend(
        &self,
        _: &E,
        _: &str,
        _: Held<'_>,
        ttl: Duration,
    ) -> Result<Option<Duration>, LockError> {
        Ok(validity(ttl, Duration::ZERO))
    }
}
