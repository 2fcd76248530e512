//! The same work on parts of one thing, on as many threads as the machine has.
//!
//! Owns threads. Must not know what the work is; the results come in the order of the parts, so they do not depend on
//! how many threads there are.
use std::num::NonZero;
use std::panic::resume_unwind;
use std::thread;

/// How many parts are worth a thread each, at most.
const THREADS_MAX: usize = 16;

/// How many threads the machine has for this.
pub(crate) fn threads() -> usize {
    thread::available_parallelism()
        .map_or(1, NonZero::get)
        .min(THREADS_MAX)
}

/// The results of the parts, in their order: each on a thread of its own, but for a single one.
pub(crate) fn map<T: Send, R: Send>(parts: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    if parts.len() <= 1 {
        return parts.into_iter().map(work).collect();
    }
    let work = &work;
    thread::scope(|scope| {
        let running: Vec<_> = parts
            .into_iter()
            .map(|part| scope.spawn(move || work(part)))
            .collect();
        let ended = running.into_iter().map(thread::ScopedJoinHandle::join);
        ended
            .map(|r| r.unwrap_or_else(|e| resume_unwind(e)))
            .collect()
    })
}
