//! rslock on the redis crate's asynchronous connections: one try, on all nodes at once. What single nodes answered it
//! keeps to itself: `Unavailable` may be a lock that is held, or a server that said nothing.
mod fencepost;

use fencepost::{fields, grant, not_held, version_of, Adapter, Answer, Init, Place, Refused};
use rslock::{Lock, LockError, LockManager};
use serde_json::{json, Map, Value};
use std::collections::HashMap;
use std::future::{poll_fn, Future};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::Notify;

struct Rslock {
    init: Init,
    runtime: Runtime,
    locks: LockManager,
    held: Mutex<HashMap<Place, Arc<Lock>>>,
    /// The call that a worker has under way.
    calls: Mutex<HashMap<u64, Arc<Notify>>>,
}

impl Rslock {
    /// Wait for a call of the library, unless `cancel` drops it.
    fn wait<T>(&self, at: &Place, call: impl Future<Output = T>) -> Result<T, Refused> {
        let cancelled = Arc::new(Notify::new());
        self.calls
            .lock()
            .unwrap()
            .insert(at.worker, cancelled.clone());
        let (mut call, mut stop) = (pin!(call), pin!(cancelled.notified()));
        let result = self.runtime.block_on(poll_fn(|cx| {
            if stop.as_mut().poll(cx).is_ready() {
                let why = "the call was dropped".to_owned();
                return Poll::Ready(Err(Refused("interrupted", why)));
            }
            call.as_mut().poll(cx).map(Ok)
        }));
        self.calls.lock().unwrap().remove(&at.worker);
        result
    }

    fn keep(&self, at: &Place, lock: Lock) -> Map<String, Value> {
        let value = grant(&lock.val, lock.validity_time);
        let mut held = self.held.lock().unwrap();
        held.insert(at.clone(), Arc::new(lock));
        value
    }

    fn get(&self, at: &Place) -> Result<Arc<Lock>, Refused> {
        let held = self.held.lock().unwrap();
        held.get(at).cloned().ok_or_else(not_held)
    }
}

fn refused(error: &LockError) -> Refused {
    let code = match error {
        LockError::Unavailable => "no-quorum-unclean",
        LockError::TtlExceeded => "too-late-unclean",
        _ => "crash",
    };
    Refused(code, error.to_string())
}

impl Adapter for Rslock {
    fn init(init: Init) -> Result<(Self, Map<String, Value>), Refused> {
        let runtime = Runtime::new().map_err(|e| Refused("crash", e.to_string()))?;
        let mut locks = LockManager::new(
            init.nodes
                .iter()
                .map(|node| format!("redis://{node}"))
                .collect(),
        );
        locks.set_retry(1, init.retry);
        // It connects at the first command; a node that is down now may be up later.
        let _ = runtime.block_on(locks.query_redis_for_key_value(init.prefix.as_bytes()));
        let about = json!({
            "library": "rslock", "version": version_of("rslock"),
            "driver": format!("redis {}", version_of("redis")), "retries": 0,
        });
        let (held, calls) = Default::default();
        Ok((
            Self {
                init,
                runtime,
                locks,
                held,
                calls,
            },
            fields(about),
        ))
    }

    fn acquire(&self, at: &Place) -> Answer {
        self.held.lock().unwrap().remove(at);
        let name = format!("{}{}", self.init.prefix, at.key);
        let lock = self.wait(at, self.locks.lock(name.as_bytes(), self.init.ttl))?;
        lock.map(|lock| self.keep(at, lock))
            .map_err(|e| refused(&e))
    }

    fn release(&self, at: &Place) -> Answer {
        let lock = self.get(at)?;
        self.wait(at, self.locks.unlock(&lock))?;
        self.held.lock().unwrap().remove(at);
        Ok(Map::new())
    }

    fn extend(&self, at: &Place, ttl: Duration) -> Answer {
        let lock = self.get(at)?;
        let longer = self.wait(at, self.locks.extend(&lock, ttl))?;
        longer
            .map(|lock| self.keep(at, lock))
            .map_err(|e| refused(&e))
    }

    fn cancel(&self, at: &Place) -> Answer {
        if let Some(call) = self.calls.lock().unwrap().get(&at.worker) {
            call.notify_one();
        }
        Ok(Map::new())
    }
}

fn main() {
    fencepost::serve::<Rslock>();
}
