//! `client-pause`: SIGSTOP to a client's process group, SIGCONT to heal.
//!
//! Proof: the process table shows state T (and no longer T). The client's clocks run on; requests wait in its pipe.
use super::{Fault, Proof, World, probe};
use crate::client::{ClientProcess, ProcState};
use async_trait::async_trait;

pub(super) struct ClientPause {
    client: String,
    /// The process that was stopped: the one to continue, whatever stands in the place by then.
    stopped: Option<ClientProcess>,
}

impl ClientPause {
    pub(super) fn new(client: String) -> Self {
        Self {
            client,
            stopped: None,
        }
    }
}

#[async_trait(?Send)]
impl Fault for ClientPause {
    fn target(&self) -> String {
        self.client.clone()
    }

    fn client(&self) -> Option<&str> {
        Some(&self.client)
    }

    async fn inject(&mut self, world: &World) -> Result<(), String> {
        let process = world
            .clients
            .slot(&self.client)
            .and_then(|slot| slot.alive());
        let process = process.ok_or_else(|| format!("{} is dead", self.client))?;
        process.stop().map_err(|e| format!("SIGSTOP: {e}"))?;
        self.stopped = Some(process);
        Ok(())
    }

    async fn bit(&mut self, _world: &World) -> Proof {
        let Some(process) = &self.stopped else {
            return Err("nothing was stopped".to_owned());
        };
        probe::retry(|| async {
            match process.state() {
                ProcState::Stopped => Ok(format!("pid {} is in state T", process.pid())),
                other => Err(format!("pid {} is {other:?}, not stopped", process.pid())),
            }
        })
        .await
    }

    async fn heal(&mut self, _world: &World) -> Result<(), String> {
        let Some(process) = &self.stopped else {
            return Ok(());
        };
        process.cont().map_err(|e| format!("SIGCONT: {e}"))
    }

    async fn healed(&mut self, _world: &World) -> Proof {
        let Some(process) = &self.stopped else {
            return Ok("nothing was stopped".to_owned());
        };
        probe::retry(|| async {
            match process.state() {
                ProcState::Stopped => Err(format!("pid {} is still in state T", process.pid())),
                ProcState::Running => Ok(format!("pid {} runs", process.pid())),
                ProcState::Dead => Ok(format!("pid {} is gone", process.pid())),
            }
        })
        .await
    }
}
