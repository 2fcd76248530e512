//! The validity that a library claims: never more than the lease allows, never long after it, never far below it.
//!
//! Owns the rules that need no view of the wire: a claim above ℓ(L) is wrong whenever it is made.
use super::{Answer, CheckInfo};
use crate::analysis::{Analysis, Found, finding};
use crate::facts::{Facts, seconds};
use crate::names::NONE;
use crate::section::{NEVER, Section, usable};
use crate::verdict::{Blame, Class};

pub(super) const INFO: CheckInfo = CheckInfo {
    name: "validity",
    class: Class::Library,
    about: "a library claimed more of the lease than there is, or reported success after its end",
    invariant: "I2",
    run,
};

/// How much of a claim rounding may take or add: a library that counts in whole milliseconds.
const ROUNDING_MS: f64 = 1.0;

fn run(a: &mut Analysis) -> Answer {
    let f = &a.facts;
    if f.model().ttl_ms.is_none() {
        return Answer::unknown("the lock has no lease");
    }
    let mut found = Found::default();
    let mut claims = 0u64;
    for (i, s) in (0u32..).zip(&f.sections) {
        claims += u64::from(!s.validity_ms.is_nan());
        if let Some(what) = wrong(f, s) {
            let client = f.names.text(s.client);
            let blame = Blame::Library(client.to_owned());
            found.add(None, || {
                let key = f.names.text(s.key);
                let when = seconds(s.ret);
                let sentence = format!("A ({client}) was told ok for {key} at {when}: {what}");
                finding(f, "validity", blame, s.ret, &[i], sentence)
            });
        }
    }
    let unknown = if f.sections.is_empty() {
        Some("nothing was granted".to_owned())
    } else {
        (claims == 0).then(|| "the library claims no validity".to_owned())
    };
    Answer {
        found,
        unknown,
        note: None,
    }
}

/// What is wrong with the answer to a grant, if that is certain.
fn wrong(f: &Facts, s: &Section) -> Option<String> {
    let usable_ns = usable(s.lease, f.model());
    let usable_ms = usable_ns as f64 / 1e6;
    let (v, lease_ms) = (s.validity_ms, s.lease as f64 / 1e6);
    if v > usable_ms + ROUNDING_MS {
        return Some(format!(
            "it claims {v:.1} ms, but a lease of {lease_ms} ms is good for {usable_ms:.1} ms at most"
        ));
    }
    if v <= 0.0 {
        return Some(format!("success with a validity of {v:.1} ms"));
    }
    if let Some(what) = by_the_wire(s, usable_ns) {
        return Some(what);
    }
    let end = s.start.saturating_add(usable_ns);
    // Where a call tries again inside, only the wire knows when the try began that won: otherwise the lease's beginning is
    // the earliest one possible, and so its end.
    let known = !f.model().waits || s.quorum != NEVER;
    if known && end != NEVER && s.ret > end && stopped_across(f, s, end) {
        return Some(format!(
            "the lease had ended at {}, while the client was stopped, and the library did not look again",
            seconds(end)
        ));
    }
    // What is left at least, as far as the library can know; "far" below is half of it.
    let left_ms = usable_ms - (s.ret - s.start.min(s.inv)) as f64 / 1e6;
    (v < left_ms / 2.0 && left_ms > 20.0)
        .then(|| format!("it claims {v:.1} ms, but {left_ms:.1} ms were left"))
}

/// What the stamps of the tap say: the quorum was made no earlier than its reply passed, the lease began with the
/// first command of the attempt.
fn by_the_wire(s: &Section, usable_ns: u64) -> Option<String> {
    let end = s.start.saturating_add(usable_ns);
    if s.quorum == NEVER || end == NEVER {
        return None;
    }
    if s.quorum >= end {
        return Some(format!(
            "the reply that made its quorum came at {}, and the lease had ended at {}",
            seconds(s.quorum),
            seconds(end)
        ));
    }
    let claimed = s.quorum as f64 / 1e6 + s.validity_ms;
    let most = end as f64 / 1e6;
    (claimed > most + ROUNDING_MS).then(|| {
        format!(
            "it claims {:.1} ms from no earlier than {}, but the lease ends at {}",
            s.validity_ms,
            seconds(s.quorum),
            seconds(end)
        )
    })
}

/// Whether the client was proved stopped from before the lease's end until after it, inside the call, and a server had
/// its value before that end: a request that was written to a client already stopped is only begun afterwards.
fn stopped_across(f: &Facts, s: &Section, end: u64) -> bool {
    let mut sets = f.servers.sets_of(s.owner);
    let set_before = s.owner != NONE && sets.any(|i| f.servers.at(i).at <= end);
    if !set_before {
        return false;
    }
    let client = f.names.text(s.client);
    let mut pauses = f.faults.windows.iter().filter(|w| {
        w.kind == "client-pause" && (w.client.as_deref() == Some(client) || w.target == client)
    });
    pauses.any(|w| {
        w.stopped()
            .is_some_and(|(from, to)| s.inv <= from && from <= end && end <= to && to <= s.ret)
    })
}
