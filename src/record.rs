//! The one clock of a run and the way into its history: what every room that has something to tell is handed.
//!
//! Owns [`Clock`] and [`Sink`]. Must not know files; `run::recorder` implements the sink.
use fencepost_checker::Event;
use std::time::Instant;

/// The run's monotonic clock: nanoseconds since the start of the run. Never a client's or a server's clock.
#[derive(Debug, Clone, Copy)]
pub struct Clock(Instant);

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Nanoseconds since the start of the run.
    pub fn now(self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// The instant `ns` nanoseconds after the start of the run, for timers.
    pub fn at(self, ns: u64) -> Instant {
        self.0 + std::time::Duration::from_nanos(ns)
    }
}

/// Where events go. The harness is single-threaded (one current-thread runtime), so a sink is `Rc<dyn Sink>`.
/// The sink sets `index`; the caller sets `time`, and calls in the very task that took the stamp, so that the
/// file is in order of time.
pub trait Sink {
    /// Record one event. Its `index` is ignored and set by the sink.
    fn emit(&self, event: Event<'_>);
}
