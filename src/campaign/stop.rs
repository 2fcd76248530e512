//! Why runs were not made, in words: the error with its causes on one line, and what to do about it.
//!
//! Owns hints. Must not know exit codes, nor whether it is a terminal or a test that is told.
use super::Stop;

impl<W> Stop<W> {
    /// The error with its causes on one line.
    pub fn why(&self) -> String {
        match self {
            Self::Halted(_) => "interrupted".to_owned(),
            Self::Cluster(error) => chain(error),
            Self::Run(error) => chain(error),
        }
    }

    /// What to do about it, where that is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Halted(_) => None,
            Self::Cluster(error) => error.hint(),
            Self::Run(error) => error.hint(),
        }
    }
}

/// An error with its causes on one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
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
}
