//! What is left of a history once it is read: sections, extensions, effects, server evidence, faults, phases.
//!
//! Owns [`Facts`] and its indexes. Must not know the checks. Made by `collect`, read by everything after it.
use crate::crowd::Gap;
use crate::event::Event;
use crate::faults::Faults;
use crate::hash::Map;
use crate::model::{Header, LockKind, Model};
use crate::mutant::{self, Mutant};
use crate::names::{NONE, Name, Names};
use crate::seat::Waiting;
use crate::section::{Ended, Extension, NEVER, NO_SECTION, NO_TOKEN, Ns, Piece, Section};
use crate::servers::Servers;
use crate::sharpen::{self, Proved};
use crate::unread::Doubts;
use crate::verdict::SectionView;
use crate::wire::Wire;
use std::collections::{BTreeMap, HashMap};

/// An effect that the protected resource accepted. 32 bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effect {
    pub time: Ns,
    pub section: u32,
    pub write: bool,
    pub version: u64,
}

/// An ok release by a worker that held nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stranger {
    pub key: Name,
    pub client: Name,
    pub process: u64,
    pub inv: Ns,
    pub ret: Ns,
}

/// An acquire that was answered, and not with a grant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Vain {
    pub key: Name,
    pub client: Name,
    pub inv: Ns,
    pub ret: Ns,
}

/// A release that failed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Denied {
    pub section: u32,
    pub inv: Ns,
    pub ret: Ns,
    /// It was told that the lock is not, or no longer, its caller's.
    pub not_yours: bool,
}

/// A failed acquire of a lock without lease, whose answer says that another held it. 32 bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Try {
    pub key: Name,
    pub client: Name,
    pub inv: Ns,
    pub ret: Ns,
}

/// An acquire without a definite answer, of a lock without lease: it may hold from `inv` on. If its worker released
/// later on without a grant, that release ends it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ghost {
    pub key: Name,
    pub inv: Ns,
    /// Invoke and return of the release; both [`NEVER`] for none.
    pub release: (Ns, Ns),
}

/// A call that was answered after its stated bound, or given up at it. Times in ns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Late {
    pub op: &'static str,
    pub key: Name,
    pub client: Name,
    pub inv: Ns,
    pub ret: Ns,
    pub bound: Ns,
    pub given_up: bool,
}

/// What was tried on one key after the last fault was gone and the tail had begun.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tail {
    /// Which beginning of the tail it counts from.
    pub epoch: Ns,
    pub tries: u64,
    pub first_try: Option<Ns>,
    /// The last answer that was no grant, and when its call began.
    pub last_denied: Option<(Ns, Ns)>,
    pub granted: Option<Ns>,
}

/// How often an operation was invoked, and what became of it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    pub invoked: u64,
    pub ok: u64,
    pub fail: u64,
    pub info: u64,
}

/// All that the checks look at.
#[derive(Debug)]
pub(crate) struct Facts {
    pub header: Header,
    pub names: Names,
    pub sections: Vec<Section>,
    /// In order of section, then invoke.
    pub extensions: Vec<Extension>,
    pub servers: Servers,
    pub wire: Wire,
    pub faults: Faults,
    pub effects: Vec<Effect>,
    pub strangers: Vec<Stranger>,
    pub denied: Vec<Denied>,
    /// Kept where several servers must agree, and where the call took long.
    pub vain: Vec<Vain>,
    pub tries: Vec<Try>,
    pub ghosts: Vec<Ghost>,
    /// Kept where the servers were watched.
    pub doubts: Doubts,
    /// Commands that a tap saw, by server and second of the run.
    pub commands: BTreeMap<(Name, u64), u64>,
    pub late: Vec<Late>,
    /// By key and time.
    pub gaps: Vec<Gap>,
    /// Who tried and never got it, by key.
    pub waiting: Vec<Waiting>,
    pub tails: HashMap<Name, Tail>,
    /// When the tail began, or the last fault in it was gone, whichever is later.
    pub tail_from: Option<Ns>,
    /// The run's last phase was reached: the history was not cut.
    pub ended: bool,
    pub tallies: BTreeMap<&'static str, Tally>,
    /// Acquires that were invoked while another worker held the key or tried for it.
    pub contended: u64,
    pub events: u64,
    /// The time of the last event.
    pub last: Ns,
    /// What does not fit together, with the place of the first.
    pub anomalies: u64,
    pub first_anomaly: Option<String>,
    /// The first sign that lines were lost, changed or moved after they were written: what is found may come of that.
    pub damaged: Option<String>,
    pub clients: u64,
    /// Clients that ended without having been killed by the nemesis, with what is known of it.
    pub ended_by_themselves: Vec<String>,
    /// Clients that were found stopped at the end, by nobody of the run.
    pub stopped: Vec<Name>,
    /// Steps of a schedule that came out otherwise than it says.
    pub off_schedule: Vec<String>,
    /// Toxiproxy was lost, and with it every way to the servers.
    pub proxy_lost: bool,
    /// A server did not run, or did not answer, when all faults were healed.
    pub server_lost: bool,

    /// Pieces of all promises.
    pub promise: Vec<Piece>,
    /// Sections by key and return.
    pub by_key: Vec<u32>,
    /// Sections by owner value.
    by_owner: Map<Name, u32>,
    /// When the first grant with a value that several share was asked for, by that value.
    shared_from: Map<Name, Ns>,
    /// Sections that were released, by key and release invoke.
    by_release: Vec<u32>,
    /// Releases without a known end, by key.
    open_releases: Vec<u32>,
    /// The longest finished release.
    release_max: Ns,
    /// The longest acquire that was granted.
    acquire_max: Ns,
}

impl Facts {
    /// Facts without indexes; call [`Self::index`] once all is filled in.
    pub(crate) fn new(header: Header) -> Self {
        Self {
            header,
            names: Names::default(),
            sections: Vec::new(),
            extensions: Vec::new(),
            servers: Servers::default(),
            wire: Wire::default(),
            faults: Faults::default(),
            effects: Vec::new(),
            strangers: Vec::new(),
            denied: Vec::new(),
            vain: Vec::new(),
            tries: Vec::new(),
            ghosts: Vec::new(),
            doubts: Doubts::default(),
            commands: BTreeMap::new(),
            late: Vec::new(),
            gaps: Vec::new(),
            waiting: Vec::new(),
            tails: HashMap::new(),
            tail_from: None,
            ended: false,
            tallies: BTreeMap::new(),
            contended: 0,
            events: 0,
            last: 0,
            anomalies: 0,
            first_anomaly: None,
            damaged: None,
            clients: 0,
            ended_by_themselves: Vec::new(),
            stopped: Vec::new(),
            off_schedule: Vec::new(),
            proxy_lost: false,
            server_lost: false,
            promise: Vec::new(),
            by_key: Vec::new(),
            by_owner: Map::default(),
            shared_from: Map::default(),
            by_release: Vec::new(),
            open_releases: Vec::new(),
            release_max: 0,
            acquire_max: 0,
        }
    }

    /// Sets the intervals of all sections and builds the indexes.
    pub(crate) fn index(&mut self) {
        self.servers.index();
        self.doubts.index();
        let took = self.sections.iter().map(|s| s.ret - s.inv);
        self.acquire_max = took.max().unwrap_or(0);
        for (me, s) in (0u32..).zip(&self.sections) {
            if s.owner != NONE {
                // A value that several grants share tells nothing about any one of them.
                if let Some(other) = self.by_owner.insert(s.owner, me) {
                    self.by_owner.insert(s.owner, NO_SECTION);
                    let first = self.sections.get(other as usize).map_or(s.inv, |o| o.inv);
                    let from = self.shared_from.entry(s.owner).or_insert(first);
                    *from = s.inv.min(*from);
                }
            }
        }
        let by_owner = &self.by_owner;
        let owned_by = |owner| by_owner.get(&owner).copied().filter(|s| *s != NO_SECTION);
        self.wire.tell(
            &self.names,
            &self.header.model,
            owned_by,
            &mut self.sections,
            &mut self.extensions,
        );
        self.extensions.sort_by_key(|e| (e.section, e.inv));
        // Nobody asks whose release it was where the servers were not watched.
        let watched = self.sections.iter().filter(|_| self.header.model.observed);
        for (me, s) in (0u32..).zip(watched) {
            if s.release_inv != NEVER {
                self.by_release.push(me);
                if s.release_ret == NEVER {
                    self.open_releases.push(me);
                } else {
                    self.release_max = self.release_max.max(s.release_ret - s.release_inv);
                }
            }
        }
        let sections = &self.sections;
        let of = |i: u32| &sections[i as usize];
        self.by_key = (0..sections.len() as u32).collect();
        self.by_key
            .sort_unstable_by_key(|i| (of(*i).key, of(*i).ret, *i));
        self.settle();
        let sections = &self.sections;
        let of = |i: u32| &sections[i as usize];
        self.by_release
            .sort_unstable_by_key(|i| (of(*i).key, of(*i).release_inv, *i));
        self.open_releases
            .sort_unstable_by_key(|i| (of(*i).key, *i));
    }

    /// Counts a command that a tap saw on its way to a server.
    pub(crate) fn command(&mut self, event: &Event<'_>) {
        const SECOND: Ns = 1_000_000_000;
        if event.f == "request" {
            let node = self.names.optional(event.value.node.as_deref());
            let counted = self.commands.entry((node, event.time / SECOND));
            *counted.or_default() += 1;
        }
    }

    /// Sets the intervals of all sections, key by key and in the order of their grants.
    fn settle(&mut self) {
        let model = &self.header.model;
        let sharpens = sharpen::applies(model);
        let mut proved = Proved::default();
        let mut key = NONE;
        for me in &self.by_key {
            let s = &self.sections[*me as usize];
            if s.key != key {
                (key, proved) = (s.key, Proved::default());
            }
            // Of a session's lease an acquire says nothing.
            if sharpens && s.start == s.inv {
                let seen = sharpen::seen(s, &self.servers, model);
                let start = proved.earliest(s, &self.sections, seen);
                self.sections[*me as usize].start = start;
            }
            let first = self.extensions.partition_point(|e| e.section < *me);
            let end = self.extensions.partition_point(|e| e.section <= *me);
            let before = self.promise.len();
            let s = &mut self.sections[*me as usize];
            s.settle(*me, &self.extensions[first..end], model, &mut self.promise);
            if sharpens {
                proved.add(&self.promise[before..]);
            }
        }
    }

    pub(crate) fn model(&self) -> &Model {
        &self.header.model
    }

    /// Whether two sections of one key must not overlap.
    pub(crate) fn conflict(&self, i: u32, j: u32) -> bool {
        let (a, b) = (self.section(i), self.section(j));
        let kind = self.model().kind;
        if kind == LockKind::ReadWrite && a.shared && b.shared {
            return false;
        }
        // Of a mutex with a lease, a worker that acquires again has let go; else it still holds what it did not release.
        let again = match kind {
            LockKind::Mutex => self.model().ttl_ms.is_none(),
            LockKind::Semaphore | LockKind::ReadWrite => true,
            LockKind::Reentrant => false,
        };
        !a.same_owner(b) || (again && !mutant::wrong(Mutant::Again))
    }

    /// How far a stamp may be from true time, in ns.
    pub(crate) fn uncertainty(&self) -> Ns {
        (self.model().clock_uncertainty_ms.clamp(0.0, 1e12) * 1e6) as Ns
    }

    pub(crate) fn section(&self, i: u32) -> &Section {
        &self.sections[i as usize]
    }

    /// What a worker holds beside its next grant, where it may hold several permits: `last`, or what it held below.
    pub(crate) fn beside(&self, mut last: u32) -> u32 {
        let model = self.model();
        let several = matches!(model.kind, LockKind::Semaphore | LockKind::ReadWrite);
        if !several {
            return NO_SECTION;
        }
        while let Some(s) = self.sections.get(last as usize) {
            if s.hold_end() == NEVER {
                break;
            }
            last = s.below;
        }
        last
    }

    /// The section that was granted with this owner value.
    pub(crate) fn owned_by(&self, owner: Name) -> Option<u32> {
        self.by_owner
            .get(&owner)
            .copied()
            .filter(|s| *s != NO_SECTION)
    }

    /// When the first grant with this owner value was asked for, where several share it.
    pub(crate) fn shared_from(&self, owner: Name) -> Option<Ns> {
        self.shared_from.get(&owner).copied()
    }

    /// Several sections were granted with this owner value.
    pub(crate) fn is_shared(&self, owner: Name) -> bool {
        self.by_owner.get(&owner) == Some(&NO_SECTION)
    }

    /// The sections that were granted with this owner value, if there are several.
    pub(crate) fn sharers(&self, owner: Name) -> Option<impl Iterator<Item = u32> + '_> {
        let shared = self.is_shared(owner);
        let all = (0u32..).zip(&self.sections);
        shared.then(|| all.filter(move |(_, s)| s.owner == owner).map(|(i, _)| i))
    }

    /// Sections of one key, by return; one slice a key.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u32]> {
        self.by_key
            .chunk_by(|a, b| self.section(*a).key == self.section(*b).key)
    }

    /// Sections of `key` that returned in `[from, to]`.
    pub(crate) fn granted_in(&self, key: Name, from: Ns, to: Ns) -> &[u32] {
        let at = |i: &u32| (self.section(*i).key, self.section(*i).ret);
        let start = self.by_key.partition_point(|i| at(i) < (key, from));
        let end = self.by_key.partition_point(|i| at(i) <= (key, to));
        self.by_key.get(start..end).unwrap_or_default()
    }

    /// Sections of `key` whose acquire was under way at some time in `[from, to]`.
    pub(crate) fn acquiring(&self, key: Name, from: Ns, to: Ns) -> impl Iterator<Item = u32> + '_ {
        let near = self.granted_in(key, from, to.saturating_add(self.acquire_max));
        let near = near.iter().copied();
        near.filter(move |i| self.section(*i).inv <= to)
    }

    /// The extensions of a section, in the order of their invokes.
    pub(crate) fn extensions_of(&self, section: u32) -> &[Extension] {
        let start = self.extensions.partition_point(|e| e.section < section);
        let end = self.extensions.partition_point(|e| e.section <= section);
        &self.extensions[start..end]
    }

    /// Sections whose release may have been at work on `key` at some time in `[from, to]`.
    pub(crate) fn releasing(&self, key: Name, from: Ns, to: Ns) -> Vec<u32> {
        /// Open-ended releases that are looked at; more only make a blame less sure.
        const OPEN_MAX: usize = 32;
        let earliest = from.saturating_sub(self.release_max);
        let at = |i: &u32| (self.section(*i).key, self.section(*i).release_inv);
        let start = self.by_release.partition_point(|i| at(i) < (key, earliest));
        let end = self.by_release.partition_point(|i| at(i) <= (key, to));
        let mut found: Vec<u32> = self.by_release.get(start..end).unwrap_or_default().to_vec();
        let start = self
            .open_releases
            .partition_point(|i| self.section(*i).key < key);
        let open = self.open_releases[start..]
            .iter()
            .take_while(|i| self.section(**i).key == key);
        found.extend(open.take(OPEN_MAX));
        found.retain(|i| self.section(*i).releasing(from, to));
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Whether the section's release is known to have removed nothing: its failure says that on one node only; of
    /// several, some may have removed the key all the same.
    pub(crate) fn removed_nothing(&self, s: &Section) -> bool {
        s.release == Ended::Fail && self.model().nodes <= 1
    }

    /// How a finding shows a section.
    pub(crate) fn view(&self, i: u32, label: &str) -> SectionView {
        let s = self.section(i);
        SectionView {
            label: label.to_owned(),
            client: self.names.text(s.client).to_owned(),
            worker: s.worker,
            process: s.process,
            owner: self.names.get(s.owner).map(str::to_owned),
            token: (s.token != NO_TOKEN).then_some(s.token),
            acquire_invoke: s.inv,
            acquire_return: s.ret,
            promise_end: (s.promise_end != NEVER).then_some(s.promise_end),
            belief_end: (s.belief_end != NEVER).then_some(s.belief_end),
        }
    }

    /// ε = 1 s + the sum of recorded stalls + the session's granularity.
    pub(crate) fn epsilon(&self) -> Ns {
        1_000_000_000u64
            .saturating_add(self.faults.stalled())
            .saturating_add(self.model().grain_ms.saturating_mul(1_000_000))
    }
}

/// A time as findings write it: `1.204 s`.
pub(crate) fn seconds(ns: Ns) -> String {
    if ns == NEVER {
        "the end".to_owned()
    } else {
        format!("{}.{:03} s", ns / 1_000_000_000, ns / 1_000_000 % 1000)
    }
}

/// A length of time as findings write it: `412 ms`, `0.3 ms`.
pub(crate) fn length(ns: Ns) -> String {
    if ns >= 10_000_000 {
        format!("{} ms", ns / 1_000_000)
    } else {
        format!("{:.3} ms", ns as f64 / 1e6)
    }
}
