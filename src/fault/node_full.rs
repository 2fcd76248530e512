//! `node-full`: maxmemory 1 under noeviction, so that a server refuses whatever may grow memory.
//!
//! Proof: a SET on another connection is answered by OOM, then by OK.
use super::{Fault, Proof, World, ask, probe};
use async_trait::async_trait;

pub(super) struct NodeFull {
    nodes: Vec<usize>,
}

impl NodeFull {
    pub(super) fn new(nodes: Vec<usize>) -> Self {
        Self { nodes }
    }
}

/// Gives a node its memory limit and what it does there.
pub(super) async fn limit(
    world: &World,
    node: usize,
    bytes: u64,
    policy: &str,
) -> Result<(), String> {
    let set = async |name: &str, value: &str| {
        ask::node(world, node, &["CONFIG", "SET", name, value]).await
    };
    set("maxmemory-policy", policy).await?;
    set("maxmemory", &bytes.to_string()).await?;
    Ok(())
}

#[async_trait(?Send)]
impl Fault for NodeFull {
    fn target(&self) -> String {
        super::target::node_names(&self.nodes)
    }

    async fn inject(&mut self, world: &World) -> Result<(), String> {
        for node in &self.nodes {
            limit(world, *node, 1, "noeviction").await?;
        }
        Ok(())
    }

    async fn bit(&mut self, world: &World) -> Proof {
        let mut proofs = Vec::new();
        for node in &self.nodes {
            ask::write_says(world, *node, "OOM").await?;
            proofs.push(format!(
                "{} answers a SET by OOM",
                world.cluster.node_name(*node)
            ));
        }
        Ok(probe::summary(&proofs))
    }

    async fn heal(&mut self, world: &World) -> Result<(), String> {
        for node in &self.nodes {
            limit(world, *node, 0, "noeviction").await?;
        }
        Ok(())
    }

    async fn healed(&mut self, world: &World) -> Proof {
        let mut proofs = Vec::new();
        for node in &self.nodes {
            ask::write_says(world, *node, "OK").await?;
            proofs.push(format!(
                "{} answers a SET by OK",
                world.cluster.node_name(*node)
            ));
        }
        Ok(probe::summary(&proofs))
    }
}
