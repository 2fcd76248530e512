//! How many requests this process has put on the wire to servers: what a grant costs in messages.
//!
//! Owns one number a process, raised where a request leaves. Must not know who asks, nor what. `resp`, `etcd` and
//! `zookeeper` count here; a built-in lock's client tells at its end how many there were since its beginning.
use std::sync::atomic::{AtomicU64, Ordering};

static SENT: AtomicU64 = AtomicU64::new(0);

/// So many more requests left, whole or in part.
pub(crate) fn more(requests: u64) {
    SENT.fetch_add(requests, Ordering::Relaxed);
}

/// Requests that left so far.
pub(crate) fn so_far() -> u64 {
    SENT.load(Ordering::Relaxed)
}
