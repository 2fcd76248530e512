//! `slow-close`: links pass the end of a connection on late.
//!
//! Proof: the end that follows QUIT comes no sooner than the delay, and sooner after healing.
use super::World;
use super::pipe::Stream;
use super::target::Link;
use crate::cluster::toxiproxy::ToxicKind;
use crate::plan::FaultPlan;
use async_trait::async_trait;
use std::time::Duration;

pub(super) struct SlowClose {
    delay: Duration,
}

impl SlowClose {
    pub(super) fn new(plan: &FaultPlan) -> Result<Self, String> {
        Ok(Self {
            delay: plan.latency.ok_or("slow-close has no `latency`")?,
        })
    }
}

#[async_trait(?Send)]
impl Stream for SlowClose {
    fn toxic(&self) -> ToxicKind {
        ToxicKind::SlowClose { delay: self.delay }
    }

    async fn look(&self, world: &World, link: &Link) -> Result<(bool, String), String> {
        let deadline = self.delay + super::probe::PATIENCE;
        let took = super::stream::end(world, link, deadline).await?;
        let words = format!("the end came {} ms after QUIT", took.as_millis());
        // The answer to QUIT is read a little after the server's end has reached Toxiproxy.
        Ok((took >= self.delay.mul_f64(0.9), words))
    }
}
