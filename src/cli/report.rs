//! `fencepost report`: the reports of runs that were made before, here or elsewhere.
//!
//! Owns the reading of flags and what is printed. Must not know a format. Nothing is checked again: the exit code is
//! that of the verdicts as they stand in the folders.
use super::exit::{Exit, UnknownIs};
use super::say;
use crate::report::{self, ReportError, Summary};
use std::path::{Path, PathBuf};

/// Arguments of `report`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fencepost report results/plain-del/latest
  fencepost report results/single-vs-redlock.*/latest
  fencepost report --html report.html results/plain-del/latest
  fencepost report --picture found.svg --of ownership results/plain-del/latest")]
pub struct Args {
    /// Results folders; several are shown side by side.
    #[arg(required = true)]
    dirs: Vec<PathBuf>,
    /// Write the page of this one folder here (`-`: to stdout), and nothing into the folder.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write one finding of this one folder as an SVG picture here, and nothing into the folder: the first of two holders
    /// at once, else the first of any.
    #[arg(long, value_name = "FILE", conflicts_with = "html")]
    picture: Option<PathBuf>,
    /// With --picture: the first finding of this check.
    #[arg(long, value_name = "CHECK", requires = "picture")]
    of: Option<String>,
    /// Print a JSON summary on stdout instead of the report.
    #[arg(long)]
    json: bool,
    /// What `unknown` counts as.
    #[arg(long, value_enum, default_value_t = UnknownIs::Fail)]
    unknown: UnknownIs,
}

pub fn main(args: &Args) -> Exit {
    if (args.html.is_some() || args.picture.is_some()) && args.dirs.len() > 1 {
        say::word("error: --html and --picture take one results folder");
        say::word("hint: without them, each folder is given its own report.html");
        return Exit::Usage;
    }
    if let Some(file) = &args.picture {
        return match picture(&args.dirs[0], file, args.of.as_deref()) {
            Ok(true) => Exit::Ok,
            Ok(false) => {
                say::word("error: there is no such finding to draw");
                say::word("hint: `fencepost report` shows which checks found something");
                Exit::Usage
            }
            Err((error, exit)) => {
                say::error(&error, Some(hint(&error)));
                exit
            }
        };
    }
    let mut exit = Exit::Ok;
    let mut summaries = Vec::new();
    for dir in &args.dirs {
        match one(dir, args.html.as_deref()) {
            Ok(summary) => {
                exit = exit.worst(Exit::of(summary.verdict.outcome, args.unknown));
                summaries.push(summary);
            }
            Err((error, failed)) => {
                let latest = inside(dir, "latest/verdict.json").and(inside(dir, "latest"));
                let meant = latest.map(|latest| format!("did you mean {latest}?"));
                let meant = meant.or_else(|| several(dir));
                say::error(&error, Some(meant.as_deref().unwrap_or(hint(&error))));
                exit = exit.worst(failed);
            }
        }
    }
    // A page on stdout is all of it.
    if args.html.as_deref() != Some(Path::new("-")) {
        say::summaries(&summaries, args.json);
    }
    exit
}

/// What went wrong, and the exit code for it: a folder that is no good is the user's, one that takes nothing is missing.
type Failed = (ReportError, Exit);

fn unread(error: ReportError) -> Failed {
    (error, Exit::Usage)
}

fn unwritten(error: ReportError) -> Failed {
    (error, Exit::Missing)
}

fn one(dir: &Path, html: Option<&Path>) -> Result<Summary, Failed> {
    let dir = &resolved(dir);
    let summary = report::summarise(dir).map_err(unread)?;
    let page = if let Some(file) = html {
        let page = report::html::page(&summary);
        page.and_then(|page| write(file, page)).map_err(unwritten)?;
        if file == Path::new("-") {
            return Ok(summary);
        }
        file.to_path_buf()
    } else {
        report::render_all(&summary, dir).map_err(unwritten)?;
        dir.join("report.html")
    };
    say::page(&page);
    Ok(summary)
}

/// What is in that folder under that name, to be shown, if it is there: what was meant where only the folder was named.
pub(super) fn inside(dir: &Path, name: &str) -> Option<String> {
    let path = dir.join(name);
    path.exists()
        .then(|| report::sanitise::visible(&path.display().to_string()).into_owned())
}

/// Where several runs lie, what shows them together.
fn several(dir: &Path) -> Option<String> {
    let holds = |name: &str| dir.join(name).symlink_metadata().is_ok();
    if ["history.jsonl", "verdict.json", "plan.toml"]
        .into_iter()
        .any(holds)
    {
        return None;
    }
    let below = std::fs::read_dir(dir).ok()?.flatten();
    let runs = below
        .into_iter()
        .any(|e| e.file_type().is_ok_and(|t| t.is_dir()));
    let shown = dir.display();
    (runs || holds("suite.json") || holds("compare.json")).then(|| {
        format!("it is a folder of several runs: `fencepost merge {shown}` shows those below it together")
    })
}

/// A link such as `latest` as what it leads to, in the way that it was given: it will lead to another run.
fn resolved(dir: &Path) -> PathBuf {
    // Without a slash at its end, which would follow the link.
    let plain: PathBuf = dir.components().collect();
    match std::fs::read_link(&plain) {
        Ok(to) => plain.parent().unwrap_or(Path::new("")).join(to),
        Err(_) => plain,
    }
}

/// Whether there was something to draw.
fn picture(dir: &Path, file: &Path, check: Option<&str>) -> Result<bool, Failed> {
    let summary = report::summarise(dir).map_err(unread)?;
    let drawn = report::html::picture(&summary, check).map_err(unwritten)?;
    let Some(svg) = drawn else {
        return Ok(false);
    };
    write(file, svg).map_err(unwritten)?;
    Ok(true)
}

fn write(file: &Path, text: String) -> Result<(), ReportError> {
    if file == Path::new("-") {
        say::data(&text);
        return Ok(());
    }
    let name = file.file_name().map_or_else(PathBuf::new, PathBuf::from);
    let folder = match file.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    // It was named by hand: a folder that is not there is a slip.
    std::fs::read_dir(folder).map_err(|source| ReportError::Io {
        path: folder.to_owned(),
        source,
    })?;
    report::files::write(folder, &report::Rendered::new(name, text))
}

/// It is the verdict alone that is not there.
fn no_verdict(path: &Path, source: &std::io::Error) -> bool {
    source.kind() == std::io::ErrorKind::NotFound
        && path.ends_with("verdict.json")
        && path.with_file_name("history.jsonl").is_file()
}

fn hint(error: &ReportError) -> &'static str {
    match error {
        ReportError::Io { path, source } if no_verdict(path, source) => {
            "the run came to no verdict: in that folder, `fencepost check --expect plan.toml history.jsonl` judges what it \
             recorded, and with --json > verdict.json this command shows it"
        }
        ReportError::Io { .. } => {
            "a results folder holds plan.toml, history.jsonl and verdict.json, and must be writable"
        }
        ReportError::Empty { .. } | ReportError::Header { .. } => {
            "a run that recorded nothing cannot be shown; look at its log"
        }
        ReportError::Plan { .. } => "it must be the plan.toml that the run wrote",
        ReportError::Verdict { .. } => {
            "in that folder, `fencepost check --json --expect plan.toml history.jsonl` prints the verdict again"
        }
        ReportError::Junit(_) => "this is a defect of fencepost: please report it with the folder",
    }
}
