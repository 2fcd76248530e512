//! Why the commands of a second were too many.
//!
//! Owns the wording. Must not know how they were counted.
use super::exact;
use crate::facts::Facts;
use crate::section::Ns;

/// `count` commands to a node in `[from, to)`, where `max` are allowed.
pub(crate) fn load(
    f: &Facts,
    node: u32,
    (from, to): (Ns, Ns),
    count: u64,
    max: f64,
) -> Vec<String> {
    let node = f.names.text(node);
    vec![
        format!(
            "Let S be the second from {} until {}.",
            exact(from),
            exact(to)
        ),
        "Then a fault stood all through S.".to_owned(),
        format!(
            "Then with the workers' pauses between two tries {max:.0} commands can go to {node} in S at most: that bound is \
             the history's own."
        ),
        format!("But the tap counted {count} on the way there."),
    ]
}
