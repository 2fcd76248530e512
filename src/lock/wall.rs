//! `set-nx-wall` and `redlock-wall`: set-nx-lua and redlock with one mistake more, a validity counted on the time of day.
//! Many libraries do so: a client whose wall clock is set back during the call claims more of the lease than there is.
use super::{Env, Grant, Held, Lock, LockError, Settings};
use async_trait::async_trait;
use std::time::Duration;

/// A lock, and its claims by the wall clock.
pub(super) struct OnWall<E> {
    pub inner: Box<dyn Lock<E>>,
    pub settings: Settings,
}

impl<E: Env> OnWall<E> {
    /// `ttl − elapsed − drift` as such libraries write it: with a sign, and so more than the lease when time went back.
    fn claim(&self, env: &E, start: Duration, ttl: Duration) -> Option<Duration> {
        let millis = |d: Duration| i128::try_from(d.as_millis()).unwrap_or(i128::MAX);
        let elapsed = millis(env.wall()) - millis(start);
        let left = millis(ttl) - elapsed - millis(self.settings.ttl) / 100 - 2;
        u64::try_from(left)
            .ok()
            .filter(|ms| *ms > 0)
            .map(Duration::from_millis)
    }
}

#[async_trait(?Send)]
impl<E: Env> Lock<E> for OnWall<E> {
    async fn acquire(&self, env: &E, key: &str, owner: &str) -> Result<Grant, LockError> {
        let start = env.wall();
        let grant = self.inner.acquire(env, key, owner).await?;
        let Some(left) = self.claim(env, start, self.settings.ttl) else {
            let until = None;
            let undone = self.inner.release(env, key, Held { owner, until }).await;
            let clean = matches!(undone, Ok(()) | Err(LockError::NotOwner));
            return Err(LockError::TooLate { clean });
        };
        Ok(Grant {
            validity: Some(left),
            ..grant
        })
    }

    async fn release(&self, env: &E, key: &str, held: Held<'_>) -> Result<(), LockError> {
        self.inner.release(env, key, held).await
    }

    async fn extend(
        &self,
        env: &E,
        key: &str,
        held: Held<'_>,
        ttl: Duration,
    ) -> Result<Option<Duration>, LockError> {
        let start = env.wall();
        self.inner.extend(env, key, held, ttl).await?;
        Ok(Some(self.claim(env, start, ttl).unwrap_or_default()))
    }
}
