//! Many runs: repetitions, suites, comparisons, shards.
//!
//! Owns which runs are made, in which order, on which servers. Must not know what happens inside of one: a run is
//! [`crate::run::run`], a place to make it is a [`Session`](crate::run::session::Session), and what it showed is the
//! [`Summary`] that `report` reads off its folder. What many runs show together is drawn by `report`.
//!
//! | file | owns |
//! |---|---|
//! | [`folder`] | the workloads of a folder, as plans |
//! | [`shard`] | which part of the runs this process makes |
//! | [`place`] | one set of servers and the runs on it |
//! | [`series`] | runs one after the other, those of one topology on the same servers |
//! | `stop` | why runs were not made, in words |
//! | [`scorecard`] | the schedules that a lock library is put through |
//! | [`compare`] | several systems under the same seeds, side by side in time |
pub mod compare;
pub mod folder;
pub mod place;
pub mod scorecard;
pub mod series;
pub mod shard;
mod stop;

pub use place::{Place, Setting};
pub use series::{Flow, Job, series};
pub use shard::Shard;

use crate::cluster::ClusterError;
use crate::plan::{self, Plan};
use crate::report::progress::Progress;
use crate::report::{ReportError, Summary};
use crate::run::{Counters, RunError, Watcher};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a run costs beside its load and tail: clients are started and asked to end, the history is checked. Seen on
/// two cores: 0.4 to 1.1 s.
const RUN_OVERHEAD: Duration = Duration::from_millis(800);
/// What a set of servers costs: started, connected, removed. Seen: 1 to 1.5 s as processes, 3 to 5 s as containers.
const PLACE_OVERHEAD: Duration = Duration::from_secs(4);

/// Hears that the campaign is to end now, with what is done kept.
pub trait Halt {
    /// Who said so.
    type Why;
    /// Waits until it is said.
    fn heard(&mut self) -> impl Future<Output = Self::Why>;
}

/// Why runs were not made.
#[derive(Debug)]
pub enum Stop<W> {
    /// It was said from outside.
    Halted(W),
    /// The servers or links could not be had.
    Cluster(ClusterError),
    /// A run could not be made or finished.
    Run(RunError),
}

impl<W> Stop<W> {
    /// The reports of a folder could not be made or written.
    fn unwritten(path: &Path, error: &ReportError) -> Self {
        let source = match error {
            ReportError::Io { source, .. } => std::io::Error::new(source.kind(), error.to_string()),
            _ => std::io::Error::other(error.to_string()),
        };
        let path = path.to_owned();
        Self::Run(RunError::Results { path, source })
    }

    /// Whether other runs would meet it too: the signal, and a disk that takes no more.
    pub fn ends_all(&self) -> bool {
        matches!(
            self,
            Self::Halted(_) | Self::Run(RunError::Results { .. } | RunError::History(_))
        )
    }
}

impl Watcher for Progress {
    fn phase(&self, name: &str, expected: Option<Duration>) {
        Progress::phase(self, name, expected);
    }

    fn tick(&self, c: Counters) {
        Progress::tick(self, c.operations, c.grants, c.bites, c.doubles);
    }
}

/// One workload by name, with its variant after a slash, as the history's header has it.
pub fn name_of(plan: &Plan) -> String {
    match &plan.variant {
        Some(variant) => format!("{}/{variant}", plan.name),
        None => plan.name.clone(),
    }
}

/// How long all of this will take, about: each run's load and tail, what comes on top, and each set of servers.
pub fn expected_duration(jobs: &[Job]) -> Duration {
    let runs: Duration = jobs.iter().map(|j| run_duration(&j.plan)).sum();
    let places = u32::try_from(series::places(jobs)).unwrap_or(u32::MAX);
    runs + PLACE_OVERHEAD * places
}

/// How long one run takes on servers that are up, about.
pub fn run_duration(plan: &Plan) -> Duration {
    plan::expected_duration(plan) + RUN_OVERHEAD
}

/// A folder for what many runs show together: `results/campaigns/<UTC time>-<name>/`.
///
/// # Errors
/// It cannot be made.
pub fn fresh_folder(results: &Path, name: &str) -> std::io::Result<PathBuf> {
    let parent = results.join("campaigns");
    std::fs::create_dir_all(&parent)?;
    let stamp = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
    for again in 1.. {
        let more = if again == 1 {
            String::new()
        } else {
            format!(".{again}")
        };
        let dir = parent.join(format!("{stamp}-{name}{more}"));
        match std::fs::create_dir(&dir) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            made => return made.map(|()| dir),
        }
    }
    unreachable!("the loop ends by returning")
}

/// What stays of a summary when hundreds are kept: no histograms, and of each check the first finding.
pub fn slim(mut summary: Summary) -> Summary {
    summary.histograms = crate::report::latency::Latencies::default();
    summary.intervals = crate::report::intervals::Intervals::default();
    summary.overlaps = crate::report::latency::Durations::default();
    for check in &mut summary.verdict.checks {
        check.findings.truncate(1);
    }
    summary
}
