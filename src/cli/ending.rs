//! How a command ends that made many runs: what there is is written and told, however it ended.
//!
//! Owns the order, and the exit code of it all. Must not know what is written. `suite`, `compare` and `merge` end so.
use super::exit::Exit;
use super::say;
use super::stopped::{self, stopped};
use crate::campaign::{self, Stop};
use crate::report::{Progress, ReportError};
use std::path::Path;

/// What was made so far.
pub(super) trait Made {
    /// Notes why there is no more of it.
    fn cut(&mut self, why: String);
    /// Writes and tells what there is.
    fn finish(self) -> Exit;
}

/// Ends the progress, tells what was made, and why that is not all.
pub(super) fn end(
    outcome: Result<(), Stop<Exit>>,
    progress: &Progress,
    mut made: impl Made,
) -> Exit {
    progress.finish();
    if let Err(stop) = &outcome {
        made.cut(stop.why());
    }
    let exit = made.finish();
    match outcome {
        Ok(()) => exit,
        Err(stop) => exit.worst(stopped(&stop)),
    }
}

/// Makes the folder of a campaign and has it written to.
pub(super) fn into_folder(results: &Path, name: &str, write: impl FnOnce(&Path) -> Exit) -> Exit {
    match campaign::fresh_folder(results, name) {
        Ok(dir) => write(&dir),
        Err(source) => stopped::no_results(results, source),
    }
}

/// Says where the page of a campaign is, once its files are written.
pub(super) fn written(dir: &Path, files: Result<(), ReportError>) -> Exit {
    match files {
        Ok(()) => {
            say::page(&dir.join("index.html"));
            Exit::Ok
        }
        Err(error) => stopped::unwritten(&error),
    }
}
