//! `fencepost merge`: what several shards, or any folders of results, show together.
//!
//! Owns the flags and where results are looked for. Nothing is run and nothing checked again, so it is safe on folders
//! from elsewhere.
use super::exit::{Exit, UnknownIs};
use super::say;
use crate::campaign;
use crate::report::compare::Comparison;
use crate::report::suite::{Run, Suite};
use crate::report::tables::plural;
use crate::report::{self, Summary};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Depth of folders in which runs are looked for: results/<workload>/<run>, in a folder a shard, in one for all.
const DEPTH_MAX: usize = 6;
/// Bytes of a suite.json that are read.
const SUITE_MAX: u64 = 64 << 20;

/// Arguments of `merge`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fencepost merge shard-1 shard-2 shard-3
  fencepost merge results --out results/merged --json
  fencepost merge results --markdown > docs/results.md              comparisons first, then the table of workloads")]
pub struct Args {
    /// Results folders, or folders of such; each run in them counts once.
    #[arg(required = true)]
    dirs: Vec<PathBuf>,
    /// Where suite.json, summary.md, junit.xml and index.html go.
    #[arg(long, value_name = "FOLDER", default_value = "results/merged")]
    out: PathBuf,
    /// Print the suite as JSON on stdout instead of the table.
    #[arg(long)]
    json: bool,
    /// Print comparisons that lie there, and the table with shares, rates and their intervals, as Markdown; write nothing.
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// What `unknown` counts as.
    #[arg(long, value_enum, default_value_t = UnknownIs::Fail)]
    unknown: UnknownIs,
}

/// What lies in the folders.
#[derive(Default)]
struct Lying {
    runs: Vec<PathBuf>,
    suites: Vec<PathBuf>,
    comparisons: Vec<PathBuf>,
}

pub fn main(args: &Args) -> Exit {
    let mut lying = Lying::default();
    for dir in &args.dirs {
        if let Err(error) = walk(dir, 0, &args.out, &mut lying) {
            say::word(&format!("error: {}: {error}", dir.display()));
            say::word("hint: name folders of results");
            return Exit::Usage;
        }
    }
    lying.runs.sort();
    // A run counts once, however it is named: `latest` among the arguments is one of its neighbours.
    let mut met = BTreeSet::new();
    let real = |run: &PathBuf| run.canonicalize().unwrap_or_else(|_| run.clone());
    lying.runs.retain(|run| met.insert(real(run)));
    let found = lying.runs.len();
    let (comparisons, lost) = comparisons(&mut lying);
    let (all, summaries, unread) = together(&lying);
    let unread = unread + lost;
    if all.runs.is_empty() && (comparisons.is_empty() || !args.markdown) {
        if found > 0 {
            let runs = plural(found as u64, "run");
            say::word(&format!("error: {runs} here, all of comparisons"));
            say::word(
                "hint: `--markdown` shows comparisons; the table of workloads is of other runs",
            );
        } else {
            say::word("error: no finished run in these folders");
            say::word("hint: a run's folder holds history.jsonl and verdict.json");
        }
        return Exit::Usage;
    }
    say::word(&format!(
        "{} of {}",
        plural(all.runs.len() as u64, "run"),
        plural(lying.suites.len() as u64, "suite")
    ));
    let worst = if all.runs.is_empty() {
        Exit::Ok
    } else {
        Exit::of(all.outcome(), args.unknown)
    };
    let exit = if args.markdown {
        let mut text: String = comparisons.iter().map(report::compare::markdown).collect();
        if !all.runs.is_empty() {
            text.push_str(&report::suite::markdown(&all));
        }
        say::data(&text);
        Exit::Ok
    } else {
        let written = std::fs::create_dir_all(&args.out).map_or_else(
            |e| super::stopped::no_results(&args.out, e),
            |()| super::suite::write(&all, &summaries, &args.out),
        );
        super::suite::tell(&all, args.json);
        written
    };
    let read = if unread == 0 { Exit::Ok } else { Exit::Unknown };
    exit.worst(read).worst(worst)
}

/// Finds runs and suites below a folder. Links are not followed: `latest` would count a run twice, and a link in a
/// folder from elsewhere could lead anywhere.
fn walk(dir: &Path, depth: usize, out: &Path, lying: &mut Lying) -> std::io::Result<()> {
    // An earlier merge of the same folders is no suite of its own.
    if dir == out {
        return Ok(());
    }
    let holds = |name: &str| dir.join(name).is_file();
    if holds("verdict.json") && holds("history.jsonl") {
        lying.runs.push(dir.to_owned());
        return Ok(());
    }
    if holds("suite.json") {
        lying.suites.push(dir.join("suite.json"));
    }
    if holds("compare.json") {
        lying.comparisons.push(dir.join("compare.json"));
    }
    let mut below = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            below.push(entry.path());
        }
    }
    below.sort();
    if depth < DEPTH_MAX {
        for folder in below {
            walk(&folder, depth + 1, out, lying)?;
        }
    }
    Ok(())
}

/// The comparisons that lie there; their runs are no part of the table of workloads.
fn comparisons(lying: &mut Lying) -> (Vec<Comparison>, usize) {
    let (mut all, mut unread) = (Vec::new(), 0);
    let mut theirs = BTreeSet::new();
    for path in &lying.comparisons {
        match read_json::<Comparison>(path) {
            Ok(comparison) => {
                let episodes = comparison.systems.iter().flat_map(|s| &s.episodes);
                theirs.extend(episodes.map(|e| (path.as_path(), name(&e.dir))));
                all.push(comparison);
            }
            Err(why) => {
                unread += 1;
                let what = format!("{}: {why}", path.display());
                say::word(&format!("warning: {}", report::sanitise::visible(&what)));
            }
        }
    }
    // Those below the very folder of results that the comparison is in.
    let is_theirs = |run: &PathBuf| {
        let root = run.parent().and_then(Path::parent);
        let name = name(run);
        let mut with = lying
            .comparisons
            .iter()
            .filter(|c| root.is_some_and(|r| c.starts_with(r)));
        with.any(|c| theirs.contains(&(c.as_path(), name.clone())))
    };
    let others = lying.runs.iter().filter(|run| !is_theirs(run)).cloned();
    lying.runs = others.collect();
    (all, unread)
}

/// Folders may have been moved, so an episode is known by its own name and that of its workload's folder.
fn name(dir: &Path) -> (Option<OsString>, Option<OsString>) {
    let own = dir.file_name().map(OsStr::to_owned);
    let above = dir.parent().and_then(Path::file_name);
    (above.map(OsStr::to_owned), own)
}

fn together(lying: &Lying) -> (Suite, Vec<Summary>, usize) {
    let mut all = Suite {
        fencepost: 1,
        of: 1,
        ..Suite::default()
    };
    let mut unread = 0;
    let mut wrong = |what: String| {
        unread += 1;
        say::word(&format!("warning: {}", report::sanitise::visible(&what)));
    };
    let mut files = std::collections::BTreeMap::new();
    for path in &lying.suites {
        match read_json::<Suite>(path) {
            Ok(suite) => {
                for run in &suite.runs {
                    if let Some(file) = &run.file {
                        files.insert(run.workload.clone(), file.clone());
                    }
                }
                add(&mut all, suite);
            }
            Err(why) => wrong(format!("{}: {why}", path.display())),
        }
    }
    if lying.suites.is_empty() {
        all.shards = vec![1];
    }
    all.shards.sort_unstable();
    all.shards.dedup();
    let mut summaries = Vec::new();
    for dir in &lying.runs {
        match report::summarise(dir) {
            Ok(summary) => {
                let file = files.get(&summary.setup.workload).cloned();
                all.runs.push(Run::of(&summary, file));
                summaries.push(campaign::slim(summary));
            }
            Err(error) => wrong(error.to_string()),
        }
    }
    all.planned = all.planned.max(all.runs.len() as u64);
    (all, summaries, unread)
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, String> {
    let size = std::fs::metadata(path).map_err(|e| e.to_string())?.len();
    if size > SUITE_MAX {
        return Err("too large: more than 64 MiB".to_owned());
    }
    let text = std::fs::read(path).map_err(|e| e.to_string())?;
    serde_json::from_slice(&text).map_err(|e| format!("not what its name says: {e}"))
}

/// A suite more. Runs are not taken from it, but from their own folders.
fn add(all: &mut Suite, suite: Suite) {
    all.of = all.of.max(suite.of);
    all.shards.extend(suite.shards);
    all.planned += suite.planned;
    all.not_run.extend(suite.not_run);
    all.cut = all.cut.take().or(suite.cut);
    if all.seed.is_none() {
        all.seed = suite.seed;
    }
}
