//! The world: one queue of things to come, in virtual nanoseconds.
//!
//! Owns clients, messages, servers, faults, and an observer that sees everything, late. Must not know the checker's
//! inside: it writes a history as the harness does. Messages live in the network, not in the calls that sent them.
mod clients;
mod nodes;

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

    fn operation(
        &mut self,
        client: usize,
        kind: &str,
        f: &str,
        value: &Value,
        error: Option<&str>,
    ) {
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

    #[expect(clippy::needless_pass_by_value, reason = "it was taken from the queue")]
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
