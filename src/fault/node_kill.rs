//! `node-kill`: SIGKILL to a server; it is started again with its data when the fault ends.
//!
//! Proof: its process is gone; it answers again under another run id.
use super::{Fault, Proof, World, probe};
use crate::cluster::Phase;
use crate::plan::{FaultPlan, RestartData};
use async_trait::async_trait;
use std::time::Duration;

pub(super) struct NodeKill {
    nodes: Vec<usize>,
    killed: Vec<usize>,
    demote_after: Duration,
}

impl NodeKill {
    pub(super) fn new(plan: &FaultPlan, nodes: Vec<usize>) -> Self {
        Self {
            nodes,
            killed: Vec::new(),
            demote_after: plan.demote_after.unwrap_or_default(),
        }
    }
}

#[async_trait(?Send)]
impl Fault for NodeKill {
    fn target(&self) -> String {
        super::target::node_names(&self.nodes)
    }

    async fn inject(&mut self, world: &World) -> Result<(), String> {
        for node in &self.nodes {
            world
                .cluster
                .kill_node(*node)
                .await
                .map_err(|e| e.to_string())?;
            self.killed.push(*node);
        }
        Ok(())
    }

    async fn bit(&mut self, world: &World) -> Proof {
        dead(world, &self.nodes).await
    }

    async fn heal(&mut self, world: &World) -> Result<(), String> {
        for node in &self.killed {
            world
                .cluster
                .start_node(*node, RestartData::Keep)
                .await
                .map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    async fn healed(&mut self, world: &World) -> Proof {
        let proof = super::node_pause::answers_directly(world, &self.killed).await?;
        super::node_pause::one_primary(world, proof, self.demote_after).await
    }
}

/// Waits until the process of each node is gone.
pub(super) async fn dead(world: &World, nodes: &[usize]) -> Proof {
    let mut proofs = Vec::new();
    for node in nodes {
        let proof = probe::retry(|| async {
            let state = world.cluster.node_state(*node).await;
            if state.phase == Phase::Dead {
                Ok(state.proof)
            } else {
                Err(state.proof)
            }
        })
        .await?;
        proofs.push(proof);
    }
    Ok(probe::summary(&proofs))
}
