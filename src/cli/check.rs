//! `fencepost check`: judge histories.
//!
//! Owns the reading of flags and what is printed. Must not know how a history is judged.
use super::exit::{Exit, UnknownIs};
use super::input::{self, Input};
use super::report::inside;
use super::say;
use crate::plan::duration;
use crate::report::{self, junit, summary::Summary};
use fencepost_checker::{
    HistoryError, KeyFrom, LockKind, Options, Outcome, Verdict, check_with, history,
};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Arguments of `check`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fencepost check results/plain-del/latest/history.jsonl
  fencepost check --expect workloads/plain-del.toml history.jsonl
  fencepost check history.edn                                    Jepsen's or Knossos's, :acquire and :release
  fencepost check --acquire :lock --release :unlock --ttl 2s history.edn.zst
  fencepost check --json *.jsonl | jq .
  zcat history.jsonl.gz | fencepost check -

Histories in EDN:
  An operation is a map with :type, :process, :f, and perhaps :time, :value, :error. The lock is
  what stands under :key or :lock; --key says otherwise. Without those, a plain :value names it
  only where that is certain enough, else there is one lock. Jepsen's threads are found out from
  the numbers of processes; --threads says them. With --ttl or --clock-uncertainty each operation
  of a lock needs a :time, in nanoseconds. What was assumed stands below the verdict, and in
  `reading` of the JSON.

With --json, a line a file: the verdict and `file`; where it cannot be read, `file`, `error`,
`hint` and `exit`.")]
pub struct Args {
    /// History files: JSON lines or EDN, compressed with zstd or not, by their content; - is the standard input.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Judge against the `[expect]` of this workload file; without it, nothing may be violated.
    #[arg(long, value_name = "FILE")]
    expect: Option<PathBuf>,
    /// With `--expect`: which variant of the file.
    #[arg(long, requires = "expect")]
    variant: Option<String>,
    /// Print the verdicts as JSON, one a line.
    #[arg(long)]
    json: bool,
    /// Write the verdicts as JUnit, a test case a check.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// What `unknown` counts as.
    #[arg(long, value_enum, default_value_t = UnknownIs::Fail)]
    unknown: UnknownIs,
    #[command(flatten)]
    foreign: Foreign,
    /// Print the history in EDN, as Jepsen and Knossos read it, instead of judging it.
    #[arg(long, conflicts_with_all = ["json", "expect", "junit", "shrink"])]
    to_edn: bool,
    /// Write, for each check that found something, the smallest part of the history that still shows it.
    #[arg(long, value_name = "DIR")]
    shrink: Option<PathBuf>,
}

/// What is known of a history from elsewhere.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Histories from elsewhere")]
struct Foreign {
    /// Operation that acquires, in EDN [default: :acquire, :lock, :try-acquire, :try-lock].
    #[arg(long, value_name = "NAME", value_parser = operation)]
    acquire: Vec<String>,
    /// Operation that releases, in EDN; may be given again [default: :release, :unlock].
    #[arg(long, value_name = "NAME", value_parser = operation)]
    release: Vec<String>,
    /// Operation that extends a lease, in EDN [default: :extend, :renew, :refresh].
    #[arg(long, value_name = "NAME", value_parser = operation)]
    extend: Vec<String>,
    /// The lease; without one, and none in the history, the lock is held until it is released.
    #[arg(long, value_name = "DURATION", value_parser = lease)]
    ttl: Option<Duration>,
    /// How far the clocks that stamped the history may be from true time: what they leave open is unknown.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    clock_uncertainty: Option<Duration>,
    /// The kind of lock: mutex, reentrant, read-write, or semaphore:N.
    #[arg(long, value_name = "KIND", value_parser = kind)]
    kind: Option<(LockKind, u32)>,
    /// What tells the lock, in EDN: value, none (there is one lock), or :NAME of a field [default: found out].
    #[arg(long, value_name = "WHAT", value_parser = key)]
    key: Option<KeyFrom>,
    /// Number of Jepsen's threads, in EDN: process p goes on as p + N after an :info [default: found out].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    threads: Option<u64>,
}

/// An operation's name, without the colon of a keyword.
fn operation(text: &str) -> Result<String, String> {
    match text.trim_start_matches(':') {
        "" => Err("an operation has a name, such as :acquire".to_owned()),
        name => Ok(name.to_owned()),
    }
}

/// What tells the lock.
fn key(text: &str) -> Result<KeyFrom, String> {
    match (text, text.trim_start_matches(':')) {
        ("none", _) => Ok(KeyFrom::Nothing),
        (_, "value") => Ok(KeyFrom::Value),
        (_, name) if text.starts_with(':') && !name.is_empty() => {
            Ok(KeyFrom::Field(name.to_owned()))
        }
        _ => Err("none of value, none, :NAME".to_owned()),
    }
}

/// A lease, which is some time.
fn lease(text: &str) -> Result<Duration, String> {
    match duration::parse(text) {
        Ok(Duration::ZERO) => Err("a lease of no time".to_owned()),
        other => other.map_err(|e| e.to_string()),
    }
}

/// A kind of lock and its permits.
fn kind(text: &str) -> Result<(LockKind, u32), String> {
    match text.split_once(':') {
        None if text == "mutex" => Ok((LockKind::Mutex, 1)),
        None if text == "reentrant" => Ok((LockKind::Reentrant, 1)),
        None if text == "read-write" => Ok((LockKind::ReadWrite, 1)),
        Some(("semaphore", n)) => match n.parse() {
            Ok(n @ 1..) => Ok((LockKind::Semaphore, n)),
            _ => Err(format!("`{n}` is no number of permits")),
        },
        _ => Err("none of mutex, reentrant, read-write, semaphore:N".to_owned()),
    }
}

impl Foreign {
    /// An operation that is named twice.
    fn twice(&self) -> Option<&str> {
        let all = || [&self.acquire, &self.release, &self.extend];
        let names = all().into_iter().flatten();
        let mut names = names.map(String::as_str);
        names.find(|n| all().iter().filter(|of| of.iter().any(|m| m == n)).count() > 1)
    }

    fn options(&self) -> Options {
        Options {
            acquire: self.acquire.clone(),
            release: self.release.clone(),
            extend: self.extend.clone(),
            ttl_ms: self
                .ttl
                .map(|d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX)),
            kind: self.kind.map(|k| k.0),
            permits: self.kind.map(|k| k.1),
            key: self.key.clone().unwrap_or_default(),
            threads: self.threads,
            clock_uncertainty_ms: self.clock_uncertainty.map(|d| d.as_secs_f64() * 1e3),
        }
    }
}

pub fn main(args: &Args) -> Exit {
    if let Some(name) = args.foreign.twice() {
        say::word(&format!(
            "error: `{name}` is both, of --acquire, --release and --extend"
        ));
        say::word("hint: an operation does one of the three");
        return Exit::Usage;
    }
    if input::stdin_twice(&args.files) {
        say::word("error: the standard input is given twice, and can be read once");
        say::word("hint: keep it in a file");
        return Exit::Usage;
    }
    let options = args.foreign.options();
    if args.to_edn {
        return args.files.iter().fold(Exit::Ok, |exit, file| {
            let opened = Input::of(file).open(false);
            match opened.and_then(|reader| history::to_edn(reader, &options)) {
                Ok(text) => {
                    say::data(&text);
                    exit
                }
                Err(error) => exit.worst(Unread::of(file, &error).said()),
            }
        });
    }
    match expectation(args) {
        Ok(expect) => judged(args, &options, &expect),
        Err(exit) => exit,
    }
}

/// Judges all files; the worst exit counts.
fn judged(args: &Args, options: &Options, expect: &Expectation) -> Exit {
    let mut exit = Exit::Ok;
    let mut suites = Vec::new();
    for (file, parts) in args.files.iter().zip(part_names(&args.files)) {
        let mut input = Input::of(file);
        let outcome = match one(args, &mut input, options, expect, &parts) {
            Ok((one, summary)) => {
                exit = exit.worst(one);
                summary
            }
            Err(error) => {
                let unread = Unread::of(file, &error);
                exit = exit.worst(unread.said());
                if args.json {
                    json(&unread);
                }
                Err(error.to_string())
            }
        };
        suites.push((file.display().to_string(), outcome));
    }
    let Some(path) = &args.junit else {
        return exit;
    };
    let suites = suites.iter().filter_map(|(file, outcome)| {
        let outcome = match outcome {
            Ok(summary) => Ok(summary.as_deref()?),
            Err(why) => Err(why.as_str()),
        };
        Some(junit::Checked { file, outcome })
    });
    let written = junit::checked(suites)
        .map_err(|e| e.to_string())
        .and_then(|text| std::fs::write(path, text).map_err(|e| e.to_string()));
    match written {
        Ok(()) => exit,
        Err(error) => exit.worst(unwritten(path, &error)),
    }
}

/// How one file is told in JUnit: its summary, where one was asked for, or why there is none.
type Told = Result<Option<Box<Summary>>, String>;

/// Judges one file and shows it.
fn one(
    args: &Args,
    input: &mut Input<'_>,
    options: &Options,
    expect: &Expectation,
    parts_name: &str,
) -> Result<(Exit, Told), HistoryError> {
    let again = !args.json || args.junit.is_some() || args.shrink.is_some();
    let verdict = check_with(input.open(again)?, options)?.judge_with(expect);
    let mut exit = Exit::of(verdict.outcome, args.unknown);
    if let Some(dir) = &args.shrink {
        exit = exit.worst(parts(dir, parts_name, input, options, &verdict)?);
    }
    let told = show(args, input, options, verdict, expect)?;
    Ok(match told {
        Ok(summary) => (exit, Ok(summary.map(Box::new))),
        Err((unshown, why)) => (exit.worst(unshown), Err(why)),
    })
}

/// A file that was not judged, as a line of JSON.
#[derive(Serialize)]
struct Unread {
    file: String,
    error: String,
    hint: String,
    exit: u8,
    #[serde(skip)]
    code: Exit,
}

impl Unread {
    fn of(file: &Path, error: &HistoryError) -> Self {
        let code = input::exit_of(error);
        Self {
            file: file.display().to_string(),
            error: error.to_string(),
            hint: match inside(file, "history.jsonl") {
                _ if code == Exit::Missing => "is the disk full?".to_owned(),
                Some(history) => format!("did you mean {history}?"),
                None => error.hint().to_owned(),
            },
            exit: code.code(),
            code,
        }
    }

    /// Says it.
    fn said(&self) -> Exit {
        say::word(&format!("error: {}: {}", self.file, self.error));
        say::word(&format!("hint: {}", self.hint));
        self.code
    }
}

/// A verdict with the file that it is of.
#[derive(Serialize)]
struct Judged<'a> {
    file: String,
    #[serde(flatten)]
    verdict: &'a Verdict,
}

fn json(line: &impl Serialize) {
    match serde_json::to_string(line) {
        Ok(text) => say::data(&text),
        Err(error) => say::error(&error, None),
    }
}

/// What the parts of each file are called: its name without what follows a dot, and a number where several have the same.
fn part_names(files: &[PathBuf]) -> Vec<String> {
    let mut names: Vec<String> = Vec::with_capacity(files.len());
    for file in files {
        let stem = Input::stem(file);
        let numbered = (2..).map(|n| format!("{stem}-{n}"));
        let mut all = std::iter::once(stem.clone()).chain(numbered);
        names.extend(all.find(|name| !names.contains(name)));
    }
    names
}

/// Writes the smallest part of the history for each check that found something: `NAME-CHECK.jsonl`.
fn parts(
    dir: &Path,
    name: &str,
    input: &Input<'_>,
    options: &Options,
    verdict: &Verdict,
) -> Result<Exit, HistoryError> {
    let violated = verdict.checks.iter();
    let mut exit = Exit::Ok;
    for check in violated.filter(|c| c.outcome == Outcome::Violated) {
        let Some(finding) = check.findings.first() else {
            continue;
        };
        let Some(part) = fencepost_checker::shrink(input.path(), options, verdict, finding)? else {
            say::word(&format!(
                "{}: no part of it shows {} alone",
                input.given().display(),
                check.name
            ));
            continue;
        };
        let path = dir.join(format!("{name}-{}.jsonl", check.name));
        let written = std::fs::create_dir_all(dir).and_then(|()| std::fs::write(&path, part.text));
        exit = exit.worst(match written {
            Ok(()) => {
                say::word(&format!(
                    "{}: {} events show {}",
                    path.display(),
                    part.events,
                    check.name
                ));
                Exit::Ok
            }
            Err(error) => unwritten(&path, &error),
        });
    }
    Ok(exit)
}

/// A file that could not be written.
fn unwritten(path: &Path, error: &dyn std::fmt::Display) -> Exit {
    say::word(&format!("error: {}: {error}", path.display()));
    say::word("hint: may it be written there, and is there room?");
    Exit::Missing
}

type Expectation = std::collections::BTreeMap<String, fencepost_checker::Expect>;

fn expectation(args: &Args) -> Result<Expectation, Exit> {
    let Some(file) = &args.expect else {
        return Ok(Expectation::new());
    };
    let over = crate::plan::Overrides {
        variant: args.variant.clone(),
        ..Default::default()
    };
    match crate::plan::load(file, &over) {
        Ok(plans) if plans.len() == 1 => Ok(plans
            .into_iter()
            .next()
            .map(|p| p.expect)
            .unwrap_or_default()),
        Ok(plans) => {
            let names: Vec<_> = plans.iter().filter_map(|p| p.variant.as_deref()).collect();
            say::word(&format!(
                "error: {} has variants: {}",
                file.display(),
                names.join(", ")
            ));
            say::word("hint: choose one with --variant");
            Err(Exit::Usage)
        }
        Err(error) => {
            say::plan_error(&error);
            Err(Exit::Usage)
        }
    }
}

/// Prints a verdict; its summary, where one was needed. A verdict that cannot be shown has not been given.
fn show(
    args: &Args,
    input: &Input<'_>,
    options: &Options,
    verdict: Verdict,
    expect: &Expectation,
) -> Result<Result<Option<Summary>, (Exit, String)>, HistoryError> {
    if args.json {
        json(&Judged {
            file: input.given().display().to_string(),
            verdict: &verdict,
        });
        if args.junit.is_none() {
            return Ok(Ok(None));
        }
    }
    let lines = history::open_lines(input.path(), options)?;
    match report::summary::of_history(input.given(), lines, verdict, expect) {
        Ok(summary) => {
            if !args.json {
                say::data(&report::terminal(
                    std::slice::from_ref(&summary),
                    say::style(),
                ));
            }
            Ok(Ok(Some(summary)))
        }
        Err(error) => {
            say::error(
                &error,
                Some("`fencepost check --json` prints the verdict alone"),
            );
            Ok(Err((Exit::Usage, error.to_string())))
        }
    }
}
