//! What the locks on one server share: the grant, and giving up a grant that came too late.
//!
//! Owns no algorithm of its own. Must not know which lock asks.
use super::{
    CallError, Cmd, Cut, Env, Grant, LockError, Reply, Script, Settings, validity, within,
};
use std::time::Duration;

/// The one server.
pub(super) const NODE: usize = 0;

/// Set the key if it is free; with `fencing`, take a token in the same step.
///
/// Returns the grant with what is left of `ttl`. A grant of which nothing is left has validity zero: what to do about
/// it is the lock's affair.
pub(super) async fn grant<E: Env>(
    env: &E,
    settings: Settings,
    key: &str,
    owner: &str,
    ttl: Option<Duration>,
) -> Result<Grant, LockError> {
    let start = env.now();
    let token = if settings.fencing {
        let counter = counter(key);
        let script = Script::Grant {
            key,
            counter: &counter,
            owner,
            ttl,
        };
        match within(env, settings.node_timeout, NODE, Cmd::Run(script)).await? {
            Reply::Int(token) => Some(u64::try_from(token).map_err(|_| garbled())?),
            Reply::Nil => return Err(LockError::Held),
            _ => return Err(garbled()),
        }
    } else {
        let cmd = match ttl {
            Some(ttl) => Cmd::SetNxPx {
                key,
                value: owner,
                ttl,
            },
            None => Cmd::SetNx { key, value: owner },
        };
        match within(env, settings.node_timeout, NODE, cmd).await? {
            Reply::Ok => None,
            Reply::Nil => return Err(LockError::Held),
            _ => return Err(garbled()),
        }
    };
    if !replicated(env, settings).await {
        let undone = one_or_not_owner(env, settings, Cmd::Run(Script::Unlock { key, owner })).await;
        let clean = matches!(undone, Ok(()) | Err(LockError::NotOwner));
        return Err(LockError::NoQuorum { clean });
    }
    let elapsed = env.now().saturating_sub(start);
    Ok(Grant {
        validity: ttl.map(|ttl| validity(ttl, elapsed).unwrap_or_default()),
        token,
    })
}

/// Whether as many replicas as the settings ask for have all that was written so far; asked of none, they have. The
/// server is given half of the time allowed for a command, so that its "no" still comes in time.
pub(super) async fn replicated<E: Env>(env: &E, settings: Settings) -> bool {
    if settings.wait == 0 {
        return true;
    }
    let cmd = Cmd::Wait {
        replicas: settings.wait,
        timeout: settings.node_timeout / 2,
    };
    match within(env, settings.node_timeout, NODE, cmd).await {
        Ok(Reply::Int(n)) => u32::try_from(n).is_ok_and(|n| n >= settings.wait),
        _ => false,
    }
}

/// Run a command that answers 1 (done) or 0 (not mine).
pub(super) async fn one_or_not_owner<E: Env>(
    env: &E,
    settings: Settings,
    cmd: Cmd<'_>,
) -> Result<(), LockError> {
    match within(env, settings.node_timeout, NODE, cmd).await? {
        Reply::Int(1) => Ok(()),
        Reply::Int(0) => Err(LockError::NotOwner),
        _ => Err(garbled()),
    }
}

/// Where the grants of a lock key are counted. Outside of the locks' prefix, since it is no lock; the braces keep it in
/// the lock key's slot of a Redis Cluster.
fn counter(key: &str) -> String {
    format!("fencing:{{{key}}}")
}

/// An answer that the command cannot have.
pub(super) fn garbled() -> LockError {
    LockError::Call(CallError::Unknown(Cut::Garbled))
}
