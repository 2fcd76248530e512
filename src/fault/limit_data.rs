//! `limit-data`: links break each connection after so many bytes.
//!
//! Proof: an ECHO that is longer ends before its answer is whole, and is answered whole after healing.
use super::World;
use super::pipe::Stream;
use super::stream::echo;
use super::target::Link;
use crate::cluster::toxiproxy::ToxicKind;
use crate::plan::FaultPlan;
use async_trait::async_trait;

pub(super) struct LimitData {
    bytes: u64,
}

impl LimitData {
    pub(super) fn new(plan: &FaultPlan) -> Result<Self, String> {
        Ok(Self {
            bytes: plan.measures.bytes.ok_or("limit-data has no `bytes`")?,
        })
    }
}

#[async_trait(?Send)]
impl Stream for LimitData {
    fn toxic(&self) -> ToxicKind {
        ToxicKind::LimitData { bytes: self.bytes }
    }

    async fn look(&self, world: &World, link: &Link) -> Result<(bool, String), String> {
        let bytes = usize::try_from(self.bytes).unwrap_or(usize::MAX);
        let echo = echo(world, link, bytes, super::probe::PATIENCE).await?;
        let words = format!("{} bytes of an ECHO of {bytes} came back", echo.came);
        Ok((!echo.whole, words))
    }
}
