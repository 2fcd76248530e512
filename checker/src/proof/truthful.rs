//! Why an answer and what the servers hold cannot both be so.
//!
//! Owns the wording. Must not know how it was found.
use super::{exact, let_be};
use crate::facts::{Denied, Facts};
use crate::section::usable;

/// A grant that at most `nodes` servers can have made.
pub(crate) fn granted(f: &Facts, i: u32, nodes: usize) -> Vec<String> {
    let (s, model) = (f.section(i), f.model());
    vec![
        let_be(f, "A", i),
        format!(
            "Then each server that granted it shows a write of A's value between {} and {}, or one whose value was \
             not read, or could not be seen meanwhile: {nodes} of {} are such.",
            exact(s.inv),
            exact(s.ret),
            model.nodes
        ),
        format!(
            "But a grant takes {} of them, and the answer was ok.",
            model.quorum
        ),
    ]
}

/// A release after which the value was still read on these servers: (node, not before, at).
pub(crate) fn released(f: &Facts, i: u32, reads: &[(u32, u64, u64)]) -> Vec<String> {
    let (s, model) = (f.section(i), f.model());
    let seen = reads.iter().take(5).map(|(node, not_before, at)| {
        format!(
            "{} (between {} and {})",
            f.names.text(*node),
            exact(*not_before),
            exact(*at)
        )
    });
    let seen: Vec<String> = seen.collect();
    let left = (model.nodes as usize).saturating_sub(reads.len());
    vec![
        let_be(f, "A", i),
        format!(
            "Let R be A's release, invoked at {} and answered ok at {}.",
            exact(s.release_inv),
            exact(s.release_ret)
        ),
        format!(
            "Then A's value was still read after that answer on {}, none of which restarted in between.",
            seen.join(", ")
        ),
        format!(
            "But then R removed it from {left} of {} servers at most, and it takes {} before another can be granted \
             the lock.",
            model.nodes, model.quorum
        ),
    ]
}

/// A release that was told "not yours", while `nodes` servers held its value all through it.
pub(crate) fn denied(f: &Facts, d: &Denied, nodes: usize) -> Vec<String> {
    let (s, model) = (f.section(d.section), f.model());
    vec![
        let_be(f, "A", d.section),
        format!(
            "Let R be A's release, invoked at {} and told at {} that the lock is not its own.",
            exact(d.inv),
            exact(d.ret)
        ),
        format!(
            "Then R was over before A's lease, counted from {}, was over at {}; and {nodes} of {} servers had A's value, \
             which no other grant carries, from before R until after it.",
            exact(s.start),
            exact(s.start.saturating_add(usable(s.lease, model))),
            model.nodes
        ),
        format!(
            "But {} of them make a grant: the lock was A's all through R.",
            model.quorum
        ),
    ]
}
