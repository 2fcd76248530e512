//! `latency`: links are slowed, with jitter, in both directions or one. Bytes stay in order; what is still held at
//! healing is delivered at once.
//!
//! Proof: the round trip of a probe through the link is at least the latency that must have been added, and below it
//! after healing.
use super::links::Toxics;
use super::target::Link;
use super::{Fault, Proof, World, probe};
use crate::cluster::toxiproxy::ToxicKind;
use crate::plan::{Direction, FaultPlan};
use async_trait::async_trait;
use std::time::Duration;

pub(super) struct Latency {
    toxics: Toxics,
    added: Duration,
    jitter: Duration,
    direction: Direction,
}

impl Latency {
    pub(super) fn new(plan: &FaultPlan, links: Vec<Link>) -> Self {
        Self {
            toxics: Toxics::new(links),
            added: plan.latency.unwrap_or_default(),
            jitter: plan.jitter.unwrap_or_default(),
            direction: plan.direction,
        }
    }

    /// The least that a round trip takes while the toxics lie on the link.
    fn least(&self) -> Duration {
        let once = self.added.saturating_sub(self.jitter);
        if self.direction == Direction::Both {
            once * 2
        } else {
            once
        }
    }

    async fn round_trip(&self, world: &World, link: &Link) -> Result<Duration, String> {
        let deadline = (self.added + self.jitter) * 2 + probe::ANSWER;
        let addr = probe::address(world, link)?;
        probe::ping(world, addr, deadline).await
    }
}

#[async_trait(?Send)]
impl Fault for Latency {
    fn target(&self) -> String {
        self.toxics.names()
    }

    fn client(&self) -> Option<&str> {
        self.toxics.client()
    }

    async fn inject(&mut self, world: &World) -> Result<(), String> {
        let kind = ToxicKind::Latency {
            latency: self.added,
            jitter: self.jitter,
        };
        self.toxics.add(world, &kind, self.direction).await
    }

    async fn bit(&mut self, world: &World) -> Proof {
        let trips = futures_util::future::join_all(
            self.toxics.links.iter().map(|l| self.round_trip(world, l)),
        )
        .await;
        let mut proofs = Vec::new();
        for (link, trip) in self.toxics.links.iter().zip(trips) {
            let (name, took) = (probe::name(world, link), trip?);
            if took < self.least() {
                return Err(format!("{name} answers in {} ms", took.as_millis()));
            }
            proofs.push(format!("{name} answers in {} ms", took.as_millis()));
        }
        Ok(probe::summary(&proofs))
    }

    async fn heal(&mut self, world: &World) -> Result<(), String> {
        self.toxics.remove(world).await
    }

    async fn healed(&mut self, world: &World) -> Proof {
        let mut proofs = Vec::new();
        for link in &self.toxics.links {
            let name = probe::name(world, link);
            let took = probe::retry(|| async {
                let took = self.round_trip(world, link).await?;
                if took < self.least() || self.least().is_zero() {
                    Ok(took)
                } else {
                    Err(format!("{name} still takes {} ms", took.as_millis()))
                }
            })
            .await?;
            proofs.push(format!(
                "{name} answers in {:.1} ms",
                took.as_secs_f64() * 1e3
            ));
        }
        Ok(probe::summary(&proofs))
    }
}
