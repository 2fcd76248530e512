//! Judges a history of lock operations: did two clients hold one lock at once, why, and what did it damage?
//!
//! This crate is pure: it owns events, history files, checks, verdicts and statistics, and must not know any
//! runtime, clock, network or Redis. The harness writes a [`Header`] and [`Event`]s; `check` turns them
//! into a [`Verdict`]; renderers read the verdict.
#![deny(missing_docs)]

pub mod event;
pub mod model;
pub mod verdict;

pub use event::{Event, EventType, Process, Value};
pub use model::{Expect, Fence, Header, Model};
pub use verdict::{Blame, CheckResult, Class, Finding, Outcome, SectionView, Verdict};
