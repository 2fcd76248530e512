//! Why two promises at once, a try in vain and a stranger's release are violations.
//!
//! Owns the wording. Must not know how they were found.
use super::{ended, exact, let_be, pieces, promised};
use crate::analysis::label;
use crate::facts::{Facts, Stranger, Try, length};
use crate::model::LockKind;
use crate::section::{NEVER, Ns};
use crate::sweep::Pair;

/// Other holders of a semaphore that a proof names.
const OTHERS_MAX: usize = 6;

/// Two promises at once. `unread` is who wrote what was gone before it was read, and the position of that `set`, where
/// the cause rests on it.
pub(crate) fn exclusion(
    f: &Facts,
    pair: Pair,
    why: &str,
    unread: Option<(String, u32)>,
) -> Vec<String> {
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
    if let Some((who, set)) = unread {
        let e = f.servers.at(set);
        steps.push(format!(
            "A value was set on {} between {} and {} and was gone before it was read. It was {who}'s: {who}'s must have \
             been set there before its answer, nothing else was set meanwhile whose value is not known, and no other acquire \
             can have set it.",
            f.names.text(e.node),
            exact(e.not_before),
            exact(e.at)
        ));
    }
    let others = others(f, pair);
    for (n, i) in others.iter().take(OTHERS_MAX).enumerate() {
        let label = label(n + 2);
        steps.push(let_be(f, &label, *i));
        steps.push(promised(f, &label, *i));
    }
    let more = others.len().saturating_sub(OTHERS_MAX);
    if more > 0 {
        steps.push(format!("And so {more} more held at {}.", exact(pair.from)));
    }
    let who = match f.model().kind {
        LockKind::Semaphore => format!(
            "But all {} are so at {}, and only {} may hold",
            others.len() + 2,
            exact(pair.from),
            f.model().permits
        ),
        _ => format!(
            "But both are so from {} until {}, and only one may hold",
            exact(pair.from),
            exact(pair.to)
        ),
    };
    steps.push(format!("{who}: {why}."));
    steps
}

/// Who else held permits of a semaphore when the two did.
pub(crate) fn others(f: &Facts, pair: Pair) -> Vec<u32> {
    if f.model().kind != LockKind::Semaphore {
        return Vec::new();
    }
    let key = f.section(pair.a).key;
    let held = |i: u32| {
        let pieces = pieces(f, i);
        pieces.iter().any(|p| p.0 <= pair.from && pair.from < p.1)
    };
    let granted = f.granted_in(key, 0, pair.from).iter().copied();
    let others = granted.filter(|i| *i != pair.a && *i != pair.b);
    others.filter(|i| held(*i)).collect()
}

/// A try that was told "held" though nobody can have held: not from `around.0` until `around.1`. `beside` are the
/// grants before and after it.
pub(crate) fn in_vain(
    f: &Facts,
    t: &Try,
    around: (Ns, Ns),
    beside: (Option<u32>, Option<u32>),
) -> Vec<String> {
    let key = f.names.text(t.key);
    let mut steps = Vec::new();
    for (label, section) in ["A", "B"].iter().zip([beside.0, beside.1].iter().flatten()) {
        steps.push(let_be(f, label, *section));
    }
    steps.push(format!(
        "Let T be the try of {}, invoked at {} and answered \"held\" at {}.",
        f.names.text(t.client),
        exact(t.inv),
        exact(t.ret)
    ));
    let before = match (around.0, beside.0) {
        (0, _) => {
            format!("Then nobody can have held {key} before T: no acquire was invoked by then")
        }
        (end, Some(section)) => format!(
            "Then A and whoever held {key} before it had let go by {}: {}",
            exact(end),
            ended(f, section)
        ),
        (end, None) => format!(
            "Then whoever held {key} before T had let go by {}",
            exact(end)
        ),
    };
    let after = match (around.1, beside.1) {
        (NEVER, _) => "and nobody asked for it afterwards".to_owned(),
        (at, _) => format!("and the next that can have got it asked at {}", exact(at)),
    };
    steps.push(format!(
        "{before}, {after}; acquires and releases without a definite answer are counted as holds."
    ));
    steps.push(
        "But T is wholly between the two: the lock was free all through it, and should have been granted.".to_owned(),
    );
    steps
}

/// An ok release by a worker that held nothing.
pub(crate) fn stranger(f: &Facts, s: &Stranger) -> Vec<String> {
    let client = f.names.text(s.client);
    vec![
        format!(
            "Let R be the release of {} by {client} (process {}), invoked at {} and answered ok at {}.",
            f.names.text(s.key),
            s.process,
            exact(s.inv),
            exact(s.ret)
        ),
        format!(
            "Then {client} had been granted nothing that it had not released, and none of its acquires is in doubt."
        ),
        "But a lock that knows its owner answers ok to its owner only.".to_owned(),
    ]
}
