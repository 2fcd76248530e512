//! The thread on which the runs of a test are made.
//!
//! Owns the one local runtime of a [`Chaos`], the turn of those that wait for each other, and the end of one that
//! nobody waits for any more. Must not know what is asserted.
use super::{Chaos, ChaosError, Report, Source, Why};
use crate::campaign::{Flow, Halt, Job, Setting, Stop, series};
use crate::cluster;
use crate::plan::Plan;
use crate::report::Progress;
use crate::report::progress::Mode;
use crate::run::{results, streams};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::LocalOptions;
use tokio::sync::{oneshot, watch};

/// Runs of one process wait for each other.
static TURN: Mutex<()> = Mutex::new(());

type Outcome = Result<Report, ChaosError>;

/// A thread at work. Dropped, it ends the run.
pub(super) struct Working {
    thread: JoinHandle<()>,
    answer: oneshot::Receiver<Outcome>,
    /// Its end is the halt.
    _halt: watch::Sender<()>,
}

/// Reads the workload, and begins.
pub(super) fn start(chaos: Chaos) -> Result<Working, ChaosError> {
    let plans = chaos.plans()?;
    let (halt, halted) = watch::channel(());
    let (done, answer) = oneshot::channel();
    let thread = std::thread::Builder::new()
        .name("fencepost".to_owned())
        .spawn(move || {
            let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
            // Nobody may wait for it any more.
            let _ = done.send(make(&chaos, &plans, Halted(halted)));
        });
    Ok(Working {
        thread: thread.map_err(|e| missing(&e))?,
        answer,
        _halt: halt,
    })
}

impl Working {
    pub(super) async fn wait(mut self) -> Outcome {
        let answer = (&mut self.answer).await.ok();
        answer.unwrap_or_else(|| panicked(self.thread))
    }

    pub(super) fn wait_blocking(self) -> Outcome {
        let Self {
            thread,
            mut answer,
            _halt,
        } = self;
        let joined = thread.join();
        match (joined, answer.try_recv()) {
            (Err(panic), _) => std::panic::resume_unwind(panic),
            (Ok(()), Ok(outcome)) => outcome,
            (Ok(()), Err(error)) => Err(missing(&std::io::Error::other(error))),
        }
    }
}

/// The thread ended without an answer.
fn panicked(thread: JoinHandle<()>) -> Outcome {
    match thread.join() {
        Err(panic) => std::panic::resume_unwind(panic),
        Ok(()) => Err(missing(&std::io::Error::other("no answer"))),
    }
}

fn missing(error: &std::io::Error) -> ChaosError {
    ChaosError::new(Why::Missing, error.to_string(), None)
}

/// The other end of [`Working`].
struct Halted(watch::Receiver<()>);

impl Halt for Halted {
    type Why = ();

    async fn heard(&mut self) {
        // Nothing is ever sent: an error is the sender's end.
        while self.0.changed().await.is_ok() {}
    }
}

fn make(chaos: &Chaos, plans: &[Plan], mut halt: Halted) -> Outcome {
    results::ready(&chaos.results).map_err(|source| {
        let path = chaos.results.clone();
        ChaosError::of_stop(&Stop::<()>::Run(crate::run::RunError::Results {
            path,
            source,
        }))
    })?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())
        .map_err(|e| missing(&e))?;
    let outcome = runtime.block_on(all(chaos, plans, &mut halt));
    // Threads that still wait for a hung engine must not keep the test from ending.
    runtime.shutdown_timeout(Duration::from_millis(100));
    outcome
}

async fn all(chaos: &Chaos, plans: &[Plan], halt: &mut Halted) -> Outcome {
    let (own, hint) = chaos.client.reaper(chaos.fencepost.as_deref())?;
    let (backend, _) = cluster::resolve(chaos.backend).await;
    let progress = Progress::new(Mode::Silent);
    let setting = Setting {
        backend,
        results: &chaos.results,
        progress: &progress,
        own: &own,
    };
    let mut runs = Vec::new();
    let mut wrong = None;
    let jobs = jobs(chaos, plans);
    let made = series(&jobs, &setting, halt, |_, made| match made {
        Ok(summary) => {
            runs.push(summary);
            Flow::Next
        }
        // What one of its runs meets, the next would meet too.
        Err(stop) => {
            wrong = Some(ChaosError::of_stop(&stop));
            Flow::Enough
        }
    });
    if let Err(stop) = made.await {
        wrong.get_or_insert(ChaosError::of_stop(&stop));
    }
    match (wrong, Report::of(runs)) {
        (Some(error), _) if reaper_failed(&error) => Err(error.hinted(hint)),
        (Some(error), _) => Err(error),
        (None, Some(report)) => Ok(report),
        (None, None) => Err(missing(&std::io::Error::other("no run was made"))),
    }
}

/// The first process that the client's program becomes is the reaper: there a wrong name shows.
fn reaper_failed(error: &ChaosError) -> bool {
    error.to_string().contains("did not become a reaper")
}

/// Each plan as often as asked for, with seeds that count up.
fn jobs(chaos: &Chaos, plans: &[Plan]) -> Vec<Job> {
    let file = match &chaos.source {
        Source::File(file) => file.clone(),
        Source::Text { name, .. } => PathBuf::from(name),
    };
    let repeated = plans.iter().flat_map(|plan| {
        (0..chaos.repeat).map(|n| Job {
            file: file.clone(),
            plan: Plan {
                seed: streams::repetition(plan.seed, n),
                ..plan.clone()
            },
        })
    });
    repeated.collect()
}
