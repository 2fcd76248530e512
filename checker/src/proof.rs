//! The proof of a finding, in steps that a reviewer can follow by hand: let A be …; then …; but ….
//!
//! Owns the wording and the arithmetic that it shows. Must not know how findings are found. Goes into findings.
use crate::facts::{Facts, length};
use crate::section::{Ended, NEVER, Ns, Section, usable};
use crate::sweep::Pair;
use std::cmp::Ordering;

/// A time to the nanosecond, without needless zeros: `1.2040015 s`.
fn exact(ns: Ns) -> String {
    if ns == NEVER {
        return "the end".to_owned();
    }
    let rest = format!("{:09}", ns % 1_000_000_000);
    let rest = rest.trim_end_matches('0');
    let digits = if rest.len() < 3 {
        format!("{rest:0<3}")
    } else {
        rest.to_owned()
    };
    format!("{}.{digits} s", ns / 1_000_000_000)
}

/// Who a section is.
fn let_be(f: &Facts, label: &str, i: u32) -> String {
    let s = f.section(i);
    format!(
        "Let {label} be the hold of {} that {} (worker {}, process {}) asked for at {} and was granted at {}.",
        f.names.text(s.key),
        f.names.text(s.client),
        s.worker,
        s.process,
        exact(s.inv),
        exact(s.ret),
    )
}

/// What ended a hold, if anything did.
fn ended(s: &Section) -> String {
    if s.hold_end() == NEVER {
        return "no release of it was begun, and no end of it is known".to_owned();
    }
    let at = exact(s.hold_end());
    let how = if s.release_inv <= s.over {
        match s.release {
            Ended::Ok => "its release was invoked",
            _ => "its release, which may have taken effect, was invoked",
        }
    } else if s.died {
        "its client died"
    } else {
        "its worker was told of the loss, or let go"
    };
    format!("{how} at {at}")
}

/// Until when a promise lasted, and why.
fn promised(f: &Facts, label: &str, i: u32) -> String {
    let (s, model) = (f.section(i), f.model());
    if s.lease == NEVER {
        return format!(
            "Then {label} held from {} until {} in every order in which the operations can have taken effect: \
             it was granted by then, and {}.",
            exact(s.ret),
            exact(s.belief_end),
            ended(s)
        );
    }
    let counted = exact(s.start.saturating_add(usable(s.lease, model)));
    let from = match s.start.cmp(&s.inv) {
        Ordering::Equal => "the invoke".to_owned(),
        Ordering::Less => format!("{}, the last confirmed keep-alive", exact(s.start)),
        Ordering::Greater if s.quorum != NEVER => format!(
            "the first command of the attempt that won, at {}",
            exact(s.start)
        ),
        Ordering::Greater => format!(
            "{}, before which no server had its value, or it was granted inside of another's promise",
            exact(s.start)
        ),
    };
    let extended = f.extensions_of(i).len();
    let more = match extended {
        0 => String::new(),
        n => format!(", moved by {n} extensions, each counted from its own invoke"),
    };
    let claim = if s.validity_ms.is_nan() {
        String::new()
    } else {
        format!(
            ", and the library claimed {} ms from the answer on",
            s.validity_ms
        )
    };
    format!(
        "Then {label} was promised the lock from {} until {}: its lease of {} less {} % and {} ms, counted from \
         {from}, ends at {counted}{claim}{more}; {}.",
        exact(s.ret),
        exact(s.promise_end),
        length(s.lease),
        model.drift * 100.0,
        model.floor_ms,
        ended(s),
    )
}

/// Two promises at once.
pub(crate) fn exclusion(f: &Facts, pair: Pair, why: &str) -> Vec<String> {
    let u = f.uncertainty();
    let mut steps = vec![
        let_be(f, "A", pair.a),
        promised(f, "A", pair.a),
        let_be(f, "B", pair.b),
        promised(f, "B", pair.b),
    ];
    if u > 0 {
        steps.push(format!(
            "The clocks may be {} off, so that much is taken from both ends of each.",
            length(u)
        ));
    }
    steps.push(format!(
        "But both are so from {} until {}, and only one may hold: {why}.",
        exact(pair.from),
        exact(pair.to)
    ));
    steps
}

/// A holder that went on past its lease.
pub(crate) fn overrun(f: &Facts, pair: Pair) -> Vec<String> {
    let (a, b) = (f.section(pair.a), f.section(pair.b));
    vec![
        let_be(f, "A", pair.a),
        promised(f, "A", pair.a),
        format!(
            "Then from there on A could count on nothing, but it went on until {}: {}.",
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

/// A try that was told "held" though nobody can have held.
pub(crate) fn in_vain(
    key: &str,
    client: &str,
    (inv, ret): (Ns, Ns),
    around: (Ns, Ns),
) -> Vec<String> {
    let before = if around.0 == 0 {
        format!("Then nobody can have held {key} before the try: no acquire was invoked")
    } else {
        format!(
            "Then whoever held {key} before had let go by {}, when the last of their releases returned",
            exact(around.0)
        )
    };
    let after = if around.1 == NEVER {
        "and nobody asked for it afterwards".to_owned()
    } else {
        format!(
            "and the next that can have got it asked at {}",
            exact(around.1)
        )
    };
    vec![
        format!("Let T be the try of {client}, invoked at {} and answered \"held\" at {}.", exact(inv), exact(ret)),
        format!("{before}, {after}; acquires and releases without a definite answer are counted as holds."),
        "But T is wholly between the two: the lock was free all through it, and should have been granted.".to_owned(),
    ]
}

/// An ok release by a worker that held nothing.
pub(crate) fn stranger(key: &str, client: &str, (inv, ret): (Ns, Ns)) -> Vec<String> {
    vec![
        format!(
            "Let R be the release of {key} by {client}, invoked at {} and answered ok at {}.",
            exact(inv),
            exact(ret)
        ),
        format!(
            "Then {client} had been granted nothing that it had not released, and none of its acquires is in doubt."
        ),
        "But a lock that knows its owner can only answer ok to its owner.".to_owned(),
    ]
}
