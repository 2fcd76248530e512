//! `node-power-loss`: a server is killed, the tail that it had not synced is cut off, and it is started again.
//!
//! The server's shim notes, at each fsync and fdatasync, the size that the call covers; at the next start it cuts each
//! file to that size before the server reads a byte. Modelled: written and not synced is lost, and nothing else is. Not
//! modelled: a disk that lies about its syncs, names of files that are lost, sectors torn in the middle.
//!
//! Proof: another run id, and INFO's own count of the append-only file, which is that of before less what was cut.
use super::{Fault, Proof, World, ask, node_kill, probe};
use crate::cluster::shim::Shim;
use crate::plan::{FaultPlan, RestartData};
use async_trait::async_trait;
use std::time::Duration;

/// What the load may write between the look and the kill, and after the start before the next look, in bytes.
const MEANWHILE: i64 = 256 << 10;

pub(super) struct NodePowerLoss {
    nodes: Vec<usize>,
    down: Duration,
    demote_after: Duration,
    before: Vec<Before>,
}

struct Before {
    run_id: String,
    /// Bytes of the append-only file.
    size: i64,
}

impl NodePowerLoss {
    pub(super) fn new(plan: &FaultPlan, nodes: Vec<usize>) -> Self {
        Self {
            nodes,
            down: plan.down.unwrap_or_default(),
            demote_after: plan.demote_after.unwrap_or_default(),
            before: Vec::new(),
        }
    }
}

fn shim(world: &World, node: usize) -> Result<&Shim, String> {
    let shim = world.cluster.shim(node);
    shim.ok_or_else(|| "the server was started without the shim".to_owned())
}

async fn size(world: &World, node: usize) -> Result<i64, String> {
    ask::number(world, node, "persistence", "aof_current_size").await
}

/// A file that was never synced would be kept whole: at least one sync of the growing file must have been seen.
fn synced_once(world: &World, node: usize) -> Result<(), String> {
    let files = shim(world, node)?.synced().map_err(|e| e.to_string())?;
    let grows = |path: &str| path.ends_with(".incr.aof") || path.ends_with("appendonly.aof");
    if files.iter().any(|(path, _)| grows(path)) {
        return Ok(());
    }
    Err("the server has synced no append-only file yet".to_owned())
}

#[async_trait(?Send)]
impl Fault for NodePowerLoss {
    fn target(&self) -> String {
        super::target::node_names(&self.nodes)
    }

    async fn prepare(&mut self, world: &World) -> Result<(), String> {
        for node in &self.nodes {
            probe::retry(|| async { synced_once(world, *node) }).await?;
            self.before.push(Before {
                run_id: probe::run_id(world, *node).await?,
                size: size(world, *node).await?,
            });
        }
        Ok(())
    }

    async fn inject(&mut self, world: &World) -> Result<(), String> {
        for node in &self.nodes {
            let killed = world.cluster.kill_node(*node).await;
            killed.map_err(|e| e.to_string())?;
        }
        node_kill::dead(world, &self.nodes).await?;
        for node in &self.nodes {
            shim(world, *node)?.ask_cut().map_err(|e| e.to_string())?;
        }
        tokio::time::sleep(self.down).await;
        for node in &self.nodes {
            let started = world.cluster.start_node(*node, RestartData::Keep).await;
            started.map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    async fn bit(&mut self, world: &World) -> Proof {
        let mut proofs = Vec::new();
        for (node, before) in self.nodes.iter().zip(&self.before) {
            let name = world.cluster.node_name(*node);
            let run_id = probe::retry(|| async { probe::run_id(world, *node).await }).await?;
            if run_id == before.run_id {
                return Err(format!("{name} still has the run id {run_id}"));
            }
            let cut = shim(world, *node)?.cut_off().map_err(|e| e.to_string())?;
            let cut = cut.ok_or_else(|| format!("{name} started and cut nothing"))?;
            let lost = i64::try_from(cut.from - cut.to).unwrap_or(i64::MAX);
            let more = size(world, *node).await? - (before.size - lost);
            if !(0..=MEANWHILE).contains(&more) {
                return Err(format!(
                    "{name} lost {lost} bytes, but its file is {more} bytes longer than that"
                ));
            }
            proofs.push(format!(
                "{name} has a new run id, {lost} bytes of {} were not synced and are gone",
                cut.from
            ));
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
