//! The tables of a suite: a row a workload.
//!
//! Owns which figures are shown and with which words. Must not know a format.
use super::{Run, Suite, judgement};
use crate::report::tables::{NONE, Table, plural, seconds, sign, total};
use fencepost_checker::{Outcome, stats};

/// The runs of one workload.
#[derive(Debug)]
pub struct Group<'a> {
    /// All of them, at least one.
    pub runs: Vec<&'a Run>,
}

/// The runs by workload, in the order of their first run.
pub fn groups(suite: &Suite) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for run in &suite.runs {
        match groups
            .iter_mut()
            .find(|g| g.runs[0].workload == run.workload)
        {
            Some(group) => group.runs.push(run),
            None => groups.push(Group { runs: vec![run] }),
        }
    }
    groups
}

/// In how many runs something was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tally {
    /// The check.
    pub check: String,
    /// Runs in which it was violated.
    pub violated: u64,
    /// Runs in which it could be judged.
    pub judged: u64,
    /// Incidents over all runs.
    pub incidents: u64,
}

impl Group<'_> {
    /// Runs that came out so.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.runs.iter().filter(|r| r.outcome == outcome).count()
    }

    /// Failure beats unknown beats pass.
    pub fn outcome(&self) -> Outcome {
        [Outcome::Violated, Outcome::Unknown]
            .into_iter()
            .find(|o| self.count(*o) > 0)
            .unwrap_or(Outcome::Valid)
    }

    /// The checks that were violated in any run, in the registry's order.
    pub fn tallies(&self) -> Vec<Tally> {
        let mut tallies: Vec<Tally> = Vec::new();
        for c in self.runs.iter().flat_map(|r| &r.checks) {
            let name = &c.name;
            let at = tallies.iter().position(|t| t.check == *name);
            let at = at.unwrap_or_else(|| {
                tallies.push(Tally {
                    check: name.clone(),
                    violated: 0,
                    judged: 0,
                    incidents: 0,
                });
                tallies.len() - 1
            });
            let t = &mut tallies[at];
            t.violated += u64::from(c.outcome == Outcome::Violated);
            t.judged += u64::from(c.outcome != Outcome::Unknown);
            t.incidents = t.incidents.saturating_add(c.incidents);
        }
        tallies.retain(|t| t.violated > 0);
        tallies
    }

    /// Grants over all runs.
    pub fn grants(&self) -> u64 {
        total(self.runs.iter().map(|r| r.grants))
    }

    /// The middle one of the times to the first finding, over the runs that had one.
    pub fn first_finding(&self) -> Option<u64> {
        let mut times: Vec<u64> = self
            .runs
            .iter()
            .filter_map(|r| r.first_finding_ns)
            .collect();
        times.sort_unstable();
        times.get(times.len().checked_sub(1)? / 2).copied()
    }

    /// The run that one should look at first: one that did not come out as expected, else the first.
    pub fn example(&self) -> &Run {
        let wanted = self.outcome();
        self.runs
            .iter()
            .find(|r| r.outcome == wanted)
            .unwrap_or(&self.runs[0])
    }
}

/// `12 workloads, 36 runs: 35 as expected, 1 NOT as expected`.
pub fn headline(suite: &Suite) -> String {
    let count = |o| suite.runs.iter().filter(|r| r.outcome == o).count();
    let mut parts = vec![format!("{} as expected", count(Outcome::Valid))];
    for (n, what) in [
        (count(Outcome::Violated), "NOT as expected"),
        (count(Outcome::Unknown), "unknown"),
        (suite.not_run.len(), "not run"),
        (suite.lost.len(), "without a result"),
    ] {
        if n > 0 {
            parts.push(format!("{n} {what}"));
        }
    }
    let part = suite.part().map_or_else(String::new, |(n, of)| {
        format!("shard {n} of {of} (fencepost merge judges them all): ")
    });
    format!(
        "{part}{}, {}: {}",
        plural(groups(suite).len() as u64, "workload"),
        plural(suite.runs.len() as u64, "run"),
        parts.join(", ")
    )
}

/// A row a workload.
pub fn overview(suite: &Suite) -> Table {
    let head = [
        "",
        "workload",
        "runs",
        "as expected",
        "grants",
        "first finding",
        "found in",
    ];
    let mut t = Table::new(&head, 2, 4);
    for g in groups(suite) {
        let n = g.runs.len();
        let found: Vec<String> = g
            .tallies()
            .iter()
            .map(|t| {
                if n == 1 {
                    t.check.clone()
                } else {
                    format!("{} {} of {n}", t.check, t.violated)
                }
            })
            .collect();
        t.rows.push(vec![
            sign(judgement(g.outcome())).to_owned(),
            g.runs[0].workload.clone(),
            n.to_string(),
            g.count(Outcome::Valid).to_string(),
            g.grants().to_string(),
            g.first_finding().map_or_else(|| NONE.to_owned(), seconds),
            or_none(&found),
        ]);
    }
    t
}

fn or_none(found: &[String]) -> String {
    if found.is_empty() {
        NONE.to_owned()
    } else {
        found.join(", ")
    }
}

/// A row a workload with the share of runs that showed each finding and its rate, both with their 95 % intervals.
pub fn matrix(suite: &Suite) -> Table {
    let head = [
        "",
        "workload",
        "lock",
        "servers",
        "runs as expected",
        "found in (95 %)",
        "incidents per 1000 grants (95 %)",
        "first finding",
    ];
    let mut t = Table::new(&head, 0, 0);
    for g in groups(suite) {
        let tallies = g.tallies();
        let shares: Vec<String> = tallies.iter().map(share).collect();
        let rates: Vec<String> = tallies.iter().map(|t| rate(t, g.grants())).collect();
        let n = g.runs.len();
        let none = format!(
            "nothing in {n}: at most {:.0} % of runs",
            100.0 * stats::share_one_sided(n as u64, 0.95)
        );
        t.rows.push(vec![
            sign(judgement(g.outcome())).to_owned(),
            g.runs[0].workload.clone(),
            g.runs[0].lock.clone(),
            g.runs[0].servers.clone(),
            format!("{} of {n}", g.count(Outcome::Valid)),
            if shares.is_empty() {
                none
            } else {
                shares.join("; ")
            },
            or_none(&rates),
            g.first_finding().map_or_else(|| NONE.to_owned(), seconds),
        ]);
    }
    t
}

fn share(t: &Tally) -> String {
    let i = stats::share(t.violated, t.judged, 0.95);
    format!(
        "{} {} of {} ({:.0}–{:.0} %)",
        t.check,
        t.violated,
        t.judged,
        100.0 * i.low,
        100.0 * i.high
    )
}

fn rate(t: &Tally, grants: u64) -> String {
    if grants == 0 {
        return format!("{} without a grant", t.check);
    }
    let per = |n: f64| n * 1e3 / grants as f64;
    let i = stats::poisson(t.incidents, 0.95);
    format!(
        "{} {:.1} ({:.1}–{:.1})",
        t.check,
        per(t.incidents as f64),
        per(i.low),
        per(i.high)
    )
}
