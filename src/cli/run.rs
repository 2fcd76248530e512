//! `fencepost run`: a workload file on real servers.
//!
//! Owns the order load → resolve backend → session → runs → report, and which error is which exit code.
use super::exit::{Exit, UnknownIs};
use super::{say, signals::Signals};
use crate::cluster::{self, Backend, ClusterError};
use crate::plan::{self, Overrides, Plan};
use crate::report::progress::{Mode, Progress};
use crate::report::{self, Summary};
use crate::run::session::Session;
use crate::run::{Counters, Done, RunError, Watcher, streams};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;
use tokio::runtime::LocalOptions;

/// Arguments of `run`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fencepost run workloads/plain-del.toml
  fencepost run workloads/single-vs-redlock.toml --seed 7
  fencepost run workloads/lua-pause-overrun.toml --repeat 20 --backend local --set lock.ttl=500ms")]
pub struct Args {
    /// The workload file.
    file: PathBuf,
    /// Where servers run: `docker`, `local` (child processes), or `auto` (Docker where an engine answers).
    #[arg(long, default_value = "auto", env = "FENCEPOST_BACKEND")]
    backend: String,
    /// Seed of every random stream; drawn and printed if not given.
    #[arg(long)]
    seed: Option<u64>,
    /// Make this many runs on one cluster, with fresh keys and seeds `seed`, `seed`+1, …
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    repeat: u64,
    /// Only this variant of the file.
    #[arg(long)]
    variant: Option<String>,
    /// Override a key of the file, such as `lock.ttl=500ms`; may be given more than once.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Folder for results.
    #[arg(long, default_value = "results")]
    results: PathBuf,
    /// Print a JSON summary on stdout instead of the report.
    #[arg(long)]
    json: bool,
    /// What `unknown` counts as.
    #[arg(long, value_enum, default_value_t = UnknownIs::Fail)]
    unknown: UnknownIs,
}

impl Watcher for Progress {
    fn phase(&self, name: &str, expected: Option<Duration>) {
        Progress::phase(self, name, expected);
    }

    fn tick(&self, c: Counters) {
        Progress::tick(self, c.operations, c.grants, c.bites, c.doubles);
    }
}

/// Why the command ended early.
enum Stop {
    Signal(Exit),
    Cluster(ClusterError),
    Run(RunError),
}

pub fn main(args: &Args) -> Exit {
    let over = Overrides {
        set: args.set.clone(),
        seed: args.seed,
        drawn_seed: Some(draw_seed()),
        variant: args.variant.clone(),
    };
    let plans = match plan::load(&args.file, &over) {
        Ok(plans) => plans,
        Err(error) => {
            say::plan_error(&error);
            return Exit::Usage;
        }
    };
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())
    {
        Ok(runtime) => runtime,
        Err(error) => {
            say::error(&error, None);
            return Exit::Missing;
        }
    };
    let exit = runtime.block_on(all(args, plans));
    // Threads that still wait for a hung engine must not keep the command from ending.
    runtime.shutdown_timeout(Duration::from_millis(100));
    exit
}

/// 32 bits are enough for a seed and can be typed.
fn draw_seed() -> u64 {
    u64::from(rand::random::<u32>())
}

async fn all(args: &Args, plans: Vec<Plan>) -> Exit {
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => {
            say::error(&error, None);
            return Exit::Defect;
        }
    };
    let choice = match Backend::parse(&args.backend) {
        Ok(choice) => choice,
        Err(error) => {
            say::error(&error, None);
            return Exit::Usage;
        }
    };
    let (backend, why) = cluster::resolve(choice).await;
    announce(args, &plans, &why);
    let progress = Progress::new(Mode::detect(args.json));
    let mut summaries = Vec::new();
    let mut outcome = Ok(());
    for plan in plans {
        outcome = session(args, plan, backend, &progress, &mut signals, &mut summaries).await;
        if outcome.is_err() {
            break;
        }
    }
    progress.finish();
    show(args, &summaries);
    let judged = summaries.iter().fold(Exit::Ok, |exit, s| {
        exit.worst(Exit::of(s.verdict.outcome, args.unknown))
    });
    match outcome {
        Ok(()) => judged,
        Err(stop) => judged.worst(stopped(&stop)),
    }
}

fn announce(args: &Args, plans: &[Plan], why: &str) {
    for warning in plans
        .iter()
        .flat_map(plan::warnings)
        .collect::<std::collections::BTreeSet<_>>()
    {
        say::word(&format!("warning: {warning}"));
    }
    let once: Duration = plans.iter().map(plan::expected_duration).sum();
    let total = once * u32::try_from(args.repeat).unwrap_or(u32::MAX);
    let seed = plans.first().map_or(0, |p| p.seed);
    say::word(&format!(
        "{}: seed {seed}, {} run(s), about {} s; {why}",
        args.file.display(),
        args.repeat * plans.len() as u64,
        total.as_secs()
    ));
}

/// One cluster, and all repetitions of one plan on it.
async fn session(
    args: &Args,
    plan: Plan,
    backend: Backend,
    progress: &Progress,
    signals: &mut Signals,
    summaries: &mut Vec<Summary>,
) -> Result<(), Stop> {
    progress.phase("cluster", None);
    let reaper = Session::reaper().map_err(Stop::Cluster)?;
    let session = tokio::select! {
        started = Session::start(&plan, backend, reaper.clone()) => started.map_err(Stop::Cluster)?,
        exit = signals.heard() => {
            reaper.finish().await;
            return Err(Stop::Signal(exit));
        }
    };
    let runs = async {
        for n in 0..args.repeat {
            let plan = Rc::new(Plan {
                seed: streams::repetition(plan.seed, n),
                ..plan.clone()
            });
            let prefix = format!("fp:{}:{n}:", session.id);
            let done = crate::run::run(&session, plan, &prefix, &args.results, progress)
                .await
                .map_err(Stop::Run)?;
            summaries.push(report_on(&done, progress)?);
        }
        Ok(())
    };
    let outcome = tokio::select! {
        outcome = runs => outcome,
        exit = signals.heard() => Err(Stop::Signal(exit)),
    };
    progress.phase("tear down", None);
    let stopped = session.stop().await.map_err(Stop::Cluster);
    outcome.and(stopped)
}

fn report_on(done: &Done, progress: &Progress) -> Result<Summary, Stop> {
    let wrong = |source: report::ReportError| {
        let source = std::io::Error::other(source.to_string());
        Stop::Run(RunError::Results {
            path: done.dir.clone(),
            source,
        })
    };
    let summary = report::summarise(&done.dir).map_err(wrong)?;
    report::render_all(&summary, &done.dir).map_err(wrong)?;
    progress.line(&report::tables::one_line(&summary));
    Ok(summary)
}

fn show(args: &Args, summaries: &[Summary]) {
    if summaries.is_empty() {
        return;
    }
    if args.json {
        match report::json(summaries) {
            Ok(text) => say::data(&text),
            Err(error) => say::error(&error, None),
        }
    } else {
        say::data(&report::terminal(summaries, say::style()));
    }
}

fn stopped(stop: &Stop) -> Exit {
    match stop {
        Stop::Signal(exit) => {
            say::word("interrupted; everything that was started is removed");
            *exit
        }
        Stop::Cluster(error) => {
            say::error(error, error.hint().as_deref());
            Exit::Missing
        }
        Stop::Run(error) => {
            say::error(error, hint(error).as_deref());
            match error {
                RunError::Client(_) => Exit::Usage,
                RunError::Cluster(_) | RunError::Results { .. } | RunError::Observe(_) => {
                    Exit::Missing
                }
                RunError::History(_) => Exit::Defect,
            }
        }
    }
}

fn hint(error: &RunError) -> Option<String> {
    match error {
        RunError::Cluster(error) => error.hint(),
        RunError::Client(_) => Some("its stderr stands in clients/*.log of the run's results; PROTOCOL.md has the handshake".into()),
        RunError::Results { .. } => Some("free some space, or choose another folder with --results".into()),
        RunError::Observe(_) => Some("see nodes/*.log of the run's results".into()),
        RunError::History(_) => Some("this is a defect of fencepost: please report it with the history file".into()),
    }
}
