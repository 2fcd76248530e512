//! A cluster as the conformance run of an adapter sees it: what lock keys hold, and servers that hang.
//!
//! Owns the commands for that. Must not know the rules of the protocol. Answers go to `client::conformance`.
use crate::client::conformance::{Held, Servers};
use crate::cluster::Cluster;
use crate::resp::Resp;
use async_trait::async_trait;
use redis::{Cmd, Value};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// Bound on making a connection, and on an answer.
pub(super) const LIMIT: Duration = Duration::from_secs(5);

/// The servers of a cluster.
pub struct ClusterServers {
    cluster: Rc<Cluster>,
    direct: Vec<Resp>,
}

impl ClusterServers {
    /// Connects at first use. Needs a `LocalSet`.
    pub fn new(cluster: Rc<Cluster>) -> Self {
        let direct = (0..cluster.node_count())
            .map(|n| Resp::new(cluster.direct(n), LIMIT))
            .collect();
        Self { cluster, direct }
    }

    async fn ask(&self, node: usize, words: &[&str]) -> Result<Value, String> {
        let mut cmd = Cmd::new();
        for word in words {
            cmd.arg(*word);
        }
        match tokio::time::timeout(LIMIT, self.direct[node].call(&cmd)).await {
            Ok(Ok(Value::ServerError(error))) => Err(format!("a server refused: {error:?}")),
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(format!("a server is gone: {error}")),
            Err(_) => Err("a server does not answer".to_owned()),
        }
    }

    async fn read_one(&self, node: usize, key: &str, owner: &str) -> Result<Held, String> {
        let kind = text(&self.ask(node, &["TYPE", key]).await?);
        if kind == "none" {
            return Ok(Held::Nothing);
        }
        let Value::Int(pttl) = self.ask(node, &["PTTL", key]).await? else {
            return Ok(Held::Nothing);
        };
        if kind == "string" {
            let value = text(&self.ask(node, &["GET", key]).await?);
            return Ok(Held::Text(value, pttl));
        }
        let inside = kind == "hash"
            && matches!(
                self.ask(node, &["HEXISTS", key, owner]).await?,
                Value::Int(1)
            );
        Ok(Held::Other(kind, inside, pttl))
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::SimpleString(text) => text.clone(),
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        _ => String::new(),
    }
}

#[async_trait(?Send)]
impl Servers for ClusterServers {
    fn nodes(&self, client: &str) -> Vec<SocketAddr> {
        (0..self.cluster.node_count())
            .map(|n| self.cluster.link(client, n))
            .collect()
    }

    async fn read(&self, key: &str, owner: &str) -> Result<Vec<Held>, String> {
        let mut all = Vec::new();
        for node in 0..self.direct.len() {
            all.push(self.read_one(node, key, owner).await?);
        }
        Ok(all)
    }

    async fn keys_with(&self, part: &str) -> Result<Vec<String>, String> {
        let mut found = Vec::new();
        for node in 0..self.direct.len() {
            let keys = self.ask(node, &["KEYS", &format!("*{part}*")]).await?;
            if let Value::Array(keys) = keys {
                found.extend(keys.iter().map(text));
            }
        }
        found.sort();
        found.dedup();
        Ok(found)
    }

    async fn delete(&self, key: &str) -> Result<(), String> {
        for node in 0..self.direct.len() {
            self.ask(node, &["DEL", key]).await?;
        }
        Ok(())
    }

    async fn hang(&self) -> Result<(), String> {
        for node in 0..self.direct.len() {
            let paused = self.cluster.pause_node(node).await;
            paused.map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    async fn go_on(&self) -> Result<(), String> {
        for node in 0..self.direct.len() {
            let resumed = self.cluster.resume_node(node).await;
            resumed.map_err(|e| e.to_string())?;
        }
        Ok(())
    }
}
