//! What a client does beside its script: it keeps a lease or a session alive, tells of a loss, dies, ends.
//!
//! Owns watchdogs, sessions and the life of client processes. Must not know what is in the servers.
use super::clients::Doing;
use super::nodes::Cmd;
use super::{MS, TTL, Todo, With, World, client_name, named};
use fencepost_checker::{EventType, Value};
use std::borrow::Cow;

/// The harness's ticks, which the keep-alives of a session quote.
const TICK: u64 = 50 * MS;

/// The last tick that a client can have read by then.
pub fn tick(at: u64) -> u64 {
    at / TICK * TICK
}

impl World {
    /// From now on the lease or session, confirmed as of `alive`, is kept.
    pub fn keep_alive(&mut self, client: usize, alive: (u64, u64)) {
        let life = self.fresh();
        let c = &mut self.clients[client];
        (c.life, c.alive, c.beat) = (life, alive, (0, 0, 0));
        self.later(TTL / 3, Todo::Beat { client, life });
        self.later(TTL / 2, Todo::Doubt { client, life });
    }

    pub fn open_session(&mut self, client: usize) {
        let session = self.fresh();
        // It counts from its opening; the servers say no to the first beat if that was lost.
        self.clients[client].session = session;
        self.tell(client, 0, Cmd::Open, session);
        self.keep_alive(client, (0, 0));
        self.beat(client);
    }

    /// By the client's own clock, and with something to spare: both clocks may be wrong.
    pub fn session_lives(&self, client: usize) -> bool {
        let c = &self.clients[client];
        c.session != 0 && c.alive.1 != 0 && c.elapsed(self.now, c.alive.0) < TTL / 100 * 95
    }

    /// Time for a keep-alive.
    pub fn beat(&mut self, client: usize) {
        let call = self.fresh();
        let now = self.now;
        let c = &mut self.clients[client];
        c.beat = (call, now, 0);
        let (life, owner, session) = (c.life, c.owner, c.session);
        if self.config.has(With::Session) {
            self.tell(client, call, Cmd::Beat, session);
        } else {
            self.tell(client, call, Cmd::Expire(TTL), owner);
        }
        self.later(TTL / 3, Todo::Beat { client, life });
    }

    /// An answer to a keep-alive.
    pub fn kept(&mut self, client: usize, yes: bool) {
        let quorum = self.quorum();
        let now = self.now;
        let c = &mut self.clients[client];
        if !yes {
            return;
        }
        c.beat.2 += 1;
        let (call, sent, count) = c.beat;
        if count != quorum || c.elapsed(now, sent) >= TTL / 100 * 95 {
            return;
        }
        c.alive = (sent, call);
        let holds = matches!(c.doing, Doing::Working | Doing::Extending);
        if self.config.has(With::Session) && holds {
            self.truth.extended(client, call, TTL, now, None);
            let value = Value {
                since: Some(tick(sent)),
                ..Value::default()
            };
            self.operation(client, EventType::Info, "renewed", value, None);
        }
    }

    /// Is the lease or session still good? If not, its holder is told.
    pub fn doubt(&mut self, client: usize) {
        let c = &self.clients[client];
        let (elapsed, life, holds) = (
            c.elapsed(self.now, c.alive.0),
            c.life,
            c.doing == Doing::Working,
        );
        if elapsed < TTL / 100 * 95 {
            let left = TTL / 100 * 95 - elapsed;
            self.later(left.max(MS), Todo::Doubt { client, life });
            return;
        }
        let session = self.config.has(With::Session);
        let c = &mut self.clients[client];
        c.life = 0;
        let owner = c.owner;
        if session {
            c.session = 0;
        }
        if holds {
            self.truth.ended(client, self.now);
            self.operation(client, EventType::Info, "lost", Value::default(), None);
            self.tell(client, 0, Cmd::DelIfMine, owner);
            self.idle(client);
        }
    }

    /// SIGKILL; a new process takes its place.
    pub fn kill(&mut self, client: usize) {
        if self.clients[client].doing != Doing::Dead {
            let until = self.now + self.die(client, "killed by the nemesis");
            self.window(
                30 + client as u32,
                "client-restart",
                &client_name(client),
                (self.now, until),
            );
        }
    }

    /// The process ends in order, and unlocks what it holds.
    pub fn close(&mut self, client: usize) {
        let c = &self.clients[client];
        if c.doing == Doing::Working && c.paused_until <= self.now {
            let owner = c.owner;
            self.truth.ended(client, self.now);
            self.operation(client, EventType::Info, "close", Value::default(), None);
            self.tell(client, 0, Cmd::DelIfMine, owner);
            self.die(client, "ended");
        }
    }

    /// The process is gone; how long until the next.
    fn die(&mut self, client: usize, how: &'static str) -> u64 {
        let value = Value {
            proof: Some(Cow::Borrowed(how)),
            ..Value::default()
        };
        let mut event = named("driver", "death", value);
        event.client = Some(client_name(client));
        self.emit(self.now, event);
        self.truth.ended(client, self.now);
        if let Some(f) = self.clients[client].asked {
            self.operation(
                client,
                EventType::Info,
                f,
                Value::default(),
                Some("client-died"),
            );
        }
        let c = &mut self.clients[client];
        (c.doing, c.step, c.call) = (Doing::Dead, c.step + 1, 0);
        (c.life, c.session, c.beat, c.paused_until) = (0, 0, (0, 0, 0), 0);
        let after = 50 * MS + self.below(300 * MS);
        self.later(after, Todo::Birth { client });
        after
    }

    pub fn birth(&mut self, client: usize) {
        self.clients[client].process = self.fresh();
        if self.config.has(With::Session) {
            self.open_session(client);
        }
        self.idle(client);
    }
}
