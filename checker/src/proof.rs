//! The proof of a finding, in steps that a reviewer can follow by hand: let A be …; then …; but ….
//!
//! Owns the wording and the arithmetic that it shows: here what all proofs share, and in a file each what one check
//! says. Must not know how findings are found. Goes into findings.
pub(crate) mod continuity;
pub(crate) mod deadlock;
pub(crate) mod effects;
pub(crate) mod fencing;
pub(crate) mod leak;
pub(crate) mod load;
pub(crate) mod minority;
pub(crate) mod notice;
pub(crate) mod overrun;
pub(crate) mod ownership;
pub(crate) mod progress;
pub(crate) mod service;
pub(crate) mod starvation;
pub(crate) mod truthful;
pub(crate) mod validity;

use crate::facts::{Facts, length};
use crate::section::{Ended, Extension, NEVER, Ns, Section, usable};
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
        "Let {label} be the hold of {} that {} asked for at {} and was granted at {}.",
        f.names.text(s.key),
        worker(f, s),
        exact(s.inv),
        exact(s.ret),
    )
}

/// What ended a hold, if anything did.
fn ended(f: &Facts, i: u32) -> String {
    let s = f.section(i);
    if s.hold_end() == NEVER {
        let mut failed = f.denied.iter().filter(|d| d.section == i);
        return match failed.next_back() {
            Some(last) => format!(
                "its release, invoked at {}, failed at {}, so the hold went on, and no end of it is known",
                exact(last.inv),
                exact(last.ret)
            ),
            None => "no release of it was begun, and no end of it is known".to_owned(),
        };
    }
    let at = exact(s.hold_end());
    let how = if s.release_inv <= s.over {
        match s.release {
            Ended::Ok => "its release was invoked",
            Ended::Info if s.release_ret != NEVER => {
                let last = exact(s.release_ret);
                let first = exact(s.release_inv);
                return format!(
                    "its release was invoked at {first}, and a later one was answered ok at {last}"
                );
            }
            _ => "its release, which may have taken effect, was invoked",
        }
    } else if s.died {
        "its client or thread ended"
    } else {
        "its worker was told of the loss, or let go"
    };
    format!("{how} at {at}")
}

/// The pieces of a promise, in order.
fn pieces(f: &Facts, i: u32) -> Vec<(Ns, Ns)> {
    let mut pieces = Vec::new();
    let mut s = f.section(i).clone();
    s.settle(i, f.extensions_of(i), f.model(), &mut pieces);
    pieces.iter().map(|p| (p.start, p.end)).collect()
}

/// `from X until Y`, and so on for each piece; `at no time` for none.
fn spans(pieces: &[(Ns, Ns)]) -> String {
    let all = pieces
        .iter()
        .map(|(start, end)| format!("from {} until {}", exact(*start), exact(*end)));
    let all: Vec<String> = all.collect();
    if all.is_empty() {
        "at no time".to_owned()
    } else {
        all.join(" and ")
    }
}

/// The extensions that moved a promise: how many, and the arithmetic of the last.
fn extended(f: &Facts, label: &str, i: u32) -> String {
    let extensions = f.extensions_of(i);
    let confirmed: Vec<&Extension> = extensions.iter().filter(|e| e.ended == Ended::Ok).collect();
    let Some(last) = confirmed.last() else {
        return String::new();
    };
    let which = match confirmed.len() {
        1 => format!("{label}'s extension"),
        n => format!("the last of {label}'s {n} extensions"),
    };
    format!(
        "; {which}, invoked at {} and answered ok at {}, is good until {}",
        exact(last.inv),
        exact(last.ret),
        exact(last.inv.saturating_add(usable(last.lease, f.model()))),
    )
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
            ended(f, i)
        );
    }
    let counted = exact(s.start.saturating_add(usable(s.lease, model)));
    let from = match s.start.cmp(&s.inv) {
        _ if s.quoted => format!("{}, the last confirmed keep-alive", exact(s.start)),
        Ordering::Equal => "the invoke".to_owned(),
        Ordering::Less => exact(s.start),
        Ordering::Greater if s.quorum != NEVER => format!(
            "the first command of the attempt that won, at {}",
            exact(s.start)
        ),
        Ordering::Greater => format!(
            "{}, before which no server had its value, or it was granted inside of another's promise",
            exact(s.start)
        ),
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
        "Then {label} was promised the lock {}: its lease of {} less {} % and {} ms, counted from \
         {from}, ends at {counted}{claim}{}; {}.",
        spans(&pieces(f, i)),
        length(s.lease),
        model.drift * 100.0,
        model.floor_ms,
        extended(f, label, i),
        ended(f, i),
    )
}

/// `c1`, with all that tells it from others.
fn worker(f: &Facts, s: &Section) -> String {
    format!(
        "{} (worker {}, process {})",
        f.names.text(s.client),
        s.worker,
        s.process
    )
}

/// A length of time to the nanosecond, without needless zeros: `12.5 ms`.
fn span(ns: Ns) -> String {
    format!("{} ms", ns as f64 / 1e6)
}
