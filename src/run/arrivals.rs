//! When the next operation is meant to start: at once (closed loop), or on a schedule drawn from the seed (open loop).
//!
//! Owns intended start times. Must not know what is started. In an open loop latency is counted from the intended
//! start, so that an operation that had to wait for a free worker carries that wait (no coordinated omission).
use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::cell::{Cell, RefCell};

/// A run's arrival schedule, shared by all workers.
pub struct Arrivals {
    rate: Option<f64>,
    next: Cell<u64>,
    random: RefCell<Xoshiro256PlusPlus>,
}

impl Arrivals {
    /// `rate` starts a second over all workers with exponential gaps (a Poisson process), from `start` (ns) on;
    /// none: closed loop.
    pub fn new(rate: Option<f64>, start: u64, random: Xoshiro256PlusPlus) -> Self {
        Self {
            rate,
            next: Cell::new(start),
            random: RefCell::new(random),
        }
    }

    /// The intended start (ns on the run's clock) of the next operation; none in a closed loop.
    pub fn next(&self) -> Option<u64> {
        let rate = self.rate?;
        let uniform: f64 = self.random.borrow_mut().random();
        let gap_ns = -(1.0 - uniform).ln() / rate * 1e9;
        let at = self.next.get() + gap_ns as u64;
        self.next.set(at);
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::Arrivals;
    use crate::run::streams::stream;

    #[test]
    fn an_open_loop_keeps_its_rate_whatever_the_workers_do() {
        let arrivals = Arrivals::new(Some(500.0), 0, stream(1, "arrivals"));
        let last = (0..50_000)
            .filter_map(|_| arrivals.next())
            .last()
            .expect("open loop");
        let rate = 50_000.0 / (last as f64 / 1e9);
        assert!((rate / 500.0 - 1.0).abs() < 0.03, "{rate}");
    }

    #[test]
    fn a_closed_loop_has_no_intended_start() {
        assert_eq!(Arrivals::new(None, 0, stream(1, "arrivals")).next(), None);
    }
}
