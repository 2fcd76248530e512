//! What many runs show together: a suite, its shards, a matrix.
//!
//! Owns [`Suite`] (suite.json) and its tables. Must not know how runs are made, nor check again: a run is what its
//! [`Summary`] says. Goes to suite.json, summary.md, junit.xml and index.html of a campaign's folder, and to the terminal.
mod files;
mod page;
mod tables;

pub use files::{markdown, render, terminal};
pub(super) use page::href;
pub(super) use page::percent;
pub use tables::{groups, headline, matrix, overview};

use super::summary::{Judged, Judgement, Summary};
use fencepost_checker::{Class, Expect, Outcome};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What was to be run, what was, and how it came out.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Suite {
    /// Version of this file: 1.
    #[serde(deserialize_with = "known_version")]
    pub fencepost: u32,
    /// Seed of the first repetition; none where several shards had their own.
    pub seed: Option<u64>,
    /// Which shards are in here, from 1.
    pub shards: Vec<u32>,
    /// Of how many; [`SHARDS_MAX`] at most.
    #[serde(deserialize_with = "few_shards")]
    pub of: u32,
    /// Runs that were to be made by these shards.
    pub planned: u64,
    /// Those that were made.
    pub runs: Vec<Run>,
    /// Those that could not be made.
    pub not_run: Vec<NotRun>,
    /// Those of which no result can be read here.
    #[serde(default)]
    pub lost: Vec<Lost>,
    /// Why it ended before its last run, if it did.
    pub cut: Option<String>,
    /// What else whoever reads it should know: parts of different campaigns, a part that is here twice.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Put together by `merge`, so that it stands for the whole: a shard by itself answers for its own part.
    #[serde(default)]
    pub merged: bool,
}

/// What was made, and cannot be read here: its folder is gone, was cut, or holds something else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// The workload and seed of a run, or a file.
    pub what: String,
    /// Why.
    pub why: String,
}

/// Parts of one campaign.
pub const SHARDS_MAX: u32 = 10_000;

/// A file from elsewhere may say anything, and each shard that is missing is told.
fn few_shards<'de, D: serde::Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let of = u32::deserialize(from)?;
    if of <= SHARDS_MAX {
        return Ok(of);
    }
    Err(serde::de::Error::custom(format!(
        "a part of {of}, of {SHARDS_MAX} at most"
    )))
}

/// A version that can be read here.
fn known_version<'de, D: serde::Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    match u32::deserialize(from)? {
        1 => Ok(1),
        version => Err(serde::de::Error::custom(format!(
            "suite.json of version {version}; this fencepost reads 1"
        ))),
    }
}

/// One run, in figures.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Run {
    /// The workload, with its variant after a slash.
    pub workload: String,
    /// The workload file, where it is known.
    pub file: Option<PathBuf>,
    /// What it shows.
    pub about: String,
    /// The lock's name, or an adapter's command.
    pub lock: String,
    /// `5 nodes, independent, persistence aof`.
    pub servers: String,
    /// The seed.
    pub seed: u64,
    /// The results folder.
    pub dir: PathBuf,
    /// Valid: as expected. Violated: not as expected.
    pub outcome: Outcome,
    /// One line a check that came out otherwise than expected, or is unknown.
    pub reasons: Vec<String>,
    /// All checks.
    pub checks: Vec<Check>,
    /// Acquires that were answered ok.
    pub grants: u64,
    /// Length of the load phase, ns.
    pub load_ns: u64,
    /// From the beginning of the load to the first finding, ns; none: nothing was found.
    pub first_finding_ns: Option<u64>,
}

/// One check of one run, in figures.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Check {
    /// Its name.
    pub name: String,
    /// Its class.
    pub class: Class,
    /// Its outcome.
    pub outcome: Outcome,
    /// What was expected of it; none: it must not be violated.
    pub expect: Option<Expect>,
    /// How it came out against that.
    pub judgement: Judgement,
    /// Number of violations.
    pub count: u64,
    /// Number of incidents.
    pub incidents: u64,
}

/// A run that could not be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotRun {
    /// The workload, with its variant after a slash.
    pub workload: String,
    /// The seed.
    pub seed: u64,
    /// Why.
    pub why: String,
}

impl Run {
    /// The figures of a summary.
    pub fn of(s: &Summary, file: Option<PathBuf>) -> Self {
        let check = |(c, j): (&fencepost_checker::CheckResult, &Judged)| Check {
            name: c.name.clone(),
            class: c.class,
            outcome: c.outcome,
            expect: j.expect,
            judgement: j.judgement,
            count: c.count,
            incidents: c.incidents,
        };
        let p = &s.setup;
        let servers: Vec<String> = [
            super::tables::plural(p.nodes, "node"),
            p.topology.clone(),
            match p.persistence.as_str() {
                "" => String::new(),
                kept => format!("persistence {kept}"),
            },
        ]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect();
        Self {
            workload: p.workload.clone(),
            file,
            about: p.about.clone(),
            lock: p.lock.clone(),
            servers: servers.join(", "),
            seed: p.seed,
            dir: s.dir.clone(),
            outcome: s.verdict.outcome,
            reasons: s.verdict.reasons.clone(),
            checks: s.checks().map(check).collect(),
            grants: s.grants,
            load_ns: s.load_ns,
            first_finding_ns: s.first_finding_ns,
        }
    }

    /// How it came out.
    pub fn judgement(&self) -> Judgement {
        judgement(self.outcome)
    }
}

/// How a run came out whose verdict is this.
fn judgement(outcome: Outcome) -> Judgement {
    match outcome {
        Outcome::Valid => Judgement::Expected,
        Outcome::Violated => Judgement::Unexpected,
        Outcome::Unknown => Judgement::Unknown,
    }
}

impl Suite {
    /// Failure beats unknown beats pass. What was not run, is lost, or a shard that is missing, is unknown at best.
    pub fn outcome(&self) -> Outcome {
        let some = |wanted| self.runs.iter().any(|r| r.outcome == wanted);
        let whole = self.not_run.is_empty()
            && self.lost.is_empty()
            && self.cut.is_none()
            && self.missing().is_empty();
        // More shards than runs: one of them has nothing to do.
        let idle = self.part().is_some() && self.planned == 0;
        if some(Outcome::Violated) {
            Outcome::Violated
        } else if some(Outcome::Unknown) || !whole || (self.runs.is_empty() && !idle) {
            Outcome::Unknown
        } else {
            Outcome::Valid
        }
    }

    /// Which shard this is, of how many, where it is one by itself.
    pub fn part(&self) -> Option<(u32, u32)> {
        let alone = self.of > 1 && !self.merged;
        self.shards.first().filter(|_| alone).map(|n| (*n, self.of))
    }

    /// Shards that should be in here and are not.
    pub fn missing(&self) -> Vec<u32> {
        if self.part().is_some() {
            return Vec::new();
        }
        (1..=self.of).filter(|n| !self.shards.contains(n)).collect()
    }

    /// What keeps it from being whole, and its notes, one line each.
    pub fn lacks(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(why) = &self.cut {
            lines.push(format!(
                "ended early, {} of {} runs made: {why}",
                self.runs.len(),
                self.planned
            ));
        }
        let missing: Vec<String> = self.missing().iter().map(u32::to_string).collect();
        if !missing.is_empty() {
            lines.push(format!(
                "no results of shard {} of {}",
                missing.join(", "),
                self.of
            ));
        }
        for n in &self.not_run {
            lines.push(format!(
                "{}, seed {}: not run: {}",
                n.workload, n.seed, n.why
            ));
        }
        for lost in &self.lost {
            lines.push(format!("{}: no result: {}", lost.what, lost.why));
        }
        lines.extend(self.notes.iter().cloned());
        lines
    }
}

#[cfg(test)]
mod tests;
