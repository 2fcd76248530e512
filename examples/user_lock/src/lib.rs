//! A lock on one Redis, as an application has it: `SET NX PX` with a random owner value, released by a script.
//!
//! Owns the lock. Must not know fencepost: it is what `tests/chaos.rs` puts under faults.
use rand::Rng;
use rand::distr::Alphanumeric;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisError};
use std::time::Duration;
use tokio::sync::Mutex;

/// Deletes the key where it still holds the owner value.
const RELEASE: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";
/// Moves the lease's end where the key still holds the owner value.
const EXTEND: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) \
                      else return 0 end";

/// Locks on one server, each with the same lease.
#[derive(Debug)]
pub struct RedisLock {
    client: Client,
    config: AsyncConnectionConfig,
    connection: Mutex<Option<MultiplexedConnection>>,
    lease: Duration,
}

impl RedisLock {
    /// Locks on the server at `url` (`redis://host:port`), with this lease; each command may take `limit`.
    ///
    /// # Errors
    /// The address is none.
    pub fn new(url: &str, lease: Duration, limit: Duration) -> Result<Self, RedisError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(limit))
            .set_response_timeout(Some(limit));
        Ok(Self {
            client: Client::open(url)?,
            config,
            connection: Mutex::new(None),
            lease,
        })
    }

    /// One try: the owner value where the lock was free.
    ///
    /// # Errors
    /// No answer, so that the lock may have been taken all the same, or none that could be taken.
    pub async fn acquire(&self, key: &str) -> Result<Option<String>, RedisError> {
        let owner: String = rand::rng()
            .sample_iter(Alphanumeric)
            .take(20)
            .map(char::from)
            .collect();
        let mut set = redis::cmd("SET");
        set.arg(key).arg(&owner).arg("NX").arg("PX").arg(self.ms());
        let set: Option<String> = self.ask(&set).await?;
        Ok(set.map(|_| owner))
    }

    /// Gives the lock back; false: it was not the owner's any more.
    ///
    /// # Errors
    /// No answer.
    pub async fn release(&self, key: &str, owner: &str) -> Result<bool, RedisError> {
        let mut eval = redis::cmd("EVAL");
        eval.arg(RELEASE).arg(1).arg(key).arg(owner);
        self.ask(&eval).await
    }

    /// Gives the lock back without looking whose it is: the mistake that the tests must find.
    ///
    /// # Errors
    /// No answer.
    pub async fn release_blindly(&self, key: &str) -> Result<bool, RedisError> {
        self.ask(redis::cmd("DEL").arg(key)).await
    }

    /// The lease begins again from now; false: the lock was not the owner's any more.
    ///
    /// # Errors
    /// No answer.
    pub async fn extend(&self, key: &str, owner: &str) -> Result<bool, RedisError> {
        let mut eval = redis::cmd("EVAL");
        eval.arg(EXTEND).arg(1).arg(key).arg(owner).arg(self.ms());
        self.ask(&eval).await
    }

    /// The lease.
    pub fn lease(&self) -> Duration {
        self.lease
    }

    fn ms(&self) -> u64 {
        u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX)
    }

    /// A connection that broke once is broken for good, so the next command makes another.
    async fn ask<T: redis::FromRedisValue>(&self, command: &redis::Cmd) -> Result<T, RedisError> {
        let mut connection = {
            let mut shared = self.connection.lock().await;
            if let Some(connection) = &*shared {
                connection.clone()
            } else {
                let config = self.config.clone();
                let made = self
                    .client
                    .get_multiplexed_async_connection_with_config(&config)
                    .await?;
                shared.insert(made).clone()
            }
        };
        let answer = command.query_async(&mut connection).await;
        if answer
            .as_ref()
            .is_err_and(|e: &RedisError| e.is_unrecoverable_error())
        {
            self.connection.lock().await.take();
        }
        answer
    }
}
