//! `node-drop-clients`: CLIENT KILL TYPE normal on a server. The observer listens to events, and so is of another type.
//!
//! Proof: a connection made before is closed, and none of the ids that CLIENT LIST gave before is there any more.
use super::{Fault, Proof, World, ask, probe};
use crate::resp::Resp;
use async_trait::async_trait;
use std::collections::BTreeSet;
use std::time::Duration;

pub(super) struct NodeDropClients {
    nodes: Vec<usize>,
    /// A connection of our own to each, and the ids of all that were there with it.
    before: Vec<(tokio::net::TcpStream, BTreeSet<u64>)>,
}

impl NodeDropClients {
    pub(super) fn new(nodes: Vec<usize>) -> Self {
        Self {
            nodes,
            before: Vec::new(),
        }
    }
}

/// The ids of a node's connections of the type `normal`.
async fn ids(world: &World, node: usize) -> Result<BTreeSet<u64>, String> {
    let list = ask::node(world, node, &["CLIENT", "LIST", "TYPE", "normal"]).await?;
    let list = ask::text(&list);
    let ids = list
        .lines()
        .filter_map(|line| line.strip_prefix("id=")?.split(' ').next()?.parse().ok());
    Ok(ids.collect())
}

#[async_trait(?Send)]
impl Fault for NodeDropClients {
    fn target(&self) -> String {
        super::target::node_names(&self.nodes)
    }

    async fn prepare(&mut self, world: &World) -> Result<(), String> {
        for node in &self.nodes {
            let canary = tokio::net::TcpStream::connect(world.cluster.direct(*node)).await;
            let canary = canary.map_err(|e| e.to_string())?;
            // The server accepts in the order of arrival: this one is listed once a later one is answered.
            let ids = ids(world, *node).await?;
            self.before.push((canary, ids));
        }
        Ok(())
    }

    async fn inject(&mut self, world: &World) -> Result<(), String> {
        for node in &self.nodes {
            let connection = Resp::new(world.cluster.direct(*node), Duration::from_secs(1));
            ask::on(
                &connection,
                &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"],
            )
            .await?;
        }
        Ok(())
    }

    async fn bit(&mut self, world: &World) -> Proof {
        let mut proofs = Vec::new();
        for (node, (canary, before)) in self.nodes.iter().zip(&mut self.before) {
            let name = world.cluster.node_name(*node);
            let mut byte = [0];
            let end = tokio::io::AsyncReadExt::read(canary, &mut byte);
            match tokio::time::timeout(probe::ANSWER, end).await {
                Err(_) => return Err(format!("{name} left a connection made before open")),
                Ok(Ok(n)) if n > 0 => return Err(format!("{name} spoke unasked")),
                Ok(_) => {}
            }
            let left = ids(world, *node).await?.intersection(before).count();
            if left > 0 {
                return Err(format!("{name} kept {left} of its connections"));
            }
            proofs.push(format!(
                "{name} closed all {} connections that it had",
                before.len()
            ));
        }
        Ok(probe::summary(&proofs))
    }

    fn momentary(&self) -> bool {
        true
    }

    async fn healed(&mut self, world: &World) -> Proof {
        super::node_pause::answers_directly(world, &self.nodes).await
    }
}
