//! SIGINT, SIGTERM and SIGHUP: the first one ends the command in order.
//!
//! Owns which signals count. Must not know what is ended. Where SIGHUP was ignored when the command was started
//! (`nohup`), it stays ignored: listening would undo that.
use super::Exit;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listens for the signals that end a command.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Option<Signal>,
    /// Only listened to, so that a file at its size limit (`ulimit -f`) is an error of the write and kills nobody.
    _too_large: Signal,
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
            hang_up: if ignored(SignalKind::hangup()) {
                None
            } else {
                Some(signal(SignalKind::hangup())?)
            },
            _too_large: signal(SignalKind::from_raw(nix::libc::SIGXFSZ))?,
        })
    }

    /// Waits for one and gives the exit code that stands for it.
    pub async fn heard(&mut self) -> Exit {
        let Self {
            interrupt,
            terminate,
            hang_up,
            ..
        } = self;
        let hang_up = async {
            match hang_up {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = interrupt.recv() => Exit::Interrupted,
            _ = terminate.recv() => Exit::Terminated,
            _ = hang_up => Exit::HungUp,
        }
    }
}

/// Whether this process was started with `kind` ignored, as /proc says (bit n − 1 of `SigIgn` is signal n).
fn ignored(kind: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|l| l.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (kind.as_raw_value() - 1) & 1 == 1)
}

impl crate::campaign::Halt for Signals {
    type Why = Exit;

    async fn heard(&mut self) -> Exit {
        Signals::heard(self).await
    }
}
