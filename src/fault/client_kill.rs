//! `client-kill` and `client-restart`: SIGKILL to a client's process group; a new process takes its place or not.
//!
//! Proof: the process is gone from the process table; the new one has answered the handshake.
use super::{Fault, Proof, World, probe};
use crate::client::{ClientProcess, ProcState};
use async_trait::async_trait;

pub(super) struct ClientKill {
    client: String,
    replaced: bool,
    killed: Option<ClientProcess>,
}

impl ClientKill {
    pub(super) fn new(client: String, replaced: bool) -> Self {
        Self {
            client,
            replaced,
            killed: None,
        }
    }
}

#[async_trait(?Send)]
impl Fault for ClientKill {
    fn target(&self) -> String {
        self.client.clone()
    }

    fn client(&self) -> Option<&str> {
        Some(&self.client)
    }

    async fn inject(&mut self, world: &World) -> Result<(), String> {
        self.killed = world
            .clients
            .slot(&self.client)
            .and_then(|slot| slot.alive());
        if self.killed.is_none() {
            return Err(format!("{} is dead already", self.client));
        }
        world
            .clients
            .kill(&self.client)
            .map_err(|e| format!("SIGKILL: {e}"))
    }

    async fn bit(&mut self, world: &World) -> Proof {
        let Some(process) = &self.killed else {
            return Err("nothing was killed".to_owned());
        };
        let proof = probe::retry(|| async {
            match process.state() {
                ProcState::Dead => Ok(format!("pid {} is gone", process.pid())),
                other => Err(format!("pid {} is {other:?}", process.pid())),
            }
        })
        .await;
        world.board.died(&self.client);
        proof
    }

    fn momentary(&self) -> bool {
        !self.replaced
    }

    fn heals(&self) -> bool {
        self.replaced
    }

    async fn heal(&mut self, world: &World) -> Result<(), String> {
        if self.killed.is_none() {
            return Ok(());
        }
        world
            .clients
            .replace(&self.client)
            .await
            .map_err(|e| e.to_string())
    }

    async fn healed(&mut self, world: &World) -> Proof {
        match world
            .clients
            .slot(&self.client)
            .and_then(|slot| slot.alive())
        {
            Some(process) => Ok(format!("pid {} answered the handshake", process.pid())),
            None => Err(format!("{} is dead", self.client)),
        }
    }
}
