//! Why two promises overlapped, from what was seen on the servers; never from the plan.
//!
//! Owns the search for a cause. Must not know counts, expectations or how findings are kept. Causes go to
//! `analysis` (exclusions) and to the check `ownership`.
//!
//! The rule. `service`: the key left a server by restart, flush, eviction, or before its time, or another node was
//! promoted that did not have it. `library` of a
//! client: it never had the key on a quorum (`truthful`), its command removed or overwrote another's key
//! (`ownership`), or it counted an extension that no server applied (`continuity`). Otherwise the blame is
//! unknown, and the exclusion stands under `service`.
use crate::facts::{Facts, length, seconds};
use crate::names::{NONE, Name};
use crate::section::{Ended, Extension, NEVER, usable};
use crate::servers::{How, Loss, SeenKind, Stay};
use crate::unread::{self, may_have_had};
use crate::verdict::Blame;

/// The cause of one exclusion.
#[derive(Debug, Clone)]
pub(crate) struct Cause {
    /// The check under which it is reported.
    pub check: &'static str,
    pub blame: Blame,
    pub why: Why,
    /// The event that shows it, as a position in `Servers::seen`.
    pub seen: Option<u32>,
    /// Sections beside the two, whose commands did it.
    pub culprits: Vec<u32>,
}

/// What happened to the first holder's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// `victim`'s value left a node like this.
    Lost { victim: u32, how: How },
    /// A node that did not have `victim`'s value was promoted and took `next`'s.
    Promoted { victim: u32, next: u32 },
    /// `section` never had its value on a quorum, only on this many nodes at most.
    NeverHad { section: u32, nodes: usize },
    /// `section` counted an extension that the node never applied.
    NotExtended { section: u32 },
    /// `section`'s own extension, one that failed or that no quorum applied, took the key away.
    OwnExtend { section: u32 },
    /// `section`'s value is that of several attempts of its worker, and an earlier one's command removed it.
    Reused { section: u32 },
    /// Nothing was seen that explains it.
    NoEvidence,
}

impl Cause {
    fn unknown() -> Self {
        Self {
            check: "service",
            blame: Blame::Unknown,
            why: Why::NoEvidence,
            seen: None,
            culprits: Vec::new(),
        }
    }

    fn library(f: &Facts, check: &'static str, section: u32, why: Why, seen: Option<u32>) -> Self {
        let client = f.names.text(f.section(section).client).to_owned();
        Self {
            check,
            blame: Blame::Library(client),
            why,
            seen,
            culprits: Vec::new(),
        }
    }

    /// Whose loss it is, and the position of the `set` that wrote the value, where that is known though it was not read.
    pub(crate) fn unread(&self, f: &Facts) -> Option<(u32, u32)> {
        let (Why::Lost { victim, .. }, Some(seen)) = (self.why, self.seen) else {
            return None;
        };
        let lost = f.servers.at(seen);
        let mut sets = unread::sets(f, victim).into_iter();
        let set = sets.find(|i| f.servers.at(*i).node == lost.node)?;
        Some((victim, set))
    }
}

/// The cause of the overlap of the promises of `a` and `b`.
pub(crate) fn cause(f: &Facts, a: u32, b: u32) -> Cause {
    let (sa, sb) = (f.section(a), f.section(b));
    if !f.model().observed || sa.owner == NONE || sb.owner == NONE {
        return Cause::unknown();
    }
    for s in [a, b] {
        if let Some(nodes) = never_had(f, s) {
            let why = Why::NeverHad { section: s, nodes };
            return Cause::library(f, "truthful", s, why, None);
        }
    }
    let of_a = unread::stays(f, a);
    let of_b = unread::stays(f, b);
    if let Some(found) = promoted(f, (a, &of_a), (b, &of_b)) {
        return found;
    }
    let mut best: Option<(u8, Cause)> = None;
    for x in &of_a {
        for y in of_b.iter().filter(|y| y.node == x.node) {
            // Whose value stood there first is the victim.
            let (victim, stay, next, set) = if x.set < y.set {
                (a, x, b, y.set)
            } else {
                (b, y, a, x.set)
            };
            let Some(loss) = stay.loss.filter(|l| l.seen <= set) else {
                continue;
            };
            let found = loss_cause(f, victim, next, loss);
            let rank = match &found.blame {
                Blame::Service => 0,
                Blame::Library(_) | Blame::Client(_) => 1,
                Blame::Unknown => 2,
            };
            if best.as_ref().is_none_or(|b| rank < b.0) {
                best = Some((rank, found));
            }
        }
    }
    let lone = || lone_loss(f, a, b, &of_a);
    best.map(|b| b.1)
        .or_else(lone)
        .unwrap_or_else(Cause::unknown)
}

/// A node was promoted without the value of one of the two, and has the value of the other: either the first was never
/// copied there, or it was granted by the old primary, which still took itself for one.
fn promoted(f: &Facts, a: (u32, &[Stay]), b: (u32, &[Stay])) -> Option<Cause> {
    let last = f.section(a.0).ret.max(f.section(b.0).ret);
    for p in f.servers.promotions(0, last) {
        let node = f.servers.at(p).node;
        for ((victim, stays), (next, others)) in [(a, b), (b, a)] {
            let has = others.iter().any(|x| x.node == node);
            let elsewhere = stays.iter().any(|x| x.node != node);
            let gone = || !may_have_had(f, victim, node) || expired_before(f, p, stays);
            if has && elsewhere && gone() {
                return Some(Cause {
                    check: "service",
                    blame: Blame::Service,
                    why: Why::Promoted { victim, next },
                    seen: Some(p),
                    culprits: Vec::new(),
                });
            }
        }
    }
    None
}

/// The value had been copied to the node, but was gone when that was looked at after its promotion, though no other
/// node had lost it by then: its time to live there was not what the holder had been told.
fn expired_before(f: &Facts, promotion: u32, stays: &[Stay]) -> bool {
    let p = f.servers.at(promotion);
    let lost = |x: &Stay| x.loss.map(|l| (l.how, f.servers.at(l.seen)));
    let here = stays.iter().filter(|x| x.node == p.node).find_map(lost);
    let gone = here.is_some_and(|(how, e)| how == How::Unseen && e.not_before >= p.not_before);
    let mut elsewhere = stays.iter().filter(|x| x.node != p.node).filter_map(lost);
    let taken = |(how, e): (How, &crate::servers::Seen)| {
        let removed = matches!(how, How::Deleted | How::Overwritten | How::Evicted);
        removed && e.not_before <= p.at
    };
    gone && !elsewhere.any(taken)
}

/// On one server, what took the first holder's value away before the second was granted explains the grant, though
/// the second's value was never seen there (the observer had lost sight meanwhile).
fn lone_loss(f: &Facts, a: u32, b: u32, of_a: &[Stay]) -> Option<Cause> {
    let [stay] = of_a else {
        return None;
    };
    let loss = stay.loss.filter(|l| l.how != How::Overwritten)?;
    let before = f.servers.at(loss.seen).not_before <= f.section(b).ret;
    (f.model().nodes == 1 && before).then(|| loss_cause(f, a, b, loss))
}

fn loss_cause(f: &Facts, victim: u32, next: u32, loss: Loss) -> Cause {
    let why = Why::Lost {
        victim,
        how: loss.how,
    };
    let service = Cause {
        check: "service",
        blame: Blame::Service,
        why,
        seen: Some(loss.seen),
        culprits: Vec::new(),
    };
    match loss.how {
        How::Restarted | How::Flushed | How::Evicted => service,
        How::Expired => expired_cause(f, victim, loss, service),
        How::Overwritten => {
            let mut c = Cause::library(f, "ownership", next, why, Some(loss.seen));
            c.culprits = vec![next];
            c
        }
        How::Deleted => deleted_cause(f, victim, loss, service),
        How::Removed | How::Unseen => Cause {
            blame: Blame::Unknown,
            ..service
        },
    }
}

/// A key that expired inside its holder's promise: before its time, or because the holder counts an extension that
/// was none? Where that cannot be told, the blame is unknown.
fn expired_cause(f: &Facts, victim: u32, loss: Loss, service: Cause) -> Cause {
    let s = f.section(victim);
    let expired = f.servers.at(loss.seen);
    let base = s.start.saturating_add(usable(s.lease, f.model()));
    if expired.at < base {
        return service;
    }
    let extensions = f.extensions_of(victim);
    if f.model().silent_renewals && !extensions.is_empty() {
        return Cause {
            blame: Blame::Unknown,
            ..service
        };
    }
    let mut confirmed = extensions.iter().filter(|e| e.ended == Ended::Ok);
    if confirmed.any(|e| appliers(f, e) < f.model().quorum as usize) {
        let why = Why::NotExtended { section: victim };
        return Cause::library(f, "continuity", victim, why, Some(loss.seen));
    }
    // One event an extension: all of them were applied here.
    let begun = extensions.iter().filter(|e| e.inv <= expired.at).count();
    let shown = f.servers.between(s.key, s.inv, expired.at).filter(|i| {
        let e = f.servers.at(*i);
        *i < loss.seen && e.node == expired.node && e.kind == SeenKind::Expire && e.owner == s.owner
    });
    // A node that was promoted has what was copied to it in time: an extension that was not is the servers' loss.
    let mut promotions = f.servers.promotions(s.ret, expired.at);
    let promoted = promotions.any(|p| f.servers.at(p).node == expired.node);
    if promoted || shown.count() >= begun {
        return service;
    }
    Cause {
        blame: Blame::Unknown,
        ..service
    }
}

/// The number of nodes that can at most have applied an extension: the section's value may have stood there when
/// it was invoked, and the node shows something that can be the extension, or could not be seen.
pub(crate) fn appliers(f: &Facts, e: &Extension) -> usize {
    let s = f.section(e.section);
    let stays = f.servers.stays(s.key, s.owner, s.ret);
    let may = |node: Name| {
        let stay = stays.iter().find(|x| x.node == node);
        let loss = stay.and_then(|x| x.loss);
        let gone = loss.is_some_and(|l| l.how != How::Unseen && f.servers.at(l.seen).at < e.inv);
        let shows = f.servers.between(s.key, e.inv, e.ret).any(|i| {
            let seen = f.servers.at(i);
            let mine = seen.owner == s.owner || seen.owner == NONE;
            seen.node == node && mine && matches!(seen.kind, SeenKind::Expire | SeenKind::Set)
        });
        !gone && (shows || f.servers.blind(node, e.inv, e.ret))
    };
    f.servers.nodes.iter().filter(|n| may(**n)).count()
}

fn deleted_cause(f: &Facts, victim: u32, loss: Loss, service: Cause) -> Cause {
    let del = *f.servers.at(loss.seen);
    let own = f.extensions_of(victim).iter();
    let quorum = f.model().quorum as usize;
    let own = own
        .filter(|e| e.ended != Ended::Ok || appliers(f, e) < quorum)
        .any(|e| e.inv <= del.at && e.ret >= del.not_before);
    if own {
        let why = Why::OwnExtend { section: victim };
        return Cause::library(f, "continuity", victim, why, Some(loss.seen));
    }
    let culprits = culprits(f, loss.seen, victim);
    match blamed(f, &culprits) {
        Some(blame) => Cause {
            check: "ownership",
            blame,
            culprits,
            ..service
        },
        None if reused(f, victim) => {
            let why = Why::Reused { section: victim };
            Cause::library(f, "ownership", victim, why, Some(loss.seen))
        }
        // A command of an outsider, or the clean-up of a failed try: no event tells.
        None => Cause {
            blame: Blame::Unknown,
            ..service
        },
    }
}

/// Whether a grant's value is that of other grants of the same worker too, and an earlier try of it in vain may have
/// left a command under way: a command that compares values cannot tell such attempts apart.
fn reused(f: &Facts, section: u32) -> bool {
    let s = f.section(section);
    let mine = |i: u32| f.section(i).same_owner(s);
    s.retried && f.sharers(s.owner).is_some_and(|mut all| all.all(mine))
}

/// The blame of the clients of these sections: `c1`, or `c1 or c2`.
pub(crate) fn blamed(f: &Facts, culprits: &[u32]) -> Option<Blame> {
    let mut clients: Vec<&str> = culprits
        .iter()
        .map(|s| f.names.text(f.section(*s).client))
        .collect();
    clients.sort_unstable();
    clients.dedup();
    (!clients.is_empty()).then(|| Blame::Library(clients.join(" or ")))
}

/// The sections other than `victim` whose release may have caused the `del` at this position, and whose
/// release is not explained by the removal of their own value from that node.
///
/// Nobody but lock clients writes lock keys (a fault that does is an event of its own), so one of them did it.
/// Releases that were answered go before those that may still be under way. Where every release is explained by a removal
/// of its own value, those are left whose own value another's release may have removed (whose own a third's may have, and
/// so on): so many releases were at work together and removed as many values, and whoever removed which, not all of them
/// removed their own.
pub(crate) fn culprits(f: &Facts, seen: u32, victim: u32) -> Vec<u32> {
    let others = at_work(f, seen, victim);
    let node = f.servers.at(seen).node;
    let found = first_of(&others, |i| own_removal(f, *i, node, seen).is_none());
    if !found.is_empty() {
        return found;
    }
    first_of(&others, |i| {
        may_have_done(f, *i, (node, seen), &mut Vec::new())
    })
}

/// Whether a release may have been the one that removed this, and another the one that removed its own value.
fn may_have_done(f: &Facts, i: u32, (node, seen): (Name, u32), passed: &mut Vec<u32>) -> bool {
    /// Releases in such a chain, at most.
    const CHAIN_MAX: usize = 16;
    let Some(own) = own_removal(f, i, node, seen) else {
        return true;
    };
    if passed.len() >= CHAIN_MAX || passed.contains(&i) {
        return false;
    }
    passed.push(i);
    let others = at_work(f, own, i);
    let mut others = others.iter().flatten();
    others.any(|j| may_have_done(f, *j, (node, own), passed))
}

/// The sections other than `victim` whose release may have caused a `del`: those whose release was answered, and those
/// that may still be under way.
fn at_work(f: &Facts, seen: u32, victim: u32) -> [Vec<u32>; 2] {
    let del = f.servers.at(seen);
    // The victim's value had been set by then, so its acquire had been invoked.
    let earliest = del.not_before.max(f.section(victim).inv);
    let found = f.releasing(del.key, earliest, del.at);
    let (answered, open) = found
        .into_iter()
        .filter(|i| *i != victim && !f.removed_nothing(f.section(*i)))
        .partition(|i| f.section(*i).release_ret != NEVER);
    [answered, open]
}

/// What holds of some of the first, or else of the second.
fn first_of(groups: &[Vec<u32>; 2], holds: impl Fn(&u32) -> bool) -> Vec<u32> {
    let mut some = groups.iter().map(|group| {
        let some = group.iter().copied().filter(|i| holds(i));
        some.collect::<Vec<u32>>()
    });
    some.find(|some| !some.is_empty()).unwrap_or_default()
}

/// The event, other than `seen`, by which the release of `section` removed its own value from `node`, or may have.
fn own_removal(f: &Facts, section: u32, node: Name, seen: u32) -> Option<u32> {
    let s = f.section(section);
    let stays = unread::stays(f, section);
    let losses = stays.iter().filter(|stay| stay.node == node);
    let mut losses = losses.filter_map(|stay| stay.loss);
    let own = losses.find(|l| {
        let del = f.servers.at(l.seen);
        l.how == How::Deleted && l.seen != seen && s.releasing(del.not_before, del.at)
    });
    own.map(|l| l.seen)
}

/// The number of nodes that can at most have held a grant's value, if that is certainly less than a quorum.
pub(crate) fn never_had(f: &Facts, section: u32) -> Option<usize> {
    let s = f.section(section);
    let model = f.model();
    // A value that several grants share counts as this one's whenever it stood there.
    let told = f.owned_by(s.owner) == Some(section) || f.is_shared(s.owner);
    if !model.observed || s.owner == NONE || !told {
        return None;
    }
    // A history that was cut may lack the last that the observer saw.
    if !f.ended && f.servers.seen.last().is_none_or(|e| e.at <= s.ret) {
        return None;
    }
    let possible = f.servers.nodes.iter();
    let possible = possible.filter(|n| may_have_had(f, section, **n)).count();
    (possible < model.quorum as usize).then_some(possible)
}

/// The half sentence after the colon: `n3 restarted without A's key by 1.190 s`.
pub(crate) fn because(f: &Facts, cause: &Cause, label: impl Fn(u32) -> String) -> String {
    let event = cause.seen.map(|i| f.servers.at(i));
    let node = event.map_or("a node", |e| f.names.text(e.node));
    let at = event.map_or(0, |e| e.at);
    let when = seconds(at);
    match cause.why {
        Why::NoEvidence => "nothing that was seen on the servers explains it".to_owned(),
        Why::NeverHad { section, nodes } => format!(
            "{}'s value was on {nodes} of {} nodes at most, {} needed",
            label(section),
            f.model().nodes,
            f.model().quorum
        ),
        Why::Promoted { victim, next } => {
            promoted_words(f, cause, (victim, label(victim)), &label(next))
        }
        Why::NotExtended { section } => {
            let who = label(section);
            format!(
                "{node} expired {who}'s key at {when}, and no quorum applied the extension that {who} counts on"
            )
        }
        Why::OwnExtend { section } => {
            let who = label(section);
            format!("{who}'s own extension deleted {who}'s key on {node} at {when}")
        }
        Why::Reused { section } => {
            let who = label(section);
            format!(
                "{who}'s key was deleted on {node} at {when}, while nobody else's release was under way: {who}'s library \
                 uses one value for several attempts, and a command of an earlier one cannot tell"
            )
        }
        Why::Lost { victim, how } => lost_words(f, cause, victim, how, label),
    }
}

/// How a key was lost: `n3 restarted without A's key between 1.180 s and 1.190 s`.
fn lost_words(
    f: &Facts,
    cause: &Cause,
    victim: u32,
    how: How,
    label: impl Fn(u32) -> String,
) -> String {
    let event = cause.seen.map(|i| f.servers.at(i));
    let node = event.map_or("a node", |e| f.names.text(e.node));
    let at = event.map_or(0, |e| e.at);
    let when = seconds(at);
    let whose = label(victim);
    match how {
        How::Restarted => {
            let since = seconds(event.map_or(0, |e| e.not_before));
            format!("{node} restarted without {whose}'s key between {since} and {when}")
        }
        How::Flushed => format!("{node} was flushed at {when}, with {whose}'s key"),
        How::Evicted => format!("{node} evicted {whose}'s key at {when}"),
        How::Expired => {
            let end = f.section(victim).promise_end;
            let early = if end == NEVER {
                "though it has no lease".to_owned()
            } else {
                format!(
                    "{} before the end of {whose}'s promise",
                    length(end.saturating_sub(at))
                )
            };
            format!("{node} expired {whose}'s key at {when}, {early}")
        }
        How::Overwritten => {
            let by = cause
                .culprits
                .first()
                .map_or_else(|| "a SET".to_owned(), |c| format!("{}'s SET", label(*c)));
            format!("{by} overwrote {whose}'s key on {node} at {when}")
        }
        How::Deleted if cause.culprits.is_empty() => {
            format!("{whose}'s key was deleted on {node} at {when}, while no release was under way")
        }
        How::Deleted => {
            let by: Vec<String> = cause.culprits.iter().map(|c| label(*c)).collect();
            format!(
                "the release of {} deleted {whose}'s key on {node} at {when}",
                by.join(" or ")
            )
        }
        How::Removed => {
            format!(
                "{whose}'s key was removed from the primary by {when}, as {node} shows, a replica then"
            )
        }
        How::Unseen => {
            format!("{whose}'s key was gone from {node} by {when}, and nothing shows how")
        }
    }
}

/// `n2 was promoted between 1.180 s and 1.190 s without A's key, and granted B`.
fn promoted_words(f: &Facts, cause: &Cause, victim: (u32, String), next: &str) -> String {
    let Some(event) = cause.seen.map(|i| f.servers.at(i)) else {
        return format!("a node without {}'s key was promoted", victim.1);
    };
    let (node, whose) = (f.names.text(event.node), victim.1);
    let (since, when) = (seconds(event.not_before), seconds(event.at));
    if f.section(victim.0).inv >= event.at {
        let stays = unread::stays(f, victim.0);
        let old = stays.iter().map(|s| s.node).find(|n| *n != event.node);
        let old = old.map_or("a node", |n| f.names.text(n));
        return format!(
            "{node}, promoted between {since} and {when}, has {next}'s key, and {whose} was granted after that by \
             {old}, which still took itself for the primary"
        );
    }
    format!(
        "{node} was promoted between {since} and {when} without {whose}'s key, and granted {next}"
    )
}
