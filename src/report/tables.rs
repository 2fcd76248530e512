//! What a report lists, as plain tables: written once, drawn by each renderer in its own way.
//!
//! Owns which figures are shown, in which order and with which words. Must not know a format: cells hold text as it
//! came, and the renderer makes it safe for its output.
use super::latency::{Figures, Measure, cut_note};
use super::numbers::stalls;
use super::summary::{Judged, Judgement, Summary};
use fencepost_checker::{CheckResult, Expect, Outcome};
use std::collections::BTreeMap;

pub use super::numbers::numbers;

/// A table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// Names of the columns.
    pub head: Vec<String>,
    /// Rows.
    pub rows: Vec<Vec<String>>,
    /// From this column on, cells are figures and go to the right.
    pub figures_from: usize,
    /// So many columns are figures, the rest is text again.
    pub figures: usize,
}

impl Table {
    /// An empty table; from column `figures_from` on, `figures` columns hold figures.
    pub fn new(head: &[&str], figures_from: usize, figures: usize) -> Self {
        Self {
            head: head.iter().map(|h| (*h).to_owned()).collect(),
            rows: Vec::new(),
            figures_from,
            figures,
        }
    }

    /// Whether a column holds figures.
    pub fn is_figure(&self, column: usize) -> bool {
        (self.figures_from..self.figures_from + self.figures).contains(&column)
    }
}

/// What is not there.
pub const NONE: &str = "–";

/// A time since the start of the run, in s.
pub fn seconds(ns: u64) -> String {
    format!(
        "{}.{:03} s",
        ns / 1_000_000_000,
        ns % 1_000_000_000 / 1_000_000
    )
}

/// An outcome as a word.
pub fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Valid => "valid",
        Outcome::Violated => "violated",
        Outcome::Unknown => "unknown",
    }
}

/// How a run, or a check, came out, as words.
pub fn judgement(judgement: Judgement) -> &'static str {
    match judgement {
        Judgement::Expected => "as expected",
        Judgement::Unexpected => "NOT as expected",
        Judgement::Unknown => "unknown",
        Judgement::Skipped => "not judged",
    }
}

/// How the whole run came out.
pub fn run_judgement(s: &Summary) -> Judgement {
    match s.verdict.outcome {
        Outcome::Valid => Judgement::Expected,
        Outcome::Violated => Judgement::Unexpected,
        Outcome::Unknown => Judgement::Unknown,
    }
}

/// The set-up in one line.
pub fn setup(s: &Summary) -> String {
    let p = &s.setup;
    let mut parts = Vec::new();
    for (name, value) in [("lock", &p.lock), ("lease", &p.ttl)] {
        if !value.is_empty() {
            parts.push(format!("{name} {value}"));
        }
    }
    let nodes = plural(p.nodes, "node");
    let mut cluster = if p.topology.is_empty() {
        nodes
    } else {
        format!("{}, {nodes}", p.topology)
    };
    if !p.persistence.is_empty() {
        cluster = format!("{cluster}, persistence {}", p.persistence);
    }
    parts.push(cluster);
    if p.clients > 0 {
        parts.push(format!(
            "{} × {}, {}, {}",
            plural(p.clients, "client"),
            plural(p.workers, "worker"),
            plural(p.keys, "key"),
            p.rate.map_or_else(
                || String::from("closed loop"),
                |r| format!("{r} starts a second")
            ),
        ));
    }
    if !p.fence.is_empty() {
        parts.push(format!("fence {}", p.fence));
    }
    parts.join(" · ")
}

/// `plain-del, seed 7: as expected; ownership 3, overrun 1; 34 grants`.
pub fn one_line(s: &Summary) -> String {
    let mut line = format!(
        "{}, seed {}: {}; {}",
        s.setup.workload,
        s.setup.seed,
        judgement(run_judgement(s)),
        found_line(s)
    );
    for reason in &s.verdict.reasons {
        line.push_str("; ");
        line.push_str(reason);
    }
    line
}

/// What one run showed, not held against what its workload states.
pub fn found_line(s: &Summary) -> String {
    let found: Vec<String> = s
        .violated()
        .iter()
        .map(|(c, _)| format!("{} {}", c.name, count(c)))
        .collect();
    let found = if found.is_empty() {
        "nothing found".to_owned()
    } else {
        found.join(", ")
    };
    format!("{found}; {}", plural(s.grants, "grant"))
}

/// `3`, or `3 (1 excused)` where the machine itself stood still during one of them.
pub fn count(c: &CheckResult) -> String {
    match c.excused {
        0 => c.count.to_string(),
        excused => format!("{} ({excused} excused)", c.count),
    }
}

/// The sum of counts, which in files from elsewhere may be anything: no more than there are numbers.
pub fn total(counts: impl IntoIterator<Item = u64>) -> u64 {
    counts.into_iter().fold(0, u64::saturating_add)
}

/// `1 node`, `5 nodes`.
pub fn plural(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// All checks.
pub fn checks(s: &Summary) -> Table {
    let mut t = Table::new(
        &[
            "",
            "check",
            "class",
            "outcome",
            "asked",
            "found",
            "incidents",
            "note",
        ],
        5,
        2,
    );
    for (c, j) in s.checks() {
        t.rows.push(vec![
            sign(j.judgement).to_owned(),
            c.name.clone(),
            c.class.name().to_owned(),
            outcome(c.outcome).to_owned(),
            asked(j).to_owned(),
            count(c),
            c.incidents.to_string(),
            note(c),
        ]);
    }
    t
}

fn note(c: &CheckResult) -> String {
    let excused = match &c.note {
        Some(note) if c.excused == 0 => return note.clone(),
        None if c.excused == 0 => return String::new(),
        Some(note) => note,
        None => "excused: the machine itself stood still, by no fault of the plan",
    };
    format!("{excused}; if all of them are, a run that expects none is unknown")
}

/// The sign of a judgement; ASCII renderers replace it.
pub fn sign(judgement: Judgement) -> &'static str {
    match judgement {
        Judgement::Expected => "✔",
        Judgement::Unexpected => "✘",
        Judgement::Unknown => "?",
        Judgement::Skipped => "·",
    }
}

fn asked(j: &Judged) -> &'static str {
    match j.expect {
        None => NONE,
        Some(Expect::Valid) => "valid",
        Some(Expect::Violated) => "violated",
        Some(Expect::Any) => "any",
    }
}

/// Operations by kind and result.
pub fn operations(s: &Summary) -> Table {
    let mut t = Table::new(&["operation", "ok", "fail", "info", "open"], 1, 4);
    for name in super::scan::OPERATIONS {
        if let Some(r) = s.operations.get(name) {
            let mut row = vec![name.to_owned()];
            row.extend([r.ok, r.fail, r.info, r.open].map(|n| n.to_string()));
            t.rows.push(row);
        }
    }
    t
}

/// Latencies by measure and phase, in ms.
pub fn latency(s: &Summary) -> Table {
    let mut t = Table::new(
        &[
            "latency, ms",
            "fault",
            "n",
            "p50",
            "p90",
            "p99",
            "p99.9",
            "max",
            "censored",
        ],
        2,
        7,
    );
    for l in &s.latency {
        let f = &l.figures;
        let mut row = vec![
            l.measure.name().to_owned(),
            l.phase.name().to_owned(),
            f.count.to_string(),
        ];
        row.extend([f.p50, f.p90, f.p99, f.p999, f.max].map(|p| p.text(true)));
        row.push(f.censored.to_string());
        t.rows.push(row);
    }
    t
}

/// What the measures mean, where they were taken.
pub fn latency_notes(s: &Summary) -> Vec<String> {
    let mut notes = Vec::new();
    if s.latency.iter().any(|l| l.measure == Measure::AcquireWait) {
        let from = if s.setup.rate.is_some() {
            "the intended start"
        } else {
            "a worker's first try"
        };
        notes.push(format!(
            "acquire, acquire-refused, extend, release: service time of one call; acquire-wait: from {from} to the grant"
        ));
    }
    let refused = Measure::ReleaseRefused;
    if s.latency.iter().any(|l| l.measure == refused) {
        notes.push(String::from(
            "release: without refused ones, which are release-refused",
        ));
    }
    if s.latency.iter().any(|l| l.figures.censored > 0) {
        notes.push(String::from(
            "censored: no definite answer, counted at what was waited; ≥ marks a lower bound",
        ));
    }
    let cut = s.latency.iter().map(|l| l.figures.cut).sum();
    notes.extend(cut_note(cut));
    notes
}

/// Faults and their proofs.
pub fn faults(s: &Summary) -> Table {
    let mut t = Table::new(
        &[
            "fault",
            "kind",
            "injected",
            "bit",
            "healed",
            "unproved",
            "first target and proof",
        ],
        2,
        4,
    );
    for f in &s.faults {
        let first = if f.never_fired && f.injected == 0 {
            String::from("its trigger never matched")
        } else {
            f.injections.first().map_or_else(String::new, |i| {
                let until = i.healed.map_or_else(|| String::from("no end"), seconds);
                let mut text = format!("{} {} to {until}", i.target, seconds(i.at));
                for proof in [&i.proof, &i.end_proof] {
                    if !proof.is_empty() {
                        text = format!("{text}; {proof}");
                    }
                }
                text
            })
        };
        t.rows.push(vec![
            s.fault_id(f.fault),
            f.kind.clone(),
            f.injected.to_string(),
            f.bit.to_string(),
            f.healed.to_string(),
            f.unproved.to_string(),
            first,
        ]);
    }
    if s.stalls.during_faults > 0 {
        let cells = [
            "",
            "unplanned",
            &s.stalls.during_faults.to_string(),
            "",
            "",
            "",
        ];
        let mut row: Vec<String> = cells.map(str::to_owned).to_vec();
        row.push(format!("the machine stood still: {}", stalls(s)));
        t.rows.push(row);
    }
    t
}

/// A check in a comparison: `violated 3 in 1 incident` or its outcome, with what is wrong about it.
fn cell(c: &CheckResult, j: &Judged) -> String {
    let mut text = match c.outcome {
        Outcome::Violated => format!(
            "violated {} in {}",
            c.count,
            plural(c.incidents, "incident")
        ),
        o => outcome(o).to_owned(),
    };
    if j.judgement == Judgement::Unexpected {
        text.push_str(", NOT as expected");
    }
    text
}

/// Several runs side by side: a column a run.
pub fn comparison(runs: &[Summary]) -> Table {
    let mut t = Table::new(&[""], 1, runs.len());
    t.head.extend(runs.iter().map(|s| s.setup.workload.clone()));
    let mut row = |name: &str, cell: &dyn Fn(&Summary) -> String| {
        let mut row = vec![name.to_owned()];
        row.extend(runs.iter().map(cell));
        t.rows.push(row);
    };
    row("verdict", &|s| judgement(run_judgement(s)).to_owned());
    row("lock", &|s| s.setup.lock.clone());
    row("servers", &|s| {
        format!("{}, {}", plural(s.setup.nodes, "node"), s.setup.persistence)
    });
    row("seed", &|s| s.setup.seed.to_string());
    row("operations", &|s| s.total_operations().to_string());
    row("grants", &|s| s.grants.to_string());
    row("lock cycles a second", &|s| {
        format!("{:.1}", s.cycles_per_s)
    });
    for name in check_names(runs) {
        row(&name, &|s| {
            let found = s.checks().find(|(c, _)| c.name == name);
            found.map_or_else(|| NONE.to_owned(), |(c, j)| cell(c, j))
        });
    }
    row("first finding after", &|s| {
        s.first_finding_ns.map_or_else(|| NONE.to_owned(), seconds)
    });
    for measure in [
        Measure::Acquire,
        Measure::AcquireWait,
        Measure::Release,
        Measure::Extend,
    ] {
        if runs.iter().any(|s| s.over_all(measure).is_some()) {
            let name = format!("{} p50 / p99 / p99.9, ms", measure.name());
            row(&name, &|s| three(s.over_all(measure)));
        }
    }
    t
}

fn three(f: Option<Figures>) -> String {
    f.map_or_else(
        || NONE.to_owned(),
        |f| {
            format!(
                "{} / {} / {}",
                f.p50.text(true),
                f.p99.text(true),
                f.p999.text(true)
            )
        },
    )
}

/// The checks on which any run has something to say, in the order of the registry.
fn check_names(runs: &[Summary]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (c, j) in runs.iter().flat_map(Summary::checks) {
        let says = c.outcome == Outcome::Violated
            || j.expect.is_some()
            || j.judgement == Judgement::Unknown;
        if says && !names.contains(&c.name) {
            names.push(c.name.clone());
        }
    }
    names
}

/// Many runs: a row a run.
pub fn runs(runs: &[Summary]) -> Table {
    let head = [
        "",
        "run",
        "seed",
        "operations",
        "grants",
        "p50",
        "p99",
        "p99.9",
        "found",
    ];
    let mut t = Table::new(&head, 2, 6);
    for s in runs {
        let f = s.over_all(Measure::Acquire);
        let at = |p: &dyn Fn(Figures) -> String| f.map_or_else(|| NONE.to_owned(), p);
        let found: Vec<String> = s
            .violated()
            .iter()
            .map(|(c, _)| format!("{} {}", c.name, c.count))
            .collect();
        t.rows.push(vec![
            sign(run_judgement(s)).to_owned(),
            s.setup.workload.clone(),
            s.setup.seed.to_string(),
            s.total_operations().to_string(),
            s.grants.to_string(),
            at(&|f| f.p50.text(true)),
            at(&|f| f.p99.text(true)),
            at(&|f| f.p999.text(true)),
            if found.is_empty() {
                NONE.to_owned()
            } else {
                found.join(", ")
            },
        ]);
    }
    t
}

/// Side by side up to so many runs; more are listed a row a run.
pub const SIDE_BY_SIDE: usize = 4;

/// The runs whose verdict stands at the head of a report: all of a few; of many, the first that did not come out as
/// expected.
pub fn headlines(runs: &[Summary]) -> Vec<&Summary> {
    let few = runs.len() <= SIDE_BY_SIDE;
    let bad = |s: &&Summary| few || s.verdict.outcome != Outcome::Valid;
    runs.iter().filter(bad).take(10).collect()
}

/// Runs of one workload together: in how many was each check violated, or unknown?
pub fn tally(runs: &[Summary]) -> Vec<String> {
    let mut groups: BTreeMap<&str, Vec<&Summary>> = BTreeMap::new();
    for s in runs {
        groups.entry(&s.setup.workload).or_default().push(s);
    }
    let mut lines = Vec::new();
    for (workload, group) in groups.into_iter().filter(|(_, g)| g.len() > 1) {
        let n = group.len();
        let as_expected = group
            .iter()
            .filter(|s| s.verdict.outcome == Outcome::Valid)
            .count();
        let mut parts = vec![format!("as expected {as_expected} of {n}")];
        let mut checks: Vec<(&str, usize, usize)> = Vec::new();
        for (c, _) in group.iter().flat_map(|s| s.checks()) {
            let at = checks
                .iter()
                .position(|(name, ..)| *name == c.name)
                .unwrap_or_else(|| {
                    checks.push((&c.name, 0, 0));
                    checks.len() - 1
                });
            checks[at].1 += usize::from(c.outcome == Outcome::Violated);
            checks[at].2 += usize::from(c.outcome == Outcome::Unknown);
        }
        for (name, violated, unknown) in checks {
            if violated > 0 {
                parts.push(format!("{name} violated {violated} of {n}"));
            }
            if unknown > 0 && unknown < n {
                parts.push(format!("{name} unknown {unknown} of {n}"));
            }
        }
        lines.push(format!("{workload}: {}", parts.join(", ")));
    }
    lines
}
