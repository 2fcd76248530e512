//! Why runs were not made, in words: the error with its causes on one line, and what to do about it.
//!
//! Owns hints. Must not know exit codes, nor whether it is a terminal or a test that is told.
use super::Stop;
use crate::words::chain;

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
