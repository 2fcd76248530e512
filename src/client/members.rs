//! Locks' requests to the members of an etcd cluster.
//!
//! Owns what an answer of etcd means to a lock. Must not know any lock. `env` asks here; requests go to `etcd`.
use super::env::cut;
use crate::etcd::{EtcdError, Member};
use crate::lock::{CallError, Cut, Kv, Reply};

/// gRPC's code for what is not there, such as a lease.
const NOT_FOUND: i64 = 5;

/// Send one request to one member. It is sent once this is polled: a lock asks members one after the other.
pub(super) async fn ask(member: Option<&Member>, kv: Kv<'_>) -> Result<Reply, CallError> {
    let Some(member) = member else {
        return Err(CallError::NotSent(Cut::Refused));
    };
    let int = |n: u64| Reply::Int(i64::try_from(n).unwrap_or(i64::MAX));
    let answer = match kv {
        Kv::Read { key } => {
            let entry = member.read(key, false).await;
            entry.map(|e| e.map_or(Reply::Nil, |e| Reply::Text(e.value)))
        }
        Kv::Grant { lease, ttl } => member.grant(lease, ttl.as_secs()).await.map(int),
        Kv::Create { key, owner, lease } => {
            let created = member.create(key, owner, lease).await;
            created.map(|revision| revision.map_or(Reply::Nil, Reply::Int))
        }
        Kv::KeepAlive { lease } => {
            let left = member.keep_alive(lease).await;
            left.map(|seconds| seconds.map_or(Reply::Nil, int))
        }
        Kv::Revoke { lease } => {
            let ended = member.revoke(lease).await;
            ended.map(|there| if there { Reply::Ok } else { Reply::Nil })
        }
    };
    answer.map_err(|error| match error {
        EtcdError::NotSent(why) => CallError::NotSent(cut(why)),
        EtcdError::Unknown(why) => CallError::Unknown(cut(why)),
        // A lease that is gone takes no key; every other error may come of a request that is still under way: a
        // member without a leader, or one that lost it, does not know.
        EtcdError::Refused { code, .. } if code == NOT_FOUND => {
            CallError::Server("NOTFOUND".to_owned())
        }
        EtcdError::Refused { .. } => CallError::Unknown(Cut::Reset),
    })
}
