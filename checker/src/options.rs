//! How a history from elsewhere is read: names of its operations, its lease, its clocks.
//!
//! Owns what flags can say. Must not know formats or checks.
use crate::history::HistoryError;
use crate::model::{LockKind, Model};

/// What tells the lock of an operation (EDN).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum KeyFrom {
    /// What the operation says, else what is certain enough of its `:value`: the rule stands in [`history`](crate::history).
    #[default]
    FoundOut,
    /// `:value`, or the first of two; where it is a map, its `:key` or `:lock`.
    Value,
    /// Nothing: there is one lock.
    Nothing,
    /// This field of the operation, or of its `:value`.
    Field(String),
}

/// What is known of a history beside what it says itself. The default asks nothing.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Names of the operation that acquires (EDN); none: `acquire`, `lock`, `try-acquire` and `try-lock`.
    pub acquire: Vec<String>,
    /// Names of the operation that releases (EDN); none: `release` and `unlock`.
    pub release: Vec<String>,
    /// Names of the operation that extends (EDN); none: `extend`, `renew` and `refresh`.
    pub extend: Vec<String>,
    /// What tells the lock of an operation (EDN).
    pub key: KeyFrom,
    /// The lease, in ms, in place of the header's; without either it is a lock without lease.
    pub ttl_ms: Option<u64>,
    /// The kind of lock, in place of the header's.
    pub kind: Option<LockKind>,
    /// For a semaphore: how many may hold at once.
    pub permits: Option<u32>,
    /// Number of Jepsen's threads (EDN): process p renews as p + threads. None: found out.
    pub threads: Option<u64>,
    /// How far the clocks that stamped the history may be from true time, in ms.
    pub clock_uncertainty_ms: Option<f64>,
}

impl Options {
    /// The operation that a name stands for.
    pub(crate) fn operation(&self, f: &str) -> Option<&'static str> {
        let named = |names: &[String], usual: &[&str]| {
            if names.is_empty() {
                return usual.contains(&f);
            }
            names.iter().any(|n| n.trim_start_matches(':') == f)
        };
        if named(
            &self.acquire,
            &["acquire", "lock", "try-acquire", "try-lock"],
        ) {
            Some("acquire")
        } else if named(&self.release, &["release", "unlock"]) {
            Some("release")
        } else if named(&self.extend, &["extend", "renew", "refresh"]) {
            Some("extend")
        } else {
            None
        }
    }

    /// Puts what is known in place of what the header says.
    pub(crate) fn apply(&self, model: &mut Model) -> Result<(), HistoryError> {
        if self.threads == Some(0) {
            return Err(HistoryError::BadOption {
                name: "threads",
                what: "there is no thread".to_owned(),
            });
        }
        model.ttl_ms = self.ttl_ms.or(model.ttl_ms);
        model.kind = self.kind.unwrap_or(model.kind);
        model.permits = self.permits.unwrap_or(model.permits);
        model.clock_uncertainty_ms = self
            .clock_uncertainty_ms
            .unwrap_or(model.clock_uncertainty_ms);
        // The header's own values are good by now.
        model.wrong().map_or(Ok(()), |(name, what)| {
            Err(HistoryError::BadOption { name, what })
        })
    }
}
