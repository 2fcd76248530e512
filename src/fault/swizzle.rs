//! `swizzle`: links are cut one after the other and healed one after the other, in another order.
//!
//! Proof: that of `partition`, link by link.
use super::partition::Partition;
use super::target::Link;
use super::{Fault, Proof, World, probe};
use crate::plan::FaultPlan;
use async_trait::async_trait;
use rand::seq::SliceRandom;
use std::time::Duration;

/// Time between two cuts where the plan names none.
const GAP: Duration = Duration::from_millis(100);

pub(super) struct Swizzle {
    links: Vec<Link>,
    cuts: Vec<Partition>,
    /// How many are cut.
    cut: usize,
    gap: Duration,
}

impl Swizzle {
    pub(super) fn new(plan: &FaultPlan, mut links: Vec<Link>, world: &World) -> Self {
        links.shuffle(&mut *world.random.borrow_mut());
        let cuts = links
            .iter()
            .map(|link| Partition::new(plan, vec![link.clone()]))
            .collect();
        Self {
            links,
            cuts,
            cut: 0,
            gap: plan.measures.gap.unwrap_or(GAP),
        }
    }
}

#[async_trait(?Send)]
impl Fault for Swizzle {
    fn target(&self) -> String {
        let names: Vec<String> = self.cuts.iter().map(Fault::target).collect();
        names.join(",")
    }

    async fn inject(&mut self, world: &World) -> Result<(), String> {
        for cut in &mut self.cuts {
            if self.cut > 0 {
                tokio::time::sleep(self.gap).await;
            }
            self.cut += 1;
            cut.inject(world).await?;
        }
        Ok(())
    }

    async fn bit(&mut self, world: &World) -> Proof {
        let looks = self.cuts.iter_mut().map(|cut| cut.bit(world));
        let looks = futures_util::future::join_all(looks).await;
        let proofs: Vec<String> = looks.into_iter().collect::<Result<_, _>>()?;
        Ok(probe::summary(&proofs))
    }

    async fn heal(&mut self, world: &World) -> Result<(), String> {
        let mut order: Vec<usize> = (0..self.cut).collect();
        order.shuffle(&mut *world.random.borrow_mut());
        let mut outcome = Ok(());
        for (n, cut) in order.into_iter().enumerate() {
            if n > 0 {
                tokio::time::sleep(self.gap).await;
            }
            // One that cannot be healed leaves no other behind.
            outcome = self.cuts[cut].heal(world).await.and(outcome);
        }
        outcome
    }

    async fn healed(&mut self, world: &World) -> Proof {
        probe::all_answer(world, &self.links).await
    }
}
