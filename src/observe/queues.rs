//! What a ZooKeeper ensemble agreed on: who is the first in the queue of each lock key.
//!
//! Owns the [`Follower`]. Must not know locks, faults or checking. Its events go to the run's [`Sink`], about one node,
//! `zookeeper`: the servers answer as one.
//!
//! # Why nothing is missed
//! Every server is watched, on a connection of its own, and each tells all changes in the order in which they were made;
//! the first to tell one counts. A server ends its connections when it follows another leader, and then all may be silent at
//! once: on a new connection the queues are listed, once the server is not behind what was seen already. Places in a queue
//! are numbered without a gap, so a node that came and went in that time is noticed; where it may have been the first, it is
//! told that the evidence has a hole.
//!
//! # Why the times are sound
//! Every [`PING_EVERY`] a server is asked to catch up with its leader. What it tells after its answer was committed after the
//! question was sent: a leader that is one no more commits nothing, and whoever followed it says nothing of another's on
//! the same connection. What is found in a list was committed after a quorum of the servers had been asked so, for one of
//! these must have been among those that agreed to it.
//!
//! # What is not seen
//! As for etcd (`revisions`): whether a session was ended by a client or by time, and whether it was renewed.
use super::revisions::{Addresses, over};
use super::{PING_EVERY, SAMPLE_DEADLINE, emit};
use crate::record::{Clock, Sink};
use crate::zookeeper::{Conn, Event, LOCKS, What, ZkError, place};
use fencepost_checker::Value;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// The name of the one node.
const NODE: &str = "zookeeper";
/// Bound on one question to one server.
const ANSWER: Duration = Duration::from_millis(300);
/// How long a session of the observer's is kept without a word.
const SESSION: Duration = Duration::from_secs(10);

/// Follows the ensemble until it is dropped.
pub(super) struct Follower {
    shared: Rc<Shared>,
    tasks: Vec<JoinHandle<()>>,
}

struct Shared {
    servers: Addresses,
    prefix: String,
    /// No session ends sooner than this after its node was created.
    lease: Duration,
    clock: Clock,
    sink: Rc<dyn Sink>,
    /// When each server was last asked to catch up, and answered.
    asked: RefCell<Vec<u64>>,
    /// The greatest transaction that a server said it knows.
    seen: Cell<i64>,
    /// By lock key, without the prefix.
    queues: RefCell<BTreeMap<String, Queue>>,
}

/// The nodes of one key, by place.
#[derive(Debug, Default)]
struct Queue {
    there: BTreeMap<u64, Place>,
    /// Places that were there, or were never seen.
    gone: BTreeSet<u64>,
    /// All places below this one are in either.
    next: Option<u64>,
    /// The first, as it was told, and when it was taken at the earliest.
    head: Option<(u64, u64)>,
}

#[derive(Debug, Clone)]
struct Place {
    owner: String,
    /// When it was taken at the earliest, and when that was known.
    not_before: u64,
    known: u64,
}

/// What is to be told of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Tell {
    /// This owner is the first now.
    Set(String),
    /// The first is gone; it was taken at the earliest then.
    Gone(u64),
    /// So many came and went unseen, and may have been the first.
    Missed(u64),
}

/// All queues, as one server has them.
struct List {
    /// When it was asked to catch up, and the last transaction that it then knew.
    asked: u64,
    seen: i64,
    queues: BTreeMap<String, BTreeMap<u64, String>>,
}

impl Follower {
    /// Begins to follow. Returns once a quorum of the servers is watched; else why not.
    pub(super) async fn start(
        servers: Addresses,
        prefix: String,
        lease: Duration,
        (clock, sink): (Clock, Rc<dyn Sink>),
        deadline: Duration,
    ) -> Result<Self, ZkError> {
        let count = servers().len();
        let shared = Rc::new(Shared {
            servers,
            prefix,
            lease,
            clock,
            sink,
            asked: RefCell::new(vec![0; count]),
            seen: Cell::new(0),
            queues: RefCell::default(),
        });
        let tasks = (0..count).map(|server| {
            let shared = shared.clone();
            tokio::task::spawn_local(async move { shared.follow(server).await })
        });
        let follower = Self {
            tasks: tasks.collect(),
            shared,
        };
        let end = tokio::time::Instant::now() + deadline;
        while follower.shared.quorum_asked() == 0 {
            if tokio::time::Instant::now() >= end {
                return Err(ZkError::Unknown(crate::resp::Break::Reset));
            }
            tokio::time::sleep(PING_EVERY).await;
        }
        Ok(follower)
    }

    /// Final reads: one `value` or `absent` for each lock key known, once all changes up to then were told; a `down` with
    /// the reason where that cannot be had.
    pub(super) async fn sample(&self) {
        let shared = &self.shared;
        let end = tokio::time::Instant::now() + SAMPLE_DEADLINE;
        for turn in 0.. {
            let asked = shared.clock.now();
            let answer = shared.look(turn % (shared.servers)().len()).await;
            if let Ok(list) = &answer
                && shared.agrees(list)
            {
                shared.report(asked);
                return;
            }
            if tokio::time::Instant::now() >= end {
                let why = match answer {
                    Ok(_) => "changes were missed".to_owned(),
                    Err(e) => format!("no server answered the final reads: {e}"),
                };
                shared.down(shared.quorum_asked(), why);
                return;
            }
            tokio::time::sleep(PING_EVERY).await;
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Shared {
    async fn follow(&self, server: usize) {
        loop {
            // It ended: the next connection begins with a list.
            let _ = self.watch(server).await;
            tokio::time::sleep(PING_EVERY).await;
        }
    }

    /// Tells what one server tells, until its connection ends.
    async fn watch(&self, server: usize) -> Result<(), ZkError> {
        let at = (self.servers)()[server];
        let mut conn = within(Conn::open(at, ANSWER, SESSION)).await?;
        within(conn.folder(LOCKS)).await?;
        within(conn.watch(LOCKS)).await?;
        let list = loop {
            let list = self.list(&mut conn).await?;
            if list.seen >= self.seen.get() {
                break list;
            }
        };
        // What was heard up to the list's answer comes before it.
        let mut not_before = self.quorum_asked();
        self.heard(&mut conn, not_before);
        self.found(&list);
        let mut asked = list.asked;
        loop {
            self.heard(&mut conn, not_before);
            not_before = asked;
            self.asked.borrow_mut()[server] = asked;
            let pause = tokio::time::Instant::now() + PING_EVERY;
            while let Ok(heard) = tokio::time::timeout_at(pause, conn.hear()).await {
                heard?;
                self.heard(&mut conn, not_before);
            }
            asked = self.clock.now();
            within(conn.sync()).await?;
        }
    }

    fn heard(&self, conn: &mut Conn, not_before: u64) {
        self.seen.set(self.seen.get().max(conn.seen()));
        for event in conn.events() {
            self.event(&event, not_before);
        }
    }

    /// All queues, after the server has caught up.
    async fn list(&self, conn: &mut Conn) -> Result<List, ZkError> {
        let asked = self.clock.now();
        within(conn.sync()).await?;
        // By then it has all that it says; what it lists may be newer.
        let seen = conn.seen();
        let mut queues = BTreeMap::new();
        for name in within(conn.children(LOCKS)).await? {
            let Some(key) = self.key(&name) else {
                continue;
            };
            let names = within(conn.children(&format!("{LOCKS}/{name}"))).await?;
            let places = names.iter().filter_map(|n| place(n));
            let places = places.map(|(who, number)| (number, who.to_owned()));
            queues.insert(key, places.collect());
        }
        Ok(List {
            asked,
            seen,
            queues,
        })
    }

    async fn look(&self, server: usize) -> Result<List, ZkError> {
        let at = (self.servers)()[server];
        let mut conn = within(Conn::open(at, ANSWER, SESSION)).await?;
        let list = self.list(&mut conn).await?;
        // Whether it was closed or goes by itself makes no difference.
        let _ = within(conn.close()).await;
        Ok(list)
    }

    /// The key of a queue, without the prefix; none: it is not of this run.
    fn key(&self, folder: &str) -> Option<String> {
        let prefix = self.prefix.replace('/', "|");
        let key = folder.strip_prefix(&prefix)?;
        Some(key.replace('|', "/"))
    }

    /// When a quorum of the servers was asked, and answered.
    fn quorum_asked(&self) -> u64 {
        let mut asked = self.asked.borrow().clone();
        asked.sort_unstable_by(|a, b| b.cmp(a));
        asked.get(asked.len() / 2).copied().unwrap_or(0)
    }

    fn event(&self, event: &Event, not_before: u64) {
        let below = event.path.strip_prefix(LOCKS).unwrap_or_default();
        let parts = below.trim_start_matches('/').split_once('/');
        let Some((key, (owner, number))) =
            parts.and_then(|(folder, name)| Some((self.key(folder)?, place(name)?)))
        else {
            return;
        };
        let mut queues = self.queues.borrow_mut();
        let queue = queues.entry(key.clone()).or_default();
        match event.what {
            What::Created => queue.take(number, owner, not_before, self.clock.now()),
            What::Deleted => queue.leave(number),
            What::Other => return,
        }
        let tell = queue.turn();
        drop(queues);
        self.tell(&key, &tell, not_before);
    }

    /// Takes a list for what is true, at a server that is not behind.
    fn found(&self, list: &List) {
        let not_before = self.quorum_asked();
        let keys: BTreeSet<String> = {
            let known = self.queues.borrow();
            known.keys().chain(list.queues.keys()).cloned().collect()
        };
        for key in keys {
            let there = list.queues.get(&key);
            let mut queues = self.queues.borrow_mut();
            let queue = queues.entry(key.clone()).or_default();
            let mut tell = queue.become_(there, not_before, (list.asked, self.clock.now()));
            tell.extend(queue.turn());
            drop(queues);
            self.tell(&key, &tell, not_before);
        }
        self.seen.set(self.seen.get().max(list.seen));
    }

    fn tell(&self, key: &str, all: &[Tell], not_before: u64) {
        for tell in all {
            let value = Value {
                not_before: Some(not_before),
                ..Value::default()
            };
            match tell {
                Tell::Set(owner) => {
                    let owner = Some(Cow::Borrowed(owner.as_str()));
                    self.say("set", Some(key), Value { owner, ..value });
                }
                Tell::Gone(taken) => {
                    let long = over(*taken, self.clock.now(), self.lease);
                    self.say(if long { "expired" } else { "del" }, Some(key), value);
                }
                Tell::Missed(count) => {
                    let why =
                        format!("{count} nodes came and went while no server could be watched");
                    self.down(not_before, why);
                }
            }
        }
    }

    fn agrees(&self, list: &List) -> bool {
        let queues = self.queues.borrow();
        let known = queues.iter().all(|(key, queue)| {
            let there: BTreeSet<u64> = queue.there.keys().copied().collect();
            let listed = list.queues.get(key);
            there == listed.map_or_else(BTreeSet::new, |q| q.keys().copied().collect())
        });
        known && list.queues.keys().all(|key| queues.contains_key(key))
    }

    fn report(&self, asked: u64) {
        for (key, queue) in self.queues.borrow().iter() {
            let first = queue.there.first_key_value().map(|(_, p)| p.owner.clone());
            let f = if first.is_some() { "value" } else { "absent" };
            let value = Value {
                not_before: Some(asked),
                owner: first.map(Cow::Owned),
                ..Value::default()
            };
            self.say(f, Some(key), value);
        }
    }

    fn down(&self, not_before: u64, why: String) {
        let value = Value {
            not_before: Some(not_before),
            proof: Some(Cow::Owned(why)),
            ..Value::default()
        };
        self.say("down", None, value);
    }

    fn say(&self, f: &str, key: Option<&str>, value: Value<'_>) {
        emit(&*self.sink, self.clock, NODE, f, key, value);
    }
}

impl Queue {
    fn take(&mut self, number: u64, owner: &str, not_before: u64, known: u64) {
        if self.gone.contains(&number) || self.there.contains_key(&number) {
            return;
        }
        let owner = owner.to_owned();
        let place = Place {
            owner,
            not_before,
            known,
        };
        self.there.insert(number, place);
        self.count(number);
    }

    fn leave(&mut self, number: u64) {
        self.there.remove(&number);
        self.gone.insert(number);
        self.count(number);
    }

    /// Moves on where no place is missing. What was before the first that is seen is none of this run's.
    fn count(&mut self, number: u64) {
        let mut next = self.next.unwrap_or(number);
        while self.there.contains_key(&next) || self.gone.contains(&next) {
            next += 1;
        }
        self.next = Some(next);
    }

    /// What a list says at a server that was asked to catch up at `asked`.
    fn become_(
        &mut self,
        listed: Option<&BTreeMap<u64, String>>,
        not_before: u64,
        (asked, now): (u64, u64),
    ) -> Vec<Tell> {
        let listed = listed.cloned().unwrap_or_default();
        // What was known only after the question may be newer than the list.
        let left = self.there.iter();
        let left = left.filter(|(n, p)| !listed.contains_key(n) && p.known < asked);
        let left: Vec<u64> = left.map(|(n, _)| *n).collect();
        // Where the first is the first still, whoever came and went behind it was not.
        let first = self.there.first_key_value().map(|(n, _)| *n);
        let stays = first.is_some_and(|n| !left.contains(&n));
        for number in left {
            self.leave(number);
        }
        for (number, owner) in &listed {
            self.take(*number, owner, not_before, now);
        }
        let newest = self.there.keys().max().copied().unwrap_or(0);
        let unseen = self.next.map_or(newest..newest, |next| next..newest);
        let unseen: Vec<u64> = unseen
            .filter(|n| !self.there.contains_key(n) && !self.gone.contains(n))
            .collect();
        for number in &unseen {
            self.leave(*number);
        }
        if unseen.is_empty() || stays {
            return Vec::new();
        }
        vec![Tell::Missed(unseen.len() as u64)]
    }

    /// What there is to tell, if another one is the first now.
    fn turn(&mut self) -> Vec<Tell> {
        let first = self.there.first_key_value();
        let now = first.map(|(number, place)| (*number, place.not_before));
        let owner = first.map(|(_, place)| place.owner.clone());
        if now.map(|n| n.0) == self.head.map(|h| h.0) {
            return Vec::new();
        }
        let gone = self.head.map(|(_, taken)| Tell::Gone(taken));
        self.head = now;
        gone.into_iter().chain(owner.map(Tell::Set)).collect()
    }
}

async fn within<T>(call: impl Future<Output = Result<T, ZkError>>) -> Result<T, ZkError> {
    match tokio::time::timeout(ANSWER, call).await {
        Ok(answer) => answer,
        Err(_) => Err(ZkError::Unknown(crate::resp::Break::Reset)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(all: &[(u64, &str)]) -> BTreeMap<u64, String> {
        all.iter().map(|(n, who)| (*n, (*who).to_owned())).collect()
    }

    /// Of `a`, first at 0, known at 10; `b` behind it.
    fn two() -> Queue {
        let mut queue = Queue::default();
        queue.take(0, "a", 5, 10);
        queue.take(1, "b", 6, 11);
        assert_eq!(queue.turn(), [Tell::Set("a".to_owned())]);
        queue
    }

    #[test]
    fn who_comes_first_has_the_lock_and_the_next_after_it() {
        let mut queue = two();
        queue.leave(1);
        assert!(queue.turn().is_empty(), "a try that was given up");
        queue.take(2, "c", 7, 12);
        queue.leave(0);
        assert_eq!(queue.turn(), [Tell::Gone(5), Tell::Set("c".to_owned())]);
        // Another server tells the same, late.
        queue.take(0, "a", 5, 13);
        queue.leave(1);
        assert!(queue.turn().is_empty());
    }

    #[test]
    fn a_list_tells_who_is_gone_but_not_of_whom_it_cannot_know() {
        let mut queue = two();
        let old = (11, 12);
        assert!(queue.become_(Some(&list(&[(1, "b")])), 8, old).is_empty());
        assert_eq!(queue.turn(), [Tell::Gone(5), Tell::Set("b".to_owned())]);
        // It was asked before the second was known, so that one may have come after the list.
        assert!(queue.become_(None, 8, old).is_empty());
        assert!(queue.turn().is_empty());
        assert!(queue.become_(None, 8, (12, 13)).is_empty());
        assert_eq!(queue.turn(), [Tell::Gone(6)]);
    }

    #[test]
    fn whoever_came_and_went_unseen_is_missed_where_it_may_have_been_the_first() {
        let mut queue = two();
        let behind = list(&[(0, "a"), (1, "b"), (4, "e")]);
        assert!(queue.become_(Some(&behind), 8, (20, 21)).is_empty());
        let alone = list(&[(6, "g")]);
        let missed = queue.become_(Some(&alone), 8, (30, 31));
        assert_eq!(missed, [Tell::Missed(1)]);
        assert_eq!(queue.turn(), [Tell::Gone(5), Tell::Set("g".to_owned())]);
        assert!(
            queue.become_(Some(&alone), 8, (40, 41)).is_empty(),
            "told once"
        );
    }
}
