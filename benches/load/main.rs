//! `make bench`: what the harness itself costs, against redis-benchmark on the same path in the same minutes.
//!
//! Prints every limit that the project states for itself: cluster up and down, lock cycles a second through
//! Toxiproxy, shares of CPU by process, latencies, peak memory. `--quick` is the short form that `make test` runs, with limits
//! three times as wide, so that noise never turns a correct tree red. Exit 1 when a limit is missed.
//!
//! The limit of the path is 1/(1/SET + 1/EVALSHA): one lock cycle is one SET NX PX and one release script, and
//! redis-benchmark says how many of each the path carries a second with 16 connections and no pipelining; its SETs are
//! granted, as a cycle's is. Each round of cycles lies between two of redis-benchmark on the same link and is divided by
//! their mean.
#![allow(clippy::print_stdout, reason = "a bench prints")]
mod cpu;
mod latency;
mod memory;
mod path;
mod tap;

use cpu::{LoadMeter, Spent};
use fencepost::cluster::{self, Backend};
use fencepost::own::Own;
use fencepost::plan::{self, Overrides, Plan};
use fencepost::run::Watcher;
use fencepost::run::session::Session;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::runtime::LocalOptions;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Least share of the path's limit that 16 workers of one client reach, one connection a worker.
const SHARE: f64 = 0.7;
/// Longest start of five nodes and Toxiproxy, and longest removal.
const UP: Duration = Duration::from_secs(5);
const DOWN: Duration = Duration::from_secs(3);
/// Most that the tap adds to the median round trip of one client, in µs.
const TAP: f64 = 60.0;
/// Most by which the latencies of a run may differ from redis-benchmark's on the same path, at p50 and at p99.
const APART: (f64, f64) = (0.10, 0.25);
/// What that path adds on the way to the server, as a path through a network does: the driver's and the client's own
/// share is told on the bare path.
const AWAY: Duration = Duration::from_millis(5);
/// Most memory of the driver, checking included, MiB.
const MEMORY: u64 = 150;

/// How long everything takes.
struct Size {
    /// Starts and removals of a cluster.
    clusters: usize,
    /// Rounds of a shape that is held to a limit, and of one that is only printed.
    rounds: (usize, usize),
    /// Of redis-benchmark, by command.
    requests: u32,
    load: &'static str,
    memory_s: u64,
    /// Limits are this much wider.
    slack: f64,
}

const FULL: Size = Size {
    clusters: 5,
    rounds: (11, 5),
    requests: 20_000,
    load: "4s",
    memory_s: 300,
    slack: 1.0,
};

const QUICK: Size = Size {
    clusters: 1,
    rounds: (3, 1),
    requests: 5_000,
    load: "1s",
    memory_s: 8,
    slack: 3.0,
};

/// A way to spread 16 workers.
struct Shape {
    name: &'static str,
    clients: u32,
    connection: &'static str,
    /// It has to reach [`SHARE`]; the others are printed.
    held: bool,
}

const SHAPES: [Shape; 3] = [
    Shape {
        name: "one client of 16, a connection a worker",
        clients: 1,
        connection: "worker",
        held: true,
    },
    Shape {
        name: "one client of 16, one pipelined connection",
        clients: 1,
        connection: "shared",
        held: false,
    },
    Shape {
        name: "four clients of 4, a connection a worker",
        clients: 4,
        connection: "worker",
        held: false,
    },
];

/// What was missed so far.
#[derive(Default)]
struct Limits {
    missed: bool,
}

impl Limits {
    fn say(&mut self, what: &str, text: &str, kept: bool) {
        println!("{} {what}: {text}", if kept { "ok    " } else { "MISSED" });
        self.missed |= !kept;
    }
}

fn main() -> std::process::ExitCode {
    // The clients, the reaper and the memory's driver are this very binary, started again with a subcommand.
    let word = std::env::args().nth(1);
    if word.as_ref().is_some_and(|word| !word.starts_with('-')) {
        return fencepost::cli::main();
    }
    let size = match word.as_deref() {
        None => &FULL,
        Some("--quick") => &QUICK,
        Some(other) => {
            println!("`{other}` is no flag of the bench; there is --quick");
            return 64.into();
        }
    };
    let mut limits = Limits::default();
    if let Err(error) = bench(size, &mut limits) {
        println!("MISSED the bench itself: {error}");
        limits.missed = true;
    }
    u8::from(limits.missed).into()
}

fn bench(size: &Size, limits: &mut Limits) -> Outcome<()> {
    // The kind of runtime that `fencepost run` uses: a `LocalSet` would wake itself by a write(2) each turn.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())?;
    let part = std::env::var("FENCEPOST_BENCH").unwrap_or_default();
    let wanted = |name: &str| part.is_empty() || part == name;
    let measured = async {
        let choice = std::env::var("FENCEPOST_BACKEND").unwrap_or_else(|_| "auto".into());
        let (backend, why) = cluster::resolve(Backend::parse(&choice)?).await;
        println!("backend {why}; load average {}", load_average());
        if wanted("cluster") {
            up_and_down(backend, size, limits).await?;
        }
        if wanted("tap") {
            tap_costs(backend, size, limits).await?;
        }
        if wanted("latency") {
            latencies(backend, size, limits).await?;
        }
        for shape in SHAPES.iter().filter(|_| wanted("cycles")) {
            cycles(backend, shape, size, limits).await?;
        }
        Outcome::Ok(backend)
    };
    let backend = runtime.block_on(measured)?;
    if wanted("memory") {
        peak_memory(backend, size, limits)?;
    }
    Ok(())
}

/// Starts and removes five nodes and Toxiproxy.
async fn up_and_down(backend: Backend, size: &Size, limits: &mut Limits) -> Outcome<()> {
    let plan =
        load("cluster = { topology = \"independent\", nodes = 5 }\nlock = { name = \"redlock\" }")?;
    let (mut up, mut down) = (Vec::new(), Vec::new());
    for _ in 0..size.clusters {
        let began = Instant::now();
        let session = Session::start(&plan, backend, Session::reaper(Own::this())?).await?;
        up.push(began.elapsed().as_secs_f64());
        let began = Instant::now();
        session.stop().await?;
        down.push(began.elapsed().as_secs_f64());
    }
    for (what, times, limit) in [
        ("five nodes and Toxiproxy ready", up, UP),
        ("five nodes and Toxiproxy removed", down, DOWN),
    ] {
        let limit = limit.as_secs_f64() * size.slack;
        let worst = times.iter().copied().fold(0.0, f64::max);
        let text = format!(
            "worst {worst:.2} s of {} (limit {limit:.0} s; load average {})",
            list(&times),
            load_average()
        );
        limits.say(what, &text, worst <= limit);
    }
    Ok(())
}

/// What the tap adds to a round trip, measured against the same link without it.
async fn tap_costs(backend: Backend, size: &Size, limits: &mut Limits) -> Outcome<()> {
    let plan = load("lock = { name = \"set-nx-lua\" }\nload = { clients = 1 }")?;
    let session = Session::start(&plan, backend, Session::reaper(Own::this())?).await?;
    let measured = tap::measure(&session.cluster, size.rounds.0, size.requests / 2).await;
    session.stop().await?;
    let rounds = measured?;
    let added: Vec<f64> = rounds.iter().map(|r| r.tapped - r.bare).collect();
    let limit = TAP * size.slack;
    let bare: Vec<f64> = rounds.iter().map(|r| r.bare).collect();
    let text = format!(
        "median {:.0} µs more at one client (limit {limit:.0}): {}; the link itself {:.0} µs; load average {}",
        median(&added),
        list(&added),
        median(&bare),
        load_average()
    );
    limits.say("the tap", &text, median(&added) <= limit);
    Ok(())
}

/// The latency of a run's acquires against redis-benchmark's on the same path, one client and one connection.
async fn latencies(backend: Backend, size: &Size, limits: &mut Limits) -> Outcome<()> {
    let plan = load(&format!(
        "lock = {{ name = \"set-nx-lua\", ttl = \"10s\" }}\n\
         load = {{ clients = 1, work = {{ fixed = \"0ms\" }}, for = \"{}\", tail = \"100ms\" }}",
        size.load
    ))?;
    for away in [Duration::ZERO, AWAY] {
        let session = Session::start(&plan, backend, Session::reaper(Own::this())?).await?;
        let requests = if away.is_zero() {
            size.requests / 4
        } else {
            300
        };
        let measured = latency::measure(&session, &plan, away, size.rounds.0, requests).await;
        session.stop().await?;
        let rounds = measured?;
        let (p50, p99) = (
            latency::apart(&rounds, |q| q.p50),
            latency::apart(&rounds, |q| q.p99),
        );
        let each: Vec<String> = rounds
            .iter()
            .map(|r| {
                format!(
                    "{:.2}/{:.2} beside {:.2}/{:.2}",
                    r.run.p50, r.run.p99, r.path.p50, r.path.p99
                )
            })
            .collect();
        let text = format!(
            "p50 {:+.0} %, p99 {:+.0} % off redis-benchmark's: ms {}; load average {}",
            p50 * 100.0,
            p99 * 100.0,
            each.join(", "),
            load_average()
        );
        if away.is_zero() {
            println!("       latency of acquires on the bare path: {text}");
            continue;
        }
        let (at50, at99) = (APART.0 * size.slack, APART.1 * size.slack);
        // The short form has too few acquires for a 99th percentile to be more than its slowest.
        let kept = p50.abs() <= at50 && (size.slack > 1.0 || p99.abs() <= at99);
        let what = format!(
            "latency of acquires, the server {} ms away (limits {:.0} %, {:.0} %)",
            away.as_millis(),
            at50 * 100.0,
            at99 * 100.0
        );
        limits.say(&what, &text, kept);
    }
    Ok(())
}

/// Lock cycles a second, each round between two of redis-benchmark on the same link.
async fn cycles(backend: Backend, shape: &Shape, size: &Size, limits: &mut Limits) -> Outcome<()> {
    let (clients, workers, length) = (shape.clients, 16 / shape.clients, size.load);
    let plan = load(&format!(
        "lock = {{ name = \"set-nx-lua\", ttl = \"10s\", connection = \"{}\" }}\n\
         load = {{ clients = {clients}, workers = {workers}, keys = 16, work = {{ fixed = \"0ms\" }}, for = \"{length}\", tail = \"100ms\" }}",
        shape.connection
    ))?;
    let session = Session::start(&plan, backend, Session::reaper(Own::this())?).await?;
    let link = session.cluster.link("c1", 0);
    let (mut shares, mut rates, mut paths) = (Vec::new(), Vec::new(), Vec::new());
    let (mut spent, mut done) = (Spent::default(), 0.0);
    let meter = LoadMeter::new(&session.id);
    let mut bare = Spent::default();
    let mut before = path::measure(link, size.requests)?;
    let rounds = if shape.held {
        size.rounds.0
    } else {
        size.rounds.1
    };
    for round in 0..rounds {
        let (seconds, released) = one_load(&session, &plan, round as u64, &meter).await?;
        spent.add(&meter.take().ok_or("the load had no begin or end")?);
        let (after, alone) = meter.around(|| path::measure(link, size.requests));
        let after = after?;
        bare.add(&alone);
        let path = f64::midpoint(before.cycles(), after.cycles());
        let rate = released as f64 / seconds;
        shares.push(rate / path);
        rates.push(rate);
        paths.push(path);
        before = after;
        done += released as f64;
    }
    let share = median(&shares);
    let least = SHARE / size.slack;
    let limit = if shape.held {
        format!(" (limit {least:.2})")
    } else {
        String::new()
    };
    let text = format!(
        "median {share:.2} of redis-benchmark's limit{limit}: {}",
        list(&shares)
    );
    limits.say(shape.name, &text, !shape.held || share >= least);
    println!(
        "       {:.0} cycles/s through Toxiproxy at the {} (median), path {:.0}; load average {}",
        median(&rates),
        session.cluster.reach(),
        median(&paths),
        load_average()
    );
    println!("       CPU: {}", spent.shares(done));
    let asked = f64::from(size.requests) * rounds as f64;
    println!("       CPU of redis-benchmark: {}", bare.shares(asked));
    let (whole, path) = (spent.own_micros(done), bare.own_micros(asked));
    println!(
        "       CPU a cycle, whoever else runs: {whole:.0} µs, redis-benchmark's path {path:.0} ({:.2})",
        path / whole
    );
    session.stop().await?;
    Ok(())
}

/// Seconds of the load phase, and the releases answered ok in it.
async fn one_load(
    session: &Session,
    plan: &Plan,
    round: u64,
    meter: &LoadMeter,
) -> Outcome<(f64, u64)> {
    let results = tempfile::tempdir()?;
    loads_of(&run_once(session, plan, round, results.path(), meter).await?)
}

/// One run with fresh keys; where its history is.
async fn run_once(
    session: &Session,
    plan: &Plan,
    round: u64,
    results: &Path,
    watcher: &dyn Watcher,
) -> Outcome<PathBuf> {
    let plan = Rc::new(Plan {
        seed: round,
        ..plan.clone()
    });
    let prefix = format!("fp:bench:{round}:");
    let done = fencepost::run::run(session, plan, &prefix, results, watcher).await?;
    Ok(done.dir.join("history.jsonl"))
}

fn loads_of(history: &Path) -> Outcome<(f64, u64)> {
    let (mut first, mut released) = (0.0, 0);
    for line in std::io::BufReader::new(std::fs::File::open(history)?).lines() {
        let line = line?;
        if line.contains("\"type\":\"ok\",\"f\":\"release\"") {
            released += 1;
        } else if line.contains("\"f\":\"phase\"") {
            let event: serde_json::Value = serde_json::from_str(&line)?;
            let time = event["time"].as_f64().unwrap_or_default() / 1e9;
            match event["value"]["phase"].as_str() {
                Some("load") => (first, released) = (time, 0),
                Some("heal") => return Ok((time - first, released)),
                _ => {}
            }
        }
    }
    Err("the history has no load phase".into())
}

/// Peak memory of a driver at 500 cycles a second, its own check included.
fn peak_memory(backend: Backend, size: &Size, limits: &mut Limits) -> Outcome<()> {
    let seconds = size.memory_s;
    let peak = memory::measure(backend.name(), seconds)?;
    let limit = (MEMORY as f64 * size.slack) as u64;
    let text = format!(
        "{} MiB at {} cycles/s for {seconds} s, checking included (limit {limit} MiB); {} events, {} MiB of history; {}",
        peak.mib,
        memory::RATE,
        peak.events,
        peak.history_mib,
        peak.status,
    );
    let kept = peak.status.success() && peak.mib > 0 && peak.mib <= limit;
    limits.say("peak memory of the driver", &text, kept);
    Ok(())
}

fn load(text: &str) -> Outcome<Plan> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("bench.toml");
    std::fs::write(&file, text)?;
    Ok(plan::load(&file, &Overrides::default())?.remove(0))
}

fn list(values: &[f64]) -> String {
    let each = values.iter().map(|v| format!("{v:.2}"));
    each.collect::<Vec<_>>().join(" ")
}

fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("?").to_owned()
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}
