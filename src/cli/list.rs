//! `fencepost list`: locks, faults, topologies, checks, workloads.
//!
//! Owns how they are laid out. What is said of each thing comes from the room that owns it.
use super::{Exit, say};
use crate::campaign::folder;
use crate::report::sanitise;
use crate::report::tables::plural;
use crate::{lock, plan};
use comfy_table::{ContentArrangement, Table, presets};
use fencepost_checker::Expect;
use std::path::{Path, PathBuf};

/// Arguments of `list`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fencepost list locks
  fencepost list faults | less
  fencepost list workloads --dir my/workloads")]
pub struct Args {
    /// What to list.
    #[arg(value_enum)]
    what: What,
    /// Where the workloads are.
    #[arg(long, value_name = "FOLDER", default_value = "workloads")]
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
    let mut exit = Exit::Ok;
    match args.what {
        What::Locks => sheets(&locks()),
        What::Faults => sheets(&faults()),
        What::Topologies => table(&["topology", "about"], topologies()),
        What::Checks => table(&["check", "class", "about"], checks()),
        What::Workloads => match workloads(&args.dir) {
            Ok((rows, read)) => {
                exit = read;
                table(&["workload", "lock", "expects", "about"], rows);
                folders(&args.dir);
            }
            Err(error) => {
                say::word(&format!(
                    "error: cannot read {}: {error}",
                    args.dir.display()
                ));
                say::word("hint: name the folder with --dir");
                return Exit::Usage;
            }
        },
    }
    exit
}

/// Short rows.
fn table(head: &[&str], rows: Vec<Vec<String>>) {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(u16::try_from(say::style().width).unwrap_or(u16::MAX))
        .set_header(head)
        .add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    say::data(&table.trim_fmt());
}

/// A name, and what is to be said of it: too long for a table.
type Sheet = (String, Vec<(&'static str, String)>);

fn sheets(sheets: &[Sheet]) {
    let width = say::style().width;
    let texts: Vec<String> = sheets.iter().map(|sheet| text(sheet, width)).collect();
    say::data(&texts.join("\n"));
}

fn text((name, facts): &Sheet, width: usize) -> String {
    const INDENT: usize = 16;
    let mut out = format!("{name}\n");
    for (what, fact) in facts {
        let mut line = format!("  {what:<14}");
        for word in fact.split_whitespace() {
            let used = line.chars().count();
            if used > INDENT && used + 1 + word.chars().count() > width {
                out.push_str(&line);
                out.push('\n');
                line = " ".repeat(INDENT);
            }
            if line.chars().count() > INDENT {
                line.push(' ');
            }
            line.push_str(word);
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

fn locks() -> Vec<Sheet> {
    let one = |l: &lock::LockInfo| {
        let mut facts = vec![
            ("about", l.about.to_owned()),
            ("nodes", l.nodes.to_owned()),
            ("holds against", l.holds_against.to_owned()),
            ("broken by", l.broken_by.to_owned()),
        ];
        if let Some(why) = l.no_fencing {
            facts.push(("tokens", format!("none: {why}")));
        } else {
            facts.push(("tokens", "with lock.fencing = true".to_owned()));
        }
        (l.name.to_owned(), facts)
    };
    lock::LOCKS.iter().map(one).collect()
}

fn faults() -> Vec<Sheet> {
    let one = |k: &plan::kinds::KindInfo| {
        let facts = vec![
            ("target", k.targets.join(", ")),
            (
                "keys",
                if k.allowed.is_empty() {
                    "none".to_owned()
                } else {
                    k.allowed.join(", ")
                },
            ),
            ("does", k.effect.to_owned()),
            ("proof", k.attestation.to_owned()),
        ];
        (k.name.to_owned(), facts)
    };
    plan::kinds::kinds().iter().map(one).collect()
}

fn topologies() -> Vec<Vec<String>> {
    plan::names::TOPOLOGIES
        .iter()
        .map(|(name, about)| vec![(*name).to_owned(), (*about).to_owned()])
        .collect()
}

fn checks() -> Vec<Vec<String>> {
    fencepost_checker::CHECKS
        .iter()
        .map(|c| {
            vec![
                c.name.to_owned(),
                c.class.name().to_owned(),
                c.about.to_owned(),
            ]
        })
        .collect()
}

/// A row a file and variant; a file that cannot be read is told, and the rest is listed all the same.
fn workloads(dir: &Path) -> std::io::Result<(Vec<Vec<String>>, Exit)> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir)?
        .filter_map(|e| e.ok().map(|e| e.path()))
        .collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "toml"));
    files.sort();
    let mut rows = Vec::new();
    let mut exit = Exit::Ok;
    for file in files {
        match plan::load(&file, &plan::Overrides::default()) {
            Ok(plans) => rows.extend(plans.iter().map(workload)),
            Err(error) => {
                say::plan_error(&error);
                exit = Exit::Usage;
            }
        }
    }
    Ok((rows, exit))
}

/// What else is below, a line a folder.
fn folders(dir: &Path) {
    let below = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut below: Vec<PathBuf> = below.map(|e| e.path()).filter(|p| p.is_dir()).collect();
    below.sort();
    for folder in below {
        if let Ok(files) = folder::files(std::slice::from_ref(&folder)) {
            let shown = folder.display().to_string();
            say::data(&format!(
                "{} more: fencepost list workloads --dir {}",
                plural(files.len() as u64, "file"),
                sanitise::visible(&shown)
            ));
        }
    }
}

fn workload(plan: &plan::Plan) -> Vec<String> {
    let name = plan
        .variant
        .as_ref()
        .map_or_else(|| plan.name.clone(), |v| format!("{}/{v}", plan.name));
    let named = |wanted: Expect| {
        let named = plan.expect.iter().filter(|(_, e)| **e == wanted);
        let names: Vec<&str> = named.map(|(check, _)| check.as_str()).collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    let expect: Vec<String> = [
        ("violated", Expect::Violated),
        ("valid", Expect::Valid),
        ("any", Expect::Any),
    ]
    .into_iter()
    .filter_map(|(word, wanted)| Some(format!("{word}: {}", named(wanted)?)))
    .collect();
    let lock = plan
        .lock
        .name
        .clone()
        .unwrap_or_else(|| plan.lock.command.join(" "));
    vec![
        name,
        lock,
        expect.join("\n"),
        plan.about.lines().next().unwrap_or_default().to_owned(),
    ]
}
