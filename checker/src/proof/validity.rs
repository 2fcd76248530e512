//! Why a claim of validity is wrong.
//!
//! Owns the wording and the arithmetic that it shows. Must not know how it was found.
use super::{exact, let_be, span};
use crate::checks::validity::Wrong;
use crate::facts::Facts;
use crate::section::{Ns, Section, usable};

/// What is wrong with the answer to the grant of section `i`.
pub(crate) fn validity(f: &Facts, i: u32, wrong: Wrong) -> Vec<String> {
    let (s, model) = (f.section(i), f.model());
    let good = usable(s.lease, model);
    let lease = format!(
        "its lease of {} less {} % for clocks that drift and {} ms is good for {}",
        span(s.lease),
        model.drift * 100.0,
        model.floor_ms,
        span(good)
    );
    let ret = exact(s.ret);
    let (then, but) = match wrong {
        Wrong::TooMuch { .. } => (
            format!(
                "Then {lease}, counted from a time at or after the invoke at which a server began to count."
            ),
            format!(
                "But the answer, at {ret}, claims {} ms from then on: more than the whole of it, and more than \
                 rounding to whole milliseconds explains.",
                s.validity_ms
            ),
        ),
        Wrong::Nothing => (
            "Then a validity of nothing or less says that the lease was over when the call ended."
                .to_owned(),
            format!(
                "But the answer, at {ret}, is ok with a validity of {} ms: a grant of which nothing is left is none.",
                s.validity_ms
            ),
        ),
        Wrong::LateQuorum { end } | Wrong::PastEnd { end } => by_the_tap(s, &lease, end, wrong),
        Wrong::Stopped { end, from, to } => (
            format!(
                "Then {lease}, so that it was over at {}: a server had A's value before that. {} was proved stopped \
                 from {} until {}, which spans that end.",
                exact(end),
                f.names.text(s.client),
                exact(from),
                exact(to)
            ),
            format!(
                "But at {ret}, after it had been continued, the answer was ok: a library that looks at its clock \
                 after the last reply sees that the lease is over."
            ),
        ),
        Wrong::TooLittle { .. } => (
            format!(
                "Then {lease}, and the call took {}: at least {} were left at its end.",
                span(s.ret.saturating_sub(s.start.min(s.inv))),
                span(good.saturating_sub(s.ret.saturating_sub(s.start.min(s.inv))))
            ),
            format!(
                "But the answer, at {ret}, claims {} ms, less than half of that.",
                s.validity_ms
            ),
        ),
    };
    vec![let_be(f, "A", i), then, but]
}

/// What the stamps of the tap prove: what follows from them, and what does not fit.
fn by_the_tap(s: &Section, lease: &str, end: Ns, wrong: Wrong) -> (String, String) {
    let quorum = exact(s.quorum);
    let then = format!(
        "Then {lease}, counted from {}: it was over at {}. The reply that made the quorum passed the tap at {quorum}.",
        exact(s.start),
        exact(end)
    );
    let but = if let Wrong::LateQuorum { .. } = wrong {
        format!(
            "But the answer, at {}, was ok: when its quorum was made, nothing of the lease was left.",
            exact(s.ret)
        )
    } else {
        format!(
            "But the library, which can have counted from no earlier than that reply, claims {} ms, and {} were left.",
            s.validity_ms,
            span(end.saturating_sub(s.quorum))
        )
    };
    (then, but)
}
