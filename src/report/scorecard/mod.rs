//! A lock library's card: fifteen named checks, each with a grade, from the runs of ten schedules.
//!
//! Owns [`CHECKS`], what a run says about each, and the card's types. Must not know how runs are made, nor check again: a
//! grade is what a verdict says. Goes to `terminal` and `page`.
pub mod page;
pub mod terminal;

use super::ReportError;
use super::lines::each_event;
use super::summary::Summary;
use fencepost_checker::{CheckResult, Finding, Outcome, Process, Verdict};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A library that gets a card.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Subject {
    /// The name by which it is asked for.
    pub name: String,
    /// The adapter's argv.
    pub command: Vec<String>,
    /// The library takes several servers.
    #[serde(default)]
    pub several: bool,
    /// Where a finding stands in public, by the name of the check.
    #[serde(default)]
    pub known: BTreeMap<String, String>,
}

/// One named check of the card.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// Its name.
    pub name: &'static str,
    /// The schedule that it is read from.
    pub schedule: &'static str,
    /// The checks of the verdict that must find nothing there.
    pub of: &'static [&'static str],
    /// What it means.
    pub means: &'static str,
}

const fn check(
    name: &'static str,
    schedule: &'static str,
    of: &'static [&'static str],
    means: &'static str,
) -> Check {
    Check {
        name,
        schedule,
        of,
        means,
    }
}

/// All checks, in the order of the page.
pub const CHECKS: &[Check] = &[
    check(
        "exclusion",
        "plain",
        &["service", "overrun", "effects"],
        "no fault: one holder at a time",
    ),
    check(
        "honest",
        "plain",
        &["ownership", "truthful", "leak", "deadlock"],
        "no fault: what it says is so",
    ),
    check(
        "claim",
        "plain",
        &["validity"],
        "no fault: the validity that it claims is in the lease",
    ),
    check("tokens", "plain", &["fencing"], "no fault: its tokens rise"),
    check(
        "late-claim",
        "late-replies",
        &[LATE],
        "a grant that is told after its lease is none",
    ),
    check(
        "late-release",
        "pause",
        &["ownership", "service"],
        "a release after the lease leaves another's key",
    ),
    check(
        "slow-release",
        "slow-release",
        &["ownership", "service"],
        "a slow release leaves another's key",
    ),
    check(
        "extension",
        "renew-lost",
        &["continuity", "ownership"],
        "a lost lock is not extended",
    ),
    check(
        "unheard-answers",
        "lost-replies",
        &["leak", "truthful"],
        "answers lost: nothing outlives its lease",
    ),
    check(
        "after-answers",
        "lost-replies",
        &["deadlock"],
        "answers lost: it locks again",
    ),
    check(
        "unheard-requests",
        "lost-requests",
        &["leak", "truthful"],
        "requests lost: what it says is so",
    ),
    check(
        "lease",
        "crash",
        &["leak"],
        "the holder dies: its key has a lease",
    ),
    check(
        "crash",
        "crash",
        &["deadlock"],
        "the holder dies: another gets the lock",
    ),
    check(
        "one-dead",
        "one-node-dead",
        &["minority"],
        "one of three servers dead: it goes on",
    ),
    check(
        "one-hung",
        "one-node-hung",
        &["minority"],
        "one of three servers hangs: it goes on",
    ),
];

/// `validity` without claims that are too long or too short by a formula, whatever the time: those are the check `claim`.
const LATE: &str = "validity after the lease";
/// The kinds of such findings.
const BY_FORMULA: [&str; 2] = ["too-long", "too-short"];

/// What the checker says where the library offers nothing to judge.
const NOT_ASKED: &[&str] = &[
    "not asked",
    "claims no validity",
    "nothing was extended",
    "no extend of ",
    "no owner",
];

/// What became of one schedule.
#[derive(Debug, Clone)]
pub struct Run {
    /// The seed.
    pub seed: u64,
    /// The verdict, or why there is none.
    pub made: Result<Verdict, String>,
    /// The results folder, where there is one.
    pub dir: PathBuf,
    /// By what the adapter broke the protocol, and how often.
    pub misbehaved: BTreeMap<String, u64>,
}

impl Run {
    /// A run that was made.
    pub fn of(summary: Summary, seed: u64) -> Self {
        Self {
            seed,
            made: Ok(summary.verdict),
            dir: summary.dir,
            misbehaved: summary.misbehaved,
        }
    }

    /// A run that could not be made.
    pub fn not_made(why: String, seed: u64) -> Self {
        Self {
            seed,
            made: Err(why),
            dir: PathBuf::new(),
            misbehaved: BTreeMap::new(),
        }
    }

    /// It proves nothing good: another seed may.
    pub fn is_unknown(&self) -> bool {
        let unknown =
            |v: &Verdict| v.outcome == Outcome::Unknown && !not_asked(&v.reasons.join("; "));
        self.made.as_ref().map_or(true, unknown)
    }
}

/// A library's card.
#[derive(Debug, Clone)]
pub struct Card {
    /// The library.
    pub subject: Subject,
    /// What it says of itself.
    pub about: About,
    /// Its runs, by schedule.
    pub runs: BTreeMap<&'static str, Run>,
}

/// What the adapter said in its handshake.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct About {
    /// The library.
    pub library: String,
    /// Its version.
    pub version: String,
    /// The driver beneath it.
    pub driver: Option<String>,
}

/// Reads from a run's history what the adapter said of itself.
///
/// # Errors
/// The history cannot be read.
pub fn about(dir: &Path) -> Result<About, ReportError> {
    let mut about = About::default();
    each_event(&dir.join("history.jsonl"), |e| {
        let driver = matches!(&e.process, Process::Named(name) if name == "driver");
        if driver
            && e.f == "library"
            && let Some(text) = e.value.proof.as_deref()
        {
            about = serde_json::from_str(text).unwrap_or_default();
        }
    })?;
    Ok(about)
}

/// A grade.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grade {
    /// Nothing was found under this schedule.
    Ok,
    /// Something was.
    Broken,
    /// It could not be judged.
    Unknown,
    /// The library offers nothing to judge.
    NotAsked,
}

/// A grade and its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// The grade.
    pub grade: Grade,
    /// The finding, or what is in the way.
    pub why: String,
}

impl Cell {
    fn new(grade: Grade, why: impl Into<String>) -> Self {
        Self {
            grade,
            why: why.into(),
        }
    }
}

fn not_asked(why: &str) -> bool {
    NOT_ASKED.iter().any(|part| why.contains(part))
}

impl Card {
    /// The cell of a check.
    pub fn cell(&self, check: &Check) -> Cell {
        let Some(run) = self.runs.get(check.schedule) else {
            let needs = check.schedule.starts_with("one-node") && !self.subject.several;
            let why = if needs {
                "needs several servers"
            } else {
                "not run"
            };
            return Cell::new(Grade::NotAsked, why);
        };
        let verdict = match &run.made {
            Ok(verdict) => verdict,
            Err(why) => return Cell::new(Grade::Unknown, why),
        };
        let seen: Vec<Seen> = check.of.iter().map(|name| seen(verdict, name)).collect();
        if let Some(bad) = seen.iter().find(|s| s.outcome == Outcome::Violated) {
            return Cell::new(Grade::Broken, format!("`{}`: {}", bad.name, bad.why));
        }
        let reasons = verdict.reasons.join("; ");
        let valid: Vec<&str> = seen
            .iter()
            .filter(|s| s.outcome == Outcome::Valid)
            .map(|s| s.name)
            .collect();
        let whys = || {
            let whys = seen.iter().filter(|s| !s.why.is_empty());
            let whys = whys.map(|s| format!("`{}`: {}", s.name, s.why));
            whys.collect::<Vec<_>>().join("; ")
        };
        if valid.is_empty() && seen.iter().all(|s| not_asked(&s.why)) {
            return Cell::new(Grade::NotAsked, whys());
        }
        if not_asked(&reasons) {
            return Cell::new(Grade::NotAsked, reasons);
        }
        // A run in which the fault did not bite, or the machine stood still, proves nothing good.
        if valid.is_empty() || verdict.outcome == Outcome::Unknown {
            let why = if reasons.is_empty() { whys() } else { reasons };
            return Cell::new(Grade::Unknown, why);
        }
        // What one of its checks could not look at is not found to be right by the others.
        let open = |s: &&Seen| s.outcome == Outcome::Unknown && !not_asked(&s.why);
        if let Some(open) = seen.iter().find(open) {
            return Cell::new(Grade::Unknown, format!("`{}`: {}", open.name, open.why));
        }
        Cell::new(Grade::Ok, valid.join(", "))
    }

    /// All checks with their cells.
    pub fn cells(&self) -> impl Iterator<Item = (&'static Check, Cell)> + '_ {
        CHECKS.iter().map(|check| (check, self.cell(check)))
    }

    /// By what the adapter broke the protocol, each once, with the first schedule in which it did.
    pub fn misbehaved(&self) -> BTreeMap<&str, &'static str> {
        let mut all = BTreeMap::new();
        for (schedule, run) in &self.runs {
            for what in run.misbehaved.keys() {
                all.entry(what.as_str()).or_insert(*schedule);
            }
        }
        all
    }

    /// The worst grade: broken, then unknown, then ok.
    pub fn worst(&self) -> Grade {
        let grades: Vec<Grade> = self.cells().map(|(_, cell)| cell.grade).collect();
        let worst = [Grade::Broken, Grade::Unknown];
        let found = worst.into_iter().find(|g| grades.contains(g));
        found.unwrap_or(Grade::Ok)
    }

    /// `redsync 4.13.0 on go-redis 8.11.5`.
    pub fn title(&self) -> String {
        let About {
            library,
            version,
            driver,
        } = &self.about;
        if library.is_empty() {
            return self.subject.name.clone();
        }
        let driver = driver.as_deref().unwrap_or("no driver named");
        format!("{library} {version} on {driver}")
    }

    /// Where a finding of this check stands in public.
    pub fn public(&self, check: &Check) -> Option<&str> {
        self.subject.known.get(check.name).map(String::as_str)
    }
}

/// What one check of a verdict says.
struct Seen {
    name: &'static str,
    outcome: Outcome,
    why: String,
}

fn seen(verdict: &Verdict, name: &'static str) -> Seen {
    if name == LATE {
        return late(verdict);
    }
    let Some(result) = verdict.check(name) else {
        return Seen {
            name,
            outcome: Outcome::Unknown,
            why: "there is no such check".to_owned(),
        };
    };
    Seen {
        name,
        outcome: result.outcome,
        why: why(result),
    }
}

fn why(result: &CheckResult) -> String {
    let sentence = result.findings.first().map(|f| f.sentence.clone());
    sentence.or_else(|| result.note.clone()).unwrap_or_default()
}

fn late(verdict: &Verdict) -> Seen {
    let name = "validity";
    let Some(result) = verdict.check(name) else {
        return seen(verdict, name);
    };
    let by_formula = |f: &&Finding| {
        let kind = f.kind.as_deref();
        kind.is_some_and(|kind| BY_FORMULA.contains(&kind))
    };
    if let Some(late) = result.findings.iter().find(|f| !by_formula(f)) {
        return Seen {
            name,
            outcome: Outcome::Violated,
            why: late.sentence.clone(),
        };
    }
    // Findings beyond those that a verdict keeps may be of another kind.
    let outcome = match result.outcome {
        Outcome::Violated if result.count > result.findings.len() as u64 => Outcome::Unknown,
        Outcome::Violated => Outcome::Valid,
        other => other,
    };
    Seen {
        name,
        outcome,
        why: result.note.clone().unwrap_or_default(),
    }
}

/// A command line for a shell: words that are not plain stand in quotes.
pub fn shell(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,".contains(c);
    let quoted = words.iter().map(|word| {
        if !word.is_empty() && word.chars().all(plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
