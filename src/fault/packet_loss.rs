//! `packet-loss`: packets between Toxiproxy and a server are dropped at random, by iptables in the server's own network
//! namespace, entered by nsenter. The observer does not come by way of Toxiproxy, and so is spared.
//!
//! Proof: of a batch of PINGs through the links some come a retransmission late; after healing none does.
use super::{Fault, Proof, World, probe};
use crate::cluster::Namespace;
use crate::plan::{Direction, FaultPlan};
use async_trait::async_trait;
use std::time::Duration;
use tokio::process::Command;

/// PINGs of a batch, each on a connection of its own: with a loss of 5 % and four packets a PING that can be lost, all
/// of them pass in one batch of 10⁵.
const BATCH: usize = 60;
/// The shortest retransmission on Linux takes 200 ms.
const LATE: Duration = Duration::from_millis(180);
/// Longest wait for a PING of the batch.
const DEADLINE: Duration = Duration::from_secs(2);

pub(super) struct PacketLoss {
    nodes: Vec<usize>,
    loss: f64,
    direction: Direction,
    /// Rules that stand: node, and the rule without its first word.
    rules: Vec<(usize, Vec<String>)>,
}

impl PacketLoss {
    pub(super) fn new(plan: &FaultPlan, nodes: Vec<usize>) -> Result<Self, String> {
        Ok(Self {
            nodes,
            loss: plan.measures.loss.ok_or("packet-loss has no `loss`")?,
            direction: plan.direction,
            rules: Vec::new(),
        })
    }

    fn rules_of(&self, space: &Namespace) -> Vec<Vec<String>> {
        let proxy = space.toxiproxy.to_string();
        let rule = |chain: &str, side: &str| {
            let chance = self.loss.to_string();
            let words = [
                chain,
                side,
                &proxy,
                "-p",
                "tcp",
                "-m",
                "statistic",
                "--mode",
                "random",
                "--probability",
                &chance,
                "-j",
                "DROP",
            ];
            words.map(str::to_owned).to_vec()
        };
        let mut rules = Vec::new();
        if self.direction != Direction::Replies {
            rules.push(rule("INPUT", "-s"));
        }
        if self.direction != Direction::Requests {
            rules.push(rule("OUTPUT", "-d"));
        }
        rules
    }

    /// The slowest of a batch of PINGs through the node's links; a PING without an answer took as long as its deadline.
    async fn slowest(&self, world: &World, node: usize) -> (Duration, usize) {
        let clients: Vec<String> = world
            .clients
            .slots()
            .iter()
            .map(|slot| slot.name.clone())
            .collect();
        let addresses = (0..BATCH).map(|n| {
            let client = &clients[n % clients.len()];
            world.cluster.link(client, node)
        });
        let pings = addresses.map(|addr| async move {
            let outcome = probe::command(addr, "PING", DEADLINE).await;
            outcome.map_or(DEADLINE, |(_, took)| took)
        });
        let took = futures_util::future::join_all(pings).await;
        let late = took.iter().filter(|t| **t >= LATE).count();
        (took.into_iter().max().unwrap_or_default(), late)
    }
}

/// Runs iptables with these words in the node's network namespace.
async fn iptables(space: &Namespace, action: &str, rule: &[String]) -> Result<(), String> {
    let output = Command::new("nsenter")
        .args(["-t", &space.pid.to_string(), "-n", "iptables", "-w", action])
        .args(rule)
        .stdin(std::process::Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .map_err(|e| format!("nsenter: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("iptables: {}", said.trim()))
}

#[async_trait(?Send)]
impl Fault for PacketLoss {
    fn target(&self) -> String {
        super::target::node_names(&self.nodes)
    }

    async fn inject(&mut self, world: &World) -> Result<(), String> {
        for node in self.nodes.clone() {
            let space = world.cluster.namespace(node).map_err(|e| e.to_string())?;
            for rule in self.rules_of(&space) {
                iptables(&space, "-A", &rule).await?;
                self.rules.push((node, rule));
            }
        }
        Ok(())
    }

    async fn bit(&mut self, world: &World) -> Proof {
        let mut proofs = Vec::new();
        for node in &self.nodes {
            let name = world.cluster.node_name(*node);
            let (slowest, late) = self.slowest(world, *node).await;
            if late == 0 {
                return Err(format!("{name} answers {BATCH} PINGs at once"));
            }
            proofs.push(format!(
                "{name} answers {late} of {BATCH} PINGs late, up to {} ms",
                slowest.as_millis()
            ));
        }
        Ok(probe::summary(&proofs))
    }

    async fn heal(&mut self, world: &World) -> Result<(), String> {
        let mut outcome = Ok(());
        for (node, rule) in std::mem::take(&mut self.rules) {
            let deleted = match world.cluster.namespace(node) {
                Ok(space) => iptables(&space, "-D", &rule).await,
                Err(error) => Err(error.to_string()),
            };
            outcome = deleted.and(outcome);
        }
        outcome
    }

    async fn healed(&mut self, world: &World) -> Proof {
        let mut proofs = Vec::new();
        for node in &self.nodes {
            let name = world.cluster.node_name(*node);
            let slowest = probe::retry(|| async {
                let (slowest, late) = self.slowest(world, *node).await;
                if late == 0 {
                    Ok(slowest)
                } else {
                    Err(format!("{name} answers {late} of {BATCH} PINGs late"))
                }
            })
            .await?;
            proofs.push(format!(
                "{name} answers {BATCH} PINGs within {} ms",
                slowest.as_millis()
            ));
        }
        Ok(probe::summary(&proofs))
    }
}
