//! Forgets what no later event can make part of a finding, so that memory is bounded by what is open or in doubt, and
//! not by the history's length.
//!
//! Owns the rule of what may go. Must not know how findings are made, only what they need. It works where no
//! observer was there and the lock gives out no tokens: their checks compare a grant with what may come much later.
//!
//! *What goes.* Sections of one key, in the order of their grants, fall into clusters of holds that overlap. A cluster
//! goes when all in it have ended and were answered, nothing in it conflicts, no worker's last section is in it or
//! before it, nothing else refers to it, and another cluster follows. A failed try goes when some hold excuses it for
//! certain. A try that none excuses keeps the holds on its two sides.
//!
//! *Why nothing changes.* Later grants return later, so no dropped hold can overlap one. A later try that was invoked
//! before the end of a dropped hold touches it, and is excused. The times in which holds around a kept try can have
//! reached are bounded by its neighbours, which are kept. All this needs stamps in order: at the first that is not,
//! nothing is dropped any more, and one from before what was dropped makes the verdict unknown.
//! `src/oracle` compares a checker that forgets all it may with a search, on half a million histories in every test
//! run, and the tests below one with leases, extensions and several keys with one that forgets nothing.
use super::{Collector, Op};
use crate::checks::validity;
use crate::event::Event;
use crate::hash::Map;
use crate::names::{NONE, Name};
use crate::section::{Ended, NEVER, NO_SECTION, Ns, Piece, Section, usable};
use crate::sweep::Sweep;
use crate::tries;
use std::collections::HashSet;

/// Sections and tries that are kept without a look.
const FIRST: usize = 1 << 16;

/// When to look, and how far the history has come.
#[derive(Debug)]
pub(super) struct Pruner {
    first: usize,
    /// What is left is to grow by this factor until the next look.
    growth: usize,
    /// Sections and tries at which to look again.
    limit: usize,
    latest: Ns,
    /// Some stamp was before one before it.
    disorder: bool,
    /// Nothing that was dropped ended after this.
    horizon: Ns,
    /// By key: the end of the last hold that was dropped.
    dropped: Map<Name, Ns>,
}

impl Default for Pruner {
    fn default() -> Self {
        Self {
            first: FIRST,
            growth: 2,
            limit: FIRST,
            latest: 0,
            disorder: false,
            horizon: 0,
            dropped: Map::default(),
        }
    }
}

impl Pruner {
    /// Looks whenever there are so many sections and tries.
    #[cfg(test)]
    pub(super) fn first(&mut self, first: usize) {
        (self.first, self.growth, self.limit) = (first, 0, first);
    }

    /// Whether a hold that was dropped excuses a try of the key that was invoked at `inv`.
    pub(super) fn excuses(&self, key: Name, inv: Ns) -> bool {
        self.dropped.get(&key).is_some_and(|end| inv <= *end)
    }
}

/// What is to go, section by section, and why some must stay.
struct Marks {
    stays: Vec<bool>,
    /// By key: no section that returned at or after this goes.
    floor: Map<Name, Ns>,
}

impl Collector {
    /// Takes note of the next event's time.
    pub(super) fn clock(&mut self, event: &Event<'_>) {
        let p = &mut self.pruner;
        if event.time >= p.latest {
            p.latest = event.time;
            return;
        }
        p.disorder = true;
        if event.time < p.horizon {
            self.odd(event, "its time is before what was already judged");
        }
    }

    /// Forgets what it may, if there is enough to look at.
    pub(super) fn forget(&mut self) {
        if self.facts.sections.len() + self.facts.tries.len() < self.pruner.limit {
            return;
        }
        let f = &self.facts;
        let model = f.model();
        let late = f.tail_from.is_some() || self.pruner.disorder;
        if late || model.observed || model.tokens || !f.servers.seen.is_empty() {
            self.pruner.limit = usize::MAX;
            return;
        }
        self.look();
        let left = self.facts.sections.len() + self.facts.tries.len();
        self.pruner.limit = self.pruner.first.max(self.pruner.growth * left);
    }

    fn look(&mut self) {
        let mut marks = self.marks();
        let sections = &self.facts.sections;
        let mut order: Vec<u32> = (0..sections.len() as u32).collect();
        order.sort_unstable_by_key(|i| {
            let s = &sections[*i as usize];
            (s.key, s.ret, *i)
        });
        let mut tries = std::mem::take(&mut self.facts.tries);
        tries.sort_unstable_by_key(|t| t.key);
        let mut goes = vec![false; sections.len()];
        let f = &self.facts;
        let key = |i: &u32| f.sections[*i as usize].key;
        for of_key in order.chunk_by(|a, b| key(a) == key(b)) {
            let from = tries.partition_point(|t| t.key < key(&of_key[0]));
            let to = tries.partition_point(|t| t.key <= key(&of_key[0]));
            // What is open now ends now at the earliest.
            let latest = self.pruner.latest;
            let sections = of_key.iter().map(|i| &f.sections[*i as usize]);
            let cores = tries::cores_of(sections, latest);
            // Holds that overlap are what is wrong then, and no try is looked at.
            let held = cores.map(|c| tries::merged(tries::spans(&c, &[])));
            for t in &mut tries[from..to] {
                let excused = |held: &Vec<_>| tries::around(held, t.inv, t.ret).is_none();
                if held.as_ref().is_none_or(excused) {
                    t.inv = NEVER; // A mark: no try has this time.
                } else {
                    let after = of_key.partition_point(|i| f.sections[*i as usize].ret <= t.inv);
                    for i in [after.checked_sub(1), Some(after)].into_iter().flatten() {
                        if let Some(i) = of_key.get(i) {
                            marks.stays[*i as usize] = true;
                        }
                    }
                }
            }
            self.clusters(of_key, &marks, &mut goes);
        }
        tries.retain(|t| t.inv != NEVER);
        self.facts.tries = tries;
        self.drop_marked(&goes);
    }

    /// What must stay for reasons of its own.
    fn marks(&self) -> Marks {
        let f = &self.facts;
        let mut stays: Vec<bool> = f
            .sections
            .iter()
            .map(|s| {
                let running = s.hold_end() == NEVER || s.release == Ended::Open;
                running || (s.lease != NEVER && validity::wrong(f, s).is_some())
            })
            .collect();
        for e in &f.effects {
            stays[e.section as usize] = true;
        }
        for e in &f.extensions {
            let s = &f.sections[e.section as usize];
            let late = e.ret >= e.inv.saturating_add(usable(e.lease, f.model()));
            if e.ended == Ended::Open || late || e.inv >= s.hold_end() || e.ret > s.hold_end() {
                stays[e.section as usize] = true;
            }
        }
        for ((_, op), open) in &self.open {
            let section = match op {
                Op::Extend if open.subject != NO_SECTION => {
                    f.extensions[open.subject as usize].section
                }
                _ => open.subject,
            };
            if section != NO_SECTION {
                stays[section as usize] = true;
            }
        }
        let mut floor: Map<Name, Ns> = Map::default();
        for (seat, hold) in &self.holds {
            if hold.section != NO_SECTION {
                stays[hold.section as usize] = true;
                let low = floor.entry(seat.2).or_insert(NEVER);
                *low = (*low).min(f.sections[hold.section as usize].ret);
            }
        }
        Marks { stays, floor }
    }

    /// Marks the clusters of one key that may go; `of_key` is in the order of the grants.
    fn clusters(&self, of_key: &[u32], marks: &Marks, goes: &mut [bool]) {
        let f = &self.facts;
        let section = |i: u32| &f.sections[i as usize];
        let margin = f.uncertainty().saturating_mul(2);
        let floor = marks.floor.get(&section(of_key[0]).key).copied();
        let mut start = 0;
        let mut end = 0;
        for at in 0..of_key.len() {
            let s = section(of_key[at]);
            if at > start && s.ret >= end {
                let cluster = &of_key[start..at];
                let below = floor.is_none_or(|floor| section(of_key[at - 1]).ret < floor);
                let free = cluster.iter().all(|i| !marks.stays[*i as usize]);
                if below && free && self.harmless(cluster) {
                    for i in cluster {
                        goes[*i as usize] = true;
                    }
                }
                (start, end) = (at, 0);
            }
            end = end.max(self.reach(s).saturating_add(margin));
        }
    }

    /// Until when a hold can have gone on: a release without a lease that fails did not end it.
    fn reach(&self, s: &Section) -> Ns {
        if s.release == Ended::Open && self.facts.model().ttl_ms.is_none() {
            return NEVER;
        }
        s.hold_end().max(s.ret)
    }

    /// Whether nothing in a cluster of ended holds can be part of a finding.
    fn harmless(&self, cluster: &[u32]) -> bool {
        let f = &self.facts;
        let section = |i: u32| &f.sections[i as usize];
        if cluster.len() == 1 {
            return true;
        }
        let extended = f.header.model.ttl_ms.is_some() && !f.extensions.is_empty();
        if extended || f.uncertainty() > 0 {
            return false;
        }
        let mut sweep = Sweep {
            room: f.model().room(),
            ..Sweep::default()
        };
        let pieces = cluster.iter().map(|i| Piece {
            start: section(*i).ret,
            end: section(*i).hold_end().max(section(*i).ret),
            section: *i,
        });
        let mut pieces: Vec<Piece> = pieces.collect();
        sweep.run(&mut pieces, |x, y| f.conflict(x, y));
        sweep.count == 0
    }

    /// Drops the marked sections with their extensions, and sets right all that counts sections or extensions.
    fn drop_marked(&mut self, goes: &[bool]) {
        let f = &mut self.facts;
        let mut now = vec![NO_SECTION; goes.len()];
        let mut owners = Vec::new();
        let mut kept = 0;
        for (i, s) in f.sections.iter().enumerate() {
            if goes[i] {
                let end = s.hold_end().max(s.ret);
                owners.push(s.owner);
                f.dropped.sections += 1;
                f.dropped.claims += u64::from(!s.validity_ms.is_nan());
                self.pruner.horizon = self.pruner.horizon.max(end);
                let last = self.pruner.dropped.entry(s.key).or_default();
                *last = end.max(*last);
            } else {
                now[i] = kept;
                kept += 1;
            }
        }
        let mut i = 0;
        f.sections.retain(|_| {
            i += 1;
            !goes[i - 1]
        });
        let mut then = Vec::with_capacity(f.extensions.len());
        let mut kept = 0;
        f.dropped.extensions += f.extensions.len() as u64;
        f.extensions.retain_mut(|e| {
            e.section = now[e.section as usize];
            let stays = e.section != NO_SECTION;
            then.push(if stays { kept } else { NO_SECTION });
            kept += u32::from(stays);
            stays
        });
        f.dropped.extensions -= f.extensions.len() as u64;
        for e in &mut f.effects {
            e.section = now[e.section as usize];
        }
        for hold in self.holds.values_mut() {
            if hold.section != NO_SECTION {
                hold.section = now[hold.section as usize];
            }
        }
        for ((_, op), open) in &mut self.open {
            if open.subject != NO_SECTION {
                let new = if *op == Op::Extend { &then } else { &now };
                open.subject = new[open.subject as usize];
            }
        }
        self.forget_owners(&owners);
    }

    /// Forgets the texts of owner values that no section has any more: each grant brings a new one.
    fn forget_owners(&mut self, gone: &[Name]) {
        let kept: HashSet<Name> = self.facts.sections.iter().map(|s| s.owner).collect();
        for owner in gone {
            let known = self.known.get(*owner as usize).is_some_and(|k| *k);
            if *owner != NONE && !known && !kept.contains(owner) {
                self.facts.names.forget(*owner);
            }
        }
    }
}
