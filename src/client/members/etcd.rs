//! What an answer of etcd means to a lock.
//!
//! Owns nothing else. Must not know any lock. Requests go to `etcd`.
use crate::client::env::cut;
use crate::etcd::{EtcdError, Member};
use crate::lock::{CallError, Cut, Kv, Reply};

/// gRPC's code for what is not there, such as a lease.
const NOT_FOUND: i64 = 5;

/// Send one request to one member.
pub(super) async fn ask(member: &Member, kv: Kv<'_>) -> Result<Reply, CallError> {
    let millis = |seconds: u64| {
        let millis = seconds.saturating_mul(1000);
        Reply::Int(i64::try_from(millis).unwrap_or(i64::MAX))
    };
    let answer = match kv {
        Kv::Read { key } => {
            let entry = member.read(key, false).await;
            entry.map(|e| e.map_or(Reply::Nil, |e| Reply::Text(e.value)))
        }
        Kv::Grant { lease, ttl } => member.grant(lease, ttl.as_secs()).await.map(millis),
        Kv::Create { key, owner, lease } => {
            let created = member.create(key, owner, lease).await;
            created.map(|revision| revision.map_or(Reply::Nil, Reply::Int))
        }
        Kv::KeepAlive { lease } => {
            let left = member.keep_alive(lease).await;
            left.map(|seconds| seconds.map_or(Reply::Nil, millis))
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
