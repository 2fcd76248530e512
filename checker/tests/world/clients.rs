//! The clients of the world: one script each, of locks that are right and locks that are wrong.
//!
//! Owns what a client does next. Must not know what is in the servers, but from their answers.
use super::{Cmd, Doing, LOAD, Lock, MS, PATIENCE, TTL, Todo, World};
use serde_json::json;

impl World {
    /// Sends a command to all nodes and waits for the answers.
    pub(super) fn call(&mut self, client: usize, doing: Doing, cmd: Cmd) {
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

    pub(super) fn answered(&mut self, client: usize, yes: bool) {
        let all = self.nodes.len();
        let c = &mut self.clients[client];
        c.yes += usize::from(yes);
        c.no += usize::from(!yes);
        if c.yes + c.no == all {
            self.decide(client);
        }
    }

    /// The next step of a client's script: its time is up, or it waited long enough.
    pub(super) fn go_on(&mut self, client: usize) {
        match self.clients[client].doing {
            Doing::Idle if self.now < LOAD => {
                self.next += 1;
                let now = self.now;
                let c = &mut self.clients[client];
                (c.owner, c.began) = (self.next, now);
                self.operation(client, "invoke", "acquire", &json!({"wait_ms": 0}), None);
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
                        &json!({"ttl_ms": TTL / MS}),
                        None,
                    );
                    self.call(client, Doing::Extending, Cmd::Expire);
                } else {
                    self.finish_work(client);
                }
            }
            Doing::Acquiring | Doing::Extending | Doing::Getting | Doing::Releasing => {
                self.decide(client);
            }
        }
    }

    pub(super) fn finish_work(&mut self, client: usize) {
        self.version += 1;
        let version = self.version;
        self.operation(client, "ok", "write", &json!({"version": version}), None);
        self.operation(client, "invoke", "release", &json!({}), None);
        match self.config.lock {
            Lock::GetThenDel => self.call(client, Doing::Getting, Cmd::Get),
            Lock::PlainDel => self.call(client, Doing::Releasing, Cmd::Del),
            _ => self.call(client, Doing::Releasing, Cmd::DelIfMine),
        }
    }

    pub(super) fn quorum(&self) -> usize {
        self.nodes.len() / 2 + 1
    }

    /// What is left of a lease that was asked for when the call began, by the client's own clock, in ms.
    pub(super) fn left(&self, client: usize) -> f64 {
        let c = &self.clients[client];
        let elapsed = (self.now - c.began) as f64 * (1.0 + c.ppm as f64 / 1e6);
        (TTL as f64 * 0.99 - elapsed) / 1e6 - 2.0
    }

    pub(super) fn decide(&mut self, client: usize) {
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
                        &json!({"validity_ms": left.max(1.0)}),
                        None,
                    );
                } else if never {
                    self.operation(client, "fail", "extend", &json!({}), Some("not-owner"));
                } else {
                    self.operation(client, "info", "extend", &json!({}), Some("deadline"));
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
                    self.operation(client, "ok", "release", &json!({}), None);
                } else if never {
                    self.operation(client, "fail", "release", &json!({}), Some("not-owner"));
                } else {
                    self.operation(client, "info", "release", &json!({}), Some("deadline"));
                }
                self.idle(client);
            }
            Doing::Idle | Doing::Working => {}
        }
    }

    pub(super) fn acquired(&mut self, client: usize, quorum: bool, never: bool) {
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
            self.operation(client, "ok", "acquire", &value, None);
            let version = self.version;
            self.operation(client, "ok", "read", &json!({"version": version}), None);
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
            self.operation(client, "fail", "acquire", &json!({}), Some("held"));
        } else {
            self.operation(client, "info", "acquire", &json!({}), Some("deadline"));
        }
        self.idle(client);
    }

    pub(super) fn work(&mut self, client: usize) {
        let now = self.now;
        let renew = self.config.renew;
        let c = &mut self.clients[client];
        (c.doing, c.step, c.call) = (Doing::Working, c.step + 1, 0);
        let left = c.work_until.saturating_sub(now);
        let after = if renew { left.min(TTL / 3) } else { left };
        let step = c.step;
        self.later(after, Todo::Wake { client, step });
    }

    pub(super) fn idle(&mut self, client: usize) {
        let c = &mut self.clients[client];
        (c.doing, c.step, c.call) = (Doing::Idle, c.step + 1, 0);
        self.wake(client, 20 * MS);
    }
}
