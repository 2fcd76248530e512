//! Why a key stayed too long.
//!
//! Owns the wording and the arithmetic that it shows. Must not know how it was found.
use super::{exact, let_be, span};
use crate::facts::{Facts, Vain};
use crate::section::Ns;
use crate::servers::Seen;

/// What a key was read as: without a time to live, or later than `bound` for a lease of `lease`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stayed {
    Endless,
    Beyond { lease: Ns, anew: Ns, bound: Ns },
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
        Stayed::Beyond { lease, anew, bound } => {
            if anew > timed {
                steps.push(format!(
                    "Then a fault of its members was over at {}: until then they may have got a new leader, which counts \
                     each lease anew.",
                    exact(anew)
                ));
            }
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

/// A try in vain whose value stayed on the servers `left` until after `late`.
pub(crate) fn abandoned(f: &Facts, v: &Vain, left: &[u32], late: Ns) -> Vec<String> {
    let client = f.names.text(v.client);
    let nodes: Vec<&str> = left.iter().map(|n| f.names.text(*n)).collect();
    vec![
        format!(
            "Let T be the try of {client} for {}, invoked at {} and without the lock at {}.",
            f.names.text(v.key),
            exact(v.inv),
            exact(v.ret)
        ),
        format!(
            "Then in T a value that no grant carries was set on {}, and the tap saw one command of {client} with it go \
             there: the one that set it.",
            nodes.join(", ")
        ),
        format!(
            "Then from {} until {} no fault but of single messages was active that could have taken a clean-up there along.",
            exact(v.inv),
            exact(late)
        ),
        format!(
            "But the value was there until after {}, and {client} sent no second command for it: whoever fails to get a \
             majority gives back what it got.",
            exact(late)
        ),
    ]
}
