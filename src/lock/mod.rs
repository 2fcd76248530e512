//! The built-in locks, right and wrong, each written once, in one file, against one seam: [`Env`].
//!
//! Owns the algorithms and what is honestly said of each ([`LOCKS`]). Must not know any runtime, connection, clock or
//! the harness: no spawn, no `Instant`, no tokio; a lock sees nothing but its [`Env`], so that the same code runs in
//! the client process today and in virtual time later. Where data goes next: `client::builtin` serves a lock through
//! the client protocol.
//!
//! | file | lock |
//! |---|---|
//! | `none`, `perfect` | the two controls |
//! | `set_nx_no_ttl`, `set_nx_del`, `set_nx_get_del` | wrong on purpose, one mistake each |
//! | `set_nx_lua` | right for one server |
//! | `redlock` | N servers, a quorum |
//! | `leased` (as `etcd`, as `zookeeper`) | a consensus service |
//! | `wall` | the two above, with claims by the time of day |
//! | `single` | what the locks on one server share |
//! | `script` | the Lua scripts |
use async_trait::async_trait;
use futures_util::future::{Either, select};
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

mod about;
mod leased;
mod none;
mod perfect;
mod redlock;
mod script;
mod set_nx_del;
mod set_nx_get_del;
mod set_nx_lua;
mod set_nx_no_ttl;
#[cfg(test)]
mod sim;
mod single;
#[cfg(test)]
mod tests;
mod wall;

pub use about::{LOCKS, LockInfo, lock_info};
pub use script::{Script, ScriptId, ms};

/// All that lock code may touch of the world. One `Env` belongs to one worker of one client.
pub trait Env {
    /// Time since some fixed moment, monotonic, on the client's own clock.
    fn now(&self) -> Duration;

    /// The time of day since 1970, which may step: right locks do not ask.
    fn wall(&self) -> Duration {
        self.now()
    }

    /// Wait.
    fn sleep(&self, length: Duration) -> impl Future<Output = ()>;

    /// Send one command to server `node` (from 0) and wait for its answer.
    ///
    /// The command is queued before this returns, not when the future is first polled, and commands to one server are
    /// sent in that order. Dropping the future gives up the answer only: the command may be executed at any later time.
    fn call(&self, node: usize, cmd: Cmd<'_>) -> impl Future<Output = Result<Reply, CallError>>;

    /// 64 random bits; never the same stream in two clients.
    fn random(&self) -> u64;

    /// Number of servers.
    fn nodes(&self) -> usize;
}

/// The commands that locks send. Small on purpose: whatever simulates a server must implement these and no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cmd<'a> {
    /// `SET key value NX PX ttl`: [`Reply::Ok`], or [`Reply::Nil`] when the key exists.
    SetNxPx {
        /// Lock key.
        key: &'a str,
        /// Owner value.
        value: &'a str,
        /// Time to live, whole milliseconds.
        ttl: Duration,
    },
    /// `SET key value NX`, without end: [`Reply::Ok`] or [`Reply::Nil`].
    SetNx {
        /// Lock key.
        key: &'a str,
        /// Owner value.
        value: &'a str,
    },
    /// `GET key`: [`Reply::Text`] or [`Reply::Nil`].
    Get {
        /// Lock key.
        key: &'a str,
    },
    /// `DEL key`: [`Reply::Int`] 1, or 0 when there was no key.
    Del {
        /// Lock key.
        key: &'a str,
    },
    /// `PEXPIRE key ttl`: [`Reply::Int`] 1, or 0 when there was no key.
    PExpire {
        /// Lock key.
        key: &'a str,
        /// New time to live, whole milliseconds.
        ttl: Duration,
    },
    /// `WAIT replicas timeout`: [`Reply::Int`], the number of replicas that have all that this connection wrote so far.
    Wait {
        /// How many are waited for.
        replicas: u32,
        /// For how long, whole milliseconds.
        timeout: Duration,
    },
    /// A script, executed atomically.
    Run(Script<'a>),
    /// A request to a member of an etcd cluster, or of a ZooKeeper ensemble.
    Kv(Kv<'a>),
}

/// The requests of locks to etcd and ZooKeeper. Each may be sent again, to another member too, without another effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kv<'a> {
    /// Whose the key is, by what a quorum or (on ZooKeeper) the member has: [`Reply::Text`] or [`Reply::Nil`].
    Read {
        /// Lock key.
        key: &'a str,
    },
    /// Grant a lease under an id of the caller's: [`Reply::Int`], the milliseconds granted.
    Grant {
        /// Its id.
        lease: i64,
        /// How long; on etcd whole seconds.
        ttl: Duration,
    },
    /// Create the key under a lease, if nobody has it: [`Reply::Int`], the revision of its creation, also where it is there
    /// with this very value; [`Reply::Nil`] where another's is.
    Create {
        /// Lock key.
        key: &'a str,
        /// Owner value.
        owner: &'a str,
        /// The lease's id.
        lease: i64,
    },
    /// Let the lease run anew, confirmed by a quorum: [`Reply::Int`], the milliseconds from now, or [`Reply::Nil`] when there is
    /// none.
    KeepAlive {
        /// The lease's id.
        lease: i64,
    },
    /// End the lease and its keys: [`Reply::Ok`], or [`Reply::Nil`] when there is none.
    Revoke {
        /// The lease's id.
        lease: i64,
    },
}

/// An answer of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// `+OK`.
    Ok,
    /// Nothing.
    Nil,
    /// A number.
    Int(i64),
    /// A string; bytes that are no UTF-8 replaced.
    Text(String),
}

/// Why a command has no answer that counts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No byte of the command left: it will never be executed.
    #[error("not sent: {0}")]
    NotSent(Cut),
    /// Bytes left and no answer came: executed, or not, or at any later time.
    #[error("unknown whether executed: {0}")]
    Unknown(Cut),
    /// The server answered with an error; its first word, such as `READONLY`.
    #[error("the server said {0}")]
    Server(String),
}

/// What came between a command and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Cut {
    /// The connection was refused, or not made in time.
    #[error("connection refused")]
    Refused,
    /// The connection was reset or closed.
    #[error("connection reset")]
    Reset,
    /// The time allowed for one command was over.
    #[error("timed out")]
    Timeout,
    /// Too much is waiting on this connection already.
    #[error("too many commands waiting")]
    Backlog,
    /// The server's bytes are no RESP, or an answer of a kind that the command cannot have.
    #[error("answer not understood")]
    Garbled,
}

/// A lock that was granted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grant {
    /// How long the lock may be used from now on; none: without end.
    pub validity: Option<Duration>,
    /// Fencing token.
    pub token: Option<u64>,
}

/// What a worker knows of a lock that it holds, or may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held<'a> {
    /// The owner value of the attempt.
    pub owner: &'a str,
    /// When the lease ends, on [`Env::now`]'s clock; none: never, or not known (an attempt without answer).
    pub until: Option<Duration>,
}

/// Why a lock operation did not succeed. Whether that is definite is in the published table (`client::errors`).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// The key is there already: somebody holds the lock.
    #[error("held by another")]
    Held,
    /// The key is gone, or holds another owner's value.
    #[error("not the owner")]
    NotOwner,
    /// The lease was over before anything was sent.
    #[error("the lease is over")]
    LeaseOver,
    /// The servers granted, but too late for anything to be left of the lease.
    #[error("granted too late")]
    TooLate {
        /// The owner value is certainly on no server any more.
        clean: bool,
    },
    /// Fewer than a quorum of servers agreed; no evidence that somebody else holds the lock.
    #[error("no quorum")]
    NoQuorum {
        /// The owner value is certainly on no server any more (acquire), or a quorum answered (release, extend).
        clean: bool,
    },
    /// A command failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// This lock has no such thing.
    #[error("not supported: {0}")]
    Unsupported(&'static str),
}

/// One lock algorithm. Each method is one try; whoever wants to wait, retries.
#[async_trait(?Send)]
pub trait Lock<E: Env> {
    /// Try to get `key` under `owner`, which is fresh for every attempt ([`owner_value`]).
    async fn acquire(&self, env: &E, key: &str, owner: &str) -> Result<Grant, LockError>;

    /// Give it back.
    async fn release(&self, env: &E, key: &str, held: Held<'_>) -> Result<(), LockError>;

    /// Make the lease end `ttl` from now; returns the new validity.
    async fn extend(
        &self,
        env: &E,
        key: &str,
        held: Held<'_>,
        ttl: Duration,
    ) -> Result<Option<Duration>, LockError>;
}

/// What the user chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The lease asked for.
    pub ttl: Duration,
    /// Bound on one command to one server; far below `ttl`.
    pub node_timeout: Duration,
    /// Give out fencing tokens.
    pub fencing: bool,
    /// A grant and an extension count only once so many replicas have them.
    pub wait: u32,
}

/// Why a lock cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// No built-in lock has that name.
    #[error("there is no built-in lock `{0}`; there are: {names}", names = names())]
    NoSuchLock(String),
    /// The option does not go with this lock.
    #[error("lock `{lock}` cannot give out fencing tokens: {why}")]
    NoFencing {
        /// The lock.
        lock: &'static str,
        /// Why.
        why: &'static str,
    },
    /// A lease that the drift allowance alone uses up.
    #[error("a lease of {0:?} leaves nothing after the allowance for drift (1 % + 2 ms)")]
    TooShort(Duration),
}

fn names() -> String {
    let names: Vec<&str> = LOCKS.iter().map(|l| l.name).collect();
    names.join(", ")
}

/// The lock of that name.
pub fn build<E: Env + 'static>(
    name: &str,
    settings: Settings,
) -> Result<Box<dyn Lock<E>>, BuildError> {
    let info = lock_info(name).ok_or_else(|| BuildError::NoSuchLock(name.to_owned()))?;
    if settings.fencing
        && let Some(why) = info.no_fencing
    {
        return Err(BuildError::NoFencing {
            lock: info.name,
            why,
        });
    }
    if validity(settings.ttl, Duration::ZERO).is_none() {
        return Err(BuildError::TooShort(settings.ttl));
    }
    Ok(match info.name {
        "none" => Box::new(none::NoLock(settings)),
        "set-nx-no-ttl" => Box::new(set_nx_no_ttl::SetNxNoTtl(settings)),
        "set-nx-del" => Box::new(set_nx_del::SetNxDel(settings)),
        "set-nx-get-del" => Box::new(set_nx_get_del::SetNxGetDel(settings)),
        "set-nx-lua" => Box::new(set_nx_lua::SetNxLua(settings)),
        "redlock" => Box::new(redlock::Redlock(settings)),
        "set-nx-wall" => Box::new(wall::OnWall {
            inner: Box::new(set_nx_lua::SetNxLua(settings)),
            settings,
        }),
        "redlock-wall" => Box::new(wall::OnWall {
            inner: Box::new(redlock::Redlock(settings)),
            settings,
        }),
        "etcd" | "zookeeper" => Box::new(leased::Leased::new(settings)),
        "perfect" => Box::new(perfect::Perfect(settings)),
        other => return Err(BuildError::NoSuchLock(other.to_owned())),
    })
}

/// A fresh owner value: 128 random bits in hexadecimal.
pub fn owner_value<E: Env>(env: &E) -> String {
    format!("{:016x}{:016x}", env.random(), env.random())
}

/// What is left of a lease when `elapsed` has passed since before its first command was sent:
/// `ttl − elapsed − (ttl · 0.01 + 2 ms)`, none when nothing is left. The allowance for clock drift is Redlock's
/// (<https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/>); it does for one server too.
pub fn validity(ttl: Duration, elapsed: Duration) -> Option<Duration> {
    let drift = ttl / 100 + Duration::from_millis(2);
    ttl.checked_sub(elapsed)?
        .checked_sub(drift)
        .filter(|left| !left.is_zero())
}

/// [`Env::call`], given up as [`Cut::Timeout`] after `limit`. Queued before this returns, as there.
fn within<'a, E: Env>(
    env: &'a E,
    limit: Duration,
    node: usize,
    cmd: Cmd<'a>,
) -> impl Future<Output = Result<Reply, CallError>> + 'a {
    let call = env.call(node, cmd);
    async move {
        let call = pin!(call);
        let limit = pin!(env.sleep(limit));
        match select(call, limit).await {
            Either::Left((answer, _)) => answer,
            Either::Right(((), _)) => Err(CallError::Unknown(Cut::Timeout)),
        }
    }
}
