//! Which error is which exit code, and what to do about it; and the runtime that all runs are made on.
//!
//! Owns exit codes and hints of whatever ends a run. Must not know how runs are made.
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
            say::error(error, hint(error).as_deref());
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

/// The error with its causes on one line.
pub(super) fn why(stop: &Stop<Exit>) -> String {
    let chain = |error: &dyn std::error::Error| {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            if !text.ends_with(&cause_text) {
                text = format!("{text}: {cause_text}");
            }
            source = cause.source();
        }
        text
    };
    match stop {
        Stop::Halted(_) => "interrupted".to_owned(),
        Stop::Cluster(error) => chain(error),
        Stop::Run(error) => chain(error),
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

fn hint(error: &RunError) -> Option<String> {
    use std::io::ErrorKind::{NotFound, PermissionDenied, StorageFull};
    Some(match error {
        RunError::Cluster(error) => return error.hint(),
        RunError::Client(ClientError::Start { source, .. })
            if matches!(source.kind(), NotFound | PermissionDenied) =>
        {
            "`lock.command` starts without a shell, in the folder where `fencepost` was started: is the path right, \
             and may it be run?"
                .into()
        }
        RunError::Client(ClientError::Log { .. }) => {
            "free some space, or choose another folder with --results".into()
        }
        RunError::Client(_) => "PROTOCOL.md has the handshake and a complete example".into(),
        RunError::Results { source, .. } if source.kind() == StorageFull => {
            "free some space, or choose another folder with --results".into()
        }
        RunError::Results { .. } => "choose a folder that can be written, with --results".into(),
        RunError::Observe(_) => "nodes/*.log of the run's results say what the servers did".into(),
        RunError::History(_) => {
            "this is a defect of fencepost: please report it with the history file".into()
        }
    })
}
