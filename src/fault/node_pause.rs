//! `node-pause`: SIGSTOP to a server, SIGCONT to heal. Its connections stay open; what is sent to it waits in its
//! socket and is executed when it resumes, with full TTLs counted from then.
//!
//! Proof: the server does not answer on a direct connection and its process is stopped; it answers again.
use super::{Fault, Proof, World, members, probe, replication};
use crate::cluster::{Phase, Speaks};
use crate::plan::FaultPlan;
use async_trait::async_trait;
use std::time::Duration;

pub(super) struct NodePause {
    nodes: Vec<usize>,
    /// `n1,s2`.
    names: String,
    demote_after: Duration,
}

impl NodePause {
    pub(super) fn new(plan: &FaultPlan, nodes: Vec<usize>, world: &World) -> Self {
        Self {
            names: super::target::server_names(world, &nodes),
            nodes,
            demote_after: plan.demote_after.unwrap_or_default(),
        }
    }
}

#[async_trait(?Send)]
impl Fault for NodePause {
    fn target(&self) -> String {
        self.names.clone()
    }

    async fn inject(&mut self, world: &World) -> Result<(), String> {
        for node in &self.nodes {
            world
                .cluster
                .pause_node(*node)
                .await
                .map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    async fn bit(&mut self, world: &World) -> Proof {
        let mut proofs = Vec::new();
        for node in &self.nodes {
            let proof = probe::retry(|| async {
                let state = world.cluster.node_state(*node).await;
                if state.phase == Phase::Stopped {
                    Ok(state.proof)
                } else {
                    Err(state.proof)
                }
            })
            .await?;
            if probe::ping(world, world.cluster.direct(*node), probe::ANSWER)
                .await
                .is_ok()
            {
                return Err(format!("{} answers a PING", world.cluster.node_name(*node)));
            }
            proofs.push(format!("{proof}; no answer to a PING"));
        }
        Ok(probe::summary(&proofs))
    }

    async fn heal(&mut self, world: &World) -> Result<(), String> {
        for node in &self.nodes {
            world
                .cluster
                .resume_node(*node)
                .await
                .map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    async fn healed(&mut self, world: &World) -> Proof {
        let proof = answers_directly(world, &self.nodes).await?;
        one_primary(world, proof, self.demote_after).await
    }
}

/// Where there are replicas, a node that comes back may find another primary in its place; where there are members of a
/// cluster, another leader.
pub(super) async fn one_primary(world: &World, proof: String, after: Duration) -> Proof {
    if world.cluster.speaks() != Speaks::Resp {
        let settled = members::settle(world).await?;
        return Ok(format!("{proof}; {settled}"));
    }
    if !world.cluster.has_sentinels() {
        return Ok(proof);
    }
    let settled = replication::settle(world, after).await?;
    Ok(format!("{proof}; {settled}"))
}

/// Waits until each node answers on a direct connection, as one that serves clients.
pub(super) async fn answers_directly(world: &World, nodes: &[usize]) -> Proof {
    let patience = match world.cluster.speaks() {
        Speaks::Resp => probe::PATIENCE,
        // It serves no client before it has joined the others, which may have to elect a leader first.
        Speaks::Etcd | Speaks::ZooKeeper => Duration::from_secs(20),
    };
    let mut proofs = Vec::new();
    for node in nodes {
        let ask = || async { probe::serves(world, world.cluster.direct(*node)).await };
        let took = probe::retry_for(patience, ask).await?;
        proofs.push(format!(
            "{} answers in {:.1} ms",
            world.cluster.node_name(*node),
            took.as_secs_f64() * 1e3
        ));
    }
    Ok(probe::summary(&proofs))
}
