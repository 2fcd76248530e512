//! Why a holder went on past its lease.
//!
//! Owns the wording. Must not know how it was found.
use super::{ended, exact, let_be, pieces, promised};
use crate::facts::Facts;
use crate::sweep::Pair;

/// A holder that went on past its lease.
pub(crate) fn overrun(f: &Facts, pair: Pair) -> Vec<String> {
    let (a, b) = (f.section(pair.a), f.section(pair.b));
    let ends = pieces(f, pair.a).into_iter().map(|p| p.1);
    let over = ends.filter(|end| *end <= pair.from).max().unwrap_or(a.ret);
    vec![
        let_be(f, "A", pair.a),
        promised(f, "A", pair.a),
        format!(
            "Then from {} until {} at least A could count on nothing, but it went on until {}: {}.",
            exact(over),
            exact(pair.to),
            exact(a.belief_end),
            ended(a)
        ),
        let_be(f, "B", pair.b),
        format!(
            "But B held from {} on, so both believed from {} until {}; no promise was broken, since A's was over.",
            exact(b.ret),
            exact(pair.from),
            exact(pair.to)
        ),
    ]
}
