//! `node-pause`: SIGSTOP to a server, SIGCONT to heal. Its connections stay open; what is sent to it waits in its
//! socket and is executed when it resumes, with full TTLs counted from then.
//!
//! Proof: the server does not answer on a direct connection and its process is stopped; it answers again.
use super::{Fault, Proof, World, probe};
use crate::cluster::Phase;
use async_trait::async_trait;

pub(super) struct NodePause {
    nodes: Vec<usize>,
}

impl NodePause {
    pub(super) fn new(nodes: Vec<usize>) -> Self {
        Self { nodes }
    }
}

#[async_trait(?Send)]
impl Fault for NodePause {
    fn target(&self) -> String {
        super::target::node_names(&self.nodes)
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
            if probe::command(world.cluster.direct(*node), "PING", probe::ANSWER)
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
        answers_directly(world, &self.nodes).await
    }
}

/// Waits until each node answers on a direct connection.
pub(super) async fn answers_directly(world: &World, nodes: &[usize]) -> Proof {
    let mut proofs = Vec::new();
    for node in nodes {
        let ask =
            || async { probe::command(world.cluster.direct(*node), "PING", probe::ANSWER).await };
        let (_, took) = probe::retry(ask).await?;
        proofs.push(format!(
            "{} answers in {:.1} ms",
            world.cluster.node_name(*node),
            took.as_secs_f64() * 1e3
        ));
    }
    Ok(probe::summary(&proofs))
}
