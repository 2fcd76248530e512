//! The runs below a results folder, and how far each is.
//!
//! Owns the search and what is remembered of it. Must not know HTTP. A run is a folder with a plan or a history; what
//! lies in it is read as one reads what somebody else wrote: in bounds, and never through a link that leads out.
use super::files::{Opened, Root};
use super::stream::Turns;
use crate::foreign;
use crate::report::runs::{Row, State};
use crate::report::summary::Judgement;
use fencepost_checker::Outcome;
use serde::Deserialize;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Folders that are looked into.
const FOLDERS_MAX: usize = 50_000;
/// Depth of folders below the results.
const DEPTH_MAX: usize = 4;
/// A look is good for this long.
const FRESH: Duration = Duration::from_secs(1);
/// A history that was written to this recently is probably of a run under way.
const ALIVE: Duration = Duration::from_secs(10);

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Newest first.
    pub(super) rows: Vec<Row>,
    /// What the list lacks.
    pub(super) notes: Vec<String>,
}

/// The runs, looked up at most once a [`FRESH`], however many ask.
pub(super) struct Shelf {
    root: Arc<Root>,
    last: tokio::sync::Mutex<Option<(Instant, Arc<Found>)>>,
    read: Arc<Mutex<Memory>>,
}

/// What was read of finished runs, by folder, while their verdicts stay as they are.
type Memory = HashMap<PathBuf, (SystemTime, u64, Row)>;

impl Shelf {
    pub(super) fn new(root: Arc<Root>) -> Self {
        Self {
            root,
            last: tokio::sync::Mutex::new(None),
            read: Arc::default(),
        }
    }

    /// The runs that are there; none: too many others are at it.
    pub(super) async fn look(&self, turns: &Turns) -> Option<Arc<Found>> {
        let mut last = self.last.lock().await;
        if let Some((at, found)) = &*last
            && at.elapsed() < FRESH
        {
            return Some(found.clone());
        }
        let _turn = turns.next().await?;
        let (root, read) = (self.root.clone(), self.read.clone());
        let looked = tokio::task::spawn_blocking(move || {
            let mut read = read.lock().unwrap_or_else(PoisonError::into_inner);
            Search::new(&root, &mut read).all()
        });
        let found = Arc::new(looked.await.unwrap_or_else(|_| Found {
            rows: Vec::new(),
            notes: vec!["The results folder cannot be searched: a defect of fencepost.".to_owned()],
        }));
        *last = Some((Instant::now(), found.clone()));
        Some(found)
    }
}

/// One search.
struct Search<'a> {
    root: &'a Root,
    before: Memory,
    read: &'a mut Memory,
    found: Found,
    folders: usize,
}

/// As much of a verdict as the list shows.
#[derive(Deserialize)]
struct Verdict {
    outcome: Outcome,
    #[serde(default)]
    checks: Vec<Check>,
}

#[derive(Deserialize)]
struct Check {
    name: String,
    outcome: Outcome,
}

impl<'a> Search<'a> {
    fn new(root: &'a Root, read: &'a mut Memory) -> Self {
        Self {
            root,
            before: std::mem::take(read),
            read,
            found: Found::default(),
            folders: 0,
        }
    }

    fn all(mut self) -> Found {
        self.folder(Path::new(""), 0);
        if self.folders > FOLDERS_MAX {
            let note = format!("Only the first {FOLDERS_MAX} folders were searched.");
            self.found.notes.push(note);
        }
        let newest = |a: &Row, b: &Row| b.date.cmp(&a.date).then_with(|| a.dir.cmp(&b.dir));
        self.found.rows.sort_by(newest);
        self.found
    }

    fn folder(&mut self, dir: &Path, depth: usize) {
        self.folders += 1;
        if self.folders > FOLDERS_MAX {
            return;
        }
        let at = self.root.path().join(dir);
        let Ok(entries) = std::fs::read_dir(&at) else {
            return;
        };
        let (mut below, mut names) = (Vec::new(), Vec::new());
        for entry in entries.flatten() {
            let name = entry.file_name();
            // Neither `latest` nor any other link is followed: what it leads to is there by itself, or is not ours.
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && !name.as_bytes().starts_with(b".") => below.push(name),
                Ok(kind) if kind.is_file() => names.push(name),
                _ => {}
            }
        }
        let has = |name: &str| names.iter().any(|n| n == name);
        let top = dir == Path::new("");
        if !top && (has("plan.toml") || has("history.jsonl")) {
            let row = self.run(dir, has("report.html"));
            return self.found.rows.push(row);
        }
        if !top && has("index.html") && (has("suite.json") || has("compare.json")) {
            let row = campaign(dir);
            return self.found.rows.push(row);
        }
        if depth < DEPTH_MAX {
            below.sort();
            for name in below {
                self.folder(&dir.join(name), depth + 1);
            }
        }
    }

    fn run(&mut self, dir: &Path, has_page: bool) -> Row {
        let verdict = std::fs::symlink_metadata(self.root.path().join(dir).join("verdict.json"));
        let stamp = verdict
            .ok()
            .and_then(|about| Some((about.modified().ok()?, about.len())));
        if let Some((at, len)) = stamp
            && let Some((before, was, row)) = self.before.remove(dir)
            && (before, was) == (at, len)
        {
            let row = Row { has_page, ..row };
            self.read.insert(dir.to_owned(), (at, len, row.clone()));
            return row;
        }
        let row = self.read_run(dir, has_page);
        if let Some((at, len)) = stamp {
            self.read.insert(dir.to_owned(), (at, len, row.clone()));
        }
        row
    }

    fn read_run(&self, dir: &Path, has_page: bool) -> Row {
        let mut row = Row {
            workload: Some(name_of_folder(dir)),
            has_page,
            ..blank(dir)
        };
        let plan = self.root.read(&dir.join("plan.toml"), foreign::PLAN_MAX);
        let plan = plan.ok().and_then(|bytes| String::from_utf8(bytes).ok());
        if let Some(plan) = plan.and_then(|text| text.parse::<toml::Table>().ok()) {
            read_plan(&plan, &mut row);
        }
        match self.root.read(&dir.join("verdict.json"), foreign::JSON_MAX) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                row.state = State::Unfinished(self.how_far(dir));
            }
            Err(error) => row.state = State::Unreadable(format!("verdict.json: {error}")),
            Ok(bytes) => match serde_json::from_slice::<Verdict>(&bytes) {
                Err(error) => row.state = State::Unreadable(format!("verdict.json: {error}")),
                Ok(verdict) => {
                    row.state = State::Judged(match verdict.outcome {
                        Outcome::Valid => Judgement::Expected,
                        Outcome::Violated => Judgement::Unexpected,
                        Outcome::Unknown => Judgement::Unknown,
                    });
                    let violated = |c: &Check| c.outcome == Outcome::Violated;
                    let checks = verdict.checks.into_iter().filter(violated);
                    row.violated = checks.map(|c| c.name).collect();
                }
            },
        }
        row
    }

    /// What is known of a run without a verdict.
    fn how_far(&self, dir: &Path) -> String {
        let Ok(Opened::File(file, bytes)) = self.root.open(&dir.join("history.jsonl")) else {
            return "no history yet".to_owned();
        };
        let modified = file.metadata().and_then(|about| about.modified()).ok();
        let age = modified.and_then(|at| SystemTime::now().duration_since(at).ok());
        match age {
            Some(age) if age > ALIVE => format!(
                "no verdict; the history ({bytes} bytes) ended {} s ago, so the run was cut",
                age.as_secs()
            ),
            _ => format!("under way, {bytes} bytes of history"),
        }
    }
}

fn blank(dir: &Path) -> Row {
    let name = dir.file_name().unwrap_or(OsStr::new("")).to_string_lossy();
    let (date, seed) = read_name(&name).unwrap_or_default();
    Row {
        dir: dir.to_owned(),
        workload: None,
        seed,
        date,
        state: State::Unfinished(String::new()),
        lock: String::new(),
        about: String::new(),
        violated: Vec::new(),
        faults: Vec::new(),
        has_page: true,
    }
}

fn campaign(dir: &Path) -> Row {
    Row {
        state: State::Several,
        about: "campaign".to_owned(),
        ..blank(dir)
    }
}

/// The folder above a run's is its workload's.
fn name_of_folder(dir: &Path) -> String {
    let parent = dir.parent().and_then(Path::file_name);
    let name = parent.or(dir.file_name()).unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// `20261130T082201Z-7` as a date and a seed.
fn read_name(name: &str) -> Option<(String, Option<u64>)> {
    let (stamp, rest) = name.split_once('-')?;
    let at = jiff::civil::DateTime::strptime("%Y%m%dT%H%M%SZ", stamp).ok()?;
    let seed = rest.split('.').next().and_then(|s| s.parse().ok());
    Some((at.strftime("%Y-%m-%d %H:%M:%S").to_string(), seed))
}

/// The facts of a plan, read as plain TOML: an old or foreign one must not fail over a key.
fn read_plan(plan: &toml::Table, row: &mut Row) {
    let text = |key: &str| plan.get(key).and_then(toml::Value::as_str);
    if let Some(name) = text("name") {
        row.workload = Some(match text("variant") {
            Some(variant) => format!("{name}/{variant}"),
            None => name.to_owned(),
        });
    }
    if let Some(seed) = plan.get("seed").and_then(toml::Value::as_integer) {
        row.seed = u64::try_from(seed).ok();
    }
    row.about = text("about").map(str::to_owned).unwrap_or_default();
    let lock = plan.get("lock").and_then(toml::Value::as_table);
    let words = |argv: &Vec<toml::Value>| {
        let words: Vec<&str> = argv.iter().filter_map(toml::Value::as_str).collect();
        words.join(" ")
    };
    let name = lock.and_then(|l| l.get("name")?.as_str().map(str::to_owned));
    let command = || lock.and_then(|l| l.get("command")?.as_array().map(words));
    row.lock = name.or_else(command).unwrap_or_default();
    let faults = plan.get("fault").and_then(toml::Value::as_array);
    let kinds = faults
        .into_iter()
        .flatten()
        .filter_map(|f| f.get("kind")?.as_str());
    row.faults = kinds.map(str::to_owned).collect();
    row.faults.sort();
    row.faults.dedup();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_tells_its_date_and_seed() {
        let read = |name| read_name(name).expect(name);
        assert_eq!(
            read("20261130T082201Z-7"),
            ("2026-11-30 08:22:01".to_owned(), Some(7))
        );
        assert_eq!(read("20261130T082201Z-7.2").1, Some(7));
        assert_eq!(read("20261130T082201Z-compare-1").1, None);
        assert_eq!(read_name("2026-11"), None);
        assert_eq!(read_name("latest"), None);
    }
}
