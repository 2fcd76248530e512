//! The smallest part of a history that still shows a finding, as a history of its own.
//!
//! Owns what may be left out, and the search. Must not know checks: it asks the checker again. Goes to a file that
//! `check` judges alike.
//!
//! First all is dropped that is not of the finding's key and workers; then delta debugging (Zeller and Hildebrandt,
//! 2002) over whole operations, until no single one can be left out. Alike means: the same check says the same sentence with
//! the same blame, and nothing that it did not say of the whole; no other check is violated that was not before, nor blames
//! anybody else; and all events fit together.
use crate::event::{Event, Process};
use crate::history::{HistoryError, each_line, open_lines};
use crate::model::Header;
use crate::verdict::{CheckResult, Finding, Outcome, Verdict};
use crate::{Checker, Options};
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::path::Path;

/// Events that are looked at, at most: what is about one finding is far less.
const EVENTS_MAX: usize = 20_000;

/// A part of a history.
#[derive(Debug, Clone)]
pub struct Part {
    /// Its text, in JSON lines.
    pub text: String,
    /// Events in it.
    pub events: usize,
}

/// The smallest part of the history at `path` that shows a finding of its verdict; none if what is about it is too
/// long, or does not show it alone.
///
/// ```
/// # use fencepost_checker::{Options, check_path, check_reader, shrink};
/// # let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/plain-del.jsonl");
/// let verdict = check_path(&path)?;
/// let finding = &verdict.check("ownership").expect("it is in the table").findings[0];
/// let part = shrink(&path, &Options::default(), &verdict, finding)?.expect("a part shows it");
/// let alone = check_reader(part.text.as_bytes())?;
/// assert_eq!(alone.check("ownership").expect("it is in the table").count, 1);
/// # Ok::<(), fencepost_checker::HistoryError>(())
/// ```
///
/// # Errors
/// As [`check_path`](crate::check_path).
pub fn shrink(
    path: &Path,
    options: &Options,
    verdict: &Verdict,
    finding: &Finding,
) -> Result<Option<Part>, HistoryError> {
    for wide in [false, true] {
        let Some(search) = Search::new(path, options, verdict, finding, wide)? else {
            continue;
        };
        let all: Vec<usize> = (0..search.units.len()).collect();
        if search.shows(&all) {
            let least = search.least(all);
            let lines = search.lines(&least);
            let mut text = serde_json::to_string(&search.header).unwrap_or_default();
            text.push('\n');
            for (n, line) in lines.iter().enumerate() {
                // Numbered anew: a gap would mean that something is missing.
                let rest = line.split_once(',').map_or("}", |(_, rest)| rest);
                // Writing to a String cannot fail.
                let _ = writeln!(text, "{{\"index\":{n},{rest}");
            }
            let events = lines.len();
            return Ok(Some(Part { text, events }));
        }
    }
    Ok(None)
}

struct Search<'a> {
    header: Header,
    lines: Vec<String>,
    /// Lines that only make sense together: an operation with its answer, a fault with its phases.
    units: Vec<Vec<usize>>,
    finding: &'a Finding,
    /// What was violated in the whole.
    violated: Vec<&'a CheckResult>,
}

impl<'a> Search<'a> {
    /// What may matter: `wide` is all of the finding's key, else only its workers' operations.
    fn new(
        path: &Path,
        options: &Options,
        verdict: &'a Verdict,
        finding: &'a Finding,
        wide: bool,
    ) -> Result<Option<Self>, HistoryError> {
        let mut lines = Vec::new();
        let mut units = Units::default();
        let mut head = None;
        let workers: HashSet<(&str, u32)> = finding
            .sections
            .iter()
            .map(|s| (s.client.as_str(), s.worker))
            .collect();
        each_line(open_lines(path, options)?, options, |header, event| {
            head.get_or_insert_with(|| header.clone());
            let relevant = match &event.process {
                Process::Id(process) => {
                    let mine = || {
                        let client = event.client.as_deref().map(str::to_owned);
                        let client = client.unwrap_or_else(|| format!("p{process}"));
                        workers.contains(&(client.as_str(), event.worker.unwrap_or(0)))
                    };
                    event.key.as_deref().unwrap_or("lock")
                        == finding.key.as_deref().unwrap_or_default()
                        && (wide || workers.is_empty() || mine())
                }
                Process::Named(name) => {
                    // A script on the wire stands under its sha1, not under a lock key.
                    let script = name == "tap" && event.f == "script";
                    script || event.key.is_none() || event.key.as_deref() == finding.key.as_deref()
                }
            };
            if relevant && lines.len() <= EVENTS_MAX {
                units.add(event, lines.len());
                lines.push(serde_json::to_string(event).unwrap_or_default());
            }
        })?;
        let Some(mut header) = head.filter(|_| lines.len() <= EVENTS_MAX) else {
            return Ok(None);
        };
        // Of a part no coverage is asked, and nothing else is expected than that all is well.
        header.model.coverage = false;
        header.expect.clear();
        let violated = verdict
            .checks
            .iter()
            .filter(|c| c.outcome == Outcome::Violated);
        Ok(Some(Self {
            header,
            lines,
            units: units.all,
            finding,
            violated: violated.collect(),
        }))
    }

    fn lines(&self, units: &[usize]) -> Vec<&str> {
        let mut at: Vec<usize> = units
            .iter()
            .flat_map(|u| &self.units[*u])
            .copied()
            .collect();
        at.sort_unstable();
        at.into_iter().map(|i| self.lines[i].as_str()).collect()
    }

    /// Whether these units alone are judged alike.
    fn shows(&self, units: &[usize]) -> bool {
        let mut checker = Checker::new(self.header.clone());
        for line in self.lines(units) {
            let Ok(event) = serde_json::from_str::<Event<'_>>(line) else {
                return false;
            };
            checker.push(&event);
        }
        let v = checker.finish();
        let found = v.check(&self.finding.check);
        let same =
            |f: &Finding| (&f.sentence, &f.blame) == (&self.finding.sentence, &self.finding.blame);
        let mut checks = v.checks.iter().filter(|c| c.outcome == Outcome::Violated);
        found.is_some_and(|c| c.findings.iter().any(same))
            && v.counts.get("anomalies") == Some(&0)
            && checks.all(|c| self.said(c))
    }

    /// Whether all that a check says of a part it said of the whole, or might have among what it only counted.
    fn said(&self, part: &CheckResult) -> bool {
        let Some(whole) = self.violated.iter().find(|c| c.name == part.name) else {
            return false;
        };
        let mine = part.name == self.finding.check;
        let counted = whole.count > whole.findings.len() as u64;
        let known = |f: &Finding| {
            let mut of_whole = whole.findings.iter();
            of_whole.any(|w| w.blame == f.blame && (!mine || w.sentence == f.sentence))
        };
        counted || part.findings.iter().all(known)
    }

    /// Leaves out all that can be, in ever smaller pieces.
    fn least(&self, mut units: Vec<usize>) -> Vec<usize> {
        let mut size = units.len().div_ceil(2).max(1);
        loop {
            let before = units.len();
            let mut i = 0;
            while i < units.len() {
                let end = (i + size).min(units.len());
                let rest = [&units[..i], &units[end..]].concat();
                if !rest.is_empty() && self.shows(&rest) {
                    units = rest;
                } else {
                    i = end;
                }
            }
            if size == 1 && units.len() == before {
                return units;
            }
            size = (size / 2).max(1);
        }
    }
}

/// Lines by what they belong to.
#[derive(Default)]
struct Units {
    all: Vec<Vec<usize>>,
    /// Operations that wait for their answer.
    open: HashMap<(u64, String), usize>,
    faults: HashMap<(u32, String), usize>,
    /// Messages on the wire, by connection and number.
    messages: HashMap<(u64, u64), usize>,
}

impl Units {
    fn add(&mut self, event: &Event<'_>, line: usize) {
        let new = self.all.len();
        let unit = match &event.process {
            Process::Id(process) => {
                let operation = (*process, event.f.to_string());
                match event.kind {
                    crate::EventType::Invoke => {
                        self.open.insert(operation, new);
                        new
                    }
                    _ => self.open.remove(&operation).unwrap_or(new),
                }
            }
            Process::Named(name) if name == "nemesis" => {
                let fault = event.value.fault.unwrap_or(u32::MAX);
                let target = event.value.target.as_deref().unwrap_or_default();
                let window = (fault, target.to_owned());
                if event.value.phase.as_deref() == Some(crate::event::phase::INJECT) {
                    self.faults.insert(window, new);
                    new
                } else {
                    *self.faults.entry(window).or_insert(new)
                }
            }
            Process::Named(name) if name == "tap" => {
                match (event.value.conn, event.value.message) {
                    (Some(conn), Some(message)) => {
                        *self.messages.entry((conn, message)).or_insert(new)
                    }
                    _ => new,
                }
            }
            Process::Named(_) => new,
        };
        if unit == new {
            self.all.push(Vec::new());
        }
        self.all[unit].push(line);
    }
}
