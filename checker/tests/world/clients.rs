//! The clients of the world: one script each, of locks that are right and locks that are wrong.
//!
//! Owns what a client does next. Must not know what is in the servers, but from their answers. What it does beside its
//! script (renewal, sessions, the end of its process) is in `upkeep`.
use super::nodes::Cmd;
use super::{FINAL, Lock, MS, PATIENCE, RETRY, TTL, Todo, WAIT, With, World, blank, client_name};
use fencepost_checker::{EventType, Process, Value};
use std::borrow::Cow;

/// What a client is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    Dead,
    Idle,
    Acquiring,
    /// Inside of a waiting call, between two tries.
    Waiting,
    Working,
    Extending,
    Getting,
    /// Held up between its GET and its DEL.
    Got,
    Releasing,
}

pub struct Client {
    pub doing: Doing,
    /// Increases with each step: an older wake is stale.
    pub step: u64,
    pub process: u64,
    /// The operation that waits for its answer.
    pub asked: Option<&'static str>,
    pub owner: u64,
    pub call: u64,
    pub began: u64,
    pub yes: usize,
    pub no: usize,
    pub token: u64,
    /// When a waiting call gives up.
    pub deadline: u64,
    pub paused_until: u64,
    pub work_until: u64,
    /// Its clock's rate, in parts per million above true time.
    pub ppm: i64,
    /// The last delivery of each way of each connection.
    pub in_order: Vec<u64>,
    /// The session or hold that is kept alive; another number makes beats and doubts stale.
    pub life: u64,
    /// The session's number; 0 for none.
    pub session: u64,
    /// The keep-alive under way: its call, when it was sent, how many said yes.
    pub beat: (u64, u64, usize),
    /// When the last confirmed keep-alive was sent, and what the servers know it by.
    pub alive: (u64, u64),
    /// The lease that the extension under way asks for.
    pub lease: u64,
}

impl Client {
    pub fn new(process: u64, ppm: i64, nodes: usize) -> Self {
        Self {
            doing: Doing::Idle,
            step: 0,
            process,
            asked: None,
            owner: 0,
            call: 0,
            began: 0,
            yes: 0,
            no: 0,
            token: 0,
            deadline: 0,
            paused_until: 0,
            work_until: 0,
            ppm,
            in_order: vec![0; 2 * nodes],
            life: 0,
            session: 0,
            beat: (0, 0, 0),
            alive: (0, 0),
            lease: TTL,
        }
    }

    /// What its own clock says has passed since `since`.
    pub fn elapsed(&self, now: u64, since: u64) -> u64 {
        let true_time = now - since;
        (true_time as i64 + true_time as i64 / 1_000_000 * self.ppm) as u64
    }
}

impl World {
    pub fn operation(
        &mut self,
        client: usize,
        kind: EventType,
        f: &'static str,
        value: Value<'static>,
        error: Option<&'static str>,
    ) {
        let process = self.clients[client].process;
        let mut event = blank(Process::Id(process), f, value);
        event.client = Some(client_name(client));
        event.worker = Some(0);
        event.kind = kind;
        event.key = Some(Cow::Borrowed("lock:0"));
        event.error = error.map(Cow::Borrowed);
        self.emit(self.now, event);
        let waits = matches!(f, "acquire" | "extend" | "release");
        if waits {
            self.clients[client].asked = (kind == EventType::Invoke).then_some(f);
        }
        if waits && kind == EventType::Info {
            self.clients[client].process = self.fresh();
        }
    }

    fn invoke(&mut self, client: usize, f: &'static str, value: Value<'static>) {
        self.operation(client, EventType::Invoke, f, value, None);
    }

    fn ok(&mut self, client: usize, f: &'static str, value: Value<'static>) {
        self.operation(client, EventType::Ok, f, value, None);
    }

    fn in_vain(&mut self, client: usize, f: &'static str, definite: bool, error: &'static str) {
        let kind = if definite {
            EventType::Fail
        } else {
            EventType::Info
        };
        self.operation(client, kind, f, Value::default(), Some(error));
    }

    /// Sends a command to all nodes and waits for the answers.
    fn call(&mut self, client: usize, doing: Doing, cmd: Cmd) {
        let call = self.fresh();
        let c = &mut self.clients[client];
        (c.call, c.yes, c.no, c.doing) = (call, 0, 0, doing);
        c.step += 1;
        let (owner, step) = (c.owner, c.step);
        self.tell(client, call, cmd, owner);
        self.later(PATIENCE, Todo::Wake { client, step });
    }

    /// Sends a command to all nodes.
    pub fn tell(&mut self, client: usize, call: u64, cmd: Cmd, owner: u64) {
        for node in 0..self.nodes.len() {
            self.send(node, client, call, cmd, owner);
        }
    }

    pub fn quorum(&self) -> usize {
        self.nodes.len() / 2 + 1
    }

    pub fn answered(&mut self, client: usize, call: u64, yes: bool, token: u64) {
        let (quorum, all) = (self.quorum(), self.nodes.len());
        let c = &mut self.clients[client];
        if call == 0 || (call != c.call && call != c.beat.0) {
            return;
        }
        if call == c.beat.0 {
            self.kept(client, yes);
            return;
        }
        c.yes += usize::from(yes);
        c.no += usize::from(!yes);
        c.token = token;
        if c.yes >= quorum || c.no > all - quorum || c.yes + c.no == all {
            self.decide(client);
        }
    }

    /// The next step of a client's script: its time is up, or it waited long enough.
    pub fn go_on(&mut self, client: usize) {
        match self.clients[client].doing {
            Doing::Idle if self.now + 700 * MS < FINAL => self.begin(client),
            Doing::Dead | Doing::Idle => {}
            Doing::Waiting => self.attempt(client),
            Doing::Working => {
                let late = self.clients[client].work_until <= self.now;
                let renews = self.config.has(With::Renewal) || self.config.has(With::Races);
                if renews && !late {
                    self.extend(client);
                } else {
                    self.finish_work(client);
                }
            }
            Doing::Got => self.call(client, Doing::Releasing, Cmd::Del),
            Doing::Acquiring | Doing::Extending | Doing::Getting | Doing::Releasing => {
                self.decide(client);
            }
        }
    }

    fn begin(&mut self, client: usize) {
        if self.config.has(With::Session) && !self.session_lives(client) {
            self.open_session(client);
            self.idle(client);
            return;
        }
        let waits = self.config.has(With::Waits);
        self.clients[client].deadline = self.now + if waits { WAIT } else { 0 };
        let value = Value {
            wait_ms: Some(if waits { WAIT / MS } else { 0 }),
            ..Value::default()
        };
        self.invoke(client, "acquire", value);
        self.attempt(client);
    }

    fn attempt(&mut self, client: usize) {
        let owner = match self.config.lock {
            Lock::OneValue => 900_000 + client as u64,
            _ if self.config.has(With::Session) => self.clients[client].session,
            _ => self.fresh(),
        };
        let now = self.now;
        let c = &mut self.clients[client];
        (c.owner, c.began) = (owner, now);
        self.call(client, Doing::Acquiring, Cmd::Set);
    }

    fn extend(&mut self, client: usize) {
        let lease = if self.config.has(With::Races) {
            TTL / 2 * (1 + self.below(3))
        } else {
            TTL
        };
        let now = self.now;
        let c = &mut self.clients[client];
        (c.began, c.lease) = (now, lease);
        let value = Value {
            ttl_ms: Some(lease / MS),
            ..Value::default()
        };
        self.invoke(client, "extend", value);
        self.call(client, Doing::Extending, Cmd::Expire(lease));
    }

    fn finish_work(&mut self, client: usize) {
        self.version += 1;
        let value = Value {
            version: Some(self.version),
            ..Value::default()
        };
        self.ok(client, "write", value);
        self.invoke(client, "release", Value::default());
        self.truth.ended(client, self.now);
        if !self.config.has(With::Session) {
            self.clients[client].life = self.fresh();
        }
        match self.config.lock {
            Lock::GetThenDel => self.call(client, Doing::Getting, Cmd::Get),
            Lock::PlainDel => self.call(client, Doing::Releasing, Cmd::Del),
            _ => self.call(client, Doing::Releasing, Cmd::DelIfMine),
        }
    }

    /// What is left of a lease that was asked for when the call began, by the client's own clock, in ms.
    fn left(&self, client: usize, lease: u64) -> f64 {
        let c = &self.clients[client];
        let elapsed = c.elapsed(self.now, c.began);
        (lease as f64 * 0.99 - elapsed as f64) / 1e6 - 2.0
    }

    fn decide(&mut self, client: usize) {
        let (quorum, all) = (self.quorum(), self.nodes.len());
        let c = &self.clients[client];
        let (yes, no, doing) = (c.yes, c.no, c.doing);
        let never = no > all - quorum;
        match doing {
            Doing::Acquiring => self.acquired(client, yes >= quorum, never),
            Doing::Extending => self.extended(client, yes >= quorum, never),
            Doing::Getting if yes >= quorum => {
                // Between its two commands a client may be held up.
                let slow = self.below(4) == 0;
                let after = if slow { self.below(2 * TTL) } else { 0 };
                let c = &mut self.clients[client];
                (c.call, c.step, c.doing) = (0, c.step + 1, Doing::Got);
                let step = c.step;
                self.later(after, Todo::Wake { client, step });
            }
            Doing::Getting | Doing::Releasing => {
                if doing == Doing::Releasing && yes >= quorum {
                    self.ok(client, "release", Value::default());
                } else if never {
                    self.in_vain(client, "release", true, "not-owner");
                } else {
                    self.in_vain(client, "release", false, "timeout");
                }
                self.idle(client);
            }
            Doing::Dead | Doing::Idle | Doing::Waiting | Doing::Working | Doing::Got => {}
        }
    }

    fn extended(&mut self, client: usize, quorum: bool, never: bool) {
        let lease = self.clients[client].lease;
        let left = self.left(client, lease);
        let lies = self.config.lock == Lock::ExtendAlwaysOk;
        let call = self.clients[client].call;
        if lies || (quorum && left > 0.0) {
            let claim = self.claim(left);
            self.truth.extended(client, call, lease, self.now, claim);
            let value = Value {
                validity_ms: claim,
                ..Value::default()
            };
            self.ok(client, "extend", value);
        } else if never {
            self.truth.ended(client, self.now);
            self.in_vain(client, "extend", true, "not-owner");
        } else {
            self.in_vain(client, "extend", false, "timeout");
            if self.config.lock == Lock::UnlockAfterExtend {
                let owner = self.clients[client].owner;
                self.tell(client, 0, Cmd::DelIfMine, owner);
            }
        }
        self.work(client);
    }

    fn claim(&self, left: f64) -> Option<f64> {
        (!self.config.has(With::NoClaim)).then(|| left.max(1.0))
    }

    fn acquired(&mut self, client: usize, quorum: bool, never: bool) {
        let left = self.left(client, TTL);
        let lock = self.config.lock;
        let session = self.config.has(With::Session);
        let lives = if session {
            self.session_lives(client)
        } else {
            left > 0.0
        };
        if lock == Lock::Never || (quorum && lives) {
            self.granted(client, left);
            return;
        }
        // A failed try unlocks all, and waits for nobody.
        let owner = self.clients[client].owner;
        self.tell(client, 0, Cmd::DelIfMine, owner);
        if self.now < self.clients[client].deadline {
            let c = &mut self.clients[client];
            (c.doing, c.step, c.call) = (Doing::Waiting, c.step + 1, 0);
            self.wake(client, RETRY);
            return;
        }
        match (never, self.nodes.len()) {
            (true, 1) => self.in_vain(client, "acquire", true, "held"),
            (_, 1) => self.in_vain(client, "acquire", false, "timeout"),
            _ if self.clients[client].yes == 0 && never => {
                self.in_vain(client, "acquire", true, "no-quorum");
            }
            _ => self.in_vain(client, "acquire", false, "no-quorum-unclean"),
        }
        self.idle(client);
    }

    fn granted(&mut self, client: usize, left: f64) {
        let lock = self.config.lock;
        let session = self.config.has(With::Session);
        let c = &self.clients[client];
        let (owner, alive, token) = (c.owner, c.alive, c.token);
        let claim = match lock {
            _ if session => None,
            Lock::LongClaim => Some((TTL / MS) as f64),
            _ => self.claim(left),
        };
        // The first of these it never set.
        let named = if lock == Lock::Never {
            1_000_000 + owner
        } else {
            owner
        };
        let start = if session { alive.1 } else { owner };
        self.truth.granted(client, (owner, start), self.now, claim);
        let value = Value {
            owner: Some(Cow::Owned(format!("o{named}"))),
            validity_ms: claim,
            token: session.then_some(token),
            since: session.then(|| super::upkeep::tick(alive.0)),
            ..Value::default()
        };
        self.ok(client, "acquire", value);
        let value = Value {
            version: Some(self.version),
            ..Value::default()
        };
        self.ok(client, "read", value);
        let long = [With::Renewal, With::Races, With::Watchdog, With::Session];
        let long = long.iter().any(|w| self.config.has(*w)) && self.below(3) == 0;
        let longest = match lock {
            Lock::ExtendAlwaysOk => 3 * TTL,
            Lock::PlainDel | Lock::GetThenDel => TTL,
            _ if long => 2 * TTL,
            _ => TTL / 2,
        };
        self.clients[client].work_until = self.now + 20 * MS + self.below(longest);
        if self.config.has(With::Watchdog) {
            let began = self.clients[client].began;
            self.keep_alive(client, (began, owner));
        }
        self.work(client);
    }

    fn work(&mut self, client: usize) {
        let now = self.now;
        let c = &mut self.clients[client];
        (c.doing, c.step, c.call) = (Doing::Working, c.step + 1, 0);
        let left = c.work_until.saturating_sub(now);
        let step = c.step;
        let after = if self.config.has(With::Races) {
            left.min(TTL / 3 + self.below(TTL / 5 * 4))
        } else if self.config.has(With::Renewal) {
            left.min(TTL / 3)
        } else {
            left
        };
        self.later(after, Todo::Wake { client, step });
    }

    pub fn idle(&mut self, client: usize) {
        let c = &mut self.clients[client];
        (c.doing, c.step, c.call) = (Doing::Idle, c.step + 1, 0);
        self.wake(client, RETRY);
    }
}
