//! After holders crashed and faults are healed, someone acquires: within TTL + retry + ε.
//!
//! Owns the judgement of the quiet tail, key by key. Without a lease there is no TTL to wait for, and the bound is
//! retry + ε.
use super::{Answer, CheckInfo};
use crate::analysis::{Analysis, Found, finding_on};
use crate::facts::{Facts, Tail, length, seconds};
use crate::names::Name;
use crate::proof;
use crate::section::{NEVER, Ns};
use crate::verdict::{Blame, Class};

pub(super) const INFO: CheckInfo = CheckInfo {
    name: "deadlock",
    class: Class::Liveness,
    about: "after holders crashed and faults were healed, nobody could acquire the lock any more",
    invariant: "I8",
    run,
};

fn run(a: &mut Analysis) -> Answer {
    let f = &a.facts;
    if !f.ended {
        return Answer::unknown("the history ends before its end phase");
    }
    if f.tail_from.is_none() {
        return Answer::unknown("the history has no tail");
    }
    if !f.faults.all_healed() {
        return Answer::unknown("not every fault is proved to be healed");
    }
    if f.proxy_lost {
        return Answer::unknown("Toxiproxy was lost, and with it every way to the servers");
    }
    if f.server_lost {
        return Answer::unknown("a server was lost by no fault of the run");
    }
    let mut found = Found::default();
    let mut short = 0u64;
    let mut seen = 0u64;
    let mut keys: Vec<(&Name, &Tail)> = f.tails.iter().collect();
    keys.sort_unstable_by_key(|k| k.0);
    for (key, tail) in keys {
        // An account of a time before the last fault was gone says nothing.
        if Some(tail.epoch) != f.tail_from {
            continue;
        }
        seen += 1;
        if tail.granted.is_some() {
            continue;
        }
        match stuck(f, *key, tail) {
            Stuck::Yes {
                since,
                until,
                holder,
            } => {
                report(f, *key, tail, (since, until), holder, &mut found);
            }
            Stuck::TooShort => short += 1,
            Stuck::Held => {}
        }
    }
    let unknown = if seen == 0 {
        Some("nobody tried to acquire in the tail".to_owned())
    } else {
        (short > 0).then(|| format!("the tail is too short to say for {short} keys"))
    };
    Answer {
        found,
        unknown,
        note: None,
    }
}

enum Stuck {
    /// Tried in vain from `since` to `until`; the last section is `holder`.
    Yes {
        since: Ns,
        until: Ns,
        holder: Option<u32>,
    },
    TooShort,
    /// A live holder still believes.
    Held,
}

/// TTL + retry + ε: how long a lock may be out of reach once its last holder is gone and nothing is wrong.
pub(super) fn bound(f: &Facts) -> Ns {
    let model = f.model();
    let ttl = model.ttl_ms.unwrap_or(0);
    (ttl.saturating_add(model.retry_ms))
        .saturating_mul(1_000_000)
        .saturating_add(f.epsilon())
}

fn stuck(f: &Facts, key: Name, tail: &Tail) -> Stuck {
    let holders = f.granted_in(key, 0, tail.epoch);
    let ends = holders.iter().map(|i| f.section(*i).belief_end);
    let since = ends.fold(tail.epoch, Ns::max);
    if since == NEVER {
        return Stuck::Held;
    }
    let Some((_, until)) = tail.last_denied.filter(|_| tail.tries > 0) else {
        return Stuck::TooShort;
    };
    if until < since.saturating_add(bound(f)) {
        return Stuck::TooShort;
    }
    let holder = holders.iter().copied().max_by_key(|i| f.section(*i).ret);
    Stuck::Yes {
        since,
        until,
        holder,
    }
}

fn report(
    f: &Facts,
    key: Name,
    tail: &Tail,
    (since, until): (Ns, Ns),
    holder: Option<u32>,
    found: &mut Found,
) {
    let sections: Vec<u32> = holder.into_iter().collect();
    found.add(None, || {
        let last = holder.map_or(String::new(), |i| {
            let s = f.section(i);
            let client = f.names.text(s.client);
            let how = if s.died {
                format!(", who died at {}", seconds(s.over))
            } else {
                format!(", until {}", seconds(s.belief_end))
            };
            format!(" after A ({client}){how}")
        });
        let sentence = format!(
            "nobody was granted {} any more{last}: all {} tries from {} to {} failed, though lease and retry take {} at most",
            f.names.text(key),
            tail.tries,
            seconds(since),
            seconds(until),
            length(bound(f)),
        );
        let proof = proof::deadlock::deadlock(f, key, tail, (since, until), bound(f), holder);
        let span = (since, until);
        finding_on(
            f,
            "deadlock",
            Blame::Unknown,
            key,
            span,
            &sections,
            sentence,
        )
        .proved(proof)
    });
}
