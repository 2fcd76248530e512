//! `node-script-flush`: SCRIPT FLUSH on a server.
//!
//! Proof: a script that was loaded before, and that SCRIPT EXISTS knew, is known no more. There is nothing to heal.
use super::{Fault, Proof, World, ask, probe};
use async_trait::async_trait;
use redis::Value;

pub(super) struct NodeScriptFlush {
    nodes: Vec<usize>,
    hashes: Vec<String>,
}

impl NodeScriptFlush {
    pub(super) fn new(nodes: Vec<usize>) -> Self {
        Self {
            nodes,
            hashes: Vec::new(),
        }
    }
}

async fn known(world: &World, node: usize, hash: &str) -> Result<bool, String> {
    let answer = ask::node(world, node, &["SCRIPT", "EXISTS", hash]).await?;
    Ok(answer == Value::Array(vec![Value::Int(1)]))
}

#[async_trait(?Send)]
impl Fault for NodeScriptFlush {
    fn target(&self) -> String {
        super::target::node_names(&self.nodes)
    }

    async fn prepare(&mut self, world: &World) -> Result<(), String> {
        for node in &self.nodes {
            let text = format!("return 'fencepost canary {}'", world.fresh());
            let hash = ask::text(&ask::node(world, *node, &["SCRIPT", "LOAD", &text]).await?);
            if !known(world, *node, &hash).await? {
                return Err("a script just loaded is not known".to_owned());
            }
            self.hashes.push(hash);
        }
        Ok(())
    }

    async fn inject(&mut self, world: &World) -> Result<(), String> {
        for node in &self.nodes {
            ask::node(world, *node, &["SCRIPT", "FLUSH", "SYNC"]).await?;
        }
        Ok(())
    }

    async fn bit(&mut self, world: &World) -> Proof {
        let mut proofs = Vec::new();
        for (node, hash) in self.nodes.iter().zip(&self.hashes) {
            let name = world.cluster.node_name(*node);
            if known(world, *node, hash).await? {
                return Err(format!("{name} still knows a script loaded before"));
            }
            proofs.push(format!("{name} forgot a script loaded before"));
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
