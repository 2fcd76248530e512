//! The world: one queue of things to come, in virtual nanoseconds.
//!
//! Owns clients, messages, servers, faults, and an observer that sees everything, late. Must not know the checker's
//! inside: it writes a history as the harness does. Messages live in the network, not in the calls that sent them.
use fencepost_checker::{Verdict, check_reader};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

const MS: u64 = 1_000_000;
const TTL: u64 = 400 * MS;
/// How long a client waits for the servers' answers.
const PATIENCE: u64 = 60 * MS;
const LOAD: u64 = 6_000 * MS;
const END: u64 = 12_000 * MS;
const CLIENTS: usize = 4;

/// The lock under test; all but the first are wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lock {
    Correct,
    PlainDel,
    GetThenDel,
    Never,
    LongClaim,
    ExtendAlwaysOk,
}

/// What a server does once, in the middle of the load, while its key is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plant {
    Flush,
    RestartEmpty,
    ClockForward,
}

#[derive(Debug, Clone, Copy)]
pub struct Config {
    pub lock: Lock,
    pub nodes: usize,
    pub pauses: bool,
    pub lossy: bool,
    pub crashes: bool,
    pub renew: bool,
    /// Most events come without the owner's value.
    pub blind: bool,
    pub plant: Option<Plant>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            lock: Lock::Correct,
            nodes: 1,
            pauses: false,
            lossy: false,
            crashes: false,
            renew: false,
            blind: false,
            plant: None,
        }
    }
}

/// A finished history.
pub struct History(String);

impl History {
    pub fn check(&self) -> Verdict {
        check_reader(self.0.as_bytes()).expect("a good history")
    }

    pub fn text(&self) -> &str {
        &self.0
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Cmd {
    Set,
    Get,
    DelIfMine,
    Del,
    Expire,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
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
    },
    Pause {
        client: usize,
    },
    Crash {
        node: usize,
    },
    Up {
        node: usize,
        empty: bool,
    },
    Plant,
}

/// What a client is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Idle,
    Acquiring,
    Working,
    Extending,
    Getting,
    Releasing,
}

struct Client {
    doing: Doing,
    /// Increases with each step: an older wake is stale.
    step: u64,
    process: u64,
    owner: u64,
    call: u64,
    began: u64,
    yes: usize,
    no: usize,
    paused_until: u64,
    work_until: u64,
    /// Its clock's rate, in parts per million above true time.
    ppm: i64,
}

#[derive(Default)]
struct Node {
    value: Option<(u64, u64)>,
    up: bool,
    ppm: i64,
    /// The observer's last stamp: events of a node come in order.
    seen: u64,
}

struct World {
    config: Config,
    random: u64,
    now: u64,
    order: u64,
    queue: BinaryHeap<Reverse<(u64, u64, Todo)>>,
    clients: Vec<Client>,
    nodes: Vec<Node>,
    next: u64,
    version: u64,
    planted: bool,
    events: BTreeMap<(u64, u64), Value>,
}

/// Runs a world from a seed.
pub fn run(config: Config, seed: u64) -> History {
    let mut w = World::new(config, seed);
    while let Some(Reverse((at, _, todo))) = w.queue.pop() {
        if at > END {
            break;
        }
        w.now = at;
        w.handle(todo);
    }
    w.finish()
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
            next: 0,
            version: 0,
            planted: false,
            events: BTreeMap::new(),
        };
        for client in 0..CLIENTS {
            let ppm = w.below(20_000) as i64 - 10_000;
            w.clients.push(Client {
                doing: Doing::Idle,
                step: 0,
                process: client as u64,
                owner: 0,
                call: 0,
                began: 0,
                yes: 0,
                no: 0,
                paused_until: 0,
                work_until: 0,
                ppm: ppm / 4,
            });
            w.wake(client, 5 * MS);
        }
        w.next = CLIENTS as u64;
        for _ in 0..config.nodes {
            let ppm = (w.below(20_000) as i64 - 10_000) / 4;
            w.nodes.push(Node {
                up: true,
                ppm,
                ..Node::default()
            });
        }
        for i in 1..12 {
            let at = i * 500 * MS + w.below(400 * MS);
            if config.pauses {
                let client = w.below(CLIENTS as u64) as usize;
                w.later(at, Todo::Pause { client });
            }
            if config.crashes {
                let node = w.below(config.nodes as u64) as usize;
                w.later(at, Todo::Crash { node });
            }
            if config.plant.is_some() {
                w.later(at, Todo::Plant);
            }
        }
        w
    }

    fn below(&mut self, n: u64) -> u64 {
        // splitmix64
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n.max(1)
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

    fn emit(&mut self, at: u64, mut event: Value) {
        event["time"] = json!(at);
        self.order += 1;
        self.events.insert((at, self.order), event);
    }

    fn operation(&mut self, client: usize, kind: &str, f: &str, value: Value, error: Option<&str>) {
        let name = format!("c{}", client + 1);
        let process = self.clients[client].process;
        let mut event = json!({"index": 0, "time": 0, "process": process, "client": name, "worker": 0,
            "type": kind, "f": f, "key": "lock:0", "value": value});
        if let Some(error) = error {
            event["error"] = json!(error);
        }
        self.emit(self.now, event);
        if kind == "info" && f != "lost" {
            self.next += 1;
            self.clients[client].process = self.next;
        }
    }

    fn observe(&mut self, node: usize, f: &str, owner: Option<u64>) {
        let late = self.below(20 * MS);
        let n = &mut self.nodes[node];
        n.seen = n.seen.max(self.now + late);
        let at = n.seen;
        let early = self.now.saturating_sub(self.below(20 * MS));
        let unread = self.config.blind && self.below(10) < 6 || self.below(20) == 0;
        let of_node = matches!(f, "flushed" | "down" | "restarted" | "up");
        let mut value = json!({"node": format!("n{}", node + 1), "not_before": early});
        if let Some(owner) = owner.filter(|_| !unread) {
            value["owner"] = json!(format!("o{owner}"));
            value["pttl_ms"] = json!(TTL / MS);
        }
        let mut event = json!({"index": 0, "time": 0, "process": "observer", "type": "info", "f": f, "value": value});
        if !of_node {
            event["key"] = json!("lock:0");
        }
        self.emit(at, event);
    }

    fn handle(&mut self, todo: Todo) {
        match todo {
            Todo::Wake { client, step } => {
                let c = &self.clients[client];
                if c.step != step {
                } else if c.paused_until > self.now {
                    let after = c.paused_until - self.now;
                    self.later(after, Todo::Wake { client, step });
                } else {
                    self.go_on(client);
                }
            }
            Todo::Reply { client, call, yes } => {
                let until = self.clients[client].paused_until;
                if until > self.now {
                    let after = until - self.now;
                    self.later(after, Todo::Reply { client, call, yes });
                } else if self.clients[client].call == call {
                    self.answered(client, yes);
                }
            }
            Todo::Arrive {
                node,
                client,
                call,
                cmd,
                owner,
            } => {
                if self.nodes[node].up {
                    let yes = self.execute(node, cmd, owner);
                    self.send(Todo::Reply { client, call, yes });
                }
            }
            Todo::Pause { client } => {
                let length = 100 * MS + self.below(3 * TTL);
                let c = &mut self.clients[client];
                if c.paused_until > self.now {
                    return;
                }
                c.paused_until = self.now + length;
                let target = format!("c{}", client + 1);
                for (phase, at) in [
                    ("inject", 0),
                    ("bit", 0),
                    ("heal", length),
                    ("healed", length),
                ] {
                    let value = json!({"fault": 0, "phase": phase, "target": target});
                    let event = json!({"index": 0, "time": 0, "process": "nemesis", "client": target, "type": "info",
                        "f": "client-pause", "value": value});
                    self.emit(self.now + at, event);
                }
            }
            Todo::Crash { node } => {
                if self.nodes[node].up {
                    self.nodes[node].up = false;
                    self.observe(node, "down", None);
                    let after = 10 * MS + self.below(300 * MS);
                    self.later(after, Todo::Up { node, empty: false });
                }
            }
            Todo::Up { node, empty } => self.up(node, empty),
            Todo::Plant => self.plant(),
        }
    }

    fn up(&mut self, node: usize, empty: bool) {
        if empty {
            self.nodes[node].value = None;
        }
        self.nodes[node].up = true;
        self.observe(node, "restarted", None);
        self.look(node);
        self.observe(node, "up", None);
    }

    fn look(&mut self, node: usize) {
        self.expire(node);
        match self.nodes[node].value {
            Some((owner, _)) => self.observe(node, "value", Some(owner)),
            None => self.observe(node, "absent", None),
        }
    }

    /// Hits a node that holds the value of a client in its critical section.
    fn plant(&mut self) {
        let held = |w: &Self, node: usize| {
            let owner = w.nodes[node].value.map(|v| v.0);
            w.nodes[node].up
                && w.clients.iter().any(|c| {
                    c.doing == Doing::Working
                        && Some(c.owner) == owner
                        && c.work_until > w.now + 60 * MS
                })
        };
        let nodes: Vec<usize> = (0..self.nodes.len()).filter(|n| held(self, *n)).collect();
        if nodes.is_empty() {
            return;
        }
        self.planted = true;
        // All of a quorum's surplus, so that the loss shows.
        for node in nodes {
            match self.config.plant {
                Some(Plant::Flush) => {
                    self.nodes[node].value = None;
                    self.observe(node, "flushed", None);
                }
                Some(Plant::RestartEmpty) => {
                    self.nodes[node].up = false;
                    self.observe(node, "down", None);
                    self.later(5 * MS, Todo::Up { node, empty: true });
                }
                Some(Plant::ClockForward) => {
                    if let Some(v) = &mut self.nodes[node].value {
                        v.1 = self.now;
                    }
                }
                None => {}
            }
        }
    }

    fn send(&mut self, todo: Todo) {
        let mut delay = MS / 10 + self.below(MS);
        if self.config.lossy {
            match self.below(40) {
                0 => return,
                1 => delay += self.below(2 * TTL),
                2 | 3 => delay += self.below(50 * MS),
                _ => {}
            }
        }
        self.later(delay, todo);
    }

    fn expire(&mut self, node: usize) {
        if self.nodes[node].value.is_some_and(|v| v.1 <= self.now) {
            self.nodes[node].value = None;
            self.observe(node, "expired", None);
        }
    }

    fn execute(&mut self, node: usize, cmd: Cmd, owner: u64) -> bool {
        self.expire(node);
        let now = self.now;
        let n = &mut self.nodes[node];
        let mine = n.value.is_some_and(|v| v.0 == owner);
        let until = now + (TTL as i64 + TTL as i64 / 1_000_000 * n.ppm) as u64;
        match cmd {
            Cmd::Get => mine,
            Cmd::Set if n.value.is_none() => {
                n.value = Some((owner, until));
                self.observe(node, "set", Some(owner));
                true
            }
            Cmd::Expire if mine => {
                n.value = Some((owner, until));
                self.observe(node, "expire", Some(owner));
                true
            }
            Cmd::Del | Cmd::DelIfMine if n.value.is_some() && (mine || cmd == Cmd::Del) => {
                n.value = None;
                self.observe(node, "del", None);
                true
            }
            _ => false,
        }
    }

    /// Sends a command to all nodes and waits for the answers.
    fn call(&mut self, client: usize, doing: Doing, cmd: Cmd) {
        self.next += 1;
        let c = &mut self.clients[client];
        (c.call, c.yes, c.no, c.doing) = (self.next, 0, 0, doing);
        c.step += 1;
        let (call, owner, step) = (c.call, c.owner, c.step);
        for node in 0..self.nodes.len() {
            self.send(Todo::Arrive {
                node,
                client,
                call,
                cmd,
                owner,
            });
        }
        self.later(PATIENCE, Todo::Wake { client, step });
    }

    fn answered(&mut self, client: usize, yes: bool) {
        let all = self.nodes.len();
        let c = &mut self.clients[client];
        c.yes += usize::from(yes);
        c.no += usize::from(!yes);
        if c.yes + c.no == all {
            self.decide(client);
        }
    }

    /// The next step of a client's script: its time is up, or it waited long enough.
    fn go_on(&mut self, client: usize) {
        match self.clients[client].doing {
            Doing::Idle if self.now < LOAD => {
                self.next += 1;
                let now = self.now;
                let c = &mut self.clients[client];
                (c.owner, c.began) = (self.next, now);
                self.operation(client, "invoke", "acquire", json!({"wait_ms": 0}), None);
                self.call(client, Doing::Acquiring, Cmd::Set);
            }
            Doing::Idle => {}
            Doing::Working => {
                let c = &self.clients[client];
                if self.config.renew && c.work_until > self.now {
                    self.clients[client].began = self.now;
                    self.operation(
                        client,
                        "invoke",
                        "extend",
                        json!({"ttl_ms": TTL / MS}),
                        None,
                    );
                    self.call(client, Doing::Extending, Cmd::Expire);
                } else {
                    self.finish_work(client);
                }
            }
            Doing::Acquiring | Doing::Extending | Doing::Getting | Doing::Releasing => {
                self.decide(client)
            }
        }
    }

    fn finish_work(&mut self, client: usize) {
        self.version += 1;
        let version = self.version;
        self.operation(client, "ok", "write", json!({"version": version}), None);
        self.operation(client, "invoke", "release", json!({}), None);
        match self.config.lock {
            Lock::GetThenDel => self.call(client, Doing::Getting, Cmd::Get),
            Lock::PlainDel => self.call(client, Doing::Releasing, Cmd::Del),
            _ => self.call(client, Doing::Releasing, Cmd::DelIfMine),
        }
    }

    fn quorum(&self) -> usize {
        self.nodes.len() / 2 + 1
    }

    /// What is left of a lease that was asked for when the call began, by the client's own clock, in ms.
    fn left(&self, client: usize) -> f64 {
        let c = &self.clients[client];
        let elapsed = (self.now - c.began) as f64 * (1.0 + c.ppm as f64 / 1e6);
        (TTL as f64 * 0.99 - elapsed) / 1e6 - 2.0
    }

    fn decide(&mut self, client: usize) {
        let (quorum, all) = (self.quorum(), self.nodes.len());
        let c = &self.clients[client];
        let (yes, no, doing) = (c.yes, c.no, c.doing);
        let never = no > all - quorum;
        match doing {
            Doing::Acquiring => self.acquired(client, yes >= quorum, never),
            Doing::Extending => {
                let left = self.left(client);
                let lies = self.config.lock == Lock::ExtendAlwaysOk;
                let ok = lies || (yes >= quorum && left > 0.0);
                self.work(client);
                if ok {
                    self.operation(
                        client,
                        "ok",
                        "extend",
                        json!({"validity_ms": left.max(1.0)}),
                        None,
                    );
                } else if never {
                    self.operation(client, "fail", "extend", json!({}), Some("not-owner"));
                } else {
                    self.operation(client, "info", "extend", json!({}), Some("deadline"));
                }
            }
            Doing::Getting if yes >= quorum => {
                // Between its two commands a client may be held up.
                let slow = self.below(4) == 0;
                self.clients[client].paused_until =
                    self.now + if slow { self.below(2 * TTL) } else { 0 };
                let after = self.clients[client].paused_until - self.now;
                let c = &mut self.clients[client];
                (c.call, c.step, c.doing) = (0, c.step + 1, Doing::Getting);
                (c.yes, c.no) = (0, usize::MAX / 2);
                let step = c.step;
                self.later(after, Todo::Wake { client, step });
            }
            Doing::Getting if no >= usize::MAX / 2 => self.call(client, Doing::Releasing, Cmd::Del),
            Doing::Getting | Doing::Releasing => {
                if doing == Doing::Releasing && yes >= quorum {
                    self.operation(client, "ok", "release", json!({}), None);
                } else if never {
                    self.operation(client, "fail", "release", json!({}), Some("not-owner"));
                } else {
                    self.operation(client, "info", "release", json!({}), Some("deadline"));
                }
                self.idle(client);
            }
            Doing::Idle | Doing::Working => {}
        }
    }

    fn acquired(&mut self, client: usize, quorum: bool, never: bool) {
        let left = self.left(client);
        let lock = self.config.lock;
        if lock == Lock::Never || (quorum && left > 0.0) {
            let claim = if lock == Lock::LongClaim {
                (TTL / MS) as f64
            } else {
                left
            };
            let owner = match lock {
                // It never set this one.
                Lock::Never => 1_000_000 + self.clients[client].owner,
                _ => self.clients[client].owner,
            };
            let value = json!({"owner": format!("o{owner}"), "validity_ms": claim.max(1.0)});
            self.operation(client, "ok", "acquire", value, None);
            let version = self.version;
            self.operation(client, "ok", "read", json!({"version": version}), None);
            let longest = match lock {
                Lock::ExtendAlwaysOk => 3 * TTL,
                Lock::PlainDel | Lock::GetThenDel => TTL,
                _ => TTL / 2,
            };
            let length = 20 * MS + self.below(longest);
            self.clients[client].work_until = self.now + length;
            self.work(client);
            return;
        }
        // A failed try unlocks all, and waits for nobody.
        let owner = self.clients[client].owner;
        for node in 0..self.nodes.len() {
            self.send(Todo::Arrive {
                node,
                client,
                call: 0,
                cmd: Cmd::DelIfMine,
                owner,
            });
        }
        if never || self.nodes.len() > 1 {
            self.operation(client, "fail", "acquire", json!({}), Some("held"));
        } else {
            self.operation(client, "info", "acquire", json!({}), Some("deadline"));
        }
        self.idle(client);
    }

    fn work(&mut self, client: usize) {
        let now = self.now;
        let renew = self.config.renew;
        let c = &mut self.clients[client];
        (c.doing, c.step, c.call) = (Doing::Working, c.step + 1, 0);
        let left = c.work_until.saturating_sub(now);
        let after = if renew { left.min(TTL / 3) } else { left };
        let step = c.step;
        self.later(after, Todo::Wake { client, step });
    }

    fn idle(&mut self, client: usize) {
        let c = &mut self.clients[client];
        (c.doing, c.step, c.call) = (Doing::Idle, c.step + 1, 0);
        self.wake(client, 20 * MS);
    }

    fn finish(mut self) -> History {
        self.now = END;
        for node in 0..self.nodes.len() {
            self.look(node);
        }
        let end = END + 100 * MS;
        let phase = json!({"index": 0, "time": 0, "process": "driver", "type": "info", "f": "phase", "value": {"phase": "end"}});
        self.emit(end, phase);
        let (nodes, quorum) = (self.nodes.len(), self.quorum());
        let header = json!({"fencepost": 1, "workload": "world", "seed": 0,
            "model": {"ttl_ms": TTL / MS, "nodes": nodes, "quorum": quorum, "observed": true, "retry_ms": 20}});
        let mut text = format!("{header}\n");
        for (index, mut event) in self.events.into_values().enumerate() {
            event["index"] = json!(index);
            text.push_str(&event.to_string());
            text.push('\n');
        }
        History(text)
    }
}
