//! One operation of a worker on its own, as a step of a schedule asks for it.
//!
//! Owns what a step does and how its answer goes on record. Must not know the order of steps.
use super::{Completion, Grant, Worker};
use crate::client::{ClientProcess, Disturb, Failure, Reply, Request};
use crate::plan::Doing;
use crate::record::Sink;
use fencepost_checker::{EventType, Value};
use std::time::Duration;

/// What became of a step: `ok`, `fail` or `info`, and the code of the error table or what there is to add.
pub type Outcome = (&'static str, String);

/// A worker under a schedule, with what it has to remember between two steps.
pub struct Actor {
    worker: Worker,
    grant: Grant,
    version: u64,
}

impl Actor {
    /// A worker that does nothing by itself.
    pub fn new(worker: Worker) -> Self {
        Self {
            worker,
            grant: Grant { token: None },
            version: 0,
        }
    }

    /// Does one step and waits for the answer.
    pub async fn act(&mut self, doing: &Doing) -> Outcome {
        doing.key.clone_into(&mut self.worker.key);
        let Some(client) = self.worker.slot.alive() else {
            return ("info", "client-gone".to_owned());
        };
        match doing.op.as_str() {
            "acquire" => self.acquire(&client, doing.wait).await,
            "read" => match self.worker.read(&self.grant).await {
                Some(version) => {
                    self.version = version;
                    ("ok", String::new())
                }
                None => ("fail", "stale-token".to_owned()),
            },
            "write" => {
                let (grant, version) = (&self.grant, self.version);
                self.worker.write(&client, grant, version).await;
                ("ok", String::new())
            }
            _ => self.ask(&client, doing).await,
        }
    }

    async fn acquire(&mut self, client: &ClientProcess, wait: Duration) -> Outcome {
        let value = Value {
            wait_ms: Some(millis(wait)),
            ..Value::default()
        };
        self.worker.invoke("acquire", value).await;
        let timeout = wait + self.worker.shared.plan.lock.timeout;
        let answer = self.worker.ask_for_lock(client, wait, timeout).await;
        let took = answer.took_ms;
        match answer.result {
            Ok(Reply::Granted {
                owner,
                validity_ms,
                token,
            }) => {
                self.grant = self.worker.granted(owner, validity_ms, token, took).await;
                let shared = &self.worker.shared;
                shared.grants.set(shared.grants.get() + 1);
                ("ok", String::new())
            }
            Ok(_) => {
                let failure = Failure {
                    definite: false,
                    code: "bad-answer".into(),
                };
                self.failed("acquire", failure, took).await
            }
            Err(failure) => self.failed("acquire", failure, took).await,
        }
    }

    /// Release, extend, work: sent, and its answer recorded as it is.
    async fn ask(&mut self, client: &ClientProcess, doing: &Doing) -> Outcome {
        let (worker, key) = (self.worker.number, doing.key.clone());
        let shared = self.worker.shared.clone();
        let mut timeout = shared.plan.lock.timeout;
        let mut value = Value::default();
        let (f, request) = match doing.op.as_str() {
            "release" => ("release", Request::Release { worker, key }),
            "extend" => {
                let ttl_ms = millis(doing.ttl.unwrap_or(shared.plan.lock.ttl));
                value.ttl_ms = Some(ttl_ms);
                let request = Request::Extend {
                    worker,
                    key,
                    ttl_ms,
                };
                ("extend", request)
            }
            "work" => {
                let length = doing.length.unwrap_or_default();
                let ms = millis(length);
                timeout = length + shared.patience;
                value.ms = Some(ms as f64);
                ("work", Request::Work { worker, ms })
            }
            other => return ("info", format!("no operation {other}")),
        };
        self.worker.invoke(f, value).await;
        let answer = client.request(request, timeout).await;
        let took = answer.took_ms.filter(|_| f != "work");
        match answer.result {
            Ok(reply) => {
                let validity_ms = match reply {
                    Reply::Done { validity_ms } => validity_ms,
                    _ => None,
                };
                let value = Value {
                    validity_ms,
                    ms: took,
                    ..Value::default()
                };
                let done = Completion { f, value };
                self.worker.complete(EventType::Ok, done, None).await;
                ("ok", String::new())
            }
            Err(failure) => self.failed(f, failure, took).await,
        }
    }

    async fn failed(&mut self, f: &str, failure: Failure, took_ms: Option<f64>) -> Outcome {
        self.worker.failed(f, &failure, took_ms).await;
        let kind = if failure.definite { "fail" } else { "info" };
        (kind, failure.code)
    }
}

/// What can be asked of a client while another request of the same worker is open; it is no operation of the lock.
pub async fn aside(shared: &super::Shared, client: &ClientProcess, doing: &Doing) -> Outcome {
    let (worker, key) = (doing.worker, doing.key.clone());
    let Some(what) = Disturb::of(&doing.op) else {
        let request = Request::Held { worker, key };
        let answer = client.request(request, shared.plan.lock.timeout).await;
        return match answer.result {
            Ok(Reply::Held(held)) => ("ok", format!("held: {held}")),
            Ok(_) => ("info", "bad-answer".to_owned()),
            Err(failure) => ("fail", failure.code),
        };
    };
    let request = Request::Disturb { what, worker, key };
    let asked = shared.clock.now();
    let answer = client.request(request, shared.plan.lock.timeout).await;
    match answer.result {
        Ok(_) => {
            if what == Disturb::KillThread {
                thread_ended(shared, doing, asked);
            }
            ("ok", String::new())
        }
        Err(failure) if failure.definite => ("fail", failure.code),
        Err(failure) => ("info", failure.code),
    }
}

/// What the worker held is held by nobody any more.
fn thread_ended(shared: &super::Shared, doing: &Doing, asked: u64) {
    let mut event = crate::run::driver_event(shared.clock.now(), "thread-end", |value| {
        value.not_before = Some(asked);
    });
    event.client = Some(doing.client.as_str().into());
    event.worker = Some(doing.worker);
    shared.recorder.emit(event);
}

/// Whether a step is [`aside`].
pub fn is_aside(op: &str) -> bool {
    op == "held" || Disturb::of(op).is_some()
}

/// Puts on record what a step was and what became of it; with an `error`, the schedule did not happen as written.
pub fn record(shared: &super::Shared, text: &str, error: Option<&str>) {
    let mut event = crate::run::driver_event(shared.clock.now(), "step", |value| {
        value.text = Some(text.to_owned().into());
    });
    event.error = error.map(|e| e.to_owned().into());
    shared.recorder.emit(event);
}

fn millis(d: Duration) -> u64 {
    u64::try_from(d.as_millis()).unwrap_or(u64::MAX)
}
