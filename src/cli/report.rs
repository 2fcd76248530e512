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
  fencepost report --html report.html results/plain-del/latest")]
pub struct Args {
    /// Results folders; several are shown side by side.
    #[arg(required = true)]
    dirs: Vec<PathBuf>,
    /// Write the page of this one folder here, and nothing into the folder.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print a JSON summary on stdout instead of the report.
    #[arg(long)]
    json: bool,
    /// What `unknown` counts as.
    #[arg(long, value_enum, default_value_t = UnknownIs::Fail)]
    unknown: UnknownIs,
}

pub fn main(args: &Args) -> Exit {
    if args.html.is_some() && args.dirs.len() > 1 {
        say::word("error: --html takes one results folder");
        say::word("hint: without it, each folder is given its own report.html");
        return Exit::Usage;
    }
    let mut exit = Exit::Ok;
    let mut summaries = Vec::new();
    for dir in &args.dirs {
        match one(dir, args.html.as_deref()) {
            Ok(summary) => {
                exit = exit.worst(Exit::of(summary.verdict.outcome, args.unknown));
                summaries.push(summary);
            }
            Err(error) => {
                say::error(&error, Some(hint(&error)));
                exit = exit.worst(Exit::Usage);
            }
        }
    }
    say::summaries(&summaries, args.json);
    exit
}

fn one(dir: &Path, html: Option<&Path>) -> Result<Summary, ReportError> {
    let summary = report::summarise(dir)?;
    let page = if let Some(file) = html {
        let text = report::html::page(&summary)?;
        let name = file.file_name().map_or_else(PathBuf::new, PathBuf::from);
        let folder = match file.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        report::files::write(folder, &report::Rendered::new(name, text))?;
        file.to_path_buf()
    } else {
        report::render_all(&summary, dir)?;
        dir.join("report.html")
    };
    say::page(&page);
    Ok(summary)
}

fn hint(error: &ReportError) -> &'static str {
    match error {
        ReportError::Io { .. } => {
            "a results folder holds plan.toml, history.jsonl and verdict.json, and must be writable"
        }
        ReportError::Empty { .. } | ReportError::Header { .. } => {
            "a run that recorded nothing cannot be shown; look at its log"
        }
        ReportError::Plan { .. } => "it must be the plan.toml that the run wrote",
        ReportError::Verdict { .. } => {
            "`fencepost check --json` on its history.jsonl prints the verdict again"
        }
        ReportError::Junit(_) => "this is a defect of fencepost: please report it with the folder",
    }
}
