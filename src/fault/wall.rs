//! What a clock fault is, on a node or a client: how far off the time of day must be, and whether it is.
//!
//! Owns the arithmetic. Must not know where a time was asked. `node_clock` and `client_clock` ask and compare.
use crate::plan::FaultPlan;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

/// How far a drifting clock must have gone before it is looked at.
const FAR_NS: f64 = 25e6;
/// Longest wait for that.
const WAIT: Duration = Duration::from_secs(4);

/// A step, a drift, or both.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wrong {
    /// Nanoseconds at once.
    pub step_ns: i64,
    /// Seconds a second from then on.
    pub drift: f64,
}

impl Wrong {
    pub(super) fn of(plan: &FaultPlan) -> Self {
        Self {
            step_ns: plan.measures.step_ns.unwrap_or_default(),
            drift: plan.measures.drift.unwrap_or_default(),
        }
    }

    /// How far off the clock is to be when `since` has passed.
    fn due_ns(self, since: Duration) -> f64 {
        self.step_ns as f64 + self.drift * since.as_nanos() as f64
    }

    /// Waits until a drift can be told from chance.
    pub(super) async fn far_enough(self, injected: Instant) {
        if self.drift != 0.0 {
            let wait = Duration::from_nanos((FAR_NS / self.drift.abs()) as u64).min(WAIT);
            tokio::time::sleep_until(injected + wait).await;
        }
    }

    /// Whether a clock that is `ahead_ns` of the true one, known to within `doubt_ns`, is as wrong as it is to be.
    pub(super) fn told(
        self,
        ahead_ns: i64,
        doubt_ns: i64,
        injected: Instant,
    ) -> Result<String, String> {
        let due = self.due_ns(injected.elapsed());
        let words = format!("its clock is {:+.1} ms off", ahead_ns as f64 / 1e6);
        // Half of what is asked for is the line, so that a clock that did not move is never taken for one that did.
        let most = (due.abs() / 2.0).min(doubt_ns as f64 + 50e6);
        if (ahead_ns as f64 - due).abs() <= most {
            Ok(words)
        } else {
            Err(format!("{words}, and should be {:+.1} ms", due / 1e6))
        }
    }
}

/// Nanoseconds since 1970, by this machine's clock.
pub(super) fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    i64::try_from(since.unwrap_or_default().as_nanos()).unwrap_or(i64::MAX)
}
