//! What is known of one node: a pure function from the frames of its connection to events, and to commands.
//!
//! Owns the bookkeeping: which answer belongs to which command, `not_before`, the keys, the budget for reads.
//! Must not know sockets or timers: `watch` feeds it frames and asks when to wake it. Events go to the sink.
use super::conn::{CHANNEL, Conn, ConnError, EVENTS, pack};
use super::frame::Frame;
use super::held::{Held, Queue, Slot};
use super::watch::{Last, Request, Shared};
use super::{PING_EVERY, READS_PER_SECOND, emit};
use crate::record::{Clock, Sink};
use bytes::BytesMut;
use fencepost_checker::Value;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::rc::Rc;
use tokio::sync::oneshot;

/// What an answer is for; answers come in the order of the commands.
enum Expect {
    /// A ping, sent at this time, and what follows from its answer: all answers before it are there.
    Ping { sent: u64, then: Then },
    /// `GET`, sent at this time; a `PTTL` is behind it.
    Get {
        key: Rc<str>,
        sent: u64,
        purpose: Purpose,
    },
    /// That `PTTL`, with what `GET` gave.
    Pttl {
        key: Rc<str>,
        sent: u64,
        purpose: Purpose,
        value: Option<String>,
    },
    /// `SCAN`.
    Scan { then: Then },
}

enum Then {
    Nothing,
    /// Everything that was missed is read again.
    Up,
    Reply(oneshot::Sender<()>),
}

enum Purpose {
    /// For the events of the key that wait.
    Event,
    /// A `value` or `absent` of its own.
    Report,
    Probe(oneshot::Sender<(Option<String>, i64)>),
}

/// Reads that may still be spent: refills at [`READS_PER_SECOND`].
struct Budget {
    left: f64,
    at: u64,
}

impl Budget {
    const MAX: f64 = READS_PER_SECOND as f64;

    fn left(&self, now: u64) -> f64 {
        let refill = now.saturating_sub(self.at) as f64 / 1e9 * Self::MAX;
        (self.left + refill).min(Self::MAX)
    }

    fn spend(&mut self, now: u64) -> bool {
        (self.left, self.at) = (self.left(now), now);
        let may = self.left >= 1.0;
        self.left -= f64::from(u8::from(may));
        may
    }
}

pub(super) struct View {
    shared: Rc<Shared>,
    clock: Clock,
    sink: Rc<dyn Sink>,
    /// Bytes to send.
    pub(super) out: BytesMut,
    expects: VecDeque<Expect>,
    queue: Queue,
    budget: Budget,
    busy: bool,
    /// The key whose `set` was the frame just before.
    just_set: Option<Rc<str>>,
    run_id: String,
    next_ping: u64,
    /// Where the node may change its role: what it is.
    role: Option<Role>,
}

/// What a node said of itself.
#[derive(Debug, Clone, Copy, Default)]
struct Role {
    /// None: it was not asked yet.
    primary: Option<bool>,
    /// When the question that it answered was sent.
    asked: u64,
}

impl View {
    pub(super) fn new(shared: Rc<Shared>, clock: Clock, sink: Rc<dyn Sink>, roles: bool) -> Self {
        let budget = Budget {
            left: Budget::MAX,
            at: 0,
        };
        Self {
            shared,
            clock,
            sink,
            out: BytesMut::new(),
            expects: VecDeque::new(),
            queue: Queue::default(),
            budget,
            busy: false,
            just_set: None,
            run_id: String::new(),
            next_ping: 0,
            role: roles.then(Role::default),
        }
    }

    /// A new connection. The first one is silent about itself, a later one says `restarted` where the server is
    /// another process, and `up` once everything known was read again.
    pub(super) fn begin(&mut self, conn: &mut Conn) -> Result<(), ConnError> {
        let first = self.run_id.is_empty();
        if !first && self.run_id != conn.run_id {
            let proof = format!("run id {} -> {}", short(&self.run_id), short(&conn.run_id));
            self.say("restarted", None, Some(proof));
        }
        self.run_id.clone_from(&conn.run_id);
        self.shared.alive_at.set(conn.since);
        self.out.clear();
        for push in std::mem::take(&mut conn.early) {
            self.frame(push)?;
        }
        self.scan("0", if first { Then::Nothing } else { Then::Up });
        self.drain();
        Ok(())
    }

    /// The connection is lost.
    pub(super) fn end(&mut self, why: &ConnError) {
        self.give_up();
        self.say("down", None, Some(why.to_string()));
        for last in self.shared.keys.borrow_mut().values_mut() {
            *last = Last::Unread;
        }
        self.drain();
    }

    /// No answer will come any more: probes are answered with nothing, events go out as they are.
    pub(super) fn give_up(&mut self) {
        self.expects.clear();
        self.just_set = None;
        self.queue.give_up();
        self.drain();
    }

    /// Somebody asks.
    pub(super) fn request(&mut self, request: Request) {
        match request {
            Request::Ping { reply } => self.ping(Then::Reply(reply)),
            Request::Get { key, reply } => self.read(Rc::from(key), Purpose::Probe(reply)),
            Request::Sample { done } => {
                self.report(|_| true);
                self.ping(Then::Reply(done));
            }
        }
    }

    /// When [`View::wake`] is due.
    pub(super) fn wake_at(&self) -> u64 {
        self.queue
            .deadline()
            .map_or(self.next_ping, |d| d.min(self.next_ping))
    }

    /// More happens than owners may be read for: there is no hurry to see the next event. It stays so until a tenth of a
    /// second's reads are there again.
    pub(super) fn is_busy(&mut self) -> bool {
        let left = self.budget.left(self.clock.now());
        self.busy = left < if self.busy { Budget::MAX / 10.0 } else { 1.0 };
        self.busy
    }

    /// Pings if it is time, and lets go of events that waited long enough.
    pub(super) fn wake(&mut self) {
        if self.clock.now() >= self.next_ping {
            self.ping(Then::Nothing);
        }
        self.drain();
    }

    /// Emits what is ready.
    pub(super) fn drain(&mut self) {
        while let Some(event) = self.queue.pop(self.clock.now()) {
            let value = Value {
                not_before: Some(event.not_before),
                owner: event.owner.value().map(Cow::Owned),
                pttl_ms: event.pttl.value(),
                proof: event.proof.map(Cow::Owned),
                ..Value::default()
            };
            // A replica's `del` is its primary's.
            let f = if event.f == "del" && event.own.value() != Some(true) {
                "removed"
            } else {
                event.f
            };
            emit(
                &*self.sink,
                self.clock,
                &self.shared.node,
                f,
                event.key.as_deref(),
                value,
            );
        }
    }

    /// One frame, in the order of the stream. The caller drains afterwards.
    pub(super) fn frame(&mut self, frame: Frame) -> Result<(), ConnError> {
        let just_set = self.just_set.take();
        let Frame::Push(parts) = frame else {
            return self.answer(&frame);
        };
        match parts.as_slice() {
            [kind, channel, key] if kind.text() == Some(b"message") => {
                let event = channel
                    .text()
                    .and_then(|c| c.strip_prefix(CHANNEL.as_bytes()));
                let event =
                    event.and_then(|e| EVENTS.into_iter().find(|name| name.as_bytes() == e));
                let key = key
                    .text()
                    .and_then(|k| k.strip_prefix(self.shared.prefix.as_bytes()));
                if let (Some(event), Some(key)) = (event, key) {
                    let key = self.shared.intern(&String::from_utf8_lossy(key));
                    self.happened(event, key, just_set.as_ref());
                }
            }
            [kind, Frame::Null] if kind.text() == Some(b"invalidate") => self.flushed(),
            _ => {}
        }
        Ok(())
    }

    /// A keyspace event of a lock key.
    fn happened(&mut self, f: &'static str, key: Rc<str>, just_set: Option<&Rc<str>>) {
        let last = match f {
            "expire" if just_set == Some(&key) => return,
            "expire" => None,
            "set" => Some(Last::Unread),
            _ => Some(Last::Absent),
        };
        let reads = matches!(f, "set" | "expire") && self.budget.spend(self.clock.now());
        match last {
            Some(last) => {
                self.queue.overtaken(&key);
                self.shared.keys.borrow_mut().insert(key.clone(), last);
            }
            None => self.queue.extended(&key),
        }
        if f == "set" {
            self.just_set = Some(key.clone());
        }
        self.hold(
            f,
            Some(key.clone()),
            self.shared.alive_at.get(),
            reads,
            None,
        );
        if reads {
            self.read(key, Purpose::Event);
        }
        if f == "del" && self.role.is_some() {
            let primary = self.role.and_then(|r| r.primary) == Some(true);
            self.queue.doubt_last(primary);
            if primary {
                self.ping(Then::Nothing);
            }
        }
    }

    /// The node said what it is.
    fn role_read(&mut self, answer: &Frame, sent: u64) {
        let word = answer.array().and_then(|words| words.first()?.text());
        let primary = match word {
            Some(b"master") => true,
            Some(b"slave") => false,
            _ => return,
        };
        let Some(before) = self.role.replace(Role {
            primary: Some(primary),
            asked: sent,
        }) else {
            return;
        };
        self.queue.role_read(primary);
        if before.primary.is_some_and(|p| p != primary) {
            let (f, said) = if primary {
                ("promoted", "master")
            } else {
                ("demoted", "slave")
            };
            let proof = Some(format!("ROLE says {said}"));
            self.hold(f, None, before.asked, false, proof);
        }
    }

    /// `FLUSHALL`, or `FLUSHDB` of any database: the invalidation does not say which.
    fn flushed(&mut self) {
        self.queue.give_up();
        self.say(
            "flushed",
            None,
            Some("FLUSHALL or FLUSHDB (invalidation push)".into()),
        );
        self.report(|last| *last != Last::Absent);
        for last in self.shared.keys.borrow_mut().values_mut() {
            *last = Last::Absent;
        }
    }

    fn answer(&mut self, answer: &Frame) -> Result<(), ConnError> {
        match self.expects.pop_front() {
            // Any answer will do, an error too: the server executed the ping and wrote something.
            Some(Expect::Ping { sent, then }) => {
                if self.role.is_some() {
                    self.role_read(answer, sent);
                }
                self.shared
                    .alive_at
                    .set(self.shared.alive_at.get().max(sent));
                match then {
                    Then::Nothing => {}
                    Then::Up => self.say("up", None, None),
                    Then::Reply(reply) => drop(reply.send(())),
                }
                Ok(())
            }
            Some(Expect::Get { key, sent, purpose }) => {
                let value = answer
                    .text()
                    .map(|v| String::from_utf8_lossy(v).into_owned());
                self.value_read(&key, answer, value.as_deref());
                self.expects.push_front(Expect::Pttl {
                    key,
                    sent,
                    purpose,
                    value,
                });
                Ok(())
            }
            Some(Expect::Pttl {
                key,
                sent,
                purpose,
                value,
            }) => {
                let pttl = if let Frame::Int(n) = answer {
                    Some(*n)
                } else {
                    None
                };
                self.queue.pttl_read(&key, pttl.filter(|&p| p != -2));
                match (purpose, pttl) {
                    (Purpose::Report, Some(pttl)) => self.reported(key, sent, value, pttl),
                    (Purpose::Probe(reply), Some(pttl)) => drop(reply.send((value, pttl))),
                    _ => {}
                }
                Ok(())
            }
            Some(Expect::Scan { then }) => self.scanned(answer, then),
            None => Err(refused("nothing", answer)),
        }
    }

    /// What `GET` says holds at this very place of the stream.
    fn value_read(&mut self, key: &str, answer: &Frame, value: Option<&str>) {
        self.queue.owner_read(key, value);
        let last = match (answer, value) {
            (_, Some(value)) => Last::Is(value.to_owned()),
            (Frame::Null, _) => Last::Absent,
            _ => return,
        };
        if let Some(known) = self.shared.keys.borrow_mut().get_mut(key) {
            *known = last;
        }
    }

    /// A read of its own: it was answered after it was sent.
    fn reported(&mut self, key: Rc<str>, sent: u64, owner: Option<String>, pttl: i64) {
        let f = if pttl == -2 { "absent" } else { "value" };
        self.hold(
            f,
            Some(key),
            sent.max(self.shared.alive_at.get()),
            false,
            None,
        );
        if pttl != -2 {
            self.queue.amend_last(owner, pttl);
        }
    }

    fn scanned(&mut self, answer: &Frame, then: Then) -> Result<(), ConnError> {
        let Some([Frame::Text(cursor), Frame::Array(keys)]) = answer.array() else {
            return Err(refused("SCAN", answer));
        };
        for key in keys.iter().filter_map(Frame::text) {
            if let Some(key) = key.strip_prefix(self.shared.prefix.as_bytes()) {
                self.shared.intern(&String::from_utf8_lossy(key));
            }
        }
        if cursor.as_ref() != b"0" {
            let cursor = String::from_utf8_lossy(cursor).into_owned();
            self.scan(&cursor, then);
            return Ok(());
        }
        self.report(|_| true);
        self.ping(then);
        Ok(())
    }

    fn scan(&mut self, cursor: &str, then: Then) {
        let pattern = format!("{}*", escape_glob(&self.shared.prefix));
        pack(
            &mut self.out,
            &["SCAN", cursor, "MATCH", &pattern, "COUNT", "1000"],
        );
        self.expects.push_back(Expect::Scan { then });
    }

    /// Reads keys, for a `value` or `absent` each.
    fn report(&mut self, which: impl Fn(&Last) -> bool) {
        let known = self.shared.keys.borrow();
        let mut keys: Vec<Rc<str>> = known
            .iter()
            .filter(|(_, l)| which(l))
            .map(|(k, _)| k.clone())
            .collect();
        drop(known);
        keys.sort_unstable();
        for key in keys {
            self.read(key, Purpose::Report);
        }
    }

    fn read(&mut self, key: Rc<str>, purpose: Purpose) {
        let name = format!("{}{key}", self.shared.prefix);
        pack(&mut self.out, &["GET", &name]);
        pack(&mut self.out, &["PTTL", &name]);
        let sent = self.clock.now();
        self.expects.push_back(Expect::Get { key, sent, purpose });
    }

    /// The longer the server is silent, the rarer the pings: what waits for its answer stays small.
    fn ping(&mut self, then: Then) {
        let question = if self.role.is_some() { "ROLE" } else { "PING" };
        pack(&mut self.out, &[question]);
        let sent = self.clock.now();
        self.expects.push_back(Expect::Ping { sent, then });
        let silence = sent.saturating_sub(self.shared.alive_at.get());
        self.next_ping = sent + (PING_EVERY.as_nanos() as u64).max(silence / 50);
    }

    fn say(&mut self, f: &'static str, key: Option<Rc<str>>, proof: Option<String>) {
        self.hold(f, key, self.shared.alive_at.get(), false, proof);
    }

    fn hold(
        &mut self,
        f: &'static str,
        key: Option<Rc<str>>,
        not_before: u64,
        reads: bool,
        proof: Option<String>,
    ) {
        let seen = self.clock.now();
        let (owner, pttl) = if reads {
            (Slot::Waiting, Slot::Waiting)
        } else {
            (Slot::Done(None), Slot::Done(None))
        };
        self.queue.push(Held {
            f,
            key,
            not_before,
            seen,
            owner,
            pttl,
            own: Slot::Done(Some(true)),
            proof,
        });
    }
}

fn refused(command: &'static str, answer: &Frame) -> ConnError {
    ConnError::Refused {
        command,
        answer: format!("{answer:?}").chars().take(200).collect(),
    }
}

fn short(run_id: &str) -> &str {
    run_id.get(..8).unwrap_or(run_id)
}

fn escape_glob(prefix: &str) -> String {
    let mut out = String::new();
    for c in prefix.chars() {
        if "*?[]\\^".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
