//! How a command begins that starts servers for whole runs: signals are heard, and it is known where the servers live.
//!
//! Owns the words and exit codes where that fails. Must not know what is run. `run`, `suite` and `compare` go on from here.
use super::exit::Exit;
use super::{say, signals::Signals};
use crate::cluster::{self, Backend};

/// Listens for signals and resolves the backend asked for; the text says which it is and why.
///
/// # Errors
/// The exit code, when the error has been said.
pub(super) async fn start(backend: &str) -> Result<(Signals, Backend, String), Exit> {
    let signals = Signals::listen().map_err(|error| {
        say::error(&error, None);
        Exit::Defect
    })?;
    let choice = Backend::parse(backend).map_err(|error| {
        say::error(&error, None);
        Exit::Usage
    })?;
    let (backend, why) = cluster::resolve(choice).await;
    Ok((signals, backend, why))
}
