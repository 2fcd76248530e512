//! `fencepost list`: locks, faults, topologies, checks, workloads.
//!
//! Owns the tables' columns. Each table comes from the room that owns the things.
use super::{Exit, say};
use crate::{lock, plan};
use comfy_table::{ContentArrangement, Table, presets};
use std::path::{Path, PathBuf};

/// Arguments of `list`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to list.
    #[arg(value_enum)]
    what: What,
    /// Where the workloads are.
    #[arg(long, default_value = "workloads")]
    dir: PathBuf,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum What {
    Locks,
    Faults,
    Topologies,
    Checks,
    Workloads,
}

pub fn main(args: &Args) -> Exit {
    let (head, rows) = match args.what {
        What::Locks => (vec!["lock", "about"], locks()),
        What::Faults => (
            vec![
                "fault",
                "targets",
                "keys",
                "what it does",
                "proof that it bit",
            ],
            faults(),
        ),
        What::Topologies => (vec!["topology", "about"], topologies()),
        What::Checks => (vec!["check", "class", "about"], checks()),
        What::Workloads => match workloads(&args.dir) {
            Ok(rows) => (vec!["workload", "lock", "expects", "about"], rows),
            Err(error) => {
                say::word(&format!(
                    "error: cannot read {}: {error}",
                    args.dir.display()
                ));
                say::word("hint: name the folder with --dir");
                return Exit::Usage;
            }
        },
    };
    let mut table = Table::new();
    table
        .load_preset(presets::UTF8_HORIZONTAL_ONLY)
        .set_content_arrangement(ContentArrangement::Dynamic);
    table
        .set_width(say::style().width as u16)
        .set_header(head)
        .add_rows(rows);
    say::data(&table.to_string());
    Exit::Ok
}

fn locks() -> Vec<Vec<String>> {
    lock::LOCKS
        .iter()
        .map(|l| vec![l.name.to_owned(), l.about.to_owned()])
        .collect()
}

fn faults() -> Vec<Vec<String>> {
    let row = |k: &plan::kinds::KindInfo| {
        let keys = k.allowed.join(", ");
        vec![
            k.name.to_owned(),
            k.targets.join(", "),
            keys,
            k.effect.to_owned(),
            k.attestation.to_owned(),
        ]
    };
    plan::kinds::kinds().iter().map(row).collect()
}

fn topologies() -> Vec<Vec<String>> {
    plan::names::TOPOLOGIES
        .iter()
        .map(|(name, about)| vec![(*name).to_owned(), (*about).to_owned()])
        .collect()
}

fn checks() -> Vec<Vec<String>> {
    let class = |c| {
        serde_json::to_value(c)
            .ok()
            .and_then(|v| v.as_str().map(str::to_owned))
            .unwrap_or_default()
    };
    fencepost_checker::CHECKS
        .iter()
        .map(|c| vec![c.name.to_owned(), class(c.class), c.about.to_owned()])
        .collect()
}

fn workloads(dir: &Path) -> std::io::Result<Vec<Vec<String>>> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir)?
        .filter_map(|e| e.ok().map(|e| e.path()))
        .collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "toml"));
    files.sort();
    let mut rows = Vec::new();
    for file in files {
        match plan::load(&file, &plan::Overrides::default()) {
            Ok(plans) => rows.extend(plans.iter().map(workload)),
            Err(error) => say::plan_error(&error),
        }
    }
    Ok(rows)
}

fn workload(plan: &plan::Plan) -> Vec<String> {
    let name = plan
        .variant
        .as_ref()
        .map_or_else(|| plan.name.clone(), |v| format!("{} ({v})", plan.name));
    let expect = plan
        .expect
        .iter()
        .map(|(check, e)| format!("{check} {e:?}").to_lowercase())
        .collect::<Vec<_>>()
        .join(", ");
    let lock = plan
        .lock
        .name
        .clone()
        .unwrap_or_else(|| plan.lock.command.join(" "));
    vec![
        name,
        lock,
        expect,
        plan.about.lines().next().unwrap_or_default().to_owned(),
    ]
}
