//! Which error is which exit code, and what to do about it; and the runtime that all runs are made on.
//!
//! Owns exit codes of whatever ends a run; the hints are the errors' own. Must not know how runs are made.
use super::exit::Exit;
use super::say;
use crate::campaign::Stop;
use crate::client::ClientError;
use crate::report::ReportError;
use crate::run::RunError;
use std::future::Future;
use std::path::Path;
use std::time::Duration;
use tokio::runtime::LocalOptions;

/// Does the work on the one thread that runs are made on.
pub(super) fn on_runtime(work: impl Future<Output = Exit>) -> Exit {
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())
    {
        Ok(runtime) => runtime,
        Err(error) => {
            say::error(&error, None);
            return Exit::Missing;
        }
    };
    let exit = runtime.block_on(work);
    // Threads that still wait for a hung engine must not keep the command from ending.
    runtime.shutdown_timeout(Duration::from_millis(100));
    exit
}

/// The folder for results takes nothing.
pub(super) fn no_results(path: &Path, source: std::io::Error) -> Exit {
    let path = path.to_owned();
    stopped(&Stop::Run(RunError::Results { path, source }))
}

/// A report could not be written.
pub(super) fn unwritten(error: &ReportError) -> Exit {
    say::error(
        error,
        Some("free some space, or choose another folder with --results"),
    );
    Exit::Missing
}

/// Says what ended the runs, and gives the exit code for it.
pub(super) fn stopped(stop: &Stop<Exit>) -> Exit {
    match stop {
        Stop::Halted(exit) => {
            say::word("interrupted; everything that was started is removed");
            *exit
        }
        Stop::Cluster(error) => {
            say::error(error, error.hint().as_deref());
            Exit::Missing
        }
        Stop::Run(error) => {
            say::error(error, error.hint().as_deref());
            code(error)
        }
    }
}

/// The exit code alone, for one run of many.
pub(super) fn code_of(stop: &Stop<Exit>) -> Exit {
    match stop {
        Stop::Halted(exit) => *exit,
        Stop::Cluster(_) => Exit::Missing,
        Stop::Run(error) => code(error),
    }
}

fn code(error: &RunError) -> Exit {
    match error {
        RunError::Client(ClientError::Log { .. })
        | RunError::Cluster(_)
        | RunError::Results { .. }
        | RunError::Observe(_) => Exit::Missing,
        RunError::Client(_) => Exit::Usage,
        RunError::History(_) => Exit::Defect,
    }
}
