//! redlock on the redis crate: one try, one node after the other, a connection for each command, and no limit on a server
//! that says nothing. From version 2 on an error of any node is handed on; before, it counts as a node that did not agree.
mod fencepost;

use fencepost::{fields, grant, not_held, version_of, Adapter, Answer, Init, Place, Refused};
use redlock::{Lock, RedLock};
use serde_json::{json, Map, Value};
use std::collections::HashMap;
use std::fmt::Display;
use std::sync::Mutex;

struct Redlock {
    init: Init,
    locks: &'static RedLock,
    held: Mutex<HashMap<Place, Lock<'static>>>,
}

/// What the versions return. Neither tells whether what some nodes had granted could be undone.
trait Outcome {
    fn outcome(self, nodes: usize) -> Result<Lock<'static>, Refused>;
}

fn unclean(why: impl Display) -> Refused {
    Refused("no-quorum-unclean", why.to_string())
}

impl Outcome for Option<Lock<'static>> {
    fn outcome(self, _nodes: usize) -> Result<Lock<'static>, Refused> {
        self.ok_or_else(|| unclean("no lock"))
    }
}

impl<E: Display> Outcome for Result<Option<Lock<'static>>, E> {
    fn outcome(self, nodes: usize) -> Result<Lock<'static>, Refused> {
        match self {
            Ok(Some(lock)) => Ok(lock),
            // The one node answered.
            Ok(None) if nodes == 1 => Err(Refused("held", "no lock".to_owned())),
            Ok(None) => Err(unclean("no lock")),
            Err(error) => Err(unclean(error)),
        }
    }
}

impl Adapter for Redlock {
    fn init(init: Init) -> Result<(Self, Map<String, Value>), Refused> {
        let nodes: Vec<String> = init
            .nodes
            .iter()
            .map(|node| format!("redis://{node}"))
            .collect();
        let mut locks = RedLock::new(nodes.iter().map(String::as_str).collect());
        // It cannot be told not to pause after its only try, but how long: less than this.
        locks.set_retry(1, 1);
        let about = json!({
            "library": "redlock-rs", "version": version_of("redlock"),
            "driver": format!("redis {}", version_of("redis")), "retries": 0,
        });
        // A lock borrows its manager, which lives as long as the process.
        let locks = Box::leak(Box::new(locks));
        Ok((
            Self {
                init,
                locks,
                held: Mutex::default(),
            },
            fields(about),
        ))
    }

    fn acquire(&self, at: &Place) -> Answer {
        self.held.lock().unwrap().remove(at);
        let name = format!("{}{}", self.init.prefix, at.key);
        let ttl = self.init.ttl.as_millis() as usize;
        let answer = self.locks.lock(name.as_bytes(), ttl);
        let lock = answer.outcome(self.init.nodes.len())?;
        let value = grant(&lock.val, lock.validity_time);
        self.held.lock().unwrap().insert(at.clone(), lock);
        Ok(value)
    }

    fn release(&self, at: &Place) -> Answer {
        let lock = self.held.lock().unwrap().remove(at).ok_or_else(not_held)?;
        self.locks.unlock(&lock);
        Ok(Map::new())
    }
}

fn main() {
    fencepost::serve::<Redlock>();
}
