//! `perfect`, a control: the driver grants, exclusively, and asks this client only once the lock is its own.
//! No check may find anything.
use super::{Env, Grant, Held, Lock, LockError, Settings, validity};
use async_trait::async_trait;
use std::time::Duration;

/// Says yes at once: exclusion was seen to by the driver, before it asked.
pub(super) struct Perfect(pub Settings);

#[async_trait(?Send)]
impl<E: Env> Lock<E> for Perfect {
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
