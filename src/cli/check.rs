//! `fencepost check`: judge histories.
//!
//! Owns the reading of flags and what is printed. Must not know how a history is judged.
use super::exit::{Exit, UnknownIs};
use super::say;
use crate::report;
use fencepost_checker::{Verdict, check_path};
use std::path::PathBuf;

/// Arguments of `check`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fencepost check results/plain-del/latest/history.jsonl
  fencepost check --expect workloads/plain-del.toml history.jsonl
  fencepost check --json *.jsonl | jq .")]
pub struct Args {
    /// History files (JSONL).
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
    /// What `unknown` counts as.
    #[arg(long, value_enum, default_value_t = UnknownIs::Fail)]
    unknown: UnknownIs,
}

pub fn main(args: &Args) -> Exit {
    let expect = match expectation(args) {
        Ok(expect) => expect,
        Err(exit) => return exit,
    };
    args.files.iter().fold(Exit::Ok, |exit, file| {
        exit.worst(match check_path(file) {
            Ok(verdict) => {
                let verdict = verdict.judge_with(&expect);
                let exit = Exit::of(verdict.outcome, args.unknown);
                show(args, file, verdict, &expect);
                exit
            }
            Err(error) => {
                say::word(&format!("error: {}: {error}", file.display()));
                say::word(&format!("hint: {}", error.hint()));
                Exit::Usage
            }
        })
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

fn show(args: &Args, file: &std::path::Path, verdict: Verdict, expect: &Expectation) {
    if args.json {
        match serde_json::to_string(&verdict) {
            Ok(text) => say::data(&text),
            Err(error) => say::error(&error, None),
        }
        return;
    }
    match report::summary::of_history(file, verdict, expect) {
        Ok(summary) => say::data(&report::terminal(&[summary], say::style())),
        Err(error) => say::error(&error, None),
    }
}
