//! `fencepost merge`: what several shards, or any folders of results, show together.
//!
//! Owns the flags and where results are looked for. Nothing is run and nothing checked again, so it is safe on folders
//! from elsewhere.
use super::exit::{Exit, UnknownIs};
use super::say;
use crate::report::compare::Comparison;
use crate::report::suite::{Lost, NotRun, Run, Suite};
use crate::report::tables::plural;
use crate::report::{self, ReportError, Summary};
use crate::{campaign, foreign};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

/// Depth of folders in which runs are looked for: results/<workload>/<run>, in a folder a shard, in one for all.
const DEPTH_MAX: usize = 6;

/// Arguments of `merge`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fencepost merge shard-1 shard-2 shard-3
  fencepost merge results --out results/merged --json
  fencepost merge results --markdown > docs/results.md              comparisons first, then the table of workloads")]
pub struct Args {
    /// Results folders, or folders of such; each run in them counts once, a copy of it too.
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
    let copies = without_copies(&mut lying.runs);
    if copies > 0 {
        let runs = plural(copies as u64, "run");
        say::word(&format!("{runs} left out: a copy of one that is counted"));
    }
    let found = lying.runs.len();
    let (comparisons, lost) = comparisons(&mut lying);
    let theirs = found - lying.runs.len();
    let (all, summaries, unread) = together(&lying);
    let unread = unread + lost;
    let nothing = all.runs.is_empty() && all.not_run.is_empty() && all.lost.is_empty();
    if nothing && (comparisons.is_empty() || !args.markdown) {
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
    if theirs > 0 && !args.markdown {
        let runs = plural(theirs as u64, "run");
        say::word(&format!(
            "{runs} of comparisons left out; `--markdown` shows these"
        ));
    }
    say::word(&format!(
        "{} of {}",
        plural(all.runs.len() as u64, "run"),
        plural(lying.suites.len() as u64, "suite")
    ));
    let worst = if nothing {
        Exit::Ok
    } else {
        Exit::of(all.outcome(), args.unknown)
    };
    let exit = if args.markdown {
        let mut text: String = comparisons.iter().map(report::compare::markdown).collect();
        if !nothing {
            text.push_str(&report::suite::markdown(&all));
        }
        say::data(&text);
        Exit::Ok
    } else {
        let written = write(&all, &summaries, &args.out);
        super::suite::tell(&all, args.json);
        written
    };
    let read = if unread == 0 { Exit::Ok } else { Exit::Unknown };
    exit.worst(read).worst(worst)
}

/// Writes the files, and says where they are.
fn write(all: &Suite, summaries: &[Summary], out: &Path) -> Exit {
    let made = std::fs::create_dir_all(out).map_err(|source| ReportError::Io {
        path: out.to_owned(),
        source,
    });
    match made.and_then(|()| report::suite::render(all, summaries, out)) {
        Ok(()) => {
            say::page(&out.join("index.html"));
            Exit::Ok
        }
        Err(error) => {
            let hint = "free some space, or choose another folder with --out";
            say::error(&error, Some(hint));
            Exit::Missing
        }
    }
}

/// Finds runs and suites below a folder. Links are not followed: `latest` would count a run twice, and a link in a
/// folder from elsewhere could lead anywhere.
fn walk(dir: &Path, depth: usize, out: &Path, lying: &mut Lying) -> std::io::Result<()> {
    // An earlier merge of the same folders is no suite of its own.
    if dir == out {
        return Ok(());
    }
    // Whatever lies under these names: what is no file there is told, not left out.
    let holds = |name: &str| dir.join(name).symlink_metadata().is_ok();
    if ["history.jsonl", "verdict.json", "plan.toml"]
        .into_iter()
        .any(holds)
    {
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
            Ok((comparison, _)) => {
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

/// All that the folders hold, as one suite; and how much of it could not be read.
fn together(lying: &Lying) -> (Suite, Vec<Summary>, usize) {
    let mut all = Suite {
        fencepost: 1,
        of: 1,
        merged: true,
        ..Suite::default()
    };
    let mut unread = 0;
    let (mut files, mut promised, mut met) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
    let mut seeds = BTreeSet::new();
    for path in &lying.suites {
        let (suite, bytes) = match read_json::<Suite>(path) {
            Ok(read) => read,
            Err(why) => {
                unread += 1;
                let what = path.display().to_string();
                lose(&mut all, Lost { what, why });
                continue;
            }
        };
        // An earlier merge is no part, and a copy of a part is none either.
        if suite.merged || !met.insert(bytes) {
            continue;
        }
        for run in &suite.runs {
            if let Some(file) = &run.file {
                files.insert(run.workload.clone(), file.clone());
            }
            let what = format!("{}, seed {}", run.workload, run.seed);
            promised.insert(name(&run.dir), (what, run.dir.clone()));
        }
        if suite.of > 1 {
            seeds.extend(suite.seed);
        }
        add(&mut all, suite);
    }
    if lying.suites.is_empty() {
        all.shards = vec![1];
    }
    all.shards.sort_unstable();
    note(&mut all, &seeds);
    all.shards.dedup();
    let mut summaries = Vec::new();
    for dir in &lying.runs {
        let known = promised.remove(&name(dir)).map(|(what, _)| what);
        match report::summarise(dir) {
            Ok(summary) => {
                let file = files.get(&summary.setup.workload).cloned();
                all.runs.push(Run::of(&summary, file));
                summaries.push(campaign::slim(summary));
            }
            Err(error) => {
                let cut = is_missing(&dir.join("verdict.json"));
                let what = known.unwrap_or_else(|| guessed(dir));
                let told = |n: &NotRun| format!("{}, seed {}", n.workload, n.seed) == what;
                if cut && all.not_run.iter().any(told) {
                    continue;
                }
                let why = if cut {
                    let dir = dir.display();
                    format!("{dir}: no verdict.json: it was killed, or is still under way")
                } else {
                    error.to_string()
                };
                unread += 1;
                lose(&mut all, Lost { what, why });
            }
        }
    }
    for (what, dir) in promised.into_values() {
        let why = format!("its folder {} is not here", dir.display());
        lose(&mut all, Lost { what, why });
    }
    let known = all.runs.len() + all.not_run.len() + all.lost.len();
    all.planned = all.planned.max(known as u64);
    (all, summaries, unread)
}

/// Shards of one campaign have its seed, and each is there once.
fn note(all: &mut Suite, seeds: &BTreeSet<u64>) {
    if seeds.len() > 1 {
        let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
        let seeds = seeds.join(", ");
        let why = format!("shards of different campaigns: their seeds are {seeds}");
        all.notes.push(why);
    }
    let pairs = all.shards.windows(2).filter(|two| two[0] == two[1]);
    let twice: BTreeSet<u32> = pairs.map(|two| two[0]).collect();
    let of = all.of;
    let told = twice.iter().filter(|_| of > 1);
    all.notes.extend(
        told.map(|n| format!("shard {n} of {of} is here more than once: so its runs are counted")),
    );
    for note in &all.notes {
        say::word(&format!("warning: {note}"));
    }
}

/// Says that there is no result of something, and notes it for all outputs.
fn lose(all: &mut Suite, lost: Lost) {
    say::word(&format!("warning: {}: no result: {}", lost.what, lost.why));
    all.lost.push(lost);
}

fn is_missing(path: &Path) -> bool {
    let about = path.symlink_metadata();
    about.is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound)
}

/// The workload and seed of a run by the names of its folders: `plain-del.variant/20261130T082201Z-7.2`.
fn guessed(dir: &Path) -> String {
    let text = |part: Option<OsString>| part.unwrap_or_default().to_string_lossy().into_owned();
    let (workload, own) = name(dir);
    let (workload, own) = (text(workload).replacen('.', "/", 1), text(own));
    let last = own.rsplit('-').next().unwrap_or_default();
    let seed = last.split('.').next().unwrap_or_default();
    match seed.parse::<u64>() {
        Ok(seed) => format!("{workload}, seed {seed}"),
        Err(_) => dir.display().to_string(),
    }
}

/// A value, and the bytes that it was read from.
fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<(T, Vec<u8>), String> {
    let bytes = foreign::read(path, foreign::JSON_MAX).map_err(|e| e.to_string())?;
    let value = serde_json::from_slice(&bytes);
    let value = value.map_err(|e| format!("not what its name says: {e}"))?;
    Ok((value, bytes))
}

/// Leaves out what is a run that was met before: a copy has its folder's name, wherever that lies, and its history.
fn without_copies(runs: &mut Vec<PathBuf>) -> usize {
    let before = runs.len();
    let mut met: BTreeMap<_, Vec<PathBuf>> = BTreeMap::new();
    runs.retain(|run| {
        let alike = met.entry(name(run).1).or_default();
        let copy = alike.iter().any(|other| same_history(other, run));
        if !copy {
            alike.push(run.clone());
        }
        !copy
    });
    before - runs.len()
}

fn same_history(a: &Path, b: &Path) -> bool {
    let same = || -> std::io::Result<bool> {
        let open = |dir: &Path| foreign::open(&dir.join("history.jsonl"));
        let (a, b) = (open(a)?, open(b)?);
        if a.metadata()?.len() != b.metadata()?.len() {
            return Ok(false);
        }
        let (mut a, mut b) = (BufReader::new(a), BufReader::new(b));
        loop {
            let (of_a, of_b) = (a.fill_buf()?, b.fill_buf()?);
            let both = of_a.len().min(of_b.len());
            if both == 0 {
                return Ok(of_a.len() == of_b.len());
            }
            if of_a[..both] != of_b[..both] {
                return Ok(false);
            }
            a.consume(both);
            b.consume(both);
        }
    };
    same().unwrap_or(false)
}

/// A suite more. Runs are not taken from it, but from their own folders.
fn add(all: &mut Suite, suite: Suite) {
    all.of = all.of.max(suite.of);
    all.shards.extend(suite.shards);
    all.planned = all.planned.saturating_add(suite.planned);
    all.not_run.extend(suite.not_run);
    all.cut = all.cut.take().or(suite.cut);
    if all.seed.is_none() {
        all.seed = suite.seed;
    }
}
