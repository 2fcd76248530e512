//! The servers of the world, the network to them, and the observer.
//!
//! Owns what happens to a key. Must not know what clients make of it.
use super::clients::Doing;
use super::{LOAD, MS, Plant, TTL, Todo, With, World, named, node_name};
use fencepost_checker::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cmd {
    /// Set if there is none; a session finds its own key again.
    Set,
    Get,
    DelIfMine,
    Del,
    /// Re-time for this lease, if it is one's own.
    Expire(u64),
    /// Begin a session; keep it alive.
    Open,
    Beat,
}

/// A key: whose it is, until when, and the revision that made it.
#[derive(Debug, Clone, Copy)]
struct Key {
    owner: u64,
    until: u64,
    revision: u64,
}

pub struct Node {
    key: Option<Key>,
    pub up: bool,
    pub stopped_until: u64,
    ppm: i64,
    /// The observer's last stamp: events of a node come in order.
    seen: u64,
    /// Sessions, and when they end.
    sessions: BTreeMap<u64, u64>,
}

impl Node {
    pub fn new(ppm: i64) -> Self {
        Self {
            key: None,
            up: true,
            stopped_until: 0,
            ppm,
            seen: 0,
            sessions: BTreeMap::new(),
        }
    }

    /// When a lease that begins now is over by the node's clock.
    fn lease_end(&self, now: u64, lease: u64) -> u64 {
        now + (lease as i64 - lease as i64 / 1_000_000 * self.ppm) as u64
    }
}

impl World {
    fn observe(&mut self, node: usize, f: &'static str, owner: Option<u64>) {
        let late = self.below(20 * MS);
        let early = self.now.saturating_sub(self.below(20 * MS));
        let unread = (self.config.has(With::Blind) && self.below(10) < 6) || self.below(20) == 0;
        let unread = unread && !self.config.has(With::Reads);
        let n = &mut self.nodes[node];
        n.seen = n.seen.max(self.now + late);
        let at = n.seen;
        if self.config.has(With::Unobserved) {
            return;
        }
        let of_node = matches!(f, "flushed" | "down" | "restarted" | "up");
        let mut value = Value {
            node: Some(node_name(node)),
            not_before: Some(early),
            ..Value::default()
        };
        if let Some(owner) = owner.filter(|_| !unread) {
            value.owner = Some(Cow::Owned(format!("o{owner}")));
            value.pttl_ms = Some((TTL / MS) as i64);
        }
        let mut event = named("observer", f, value);
        if !of_node {
            event.key = Some(Cow::Borrowed("lock:0"));
        }
        self.emit(at, event);
    }

    pub fn crash(&mut self, node: usize) {
        if self.nodes[node].up && self.nodes[node].stopped_until <= self.now {
            let after = 10 * MS + self.below(300 * MS);
            let span = (self.now, self.now + after);
            self.window(10 + node as u32, "node-restart", &node_name(node), span);
            self.nodes[node].up = false;
            self.observe(node, "down", None);
            self.later(after, Todo::Up { node, empty: false });
        }
    }

    pub fn stop(&mut self, node: usize) {
        if self.nodes[node].up && self.nodes[node].stopped_until <= self.now {
            let after = 50 * MS + self.below(2 * TTL);
            let span = (self.now, self.now + after);
            self.window(20 + node as u32, "node-pause", &node_name(node), span);
            self.nodes[node].stopped_until = self.now + after;
        }
    }

    pub fn up(&mut self, node: usize, empty: bool) {
        if empty {
            self.nodes[node].key = None;
        }
        self.nodes[node].up = true;
        self.observe(node, "restarted", None);
        self.look(node);
        self.observe(node, "up", None);
    }

    pub fn look(&mut self, node: usize) {
        self.expire(node);
        match self.nodes[node].key {
            Some(key) => self.observe(node, "value", Some(key.owner)),
            None => self.observe(node, "absent", None),
        }
    }

    /// Hits nodes that hold the value of a client in its critical section: one where that client has no more than a
    /// quorum, else as many as it takes.
    pub fn plant(&mut self) {
        let held = |w: &Self, node: usize, client: usize| {
            let (c, n) = (&w.clients[client], &w.nodes[node]);
            let working = c.doing == Doing::Working && c.work_until > w.now + 60 * MS;
            n.up && working && n.key.is_some_and(|k| k.owner == c.owner)
        };
        let thin = self.config.has(With::Thin);
        let clients = if thin { 1 } else { self.clients.len() };
        let holds = |w: &Self, n: usize| (0..clients).any(|c| held(w, n, c));
        let mut nodes: Vec<usize> = (0..self.nodes.len()).filter(|n| holds(self, *n)).collect();
        nodes.truncate(if thin { 1 } else { nodes.len() });
        let step = self.below(TTL);
        for node in nodes {
            match self.config.plant {
                Some(Plant::Flush) => {
                    self.nodes[node].key = None;
                    self.observe(node, "flushed", None);
                }
                Some(Plant::RestartEmpty) => {
                    self.nodes[node].up = false;
                    self.observe(node, "down", None);
                    self.later(5 * MS, Todo::Up { node, empty: true });
                }
                Some(Plant::ClockForward) => {
                    if let Some(k) = &mut self.nodes[node].key {
                        k.until = k.until.saturating_sub(step).max(self.now);
                    }
                }
                None => {}
            }
        }
    }

    fn delay(&mut self) -> Option<u64> {
        let delay = MS / 10 + self.below(MS);
        if !self.config.has(With::Lossy) || self.now >= LOAD {
            return Some(delay);
        }
        match self.below(40) {
            0 => None,
            1 => Some(delay + self.below(2 * TTL)),
            2 | 3 => Some(delay + self.below(50 * MS)),
            _ => Some(delay),
        }
    }

    /// One connection a client and node keeps the order of what is not lost: sessions live on such.
    fn deliver(&mut self, client: usize, way: usize, todo: Todo) {
        let Some(mut delay) = self.delay() else {
            return;
        };
        if self.config.has(With::Session) {
            let last = &mut self.clients[client].in_order[way];
            *last = (self.now + delay).max(*last + 1);
            delay = *last - self.now;
        }
        self.later(delay, todo);
    }

    pub fn send(&mut self, node: usize, client: usize, call: u64, cmd: Cmd, owner: u64) {
        let quorum = self.quorum();
        if self.config.has(With::Thin) && client == 0 && node >= quorum {
            return;
        }
        let todo = Todo::Arrive {
            node,
            client,
            call,
            cmd,
            owner,
        };
        self.deliver(client, 2 * node, todo);
    }

    pub fn reply(&mut self, node: usize, client: usize, call: u64, (yes, token): (bool, u64)) {
        let todo = Todo::Reply {
            client,
            call,
            yes,
            token,
        };
        self.deliver(client, 2 * node + 1, todo);
    }

    fn expire(&mut self, node: usize) {
        let (now, n) = (self.now, &mut self.nodes[node]);
        n.sessions.retain(|_, end| *end > now);
        let over = n.key.is_some_and(|k| {
            k.until <= now || (k.until == u64::MAX && !n.sessions.contains_key(&k.owner))
        });
        if over {
            n.key = None;
            self.observe(node, "expired", None);
        }
    }

    /// Does a command; whether it was done, and the revision of the key.
    pub fn execute(&mut self, node: usize, cmd: Cmd, owner: u64, call: u64) -> (bool, u64) {
        self.expire(node);
        let now = self.now;
        let session = self.config.has(With::Session);
        let n = &mut self.nodes[node];
        let mine = n.key.filter(|k| k.owner == owner);
        match cmd {
            Cmd::Open => {
                let end = n.lease_end(now, TTL);
                n.sessions.insert(owner, end);
                (true, 0)
            }
            Cmd::Beat => {
                let end = n.lease_end(now, TTL);
                let known = n.sessions.get_mut(&owner).map(|s| *s = end).is_some();
                if known {
                    self.truth.done(call, now);
                }
                (known, 0)
            }
            Cmd::Get => (mine.is_some(), 0),
            Cmd::Set if session && mine.is_some() => (true, mine.map_or(0, |k| k.revision)),
            Cmd::Set if session && !n.sessions.contains_key(&owner) => (false, 0),
            Cmd::Set if n.key.is_none() => {
                self.revision += 1;
                let until = if session {
                    u64::MAX
                } else {
                    n.lease_end(now, TTL)
                };
                n.key = Some(Key {
                    owner,
                    until,
                    revision: self.revision,
                });
                self.truth.done(owner, now);
                self.observe(node, "set", Some(owner));
                (true, self.revision)
            }
            Cmd::Expire(lease) if mine.is_some() => {
                let until = n.lease_end(now, lease);
                n.key = mine.map(|k| Key { until, ..k });
                self.truth.done(call, now);
                self.truth.retimed(owner, lease, now);
                self.observe(node, "expire", Some(owner));
                (true, 0)
            }
            Cmd::Del | Cmd::DelIfMine if n.key.is_some() && (mine.is_some() || cmd == Cmd::Del) => {
                n.key = None;
                self.observe(node, "del", None);
                (true, 0)
            }
            _ => (false, 0),
        }
    }
}
