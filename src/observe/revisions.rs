//! What a cluster of etcd members agreed on: every change of a lock key, in the order of revisions.
//!
//! Owns the [`Follower`]. Must not know locks, faults or checking. Its events go to the run's [`Sink`], about one node,
//! `etcd`: the members answer as one.
//!
//! # Why nothing is missed
//! A watch is told every change from a revision on, by whichever member serves it, as long as the history is not compacted,
//! which these servers never do by themselves. So a watch that ended, or that is behind, is opened again at the next
//! revision, at another member.
//!
//! # Why the times are sound
//! Every [`PING_EVERY`] a quorum is asked for its revision. A change with a greater revision than the answer was made
//! after that question was sent: the last such question is its `not_before`.
//!
//! # Who holds a lock
//! Where clients queue up ([`place`]) only who holds the lock is told, not who waits.
//!
//! # What is not seen
//! * A key that goes looks the same whether its lease was ended by a client or by time. A change that comes sooner than any
//!   lease could have ended is a `del`; a later one is `expired`, which may have been a release.
//! * Keep-alives are no changes: whether a lease was renewed is not seen.
use super::{PING_EVERY, SAMPLE_DEADLINE, emit};
use crate::etcd::{Change, Entry, EtcdError, Member, Watch, place};
use crate::record::{Clock, Sink};
use fencepost_checker::Value;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// The name of the one node.
const NODE: &str = "etcd";
/// Bound on one question to one member; then the next is asked.
const ANSWER: Duration = Duration::from_millis(200);
/// A watch that tells nothing for so long, while the revision grew, is opened anew.
const BEHIND: Duration = Duration::from_millis(300);
/// Answers of different revisions that are remembered, to bound changes from below.
const ANSWERS: usize = 4096;

/// Gives the members' addresses, which may change when one is started again.
pub(super) type Addresses = Rc<dyn Fn() -> Vec<SocketAddr>>;

/// Follows the cluster until it is dropped.
pub(super) struct Follower {
    shared: Rc<Shared>,
    tasks: Vec<JoinHandle<()>>,
}

struct Shared {
    members: Addresses,
    prefix: String,
    /// No lease ends sooner than this after its key was created.
    lease: Duration,
    clock: Clock,
    sink: Rc<dyn Sink>,
    /// The member that answered last.
    member: Cell<usize>,
    /// What a quorum had answered: each revision, and when it was asked for the last time.
    answers: RefCell<VecDeque<(i64, u64)>>,
    /// The revision of the last change that was told.
    told: Cell<i64>,
    /// When that was, or when it was last known that there is none since.
    told_at: Cell<u64>,
    /// Keys that are there, by their name without the prefix.
    there: RefCell<Places>,
    /// All locks that ever were.
    known: RefCell<BTreeSet<String>>,
}

/// The keys of all locks.
#[derive(Debug, Default)]
struct Places(BTreeMap<String, Place>);

/// What a key is to a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    lock: String,
    owner: String,
    /// The revision that wrote it, and when that was at the earliest.
    revision: i64,
    not_before: u64,
}

impl Place {
    fn new(name: &str, value: &str, revision: i64, not_before: u64) -> Self {
        let (lock, owner) = place(name, value);
        Self {
            lock: lock.to_owned(),
            owner: owner.to_owned(),
            revision,
            not_before,
        }
    }
}

impl Places {
    /// Whose lock it is.
    fn holder(&self, lock: &str) -> Option<&Place> {
        let all = self.0.values().filter(|p| p.lock == lock);
        all.min_by_key(|p| p.revision)
    }

    /// A key was written; its place, if it is the holder's.
    fn write(&mut self, name: &str, place: Place) -> Option<Place> {
        self.0.insert(name.to_owned(), place.clone());
        (self.holder(&place.lock) == Some(&place)).then_some(place)
    }

    /// A key is gone; its place, if it was the holder's, and the next one's.
    fn remove(&mut self, name: &str) -> Option<(Place, Option<Place>)> {
        let place = self.0.remove(name)?;
        let next = self.holder(&place.lock).cloned();
        let held = next.as_ref().is_none_or(|n| place.revision < n.revision);
        held.then_some((place, next))
    }
}

impl Follower {
    /// Begins to follow. Returns once a quorum has answered, so that nothing from now on is missed; else why not.
    pub(super) async fn start(
        members: Addresses,
        prefix: String,
        lease: Duration,
        (clock, sink): (Clock, Rc<dyn Sink>),
        deadline: Duration,
    ) -> Result<Self, EtcdError> {
        let shared = Rc::new(Shared {
            members,
            prefix,
            lease,
            clock,
            sink,
            member: Cell::new(0),
            answers: RefCell::default(),
            told: Cell::new(0),
            told_at: Cell::new(0),
            there: RefCell::default(),
            known: RefCell::default(),
        });
        let end = tokio::time::Instant::now() + deadline;
        loop {
            match shared.ask().await {
                Ok((revision, _)) => {
                    shared.told.set(revision);
                    break;
                }
                Err(why) if tokio::time::Instant::now() >= end => return Err(why),
                Err(_) => tokio::time::sleep(PING_EVERY).await,
            }
        }
        let (ask, follow) = (shared.clone(), shared.clone());
        let tasks = vec![
            tokio::task::spawn_local(async move { ask.keep_asking().await }),
            tokio::task::spawn_local(async move { follow.follow().await }),
        ];
        Ok(Self { shared, tasks })
    }

    /// Final reads: one `value` or `absent` for each lock key known, once all changes up to then were told; a `down` with
    /// the reason where that cannot be had.
    pub(super) async fn sample(&self) {
        let end = tokio::time::Instant::now() + SAMPLE_DEADLINE;
        loop {
            let asked = self.shared.clock.now();
            let answer = self.shared.ask().await;
            if let Ok((_, entries)) = &answer
                && self.shared.agrees(entries)
            {
                self.shared.report(asked);
                return;
            }
            if tokio::time::Instant::now() >= end {
                let why = match answer {
                    Ok(_) => "changes were missed".to_owned(),
                    Err(e) => format!("no quorum answered the final reads: {e}"),
                };
                self.shared.say(
                    "down",
                    None,
                    Value {
                        not_before: Some(self.shared.told_at.get()),
                        proof: Some(Cow::Owned(why)),
                        ..Value::default()
                    },
                );
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
    /// What a quorum has; remembered. The next member is asked next where one does not answer.
    async fn ask(&self) -> Result<(i64, Vec<Entry>), EtcdError> {
        let all = (self.members)();
        let at = all[self.member.get() % all.len()];
        let asked = self.clock.now();
        let member = Member::new(at, ANSWER);
        let answer = match tokio::time::timeout(ANSWER, member.list(&self.prefix)).await {
            Ok(answer) => answer,
            Err(_) => Err(EtcdError::Unknown(crate::resp::Break::Reset)),
        };
        let Ok((revision, _)) = &answer else {
            self.member.set(self.member.get() + 1);
            return answer;
        };
        let mut answers = self.answers.borrow_mut();
        match answers.back_mut() {
            Some(last) if last.0 == *revision => last.1 = asked,
            _ => answers.push_back((*revision, asked)),
        }
        if answers.len() > ANSWERS {
            answers.pop_front();
        }
        answer
    }

    async fn keep_asking(&self) {
        loop {
            tokio::time::sleep(PING_EVERY).await;
            // One that fails bounds nothing; the next is sent to another member.
            let _ = self.ask().await;
        }
    }

    async fn follow(&self) {
        loop {
            let at = {
                let all = (self.members)();
                all[self.member.get() % all.len()]
            };
            let member = Member::new(at, ANSWER);
            let open = member.watch(&self.prefix, self.told.get() + 1);
            if let Ok(Ok(watch)) = tokio::time::timeout(ANSWER, open).await {
                self.read(watch).await;
            }
            tokio::time::sleep(PING_EVERY).await;
        }
    }

    /// Tells what a watch tells, until it ends or falls behind.
    async fn read(&self, mut watch: Watch) {
        let mut since = self.latest();
        loop {
            match tokio::time::timeout(BEHIND, watch.next()).await {
                Ok(Ok(changes)) => {
                    for change in &changes {
                        self.tell(change);
                    }
                    since = self.latest();
                }
                Ok(Err(_)) => return,
                // Other keys make the revision grow, too; then this costs a connection.
                Err(_) if self.latest() > since => return,
                Err(_) => {}
            }
        }
    }

    fn latest(&self) -> i64 {
        self.answers.borrow().back().map_or(0, |a| a.0)
    }

    /// When the change of this revision was made at the earliest.
    fn not_before(&self, revision: i64) -> u64 {
        let answers = self.answers.borrow();
        let before = answers.iter().filter(|a| a.0 < revision).map(|a| a.1);
        before.max().unwrap_or(0)
    }

    fn tell(&self, change: &Change) {
        let Some(key) = change.key.strip_prefix(&self.prefix) else {
            return;
        };
        self.told.set(self.told.get().max(change.revision));
        let now = self.clock.now();
        self.told_at.set(now);
        let not_before = self.not_before(change.revision);
        let value = Value {
            not_before: Some(not_before),
            ..Value::default()
        };
        if let Some(written) = &change.value {
            let place = Place::new(key, written, change.revision, not_before);
            self.known.borrow_mut().insert(place.lock.clone());
            let holder = self.there.borrow_mut().write(key, place);
            if let Some(holder) = holder {
                self.say_holder("set", &holder, value);
            }
            return;
        }
        let Some((gone, next)) = self.there.borrow_mut().remove(key) else {
            return;
        };
        let f = if over(gone.not_before, now, self.lease) {
            "expired"
        } else {
            "del"
        };
        self.say(f, Some(&gone.lock), value.clone());
        if let Some(next) = next {
            self.say_holder("set", &next, value);
        }
    }

    fn agrees(&self, entries: &[Entry]) -> bool {
        let there = self.there.borrow();
        let names = entries.iter().map(|e| e.key.strip_prefix(&self.prefix));
        entries.len() == there.0.len() && names.flatten().all(|key| there.0.contains_key(key))
    }

    fn report(&self, asked: u64) {
        let there = self.there.borrow();
        for lock in &*self.known.borrow() {
            let value = Value {
                not_before: Some(asked),
                ..Value::default()
            };
            match there.holder(lock) {
                Some(holder) => self.say_holder("value", holder, value),
                None => self.say("absent", Some(lock), value),
            }
        }
    }

    fn say_holder(&self, f: &str, holder: &Place, value: Value<'_>) {
        let owner = Some(Cow::Borrowed(holder.owner.as_str()));
        self.say(f, Some(&holder.lock), Value { owner, ..value });
    }

    fn say(&self, f: &str, key: Option<&str>, value: Value<'_>) {
        emit(&*self.sink, self.clock, NODE, f, key, value);
    }
}

/// Whether a lease that began when its key was written, or before, may be over `now`.
pub(super) fn over(written: u64, now: u64, lease: Duration) -> bool {
    let lease = u64::try_from(lease.as_nanos()).unwrap_or(u64::MAX);
    now.saturating_sub(written) >= lease / 4 * 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_that_was_created_first_below_a_lock_holds_it() {
        let mut places = Places::default();
        let a = Place::new("lock:0/a1", "", 5, 50);
        let b = Place::new("lock:0/b2", "", 6, 60);
        assert_eq!((&*a.lock, &*a.owner), ("lock:0", "a1"));
        assert_eq!(places.write("lock:0/a1", a.clone()), Some(a.clone()));
        assert_eq!(places.write("lock:0/b2", b.clone()), None);
        assert_eq!(places.remove("lock:0/a1"), Some((a, Some(b.clone()))));
        let c = Place::new("lock:0/c3", "", 8, 80);
        assert_eq!(places.write("lock:0/c3", c), None);
        assert_eq!(places.remove("lock:0/c3"), None, "a try that was given up");
        assert_eq!(places.remove("lock:0/b2"), Some((b, None)));
        assert_eq!(places.remove("lock:0/b2"), None, "told once");
    }

    #[test]
    fn a_key_with_a_value_is_a_lock_of_its_own() {
        let mut places = Places::default();
        let one = Place::new("a/lock", "owner", 5, 50);
        assert_eq!((&*one.lock, &*one.owner), ("a/lock", "owner"));
        assert_eq!(places.write("a/lock", one.clone()), Some(one));
        let other = Place::new("a/lock", "other", 7, 70);
        assert_eq!(places.write("a/lock", other.clone()), Some(other));
    }

    #[test]
    fn what_goes_before_its_lease_can_be_over_was_deleted() {
        let second = 1_000_000_000;
        let lease = Duration::from_secs(2);
        assert!(!over(second, second, lease));
        assert!(!over(second, 2 * second, lease));
        assert!(over(second, 3 * second, lease));
        assert!(over(second, 9 * second, lease));
    }
}
