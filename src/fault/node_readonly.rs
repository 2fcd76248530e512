//! `node-readonly`: a server is made a replica of nobody, and so refuses writes.
//!
//! Proof: INFO names its role, and a SET on another connection is answered by READONLY; then by OK.
use super::{Fault, Proof, World, ask, probe};
use async_trait::async_trait;

pub(super) struct NodeReadonly {
    nodes: Vec<usize>,
}

impl NodeReadonly {
    pub(super) fn new(nodes: Vec<usize>) -> Self {
        Self { nodes }
    }

    async fn proved(&self, world: &World, role: &str, word: &str) -> Proof {
        let mut proofs = Vec::new();
        for node in &self.nodes {
            let name = world.cluster.node_name(*node);
            let is = ask::info(world, *node, "replication", "role").await?;
            if is != role {
                return Err(format!("{name} has the role {is}, not {role}"));
            }
            ask::write_says(world, *node, word).await?;
            proofs.push(format!("{name} has the role {role}, a SET says {word}"));
        }
        Ok(probe::summary(&proofs))
    }
}

#[async_trait(?Send)]
impl Fault for NodeReadonly {
    fn target(&self) -> String {
        super::target::node_names(&self.nodes)
    }

    async fn inject(&mut self, world: &World) -> Result<(), String> {
        for node in &self.nodes {
            // Port 1 of its own loopback: nobody listens there, so nothing is ever copied.
            ask::node(world, *node, &["REPLICAOF", "127.0.0.1", "1"]).await?;
        }
        Ok(())
    }

    async fn bit(&mut self, world: &World) -> Proof {
        self.proved(world, "slave", "READONLY").await
    }

    async fn heal(&mut self, world: &World) -> Result<(), String> {
        for node in &self.nodes {
            ask::node(world, *node, &["REPLICAOF", "NO", "ONE"]).await?;
        }
        Ok(())
    }

    async fn healed(&mut self, world: &World) -> Proof {
        self.proved(world, "master", "OK").await
    }
}
