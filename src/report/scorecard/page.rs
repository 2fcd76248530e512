//! Cards as Markdown (docs/libraries.md): one table over all libraries, then a part a library.
//!
//! Owns the page. Must not know grades' reasons: `mod` has them. A finding that no public report is known for is marked so,
//! and its recipe is left out, so that the maintainers can be told first.
use super::{CHECKS, Card, Check, Grade, shell};
use crate::report::sanitise::{code, guard_lines, markdown};
use std::fmt::Write as _;

const HEAD: &str = "# Lock libraries under the harness

Made by `make libraries` (`fencepost scorecard --markdown`); do not edit. Each cell is one named check on the library as it \
is published, from the schedules in [workloads/scorecard/](../workloads/scorecard). `ok`: nothing was found under this \
schedule, which is no proof. `?`: it could not be judged; why stands below. `–`: the library offers nothing to judge (it \
claims no validity, cannot extend, gives out no tokens, knows one server). A finding that no public report is known for is \
marked so, and its recipe is left to the command line.
";

/// The page.
pub fn page(cards: &[Card]) -> String {
    let mut out = format!("{HEAD}\n| library | version |");
    for check in CHECKS {
        let _ = write!(out, " {} |", check.name);
    }
    let _ = writeln!(out, "\n|---|---|{}", "---|".repeat(CHECKS.len()));
    for card in cards {
        let about = &card.about;
        let _ = write!(
            out,
            "| {} | {} |",
            markdown(&about.library),
            markdown(&about.version)
        );
        for (_, cell) in card.cells() {
            let _ = write!(out, " {} |", mark(cell.grade));
        }
        out.push('\n');
    }
    out.push_str("\n| check | schedule | what it means |\n|---|---|---|\n");
    for c in CHECKS {
        let (name, schedule, means) = (c.name, c.schedule, c.means);
        let file = format!("../workloads/scorecard/{schedule}.toml");
        let _ = writeln!(out, "| {name} | [{schedule}]({file}) | {means} |");
    }
    for card in cards {
        part(card, &mut out);
    }
    guard_lines(&out)
}

fn mark(grade: Grade) -> &'static str {
    match grade {
        Grade::Ok => "ok",
        Grade::Broken => "**broken**",
        Grade::Unknown => "?",
        Grade::NotAsked => "–",
    }
}

fn part(card: &Card, out: &mut String) {
    let _ = writeln!(out, "\n## {}\n", markdown(&card.title()));
    let mut good = Vec::new();
    for (check, cell) in card.cells() {
        let why = markdown(cell.why.trim_end_matches('.'));
        match cell.grade {
            Grade::Ok => good.push(check.name),
            Grade::NotAsked => {}
            Grade::Unknown => {
                let _ = writeln!(out, "- {} is unknown: {why}.", check.name);
            }
            Grade::Broken => {
                let _ = writeln!(out, "- **{}** is broken. {why}.", check.name);
                let more = match card.public(check) {
                    Some(report) => {
                        let replay = code(&replay(card, check));
                        format!("Known: {}. Replay: {replay}", markdown(report))
                    }
                    None => "No public report is known; the recipe is on the command line.".into(),
                };
                let _ = writeln!(out, "  {more}");
            }
        }
    }
    for (what, schedule) in card.misbehaved() {
        let what = markdown(what);
        let _ = writeln!(out, "- the adapter misbehaved under {schedule}: {what}");
    }
    let good = if good.is_empty() {
        "none".to_owned()
    } else {
        good.join(", ")
    };
    let _ = writeln!(out, "- ok: {good}");
}

/// The command that makes the run again, from the repository alone.
fn replay(card: &Card, check: &Check) -> String {
    let command: Vec<String> = card
        .subject
        .command
        .iter()
        .map(|w| format!("{w:?}"))
        .collect();
    let set = format!("lock.command=[{}]", command.join(", "));
    let file = format!("workloads/scorecard/{}.toml", check.schedule);
    let seed = card
        .runs
        .get(check.schedule)
        .map_or(0, |run| run.seed)
        .to_string();
    let words = ["fencepost", "run", &file, "--set", &set, "--seed", &seed];
    shell(&words.map(str::to_owned))
}
