//! `fencepost run`: a workload file on real servers.
//!
//! Owns the order load → resolve backend → runs → report. Which error is which exit code stands in `stopped`.
use super::exit::{Exit, UnknownIs};
use super::stopped::{self, on_runtime, stopped};
use super::{say, start::start};
use crate::campaign::{Flow, Job, Setting, Stop, series};
use crate::cluster::Backend;
use crate::own::Own;
use crate::plan::{self, Overrides, Plan};
use crate::report::progress::{Mode, Progress};
use crate::report::{self, Summary};
use crate::run::{results, streams};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

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
    /// Make this many runs on one cluster, with fresh keys and seeds `seed`, `seed`+1, …; a cluster on which a fault was
    /// not proved healed is replaced.
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
        return stopped::no_results(&args.results, source);
    }
    on_runtime(all(args, plans))
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
pub(super) fn draw_seed() -> u64 {
    u64::from(rand::random::<u32>())
}

async fn all(args: &Args, plans: Vec<Plan>) -> Exit {
    let (mut signals, backend, why) = match start(&args.backend).await {
        Ok(started) => started,
        Err(exit) => return exit,
    };
    announce(args, &plans, backend, &why);
    let name = plans.first().map_or_else(String::new, |p| p.name.clone());
    let progress = Progress::new(Mode::detect(args.json));
    let setting = Setting {
        backend,
        results: &args.results,
        progress: &progress,
        own: &Own::this(),
    };
    let mut summaries = Vec::new();
    let mut wrong: Option<Rc<Stop<Exit>>> = None;
    let outcome = series(&jobs(args, &plans), &setting, &mut signals, |_, made| {
        match made {
            Ok(summary) => {
                tell(&summary, &progress);
                summaries.push(summary);
                Flow::Next
            }
            // One file: what one of its runs meets, the next would meet too.
            Err(stop) => {
                wrong = Some(stop);
                Flow::Enough
            }
        }
    })
    .await;
    progress.finish();
    say::summaries(&summaries, args.json);
    let mut exit = together(&args.results.join(name), &summaries);
    for s in &summaries {
        exit = exit.worst(Exit::of(s.verdict.outcome, args.unknown));
    }
    if let Some(stop) = &wrong {
        exit = exit.worst(stopped(stop));
    }
    match outcome {
        Ok(()) => exit,
        Err(stop) => exit.worst(stopped(&stop)),
    }
}

/// Each plan as often as asked for, with seeds that count up.
fn jobs(args: &Args, plans: &[Plan]) -> Vec<Job> {
    let repeated = plans.iter().flat_map(|plan| {
        (0..args.repeat).map(|n| Job {
            file: args.file.clone(),
            plan: Plan {
                seed: streams::repetition(plan.seed, n),
                ..plan.clone()
            },
        })
    });
    repeated.collect()
}

/// One line a run, and where its page is.
fn tell(summary: &Summary, progress: &Progress) {
    progress.line(&report::tables::one_line(summary));
    let page = summary.dir.join("report.html").display().to_string();
    progress.line(&format!("page: {}", report::sanitise::visible(&page)));
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
fn together(dir: &Path, summaries: &[Summary]) -> Exit {
    if summaries.len() < 2 {
        return Exit::Ok;
    }
    if let Err(error) = report::render_several(summaries, dir) {
        return stopped::unwritten(&error);
    }
    let files = ["summary.md", "junit.xml"].map(|name| dir.join(name).display().to_string());
    say::word(&format!("all runs: {}", files.join(", ")));
    Exit::Ok
}
