//! Whose value a node can have held, and which `set` wrote it that was gone again before the observer could read it.
//!
//! Owns these conclusions from what was not read. Must not know promises or checks. Stays that follow from them go to
//! `blame` and `proof`.
//!
//! Why it is sound. A grant's value was on a quorum, or its library lied (`truthful`). Where just a quorum of nodes may
//! have had it, it was on each of them; and where one of those was in sight all through the acquire, and did just one
//! `set` meanwhile whose value is not known, that `set` wrote it. That the library did not lie is no assumption: the
//! conclusion is drawn only if no other acquire that can have written it was under way.
use crate::facts::Facts;
use crate::names::{NONE, Name};
use crate::section::{NEVER, Ns};
use crate::servers::{Label, SeenKind, Stay};

/// Acquires without a definite answer, by key: one of them may have set a value that nobody was told of.
#[derive(Debug, Default)]
pub(crate) struct Doubts {
    /// Key, invoke and return; by key and invoke once indexed.
    answered: Vec<(Name, Ns, Ns)>,
    /// Key and invoke of those that were never answered: one a worker at most.
    open: Vec<(Name, Ns)>,
    /// The longest that was answered.
    longest: Ns,
}

impl Doubts {
    /// Takes an acquire on `key`; `ret` is [`NEVER`] if it was not answered.
    pub(crate) fn push(&mut self, key: Name, inv: Ns, ret: Ns) {
        if ret == NEVER {
            self.open.push((key, inv));
        } else {
            self.answered.push((key, inv, ret));
            self.longest = self.longest.max(ret - inv);
        }
    }

    /// Call it once all is pushed.
    pub(crate) fn index(&mut self) {
        self.answered.sort_unstable();
    }

    /// Whether one was under way on `key` at some time in `[from, to]`.
    fn any(&self, key: Name, from: Ns, to: Ns) -> bool {
        let earliest = (key, from.saturating_sub(self.longest), 0);
        let start = self.answered.partition_point(|d| *d < earliest);
        let near = self.answered[start..].iter();
        let mut near = near.take_while(|d| d.0 == key && d.1 <= to);
        near.any(|d| d.2 >= from) || self.open.iter().any(|d| d.0 == key && d.1 <= to)
    }
}

/// Where and how long the value of a grant stood, with the nodes where it was not read but follows.
pub(crate) fn stays(f: &Facts, section: u32) -> Vec<Stay> {
    let s = f.section(section);
    let mut stays = f.servers.stays(s.key, s.owner, s.ret);
    let sets = sets(f, section).into_iter();
    stays.extend(sets.map(|set| Stay {
        node: f.servers.at(set).node,
        set,
        loss: f.servers.loss_of(set, s.owner),
    }));
    stays
}

/// Positions of the `set`s that wrote a grant's value though that was not read: one on each node where that follows.
pub(crate) fn sets(f: &Facts, section: u32) -> Vec<u32> {
    let s = f.section(section);
    if s.owner == NONE || f.owned_by(s.owner) != Some(section) || s.quoted {
        return Vec::new();
    }
    let read = |node: Name| {
        let sets = f
            .servers
            .sets_of(s.owner)
            .chain(f.servers.reads_of(s.owner));
        let mut seen = sets.map(|i| f.servers.at(i));
        seen.any(|e| e.node == node && e.key == s.key)
    };
    let nodes = f.servers.nodes.iter().copied();
    let possible: Vec<Name> = nodes.filter(|n| may_have_had(f, section, *n)).collect();
    if possible.len() != f.model().quorum as usize {
        return Vec::new();
    }
    let unread = possible.into_iter().filter(|n| !read(*n));
    unread.filter_map(|n| set_on(f, section, n)).collect()
}

/// The one `set` on a node that can have written a grant's value, if no other acquire can have done it.
fn set_on(f: &Facts, section: u32, node: Name) -> Option<u32> {
    let s = f.section(section);
    if f.servers.blind(node, s.inv, s.ret) {
        return None;
    }
    let mut unsure = f.servers.between(s.key, s.inv, s.ret).filter(|i| {
        let e = f.servers.at(*i);
        let written = match e.kind {
            SeenKind::Set => !certain_label(f, *i),
            SeenKind::Expire => e.owner == NONE,
            _ => false,
        };
        e.node == node && written
    });
    let set = unsure.next()?;
    let e = f.servers.at(set);
    let alone = unsure.next().is_none() && e.kind == SeenKind::Set;
    (alone && !another(f, section, set)).then_some(set)
}

/// Whether an acquire other than that of `section` can have done a `set`: one that was granted and whose value is not
/// known to have been set on that node by another, or one without a definite answer.
fn another(f: &Facts, section: u32, set: u32) -> bool {
    let e = f.servers.at(set);
    let mut granted = f.acquiring(e.key, e.not_before, e.at);
    let elsewhere = |owner: Name| {
        let mut sets = f.servers.sets_of(owner);
        f.owned_by(owner).is_some()
            && sets.any(|i| {
                let x = f.servers.at(i);
                x.node == e.node && x.key == e.key && certain_label(f, i)
            })
    };
    f.doubts.any(e.key, e.not_before, e.at)
        || granted.any(|i| i != section && !elsewhere(f.section(i).owner))
}

/// Whether a node can have held a grant's value when that was granted.
pub(crate) fn may_have_had(f: &Facts, section: u32, node: Name) -> bool {
    let s = f.section(section);
    let mine = f.servers.sets_of(s.owner).map(|i| f.servers.at(i));
    if mine.into_iter().any(|e| e.node == node && e.key == s.key) {
        return true;
    }
    if f.servers.blind(node, s.inv, s.ret) {
        return true;
    }
    // A value of several grants may stand there since an earlier one.
    let shared = f.shared_from(s.owner).is_some_and(|from| from < s.inv);
    if shared && stood_before(f, section, node) {
        return true;
    }
    // A `set` whose value was gone again when it was read, or was read as a later one's, may be this one.
    f.servers.between(s.key, s.inv, s.ret).any(|i| {
        let e = f.servers.at(i);
        let written = matches!(e.kind, SeenKind::Set | SeenKind::Expire);
        e.node == node && written && !certain_label(f, i)
    })
}

/// Whether what the node was last seen to do with the key before a grant was asked for may have left the grant's value.
fn stood_before(f: &Facts, section: u32, node: Name) -> bool {
    let s = f.section(section);
    let mut before = f.servers.before(s.key, s.inv);
    before
        .find(|i| f.servers.at(*i).node == node)
        .is_some_and(|i| {
            let e = f.servers.at(i);
            match e.kind {
                SeenKind::Set => !certain_label(f, i),
                SeenKind::Expire | SeenKind::Value => e.owner == NONE || e.owner == s.owner,
                _ => false,
            }
        })
}

/// Whether the owner read after a `set` is certainly the one that was set: each value of a grant is set once a node, so
/// of two `set`s with one label the earlier is mislabelled. A value that no grant carries may be set again and again, so
/// there it must be certain of later `set`s, too.
pub(crate) fn certain_label(f: &Facts, set: u32) -> bool {
    match f.servers.label(set) {
        Label::Doubtful => false,
        Label::Once => f.owned_by(f.servers.at(set).owner).is_some(),
        Label::Certain => true,
    }
}
