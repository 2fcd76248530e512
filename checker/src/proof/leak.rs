//! Why a key stayed too long.
//!
//! Owns the wording and the arithmetic that it shows. Must not know how it was found.
use super::{exact, let_be, span};
use crate::facts::Facts;
use crate::section::Ns;
use crate::servers::Seen;

/// What a key was read as: without a time to live, or later than `bound` for a lease of `lease`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stayed {
    Endless,
    Beyond { lease: Ns, bound: Ns },
}

/// The value of `owner` (none: of no known grant) was set or re-timed at `timed`, and read again as `seen`.
pub(crate) fn leak(
    f: &Facts,
    owner: Option<u32>,
    timed: Ns,
    seen: &Seen,
    how: Stayed,
) -> Vec<String> {
    let place = format!("{} on {}", f.names.text(seen.key), f.names.text(seen.node));
    let mut steps = vec![match owner {
        Some(i) => let_be(f, "A", i),
        None => format!("Let V be the value of {place}, which no known grant carries."),
    }];
    steps.push(format!(
        "Then {place} was set, or given a time to live, for the last time at {}.",
        exact(timed)
    ));
    match how {
        Stayed::Endless => {
            steps.push(
                "Then a lock that sets its time to live in a second step had the time to do so: the key was read \
                 without one before."
                    .to_owned(),
            );
            steps.push(format!(
                "But between {} and {} it was read without one again: if its holder dies, it stays for ever.",
                exact(seen.not_before),
                exact(seen.at)
            ));
        }
        Stayed::Beyond { lease, bound } => {
            steps.push(format!(
                "Then its lease of {}, {} % more for a slow clock, and {} for stalls and the grain of a session, were \
                 over at {}.",
                span(lease),
                f.model().drift * 100.0,
                span(f.epsilon()),
                exact(bound)
            ));
            steps.push(format!(
                "But it was still read between {} and {}.",
                exact(seen.not_before),
                exact(seen.at)
            ));
        }
    }
    steps
}
