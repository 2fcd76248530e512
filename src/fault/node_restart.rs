//! `node-restart`: SIGKILL to a server and a start, with its data kept or dropped.
//!
//! Proof: it answers under another run id; a canary key written before tells whether its data is still there. Members of a
//! cluster keep theirs always, and none is written there: that takes a quorum, which another restart may have for itself.
use super::{Fault, Proof, World, probe};
use crate::cluster::Speaks;
use crate::plan::{FaultPlan, RestartData};
use async_trait::async_trait;
use std::time::Duration;

const CANARY: &str = "fencepost:canary";

pub(super) struct NodeRestart {
    nodes: Vec<usize>,
    data: RestartData,
    down: Duration,
    demote_after: Duration,
    before: Vec<String>,
    /// The canary of this restart, if any: an earlier one's may be there still.
    canary: Option<String>,
}

impl NodeRestart {
    pub(super) fn new(plan: &FaultPlan, nodes: Vec<usize>) -> Self {
        Self {
            nodes,
            data: plan.data,
            down: plan.down.unwrap_or_default(),
            demote_after: plan.demote_after.unwrap_or_default(),
            before: Vec::new(),
            canary: None,
        }
    }
}

#[async_trait(?Send)]
impl Fault for NodeRestart {
    fn target(&self) -> String {
        super::target::node_names(&self.nodes)
    }

    async fn prepare(&mut self, world: &World) -> Result<(), String> {
        let alone = world.cluster.speaks() == Speaks::Resp;
        self.canary = alone.then(|| format!("{CANARY}:{}", world.fresh()));
        for node in &self.nodes {
            self.before.push(probe::run_id(world, *node).await?);
            if let Some(canary) = &self.canary {
                let direct = world.cluster.direct(*node);
                probe::set(world, direct, canary, Duration::from_secs(60)).await?;
            }
        }
        Ok(())
    }

    async fn inject(&mut self, world: &World) -> Result<(), String> {
        for node in &self.nodes {
            world
                .cluster
                .kill_node(*node)
                .await
                .map_err(|e| e.to_string())?;
        }
        super::node_kill::dead(world, &self.nodes).await?;
        tokio::time::sleep(self.down).await;
        for node in &self.nodes {
            world
                .cluster
                .start_node(*node, self.data)
                .await
                .map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    async fn bit(&mut self, world: &World) -> Proof {
        let mut proofs = Vec::new();
        for (node, before) in self.nodes.iter().zip(&self.before) {
            let name = world.cluster.node_name(*node);
            super::node_pause::answers_directly(world, &[*node]).await?;
            let now = probe::retry(|| async { probe::run_id(world, *node).await }).await?;
            if now == *before {
                return Err(format!("{name} still has the run id {before}"));
            }
            let Some(canary) = &self.canary else {
                proofs.push(format!("{name} has a new run id"));
                continue;
            };
            let empty = !probe::exists(world, *node, canary).await?;
            if self.data == RestartData::Drop && !empty {
                return Err(format!("{name} was restarted but kept its data"));
            }
            let kept = if empty {
                "its data is gone"
            } else {
                "its data is there"
            };
            proofs.push(format!("{name} has a new run id, {kept}"));
        }
        Ok(probe::summary(&proofs))
    }

    fn momentary(&self) -> bool {
        true
    }

    async fn healed(&mut self, world: &World) -> Proof {
        let proof = super::node_pause::answers_directly(world, &self.nodes).await?;
        super::node_pause::one_primary(world, proof, self.demote_after).await
    }
}
