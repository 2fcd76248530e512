//! Why a call should have ended, or a free lock should have been granted.
//!
//! Owns the wording and the arithmetic that it shows. Must not know how it was found, nor what was lost meanwhile.
use super::{ended, exact, let_be, span};
use crate::crowd::Gap;
use crate::facts::{Facts, Late, Vain};
use crate::section::Ns;

/// A call over its bound.
pub(crate) fn late(f: &Facts, late: &Late) -> Vec<String> {
    let client = f.names.text(late.client);
    let took = late.ret.saturating_sub(late.inv);
    let how = if late.given_up {
        "given up by its caller"
    } else {
        "answered"
    };
    let mut steps = vec![
        format!(
            "Let C be the {} of {} by {client}, invoked at {} and {how} at {}.",
            late.op,
            f.names.text(late.key),
            exact(late.inv),
            exact(late.ret)
        ),
        format!(
            "Then C was to end within {} of its invoke; neither a stop of {client} nor one of the machine was in its way.",
            span(late.bound)
        ),
    ];
    steps.push(if late.given_up {
        format!(
            "But at {} it had not ended, and its caller gave up after {}.",
            exact(late.ret),
            span(took)
        )
    } else {
        format!(
            "But it took {}, which is more than that and {} for stalls and grain.",
            span(took),
            span(f.epsilon())
        )
    });
    steps
}

/// A lock that was free since `since` and refused all the same; `holder` was granted it last, `bound` is enough.
pub(crate) fn gap(f: &Facts, gap: &Gap, since: Ns, bound: Ns, holder: Option<u32>) -> Vec<String> {
    let key = f.names.text(gap.key);
    let model = f.model();
    let mut steps = vec![match holder {
        Some(i) => let_be(f, "A", i),
        None => format!("Let {key} be a lock that nobody was granted before."),
    }];
    if let Some(i) = holder {
        steps.push(format!("Then A was granted last before; {}.", ended(f, i)));
    }
    steps.push(format!(
        "Then from {} on nobody held {key}, no acquire of it was in doubt, and whatever stood in the way is accounted for. \
         Within the lease of {}, a pause of {} between two tries, and {} for stalls and grain, which are {} together, a \
         try is granted it.",
        exact(since),
        span(model.ttl_ms.unwrap_or(0).saturating_mul(1_000_000)),
        span(model.retry_ms.saturating_mul(1_000_000)),
        span(f.epsilon()),
        span(bound)
    ));
    steps.push(format!(
        "But the last of {} tries, invoked {} after that time, at {}, was refused at {}.",
        gap.tries,
        span(gap.last.0.saturating_sub(since)),
        exact(gap.last.0),
        exact(gap.last.1)
    ));
    steps
}

/// A call in vain, with what is wrong with it.
pub(crate) fn vain(f: &Facts, v: &Vain, what: &str) -> Vec<String> {
    let client = f.names.text(v.client);
    vec![
        format!(
            "Let C be the acquire of {} by {client}, invoked at {} and without the lock at {}.",
            f.names.text(v.key),
            exact(v.inv),
            exact(v.ret)
        ),
        "Then every fault in C's way was over by the time below; the tap shows each command of C, and the observer each \
         value on the servers."
            .to_owned(),
        format!("But {what}."),
    ]
}
