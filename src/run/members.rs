//! Servers that agree by consensus, as the conformance run of an adapter sees them: whose a lock is, and servers that hang.
//!
//! Owns the questions for that; the members answer as one server. Must not know the rules of the protocol. Answers go to
//! `client::conformance`.
use super::servers::{ClusterServers, LIMIT};
use crate::client::conformance::{Held, Servers};
use crate::cluster::{Cluster, Speaks};
use crate::etcd::{self, Member};
use crate::zookeeper::{self, Conn, LOCKS, queue_of};
use async_trait::async_trait;
use std::fmt::Display;
use std::net::SocketAddr;
use std::rc::Rc;

/// The members of a cluster.
pub struct MemberServers {
    cluster: Rc<Cluster>,
    nodes: ClusterServers,
}

impl MemberServers {
    /// Connects for each question. Needs a `LocalSet`.
    pub fn new(cluster: Rc<Cluster>) -> Self {
        let nodes = ClusterServers::new(cluster.clone());
        Self { cluster, nodes }
    }

    fn etcd(&self) -> Option<Member> {
        let etcd = self.cluster.speaks() == Speaks::Etcd;
        etcd.then(|| Member::new(self.cluster.direct(0), LIMIT))
    }

    async fn zookeeper(&self) -> Result<Conn, String> {
        let session = LIMIT * 2;
        within(Conn::open(self.cluster.direct(0), LIMIT, session)).await
    }

    /// The lock's owner.
    async fn owner(&self, key: &str) -> Result<Option<String>, String> {
        if let Some(member) = self.etcd() {
            let (_, entries) = within(member.list(key)).await?;
            let mine = entries
                .iter()
                .filter(|e| etcd::place(&e.key, &e.value).0 == key);
            let holder = mine.min_by_key(|e| e.created);
            return Ok(holder.map(|e| etcd::place(&e.key, &e.value).1.to_owned()));
        }
        let mut conn = self.zookeeper().await?;
        let queue = within(conn.children(&queue_of(key))).await?;
        let holder = zookeeper::first(&queue).and_then(|name| zookeeper::place(name));
        Ok(holder.map(|(owner, _)| owner.to_owned()))
    }
}

async fn within<T, E: Display>(call: impl Future<Output = Result<T, E>>) -> Result<T, String> {
    match tokio::time::timeout(LIMIT, call).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(format!("a server is gone: {error}")),
        Err(_) => Err("a server does not answer".to_owned()),
    }
}

#[async_trait(?Send)]
impl Servers for MemberServers {
    fn nodes(&self, client: &str) -> Vec<SocketAddr> {
        self.nodes.nodes(client)
    }

    async fn read(&self, key: &str, _owner: &str) -> Result<Vec<Held>, String> {
        let owner = self.owner(key).await?;
        Ok(vec![owner.map_or(Held::Nothing, Held::Session)])
    }

    async fn keys_with(&self, part: &str) -> Result<Vec<String>, String> {
        let all = if let Some(member) = self.etcd() {
            let (_, entries) = within(member.list("fp:")).await?;
            entries.into_iter().map(|e| e.key).collect()
        } else {
            within(self.zookeeper().await?.children(LOCKS)).await?
        };
        Ok(all.into_iter().filter(|key| key.contains(part)).collect())
    }

    async fn delete(&self, key: &str) -> Result<(), String> {
        if let Some(member) = self.etcd() {
            return within(member.delete(key)).await;
        }
        let mut conn = self.zookeeper().await?;
        let folder = queue_of(key);
        for name in within(conn.children(&folder)).await? {
            within(conn.delete(&format!("{folder}/{name}"))).await?;
        }
        Ok(())
    }

    async fn hang(&self) -> Result<(), String> {
        self.nodes.hang().await
    }

    async fn go_on(&self) -> Result<(), String> {
        self.nodes.go_on().await
    }
}
