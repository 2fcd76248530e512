//! The Lua scripts of the built-in locks: each one atomic step on one server.
//!
//! Owns their text and arguments. Must not know how a script gets to a server (`client::env` sends its hash, and its
//! text where the hash is not known there).
use std::time::Duration;

/// A script with its arguments. The meaning of each is given, so that a simulated server need not read Lua.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Script<'a> {
    /// If `key` is free: set it to `owner` (with `ttl`, if any), add 1 to `counter`, and answer the counter, which is
    /// the fencing token; else answer nil. Token and grant are one step, so that token order is grant order. The
    /// counter lives on the same server as the lock: after a restart without data it starts again from 1.
    Grant {
        /// Lock key.
        key: &'a str,
        /// Counter of grants.
        counter: &'a str,
        /// Owner value.
        owner: &'a str,
        /// Time to live; none: without end.
        ttl: Option<Duration>,
    },
    /// If `key` holds `owner`: delete it and answer 1, else 0.
    Unlock {
        /// Lock key.
        key: &'a str,
        /// Owner value.
        owner: &'a str,
    },
    /// If `key` holds `owner`: let it expire `ttl` from now and answer 1, else 0.
    Extend {
        /// Lock key.
        key: &'a str,
        /// Owner value.
        owner: &'a str,
        /// New time to live.
        ttl: Duration,
    },
}

/// A script without arguments: names its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScriptId {
    /// Of [`Script::Grant`].
    Grant = 0,
    /// Of [`Script::Unlock`].
    Unlock = 1,
    /// Of [`Script::Extend`].
    Extend = 2,
}

impl ScriptId {
    /// All scripts, each at the index that is its number.
    pub const ALL: [ScriptId; 3] = [ScriptId::Grant, ScriptId::Unlock, ScriptId::Extend];

    /// Its Lua text.
    pub fn text(self) -> &'static str {
        match self {
            ScriptId::Grant => {
                "if ARGV[2] == '0' then \
                 if not redis.call('SET', KEYS[1], ARGV[1], 'NX') then return false end \
                 elseif not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return false end \
                 return redis.call('INCR', KEYS[2])"
            }
            ScriptId::Unlock => {
                "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end"
            }
            ScriptId::Extend => {
                "if redis.call('GET', KEYS[1]) == ARGV[1] then \
                 return redis.call('PEXPIRE', KEYS[1], ARGV[2]) else return 0 end"
            }
        }
    }
}

impl<'a> Script<'a> {
    /// Which text it is.
    pub fn id(&self) -> ScriptId {
        match self {
            Script::Grant { .. } => ScriptId::Grant,
            Script::Unlock { .. } => ScriptId::Unlock,
            Script::Extend { .. } => ScriptId::Extend,
        }
    }

    /// `KEYS`: the first, and the second where there is one.
    pub fn keys(&self) -> (&'a str, Option<&'a str>) {
        match *self {
            Script::Grant { key, counter, .. } => (key, Some(counter)),
            Script::Unlock { key, .. } | Script::Extend { key, .. } => (key, None),
        }
    }

    /// `ARGV`: the owner value, and the time to live in ms where there is one (0: without end).
    pub fn args(&self) -> (&'a str, Option<u64>) {
        match *self {
            Script::Grant { owner, ttl, .. } => (owner, Some(ttl.map_or(0, ms))),
            Script::Unlock { owner, .. } => (owner, None),
            Script::Extend { owner, ttl, .. } => (owner, Some(ms(ttl))),
        }
    }
}

/// Whole milliseconds, at least 1: a server takes no shorter lease, and 0 means something else to it.
pub fn ms(d: Duration) -> u64 {
    u64::try_from(d.as_millis()).unwrap_or(u64::MAX).max(1)
}
