//! Why a run could not be made or finished, and what to do about it.
//!
//! Owns [`RunError`]. Must not know exit codes: `cli` has them.
use crate::client::ClientError;
use crate::cluster::ClusterError;
use crate::observe::ObserveError;
use std::path::PathBuf;

/// Why a run could not be made or finished.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The servers or links.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// A client did not start or did not speak the protocol.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The observer could not look at a server.
    #[error(transparent)]
    Observe(#[from] ObserveError),
    /// The results could not be written.
    #[error("cannot write results in {path}")]
    Results {
        /// Where.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The history that this very run wrote could not be read back.
    #[error("the history of this run cannot be checked")]
    History(#[from] fencepost_checker::HistoryError),
}

impl RunError {
    /// What to do about it, where that is known.
    pub fn hint(&self) -> Option<String> {
        use std::io::ErrorKind::{NotFound, PermissionDenied, StorageFull};
        Some(match self {
            Self::Cluster(error) => return error.hint(),
            Self::Client(ClientError::Start { source, .. })
                if matches!(source.kind(), NotFound | PermissionDenied) =>
            {
                "`lock.command` starts without a shell, in the folder where `fencepost` was started: is the path right, \
                 and may it be run?"
                    .into()
            }
            Self::Client(ClientError::Log { .. }) => {
                "free some space, or choose another folder with --results".into()
            }
            Self::Client(_) => "PROTOCOL.md has the handshake and a complete example".into(),
            Self::Results { source, .. } if source.kind() == StorageFull => {
                "free some space, or choose another folder with --results".into()
            }
            Self::Results { .. } => "choose a folder that can be written, with --results".into(),
            Self::Observe(_) => "nodes/*.log of the run's results say what the servers did".into(),
            Self::History(_) => {
                "this is a defect of fencepost: please report it with the history file".into()
            }
        })
    }
}
