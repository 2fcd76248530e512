//! Why nobody can get the lock any more.
//!
//! Owns the wording and the arithmetic that it shows. Must not know how it was found.
use super::{ended, exact, let_be, span};
use crate::facts::{Facts, Tail};
use crate::names::Name;
use crate::section::Ns;

/// In vain from `since` until `until`, though `bound` is enough; `holder` was granted it last.
pub(crate) fn deadlock(
    f: &Facts,
    key: Name,
    tail: &Tail,
    (since, until): (Ns, Ns),
    bound: Ns,
    holder: Option<u32>,
) -> Vec<String> {
    let key = f.names.text(key);
    let mut steps = vec![match holder {
        Some(i) => let_be(f, "A", i),
        None => format!("Let {key} be a lock that nobody was granted before the tail."),
    }];
    if let Some(i) = holder {
        steps.push(format!(
            "Then A was granted last before the tail; {}.",
            ended(f, i)
        ));
    }
    let model = f.model();
    steps.push(format!(
        "Then from {} on nothing was in the way: the last fault was healed and the tail had begun by {}, and every \
         hold was over. Within the lease of {}, a pause of {} between two tries, and {} for stalls and grain, which \
         are {} together, someone is granted it.",
        exact(since),
        exact(tail.epoch),
        span(model.ttl_ms.unwrap_or(0).saturating_mul(1_000_000)),
        span(model.retry_ms.saturating_mul(1_000_000)),
        span(f.epsilon()),
        span(bound)
    ));
    steps.push(format!(
        "But {} tries, the last of which was answered at {}, all failed: {} after that.",
        tail.tries,
        exact(until),
        span(until.saturating_sub(since))
    ));
    steps
}
