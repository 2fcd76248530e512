//! The hiccup meter: when the machine, or the harness itself, stood still.
//!
//! Owns one thread that sleeps a little, again and again, and measures by how much it overslept. Must not know why.
//! Stalls go to the sink as `driver`/`stall`; the checker holds them against findings that a stall would explain.
//! The idea is Gil Tene's jHiccup: whatever keeps this thread from running keeps others from running too. A
//! harness that was itself stopped (SIGSTOP) shows as a stall as well, since the monotonic clock goes on.
use crate::record::{Clock, Sink};
use fencepost_checker::{Event, EventType, Process, Value};
use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::mpsc;

/// The meter's sleep.
pub const NAP: Duration = Duration::from_millis(5);
/// Oversleeping by more than this is a stall.
pub const STALL: Duration = Duration::from_millis(50);

/// Time as the meter sees it, so that tests can make it stand still.
pub trait Nap: Send + 'static {
    /// Nanoseconds since the start of the run.
    fn now(&self) -> u64;
    /// Sleeps [`NAP`].
    fn nap(&self);
}

impl Nap for Clock {
    fn now(&self) -> u64 {
        Clock::now(*self)
    }

    fn nap(&self) {
        std::thread::sleep(NAP);
    }
}

/// A stretch of time in which nothing ran, on the run's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stall {
    /// When the thread should have run again.
    start: u64,
    /// When it did.
    end: u64,
}

/// The running meter.
pub struct Hiccups {
    stop: Arc<AtomicBool>,
    total: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
    task: tokio::task::JoinHandle<()>,
}

impl Hiccups {
    /// Starts the thread. Events are emitted by a task of the runtime: `time` is the moment of emission and `ms`
    /// reaches back to the beginning of the stall, so \[`time` − `ms`, `time`] covers it, a little of what
    /// follows included, and the history stays in order of time.
    ///
    /// # Panics
    /// Outside a `tokio::task::LocalSet`.
    pub fn start(clock: Clock, sink: Rc<dyn Sink>) -> Self {
        Self::with(clock, clock, sink)
    }

    /// As [`Hiccups::start`], with another time for the thread.
    pub fn with(nap: impl Nap, clock: Clock, sink: Rc<dyn Sink>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let total = Arc::new(AtomicU64::new(0));
        let (stalls, mut seen) = mpsc::unbounded_channel::<Stall>();
        let (stopped, sum) = (stop.clone(), total.clone());
        let meter = move || {
            while !stopped.load(Ordering::Relaxed) {
                if let Some(stall) = measure(&nap) {
                    sum.fetch_add(stall.end - stall.start, Ordering::Relaxed);
                    let _ = stalls.send(stall);
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("hiccups".into())
            .spawn(meter);
        let thread = thread
            .inspect_err(|error| tracing::error!(%error, "no hiccup meter: stalls go unseen"));
        let task = tokio::task::spawn_local(async move {
            while let Some(stall) = seen.recv().await {
                emit(&*sink, clock, stall);
            }
        });
        Self {
            stop,
            total,
            thread: thread.ok(),
            task,
        }
    }

    /// The sum of all stalls so far.
    pub fn total(&self) -> Duration {
        Duration::from_nanos(self.total.load(Ordering::Relaxed))
    }

    /// Ends the thread and emits what it still had to say.
    pub async fn stop(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // The thread drops its end of the channel within a nap, which ends the task.
        let _ = (&mut self.task).await;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Hiccups {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// One nap.
fn measure(nap: &impl Nap) -> Option<Stall> {
    let before = nap.now();
    nap.nap();
    let end = nap.now();
    let start = before + NAP.as_nanos() as u64;
    (end.saturating_sub(start) > STALL.as_nanos() as u64).then_some(Stall { start, end })
}

fn emit(sink: &dyn Sink, clock: Clock, stall: Stall) {
    let time = clock.now();
    sink.emit(Event {
        index: 0,
        time,
        process: Process::Named(Cow::Borrowed("driver")),
        client: None,
        worker: None,
        kind: EventType::Info,
        f: Cow::Borrowed("stall"),
        key: None,
        value: Value {
            ms: Some(time.saturating_sub(stall.start) as f64 / 1e6),
            ..Value::default()
        },
        error: None,
    });
}

/// The longest and the mean oversleep over `span`, measured right now by the calling thread.
pub fn level(span: Duration) -> (Duration, Duration) {
    let (clock, mut naps, mut sum, mut max) =
        (Clock::start(), 0u32, Duration::ZERO, Duration::ZERO);
    while naps == 0 || Duration::from_nanos(clock.now()) < span {
        let before = clock.now();
        Nap::nap(&clock);
        let over = Duration::from_nanos(clock.now() - before).saturating_sub(NAP);
        (naps, sum, max) = (naps + 1, sum + over, max.max(over));
    }
    (max, sum / naps)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[derive(Default)]
    struct Kept {
        events: RefCell<Vec<(String, u64, f64)>>,
        more: tokio::sync::Notify,
    }

    impl Sink for Kept {
        fn emit(&self, event: Event<'_>) {
            let ms = event.value.ms.unwrap_or_default();
            self.events
                .borrow_mut()
                .push((event.f.into_owned(), event.time, ms));
            self.more.notify_one();
        }
    }

    /// A time that jumps by given steps, one a nap; after the last the thread really sleeps.
    struct Jumps {
        steps: std::sync::Mutex<std::vec::IntoIter<u64>>,
        now: AtomicU64,
    }

    impl Nap for Jumps {
        fn now(&self) -> u64 {
            self.now.load(Ordering::Relaxed)
        }

        fn nap(&self) {
            let step = self.steps.lock().unwrap().next();
            if step.is_none() {
                std::thread::sleep(NAP);
            }
            self.now
                .fetch_add(step.unwrap_or(5) * 1_000_000, Ordering::Relaxed);
        }
    }

    #[tokio::test]
    async fn naps_that_last_too_long_are_stalls_and_others_are_not() {
        let set = tokio::task::LocalSet::new();
        set.run_until(async {
            let sink = Rc::new(Kept::default());
            let steps = std::sync::Mutex::new(vec![5, 6, 55, 5, 56, 5, 3005].into_iter());
            let hiccups = Hiccups::with(
                Jumps {
                    steps,
                    now: AtomicU64::new(0),
                },
                Clock::start(),
                sink.clone(),
            );
            while sink.events.borrow().len() < 2 {
                sink.more.notified().await;
            }
            assert_eq!(hiccups.total(), Duration::from_millis(51 + 3000));
            hiccups.stop().await;
            let events = sink.events.borrow();
            assert_eq!(events.len(), 2, "{events:?}");
            assert!(events.iter().all(|(f, _, _)| f == "stall"));
        })
        .await;
    }

    #[test]
    fn a_stall_runs_from_when_the_nap_should_have_ended() {
        let jumps = |ms| Jumps {
            steps: std::sync::Mutex::new(vec![ms].into_iter()),
            now: AtomicU64::new(7),
        };
        assert_eq!(measure(&jumps(55)), None);
        assert_eq!(
            measure(&jumps(60)),
            Some(Stall {
                start: 5_000_007,
                end: 60_000_007
            })
        );
    }

    #[test]
    fn the_event_covers_the_stall() {
        let (clock, sink) = (Clock::start(), Kept::default());
        std::thread::sleep(Duration::from_millis(2));
        let stall = Stall {
            start: 500_000,
            end: 1_000_000,
        };
        emit(&sink, clock, stall);
        let (_, time, ms) = sink.events.borrow()[0].clone();
        assert!(time >= stall.end && (time as f64 - ms * 1e6 - stall.start as f64).abs() < 2.0);
    }
}
