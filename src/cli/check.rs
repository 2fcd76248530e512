//! `fencepost check`: judge histories.
//!
//! Owns the reading of flags and what is printed. Must not know how a history is judged.
use super::exit::{Exit, UnknownIs};
use super::report::inside;
use super::say;
use crate::plan::duration;
use crate::report::{self, summary::Summary};
use fencepost_checker::{HistoryError, LockKind, Options, Outcome, Verdict, check_with, history};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Arguments of `check`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fencepost check results/plain-del/latest/history.jsonl
  fencepost check --expect workloads/plain-del.toml history.jsonl
  fencepost check history.edn                                    Jepsen's or Knossos's, :acquire and :release
  fencepost check --acquire :lock --release :unlock --ttl 2s history.edn.zst
  fencepost check --json *.jsonl | jq .")]
pub struct Args {
    /// History files: JSON lines or EDN, compressed with zstd or not, by their content.
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
    let options = args.foreign.options();
    if args.to_edn {
        return all(&args.files, |file| {
            say::data(&history::to_edn(history::open(file)?, &options)?);
            Ok(Exit::Ok)
        });
    }
    let expect = match expectation(args) {
        Ok(expect) => expect,
        Err(exit) => return exit,
    };
    let mut summaries = Vec::new();
    let exit = all(&args.files, |file| {
        let verdict = check_with(history::open(file)?, &options)?.judge_with(&expect);
        let mut exit = Exit::of(verdict.outcome, args.unknown);
        if let Some(dir) = &args.shrink {
            exit = exit.worst(parts(dir, file, &options, &verdict)?);
        }
        match show(args, file, &options, verdict, &expect)? {
            Ok(summary) => summaries.extend(summary),
            Err(unshown) => exit = exit.worst(unshown),
        }
        Ok(exit)
    });
    match &args.junit {
        Some(path) => exit.worst(junit(path, &summaries)),
        None => exit,
    }
}

/// Writes the smallest part of the history for each check that found something: `NAME-CHECK.jsonl`.
fn parts(
    dir: &Path,
    file: &Path,
    options: &Options,
    verdict: &Verdict,
) -> Result<Exit, HistoryError> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let name = name.split('.').next().unwrap_or_default();
    let violated = verdict.checks.iter();
    let mut exit = Exit::Ok;
    for check in violated.filter(|c| c.outcome == Outcome::Violated) {
        let Some(finding) = check.findings.first() else {
            continue;
        };
        let Some(part) = fencepost_checker::shrink(file, options, verdict, finding)? else {
            say::word(&format!(
                "{}: no part of it shows {} alone",
                file.display(),
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
    say::word("hint: may it be written there?");
    Exit::Usage
}

fn junit(path: &Path, summaries: &[Summary]) -> Exit {
    let written = report::junit::several(summaries)
        .map_err(|e| e.to_string())
        .and_then(|text| std::fs::write(path, text).map_err(|e| e.to_string()));
    match written {
        Ok(()) => Exit::Ok,
        Err(error) => unwritten(path, &error),
    }
}

/// Does the same to all files; the worst exit counts.
fn all(files: &[PathBuf], mut each: impl FnMut(&Path) -> Result<Exit, HistoryError>) -> Exit {
    files.iter().fold(Exit::Ok, |exit, file| {
        exit.worst(each(file).unwrap_or_else(|error| {
            say::word(&format!("error: {}: {error}", file.display()));
            say::word(&match inside(file, "history.jsonl") {
                Some(history) => format!("hint: did you mean {history}?"),
                None => format!("hint: {}", error.hint()),
            });
            Exit::Usage
        }))
    })
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
    file: &Path,
    options: &Options,
    verdict: Verdict,
    expect: &Expectation,
) -> Result<Result<Option<Summary>, Exit>, HistoryError> {
    if args.json {
        match serde_json::to_string(&verdict) {
            Ok(text) => say::data(&text),
            Err(error) => say::error(&error, None),
        }
        if args.junit.is_none() {
            return Ok(Ok(None));
        }
    }
    let lines = history::open_lines(file, options)?;
    match report::summary::of_history(file, lines, verdict, expect) {
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
            Ok(Err(Exit::Usage))
        }
    }
}
