//! `fencepost run`: a workload file on real servers.
//!
//! Owns the order load → resolve backend → session → runs → report, and which error is which exit code.
use super::exit::{Exit, UnknownIs};
use super::{say, signals::Signals};
use crate::client::ClientError;
use crate::cluster::{self, Backend, ClusterError};
use crate::plan::{self, Overrides, Plan};
use crate::report::progress::{Mode, Progress};
use crate::report::{self, Summary};
use crate::run::session::Session;
use crate::run::{Counters, Done, RunError, Watcher, results, streams};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::runtime::LocalOptions;

/// Arguments of `run`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fencepost run workloads/plain-del.toml
  fencepost run workloads/single-vs-redlock.toml --seed 7
  fencepost run workloads/lua-pause-overrun.toml --repeat 20 --backend local --set lock.ttl=500ms
  fencepost run workloads/redlock-plain.toml --image valkey/valkey:8 --json")]
pub struct Args {
    /// The workload file.
    file: PathBuf,
    /// Where servers run: in Docker, as child processes, or in Docker where an engine answers, else as processes.
    #[arg(long, default_value = "auto", env = "FENCEPOST_BACKEND", value_parser = ["auto", "docker", "local"])]
    backend: String,
    /// Seed of every random stream; drawn and printed if not given.
    #[arg(long)]
    seed: Option<u64>,
    /// Make this many runs on one cluster, with fresh keys and seeds `seed`, `seed`+1, …
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    repeat: u64,
    /// Only this variant of the file.
    #[arg(long)]
    variant: Option<String>,
    /// Override a key of the file, such as `lock.ttl=500ms`; may be given more than once.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Image of the servers (docker), in place of the workload's.
    #[arg(long, value_name = "NAME")]
    image: Option<String>,
    /// Image of Toxiproxy (docker), in place of the workload's.
    #[arg(long, value_name = "NAME")]
    toxiproxy_image: Option<String>,
    /// Folder for results.
    #[arg(long, value_name = "FOLDER", default_value = "results")]
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
        set: sets(args),
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
    // Known before any server is started.
    if let Err(source) = results::ready(&args.results) {
        let path = args.results.clone();
        return stopped(&Stop::Run(RunError::Results { path, source }));
    }
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

/// `--set`, and the flags that are short for one.
fn sets(args: &Args) -> Vec<String> {
    let images = [
        ("image", &args.image),
        ("toxiproxy_image", &args.toxiproxy_image),
    ];
    let images = images.into_iter().filter_map(|(key, image)| {
        let image = toml::Value::String(image.clone()?);
        Some(format!("cluster.{key}={image}"))
    });
    args.set.iter().cloned().chain(images).collect()
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
    announce(args, &plans, backend, &why);
    let name = plans.first().map_or_else(String::new, |p| p.name.clone());
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
    say::summaries(&summaries, args.json);
    let together = together(&args.results.join(name), &summaries);
    let outcome = outcome.and(together);
    let judged = summaries.iter().fold(Exit::Ok, |exit, s| {
        exit.worst(Exit::of(s.verdict.outcome, args.unknown))
    });
    match outcome {
        Ok(()) => judged,
        Err(stop) => judged.worst(stopped(&stop)),
    }
}

/// How long it will take comes first.
fn announce(args: &Args, plans: &[Plan], backend: Backend, why: &str) {
    let once: Duration = plans.iter().map(plan::expected_duration).sum();
    let total = once * u32::try_from(args.repeat).unwrap_or(u32::MAX);
    let runs = args.repeat * plans.len() as u64;
    let seed = plans.first().map_or(0, |p| p.seed);
    say::word(&format!(
        "{}: {}, about {} s and the set-up, seed {seed}; {why}",
        args.file.display(),
        report::tables::plural(runs, "run"),
        total.as_secs_f64().ceil(),
    ));
    let warnings: BTreeSet<_> = plans.iter().flat_map(plan::warnings).collect();
    for warning in warnings {
        say::word(&format!("warning: {warning}"));
    }
    if backend == Backend::Local && (args.image.is_some() || args.toxiproxy_image.is_some()) {
        say::word("warning: images are for Docker; local processes take redis-server from PATH");
    }
}

/// One summary.md and one junit.xml for several runs, beside their folders.
fn together(dir: &Path, summaries: &[Summary]) -> Result<(), Stop> {
    if summaries.len() < 2 {
        return Ok(());
    }
    report::render_several(summaries, dir).map_err(|error| unwritten(dir, &error))?;
    let files = ["summary.md", "junit.xml"].map(|name| dir.join(name).display().to_string());
    say::word(&format!("all runs: {}", files.join(", ")));
    Ok(())
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
    progress.phase("set-up", None);
    let began = Instant::now();
    let reaper = Session::reaper().map_err(Stop::Cluster)?;
    let session = tokio::select! {
        started = Session::start(&plan, backend, reaper.clone()) => started.map_err(Stop::Cluster)?,
        exit = signals.heard() => {
            reaper.finish().await;
            return Err(Stop::Signal(exit));
        }
    };
    progress.line(&format!(
        "{} ready in {:.1} s: {}, {}",
        report::tables::plural(session.cluster.node_count() as u64, "node"),
        began.elapsed().as_secs_f64(),
        versions(&session),
        session.cluster.reach(),
    ));
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
        never = session.reaper.guard(|what| say::word(&format!("warning: {what}"))) => match never {},
        exit = signals.heard() => Err(Stop::Signal(exit)),
    };
    progress.phase("tear-down", None);
    let began = Instant::now();
    let stopped = session.stop().await.map_err(Stop::Cluster);
    if stopped.is_ok() {
        let took = began.elapsed().as_secs_f64();
        progress.line(&format!("all removed in {took:.1} s"));
    }
    outcome.and(stopped)
}

/// `redis 7.0.15, toxiproxy 2.12.0`.
fn versions(session: &Session) -> String {
    let versions = session.cluster.versions();
    let server = versions.get("server").map(String::as_str);
    let toxiproxy = versions.get("toxiproxy").map(|v| format!("toxiproxy {v}"));
    server
        .into_iter()
        .chain(toxiproxy.as_deref())
        .collect::<Vec<_>>()
        .join(", ")
}

fn unwritten(path: &Path, error: &report::ReportError) -> Stop {
    let source = match error {
        report::ReportError::Io { source, .. } => {
            std::io::Error::new(source.kind(), error.to_string())
        }
        _ => std::io::Error::other(error.to_string()),
    };
    let path = path.to_owned();
    Stop::Run(RunError::Results { path, source })
}

fn report_on(done: &Done, progress: &Progress) -> Result<Summary, Stop> {
    let wrong = |error: &report::ReportError| unwritten(&done.dir, error);
    let summary = report::summarise(&done.dir).map_err(|e| wrong(&e))?;
    report::render_all(&summary, &done.dir).map_err(|e| wrong(&e))?;
    progress.line(&report::tables::one_line(&summary));
    let page = done.dir.join("report.html").display().to_string();
    progress.line(&format!("page: {}", report::sanitise::visible(&page)));
    Ok(summary)
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
                RunError::Client(ClientError::Log { .. }) => Exit::Missing,
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
    use std::io::ErrorKind::{NotFound, PermissionDenied, StorageFull};
    Some(match error {
        RunError::Cluster(error) => return error.hint(),
        RunError::Client(ClientError::Start { source, .. })
            if matches!(source.kind(), NotFound | PermissionDenied) =>
        {
            "`lock.command` starts without a shell, in the folder where `fencepost` was started: is the path right, \
             and may it be run?"
                .into()
        }
        RunError::Client(ClientError::Log { .. }) => {
            "free some space, or choose another folder with --results".into()
        }
        RunError::Client(_) => "PROTOCOL.md has the handshake and a complete example".into(),
        RunError::Results { source, .. } if source.kind() == StorageFull => {
            "free some space, or choose another folder with --results".into()
        }
        RunError::Results { .. } => "choose a folder that can be written, with --results".into(),
        RunError::Observe(_) => "nodes/*.log of the run's results say what the servers did".into(),
        RunError::History(_) => {
            "this is a defect of fencepost: please report it with the history file".into()
        }
    })
}
