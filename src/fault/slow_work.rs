//! `slow-work`: the client lives, but one critical section of it takes longer than planned.
//!
//! Proof: the driver's own measurement of that section, by its stamps.
use super::{Fault, Proof, World};
use crate::plan::FaultPlan;
use crate::run::board::Hold;
use async_trait::async_trait;
use std::time::Duration;
use tokio::sync::oneshot;

pub(super) struct SlowWork {
    hold: Hold,
    work: Duration,
    measured: Option<oneshot::Receiver<Duration>>,
}

impl SlowWork {
    /// Slows the section of the trigger's acquire, else the next section of the target's first worker.
    pub(super) fn new(
        plan: &FaultPlan,
        hold: Option<&Hold>,
        world: &World,
    ) -> Result<Self, String> {
        let client = super::target::client(plan, hold, world)?;
        let hold = hold
            .filter(|h| h.client == client)
            .cloned()
            .unwrap_or(Hold {
                client,
                worker: 0,
                key: String::new(),
                owner: None,
            });
        let work = plan.work.ok_or("slow-work has no `work`")?;
        Ok(Self {
            hold,
            work,
            measured: None,
        })
    }
}

#[async_trait(?Send)]
impl Fault for SlowWork {
    fn target(&self) -> String {
        self.hold.client.clone()
    }

    fn client(&self) -> Option<&str> {
        Some(&self.hold.client)
    }

    async fn inject(&mut self, world: &World) -> Result<(), String> {
        self.measured = Some(
            world
                .board
                .slow_down(&self.hold.client, self.hold.worker, self.work),
        );
        Ok(())
    }

    async fn bit(&mut self, _world: &World) -> Proof {
        let Some(measured) = self.measured.take() else {
            return Err("nothing was slowed".to_owned());
        };
        match tokio::time::timeout(self.work + super::probe::PATIENCE, measured).await {
            Ok(Ok(took)) if took >= self.work => {
                Ok(format!("the section took {} ms", took.as_millis()))
            }
            Ok(Ok(took)) => Err(format!("the section took only {} ms", took.as_millis())),
            Ok(Err(_)) | Err(_) => Err("no section of this worker was slowed".to_owned()),
        }
    }

    fn momentary(&self) -> bool {
        true
    }

    async fn healed(&mut self, world: &World) -> Proof {
        world.board.take_slow(&self.hold.client, self.hold.worker);
        Ok("the slowed section is over".to_owned())
    }
}
