//! Cards on a terminal: a line a check, its evidence, and the command that replays it.
//!
//! Owns the layout. Must not know grades' reasons: `mod` has them.
use super::{Card, Grade, shell};
use crate::report::sanitise::visible;
use std::fmt::Write as _;

/// The card in lines.
pub fn terminal(card: &Card) -> String {
    let mut out = format!("{}\n", visible(&card.title()));
    for (check, cell) in card.cells() {
        let word = match cell.grade {
            Grade::Ok => "ok",
            Grade::Broken => "broken",
            Grade::Unknown => "unknown",
            Grade::NotAsked => "-",
        };
        let why = visible(&cell.why).into_owned();
        let _ = writeln!(out, "  {word:<8} {:<17} {why}", check.name);
        if cell.grade == Grade::Broken {
            let public = card.public(check).unwrap_or("no report is known");
            let _ = writeln!(out, "           public: {}", visible(public));
            let dir = card
                .runs
                .get(check.schedule)
                .map(|r| r.dir.join("plan.toml"));
            let plan = dir.unwrap_or_default().display().to_string();
            let words = ["fencepost", "run", &plan].map(str::to_owned);
            let _ = writeln!(out, "           replay: {}", visible(&shell(&words)));
        }
    }
    for (what, schedule) in card.misbehaved() {
        let what = visible(what);
        let _ = writeln!(out, "  the adapter misbehaved under {schedule}: {what}");
    }
    out
}
