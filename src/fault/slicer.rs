//! `slicer`: links carry bytes in small pieces, some time apart.
//!
//! Proof: an ECHO of twenty pieces takes at least ten times the time between two, and less after healing.
use super::World;
use super::pipe::Stream;
use super::stream::echo;
use super::target::Link;
use crate::cluster::toxiproxy::ToxicKind;
use crate::plan::FaultPlan;
use async_trait::async_trait;
use std::time::Duration;

pub(super) struct Slicer {
    bytes: u64,
    apart: Duration,
}

impl Slicer {
    pub(super) fn new(plan: &FaultPlan) -> Result<Self, String> {
        Ok(Self {
            bytes: plan.measures.bytes.ok_or("slicer has no `bytes`")?,
            apart: plan.latency.ok_or("slicer has no `latency`")?,
        })
    }
}

#[async_trait(?Send)]
impl Stream for Slicer {
    fn toxic(&self) -> ToxicKind {
        ToxicKind::Slicer {
            average: self.bytes,
            variation: self.bytes / 2,
            delay: self.apart,
        }
    }

    async fn look(&self, world: &World, link: &Link) -> Result<(bool, String), String> {
        let bytes = usize::try_from(self.bytes * 20).unwrap_or(usize::MAX);
        let deadline = self.apart * 100 + super::probe::PATIENCE;
        let echo = echo(world, link, bytes, deadline).await?;
        let words = format!(
            "an ECHO of {bytes} bytes took {:.1} ms",
            echo.took.as_secs_f64() * 1e3
        );
        Ok((echo.took >= self.apart * 10, words))
    }
}
