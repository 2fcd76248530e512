//! Why there is no report.
//!
//! Owns [`ChaosError`]. Must not know how runs are made. It reads well where a test returns it: its `Debug` is its text.
use crate::campaign::Stop;
use crate::client::ClientError;
use crate::plan::PlanError;
use crate::run::RunError;
use std::fmt;

/// What kind of thing went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The workload or an override of it; the text has each mistake at its place.
    Workload,
    /// The client did not start, or does not speak the protocol.
    Client,
    /// Something is missing: an engine, an image, a program, a port, room on the disk.
    Missing,
    /// The run was given up, since its future was dropped.
    Halted,
    /// A defect of fencepost.
    Defect,
}

/// Why there is no report. That a lock broke is no error.
#[derive(Clone, PartialEq, Eq)]
pub struct ChaosError {
    why: Why,
    message: String,
    hint: Option<String>,
}

impl ChaosError {
    pub(super) fn new(why: Why, message: String, hint: Option<String>) -> Self {
        Self { why, message, hint }
    }

    pub(super) fn of_plan(error: &PlanError) -> Self {
        let text = error.render(100, false, true);
        Self::new(Why::Workload, text.trim_end().to_owned(), None)
    }

    pub(super) fn of_stop<W>(stop: &Stop<W>) -> Self {
        let why = match stop {
            Stop::Halted(_) => Why::Halted,
            Stop::Cluster(_)
            | Stop::Run(
                RunError::Client(ClientError::Log { .. })
                | RunError::Cluster(_)
                | RunError::Results { .. }
                | RunError::Observe(_),
            ) => Why::Missing,
            Stop::Run(RunError::Client(_)) => Why::Client,
            Stop::Run(RunError::History(_)) => Why::Defect,
        };
        Self::new(why, stop.why(), stop.hint())
    }

    /// What kind of thing went wrong.
    pub fn why(&self) -> Why {
        self.why
    }

    /// What to do about it, where that is known and the text does not say so already.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The same, with what to do about it.
    pub(super) fn hinted(mut self, hint: String) -> Self {
        self.hint = Some(hint);
        self
    }
}

impl fmt::Display for ChaosError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

/// The text itself: a test that returns the error prints its `Debug`.
impl fmt::Debug for ChaosError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for ChaosError {}
