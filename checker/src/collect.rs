//! Turns a stream of events into [`Facts`], one event at a time: operations become sections, the rest is filed.
//!
//! Owns the pairing of invokes with their answers and the life of a hold. Must not know the checks. What does not
//! fit together (an answer without an invoke) is counted, and makes the verdict unknown; it never stops the reading.
mod driver;
mod releases;

use crate::crowd::Crowds;
use crate::event::{Event, EventType, Process};
use crate::facts::{Facts, Ghost, Tail, Tally, Try, Vain};
use crate::hash::Map;
use crate::model::LockKind;
use crate::names::Name;
use crate::operation::{Op, Open, is_not_yours, no_quorum, says_held};
use crate::seat::{Seat, Seats};
use crate::section::{Ended, Extension, NEVER, NO_SECTION, Ns, Section};

/// Calls over their bound that are kept.
const LATE_MAX: usize = 10_000;

/// Reads events, in the order of the history.
#[derive(Debug)]
pub(crate) struct Collector {
    pub facts: Facts,
    /// What each process waits for, by operation.
    open: [Map<u64, Open>; 4],
    seats: Seats,
    crowds: Crowds,
    /// Clients that were seen, by number.
    clients: Vec<bool>,
    /// Of each operation that occurred, by its number: its name, and what became of it.
    tallies: [(&'static str, Tally); 4],
    in_tail: bool,
}

impl Collector {
    pub(crate) fn new(facts: Facts) -> Self {
        Self {
            facts,
            open: Default::default(),
            seats: Seats::default(),
            crowds: Crowds::default(),
            clients: Vec::new(),
            tallies: Default::default(),
            in_tail: false,
        }
    }

    /// Takes the next event.
    pub(crate) fn push(&mut self, event: &Event<'_>) {
        self.facts.events += 1;
        self.facts.last = self.facts.last.max(event.time);
        match &event.process {
            Process::Id(process) => self.operation(*process, event),
            Process::Named(name) => match name.as_ref() {
                "observer" => {
                    let f = &mut self.facts;
                    if !f.servers.push(event, &mut f.names) {
                        self.odd(event, "the observer has no such event");
                    }
                }
                "nemesis" => {
                    if !self.facts.faults.push(event) {
                        self.odd(event, "a fault without a known phase or number");
                    }
                    if self.in_tail {
                        self.facts.tail_from = Some(event.time);
                    }
                }
                "driver" => self.driver(event),
                "tap" => {
                    let f = &mut self.facts;
                    f.command(event);
                    if !f.wire.push(event, &mut f.names) {
                        self.odd(event, "the tap has no such event");
                    }
                }
                _ => self.odd(event, "no such process"),
            },
        }
    }

    /// All is read.
    pub(crate) fn finish(mut self) -> Facts {
        self.unanswered();
        self.facts.waiting = self.seats.waiting();
        self.facts.gaps = self.crowds.finish();
        let tallies = self.tallies.into_iter().filter(|t| t.1.invoked > 0);
        self.facts.tallies.extend(tallies);
        self.facts.index();
        self.facts
    }

    /// So many events are missing, the first of them before this index.
    pub(crate) fn missed(&mut self, index: u64, count: u64) {
        self.facts.anomalies += 1;
        let what = format!("event {index}: missing by their index before it: {count}");
        self.facts.first_anomaly.get_or_insert_with(|| what.clone());
        self.facts.damaged.get_or_insert(what);
    }

    /// As [`Self::odd`], of what no harness and no client can have written.
    fn damaged(&mut self, event: &Event<'_>, why: &str) {
        self.odd(event, why);
        let what = || format!("event {}: {why}", event.index);
        self.facts.damaged.get_or_insert_with(what);
    }

    fn odd(&mut self, event: &Event<'_>, why: &str) {
        self.facts.anomalies += 1;
        self.facts.first_anomaly.get_or_insert_with(|| {
            let f: String = event.f.chars().take(40).collect();
            format!("event {} (`{f}`): {why}", event.index)
        });
    }

    fn operation(&mut self, process: u64, event: &Event<'_>) {
        let seat = self.seat(process, event);
        let Some(op) = Op::parse(&event.f) else {
            self.other(seat, event);
            return;
        };
        let (known, tally) = &mut self.tallies[op as usize];
        *known = op.name();
        match event.kind {
            EventType::Invoke => tally.invoked += 1,
            EventType::Ok => tally.ok += 1,
            EventType::Fail => tally.fail += 1,
            EventType::Info => tally.info += 1,
        }
        if event.kind == EventType::Invoke {
            self.invoke(process, op, seat, event);
            return;
        }
        match self.open[op as usize].remove(&process) {
            Some(open) if event.time < open.inv => {
                self.damaged(event, "answered before it was invoked");
            }
            Some(open) if self.differs(open, event) => {
                self.damaged(event, "its key or client is not that of its invoke");
            }
            Some(open) => self.answer(process, op, open, event),
            None => self.odd(event, "an answer without an invoke"),
        }
    }

    /// Whether an answer names another key or client than its invoke. It need not name any.
    fn differs(&self, open: Open, event: &Event<'_>) -> bool {
        let other =
            |named: Option<&str>, name| named.is_some_and(|n| n != self.facts.names.text(name));
        other(event.key.as_deref(), open.key) || other(event.client.as_deref(), open.client)
    }

    /// The seat of an operation's event.
    fn seat(&mut self, process: u64, event: &Event<'_>) -> u32 {
        if let Some(seat) = self.seats.recent(process, event, &self.facts.names) {
            return seat;
        }
        let crowds = &mut self.crowds;
        let crowd = |key| crowds.number(key);
        let seat = self
            .seats
            .find(process, event, &mut self.facts.names, crowd);
        let at = self.seats.get(seat).client as usize;
        if self.clients.len() <= at {
            self.clients.resize(at + 1, false);
        }
        if !std::mem::replace(&mut self.clients[at], true) {
            self.facts.clients += 1;
        }
        seat
    }

    fn invoke(&mut self, process: u64, op: Op, seat: u32, event: &Event<'_>) {
        let Seat {
            client,
            key,
            crowd,
            hold,
            ..
        } = *self.seats.get(seat);
        let mut subject = hold.section;
        match op {
            Op::Acquire => {
                // Without a lease, or where it may hold several or several times, only a release ends a hold.
                let model = &self.facts.header.model;
                let lets_go = model.ttl_ms.is_some() && model.kind == LockKind::Mutex;
                if subject != NO_SECTION && lets_go {
                    let s = &mut self.facts.sections[subject as usize];
                    let held = s.hold_end() == NEVER;
                    s.over = s.over.min(event.time);
                    if held {
                        self.crowds.let_go(crowd, event.time);
                    }
                }
                self.seats.tries(seat, event.time);
                if self.crowds.tries(crowd) {
                    self.facts.contended += 1;
                }
                if let Some(tail) = self.tail(key) {
                    tail.tries += 1;
                    tail.first_try = tail.first_try.or(Some(event.time));
                }
                let hold = self.seats.hold(seat);
                // It does something else: an acquire that was asked for before will not be answered any more.
                hold.doubt = hold.doubt.min(hold.asks);
                hold.asks = event.time;
            }
            Op::Release => {
                self.next_permit(seat);
                let hold = self.seats.hold(seat);
                hold.let_go = event.time;
                subject = hold.section;
                if subject != NO_SECTION {
                    hold.undone += 1;
                    if hold.undone >= hold.depth {
                        self.release_begins(crowd, subject, event.time);
                    }
                }
            }
            Op::Extend if subject != NO_SECTION => {
                let lease = self.lease(event.value.ttl_ms);
                self.facts.extensions.push(Extension {
                    section: subject,
                    inv: event.time,
                    ret: NEVER,
                    lease,
                    validity_ms: f64::NAN,
                    ended: Ended::Open,
                    wire: false,
                    told: false,
                });
                subject = (self.facts.extensions.len() - 1) as u32;
            }
            _ => {}
        }
        let open = Open {
            inv: event.time,
            key,
            client,
            seat,
            ttl_ms: event.value.ttl_ms,
            shared: event.value.shared == Some(true),
            subject,
            wait_ms: event.value.wait_ms.unwrap_or(0),
        };
        if self.open[op as usize].insert(process, open).is_some() {
            self.odd(event, "invoked again before its answer");
        }
    }

    fn answer(&mut self, process: u64, op: Op, open: Open, event: &Event<'_>) {
        self.in_time(op, open, event);
        match op {
            Op::Acquire => self.acquired(process, open, event),
            Op::Release => self.released(process, open, event),
            Op::Extend if open.subject != NO_SECTION => self.extended(open, event),
            Op::Extend | Op::Work => {}
        }
    }

    /// Keeps a call that was answered after its stated bound, or given up at it.
    fn in_time(&mut self, op: Op, open: Open, event: &Event<'_>) {
        if let Some(late) = op.late(&open, event, self.facts.model().call_ms)
            && self.facts.late.len() < LATE_MAX
        {
            self.facts.late.push(late);
        }
    }

    fn acquired(&mut self, process: u64, open: Open, event: &Event<'_>) {
        let seat = open.seat;
        let Seat { crowd, worker, .. } = *self.seats.get(seat);
        self.crowds.answered(crowd);
        let hold = self.seats.hold(seat);
        if hold.asks == open.inv {
            hold.asks = NEVER;
        }
        let out_of_turn = hold.let_go > open.inv;
        if out_of_turn {
            self.odd(
                event,
                "an acquire was answered after its worker had begun a release",
            );
        }
        let ok = event.kind == EventType::Ok && !out_of_turn;
        if let Some(tail) = self.tail(open.key) {
            if ok {
                tail.granted = tail.granted.or(Some(event.time));
            } else {
                tail.last_denied = Some((open.inv, event.time));
            }
        }
        if !ok {
            self.not_acquired(open, event);
            return;
        }
        let lease = self.lease(event.value.ttl_ms.or(open.ttl_ms));
        if self.acquired_again(open, lease, event) {
            return;
        }
        let v = &event.value;
        let owner = self.facts.names.optional(v.owner.as_deref());
        let section = self.facts.sections.len() as u32;
        let mut granted = Section::granted(
            open.key,
            open.client,
            worker,
            process,
            (open.inv, event.time),
            lease,
            owner,
            v.token,
            v.validity_ms,
        );
        granted.shared = open.shared;
        self.crowds.granted(crowd, open.inv);
        (granted.wanted, granted.retried) = self.seats.granted(seat, open.inv);
        granted.start = v.since.map_or(open.inv, |since| since.min(event.time));
        granted.quoted = v.since.is_some();
        let hold = self.seats.hold(seat);
        granted.below = self.facts.beside(hold.section);
        hold.most += 1;
        self.facts.sections.push(granted);
        (hold.section, hold.depth, hold.undone) = (section, 1, 0);
    }

    /// A try without a grant: doubt, or evidence that another held the lock.
    fn not_acquired(&mut self, open: Open, event: &Event<'_>) {
        // What a server in trouble answers says nothing of the lock.
        let refused = event.kind == EventType::Fail && (says_held(event) || no_quorum(event));
        let doubt = !refused;
        self.seats.denied(open.seat);
        let crowd = self.seats.get(open.seat).crowd;
        self.crowds.denied(crowd, (open.inv, event.time), doubt);
        if doubt {
            self.doubted(open.key, open.inv, event.time);
        }
        let model = &self.facts.header.model;
        let exact = model.ttl_ms.is_none() && model.kind == LockKind::Mutex;
        let long = event.time - open.inv > 1_000_000_000;
        if model.nodes > 1 || model.members > 1 || long {
            self.facts.vain.push(Vain {
                key: open.key,
                client: open.client,
                inv: open.inv,
                ret: event.time,
            });
        }
        if event.kind != EventType::Fail {
            let hold = self.seats.hold(open.seat);
            hold.doubt = hold.doubt.min(open.inv);
            if exact {
                self.facts.ghosts.push(Ghost {
                    key: open.key,
                    inv: open.inv,
                    release: (NEVER, NEVER),
                });
            }
        } else if exact && says_held(event) {
            self.facts.tries.push(Try {
                key: open.key,
                client: open.client,
                inv: open.inv,
                ret: event.time,
            });
        }
    }

    /// An acquire that may have set a value.
    fn doubted(&mut self, key: Name, inv: Ns, ret: Ns) {
        if self.facts.header.model.observed {
            self.facts.doubts.push(key, inv, ret);
        }
    }

    /// A grant to a worker that holds a reentrant lock already: the section goes on, and its lease is renewed.
    fn acquired_again(&mut self, open: Open, lease: Ns, event: &Event<'_>) -> bool {
        if self.facts.header.model.kind != LockKind::Reentrant {
            return false;
        }
        let sections = &self.facts.sections;
        let hold = self.seats.hold(open.seat);
        if hold.section == NO_SECTION || sections[hold.section as usize].hold_end() != NEVER {
            return false;
        }
        hold.depth += 1;
        hold.most += 1;
        let section = hold.section;
        self.seats.waits_no_more(open.seat);
        if lease != NEVER {
            self.facts.extensions.push(Extension {
                section,
                inv: open.inv,
                ret: event.time,
                lease,
                validity_ms: event.value.validity_ms.unwrap_or(f64::NAN),
                ended: Ended::Ok,
                wire: false,
                told: false,
            });
        }
        true
    }

    /// Operations that were never answered: an acquire may have been granted, a clean-up may have been done.
    fn unanswered(&mut self) {
        // The earliest first: from then on somebody may hold.
        let mut tries: Vec<&Open> = self.open[Op::Acquire as usize].values().collect();
        tries.sort_unstable_by_key(|open| open.inv);
        for open in tries {
            let crowd = self.seats.get(open.seat).crowd;
            self.crowds.unanswered(crowd, open.inv);
            if self.facts.header.model.observed {
                self.facts.doubts.push(open.key, open.inv, NEVER);
            }
            self.facts.ghosts.push(Ghost {
                key: open.key,
                inv: open.inv,
                release: (NEVER, NEVER),
            });
        }
        for open in self.open[Op::Release as usize].values() {
            let hold = self.seats.get(open.seat).hold;
            let doubt = hold.doubt.min(hold.asks);
            if doubt < open.inv {
                self.facts.ghosts.push(Ghost {
                    key: open.key,
                    inv: doubt,
                    release: (open.inv, NEVER),
                });
            }
        }
    }

    fn extended(&mut self, open: Open, event: &Event<'_>) {
        let e = &mut self.facts.extensions[open.subject as usize];
        e.ended = match event.kind {
            EventType::Ok => Ended::Ok,
            EventType::Fail => Ended::Fail,
            _ => Ended::Info,
        };
        if event.kind != EventType::Info {
            e.ret = event.time;
        }
        e.validity_ms = event.value.validity_ms.unwrap_or(f64::NAN);
        let extension_of = e.section;
        if event.kind == EventType::Fail && is_not_yours(event) {
            let crowd = self.seats.get(open.seat).crowd;
            self.told_over(crowd, extension_of, event.time);
        }
    }

    /// The holder is told, or says, that its hold is over.
    fn told_over(&mut self, crowd: u32, section: u32, at: Ns) {
        let s = &mut self.facts.sections[section as usize];
        if s.hold_end() == NEVER {
            self.crowds.let_go(crowd, at);
        }
        s.over = s.over.min(at);
    }

    /// Effects, notices, and what this version does not know.
    fn other(&mut self, seat: u32, event: &Event<'_>) {
        let Seat { hold, crowd, .. } = *self.seats.get(seat);
        let section = hold.section;
        let name = match event.f.as_ref() {
            "read" => "read",
            "write" => "write",
            "lost" | "close" => {
                if section != NO_SECTION {
                    self.told_over(crowd, section, event.time);
                }
                return;
            }
            "renewed" => {
                self.renewed(section, event);
                return;
            }
            _ => return,
        };
        let tally = self.facts.tallies.entry(name).or_default();
        tally.invoked += 1;
        if event.kind != EventType::Ok {
            tally.fail += 1;
            return;
        }
        tally.ok += 1;
        if section == NO_SECTION {
            self.odd(event, "an effect of a worker that was granted nothing");
            return;
        }
        let s = &mut self.facts.sections[section as usize];
        s.last_effect = s.last_effect.max(event.time);
        self.facts.effects.push(crate::facts::Effect {
            time: event.time,
            section,
            write: name == "write",
            version: event.value.version.unwrap_or(u64::MAX),
        });
    }

    /// A keep-alive of the library's own was confirmed.
    fn renewed(&mut self, section: u32, event: &Event<'_>) {
        let lease = self.lease(event.value.ttl_ms);
        let Some(since) = event.value.since.filter(|since| *since <= event.time) else {
            self.odd(event, "renewed, but not since when");
            return;
        };
        if section == NO_SECTION || lease == NEVER {
            return; // A session is kept alive between two holds, too.
        }
        if self.facts.sections[section as usize].hold_end() == NEVER {
            self.facts.extensions.push(Extension {
                section,
                inv: since,
                ret: event.time,
                lease,
                validity_ms: f64::NAN,
                ended: Ended::Ok,
                wire: false,
                told: true,
            });
        }
    }

    /// The tail's account of a key, if the tail has begun.
    fn tail(&mut self, key: Name) -> Option<&mut Tail> {
        let epoch = self.facts.tail_from.filter(|_| self.in_tail)?;
        let tail = self.facts.tails.entry(key).or_default();
        if tail.epoch != epoch {
            *tail = Tail {
                epoch,
                ..Tail::default()
            };
        }
        Some(tail)
    }

    fn lease(&self, ttl_ms: Option<u64>) -> Ns {
        let model = self.facts.header.model.ttl_ms;
        let ms = match (ttl_ms, model) {
            // The smaller of asked and granted; a lock without lease has none whatever is asked.
            (_, None) => return NEVER,
            (Some(asked), Some(_)) => asked,
            (None, Some(model)) => model,
        };
        ms.saturating_mul(1_000_000).min(NEVER - 1)
    }
}
