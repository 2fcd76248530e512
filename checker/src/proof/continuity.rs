//! Why a successful extension was none.
//!
//! Owns the wording and the arithmetic that it shows. Must not know how it was found.
use super::{exact, let_be, span};
use crate::checks::continuity::Wrong;
use crate::facts::Facts;
use crate::section::{Extension, usable};

/// What is wrong with the extension `e` that was answered ok; the section was last confirmed at `confirmed`.
pub(crate) fn continuity(f: &Facts, e: &Extension, confirmed: u64, wrong: Wrong) -> Vec<String> {
    let model = f.model();
    let mut steps = vec![
        let_be(f, "A", e.section),
        format!(
            "Let E be A's extension by {}, invoked at {} and answered ok at {}.",
            span(e.lease),
            exact(e.inv),
            exact(e.ret)
        ),
    ];
    match wrong {
        Wrong::Another(other) => {
            let b = f.section(other);
            steps.push(format!(
                "Then A had held without a break from {}, when that was last confirmed, until some time in E: that is \
                 what ok means.",
                exact(confirmed)
            ));
            steps.push(let_be(f, "B", other));
            steps.push(format!(
                "But B was asked for after the one ({} ≤ {}) and granted before the other ({} ≤ {}): in between the \
                 lock was B's.",
                exact(confirmed),
                exact(b.inv),
                exact(b.ret),
                exact(e.inv)
            ));
        }
        Wrong::Late => {
            let end = e.inv.saturating_add(usable(e.lease, model));
            steps.push(format!(
                "Then all that E can have added, its {} less {} % and {} ms, counted from its invoke, was over at {}; \
                 neither a stop of the client nor one of the machine delayed the answer.",
                span(e.lease),
                model.drift * 100.0,
                model.floor_ms,
                exact(end)
            ));
            steps.push(format!(
                "But it was answered ok at {}, when nothing of it was left.",
                exact(e.ret)
            ));
        }
        Wrong::Unapplied(applied) => {
            steps.push(format!(
                "Then each server that applied E had A's value when E was invoked, and shows between {} and {} that \
                 the key was set or timed again, or could not be seen meanwhile: {applied} of {} are such.",
                exact(e.inv),
                exact(e.ret),
                model.nodes
            ));
            steps.push(format!(
                "But an extension takes {} of them, and E was answered ok.",
                model.quorum
            ));
        }
    }
    steps
}
