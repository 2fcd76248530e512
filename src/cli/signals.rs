//! SIGINT and SIGTERM: the first one ends the command in order.
//!
//! Owns which signals count. Must not know what is ended.
use super::Exit;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listens for the signals that end a command.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// From now on the signals are heard and no longer kill.
    ///
    /// # Errors
    /// The handlers cannot be installed.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for one and gives the exit code that stands for it.
    pub async fn heard(&mut self) -> Exit {
        tokio::select! {
            _ = self.interrupt.recv() => Exit::Interrupted,
            _ = self.terminate.recv() => Exit::Terminated,
        }
    }
}

impl crate::campaign::Halt for Signals {
    type Why = Exit;

    async fn heard(&mut self) -> Exit {
        Signals::heard(self).await
    }
}
