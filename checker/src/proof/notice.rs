//! Why a holder should have been told that its lease was over.
//!
//! Owns the wording. Must not know how it was found.
use super::{ended, exact, let_be, promised};
use crate::facts::Facts;
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
            ended(a),
            exact(b.ret)
        ),
    ]
}
