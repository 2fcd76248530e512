//! What all workers of a run share.
//!
//! Owns the stop signal and the counters that progress shows. Must not know faults.
use crate::plan::{Plan, Work};
use crate::record::Clock;
use crate::run::arrivals::Arrivals;
use crate::run::board::Board;
use crate::run::grants::Grants;
use crate::run::recorder::Recorder;
use crate::run::resource::Resource;
use rand::Rng;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::watch;

/// See the module's page.
pub struct Shared {
    /// The plan.
    pub plan: Rc<Plan>,
    /// The run's clock.
    pub clock: Clock,
    /// The history.
    pub recorder: Recorder,
    /// Who holds, who waits.
    pub board: Rc<Board>,
    /// What the lock protects.
    pub resource: Resource,
    /// Intended start times.
    pub arrivals: Arrivals,
    /// The driver's own grants, for the control lock `perfect`.
    pub control: Option<Rc<Grants>>,
    /// How long an answer to `work` may take beyond the work: longer than any pause in the plan.
    pub patience: Duration,
    /// Operations completed.
    pub operations: Cell<u64>,
    /// Grants.
    pub grants: Cell<u64>,
    processes: Cell<u64>,
    stop: watch::Sender<bool>,
}

impl Shared {
    /// A run that has not begun. `patience` follows from the plan's longest fault.
    pub fn new(
        plan: Rc<Plan>,
        clock: Clock,
        recorder: Recorder,
        board: Rc<Board>,
        arrivals: Arrivals,
        control: Option<Rc<Grants>>,
    ) -> Self {
        let longest = plan
            .faults
            .iter()
            .filter_map(|f| f.length)
            .max()
            .unwrap_or_default();
        Self {
            resource: Resource::new(plan.resource.fence),
            patience: longest.max(plan.lock.timeout) + Duration::from_secs(5),
            plan,
            clock,
            recorder,
            board,
            arrivals,
            control,
            operations: Cell::new(0),
            grants: Cell::new(0),
            processes: Cell::new(0),
            stop: watch::Sender::new(false),
        }
    }

    /// A logical process id that was not used before.
    pub fn new_process(&self) -> u64 {
        self.processes.replace(self.processes.get() + 1)
    }

    /// Tells all workers to finish the section they are in and begin no other.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Whether [`Shared::stop`] was called.
    pub fn stopping(&self) -> bool {
        *self.stop.borrow()
    }

    /// Waits for [`Shared::stop`].
    pub async fn stopped(&self) {
        // The sender lives in self, so the channel cannot close before.
        let _ = self.stop.subscribe().wait_for(|stop| *stop).await;
    }
}

impl Work {
    /// One work time.
    pub fn draw(&self, random: &mut impl Rng) -> Duration {
        match *self {
            Self::Fixed(d) => d,
            Self::Uniform(low, high) => {
                low + (high.saturating_sub(low)).mul_f64(random.random::<f64>())
            }
            Self::Exponential(mean) => {
                mean.mul_f64((-(1.0 - random.random::<f64>()).ln()).min(20.0))
            }
        }
    }
}
