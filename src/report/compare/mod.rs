//! What several systems showed under the same seeds.
//!
//! Owns [`Comparison`] (compare.json): figures of each episode, what they come to, and the tests of the differences.
//! Must not know how runs are made, nor check again. Goes to compare.json, compare.csv, summary.md and index.html of a
//! campaign's folder, and to the terminal.
//!
//! | file | owns |
//! |---|---|
//! | [`measure`] | what a history holds beyond a summary |
//! | [`figures`] | the figures that are compared, as shares and rates with intervals |
//! | [`tests`] | paired tests against the first system, corrected for their number |
//! | `tables`, `files`, `page` | the formats |
pub mod figures;
mod files;
pub mod measure;
mod page;
mod tables;
pub mod tests;

pub use files::{csv, markdown, render, terminal};

use super::ReportError;
use super::latency::{Figures, Latencies, Measure, Phase};
use super::suite::NotRun;
use super::summary::Summary;
use fencepost_checker::Outcome;
use measure::Measured;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// How faults are dealt to systems of different size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exposure {
    /// As the workload says, which has no fault on `each-node`.
    #[default]
    AsStated,
    /// Each node meets the fault on `each-node` at the same rate.
    PerNode,
    /// The whole cluster meets one node's share of the fault on `each-node`.
    PerCluster,
}

impl Exposure {
    /// What tells it apart in a heading.
    pub fn heading(self) -> &'static str {
        match self {
            Self::AsStated => "",
            Self::PerNode => " (the same rate per node)",
            Self::PerCluster => " (one fault per cluster)",
        }
    }

    /// What a table's reader must know.
    pub fn caption(self) -> &'static str {
        match self {
            Self::AsStated => "as the workload states them, the same for each system",
            Self::PerNode => {
                "the same rate per node: each node of each system meets faults at the rate that the one node of a \
                 single system meets, and node 1 is due the very same ones (what one takes longer, the next comes later); a cluster of five meets five times as many"
            }
            Self::PerCluster => {
                "one fault per cluster: each system as a whole meets faults at the rate that the one node of a single \
                 system meets, so each of five nodes a fifth of it"
            }
        }
    }
}

/// Version of compare.json. 2: `grants` of an episode, and all that is told over them, are those of the whole run. In
/// version 1 they were at first those of the load; such a file does not say which, so what is made of it says that.
pub const VERSION: u32 = 2;

/// See the module's page.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Comparison {
    /// Version of this file: [`VERSION`].
    #[serde(deserialize_with = "known_version")]
    pub fencepost: u32,
    /// What was compared, in a few words.
    pub name: String,
    /// Seed of the first episode.
    pub seed: u64,
    /// Episodes of each system that were to be made.
    pub planned: u64,
    /// The rule by which their number was fixed, before the first of them.
    pub rule: String,
    /// How faults are dealt.
    pub exposure: Exposure,
    /// What else a reader must know, one sentence each.
    pub notes: Vec<String>,
    /// The systems; the first is the one that the others are held against.
    pub systems: Vec<System>,
    /// Why it ended before its last episode, if it did.
    pub cut: Option<String>,
}

/// One system.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct System {
    /// How it is called.
    pub label: String,
    /// A system before it once more (A/A), to see what chance alone does.
    pub twin: bool,
    /// The lock's name, or an adapter's command.
    pub lock: String,
    /// `5 nodes, independent, persistence aof`.
    pub servers: String,
    /// How the resource checks tokens.
    pub fence: String,
    /// Its episodes.
    pub episodes: Vec<Episode>,
    /// Episodes that could not be made.
    pub not_run: Vec<NotRun>,
    /// From the intended start, or the first try, to the grant, over all episodes.
    pub latency: Vec<Waits>,
    /// The histograms behind `latency`.
    #[serde(skip)]
    pub histograms: Latencies,
}

/// How long acquires took in one phase.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Waits {
    /// Before, during or after a fault.
    pub phase: Phase,
    /// The percentiles.
    pub figures: Figures,
}

/// One run of one system.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Episode {
    /// Its seed: episodes of the same seed are a pair.
    pub seed: u64,
    /// Its results folder.
    pub dir: PathBuf,
    /// Against what its workload expects.
    pub as_expected: Option<bool>,
    /// What the checks found, by name.
    pub checks: BTreeMap<String, Found>,
    /// Grants in the whole run, to which findings, damage and commands belong.
    pub grants: u64,
    /// Releases answered ok in the load.
    pub cycles: u64,
    /// Length of the load, s.
    pub load_s: f64,
    /// Time in which the lock was wanted and not held, in gaps that are no hand-over, s.
    pub unavailable_s: f64,
    /// The longest gap, s.
    pub longest_gap_s: f64,
    /// Accepted writes of which nothing is left, as they were overwritten unread.
    pub lost_updates: u64,
    /// Reads and writes refused because of an old token.
    pub refused: u64,
    /// Commands that the clients sent to servers, whole run; none if one of them did not say.
    #[serde(default)]
    pub messages: Option<u64>,
    /// Jain's index over workers' grants.
    pub fairness: f64,
    /// The longest time that a holder went on past its lease, among the findings that the verdict keeps, s.
    pub zombie_s: f64,
    /// Median wait for the lock, ms.
    pub wait_p50_ms: f64,
    /// 99th percentile of it, ms.
    pub wait_p99_ms: f64,
    /// `wait_p50_ms` is only a lower bound.
    #[serde(default)]
    pub wait_p50_at_least: bool,
    /// `wait_p99_ms` is only a lower bound.
    #[serde(default)]
    pub wait_p99_at_least: bool,
}

/// What one check found in one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// Violated or not; none: the run does not hold enough to say.
    pub violated: Option<bool>,
    /// Number of incidents.
    pub incidents: u64,
    /// All of it fell into times in which the machine itself stood still, by no fault of the plan.
    #[serde(default)]
    pub excused: bool,
}

impl Found {
    /// `violated`, as a verdict counts it: what the machine's own stalls may have done alone says nothing of the lock.
    pub fn judged(&self) -> Option<bool> {
        self.violated.filter(|_| !self.excused)
    }
}

/// A version that can be read here; of others it is said that they cannot, instead of some key that is missing.
fn known_version<'de, D: serde::Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let version = u32::deserialize(from)?;
    if (1..=VERSION).contains(&version) {
        return Ok(version);
    }
    Err(serde::de::Error::custom(format!(
        "compare.json of version {version}; this fencepost reads 1 to {VERSION}"
    )))
}

impl System {
    /// Takes one run in.
    ///
    /// # Errors
    /// When its history cannot be read.
    pub fn take(&mut self, s: &Summary) -> Result<(), ReportError> {
        let measured = measure::measure(&s.dir)?;
        if self.episodes.is_empty() {
            let run = super::suite::Run::of(s, None);
            self.lock = run.lock;
            self.servers = run.servers;
            self.fence.clone_from(&s.setup.fence);
        }
        self.episodes.push(Episode::of(s, &measured));
        self.histograms.merge(&s.histograms);
        self.latency = Phase::ALL
            .into_iter()
            .filter_map(|phase| {
                let waits = self.histograms.get(Measure::AcquireWait, phase)?;
                Some(Waits {
                    phase,
                    figures: waits.figures(),
                })
            })
            .collect();
        Ok(())
    }
}

impl Episode {
    fn of(s: &Summary, m: &Measured) -> Self {
        let found = |c: &fencepost_checker::CheckResult| Found {
            violated: match c.outcome {
                Outcome::Valid => Some(false),
                Outcome::Violated => Some(true),
                Outcome::Unknown => None,
            },
            incidents: c.incidents,
            excused: c.all_excused(),
        };
        let seconds = |ns: u64| ns as f64 / 1e9;
        let wait = s.over_all(Measure::AcquireWait);
        Self {
            seed: s.setup.seed,
            dir: s.dir.clone(),
            as_expected: match s.verdict.outcome {
                Outcome::Valid => Some(true),
                Outcome::Violated => Some(false),
                Outcome::Unknown => None,
            },
            checks: s
                .verdict
                .checks
                .iter()
                .map(|c| (c.name.clone(), found(c)))
                .collect(),
            grants: m.grants,
            cycles: m.cycles,
            messages: m.messages,
            load_s: seconds(s.load_ns),
            unavailable_s: seconds(m.outage_ns),
            longest_gap_s: seconds(m.longest_gap_ns),
            lost_updates: m.lost_updates,
            refused: m.refused,
            fairness: m.fairness,
            zombie_s: seconds(zombie(s)),
            wait_p50_ms: wait.map_or(0.0, |w| w.p50.ms),
            wait_p99_ms: wait.map_or(0.0, |w| w.p99.ms),
            wait_p50_at_least: wait.is_some_and(|w| w.p50.at_least),
            wait_p99_at_least: wait.is_some_and(|w| w.p99.at_least),
        }
    }
}

/// How long a holder went on past its lease at most, ns.
fn zombie(s: &Summary) -> u64 {
    let overruns = s.verdict.check("overrun").map(|c| c.findings.iter());
    overruns
        .into_iter()
        .flatten()
        .flat_map(|f| &f.sections)
        .filter_map(|s| Some(s.belief_end?.saturating_sub(s.promise_end?)))
        .max()
        .unwrap_or_default()
}

impl Comparison {
    /// Whether each system has an episode for each seed, in which every fault was proved.
    pub fn whole(&self) -> bool {
        let full = |s: &System| s.episodes.len() as u64 == self.planned && s.not_run.is_empty();
        self.cut.is_none() && !self.systems.is_empty() && self.systems.iter().all(full)
    }

    /// What keeps it from being whole, one line each.
    pub fn lacks(&self) -> Vec<String> {
        let mut lines: Vec<String> = self
            .cut
            .iter()
            .map(|why| format!("ended early: {why}"))
            .collect();
        for s in &self.systems {
            if let Some(first) = s.not_run.first() {
                lines.push(format!(
                    "{}: {} of {} episodes not run, the first: {}",
                    s.label,
                    s.not_run.len(),
                    self.planned,
                    first.why
                ));
            }
            let unproved = s.episodes.iter().filter(|e| unproved(e)).count();
            if unproved > 0 {
                lines.push(format!(
                    "{}: in {unproved} of {} episodes something was not as planned (a fault without proof, a client or server lost: \
                     their reports say what); they count all the same",
                    s.label,
                    s.episodes.len()
                ));
            }
        }
        lines
    }
}

/// What an episode found and does not count, one line a system.
fn not_counted(c: &Comparison) -> Vec<String> {
    let excused = |s: &System| {
        let all = s.episodes.iter().flat_map(|e| &e.checks);
        let names: BTreeSet<&str> = all.filter(|(_, f)| f.excused).map(|(n, _)| &**n).collect();
        let names: Vec<&str> = names.into_iter().collect();
        (!names.is_empty()).then(|| format!("{}: {}", s.label, names.join(", ")))
    };
    c.systems.iter().filter_map(excused).collect()
}

fn unproved(e: &Episode) -> bool {
    e.checks
        .get("coverage")
        .is_some_and(|c| c.violated != Some(false))
}

#[cfg(test)]
mod read {
    use super::*;

    fn of(version: u32) -> Result<Comparison, serde_json::Error> {
        let mut made = serde_json::to_value(Comparison {
            fencepost: VERSION,
            systems: vec![System::default(), System::default()],
            ..Comparison::default()
        })?;
        made["fencepost"] = version.into();
        serde_json::from_value(made)
    }

    #[test]
    fn a_file_says_what_its_grants_are_or_that_it_does_not() {
        let notes = |c: &Comparison| tables::notes(c).join("\n");
        let (old, new) = (of(1).expect("it is read"), of(VERSION).expect("it is read"));
        assert!(notes(&old).contains("compare.json of version 1: where an early fencepost"));
        assert!(!notes(&new).contains("compare.json of version"));
        for version in [0, VERSION + 1, u32::MAX] {
            let why = of(version).expect_err("it is refused").to_string();
            let want = format!("of version {version}; this fencepost reads 1 to 2");
            assert!(why.contains(&want), "{why}");
        }
    }

    #[test]
    fn what_stalls_may_have_done_alone_does_not_count() {
        let episode = |excused| Episode {
            grants: 10,
            checks: [(
                "overrun".to_owned(),
                Found {
                    violated: Some(true),
                    incidents: 1,
                    excused,
                },
            )]
            .into(),
            ..Episode::default()
        };
        let s = System {
            label: "one".to_owned(),
            episodes: vec![episode(false), episode(true)],
            ..System::default()
        };
        let c = Comparison {
            fencepost: VERSION,
            systems: vec![s],
            ..Comparison::default()
        };
        let t = tables::findings(&c);
        assert_eq!(t.rows[0][..3], ["overrun", "one", "1 of 1 (3–100 %)"]);
        let notes = tables::notes(&c).join("\n");
        assert!(notes.contains("stood still: one: overrun."), "{notes}");
    }

    #[test]
    fn the_tables_say_what_was_tested_and_what_was_cut() {
        let hour = 3_600_000_000_000;
        let found = |violated| Found {
            violated: Some(violated),
            incidents: u64::from(violated),
            excused: false,
        };
        let names = [
            "deadlock", "effects", "fencing", "leak", "overrun", "service",
        ];
        let system = |label: &str, twin| {
            let mut s = System {
                label: label.to_owned(),
                twin,
                ..System::default()
            };
            s.histograms
                .record(Measure::AcquireWait, Phase::During, hour + 1_000, false);
            let figures = s.histograms.get(Measure::AcquireWait, Phase::During);
            s.latency.extend(figures.map(|d| Waits {
                phase: Phase::During,
                figures: d.figures(),
            }));
            s.episodes.push(Episode {
                grants: 10,
                checks: names.map(|n| (n.to_owned(), found(true))).into(),
                ..Episode::default()
            });
            s
        };
        let c = Comparison {
            fencepost: VERSION,
            systems: vec![system("one", false), system("one (A/A)", true)],
            ..Comparison::default()
        };
        let notes = tables::notes(&c).join("\n");
        for said in [
            "McNemar (on episodes, found something or not) is exact",
            "the two episodes of a seed stay together",
            "where up to 15 seeds differ, else of 9999 that are drawn",
            "A/A, the same system once more, for what chance alone does: one (A/A).",
            "2 took longer than one hour, and are recorded as one hour",
        ] {
            assert!(notes.contains(said), "{said}: {notes}");
        }
        // As many columns with six checks as with one.
        let t = tables::findings(&c);
        assert_eq!((t.head.len(), t.rows.len()), (4, 12));
        assert_eq!(
            t.rows[1][..3],
            ["deadlock", "one (A/A)", "1 of 1 (3–100 %)"]
        );
    }
}
