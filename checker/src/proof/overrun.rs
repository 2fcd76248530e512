//! Why a holder went on past its lease.
//!
//! Owns the wording. Must not know how it was found.
use super::{ended, exact, let_be, pieces, promised};
use crate::facts::Facts;
use crate::section::Ns;
use crate::sweep::Pair;

/// A holder that went on past its lease; `latest` is when that may have ended as well, where its call waited so long that
/// its lease may have begun long after it was asked for.
pub(crate) fn overrun(f: &Facts, pair: Pair, latest: Option<Ns>) -> Vec<String> {
    let (a, b) = (f.section(pair.a), f.section(pair.b));
    let ends = pieces(f, pair.a).into_iter().map(|p| p.1);
    let over = ends.filter(|end| *end <= pair.from).max().unwrap_or(a.ret);
    let but = match latest {
        None => format!(
            "But B held from {} on, so both believed from {} until {}; no promise was broken, since A's was over.",
            exact(b.ret),
            exact(pair.from),
            exact(pair.to)
        ),
        Some(latest) => format!(
            "But B held from {} on, so both believed from {} until {}. A's lease may as well have begun just before its \
             answer, and ended at {}: B may have been let in before, and who is to blame is not known.",
            exact(b.ret),
            exact(pair.from),
            exact(pair.to),
            exact(latest)
        ),
    };
    vec![
        let_be(f, "A", pair.a),
        promised(f, "A", pair.a),
        format!(
            "Then from {} until {} at least A could count on nothing, but it went on until {}: {}.",
            exact(over),
            exact(pair.to),
            exact(a.belief_end),
            ended(f, pair.a)
        ),
        let_be(f, "B", pair.b),
        but,
    ]
}
