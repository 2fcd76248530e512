//! `node-delete`: an outsider deletes the key of a lock that is held.
//!
//! Proof: the value that was read before stands there no more, asked on another connection. There is nothing to heal.
use super::{Fault, Proof, World, ask, probe};
use crate::run::board::Hold;
use async_trait::async_trait;
use redis::Value;

pub(super) struct NodeDelete {
    nodes: Vec<usize>,
    key: String,
    /// What stood there; a node that had nothing has nothing to lose.
    values: Vec<Option<String>>,
}

impl NodeDelete {
    /// The key of the trigger's operation, else that of the last holder.
    pub(super) fn new(
        nodes: Vec<usize>,
        hold: Option<&Hold>,
        world: &World,
    ) -> Result<Self, String> {
        let hold = hold.cloned().or_else(|| world.board.holder());
        let hold = hold.ok_or("nobody holds the lock")?;
        Ok(Self {
            nodes,
            key: format!("{}{}", world.prefix, hold.key),
            values: Vec::new(),
        })
    }

    async fn value(&self, world: &World, node: usize) -> Result<Option<String>, String> {
        let value = ask::node(world, node, &["GET", &self.key]).await?;
        Ok((value != Value::Nil).then(|| ask::text(&value)))
    }
}

#[async_trait(?Send)]
impl Fault for NodeDelete {
    fn target(&self) -> String {
        super::target::node_names(&self.nodes)
    }

    async fn prepare(&mut self, world: &World) -> Result<(), String> {
        for node in &self.nodes {
            let value = self.value(world, *node).await?;
            self.values.push(value);
        }
        if self.values.iter().all(Option::is_none) {
            return Err(format!("{} is on none of these nodes", self.key));
        }
        Ok(())
    }

    async fn inject(&mut self, world: &World) -> Result<(), String> {
        for node in &self.nodes {
            ask::node(world, *node, &["DEL", &self.key]).await?;
        }
        Ok(())
    }

    async fn bit(&mut self, world: &World) -> Proof {
        let mut proofs = Vec::new();
        for (node, before) in self.nodes.iter().zip(&self.values) {
            let name = world.cluster.node_name(*node);
            let Some(before) = before else {
                continue;
            };
            if self.value(world, *node).await?.as_ref() == Some(before) {
                return Err(format!("{name} still has {} as before", self.key));
            }
            proofs.push(format!("{name} has the value of {} no more", self.key));
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
