//! One worker: acquire, read, work, write, release, again and again.
//!
//! Owns the critical section as the driver plays it, and the operations' events. Must not know faults or checking:
//! it tells the board each operation, and waits there while a fault that it triggered is injected.
pub mod script;
pub mod step;

use crate::client::{Answer, ClientProcess, Failure, Reply, Request};
use crate::record::Sink;
use crate::run::board::Seen;
use crate::run::clients::Slot;
use crate::run::shared::Shared;
use fencepost_checker::{Event, EventType, Process, Value};
use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;

/// A worker and what it needs. `process` is Jepsen's logical id: a new one after each indefinite outcome.
pub struct Worker {
    shared: Rc<Shared>,
    slot: Rc<Slot>,
    number: u32,
    key: String,
    process: u64,
    random: Xoshiro256PlusPlus,
}

struct Grant {
    token: Option<u64>,
}

/// What an operation's completion says beside its type.
struct Completion<'a> {
    f: &'a str,
    value: Value<'a>,
}

impl Worker {
    /// Worker `number` of the client in `slot`, on `key`.
    pub fn new(
        shared: Rc<Shared>,
        slot: Rc<Slot>,
        number: u32,
        key: String,
        random: Xoshiro256PlusPlus,
    ) -> Self {
        let process = shared.new_process();
        slot.logical.borrow_mut().insert(number, process);
        Self {
            shared,
            slot,
            number,
            key,
            process,
            random,
        }
    }

    /// Works until the run says stop; then finishes the section that it is in.
    pub async fn run(mut self) {
        let shared = self.shared.clone();
        while !shared.stopping() {
            let Some(client) = self.slot.alive() else {
                tokio::select! { () = self.slot.born() => continue, () = shared.stopped() => return }
            };
            let intended = shared.arrivals.next();
            if let Some(at) = intended {
                let at = tokio::time::Instant::from_std(shared.clock.at(at));
                tokio::select! { () = tokio::time::sleep_until(at) => {}, () = shared.stopped() => return }
            }
            if let Some(grant) = self.acquire(&client, intended).await {
                shared.grants.set(shared.grants.get() + 1);
                self.section(&client, grant).await;
            }
            if !shared.plan.load.think.is_zero() {
                tokio::time::sleep(shared.plan.load.think).await;
            }
        }
    }

    /// Tries until granted; none when the run stops or the client dies.
    async fn acquire(&mut self, client: &ClientProcess, intended: Option<u64>) -> Option<Grant> {
        let shared = self.shared.clone();
        let plan = &shared.plan.lock;
        let mut intended = intended;
        while !shared.stopping() && client.alive() {
            self.invoke(
                "acquire",
                Value {
                    intended: intended.take(),
                    wait_ms: Some(0),
                    ..Value::default()
                },
            )
            .await;
            let answer = self
                .ask_for_lock(client, Duration::ZERO, plan.timeout)
                .await;
            let took = answer.took_ms;
            match answer.result {
                Ok(Reply::Granted {
                    owner,
                    validity_ms,
                    token,
                }) => return Some(self.granted(owner, validity_ms, token, took).await),
                Ok(_) => {
                    self.failed(
                        "acquire",
                        &Failure {
                            definite: false,
                            code: "bad-answer".into(),
                        },
                        took,
                    )
                    .await;
                }
                Err(failure) => self.failed("acquire", &failure, took).await,
            }
            let pause = plan.retry.mul_f64(self.random.random_range(0.5..=1.0));
            tokio::select! { () = tokio::time::sleep(pause) => {}, () = shared.stopped() => {} }
        }
        shared.board.stopped_waiting(&self.slot.name, self.number);
        None
    }

    async fn ask_for_lock(
        &self,
        client: &ClientProcess,
        wait: Duration,
        timeout: Duration,
    ) -> Answer {
        if let Some(grants) = &self.shared.control
            && !grants.take(&self.key, &self.slot.name, self.number)
        {
            let held = Failure {
                definite: true,
                code: "held".into(),
            };
            return Answer {
                ret: self.shared.clock.now(),
                took_ms: None,
                result: Err(held),
            };
        }
        let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        let request = Request::Acquire {
            worker: self.number,
            key: self.key.clone(),
            wait_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
            timeout_ms,
        };
        client.request(request, timeout).await
    }

    /// The critical section, from the grant to the release.
    async fn section(&mut self, client: &ClientProcess, grant: Grant) {
        if let Some(version) = self.read(&grant).await
            && self.work(client).await
        {
            self.write(client, &grant, version).await;
        }
        if client.alive() {
            self.release(client).await;
        } else {
            self.shared.board.died(&self.slot.name);
        }
    }

    async fn read(&mut self, grant: &Grant) -> Option<u64> {
        let outcome = self.shared.resource.read(&self.key, grant.token);
        let value = Value {
            token: grant.token,
            version: outcome.ok(),
            ..Value::default()
        };
        let (kind, error) = if outcome.is_ok() {
            (EventType::Ok, None)
        } else {
            (EventType::Fail, Some("stale-token"))
        };
        self.complete(kind, Completion { f: "read", value }, error)
            .await;
        outcome.ok()
    }

    /// Spends the time of the critical section in the client; false if it did not come back. Where there is none to
    /// spend, no work is asked for, and none is recorded.
    async fn work(&mut self, client: &ClientProcess) -> bool {
        let shared = self.shared.clone();
        let slow = shared.board.take_slow(&self.slot.name, self.number);
        let length = slow.as_ref().map_or_else(
            || shared.plan.load.work.draw(&mut self.random),
            |(work, _)| *work,
        );
        let ms = length.as_secs_f64() * 1e3;
        if length.is_zero() {
            return true;
        }
        self.invoke(
            "work",
            Value {
                ms: Some(ms),
                ..Value::default()
            },
        )
        .await;
        let began = shared.clock.now();
        let request = Request::Work {
            worker: self.number,
            ms: ms.round() as u64,
        };
        let done = Notify::new();
        let over = Cell::new(false);
        let work = async {
            let answer = client.request(request, length + shared.patience).await;
            over.set(true);
            done.notify_one();
            answer
        };
        let renew = self.renew(client, &done, &over);
        let (answer, ()) = futures_util::future::join(work, renew).await;
        if let Some((_, tell)) = slow {
            // Nobody listens once the fault has ended: then there is nothing to prove any more.
            let _ = tell.send(Duration::from_nanos(shared.clock.now() - began));
        }
        match answer.result {
            Ok(_) => {
                self.complete(
                    EventType::Ok,
                    Completion {
                        f: "work",
                        value: Value::default(),
                    },
                    None,
                )
                .await;
                true
            }
            Err(failure) => {
                self.failed(
                    "work",
                    &Failure {
                        definite: false,
                        ..failure
                    },
                    None,
                )
                .await;
                false
            }
        }
    }

    /// Sends `extend` every TTL/3 until the work is over, one at a time; a paused client answers late and so does
    /// not renew.
    async fn renew(&self, client: &ClientProcess, done: &Notify, over: &Cell<bool>) {
        let plan = &self.shared.plan.lock;
        if !plan.renew {
            return;
        }
        let ttl_ms = u64::try_from(plan.ttl.as_millis()).unwrap_or(u64::MAX);
        while !over.get() {
            tokio::select! { () = tokio::time::sleep(plan.ttl / 3) => {}, () = done.notified() => return }
            self.invoke(
                "extend",
                Value {
                    ttl_ms: Some(ttl_ms),
                    ..Value::default()
                },
            )
            .await;
            let request = Request::Extend {
                worker: self.number,
                key: self.key.clone(),
                ttl_ms,
            };
            let answer = client.request(request, plan.timeout).await;
            match answer.result {
                Ok(reply) => {
                    let validity_ms = if let Reply::Done { validity_ms } = reply {
                        validity_ms
                    } else {
                        None
                    };
                    let value = Value {
                        validity_ms,
                        ms: answer.took_ms,
                        ..Value::default()
                    };
                    self.complete(EventType::Ok, Completion { f: "extend", value }, None)
                        .await;
                }
                Err(failure) => {
                    let kind = if failure.definite {
                        EventType::Fail
                    } else {
                        EventType::Info
                    };
                    self.complete(
                        kind,
                        Completion {
                            f: "extend",
                            value: called(answer.took_ms),
                        },
                        Some(&failure.code),
                    )
                    .await;
                }
            }
        }
    }

    async fn write(&mut self, client: &ClientProcess, grant: &Grant, read: u64) {
        let shared = self.shared.clone();
        let value = Value {
            token: grant.token,
            version: Some(read + 1),
            ..Value::default()
        };
        if shared.plan.lock.respect_validity && !self.still_held(client).await {
            self.complete(
                EventType::Fail,
                Completion { f: "write", value },
                Some("lease-over"),
            )
            .await;
            return;
        }
        if let Some(delay) = shared.board.write_delay(&self.slot.name) {
            let sent = shared.clock.now();
            tokio::time::sleep(delay).await;
            shared.board.was_delayed(
                &self.slot.name,
                Duration::from_nanos(shared.clock.now() - sent),
            );
        }
        match shared.resource.write(&self.key, read + 1, grant.token) {
            Ok(()) => {
                self.complete(EventType::Ok, Completion { f: "write", value }, None)
                    .await;
            }
            Err(_) => {
                self.complete(
                    EventType::Fail,
                    Completion { f: "write", value },
                    Some("stale-token"),
                )
                .await;
            }
        }
    }

    /// What the library believes of its own lease; no answer counts as no.
    async fn still_held(&self, client: &ClientProcess) -> bool {
        let request = Request::Held {
            worker: self.number,
            key: self.key.clone(),
        };
        matches!(
            client
                .request(request, self.shared.plan.lock.timeout)
                .await
                .result,
            Ok(Reply::Held(true))
        )
    }

    async fn release(&mut self, client: &ClientProcess) {
        let shared = self.shared.clone();
        self.invoke("release", Value::default()).await;
        let request = Request::Release {
            worker: self.number,
            key: self.key.clone(),
        };
        let answer = client.request(request, shared.plan.lock.timeout).await;
        let took = answer.took_ms;
        match answer.result {
            Ok(_) => {
                if let Some(grants) = &shared.control {
                    grants.free(&self.key, &self.slot.name, self.number);
                }
                self.complete(
                    EventType::Ok,
                    Completion {
                        f: "release",
                        value: called(took),
                    },
                    None,
                )
                .await;
            }
            Err(failure) => self.failed("release", &failure, took).await,
        }
    }

    async fn failed(&mut self, f: &str, failure: &Failure, took_ms: Option<f64>) {
        if failure.definite {
            self.complete(
                EventType::Fail,
                Completion {
                    f,
                    value: called(took_ms),
                },
                Some(&failure.code),
            )
            .await;
            if f == "acquire"
                && failure.code != "held"
                && let Some(grants) = &self.shared.control
            {
                grants.free(&self.key, &self.slot.name, self.number);
            }
            return;
        }
        self.complete(
            EventType::Info,
            Completion {
                f,
                value: called(took_ms),
            },
            Some(&failure.code),
        )
        .await;
        self.process = self.shared.new_process();
        self.slot
            .logical
            .borrow_mut()
            .insert(self.number, self.process);
    }

    /// Records a grant.
    async fn granted(
        &self,
        owner: Option<String>,
        validity_ms: Option<f64>,
        token: Option<u64>,
        took_ms: Option<f64>,
    ) -> Grant {
        let value = Value {
            owner: owner.map(Into::into),
            validity_ms,
            token,
            ms: took_ms,
            ..Value::default()
        };
        let f = "acquire";
        let done = Completion { f, value };
        self.complete(EventType::Ok, done, None).await;
        Grant { token }
    }

    async fn invoke(&self, f: &str, value: Value<'_>) {
        self.complete(EventType::Invoke, Completion { f, value }, None)
            .await;
    }

    /// Records one event and tells the board.
    async fn complete(&self, kind: EventType, completion: Completion<'_>, error: Option<&str>) {
        let Completion { f, value } = completion;
        let owner = value.owner.clone();
        self.shared.recorder.emit(Event {
            index: 0,
            time: self.shared.clock.now(),
            process: Process::Id(self.process),
            client: Some(self.slot.name.as_str().into()),
            worker: Some(self.number),
            kind,
            f: f.into(),
            key: Some(self.key.as_str().into()),
            value,
            error: error.map(Into::into),
        });
        if kind != EventType::Invoke {
            self.shared.operations.set(self.shared.operations.get() + 1);
        }
        let result = match kind {
            EventType::Invoke => "invoke",
            EventType::Ok => "ok",
            EventType::Fail => "fail",
            EventType::Info => "info",
        };
        let (client, worker, key) = (self.slot.name.as_str(), self.number, self.key.as_str());
        self.shared
            .board
            .tell(Seen {
                op: f,
                result,
                client,
                worker,
                key,
                owner: owner.as_deref(),
            })
            .await;
    }
}

/// The value of an answer that tells no more than how long the call took.
fn called(took_ms: Option<f64>) -> Value<'static> {
    Value {
        ms: took_ms,
        ..Value::default()
    }
}
