//! Judges a history of lock operations: did two clients hold one lock at once, why, and what did it damage?
//!
//! This crate is pure: it owns events, history files, checks, verdicts and statistics, and must not know any
//! runtime, clock, network or Redis. The harness writes a [`Header`] and [`Event`]s; the checker turns them
//! into a [`Verdict`]; renderers read the verdict.
//!
//! ```
//! use fencepost_checker::{Outcome, check_reader};
//!
//! let history = r#"{"fencepost":1,"workload":"two-at-once","seed":0,"model":{"ttl_ms":2000}}
//! {"index":0,"time":0,"process":0,"client":"c1","type":"invoke","f":"acquire","key":"k"}
//! {"index":1,"time":1000000,"process":0,"client":"c1","type":"ok","f":"acquire","key":"k"}
//! {"index":2,"time":2000000,"process":1,"client":"c2","type":"invoke","f":"acquire","key":"k"}
//! {"index":3,"time":3000000,"process":1,"client":"c2","type":"ok","f":"acquire","key":"k"}
//! "#;
//! let verdict = check_reader(history.as_bytes())?;
//! let service = verdict.check("service").expect("it is in the table");
//! assert_eq!(service.outcome, Outcome::Violated);
//! assert_eq!(
//!     service.findings[0].sentence,
//!     "B (c2) was granted k at 0.003 s while A (c1) held a promise until 1.978 s: \
//!      nothing that was seen on the servers explains it"
//! );
//! # Ok::<(), fencepost_checker::HistoryError>(())
//! ```
//!
//! The way of the data: `history` reads lines, [`Checker`] takes events, `collect` pairs them into sections,
//! `section` gives each its intervals, `sweep` finds the overlaps, `blame` their causes, [`CHECKS`] the rest, and
//! [`judge`](judge::judge) compares all that with what was expected.
#![deny(missing_docs)]

mod analysis;
mod blame;
mod checker;
mod checks;
mod collect;
mod edn;
pub mod event;
mod facts;
mod faults;
mod hash;
pub mod history;
pub mod judge;
pub mod model;
mod mutant;
mod names;
mod options;
#[cfg(test)]
mod oracle;
mod proof;
pub mod schema;
mod section;
mod servers;
mod shrink;
mod sweep;
mod tries;
pub mod verdict;

pub use checker::Checker;
pub use checks::{CHECKS, CheckInfo};
pub use event::{Event, EventType, Process, Value};
pub use history::{HistoryError, check_path, check_reader, check_with, to_edn};
pub use model::{Expect, Fence, Header, LockKind, Model};
pub use options::Options;
pub use shrink::{Part, shrink};
pub use verdict::{Blame, CheckResult, Class, Finding, Outcome, SectionView, Verdict};
