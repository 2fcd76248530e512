//! No command of one holder changes a key that carries another's grant.
//!
//! Owns the reading of `del` events against releases under way. What is certain: the key carried B's value, B still
//! held and had no release or extension at work (one that failed for certain did nothing), and another's release was
//! at work that did not remove that other's own value.
use super::{Answer, CheckInfo, exclusions, no_evidence};
use crate::analysis::{Analysis, Found, finding};
use crate::blame::{blamed, culprits};
use crate::facts::{Facts, seconds};
use crate::proof;
use crate::section::{Ended, NEVER};
use crate::servers::SeenKind;
use crate::unread::certain_label;
use crate::verdict::Class;
use std::collections::HashMap;

pub(super) const INFO: CheckInfo = CheckInfo {
    name: "ownership",
    class: Class::Library,
    about: "a command of one client deleted or re-timed a key that carried another's grant",
    invariant: "I4",
    run,
};

fn run(a: &mut Analysis) -> Answer {
    let mut found = exclusions(a, "ownership");
    if a.facts.model().observed {
        removals(a, &mut found);
    }
    Answer {
        found,
        unknown: no_evidence(a),
        note: None,
    }
}

/// Walks over all that was seen, knowing whose value each node's key carries.
fn removals(a: &Analysis, found: &mut Found) {
    let f = &a.facts;
    // The position of the `set` whose value the key carries, by node and key.
    let mut carried: HashMap<(u32, u32), u32> = HashMap::new();
    for (i, s) in (0u32..).zip(&f.servers.seen) {
        let place = (s.node, s.key);
        match s.kind {
            SeenKind::Set => {
                carried.insert(place, i);
            }
            SeenKind::Del => {
                if let Some(set) = carried.remove(&place)
                    && !a.explained.contains(&i)
                {
                    deleted(f, set, i, found);
                }
            }
            SeenKind::Expired | SeenKind::Evicted | SeenKind::Removed | SeenKind::Absent => {
                carried.remove(&place);
            }
            SeenKind::Flushed | SeenKind::Down | SeenKind::Restarted => {
                carried.retain(|place, _| place.0 != s.node);
            }
            // A replica re-times as late as its copy is.
            SeenKind::Expire if f.model().copies() => {}
            SeenKind::Expire => {
                if let Some(set) = carried.get(&place) {
                    retimed(f, *set, i, found);
                }
            }
            SeenKind::Value | SeenKind::Up | SeenKind::Promoted | SeenKind::Demoted => {}
        }
    }
}

/// The section whose value a `set` put there, if at the time of a later event that is certain, it still believed,
/// and no command of its own was at work.
fn certain_owner(f: &Facts, set: u32, event: u32) -> Option<u32> {
    let (s, e) = (f.servers.at(set), f.servers.at(event));
    let owner = f.owned_by(s.owner).filter(|_| certain_label(f, set))?;
    let b = f.section(owner);
    let (end, releasing) = if f.removed_nothing(b) {
        (b.over.min(b.release_ret), false)
    } else {
        (b.belief_end, b.releasing(e.not_before, e.at))
    };
    // A session has one value for all its attempts: an earlier one's key can have been deleted by its own clean-up.
    let session = b.start < b.inv;
    // So has a call that tries again inside, where it got too few of several nodes: what stood there must be of the attempt
    // that won, which began when the tap says, else at the call's end at the latest.
    let won = if b.quorum == NEVER { b.ret } else { b.start };
    let of_winner = f.model().nodes == 1 || s.not_before >= won || e.not_before >= won;
    let settled = b.key == s.key && b.start <= e.at && e.at < end && !session && of_winner;
    let busy = releasing
        || f.extensions_of(owner).iter().any(|x| {
            // An extension without an answer may still be under way.
            x.inv <= e.at && x.ret >= e.not_before
        });
    (settled && !busy).then_some(owner)
}

fn deleted(f: &Facts, set: u32, del: u32, found: &mut Found) {
    let Some(owner) = certain_owner(f, set, del) else {
        return;
    };
    let by = culprits(f, del, owner);
    let Some(blame) = blamed(f, &by) else {
        return;
    };
    found.add(None, || {
        let e = f.servers.at(del);
        let (b, key) = (f.section(owner), f.names.text(e.key));
        let a = f.section(by[0]);
        let lease = if a.promise_end < a.release_inv {
            format!(", whose promise had ended at {}", seconds(a.promise_end))
        } else {
            String::new()
        };
        let others = if by.len() > 1 {
            " (or of another whose release was under way)"
        } else {
            ""
        };
        let sentence = format!(
            "the release of A ({}){others}{lease}, begun at {}, deleted {key} on {} at {} while it carried the grant of B ({}), made at {}",
            f.names.text(a.client),
            seconds(a.release_inv),
            f.names.text(e.node),
            seconds(e.at),
            f.names.text(b.client),
            seconds(b.ret),
        );
        let mut sections = vec![by[0], owner];
        sections.extend(by.iter().skip(1).take(3));
        finding(f, "ownership", blame, e.at, &sections, sentence)
            .proved(proof::ownership::deleted(f, owner, set, del, &by))
    });
}

fn retimed(f: &Facts, set: u32, expire: u32, found: &mut Found) {
    let Some(owner) = certain_owner(f, set, expire) else {
        return;
    };
    let e = f.servers.at(expire);
    let b = f.section(owner);
    // Extensions of others that were confirmed around this very time.
    let by = f.extensions.iter().filter(|x| {
        let same_key = f.section(x.section).key == e.key;
        same_key
            && x.section != owner
            && x.ended == Ended::Ok
            && x.inv <= e.at
            && x.ret >= e.not_before
    });
    let by: Vec<u32> = by.map(|x| x.section).take(3).collect();
    let Some(blame) = blamed(f, &by) else {
        return;
    };
    found.add(None, || {
        let sentence = format!(
            "the extension of A ({}) re-timed {} on {} at {} while it carried the grant of B ({}), made at {}",
            f.names.text(f.section(by[0]).client),
            f.names.text(e.key),
            f.names.text(e.node),
            seconds(e.at),
            f.names.text(b.client),
            seconds(b.ret),
        );
        finding(f, "ownership", blame, e.at, &[by[0], owner], sentence)
            .proved(proof::ownership::retimed(f, owner, set, expire, by[0]))
    });
}
