//! The validity that a library claims: never more than the lease allows, never long after it, never far below it.
//!
//! Owns the rules that need no view of the wire: a claim above ℓ(L) is wrong whenever it is made.
use super::{Answer, CheckInfo};
use crate::analysis::{Analysis, Found, finding};
use crate::facts::{Facts, seconds};
use crate::faults::Window;
use crate::names::NONE;
use crate::proof;
use crate::section::{NEVER, Ns, Section, usable};
use crate::verdict::{Blame, Class};

pub(super) const INFO: CheckInfo = CheckInfo {
    name: "validity",
    class: Class::Library,
    about: "a library claimed more of the lease than there is or far less, or reported success after its end",
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
        if let Some(wrong) = wrong(f, s) {
            let client = f.names.text(s.client);
            let blame = Blame::Library(client.to_owned());
            found.add(None, || {
                let key = f.names.text(s.key);
                let when = seconds(s.ret);
                let what = wrong.what(s);
                let sentence = format!("A ({client}) was told ok for {key} at {when}: {what}");
                finding(f, "validity", blame, s.ret, &[i], sentence)
                    .of_kind(wrong.kind(s))
                    .proved(proof::validity::validity(f, i, wrong))
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

/// What is wrong with the answer to a grant. Times in ms.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wrong {
    /// The claim is above what a lease is good for.
    TooMuch { usable_ms: f64 },
    /// The claim is nothing, or less.
    Nothing,
    /// The tap saw the reply that made the quorum at or after the lease's end.
    LateQuorum { end: Ns },
    /// Counted from that reply, the claim goes on past the lease's end.
    PastEnd { end: Ns },
    /// The lease ended while the client was proved stopped.
    Stopped { end: Ns, from: Ns, to: Ns },
    /// The claim is far below what was left.
    TooLittle { left_ms: f64 },
}

impl Wrong {
    /// As [`Finding::kind`](crate::Finding::kind) names it.
    fn kind(self, s: &Section) -> &'static str {
        match self {
            Self::TooMuch { .. } if beyond_lease(s) => "beyond-lease",
            Self::TooMuch { .. } => "too-long",
            Self::Nothing => "nothing-left",
            Self::LateQuorum { .. } => "late-quorum",
            Self::PastEnd { .. } => "past-end",
            Self::Stopped { .. } => "stopped",
            Self::TooLittle { .. } => "too-short",
        }
    }

    fn what(self, s: &Section) -> String {
        let v = s.validity_ms;
        let lease_ms = s.lease as f64 / 1e6;
        match self {
            Self::TooMuch { .. } if beyond_lease(s) => {
                format!("it claims {v:.1} ms, more than the whole lease of {lease_ms} ms")
            }
            Self::TooMuch { usable_ms } => format!(
                "it claims {v:.1} ms, but a lease of {lease_ms} ms is good for {usable_ms:.1} ms at most"
            ),
            Self::Nothing => format!("success with a validity of {v:.1} ms"),
            Self::LateQuorum { end } => format!(
                "the reply that made its quorum came at {}, and the lease had ended at {}",
                seconds(s.quorum),
                seconds(end)
            ),
            Self::PastEnd { end } => format!(
                "it claims {v:.1} ms from no earlier than {}, but the lease ends at {}",
                seconds(s.quorum),
                seconds(end)
            ),
            Self::Stopped { end, .. } => format!(
                "the lease had ended at {}, while the client was stopped, and the library did not look again",
                seconds(end)
            ),
            Self::TooLittle { left_ms } => {
                format!("it claims {v:.1} ms, but {left_ms:.1} ms were left")
            }
        }
    }
}

/// More than the whole lease is no allowance for drift left out: it counted wrongly.
fn beyond_lease(s: &Section) -> bool {
    s.validity_ms > s.lease as f64 / 1e6 + ROUNDING_MS
}

/// What is wrong with the answer to a grant, if that is certain.
pub(crate) fn wrong(f: &Facts, s: &Section) -> Option<Wrong> {
    let usable_ns = usable(s.lease, f.model());
    let usable_ms = usable_ns as f64 / 1e6;
    let v = s.validity_ms;
    if v > usable_ms + ROUNDING_MS {
        return Some(Wrong::TooMuch { usable_ms });
    }
    if v <= 0.0 {
        return Some(Wrong::Nothing);
    }
    if let Some(wrong) = by_the_wire(s, usable_ns) {
        return Some(wrong);
    }
    let end = s.start.saturating_add(usable_ns);
    // Where a call tries again inside, only the wire knows when the try began that won; and the keep-alive of a session was
    // sent at or after the tick that it quotes. Elsewhere the lease's beginning is the earliest one possible, and so its end.
    let known = (!f.model().waits || s.quorum != NEVER) && !s.quoted;
    if known
        && end != NEVER
        && s.ret > end
        && let Some((from, to)) = stopped_across(f, s, end)
    {
        return Some(Wrong::Stopped { end, from, to });
    }
    // What is left at least, as far as the library can know; "far" below is half of it.
    let left_ms = usable_ms - (s.ret - s.start.min(s.inv)) as f64 / 1e6;
    (v < left_ms / 2.0 && left_ms > 20.0).then_some(Wrong::TooLittle { left_ms })
}

/// What the stamps of the tap say: the quorum was made no earlier than its reply passed, the lease began with the
/// first command of the attempt.
fn by_the_wire(s: &Section, usable_ns: u64) -> Option<Wrong> {
    let end = s.start.saturating_add(usable_ns);
    if s.quorum == NEVER || end == NEVER {
        return None;
    }
    if s.quorum >= end {
        return Some(Wrong::LateQuorum { end });
    }
    let claimed = s.quorum as f64 / 1e6 + s.validity_ms;
    let most = end as f64 / 1e6;
    (claimed > most + ROUNDING_MS).then_some(Wrong::PastEnd { end })
}

/// When the client was proved stopped, from before the lease's end until after it, inside the call, and a server had
/// its value before that end, if it was: a request that was written to a client already stopped is only begun afterwards.
fn stopped_across(f: &Facts, s: &Section, end: Ns) -> Option<(Ns, Ns)> {
    let mut sets = f.servers.sets_of(s.owner);
    let set_before = s.owner != NONE && sets.any(|i| f.servers.at(i).at <= end);
    if !set_before {
        return None;
    }
    let client = f.names.text(s.client);
    let pauses = f.faults.windows.iter().filter(|w| {
        w.kind == "client-pause" && (w.client.as_deref() == Some(client) || w.target == client)
    });
    let mut stops = pauses.filter_map(Window::stopped);
    stops.find(|(from, to)| s.inv <= *from && *from <= end && end <= *to && *to <= s.ret)
}
