//! What the observer saw on the servers, in numbers, by key and by node: who had a key, and what took it away.
//!
//! Owns the reading of server-side evidence. Must not know promises or checks. Losses go to `blame` and the checks.
use crate::event::{Event, EventType, Process, Value};
use crate::names::{NONE, Name, Names};
use crate::section::Ns;
use std::borrow::Cow;
use std::collections::HashMap;

/// What the observer can see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum SeenKind {
    Set,
    Del,
    Expired,
    Evicted,
    Expire,
    Value,
    Absent,
    Flushed,
    Down,
    Restarted,
    Up,
    /// A replica became the primary.
    Promoted,
    /// A primary became a replica.
    Demoted,
    /// Gone from a replica, because it was gone from its primary: whose command that was, other events tell.
    Removed,
}

const KINDS: [(SeenKind, &str); 14] = [
    (SeenKind::Set, "set"),
    (SeenKind::Del, "del"),
    (SeenKind::Expired, "expired"),
    (SeenKind::Evicted, "evicted"),
    (SeenKind::Expire, "expire"),
    (SeenKind::Value, "value"),
    (SeenKind::Absent, "absent"),
    (SeenKind::Flushed, "flushed"),
    (SeenKind::Down, "down"),
    (SeenKind::Restarted, "restarted"),
    (SeenKind::Up, "up"),
    (SeenKind::Promoted, "promoted"),
    (SeenKind::Demoted, "demoted"),
    (SeenKind::Removed, "removed"),
];

impl SeenKind {
    pub(crate) fn parse(f: &str) -> Option<Self> {
        KINDS.iter().find(|(_, n)| *n == f).map(|(k, _)| *k)
    }

    pub(crate) fn name(self) -> &'static str {
        KINDS[self as usize].1
    }

    /// It is about a whole node, not about a key.
    fn of_node(self) -> bool {
        matches!(
            self,
            Self::Flushed
                | Self::Down
                | Self::Restarted
                | Self::Up
                | Self::Promoted
                | Self::Demoted
        )
    }
}

/// One thing seen on a server; it happened in `[not_before, at]`. 56 bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub at: Ns,
    pub not_before: Ns,
    pub index: u64,
    pub key: Name,
    pub node: Name,
    pub owner: Name,
    pub kind: SeenKind,
    /// [`NO_PTTL`] where it was not read.
    pub pttl_ms: i64,
}

/// No time to live was read.
pub(crate) const NO_PTTL: i64 = i64::MIN;

/// How a node lost a value that it held.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Loss {
    pub how: How,
    /// The event that shows it, as a position in `Servers::seen`.
    pub seen: u32,
}

/// The ways to lose a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// Somebody's command deleted it.
    Deleted,
    Expired,
    Evicted,
    Flushed,
    /// The server restarted and had it no more.
    Restarted,
    /// The node, a replica, removed what its primary had removed.
    Removed,
    /// Another value was written over it.
    Overwritten,
    /// It was gone when read, or after a time without sight: no event says how.
    Unseen,
}

/// A stay of one owner's value on one node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stay {
    pub node: Name,
    /// The `set` (or read) that it begins with, as a position in `Servers::seen`.
    pub set: u32,
    pub loss: Option<Loss>,
}

/// How sure it is that the owner read after a `set` is the one that was set, and not that of a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Label {
    /// It was not read, or another `set` of the node was read as the same.
    Doubtful,
    /// No other `set` of the node was read as the same.
    Once,
    /// Nor was any doubtful one done before the reading.
    Certain,
}

/// All that was seen, with indexes.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    pub seen: Vec<Seen>,
    /// Positions in `seen` by key, in order.
    by_key: Vec<(Name, u32)>,
    /// Positions in `seen` of `set`s, by owner.
    by_owner: Vec<(Name, u32)>,
    /// Positions in `seen` of `value`s (reads outside of events), by owner.
    reads: Vec<(Name, u32)>,
    /// Of each position that is a `set`: how sure its owner is.
    labels: Vec<Label>,
    /// Positions of what concerns whole nodes.
    of_nodes: Vec<u32>,
    /// All nodes that were seen.
    pub nodes: Vec<Name>,
}

impl Servers {
    /// Takes an observer's event; false if it is of no known kind.
    pub(crate) fn push(&mut self, event: &Event<'_>, names: &mut Names) -> bool {
        let Some(kind) = SeenKind::parse(&event.f) else {
            return false;
        };
        let v = &event.value;
        self.seen.push(Seen {
            at: event.time,
            not_before: v.not_before.unwrap_or(0).min(event.time),
            index: event.index,
            key: names.optional(event.key.as_deref()),
            node: names.optional(v.node.as_deref()),
            owner: names.optional(v.owner.as_deref()),
            kind,
            pttl_ms: v.pttl_ms.unwrap_or(NO_PTTL),
        });
        true
    }

    /// Builds the indexes, once all is seen.
    pub(crate) fn index(&mut self) {
        for (i, s) in (0u32..).zip(&self.seen) {
            if s.kind.of_node() {
                self.of_nodes.push(i);
            } else if s.key != NONE {
                self.by_key.push((s.key, i));
            }
            if s.kind == SeenKind::Set && s.owner != NONE {
                self.by_owner.push((s.owner, i));
            }
            if s.kind == SeenKind::Value && s.owner != NONE {
                self.reads.push((s.owner, i));
            }
            self.nodes.push(s.node);
            if self.nodes.len() > 4096 {
                tidy(&mut self.nodes);
            }
        }
        tidy(&mut self.nodes);
        self.by_key.sort_unstable();
        self.by_owner.sort_unstable();
        self.reads.sort_unstable();
        self.label_all();
    }

    /// A `set` that is read as X, and wrote V, was read after another that wrote X. If that one was read as X, too, both
    /// are doubtful; if it was read as nothing, it is one of the doubtful ones that were done before the reading.
    fn label_all(&mut self) {
        let seen = &self.seen;
        self.labels = vec![Label::Doubtful; seen.len()];
        let mut sets = self.by_owner.clone();
        let place = |i: u32| seen[i as usize].node;
        sets.sort_unstable_by_key(|(owner, i)| (*owner, place(*i), *i));
        for same in sets.chunk_by(|a, b| a.0 == b.0 && place(a.1) == place(b.1)) {
            if let [(_, i)] = same {
                self.labels[*i as usize] = Label::Once;
            }
        }
        // From the last to the first: when a doubtful one can have been done at the earliest, by node and key.
        let mut doubtful: HashMap<(Name, Name), Ns> = HashMap::new();
        for (s, label) in seen.iter().zip(&mut self.labels).rev() {
            if s.kind != SeenKind::Set {
                continue;
            }
            let place = (s.node, s.key);
            let earliest = doubtful.get(&place).copied();
            if *label == Label::Doubtful {
                doubtful.insert(place, s.not_before.min(earliest.unwrap_or(Ns::MAX)));
            } else if earliest.is_none_or(|at| at > s.at) {
                *label = Label::Certain;
            }
        }
    }

    /// How sure the owner of the `set` at a position is.
    pub(crate) fn label(&self, set: u32) -> Label {
        self.labels[set as usize]
    }

    /// The event at a position.
    pub(crate) fn at(&self, i: u32) -> &Seen {
        &self.seen[i as usize]
    }

    /// Positions of the events of a key after position `from`, in order.
    pub(crate) fn after(&self, key: Name, from: u32) -> impl Iterator<Item = u32> + '_ {
        let start = self.by_key.partition_point(|e| *e <= (key, from));
        self.by_key[start..]
            .iter()
            .take_while(move |e| e.0 == key)
            .map(|e| e.1)
    }

    /// Positions of the events of `key` that can have happened in `[from, to]`.
    pub(crate) fn between(&self, key: Name, from: Ns, to: Ns) -> impl Iterator<Item = u32> + '_ {
        /// An event seen later than this after it happened is not looked for.
        const SEEN_WITHIN: Ns = 10_000_000_000;
        let events = slice(&self.by_key, key);
        let start = events.partition_point(|e| self.at(e.1).at < from);
        let last = to.saturating_add(SEEN_WITHIN);
        let near = events[start..].iter().map(|e| e.1);
        near.take_while(move |i| self.at(*i).at <= last)
            .filter(move |i| self.at(*i).not_before <= to)
    }

    /// Positions of the events of `key` that were seen before `at`, the latest first.
    pub(crate) fn before(&self, key: Name, at: Ns) -> impl Iterator<Item = u32> + '_ {
        let events = slice(&self.by_key, key);
        let end = events.partition_point(|e| self.at(e.1).at < at);
        events[..end].iter().rev().map(|e| e.1)
    }

    /// Positions of what happened to whole nodes.
    pub(crate) fn of_nodes(&self) -> &[u32] {
        &self.of_nodes
    }

    /// Positions of the `set`s that gave a key this value.
    pub(crate) fn sets_of(&self, owner: Name) -> impl Iterator<Item = u32> + '_ {
        slice(&self.by_owner, owner).iter().map(|(_, i)| *i)
    }

    /// Positions of the reads that found this value.
    pub(crate) fn reads_of(&self, owner: Name) -> impl Iterator<Item = u32> + '_ {
        slice(&self.reads, owner).iter().map(|(_, i)| *i)
    }

    /// Whether the node was out of sight at some time in `[from, to]`.
    pub(crate) fn blind(&self, node: Name, from: Ns, to: Ns) -> bool {
        let mut down = false;
        for s in self.of_nodes.iter().map(|i| self.at(*i)) {
            if s.node != node {
                continue;
            }
            if s.not_before > to {
                break;
            }
            match s.kind {
                SeenKind::Down => down = true,
                SeenKind::Up | SeenKind::Restarted if down => {
                    if s.at >= from {
                        return true;
                    }
                    down = false;
                }
                // A restart between two looks, without a break that was noticed.
                SeenKind::Restarted if s.at >= from => return true,
                _ => {}
            }
        }
        down
    }

    /// Whether the node was seen to have restarted at some time in `[from, to]`.
    pub(crate) fn restarted(&self, node: Name, from: Ns, to: Ns) -> bool {
        self.of_nodes.iter().map(|i| self.at(*i)).any(|e| {
            e.node == node && e.kind == SeenKind::Restarted && e.at >= from && e.not_before <= to
        })
    }

    /// Positions of promotions that can have happened in `[from, to]`, the latest first.
    pub(crate) fn promotions(&self, from: Ns, to: Ns) -> impl Iterator<Item = u32> + '_ {
        self.of_nodes.iter().rev().copied().filter(move |i| {
            let e = self.at(*i);
            e.kind == SeenKind::Promoted && e.not_before <= to && e.at >= from
        })
    }

    /// Where and how long the value `owner` of `key` stood: one stay a node. It begins with the last `set` of it, or,
    /// where that was not seen (the observer had lost sight), with the first read that found it. A value that is used
    /// again and again stays anew each time: what counts is the last `set` that can have been done by `by`.
    pub(crate) fn stays(&self, key: Name, owner: Name, by: Ns) -> Vec<Stay> {
        let mut stays: Vec<Stay> = Vec::new();
        if owner == NONE {
            return stays;
        }
        let sets = self.sets_of(owner).map(|i| (i, true));
        let sets = sets.filter(|(i, _)| self.at(*i).not_before <= by);
        for (set, seen) in sets.chain(self.reads_of(owner).map(|i| (i, false))) {
            let s = self.at(set);
            if s.key != key {
                continue;
            }
            match stays.iter_mut().find(|x| x.node == s.node) {
                Some(stay) if seen => stay.set = set,
                Some(_) => {}
                None => stays.push(Stay {
                    node: s.node,
                    set,
                    loss: None,
                }),
            }
        }
        for stay in &mut stays {
            stay.loss = self.loss(stay.set);
        }
        stays
    }

    /// What ended the stay that began with the `set` at this position.
    pub(crate) fn loss(&self, set: u32) -> Option<Loss> {
        self.loss_of(set, self.at(set).owner)
    }

    /// As [`Self::loss`], of a `set` that wrote the value `owner`, whatever was read.
    pub(crate) fn loss_of(&self, set: u32, owner: Name) -> Option<Loss> {
        let Seen { key, node, .. } = *self.at(set);
        let mut of_node = self.of_nodes[self.of_nodes.partition_point(|i| *i < set)..]
            .iter()
            .copied()
            .peekable();
        // What made the node lose sight or memory since the value was last seen, and a read that found it gone.
        let mut doubt: Option<Loss> = None;
        let mut gone: Option<u32> = None;
        for i in self.after(key, set) {
            while let Some(n) = of_node.next_if(|n| *n < i) {
                if let Some(sure) = self.node_event(n, node, &mut doubt) {
                    return Some(sure);
                }
            }
            let s = self.at(i);
            if s.node != node {
                continue;
            }
            let how = match s.kind {
                // It may have been lost out of sight, and what goes now may be another's that came meanwhile.
                SeenKind::Del | SeenKind::Evicted | SeenKind::Removed if doubt.is_some() => {
                    How::Unseen
                }
                SeenKind::Del => How::Deleted,
                SeenKind::Expired => How::Expired,
                SeenKind::Evicted => How::Evicted,
                SeenKind::Removed => How::Removed,
                SeenKind::Set | SeenKind::Value if s.owner == owner => {
                    doubt = None;
                    gone = None;
                    continue;
                }
                SeenKind::Value if s.owner == NONE => continue,
                // Another value, or the same one again: it was not read.
                SeenKind::Set if s.owner == NONE => How::Unseen,
                SeenKind::Set | SeenKind::Value => match (doubt, gone) {
                    (Some(doubt), _) => return Some(doubt),
                    (None, Some(seen)) => {
                        return Some(Loss {
                            how: How::Unseen,
                            seen,
                        });
                    }
                    (None, None) if s.kind == SeenKind::Set => How::Overwritten,
                    (None, None) => How::Unseen,
                },
                SeenKind::Absent if doubt.is_some() => return doubt,
                SeenKind::Absent => {
                    gone = gone.or(Some(i));
                    continue;
                }
                _ => continue,
            };
            return Some(Loss { how, seen: i });
        }
        for n in of_node {
            if let Some(sure) = self.node_event(n, node, &mut doubt) {
                return Some(sure);
            }
        }
        gone.map(|seen| Loss {
            how: How::Unseen,
            seen,
        })
    }

    /// A flush ends a stay for certain; a restart or a blind time leaves a doubt until the key is read.
    fn node_event(&self, n: u32, node: Name, doubt: &mut Option<Loss>) -> Option<Loss> {
        let s = self.at(n);
        if s.node != node {
            return None;
        }
        let how = match s.kind {
            SeenKind::Flushed => {
                return Some(Loss {
                    how: How::Flushed,
                    seen: n,
                });
            }
            SeenKind::Restarted => How::Restarted,
            SeenKind::Down => How::Unseen,
            _ => return None,
        };
        *doubt = Some(Loss { how, seen: n });
        None
    }

    /// The event as it stands in the history.
    pub(crate) fn as_event<'a>(&self, i: u32, names: &'a Names) -> Event<'a> {
        let s = self.at(i);
        Event {
            index: s.index,
            time: s.at,
            process: Process::Named(Cow::Borrowed("observer")),
            client: None,
            worker: None,
            kind: EventType::Info,
            f: Cow::Borrowed(s.kind.name()),
            key: names.get(s.key).map(Cow::Borrowed),
            value: Value {
                owner: names.get(s.owner).map(Cow::Borrowed),
                node: names.get(s.node).map(Cow::Borrowed),
                not_before: Some(s.not_before),
                pttl_ms: (s.pttl_ms != NO_PTTL).then_some(s.pttl_ms),
                ..Value::default()
            },
            error: None,
        }
    }
}

fn tidy(nodes: &mut Vec<Name>) {
    nodes.retain(|n| *n != NONE);
    nodes.sort_unstable();
    nodes.dedup();
}

fn slice(sorted: &[(Name, u32)], name: Name) -> &[(Name, u32)] {
    let start = sorted.partition_point(|e| e.0 < name);
    let end = sorted.partition_point(|e| e.0 <= name);
    &sorted[start..end]
}
