//! Exit codes, as a documented type.
//!
//! Owns the numbers. Must not know what led to them.
use fencepost_checker::Outcome;

/// How the command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0: as expected; for `check`, nothing violated.
    Ok,
    /// 1: not as expected, in either direction.
    Failed,
    /// 2: the history does not hold enough to say.
    Unknown,
    /// 64: what the user gave (flags, workload, history, adapter handshake).
    Usage,
    /// 69: what is missing (engine, image, port, disk).
    Missing,
    /// 70: a defect of ours.
    Defect,
    /// 129: after SIGHUP, cleaned up.
    HungUp,
    /// 130: after SIGINT, cleaned up.
    Interrupted,
    /// 143: after SIGTERM, cleaned up.
    Terminated,
}

impl Exit {
    /// The number.
    pub fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Failed => 1,
            Self::Unknown => 2,
            Self::Usage => 64,
            Self::Missing => 69,
            Self::Defect => 70,
            Self::HungUp => 129,
            Self::Interrupted => 130,
            Self::Terminated => 143,
        }
    }

    /// For one verdict.
    pub fn of(outcome: Outcome, unknown: UnknownIs) -> Self {
        match (outcome, unknown) {
            (Outcome::Valid, _) | (Outcome::Unknown, UnknownIs::Warn) => Self::Ok,
            (Outcome::Violated, _) => Self::Failed,
            (Outcome::Unknown, UnknownIs::Fail) => Self::Unknown,
        }
    }

    /// Over several: an error or a failure beats unknown, unknown beats pass.
    #[must_use]
    pub fn worst(self, other: Self) -> Self {
        let rank = |exit: Self| match exit {
            Self::Ok => 0,
            Self::Unknown => 1,
            Self::Failed => 2,
            Self::Usage | Self::Missing => 3,
            Self::Defect => 4,
            Self::HungUp | Self::Interrupted | Self::Terminated => 5,
        };
        if rank(other) > rank(self) {
            other
        } else {
            self
        }
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}

/// What `unknown` counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum UnknownIs {
    /// Exit 2.
    #[default]
    Fail,
    /// Exit 0, with a warning.
    Warn,
}

#[cfg(test)]
mod tests {
    use super::{Exit, UnknownIs};
    use fencepost_checker::Outcome;

    #[test]
    fn failure_beats_unknown_beats_pass() {
        assert_eq!(Exit::Ok.worst(Exit::Unknown), Exit::Unknown);
        assert_eq!(Exit::Failed.worst(Exit::Unknown), Exit::Failed);
        assert_eq!(Exit::Unknown.worst(Exit::Failed), Exit::Failed);
        assert_eq!(Exit::of(Outcome::Unknown, UnknownIs::Warn), Exit::Ok);
        assert_eq!(Exit::of(Outcome::Unknown, UnknownIs::Fail).code(), 2);
    }
}
