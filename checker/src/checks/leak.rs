//! Keys that stay: without a time to live, or longer than their lease.
//!
//! Owns the reading of times to live. A lock may set its time to live in a second step, so a key without one counts
//! only when it is read again. A key that was set late (by a server that had been stopped) has its full lease from
//! then on: its command was under way until then, and that is excepted.
use super::{Answer, CheckInfo, no_evidence};
use crate::analysis::{Analysis, Found, finding_on};
use crate::facts::{Facts, Vain, seconds};
use crate::names::NONE;
use crate::outage::{Outage, Past, counted_anew, outage};
use crate::proof::{self, leak::Stayed};
use crate::section::{NEVER, Ns};
use crate::servers::{Seen, SeenKind};
use crate::verdict::{Blame, Class};
use std::collections::HashMap;

pub(super) const INFO: CheckInfo = CheckInfo {
    name: "leak",
    class: Class::Liveness,
    about: "a lock key was left without time to live, or outlived its lease",
    invariant: "I5",
    run,
};

/// What is known of a value on a node.
#[derive(Debug, Clone, Copy)]
struct Key {
    owner: u32,
    /// When it was set or re-timed for the last time.
    timed: Ns,
    /// It was seen without a time to live since then.
    endless: bool,
    reported: bool,
}

fn run(a: &mut Analysis) -> Answer {
    let f = &a.facts;
    let mut found = Found::default();
    let mut keys: HashMap<(u32, u32), Key> = HashMap::new();
    for s in &f.servers.seen {
        let place = (s.node, s.key);
        match s.kind {
            SeenKind::Set | SeenKind::Expire => {
                let before = keys.get(&place).copied();
                // A key keeps its value when it is re-timed.
                let kept = before.filter(|_| s.kind == SeenKind::Expire && s.owner == NONE);
                let owner = kept.map_or(s.owner, |k| k.owner);
                let set = Key {
                    owner,
                    timed: s.at,
                    endless: s.pttl_ms == -1,
                    reported: before.is_some_and(|k| k.reported && k.owner == owner),
                };
                keys.insert(place, set);
            }
            SeenKind::Value => {
                if let Some(k) = keys.get_mut(&place).filter(|k| k.owner == s.owner) {
                    read(f, k, s, &mut found);
                }
            }
            SeenKind::Del
            | SeenKind::Expired
            | SeenKind::Evicted
            | SeenKind::Removed
            | SeenKind::Absent => {
                keys.remove(&place);
            }
            // What was set meanwhile is not known; the next `set` begins anew.
            SeenKind::Flushed | SeenKind::Down | SeenKind::Restarted => {
                keys.retain(|place, _| place.0 != s.node);
            }
            SeenKind::Up | SeenKind::Promoted | SeenKind::Demoted => {}
        }
    }
    abandoned(f, &mut found);
    let cut = (!f.ended).then(|| "the history ends before the final reads".to_owned());
    Answer {
        found,
        unknown: no_evidence(a).or(cut),
        note: None,
    }
}

/// Values of tries in vain that stayed on some of several servers, and that their client, by the tap, never tried to
/// take back: whoever fails to get a majority must give back what it got.
fn abandoned(f: &Facts, found: &mut Found) {
    if f.model().nodes <= 1 || f.wire.is_empty() || !f.model().observed {
        return;
    }
    for v in &f.vain {
        let late = v.ret.saturating_add(f.epsilon());
        // A node that is lost, or a link that is cut, takes the clean-up there along, and nothing elsewhere.
        let span = (v.inv, late);
        // That nothing was sent in all of the run no stall explains.
        let past = Past::StallsAnd("message");
        let Outage::Nodes(lost) = outage(f, Some(v.client), span, past) else {
            continue;
        };
        let sets = f.servers.between(v.key, v.inv, v.ret);
        let sets = sets.map(|i| f.servers.at(i));
        let mut owners: Vec<u32> = sets
            .filter(|s| s.kind == SeenKind::Set && s.owner != NONE)
            .map(|s| s.owner)
            .filter(|owner| f.owned_by(*owner).is_none())
            .collect();
        owners.sort_unstable();
        owners.dedup();
        for owner in owners {
            let sent = f.wire.carried(v.client, owner);
            let stays = f.servers.stays(v.key, owner, v.ret);
            let left = stays.iter().filter(|stay| {
                let gone = stay.loss.map(|l| f.servers.at(l.seen).not_before);
                let once = sent.iter().filter(|n| **n == stay.node).count() == 1;
                once && gone.is_none_or(|at| at > late)
            });
            let left = left.map(|stay| stay.node);
            let left: Vec<u32> = left
                .filter(|node| !lost.contains(&f.names.text(*node)))
                .collect();
            if !left.is_empty() {
                report_abandoned(f, v, &left, late, found);
            }
        }
    }
}

fn report_abandoned(f: &Facts, v: &Vain, left: &[u32], late: Ns, found: &mut Found) {
    let client = f.names.text(v.client);
    let key = f.names.text(v.key);
    found.add(None, || {
        let nodes: Vec<&str> = left.iter().map(|n| f.names.text(*n)).collect();
        let sentence = format!(
            "{client} did not get {key} at {}, left its value on {}, and never tried to take it back",
            seconds(v.ret),
            nodes.join(", ")
        );
        let blame = Blame::Library(client.to_owned());
        let span = (v.inv, v.ret);
        finding_on(f, "leak", blame, v.key, span, &[], sentence)
            .proved(proof::leak::abandoned(f, v, left, late))
    });
}

/// A value was read again after it was set.
fn read(f: &Facts, k: &mut Key, s: &Seen, found: &mut Found) {
    if k.reported || s.not_before <= k.timed {
        return;
    }
    let owner = f.owned_by(s.owner);
    let endless = s.pttl_ms == -1;
    let (what, how) = if endless {
        if !k.endless {
            k.endless = true;
            return;
        }
        (
            "without a time to live: if its holder dies, nothing removes it".to_owned(),
            Stayed::Endless,
        )
    } else {
        let lease = owner.map_or(NEVER, |i| f.section(i).lease);
        let lease = f
            .model()
            .ttl_ms
            .map_or(lease, |ms| lease.min(ms.saturating_mul(1_000_000)));
        let asked = owner
            .into_iter()
            .flat_map(|i| f.extensions_of(i))
            .map(|e| e.lease);
        let lease = if lease == NEVER {
            NEVER
        } else {
            asked.fold(lease, Ns::max)
        };
        let drift = (lease as f64 * f.model().drift) as Ns;
        // While a fault goes on, a new leader may come at any time.
        let anew = counted_anew(f, k.timed, s.not_before, |_| s.not_before);
        let bound = anew
            .saturating_add(lease)
            .saturating_add(drift)
            .saturating_add(f.epsilon());
        if s.not_before <= bound {
            return;
        }
        (
            format!(
                "though its lease was over by {} at the latest",
                seconds(bound)
            ),
            Stayed::Beyond { lease, anew, bound },
        )
    };
    let timed = k.timed;
    k.reported = true;
    let sections: Vec<u32> = owner.into_iter().collect();
    let by = owner.map(|i| f.names.text(f.section(i).client));
    found.add(None, || {
        let whose = by.map_or("a value of no known grant".to_owned(), |c| {
            format!("the value of A ({c})")
        });
        let sentence = format!(
            "{} on {} still carried {whose} at {}, {what}",
            f.names.text(s.key),
            f.names.text(s.node),
            seconds(s.at)
        );
        // The one that set it without a time to live is at fault; why a time to live was not kept, no event tells.
        let blame = by.filter(|_| endless);
        let blame = blame.map_or(Blame::Unknown, |c| Blame::Library(c.to_owned()));
        finding_on(f, "leak", blame, s.key, (timed, s.at), &sections, sentence)
            .proved(proof::leak::leak(f, owner, timed, s, how))
    });
}
