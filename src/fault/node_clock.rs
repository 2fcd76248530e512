//! `node-clock`: a server's wall clock steps or drifts, by the page that its preload shim reads.
//!
//! Proof: TIME on a direct connection against this machine's clock, and the jump of a key's PTTL; then TIME is true
//! again. Of ZooKeeper's leader the stamp of a new node takes the place of both. Healing a step is a step the other way,
//! and ends leases like any other, where these go by the time of day.
use super::wall::{Wrong, now_ns};
use super::{Fault, Proof, World, ask, probe, stamp};
use crate::cluster::Speaks;
use crate::plan::FaultPlan;
use async_trait::async_trait;
use redis::Value;
use tokio::time::Instant;

/// Time to live of the key whose PTTL is looked at: longer than any step.
const TTL_MS: i64 = 48 * 3600 * 1000;
/// What a healed clock may be off, in ns: the way there and back on a busy machine.
const TRUE_NS: i64 = 20_000_000;
/// What two reads of a PTTL may differ by beside the step, in ms.
const PTTL_MS: i64 = 5_000;

pub(super) struct NodeClock {
    nodes: Vec<usize>,
    wrong: Wrong,
    injected: Instant,
    /// A key on each node, and its PTTL before; none on ZooKeeper.
    keys: Vec<(String, i64)>,
}

impl NodeClock {
    pub(super) fn new(plan: &FaultPlan, nodes: Vec<usize>) -> Self {
        Self {
            nodes,
            wrong: Wrong::of(plan),
            injected: Instant::now(),
            keys: Vec::new(),
        }
    }

    /// Proves it of ZooKeeper's leader. A stamp that was long on its way proves nothing, and is asked for again.
    async fn stamped(&self, world: &World, node: usize) -> Proof {
        probe::retry(|| async {
            let (ahead, doubt) = stamp::ahead(world, node).await?;
            let told = self.wrong.told(ahead, doubt, self.injected)?;
            if doubt >= ahead.abs() {
                return Err(format!(
                    "{told}, known to within {:.1} ms",
                    doubt as f64 / 1e6
                ));
            }
            Ok(format!("{told} by the stamp of a new node"))
        })
        .await
    }

    fn set(&self, world: &World, wrong: Wrong) -> Result<(), String> {
        for node in &self.nodes {
            let shim = world.cluster.shim(*node);
            let shim = shim.ok_or("the server was started without the shim")?;
            shim.set_clock(wrong.step_ns, wrong.drift)
                .map_err(|e| e.to_string())?;
        }
        Ok(())
    }
}

/// How far a node's clock is ahead of ours, and how well that is known, in ns.
async fn ahead(world: &World, node: usize) -> Result<(i64, i64), String> {
    if world.cluster.speaks() == Speaks::ZooKeeper {
        return stamp::ahead(world, node).await;
    }
    let before = now_ns();
    let answer = ask::node(world, node, &["TIME"]).await?;
    let after = now_ns();
    let Value::Array(parts) = answer else {
        return Err(format!("TIME answers {}", ask::text(&answer)));
    };
    let numbers: Vec<i64> = parts
        .iter()
        .filter_map(|part| ask::text(part).parse().ok())
        .collect();
    let [seconds, micros] = numbers[..] else {
        return Err("TIME answers no two numbers".to_owned());
    };
    let told = seconds * 1_000_000_000 + micros * 1_000;
    Ok((told - i64::midpoint(before, after), after - before))
}

async fn pttl(world: &World, node: usize, key: &str) -> Result<i64, String> {
    match ask::node(world, node, &["PTTL", key]).await? {
        Value::Int(ms) => Ok(ms),
        other => Err(format!("PTTL answers {}", ask::text(&other))),
    }
}

#[async_trait(?Send)]
impl Fault for NodeClock {
    fn target(&self) -> String {
        super::target::node_names(&self.nodes)
    }

    async fn prepare(&mut self, world: &World) -> Result<(), String> {
        if world.cluster.speaks() == Speaks::ZooKeeper {
            return Ok(());
        }
        for node in &self.nodes {
            let key = ask::canary(world, *node).await?;
            ask::node(world, *node, &["PEXPIRE", &key, &TTL_MS.to_string()]).await?;
            let left = pttl(world, *node, &key).await?;
            self.keys.push((key, left));
        }
        Ok(())
    }

    async fn inject(&mut self, world: &World) -> Result<(), String> {
        self.set(world, self.wrong)?;
        self.injected = Instant::now();
        Ok(())
    }

    async fn bit(&mut self, world: &World) -> Proof {
        self.wrong.far_enough(self.injected).await;
        let mut proofs = Vec::new();
        if world.cluster.speaks() == Speaks::ZooKeeper {
            for node in &self.nodes {
                let told = self.stamped(world, *node).await;
                let name = world.cluster.node_name(*node);
                let told = told.map_err(|why| format!("{name}: {why}"))?;
                proofs.push(format!("{name}: {told}"));
            }
        }
        for (node, (key, before)) in self.nodes.iter().zip(&self.keys) {
            let name = world.cluster.node_name(*node);
            let (ahead, doubt) = ahead(world, *node).await?;
            let told = self.wrong.told(ahead, doubt, self.injected);
            let told = told.map_err(|why| format!("{name}: {why}"))?;
            let fell = before - pttl(world, *node, key).await?;
            let step = self.wrong.step_ns / 1_000_000;
            if step.abs() > 2 * PTTL_MS && (fell - step).abs() > PTTL_MS {
                return Err(format!("{name}: {told}, but a PTTL fell by {fell} ms"));
            }
            proofs.push(format!("{name}: {told}, a PTTL fell by {fell} ms"));
        }
        Ok(probe::summary(&proofs))
    }

    async fn heal(&mut self, world: &World) -> Result<(), String> {
        let right = Wrong {
            step_ns: 0,
            drift: 0.0,
        };
        self.set(world, right)
    }

    async fn healed(&mut self, world: &World) -> Proof {
        let mut proofs = Vec::new();
        for node in &self.nodes {
            let name = world.cluster.node_name(*node);
            let off = probe::retry(|| async {
                let (ahead, doubt) = ahead(world, *node).await?;
                let words = format!("{name}: its clock is {:+.1} ms off", ahead as f64 / 1e6);
                if ahead.abs() <= TRUE_NS && doubt <= 2 * TRUE_NS {
                    Ok(words)
                } else {
                    Err(words)
                }
            })
            .await?;
            proofs.push(off);
        }
        Ok(probe::summary(&proofs))
    }
}
