//! `bandwidth`: links carry `rate` kilobytes a second in each direction that is slowed.
//!
//! Proof: an ECHO takes at least its bytes over the rate, once a slowed direction, and less after healing.
use super::World;
use super::pipe::Stream;
use super::stream::echo;
use super::target::Link;
use crate::cluster::toxiproxy::ToxicKind;
use crate::plan::{Direction, FaultPlan};
use async_trait::async_trait;
use std::time::Duration;

/// How long an ECHO shall take in one direction.
const TAKES_MS: u64 = 300;
/// Its longest text: at a high rate it takes less long.
const BYTES_MAX: u64 = 1 << 20;

pub(super) struct Bandwidth {
    rate: u64,
    direction: Direction,
}

impl Bandwidth {
    pub(super) fn new(plan: &FaultPlan) -> Result<Self, String> {
        Ok(Self {
            rate: plan.measures.rate.ok_or("bandwidth has no `rate`")?,
            direction: plan.direction,
        })
    }
}

#[async_trait(?Send)]
impl Stream for Bandwidth {
    fn toxic(&self) -> ToxicKind {
        ToxicKind::Bandwidth {
            kb_per_s: self.rate,
        }
    }

    async fn look(&self, world: &World, link: &Link) -> Result<(bool, String), String> {
        // A kilobyte a second is a byte a millisecond.
        let bytes = (self.rate * TAKES_MS).min(BYTES_MAX);
        let once = Duration::from_millis(bytes / self.rate);
        let least = if self.direction == Direction::Both {
            once * 2
        } else {
            once
        };
        let echo = echo(
            world,
            link,
            usize::try_from(bytes).unwrap_or_default(),
            least * 4 + super::probe::PATIENCE,
        )
        .await?;
        let words = format!("an ECHO of {bytes} bytes took {} ms", echo.took.as_millis());
        // Toxiproxy rounds each chunk's time down.
        Ok((echo.took >= least.mul_f64(0.9), words))
    }
}
