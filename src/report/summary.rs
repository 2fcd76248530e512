//! The summary of one run: all that any renderer shows, from plan.toml, history.jsonl and verdict.json.
//!
//! Owns [`Summary`]. Must not know a format, and never checks again: what was found is what the verdict says. Goes
//! to the renderers; `--json` prints it as it is.
use super::ReportError;
use super::intervals::Intervals;
use super::latency::{Durations, Figures, Latencies, Measure, Phase};
use super::scan::{self, Results, Scan, Stalls};
use super::windows::FaultSummary;
use crate::foreign;
use fencepost_checker::{CheckResult, Class, Expect, Outcome, Verdict};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What one run was, did and showed. Times in ns since the start of the run, where the name does not say otherwise.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Summary {
    /// The folder of its results, as it was given.
    pub dir: PathBuf,
    /// What was run.
    pub setup: Setup,
    /// What the checker said.
    pub verdict: Verdict,
    /// Each check against what was expected of it, in the verdict's order.
    pub judged: Vec<Judged>,
    /// From the beginning of the load to the first finding, ns; none: nothing was found.
    pub first_finding_ns: Option<u64>,
    /// Operations by name and result.
    pub operations: BTreeMap<String, Results>,
    /// Acquires that were answered ok.
    pub grants: u64,
    /// Length of the load phase, ns.
    pub load_ns: u64,
    /// Releases answered ok a second of the load.
    pub cycles_per_s: f64,
    /// Error codes: `acquire deadline`, number.
    pub errors: BTreeMap<String, u64>,
    /// Latencies by measure and phase.
    pub latency: Vec<Latency>,
    /// Lengths of overlaps between two holders, over the findings that the verdict keeps.
    pub overlap: Option<Overlap>,
    /// The faults, in the order of the plan.
    pub faults: Vec<FaultSummary>,
    /// Stalls of the machine over 50 ms.
    pub stalls: Stalls,
    /// Clients that died.
    pub deaths: u64,
    /// Misbehaviours of clients, with their number.
    pub misbehaved: BTreeMap<String, u64>,
    /// How the history was read.
    pub history: HistoryFacts,
    /// The histograms behind `latency`; not part of the JSON.
    #[serde(skip)]
    pub histograms: Latencies,
    /// The same second by second; not part of the JSON.
    #[serde(skip)]
    pub intervals: Intervals,
    /// The histogram behind `overlap`; not part of the JSON.
    #[serde(skip)]
    pub overlaps: Durations,
}

/// What was run, from plan.toml and the history's header; empty text where neither says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// The workload, with its variant after a slash.
    pub workload: String,
    /// What it shows.
    pub about: String,
    /// The seed.
    pub seed: u64,
    /// The lock's name, or an adapter's command.
    pub lock: String,
    /// The lease asked for.
    pub ttl: String,
    /// How the servers stand to each other.
    pub topology: String,
    /// Number of servers.
    pub nodes: u64,
    /// What survives a restart.
    pub persistence: String,
    /// How the resource checks tokens.
    pub fence: String,
    /// Client processes.
    pub clients: u64,
    /// Workers in each.
    pub workers: u64,
    /// Lock keys.
    pub keys: u64,
    /// Starts a second (open loop); none: closed loop.
    pub rate: Option<f64>,
    /// Ids of the faults, by number.
    pub fault_ids: Vec<String>,
    /// Versions of all that took part.
    pub versions: BTreeMap<String, String>,
}

/// How the history was read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HistoryFacts {
    /// Number of events.
    pub events: u64,
    /// Lines that are no event.
    pub bad_lines: u64,
    /// Bytes of a torn last line.
    pub torn_bytes: u64,
    /// The history has its end: the run was not cut.
    pub complete: bool,
    /// Time of the last event, ns.
    pub end: u64,
    /// Phases of the run with their beginnings, ns.
    pub phases: Vec<(String, u64)>,
}

/// Latency of one measure in one phase.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Latency {
    /// What was measured.
    pub measure: Measure,
    /// Before, during or after a fault window.
    pub phase: Phase,
    /// The percentiles.
    pub figures: Figures,
}

/// Lengths of overlaps.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Overlap {
    /// The percentiles.
    pub figures: Figures,
    /// All violations of the checks that have overlaps; more than `figures.count` where the verdict does not keep
    /// each finding.
    pub violations: u64,
}

/// A check against what was expected of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judged {
    /// The check's name.
    pub check: String,
    /// What the workload says of it, by its name or its class; none: it must not be violated.
    pub expect: Option<Expect>,
    /// How it came out.
    pub judgement: Judgement,
}

/// How a check came out against what was expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Judgement {
    /// As expected.
    Expected,
    /// Not as expected.
    Unexpected,
    /// An outcome was asked for, and the history does not hold enough to say.
    Unknown,
    /// Nothing was asked, and nothing can be said.
    Skipped,
}

impl Summary {
    /// The result and the judgement of each check.
    pub fn checks(&self) -> impl Iterator<Item = (&CheckResult, &Judged)> {
        self.verdict.checks.iter().zip(&self.judged)
    }

    /// The checks that were violated, unexpected ones first.
    pub fn violated(&self) -> Vec<(&CheckResult, &Judged)> {
        let mut violated: Vec<_> = self
            .checks()
            .filter(|(c, _)| c.outcome == Outcome::Violated)
            .collect();
        violated.sort_by_key(|(_, j)| j.judgement != Judgement::Unexpected);
        violated
    }

    /// A measure over all phases.
    pub fn over_all(&self, measure: Measure) -> Option<Figures> {
        self.histograms.all_phases(measure).map(|d| d.figures())
    }

    /// All operations.
    pub fn total_operations(&self) -> u64 {
        self.operations.values().map(|r| r.total()).sum()
    }

    /// The name by which a fault is called: its id in the plan, else its number.
    pub fn fault_id(&self, fault: u32) -> String {
        self.setup
            .fault_ids
            .get(fault as usize)
            .cloned()
            .unwrap_or_else(|| format!("f{fault}"))
    }
}

/// Summarise a results folder.
///
/// # Errors
/// When history.jsonl or verdict.json is missing or not what it should be. A folder without plan.toml (a history
/// from elsewhere) is summarised with what the history's header says.
pub fn summarise(dir: &Path) -> Result<Summary, ReportError> {
    let plan = dir.join("plan.toml");
    let plan: toml::Table = match foreign::text(&plan, foreign::PLAN_MAX) {
        Ok(text) => text
            .parse()
            .map_err(|e: toml::de::Error| ReportError::Plan {
                path: plan,
                message: e.message().to_owned(),
            })?,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => toml::Table::new(),
        Err(e) => return Err(ReportError::io(&plan, e)),
    };
    let path = dir.join("verdict.json");
    let text = foreign::read(&path, foreign::JSON_MAX).map_err(|e| ReportError::io(&path, e))?;
    let mut verdict =
        serde_json::from_slice(&text).map_err(|source| ReportError::Verdict { path, source })?;
    let scan = scan::scan(&dir.join("history.jsonl"))?;
    doubt_another_history(&mut verdict, scan.events);
    Ok(assemble(dir, &plan, scan, verdict))
}

/// A verdict on a history that has been cut, or has grown, since then says nothing of what lies there now.
fn doubt_another_history(verdict: &mut Verdict, events: u64) {
    if let Some(judged) = verdict.counts.get("events").filter(|n| **n != events) {
        let why = format!(
            "verdict.json is of a history of {judged} events, and history.jsonl has {events}; `fencepost check --expect plan.toml history.jsonl` judges it anew"
        );
        verdict.outcome = Outcome::Unknown;
        verdict.reasons.insert(0, why);
    }
}

/// Summarise a history that was judged elsewhere, against `expect`; there need be no results folder around it.
///
/// # Errors
/// When the history cannot be read.
pub fn of_history(
    history: &Path,
    lines: impl std::io::BufRead,
    verdict: Verdict,
    expect: &BTreeMap<String, Expect>,
) -> Result<Summary, ReportError> {
    let mut scan = scan::read(lines, history)?;
    scan.header.expect.clone_from(expect);
    Ok(assemble(history, &toml::Table::new(), scan, verdict))
}

fn assemble(dir: &Path, plan: &toml::Table, scan: Scan, verdict: Verdict) -> Summary {
    let (load_from, load_to) = scan.load();
    let load_ns = load_to - load_from;
    let judged = verdict
        .checks
        .iter()
        .map(|c| judge(c, &verdict, &scan.header.expect))
        .collect();
    let first = verdict
        .checks
        .iter()
        .flat_map(|c| &c.findings)
        .map(|f| f.at)
        .min();
    let (overlaps, overlap) = overlaps(&verdict);
    let latency = scan
        .latencies
        .iter()
        .map(|(measure, phase, d)| Latency {
            measure,
            phase,
            figures: d.figures(),
        })
        .collect();
    Summary {
        dir: dir.to_path_buf(),
        setup: setup(plan, &scan),
        judged,
        first_finding_ns: first.map(|at| at.saturating_sub(load_from)),
        grants: scan.operations.get("acquire").map_or(0, |r| r.ok),
        load_ns,
        cycles_per_s: if load_ns == 0 {
            0.0
        } else {
            scan.cycles as f64 * 1e9 / load_ns as f64
        },
        latency,
        overlap,
        history: HistoryFacts {
            events: scan.events,
            bad_lines: scan.bad_lines,
            torn_bytes: scan.torn_bytes,
            complete: scan.ended,
            end: scan.end,
            phases: scan.phases,
        },
        operations: scan.operations,
        errors: scan.errors,
        faults: scan.faults,
        stalls: scan.stalls,
        deaths: scan.deaths,
        misbehaved: scan.misbehaved,
        histograms: scan.latencies,
        intervals: scan.intervals,
        overlaps,
        verdict,
    }
}

/// One check against the header's `expect`: its name goes before its class; what is not named must not be violated.
/// The checker has judged the run as a whole (coverage, stalls of the machine); where it was milder than the single
/// check would be, it is right, so that no renderer contradicts the verdict.
fn judge(check: &CheckResult, verdict: &Verdict, expect: &BTreeMap<String, Expect>) -> Judged {
    let by_name = expect.get(&check.name).copied();
    let by_class = expect.get(check.class.name()).copied();
    // A class stands for all of its checks: that one was violated, or could be judged, is enough.
    let other = |outcome| {
        by_name.is_none()
            && by_class.is_some()
            && verdict
                .checks
                .iter()
                .any(|c| c.class == check.class && c.outcome == outcome)
    };
    let alone = match (by_name.or(by_class), check.outcome) {
        (Some(Expect::Any), _)
        | (Some(Expect::Valid) | None, Outcome::Valid)
        | (Some(Expect::Violated), Outcome::Violated) => Judgement::Expected,
        (Some(Expect::Violated), _) if other(Outcome::Violated) => match check.outcome {
            Outcome::Unknown => Judgement::Skipped,
            _ => Judgement::Expected,
        },
        (Some(Expect::Valid), Outcome::Unknown) if other(Outcome::Valid) => Judgement::Skipped,
        // A run whose faults did not bite says nothing, whether or not the workload asked.
        (_, Outcome::Unknown | Outcome::Violated) if check.class == Class::Coverage => {
            Judgement::Unknown
        }
        (Some(Expect::Valid) | None, Outcome::Violated)
        | (Some(Expect::Violated), Outcome::Valid) => Judgement::Unexpected,
        (Some(_), Outcome::Unknown) => Judgement::Unknown,
        (None, Outcome::Unknown) => Judgement::Skipped,
    };
    let judgement = match (alone, verdict.outcome) {
        (Judgement::Unexpected, Outcome::Unknown) => Judgement::Unknown,
        (Judgement::Unexpected | Judgement::Unknown, Outcome::Valid) => Judgement::Skipped,
        (alone, _) => alone,
    };
    Judged {
        check: check.name.clone(),
        expect: by_name.or(by_class),
        judgement,
    }
}

fn overlaps(verdict: &Verdict) -> (Durations, Option<Overlap>) {
    let mut durations = Durations::default();
    let mut violations = 0;
    for check in &verdict.checks {
        let lengths = check.findings.iter().filter_map(|f| f.overlap_ns);
        let before = durations.histogram().len();
        for ns in lengths {
            durations.record(ns, false);
        }
        if durations.histogram().len() > before {
            violations = check.count.saturating_add(violations);
        }
    }
    let overlap = (violations > 0).then(|| Overlap {
        figures: durations.figures(),
        violations,
    });
    (durations, overlap)
}

/// The facts of a plan, read as plain TOML: a report of an old or foreign folder must not fail over a key.
fn setup(plan: &toml::Table, scan: &Scan) -> Setup {
    let at = |path: &[&str]| -> Option<&toml::Value> {
        let (last, tables) = path.split_last()?;
        let mut table = plan;
        for name in tables {
            table = table.get(*name)?.as_table()?;
        }
        table.get(*last)
    };
    let text = |path: &[&str]| {
        at(path)
            .map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned))
            .unwrap_or_default()
    };
    let number = |path: &[&str]| {
        at(path)
            .and_then(toml::Value::as_integer)
            .and_then(|n| u64::try_from(n).ok())
            .unwrap_or_default()
    };
    let rate = at(&["load", "rate"]).and_then(|v| {
        let whole = v.as_integer().map(|n| n as f64);
        v.as_float().or(whole)
    });
    let command = at(&["lock", "command"])
        .and_then(toml::Value::as_array)
        .map(|argv| {
            let words: Vec<&str> = argv.iter().filter_map(toml::Value::as_str).collect();
            words.join(" ")
        });
    let faults = at(&["fault"]).and_then(toml::Value::as_array);
    let fault_ids = faults.into_iter().flatten().enumerate().map(|(n, f)| {
        let id = f.get("id").and_then(toml::Value::as_str);
        id.map_or_else(|| format!("f{n}"), str::to_owned)
    });
    let header = &scan.header;
    let model = &header.model;
    let ttl = model
        .ttl_ms
        .map_or_else(String::new, |ms| format!("{ms}ms"));
    Setup {
        workload: header.workload.clone(),
        about: text(&["about"]),
        seed: header.seed,
        lock: match text(&["lock", "name"]) {
            name if name.is_empty() => command.unwrap_or_default(),
            name => name,
        },
        ttl: Some(text(&["lock", "ttl"]))
            .filter(|t| !t.is_empty())
            .unwrap_or(ttl),
        topology: text(&["cluster", "topology"]),
        nodes: number(&["cluster", "nodes"]).max(u64::from(model.nodes)),
        persistence: text(&["cluster", "persistence"]),
        fence: text(&["resource", "fence"]),
        clients: number(&["load", "clients"]),
        workers: number(&["load", "workers"]),
        keys: number(&["load", "keys"]),
        rate,
        fault_ids: fault_ids.collect(),
        versions: header.versions.clone(),
    }
}
