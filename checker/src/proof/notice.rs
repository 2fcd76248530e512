//! Why a holder should have been told that its lease was over.
//!
//! Owns the wording. Must not know how it was found.
use super::{ended, exact, let_be, promised, span};
use crate::facts::Facts;
use crate::section::Ns;
use crate::sweep::Pair;

/// A holder that was not told, though nothing was in the library's way.
pub(crate) fn notice(f: &Facts, pair: Pair) -> Vec<String> {
    let (a, b) = (f.section(pair.a), f.section(pair.b));
    let client = f.names.text(a.client);
    vec![
        let_be(f, "A", pair.a),
        promised(f, "A", pair.a),
        format!(
            "Then by that end {client} was to be told, since its library promises to renew the lease or to tell of \
             its loss; and it could be told: from {} until {} no fault was active, and the machine did not stand \
             still.",
            exact(a.inv),
            exact(pair.from)
        ),
        let_be(f, "B", pair.b),
        format!(
            "But no notice came before A's hold ended ({}), while B held from {} on.",
            ended(f, pair.a),
            exact(b.ret)
        ),
    ]
}

/// A holder that was not told although its lease was over, by any count, at `over`, and nobody else shows it.
/// `confirmed` is the last time at which its lease was answered for, and the longest lease asked for.
pub(crate) fn zombie(f: &Facts, i: u32, over: Ns, confirmed: (Ns, Ns)) -> Vec<String> {
    let s = f.section(i);
    let client = f.names.text(s.client);
    vec![
        let_be(f, "A", i),
        format!(
            "Then its lease of {} was last confirmed at {}; even counted from there, with {} % more for a slow clock and {} \
             for stalls and grain, it was over at {}.",
            span(confirmed.1),
            exact(confirmed.0),
            f.model().drift * 100.0,
            span(f.epsilon()),
            exact(over)
        ),
        format!(
            "Then every server that had A's value had lost it by then, and from {} until then no fault was active and the \
             machine did not stand still: {client} could be told.",
            exact(s.inv)
        ),
        format!(
            "But no notice came, and it went on until {}: {}.",
            exact(s.belief_end.min(f.last)),
            ended(f, i)
        ),
    ]
}
