//! The world: one queue of things to come, in virtual nanoseconds.
//!
//! Owns the queue, the configuration, the faults and the history that is written. Must not know the checker's inside:
//! it writes events as the harness does. Messages live in the network, not in the calls that sent them.
mod clients;
mod nodes;
mod truth;
mod upkeep;

use clients::Client;
use fencepost_checker::{Checker, Event, EventType, Header, Model, Process, Value, Verdict};
use nodes::{Cmd, Node};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use truth::Truth;

pub const MS: u64 = 1_000_000;
/// The lease.
pub const TTL: u64 = 400 * MS;
/// How long a client waits for the servers' answers.
const PATIENCE: u64 = 60 * MS;
/// Longest pause between two tries.
const RETRY: u64 = 80 * MS;
/// How long a waiting call may last.
const WAIT: u64 = 1_500 * MS;
/// Faults and a bad network until here; then the quiet tail, the final reads, the end.
const LOAD: u64 = 4_000 * MS;
const TAIL: u64 = 5_000 * MS;
const FINAL: u64 = 7_000 * MS;
const END: u64 = 8_000 * MS;
const CLIENTS: usize = 4;
/// Clocks run up to this much fast or slow, in parts per million: the 1 % that the formula allows.
const PPM_MAX: u64 = 10_000;

/// The lock under test; all but the first are wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lock {
    Correct,
    /// Deletes the key, whoever's it is.
    PlainDel,
    /// Looks whose key it is, then deletes it.
    GetThenDel,
    /// Says ok and sets nothing.
    Never,
    /// Claims the whole lease.
    LongClaim,
    /// Says ok to every extension.
    ExtendAlwaysOk,
    /// Gives the key back when an extension had no answer, and does not tell.
    UnlockAfterExtend,
    /// One value for all attempts of a client.
    OneValue,
}

/// What a server does, again and again in the load, while its key is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plant {
    Flush,
    RestartEmpty,
    /// Its clock is set forward, by up to a lease.
    ClockForward,
}

/// What a configuration has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum With {
    /// Clients stop for up to four leases.
    Pauses,
    /// Messages are lost, late by up to two leases, out of order.
    Lossy,
    /// Servers crash and come back with all their data.
    Crashes,
    /// Servers stop and go on; what was sent to them is done then.
    Stops,
    /// Client processes are killed and replaced.
    Deaths,
    /// Client processes end in order, and unlock what they hold.
    Closes,
    /// The driver extends every third of the lease.
    Renewal,
    /// The driver extends late, and for leases of many lengths.
    Races,
    /// The library renews by itself, unseen but on the servers, and tells of a loss.
    Watchdog,
    /// The lock lives as long as its client's session, which is kept alive.
    Session,
    /// Calls wait and try again inside.
    Waits,
    /// The library claims no validity.
    NoClaim,
    /// The observer reads little.
    Blind,
    /// The observer reads every value, as on servers that are not busy; else it misses one in twenty.
    Reads,
    /// Nobody watches the servers.
    Unobserved,
    /// The first client reaches no more than a quorum.
    Thin,
}

#[derive(Debug, Clone, Copy)]
pub struct Config {
    pub lock: Lock,
    pub nodes: usize,
    pub with: &'static [With],
    pub plant: Option<Plant>,
}

impl Config {
    pub const fn correct(nodes: usize, with: &'static [With]) -> Self {
        Self {
            lock: Lock::Correct,
            nodes,
            with,
            plant: None,
        }
    }

    pub const fn planted(nodes: usize, plant: Plant, with: &'static [With]) -> Self {
        Self {
            plant: Some(plant),
            ..Self::correct(nodes, with)
        }
    }

    pub const fn wrong(lock: Lock, with: &'static [With]) -> Self {
        Self {
            lock,
            ..Self::correct(1, with)
        }
    }

    pub fn has(&self, what: With) -> bool {
        self.with.contains(&what)
    }
}

/// A finished history, and what truly happened.
pub struct History {
    header: Header,
    events: Vec<Event<'static>>,
    /// Pairs of owner values that were both promised the lock at once, by the servers' own times.
    pub double_grants: Vec<(String, String)>,
}

impl History {
    pub fn check(&self) -> Verdict {
        let mut checker = Checker::new(self.header.clone());
        for event in &self.events {
            checker.push(event);
        }
        checker.finish()
    }

    /// The same, had the observer not read whose value about one `set` in so many wrote.
    pub fn less_read(&self, one_in: u64) -> Self {
        let mut events = self.events.clone();
        let sets = events.iter_mut().filter(|e| e.f == "set");
        for e in sets.filter(|e| e.time / 1000 % one_in == 0) {
            e.value.owner = None;
            e.value.pttl_ms = None;
        }
        Self {
            header: self.header.clone(),
            events,
            double_grants: self.double_grants.clone(),
        }
    }

    pub fn text(&self) -> String {
        let mut lines = vec![serde_json::to_string(&self.header).expect("writes")];
        let events = self.events.iter().map(serde_json::to_string);
        lines.extend(events.map(|e| e.expect("writes")));
        lines.join("\n")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Todo {
    /// A client goes on with its script, if it still waits for this step.
    Wake {
        client: usize,
        step: u64,
    },
    Arrive {
        node: usize,
        client: usize,
        call: u64,
        cmd: Cmd,
        owner: u64,
    },
    Reply {
        client: usize,
        call: u64,
        yes: bool,
        token: u64,
    },
    /// Time to keep a session or a lease alive, or to see that it is over; of this incarnation or hold only.
    Beat {
        client: usize,
        life: u64,
    },
    Doubt {
        client: usize,
        life: u64,
    },
    Pause {
        client: usize,
    },
    Kill {
        client: usize,
    },
    Close {
        client: usize,
    },
    Birth {
        client: usize,
    },
    Crash {
        node: usize,
    },
    Stop {
        node: usize,
    },
    Up {
        node: usize,
        empty: bool,
    },
    Plant,
}

struct World {
    config: Config,
    random: u64,
    now: u64,
    order: u64,
    queue: BinaryHeap<Reverse<(u64, u64, Todo)>>,
    clients: Vec<Client>,
    nodes: Vec<Node>,
    /// Fresh numbers: processes, owner values, calls, sessions.
    next: u64,
    version: u64,
    revision: u64,
    truth: Truth,
    events: Vec<(u64, u64, Event<'static>)>,
}

/// Runs a world from a seed.
pub fn run(config: Config, seed: u64) -> History {
    let mut w = World::new(config, seed);
    while let Some(Reverse((at, _, todo))) = w.queue.pop() {
        if at > FINAL {
            break;
        }
        w.now = at;
        w.handle(todo);
    }
    w.finish()
}

/// An event without process, key or value.
fn blank(process: Process<'static>, f: &'static str, value: Value<'static>) -> Event<'static> {
    Event {
        index: 0,
        time: 0,
        process,
        client: None,
        worker: None,
        kind: EventType::Info,
        f: Cow::Borrowed(f),
        key: None,
        value,
        error: None,
    }
}

fn named(process: &'static str, f: &'static str, value: Value<'static>) -> Event<'static> {
    blank(Process::Named(Cow::Borrowed(process)), f, value)
}

fn client_name(client: usize) -> Cow<'static, str> {
    Cow::Owned(format!("c{}", client + 1))
}

fn node_name(node: usize) -> Cow<'static, str> {
    Cow::Owned(format!("n{}", node + 1))
}

impl World {
    fn new(config: Config, seed: u64) -> Self {
        let mut w = Self {
            config,
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d,
            now: 0,
            order: 0,
            queue: BinaryHeap::new(),
            clients: Vec::new(),
            nodes: Vec::new(),
            next: CLIENTS as u64,
            version: 0,
            revision: 0,
            truth: Truth::default(),
            events: Vec::new(),
        };
        for client in 0..CLIENTS {
            let ppm = w.drift();
            w.clients
                .push(Client::new(client as u64, ppm, config.nodes));
            w.wake(client, 5 * MS);
            if config.has(With::Session) {
                w.open_session(client);
            }
        }
        for _ in 0..config.nodes {
            let ppm = w.drift();
            w.nodes.push(Node::new(ppm));
        }
        w.phases();
        w.schedule();
        w
    }

    fn drift(&mut self) -> i64 {
        self.below(2 * PPM_MAX + 1) as i64 - PPM_MAX as i64
    }

    fn phases(&mut self) {
        for (phase, at) in [
            ("load", 0),
            ("heal", LOAD),
            ("tail", TAIL),
            ("final", FINAL),
            ("end", END),
        ] {
            let value = Value {
                phase: Some(Cow::Borrowed(phase)),
                ..Value::default()
            };
            self.emit(at, named("driver", "phase", value));
        }
        if self.config.has(With::Lossy) {
            self.window(9, "latency", "c*>n*", (0, LOAD));
        }
    }

    /// When what happens to clients and servers.
    fn schedule(&mut self) {
        let (clients, nodes) = (CLIENTS as u64, self.config.nodes as u64);
        for i in 0..8 {
            let about = i * LOAD / 8;
            let at = |w: &mut Self| about + w.below(LOAD / 8);
            for with in self.config.with {
                let after = at(self);
                let client = self.below(clients) as usize;
                let node = self.below(nodes) as usize;
                match with {
                    With::Pauses => self.later(after, Todo::Pause { client }),
                    With::Crashes => self.later(after, Todo::Crash { node }),
                    With::Stops => self.later(after, Todo::Stop { node }),
                    With::Deaths => self.later(after, Todo::Kill { client }),
                    With::Closes => self.later(after, Todo::Close { client }),
                    _ => {}
                }
            }
            if self.config.plant.is_some() {
                let after = at(self);
                self.later(after, Todo::Plant);
            }
        }
    }

    fn below(&mut self, n: u64) -> u64 {
        // splitmix64
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n.max(1)
    }

    fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn later(&mut self, after: u64, todo: Todo) {
        self.order += 1;
        self.queue
            .push(Reverse((self.now + after, self.order, todo)));
    }

    fn wake(&mut self, client: usize, within: u64) {
        let after = self.below(within) + 1;
        let step = self.clients[client].step;
        self.later(after, Todo::Wake { client, step });
    }

    fn emit(&mut self, at: u64, mut event: Event<'static>) {
        event.time = at;
        self.order += 1;
        self.events.push((at, self.order, event));
    }

    /// A fault from injection to healed, as the nemesis tells it.
    fn window(&mut self, fault: u32, kind: &'static str, target: &str, (from, to): (u64, u64)) {
        for (phase, at) in [
            ("inject", from),
            ("bit", from),
            ("heal", to),
            ("healed", to),
        ] {
            let value = Value {
                fault: Some(fault),
                phase: Some(Cow::Borrowed(phase)),
                target: Some(Cow::Owned(target.to_owned())),
                ..Value::default()
            };
            let mut event = named("nemesis", kind, value);
            event.client = target
                .starts_with('c')
                .then(|| Cow::Owned(target.to_owned()));
            self.emit(at, event);
        }
    }

    fn handle(&mut self, todo: Todo) {
        match todo {
            Todo::Wake { client, step } => {
                if self.clients[client].step == step && !self.put_off(client, todo) {
                    self.go_on(client);
                }
            }
            Todo::Reply {
                client,
                call,
                yes,
                token,
            } => {
                if !self.put_off(client, todo) {
                    self.answered(client, call, yes, token);
                }
            }
            Todo::Beat { client, life } => {
                if self.clients[client].life == life && !self.put_off(client, todo) {
                    self.beat(client);
                }
            }
            Todo::Doubt { client, life } => {
                if self.clients[client].life == life && !self.put_off(client, todo) {
                    self.doubt(client);
                }
            }
            Todo::Arrive {
                node,
                client,
                call,
                cmd,
                owner,
            } => {
                let until = self.nodes[node].stopped_until;
                if until > self.now {
                    self.later(until - self.now, todo);
                } else if self.nodes[node].up {
                    let (yes, token) = self.execute(node, cmd, owner, call);
                    self.reply(node, client, call, (yes, token));
                }
            }
            Todo::Pause { client } => self.pause(client),
            Todo::Kill { client } => self.kill(client),
            Todo::Close { client } => self.close(client),
            Todo::Birth { client } => self.birth(client),
            Todo::Crash { node } => self.crash(node),
            Todo::Stop { node } => self.stop(node),
            Todo::Up { node, empty } => self.up(node, empty),
            Todo::Plant => self.plant(),
        }
    }

    /// A stopped client does what comes to it when it goes on.
    fn put_off(&mut self, client: usize, todo: Todo) -> bool {
        let until = self.clients[client].paused_until;
        let stopped = until > self.now;
        if stopped {
            self.later(until - self.now, todo);
        }
        stopped
    }

    fn pause(&mut self, client: usize) {
        let length = 100 * MS + self.below(4 * TTL);
        if self.clients[client].paused_until > self.now {
            return;
        }
        self.clients[client].paused_until = self.now + length;
        let span = (self.now, self.now + length);
        self.window(client as u32, "client-pause", &client_name(client), span);
    }

    fn finish(mut self) -> History {
        self.now = FINAL;
        for node in 0..self.nodes.len() {
            self.look(node);
        }
        self.events.sort_by_key(|e| (e.0, e.1));
        let events = self.events.into_iter().zip(0..);
        let events = events.map(|((_, _, event), index)| Event { index, ..event });
        let config = self.config;
        let owner = |n: u64| format!("o{n}");
        let double = self.truth.double_grants();
        History {
            header: header(config),
            events: events.collect(),
            double_grants: double
                .into_iter()
                .map(|(a, b)| (owner(a), owner(b)))
                .collect(),
        }
    }
}

fn header(config: Config) -> Header {
    let nodes = config.nodes as u32;
    Header {
        fencepost: 1,
        workload: "world".to_owned(),
        seed: 0,
        model: Model {
            ttl_ms: Some(TTL / MS),
            nodes,
            quorum: nodes / 2 + 1,
            retry_ms: RETRY / MS,
            observed: !config.has(With::Unobserved),
            waits: config.has(With::Waits),
            tokens: config.has(With::Session),
            promises_notice: config.has(With::Watchdog) || config.has(With::Session),
            ..Model::default()
        },
        expect: [].into(),
        versions: [].into(),
    }
}
