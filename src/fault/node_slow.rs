//! `node-slow`: one script keeps a server busy; everything else waits in its sockets.
//!
//! Proof: a direct PING gets no answer while the process is not stopped; then PING is answered.
use super::{Fault, Proof, World, ask, probe};
use crate::cluster::Phase;
use crate::plan::FaultPlan;
use crate::resp::Resp;
use async_trait::async_trait;
use std::time::Duration;
use tokio::task::JoinHandle;

/// Spins for ARGV[1] microseconds. From Redis 7.2 on TIME stands still in a script, and there is a clock of processor time
/// instead; before, the other way round. It only reads, so it can be broken off.
const SPIN: &str = "local cpu = pcall(function() return os.clock() end) \
                    local function now() \
                      if cpu then return os.clock() * 1000000 end \
                      local t = redis.call('TIME') \
                      return t[1] * 1000000 + t[2] \
                    end \
                    local till = now() + ARGV[1] repeat until now() >= till return 1";

pub(super) struct NodeSlow {
    nodes: Vec<usize>,
    length: Duration,
    scripts: Vec<JoinHandle<Result<(), String>>>,
}

impl NodeSlow {
    pub(super) fn new(plan: &FaultPlan, nodes: Vec<usize>) -> Self {
        Self {
            nodes,
            length: plan.length.unwrap_or_default(),
            scripts: Vec::new(),
        }
    }
}

#[async_trait(?Send)]
impl Fault for NodeSlow {
    fn target(&self) -> String {
        super::target::node_names(&self.nodes)
    }

    async fn inject(&mut self, world: &World) -> Result<(), String> {
        for node in &self.nodes {
            let connection = Resp::new(world.cluster.direct(*node), Duration::from_secs(1));
            let mut spin = redis::cmd("EVAL");
            spin.arg(SPIN).arg(0).arg(self.length.as_micros() as u64);
            self.scripts.push(tokio::task::spawn_local(async move {
                match connection.call(&spin).await {
                    Ok(redis::Value::Int(1)) => Ok(()),
                    Ok(other) => Err(ask::text(&other)),
                    Err(error) => Err(error.to_string()),
                }
            }));
        }
        Ok(())
    }

    async fn bit(&mut self, world: &World) -> Proof {
        let mut proofs = Vec::new();
        let deadline = (self.length / 2).min(probe::ANSWER);
        for node in &self.nodes {
            let name = world.cluster.node_name(*node);
            let direct = world.cluster.direct(*node);
            // The script is on its way on another connection: until it has arrived a PING is answered.
            let silent = probe::retry_for(deadline, || async {
                match probe::command(direct, "PING", deadline).await {
                    Err(why) => Ok(why),
                    Ok(_) => Err(format!("{name} answers a PING")),
                }
            })
            .await?;
            let state = world.cluster.node_state(*node).await;
            if state.phase != Phase::Running {
                return Err(format!("{name} does not run: {}", state.proof));
            }
            proofs.push(format!("{name}: {silent}, {}", state.proof));
        }
        Ok(probe::summary(&proofs))
    }

    async fn heal(&mut self, _world: &World) -> Result<(), String> {
        for script in self.scripts.drain(..) {
            match tokio::time::timeout(self.length + probe::PATIENCE, script).await {
                Ok(Ok(outcome)) => outcome?,
                Ok(Err(lost)) => return Err(lost.to_string()),
                Err(_) => return Err("the script does not end".to_owned()),
            }
        }
        Ok(())
    }

    async fn healed(&mut self, world: &World) -> Proof {
        super::node_pause::answers_directly(world, &self.nodes).await
    }
}
