//! `resource-delay`: a client's writes reach the protected resource late, as over a slow network.
//!
//! Proof: the measured delay of a write that was under way.
use super::{Fault, Proof, World};
use crate::plan::FaultPlan;
use async_trait::async_trait;
use std::time::Duration;
use tokio::sync::oneshot;

pub(super) struct ResourceDelay {
    client: String,
    delay: Duration,
    /// How long to wait for a write to be delayed.
    window: Duration,
    measured: Option<oneshot::Receiver<Duration>>,
}

impl ResourceDelay {
    pub(super) fn new(plan: &FaultPlan, client: String) -> Result<Self, String> {
        let delay = plan.latency.ok_or("resource-delay has no `latency`")?;
        let window = plan.length.unwrap_or(super::probe::PATIENCE) + delay;
        Ok(Self {
            client,
            delay,
            window,
            measured: None,
        })
    }
}

#[async_trait(?Send)]
impl Fault for ResourceDelay {
    fn target(&self) -> String {
        self.client.clone()
    }

    fn client(&self) -> Option<&str> {
        Some(&self.client)
    }

    async fn inject(&mut self, world: &World) -> Result<(), String> {
        self.measured = Some(world.board.delay_writes(&self.client, self.delay));
        Ok(())
    }

    async fn bit(&mut self, _world: &World) -> Proof {
        let Some(measured) = self.measured.take() else {
            return Err("nothing was delayed".to_owned());
        };
        match tokio::time::timeout(self.window, measured).await {
            Ok(Ok(took)) => Ok(format!("a write arrived {} ms late", took.as_millis())),
            Ok(Err(_)) | Err(_) => Err("no write of this client was under way".to_owned()),
        }
    }

    async fn heal(&mut self, world: &World) -> Result<(), String> {
        world.board.hurry(&self.client);
        Ok(())
    }

    async fn healed(&mut self, world: &World) -> Proof {
        match world.board.write_delay(&self.client) {
            None => Ok("writes are no longer delayed".to_owned()),
            Some(delay) => Err(format!(
                "writes are still delayed by {} ms",
                delay.as_millis()
            )),
        }
    }
}
