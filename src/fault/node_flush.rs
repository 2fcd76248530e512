//! `node-flush`: FLUSHALL on a server.
//!
//! Proof: a key that was set and read before is gone, asked on another connection. There is nothing to heal.
use super::{Fault, Proof, World, ask, probe};
use async_trait::async_trait;

pub(super) struct NodeFlush {
    nodes: Vec<usize>,
    canaries: Vec<String>,
}

impl NodeFlush {
    pub(super) fn new(nodes: Vec<usize>) -> Self {
        Self {
            nodes,
            canaries: Vec::new(),
        }
    }
}

#[async_trait(?Send)]
impl Fault for NodeFlush {
    fn target(&self) -> String {
        super::target::node_names(&self.nodes)
    }

    async fn prepare(&mut self, world: &World) -> Result<(), String> {
        for node in &self.nodes {
            self.canaries.push(ask::canary(world, *node).await?);
        }
        Ok(())
    }

    async fn inject(&mut self, world: &World) -> Result<(), String> {
        for node in &self.nodes {
            ask::node(world, *node, &["FLUSHALL", "SYNC"]).await?;
        }
        Ok(())
    }

    async fn bit(&mut self, world: &World) -> Proof {
        let mut proofs = Vec::new();
        for (node, canary) in self.nodes.iter().zip(&self.canaries) {
            let name = world.cluster.node_name(*node);
            match ask::node(world, *node, &["EXISTS", canary]).await? {
                redis::Value::Int(0) => proofs.push(format!("{name} lost a key set before")),
                _ => return Err(format!("{name} still has a key set before")),
            }
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
