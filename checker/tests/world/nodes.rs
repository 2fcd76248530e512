//! The servers of the world, the network to them, and the observer.
//!
//! Owns what happens to a key. Must not know what clients make of it.
use super::{Cmd, Doing, MS, Plant, TTL, Todo, World};
use serde_json::json;

impl World {
    pub(super) fn observe(&mut self, node: usize, f: &str, owner: Option<u64>) {
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

    pub(super) fn up(&mut self, node: usize, empty: bool) {
        if empty {
            self.nodes[node].value = None;
        }
        self.nodes[node].up = true;
        self.observe(node, "restarted", None);
        self.look(node);
        self.observe(node, "up", None);
    }

    pub(super) fn look(&mut self, node: usize) {
        self.expire(node);
        match self.nodes[node].value {
            Some((owner, _)) => self.observe(node, "value", Some(owner)),
            None => self.observe(node, "absent", None),
        }
    }

    /// Hits a node that holds the value of a client in its critical section.
    pub(super) fn plant(&mut self) {
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

    pub(super) fn send(&mut self, todo: Todo) {
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

    pub(super) fn expire(&mut self, node: usize) {
        if self.nodes[node].value.is_some_and(|v| v.1 <= self.now) {
            self.nodes[node].value = None;
            self.observe(node, "expired", None);
        }
    }

    pub(super) fn execute(&mut self, node: usize, cmd: Cmd, owner: u64) -> bool {
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
}
