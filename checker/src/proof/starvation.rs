//! Why a waiter was passed over too often.
//!
//! Owns the wording. Must not know how it was found.
use super::exact;
use crate::facts::Facts;
use crate::section::Ns;

/// Grants shown, at most.
const SHOWN: usize = 4;

/// The wait of `waiter` (its name, and the key's) in `span`, over the section `got` if it ended with one, and the
/// sections that passed it over.
pub(crate) fn starvation(
    f: &Facts,
    (waiter, key): (&str, &str),
    (since, until): (Ns, Ns),
    got: bool,
    passed: &[u32],
) -> Vec<String> {
    let end = if got {
        format!("was granted it at {}", exact(until))
    } else {
        format!("had not been granted it by {}", exact(until))
    };
    let first = passed.iter().take(SHOWN).map(|i| {
        let s = f.section(*i);
        format!(
            "{} (worker {}; waited from {}, granted at {})",
            f.names.text(s.client),
            s.worker,
            exact(s.wanted),
            exact(s.ret)
        )
    });
    let first: Vec<String> = first.collect();
    let more = match passed.len().saturating_sub(SHOWN) {
        0 => String::new(),
        n => format!(", and {n} more"),
    };
    vec![
        format!(
            "Let W be the wait of {waiter} for {key}, who first tried for it at {} and {end}.",
            exact(since)
        ),
        "Then no fault was active in W, and the machine did not stand still.".to_owned(),
        format!(
            "Then these began to wait in W, after its beginning, and were granted {key} in it: {}{more}.",
            first.join(", ")
        ),
        format!(
            "But that is {} times, and the lock states that a waiter is passed over {} times at most.",
            passed.len(),
            f.model().bypass_max.unwrap_or_default()
        ),
    ]
}
