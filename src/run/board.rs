//! The board: who holds, who waits, and the one place where trigger rules are matched.
//!
//! Owns the live picture that roles (`holder`, `waiter`) and triggers are resolved against. Must not know how faults
//! are made. Workers tell it each operation as they record it; the nemesis waits on it.
use crate::plan::Trigger;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::sync::{oneshot, watch};

/// One operation as the driver has just recorded it.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// `acquire`, `release`, `extend`, `work`, `read` or `write`.
    pub op: &'a str,
    /// `invoke`, `ok`, `fail` or `info`.
    pub result: &'a str,
    /// The client.
    pub client: &'a str,
    /// Its worker.
    pub worker: u32,
    /// The lock key.
    pub key: &'a str,
    /// The owner value, where it is known.
    pub owner: Option<&'a str>,
}

/// A hold as the driver knows it: an acquire that said ok and whose release has not been answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// The client.
    pub client: String,
    /// Its worker.
    pub worker: u32,
    /// The lock key.
    pub key: String,
    /// The owner value, where the library tells it.
    pub owner: Option<String>,
}

/// A trigger that matched.
#[derive(Debug)]
pub struct Hit {
    /// The hold or, for an operation that holds nothing, its worker and key.
    pub hold: Hold,
    /// Lets the worker go on; it waits at the operation until this is sent or dropped.
    pub gate: oneshot::Sender<()>,
}

/// Gets the length or delay that the driver measured.
pub type Measured = oneshot::Sender<Duration>;

/// The work time asked of a section, and who is told how long it took.
pub type Slow = (Duration, Measured);

/// To whom a trigger's `client` refers when it is `holder` or `other`: the client that the fault hit.
#[derive(Debug, Clone, Default)]
pub struct Scope(pub Option<String>);

struct Rule {
    trigger: Trigger,
    scope: Scope,
    seen: u32,
    tell: oneshot::Sender<Hit>,
}

/// See the module's page.
#[derive(Default)]
pub struct Board {
    holds: RefCell<Vec<Hold>>,
    waiting: RefCell<BTreeSet<(String, u32)>>,
    /// Those whose release is on its way: the server may have freed the lock before the answer is read.
    leaving: RefCell<BTreeSet<(String, u32)>>,
    rules: RefCell<Vec<Rule>>,
    bitten: RefCell<BTreeSet<String>>,
    over: RefCell<BTreeSet<String>>,
    /// Moves on with each fault that bit or is over.
    moved: watch::Sender<u64>,
    bites: Cell<u64>,
    doubles: Cell<u64>,
    slow: RefCell<BTreeMap<(String, u32), Slow>>,
    delayed: RefCell<BTreeMap<String, (Duration, Option<Measured>)>>,
}

impl Board {
    /// Adds a rule; the receiver gets the first match. Rules are counted from the moment they are added, and those
    /// with an `after` from the moment that fault has bitten.
    pub fn watch(&self, trigger: &Trigger, scope: Scope) -> oneshot::Receiver<Hit> {
        let (tell, told) = oneshot::channel();
        self.rules.borrow_mut().push(Rule {
            trigger: trigger.clone(),
            scope,
            seen: 0,
            tell,
        });
        told
    }

    /// Says that a fault has bitten, which arms the rules that stand `after` it.
    pub fn bit(&self, fault: &str) {
        self.bitten.borrow_mut().insert(fault.to_owned());
        self.moved.send_modify(|n| *n += 1);
        self.bites.set(self.bites.get() + 1);
    }

    /// How often a lock was granted while another worker had not let go of it: a first sign, before the check.
    pub fn doubles(&self) -> u64 {
        self.doubles.get()
    }

    /// How often a fault has bitten.
    pub fn bites(&self) -> u64 {
        self.bites.get()
    }

    /// Takes in one operation, and waits while a fault that it triggered is being injected.
    pub async fn tell(&self, seen: Seen<'_>) {
        self.update(seen);
        for gate in self.matches(seen) {
            // An error means that the nemesis let go without a word: the worker goes on all the same.
            let _ = gate.await;
        }
    }

    fn update(&self, seen: Seen<'_>) {
        let me = || (seen.client.to_owned(), seen.worker);
        match (seen.op, seen.result) {
            ("acquire", "invoke") => {
                self.waiting.borrow_mut().insert(me());
            }
            ("acquire", "ok") => {
                self.waiting.borrow_mut().remove(&me());
                let mut holds = self.holds.borrow_mut();
                let leaving = self.leaving.borrow();
                let stays = |h: &Hold| !leaving.contains(&(h.client.clone(), h.worker));
                if holds.iter().any(|h| h.key == seen.key && stays(h)) {
                    self.doubles.set(self.doubles.get() + 1);
                }
                holds.push(hold(seen));
            }
            ("release", "invoke") => {
                self.leaving.borrow_mut().insert(me());
            }
            ("release", "ok" | "fail" | "info") => {
                self.leaving.borrow_mut().remove(&me());
                self.holds.borrow_mut().retain(|h| {
                    (&*h.client, h.worker, &*h.key) != (seen.client, seen.worker, seen.key)
                });
            }
            _ => {}
        }
    }

    fn matches(&self, seen: Seen<'_>) -> Vec<oneshot::Receiver<()>> {
        let bitten = self.bitten.borrow();
        let mut rules = self.rules.borrow_mut();
        let mut gates = Vec::new();
        let mut at = 0;
        while at < rules.len() {
            let rule = &mut rules[at];
            if rule.tell.is_closed() {
                rules.swap_remove(at);
                continue;
            }
            if rule.armed(&bitten) && rule.fits(seen) {
                rule.seen += 1;
                if rule.seen >= rule.trigger.nth {
                    let rule = rules.swap_remove(at);
                    let (gate, wait) = oneshot::channel();
                    if rule
                        .tell
                        .send(Hit {
                            hold: hold(seen),
                            gate,
                        })
                        .is_ok()
                    {
                        gates.push(wait);
                    }
                    continue;
                }
            }
            at += 1;
        }
        gates
    }

    /// Forgets a dead client: it holds and waits for nothing that it will ever act on.
    pub fn died(&self, client: &str) {
        self.holds.borrow_mut().retain(|h| h.client != client);
        self.waiting.borrow_mut().retain(|(c, _)| c != client);
        self.leaving.borrow_mut().retain(|(c, _)| c != client);
    }

    /// A worker gave up waiting.
    pub fn stopped_waiting(&self, client: &str, worker: u32) {
        self.waiting
            .borrow_mut()
            .remove(&(client.to_owned(), worker));
    }

    /// Says that a fault is over.
    pub fn over(&self, fault: &str) {
        self.over.borrow_mut().insert(fault.to_owned());
        self.moved.send_modify(|n| *n += 1);
    }

    /// Waits until a fault has bitten.
    pub async fn until_bitten(&self, fault: &str) {
        self.until(|| self.has_bitten(fault)).await;
    }

    /// Waits until a fault is over.
    pub async fn until_over(&self, fault: &str) {
        self.until(|| self.over.borrow().contains(fault)).await;
    }

    async fn until(&self, so: impl Fn() -> bool) {
        let mut moved = self.moved.subscribe();
        // The sender lives in self, so the channel cannot close before.
        let _ = moved.wait_for(|_| so()).await;
    }

    /// Whether a fault has bitten.
    pub fn has_bitten(&self, fault: &str) -> bool {
        self.bitten.borrow().contains(fault)
    }

    /// The last hold of this client that is not yet released.
    pub fn hold_of(&self, client: &str) -> Option<Hold> {
        let holds = self.holds.borrow();
        holds.iter().rev().find(|h| h.client == client).cloned()
    }

    /// Whether this is held still, and its holder has not begun to release it.
    pub fn keeps(&self, hold: &Hold) -> bool {
        let me = (hold.client.clone(), hold.worker);
        self.holds.borrow().contains(hold) && !self.leaving.borrow().contains(&me)
    }

    /// Whether this client waits for a lock.
    pub fn waits(&self, client: &str) -> bool {
        self.waiting.borrow().iter().any(|(c, _)| c == client)
    }

    /// The last hold that is not yet released.
    pub fn holder(&self) -> Option<Hold> {
        self.holds.borrow().last().cloned()
    }

    /// A client that waits for a lock; the first by name.
    pub fn waiter(&self) -> Option<String> {
        self.waiting
            .borrow()
            .first()
            .map(|(client, _)| client.clone())
    }

    /// Makes this worker's next critical section take `work`; the receiver gets its measured length.
    pub fn slow_down(
        &self,
        client: &str,
        worker: u32,
        work: Duration,
    ) -> oneshot::Receiver<Duration> {
        let (tell, told) = oneshot::channel();
        self.slow
            .borrow_mut()
            .insert((client.to_owned(), worker), (work, tell));
        told
    }

    /// What [`Board::slow_down`] asked of this worker's section, once.
    pub fn take_slow(&self, client: &str, worker: u32) -> Option<Slow> {
        self.slow.borrow_mut().remove(&(client.to_owned(), worker))
    }

    /// Makes this client's writes reach the resource late by `delay`, until [`Board::hurry`]; the receiver gets the
    /// measured delay of the first one.
    pub fn delay_writes(&self, client: &str, delay: Duration) -> oneshot::Receiver<Duration> {
        let (tell, told) = oneshot::channel();
        self.delayed
            .borrow_mut()
            .insert(client.to_owned(), (delay, Some(tell)));
        told
    }

    /// Ends [`Board::delay_writes`].
    pub fn hurry(&self, client: &str) {
        self.delayed.borrow_mut().remove(client);
    }

    /// How late this client's write is to be.
    pub fn write_delay(&self, client: &str) -> Option<Duration> {
        self.delayed.borrow().get(client).map(|(delay, _)| *delay)
    }

    /// Reports the measured delay of a write that [`Board::write_delay`] delayed.
    pub fn was_delayed(&self, client: &str, by: Duration) {
        if let Some((_, tell)) = self.delayed.borrow_mut().get_mut(client)
            && let Some(tell) = tell.take()
        {
            // Nobody listens once the fault has ended: then there is nothing to prove any more.
            let _ = tell.send(by);
        }
    }
}

impl Rule {
    fn armed(&self, bitten: &BTreeSet<String>) -> bool {
        self.trigger
            .after
            .as_ref()
            .is_none_or(|fault| bitten.contains(fault))
    }

    fn fits(&self, seen: Seen<'_>) -> bool {
        if self.trigger.op != seen.op || self.trigger.result != seen.result {
            return false;
        }
        match self.trigger.client.as_deref() {
            None => true,
            Some("holder") => self.scope.0.as_deref() == Some(seen.client),
            Some("other") => self.scope.0.as_deref() != Some(seen.client),
            Some(client) => client == seen.client,
        }
    }
}

fn hold(seen: Seen<'_>) -> Hold {
    Hold {
        client: seen.client.to_owned(),
        worker: seen.worker,
        key: seen.key.to_owned(),
        owner: seen.owner.map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::{Board, Scope, Seen};
    use crate::plan::Trigger;

    fn acquire<'a>(result: &'a str, client: &'a str) -> Seen<'a> {
        Seen {
            op: "acquire",
            result,
            client,
            worker: 0,
            key: "k",
            owner: Some("o"),
        }
    }

    fn trigger(client: Option<&str>, nth: u32, after: Option<&str>) -> Trigger {
        Trigger {
            op: "acquire".into(),
            result: "ok".into(),
            client: client.map(str::to_owned),
            nth,
            after: after.map(str::to_owned),
            message: None,
        }
    }

    #[tokio::test]
    async fn the_nth_match_fires_once_and_counts_from_the_fault_it_stands_after() {
        let board = Board::default();
        let mut told = board.watch(&trigger(None, 2, Some("cut")), Scope::default());
        for _ in 0..3 {
            board.tell(acquire("ok", "c1")).await;
        }
        assert!(told.try_recv().is_err(), "not armed before the fault bit");
        board.bit("cut");
        board.tell(acquire("ok", "c1")).await;
        assert!(told.try_recv().is_err(), "first match after the fault");
        let worker = board.tell(acquire("ok", "c2"));
        tokio::pin!(worker);
        assert!(
            futures_util::poll!(worker.as_mut()).is_pending(),
            "the worker waits at the gate"
        );
        let hit = told.try_recv().expect("second match");
        assert_eq!(hit.hold.client, "c2");
        drop(hit.gate);
        worker.await;
    }

    #[tokio::test]
    async fn other_is_anybody_but_the_client_that_was_hit() {
        let board = Board::default();
        let mut told = board.watch(&trigger(Some("other"), 1, None), Scope(Some("c1".into())));
        board.tell(acquire("ok", "c1")).await;
        assert!(told.try_recv().is_err());
        let worker = board.tell(acquire("ok", "c2"));
        tokio::pin!(worker);
        let _ = futures_util::poll!(worker.as_mut());
        assert!(told.try_recv().is_ok());
    }

    #[tokio::test]
    async fn the_holder_is_the_last_grant_that_was_not_released() {
        let board = Board::default();
        board.tell(acquire("invoke", "c2")).await;
        board.tell(acquire("ok", "c1")).await;
        assert_eq!(board.holder().expect("holds").client, "c1");
        assert_eq!(board.waiter().as_deref(), Some("c2"));
        board.tell(acquire("ok", "c2")).await;
        assert_eq!(board.holder().expect("holds").client, "c2");
        board
            .tell(Seen {
                op: "release",
                result: "ok",
                ..acquire("", "c2")
            })
            .await;
        assert_eq!(board.holder().expect("holds").client, "c1");
        board.died("c1");
        assert_eq!(board.holder(), None);
    }
}
