//! A deterministic world for the tests of this room: virtual time, servers as tables, messages in the network.
//!
//! Owns [`World`]. A message lives in the network and not in the future of the call that sent it, so that a call that
//! timed out still has its effect, later. Time passes only when every future waits.
use super::{CallError, Cmd, Cut, Env, Kv, Reply, Script};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// What the network does to the messages of one server; to each message on its way in, on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Link {
    /// Both ways take this long.
    Takes(Duration, Duration),
    /// No connection.
    Refused,
    /// The request is lost.
    RequestLost,
    /// The request is executed after this, the answer lost.
    AnswerLost(Duration),
}

type Answer = Result<Reply, CallError>;

enum Event {
    Arrive {
        node: usize,
        cmd: OwnedCmd,
        slot: u64,
        /// The sender's own links, where it has some.
        from: Option<Rc<Vec<Link>>>,
    },
    Deliver {
        slot: u64,
        answer: Answer,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum OwnedCmd {
    Set {
        key: String,
        value: String,
        ttl: Option<Duration>,
        counter: Option<String>,
    },
    Get {
        key: String,
    },
    Del {
        key: String,
        owner: Option<String>,
    },
    Expire {
        key: String,
        owner: Option<String>,
        ttl: Duration,
    },
    Wait,
    /// To a member of a cluster, whose state is that of node 0.
    Grant {
        lease: i64,
        ttl: Duration,
    },
    Create {
        key: String,
        owner: String,
        lease: i64,
    },
    Read {
        key: String,
    },
    KeepAlive {
        lease: i64,
    },
    Revoke {
        lease: i64,
    },
}

impl OwnedCmd {
    /// Members answer from one state; other servers each from their own.
    fn state(&self, node: usize) -> usize {
        match self {
            Self::Set { .. }
            | Self::Get { .. }
            | Self::Del { .. }
            | Self::Expire { .. }
            | Self::Wait => node,
            Self::Grant { .. }
            | Self::Create { .. }
            | Self::Read { .. }
            | Self::KeepAlive { .. }
            | Self::Revoke { .. } => 0,
        }
    }
}

impl From<Kv<'_>> for OwnedCmd {
    fn from(kv: Kv<'_>) -> Self {
        match kv {
            Kv::Grant { lease, ttl } => Self::Grant { lease, ttl },
            Kv::Create { key, owner, lease } => Self::Create {
                key: key.to_owned(),
                owner: owner.to_owned(),
                lease,
            },
            Kv::Read { key } => Self::Read {
                key: key.to_owned(),
            },
            Kv::KeepAlive { lease } => Self::KeepAlive { lease },
            Kv::Revoke { lease } => Self::Revoke { lease },
        }
    }
}

impl From<Cmd<'_>> for OwnedCmd {
    fn from(cmd: Cmd<'_>) -> Self {
        let s = str::to_owned;
        match cmd {
            Cmd::SetNxPx { key, value, ttl } => Self::Set {
                key: s(key),
                value: s(value),
                ttl: Some(ttl),
                counter: None,
            },
            Cmd::SetNx { key, value } => Self::Set {
                key: s(key),
                value: s(value),
                ttl: None,
                counter: None,
            },
            Cmd::Get { key } => Self::Get { key: s(key) },
            Cmd::Del { key } => Self::Del {
                key: s(key),
                owner: None,
            },
            Cmd::PExpire { key, ttl } => Self::Expire {
                key: s(key),
                owner: None,
                ttl,
            },
            Cmd::Wait { .. } => Self::Wait,
            Cmd::Kv(kv) => Self::from(kv),
            Cmd::Run(Script::Grant {
                key,
                counter,
                owner,
                ttl,
            }) => Self::Set {
                key: s(key),
                value: s(owner),
                ttl,
                counter: Some(s(counter)),
            },
            Cmd::Run(Script::Unlock { key, owner }) => Self::Del {
                key: s(key),
                owner: Some(s(owner)),
            },
            Cmd::Run(Script::Extend { key, owner, ttl }) => Self::Expire {
                key: s(key),
                owner: Some(s(owner)),
                ttl,
            },
        }
    }
}

/// One server's keys: value and the moment of expiry.
#[derive(Debug, Default)]
struct Table {
    keys: BTreeMap<String, (String, Option<Duration>)>,
    counters: BTreeMap<String, i64>,
    /// Its length, its end, its key.
    leases: BTreeMap<i64, (Duration, Duration, Option<String>)>,
    revision: i64,
    created: BTreeMap<String, i64>,
}

impl Table {
    /// Leases that are over take their keys along.
    fn expire(&mut self, now: Duration) {
        let over = self.leases.iter().filter(|(_, l)| l.1 <= now);
        let over: Vec<i64> = over.map(|(id, _)| *id).collect();
        for lease in over {
            self.revoke(lease);
        }
    }

    fn revoke(&mut self, lease: i64) -> Reply {
        let Some((_, _, key)) = self.leases.remove(&lease) else {
            return Reply::Nil;
        };
        if let Some(key) = key {
            self.keys.remove(&key);
        }
        Reply::Ok
    }

    fn create(&mut self, key: String, owner: String, lease: i64) -> Reply {
        if let Some((value, _)) = self.keys.get(&key) {
            let mine = *value == owner;
            return match self.created.get(&key) {
                Some(revision) if mine => Reply::Int(*revision),
                _ => Reply::Nil,
            };
        }
        let Some(held) = self.leases.get_mut(&lease) else {
            return Reply::Nil;
        };
        held.2 = Some(key.clone());
        self.revision += 1;
        self.created.insert(key.clone(), self.revision);
        self.keys.insert(key, (owner, None));
        Reply::Int(self.revision)
    }

    fn value(&mut self, key: &str, now: Duration) -> Option<&str> {
        if self
            .keys
            .get(key)
            .is_some_and(|(_, end)| end.is_some_and(|end| end <= now))
        {
            self.keys.remove(key);
        }
        self.keys.get(key).map(|(value, _)| &**value)
    }

    fn run(&mut self, cmd: OwnedCmd, now: Duration) -> Reply {
        self.expire(now);
        match cmd {
            OwnedCmd::Grant { lease, ttl } => {
                self.leases.entry(lease).or_insert((ttl, now + ttl, None));
                Reply::Int(ttl.as_millis() as i64)
            }
            OwnedCmd::Create { key, owner, lease } => self.create(key, owner, lease),
            OwnedCmd::Read { key } => self.run(OwnedCmd::Get { key }, now),
            OwnedCmd::KeepAlive { lease } => self.leases.get_mut(&lease).map_or(Reply::Nil, |l| {
                l.1 = now + l.0;
                Reply::Int(l.0.as_millis() as i64)
            }),
            OwnedCmd::Revoke { lease } => self.revoke(lease),
            OwnedCmd::Set {
                key,
                value,
                ttl,
                counter,
            } => {
                if self.value(&key, now).is_some() {
                    return Reply::Nil;
                }
                self.keys.insert(key, (value, ttl.map(|ttl| now + ttl)));
                counter.map_or(Reply::Ok, |counter| {
                    let count = self.counters.entry(counter).or_default();
                    *count += 1;
                    Reply::Int(*count)
                })
            }
            // No replicas here.
            OwnedCmd::Wait => Reply::Int(0),
            OwnedCmd::Get { key } => self
                .value(&key, now)
                .map_or(Reply::Nil, |v| Reply::Text(v.to_owned())),
            OwnedCmd::Del { key, owner } => {
                let there = self
                    .value(&key, now)
                    .is_some_and(|v| owner.is_none_or(|o| o == v));
                if there {
                    self.keys.remove(&key);
                }
                Reply::Int(i64::from(there))
            }
            OwnedCmd::Expire { key, owner, ttl } => {
                let there = self
                    .value(&key, now)
                    .is_some_and(|v| owner.is_none_or(|o| o == v));
                if let Some((_, end)) = self.keys.get_mut(&key).filter(|_| there) {
                    *end = Some(now + ttl);
                }
                Reply::Int(i64::from(there))
            }
        }
    }
}

/// Clock, network and servers; and one's own links to them, where one does not use those of all.
#[derive(Clone)]
pub(super) struct World(Rc<Inner>, Option<Rc<Vec<Link>>>);

struct Inner {
    now: Cell<Duration>,
    next: Cell<u64>,
    /// By time, then by order of sending.
    events: RefCell<BTreeMap<(Duration, u64), Event>>,
    timers: RefCell<BTreeSet<(Duration, u64)>>,
    answers: RefCell<BTreeMap<u64, Answer>>,
    tables: RefCell<Vec<Table>>,
    links: RefCell<Vec<Link>>,
    sent: RefCell<Vec<(usize, String)>>,
    waiting: RefCell<Vec<Waker>>,
}

impl World {
    /// `nodes` servers, each message 1 ms on its way.
    pub(super) fn new(nodes: usize) -> Self {
        let ms = Duration::from_millis(1);
        let all = Inner {
            now: Cell::default(),
            next: Cell::new(1),
            events: RefCell::default(),
            timers: RefCell::default(),
            answers: RefCell::default(),
            tables: RefCell::new((0..nodes).map(|_| Table::default()).collect()),
            links: RefCell::new(vec![Link::Takes(ms, ms); nodes]),
            sent: RefCell::default(),
            waiting: RefCell::default(),
        };
        Self(Rc::new(all), None)
    }

    /// The same world from another place: each server over these links.
    pub(super) fn seen_over(&self, links: Vec<Link>) -> Self {
        Self(self.0.clone(), Some(Rc::new(links)))
    }

    pub(super) fn link(&self, node: usize, link: Link) {
        self.0.links.borrow_mut()[node] = link;
    }

    /// What server `node` holds under `key` now.
    pub(super) fn value(&self, node: usize, key: &str) -> Option<String> {
        let now = self.0.now.get();
        self.0.tables.borrow_mut()[node]
            .value(key, now)
            .map(str::to_owned)
    }

    /// Put a value there, as somebody else would.
    pub(super) fn plant(&self, node: usize, key: &str, value: &str) {
        let entry = (value.to_owned(), None);
        self.0.tables.borrow_mut()[node]
            .keys
            .insert(key.to_owned(), entry);
    }

    /// Forget everything, as a restart without data.
    pub(super) fn empty(&self, node: usize) {
        self.0.tables.borrow_mut()[node] = Table::default();
    }

    /// Number of the commands sent that begin so.
    pub(super) fn sent(&self, node: usize, kind: &str) -> usize {
        let sent = self.0.sent.borrow();
        sent.iter().filter(|(n, k)| *n == node && k == kind).count()
    }

    fn number(&self) -> u64 {
        let number = self.0.next.get();
        self.0.next.set(number + 1);
        number
    }

    /// Run to the end, passing time whenever nothing else can be done.
    pub(super) fn run<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        let mut cx = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(value) = future.as_mut().poll(&mut cx) {
                return value;
            }
            assert!(self.step(), "everything waits and nothing can happen");
        }
    }

    /// Let `length` pass, with all that happens in it.
    pub(super) fn pass(&self, length: Duration) {
        let env = self.clone();
        self.run(async move { env.sleep(length).await });
    }

    /// Jump to the next event or timer; false when there is none.
    fn step(&self) -> bool {
        let event = self.0.events.borrow().first_key_value().map(|(k, _)| *k);
        let timer = self.0.timers.borrow().first().copied();
        let Some(at) = [event, timer].into_iter().flatten().min() else {
            return false;
        };
        self.0.now.set(self.0.now.get().max(at.0));
        self.0.timers.borrow_mut().remove(&at);
        let event = self.0.events.borrow_mut().remove(&at);
        if let Some(event) = event {
            self.happen(event);
        }
        // Everybody looks again: simpler than to know who waits for what.
        self.0.waiting.take().into_iter().for_each(Waker::wake);
        true
    }

    fn happen(&self, event: Event) {
        match event {
            Event::Arrive {
                node,
                cmd,
                slot,
                from,
            } => {
                let now = self.0.now.get();
                let state = cmd.state(node);
                let reply = self.0.tables.borrow_mut()[state].run(cmd, now);
                let all = self.0.links.borrow();
                if let Link::Takes(_, back) = from.as_deref().unwrap_or(&all)[node] {
                    let answer = Ok(reply);
                    self.later(back, Event::Deliver { slot, answer });
                }
            }
            Event::Deliver { slot, answer } => {
                self.0.answers.borrow_mut().insert(slot, answer);
            }
        }
    }

    fn wait<T>(&self, cx: &Context<'_>) -> Poll<T> {
        self.0.waiting.borrow_mut().push(cx.waker().clone());
        Poll::Pending
    }

    fn later(&self, delay: Duration, event: Event) {
        let key = (self.0.now.get() + delay, self.number());
        self.0.events.borrow_mut().insert(key, event);
    }
}

impl Env for World {
    fn now(&self) -> Duration {
        self.0.now.get()
    }

    fn sleep(&self, length: Duration) -> impl Future<Output = ()> {
        let end = self.0.now.get() + length;
        let key = (end, self.number());
        self.0.timers.borrow_mut().insert(key);
        poll_fn(move |cx| {
            if self.0.now.get() >= end {
                Poll::Ready(())
            } else {
                self.wait(cx)
            }
        })
    }

    fn call(&self, node: usize, cmd: Cmd<'_>) -> impl Future<Output = Answer> {
        let slot = self.number();
        let text = format!("{cmd:?}");
        let kind = text
            .trim_start_matches("Run(")
            .trim_start_matches("Kv(")
            .split(' ')
            .next()
            .unwrap_or_default();
        let from = self.1.clone();
        let link = from.as_deref().unwrap_or(&self.0.links.borrow())[node];
        if link != Link::Refused {
            self.0.sent.borrow_mut().push((node, kind.to_owned()));
        }
        let cmd = OwnedCmd::from(cmd);
        let arrive = |after| {
            let event = Event::Arrive {
                node,
                cmd,
                slot,
                from,
            };
            self.later(after, event);
        };
        match link {
            Link::Takes(there, _) | Link::AnswerLost(there) => arrive(there),
            Link::RequestLost => {}
            Link::Refused => {
                let answer = Err(CallError::NotSent(Cut::Refused));
                self.0.answers.borrow_mut().insert(slot, answer);
            }
        }
        poll_fn(move |cx| match self.0.answers.borrow_mut().remove(&slot) {
            Some(answer) => Poll::Ready(answer),
            None => self.wait(cx),
        })
    }

    fn random(&self) -> u64 {
        // Good enough to tell owners apart, and the same in every run.
        self.number().wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn nodes(&self) -> usize {
        self.0.tables.borrow().len()
    }
}
