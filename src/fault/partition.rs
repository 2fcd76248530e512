//! `partition` and `quorum-thin`: links are cut, in both directions or one.
//!
//! What happens to bytes in flight: a *black hole* swallows them for good and keeps connections open; Toxiproxy closes
//! the connections that were hit when it is removed. A *reset* closes connections, open and new. A *stall* keeps the
//! bytes and delivers them, in order, when it is removed.
//!
//! Proof: a SET sent through the link gets no answer, and the node, asked directly, has or has not executed it, as the
//! direction demands; after healing every link answers.
use super::links::Toxics;
use super::target::Link;
use super::{Fault, Proof, World, probe};
use crate::cluster::toxiproxy::ToxicKind;
use crate::plan::{Direction, FaultPlan, PartitionMode};
use async_trait::async_trait;
use std::time::Duration;

pub(super) struct Partition {
    toxics: Toxics,
    mode: PartitionMode,
    direction: Direction,
    demote_after: Duration,
}

impl Partition {
    pub(super) fn new(plan: &FaultPlan, links: Vec<Link>) -> Self {
        Self {
            toxics: Toxics::new(links),
            mode: plan.mode,
            direction: plan.direction,
            demote_after: plan.demote_after.unwrap_or_default(),
        }
    }

    async fn switch(&self, world: &World, on: bool) -> Result<(), String> {
        let links = self.toxics.links.iter();
        for proxy in links.flat_map(|l| world.cluster.proxies(&l.client, l.node)) {
            world
                .cluster
                .toxiproxy()
                .set_enabled(&proxy, on)
                .await
                .map_err(|e| e.to_string())?;
        }
        Ok(())
    }
}

#[async_trait(?Send)]
impl Fault for Partition {
    fn target(&self) -> String {
        self.toxics.names()
    }

    fn client(&self) -> Option<&str> {
        self.toxics.client()
    }

    async fn inject(&mut self, world: &World) -> Result<(), String> {
        let kind = match self.mode {
            PartitionMode::BlackHole => ToxicKind::Timeout {
                after: Duration::ZERO,
            },
            PartitionMode::Stall => ToxicKind::Bandwidth { kb_per_s: 0 },
            PartitionMode::Reset => return self.switch(world, false).await,
        };
        self.toxics.add(world, &kind, self.direction).await
    }

    async fn bit(&mut self, world: &World) -> Proof {
        let probes = self
            .toxics
            .links
            .iter()
            .map(|link| probe::through(world, link));
        let outcomes = futures_util::future::join_all(probes).await;
        let mut proofs = Vec::new();
        for (link, outcome) in self.toxics.links.iter().zip(outcomes) {
            let name = probe::name(world, link);
            let outcome = outcome?;
            let Err(why) = outcome.reply else {
                return Err(format!("{name} still answers"));
            };
            let executed = if outcome.arrived {
                "executed"
            } else {
                "not executed"
            };
            if outcome.arrived != (self.direction == Direction::Replies) {
                return Err(format!(
                    "a SET through {name} got {why}, but was {executed}"
                ));
            }
            proofs.push(format!("a SET through {name}: {why}, {executed}"));
        }
        Ok(probe::summary(&proofs))
    }

    async fn heal(&mut self, world: &World) -> Result<(), String> {
        match self.mode {
            PartitionMode::Reset => self.switch(world, true).await,
            PartitionMode::BlackHole | PartitionMode::Stall => self.toxics.remove(world).await,
        }
    }

    async fn healed(&mut self, world: &World) -> Proof {
        let proof = probe::all_answer(world, &self.toxics.links).await?;
        let servers = self.toxics.links.iter().any(|l| !l.of_client());
        if !servers {
            return Ok(proof);
        }
        super::node_pause::one_primary(world, proof, self.demote_after).await
    }
}
