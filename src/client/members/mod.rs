//! Locks' requests to the members of a cluster that agrees by consensus: of etcd, or of ZooKeeper.
//!
//! Owns which of them is asked. Must not know any lock. `env` asks here; requests go to `etcd` and `zookeeper`, and what an
//! answer means to a lock the file of that name knows.
mod etcd;
mod zookeeper;

use crate::etcd::Member;
use crate::lock::{CallError, Cut, Kv, Reply};
use std::net::SocketAddr;
use std::time::Duration;

/// What members speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tongue {
    /// etcd's v3 API.
    Etcd,
    /// ZooKeeper's protocol.
    ZooKeeper,
}

impl Tongue {
    /// What the built-in lock of this name speaks; none: RESP, or nothing.
    pub(super) fn of(lock: &str) -> Option<Self> {
        match lock {
            "etcd" => Some(Self::Etcd),
            "zookeeper" => Some(Self::ZooKeeper),
            _ => None,
        }
    }

    /// The driver's name, for the record.
    pub(super) fn driver(self) -> &'static str {
        match self {
            Self::Etcd => "fencepost's own connection to etcd's JSON gateway",
            Self::ZooKeeper => "fencepost's own connection to ZooKeeper",
        }
    }
}

/// The members, as one client knows them.
#[derive(Debug)]
pub(super) enum Members {
    Etcd(Vec<Member>),
    ZooKeeper(zookeeper::Ensemble),
}

impl Members {
    /// Connections are made at first use, within `connect_limit` each.
    pub(super) fn new(tongue: Tongue, nodes: &[SocketAddr], connect_limit: Duration) -> Self {
        match tongue {
            Tongue::Etcd => {
                let each = nodes.iter().map(|at| Member::new(*at, connect_limit));
                Self::Etcd(each.collect())
            }
            Tongue::ZooKeeper => Self::ZooKeeper(zookeeper::Ensemble::new(nodes, connect_limit)),
        }
    }

    pub(super) fn count(&self) -> usize {
        match self {
            Self::Etcd(members) => members.len(),
            Self::ZooKeeper(ensemble) => ensemble.count(),
        }
    }

    /// Make a connection to each.
    pub(super) async fn warm_up(&self) {
        match self {
            Self::Etcd(members) => {
                let looks = members.iter().map(Member::status);
                futures_util::future::join_all(looks).await;
            }
            Self::ZooKeeper(ensemble) => ensemble.warm_up().await,
        }
    }

    /// Send one request to one member. It is sent once this is polled: a lock asks members one after the other.
    pub(super) async fn ask(&self, node: usize, kv: Kv<'_>) -> Result<Reply, CallError> {
        if node >= self.count() {
            return Err(CallError::NotSent(Cut::Refused));
        }
        match self {
            Self::Etcd(members) => etcd::ask(&members[node], kv).await,
            Self::ZooKeeper(ensemble) => ensemble.ask(node, kv).await,
        }
    }
}
