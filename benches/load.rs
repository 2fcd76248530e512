//! `make bench`: what the harness itself costs, against redis-benchmark on the same path in the same minutes.
//!
//! Prints every limit that the project states for itself: cluster up and down, lock cycles a second through
//! Toxiproxy, shares of CPU by process, peak memory. `--quick` is the short form that `make test` runs, with limits
//! three times as wide, so that noise never turns a correct tree red. Exit 1 when a limit is missed.
//!
//! The limit of the path is 1/(1/SET + 1/EVALSHA): one lock cycle is one SET NX PX and one release script, and
//! redis-benchmark says how many of each the path carries a second with 16 connections and no pipelining.
#![allow(clippy::print_stdout, reason = "a bench prints")]
use fencepost::cluster::{self, Backend};
use fencepost::plan::{self, Overrides, Plan};
use fencepost::run::session::Session;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const RELEASE: &str = "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";
/// Least share of the path's limit that 16 workers of one client reach.
const SHARE: f64 = 0.7;
/// Longest start of five nodes and Toxiproxy, and longest removal.
const UP: Duration = Duration::from_secs(5);
const DOWN: Duration = Duration::from_secs(3);
/// Most memory of the driver, checking included, MiB.
const MEMORY: u64 = 150;

struct Limits {
    slack: f64,
    missed: bool,
}

impl Limits {
    fn say(&mut self, what: &str, text: &str, kept: bool) {
        println!("{} {what}: {text}", if kept { "ok    " } else { "MISSED" });
        self.missed |= !kept;
    }
}

fn main() -> std::process::ExitCode {
    // The clients and the reaper are this very binary, started again with a subcommand.
    if std::env::args()
        .nth(1)
        .is_some_and(|arg| arg == "client" || arg == "reaper")
    {
        return fencepost::cli::main();
    }
    let quick = std::env::args().any(|arg| arg == "--quick");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let mut limits = Limits {
        slack: if quick { 3.0 } else { 1.0 },
        missed: false,
    };
    let outcome = tokio::task::LocalSet::new().block_on(&runtime, all(quick, &mut limits));
    if let Err(error) = outcome {
        println!("MISSED the bench itself: {error}");
        limits.missed = true;
    }
    u8::from(limits.missed).into()
}

async fn all(quick: bool, limits: &mut Limits) -> Outcome<()> {
    let choice = std::env::var("FENCEPOST_BACKEND").unwrap_or_else(|_| "auto".into());
    let (backend, why) = cluster::resolve(Backend::parse(&choice)?).await;
    println!("backend: {why}");
    up_and_down(backend, if quick { 1 } else { 5 }, limits).await?;
    cycles(backend, if quick { 1 } else { 5 }, limits).await?;
    memory(if quick { 20 } else { 300 }, limits)
}

/// Starts and removes five nodes and Toxiproxy.
async fn up_and_down(backend: Backend, rounds: usize, limits: &mut Limits) -> Outcome<()> {
    let plan =
        load("cluster = { topology = \"independent\", nodes = 5 }\nlock = { name = \"redlock\" }")?;
    let (mut up, mut down) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let began = Instant::now();
        let session = Session::start(&plan, backend, Session::reaper()?).await?;
        up.push(began.elapsed().as_secs_f64());
        let began = Instant::now();
        session.stop().await?;
        down.push(began.elapsed().as_secs_f64());
    }
    for (what, times, limit) in [
        ("cluster of five ready", up, UP),
        ("cluster of five removed", down, DOWN),
    ] {
        let limit = limit.as_secs_f64() * limits.slack;
        let (median, worst) = (median(&times), times.iter().copied().fold(0.0, f64::max));
        let text =
            format!("median {median:.2} s, worst {worst:.2} s of {rounds} (limit {limit:.0} s)");
        limits.say(what, &text, worst <= limit);
    }
    Ok(())
}

/// Lock cycles a second, each round between two of redis-benchmark on the same link.
async fn cycles(backend: Backend, rounds: usize, limits: &mut Limits) -> Outcome<()> {
    let shapes = [
        ("one connection a worker", 1, 16, "worker"),
        ("one pipelined connection", 1, 16, "shared"),
        ("four clients of four", 4, 4, "worker"),
    ];
    for (name, clients, workers, connection) in shapes {
        let text = format!(
            "lock = {{ name = \"set-nx-lua\", ttl = \"10s\", connection = \"{connection}\" }}\n\
             load = {{ clients = {clients}, workers = {workers}, keys = 16, work = {{ fixed = \"0ms\" }}, for = \"4s\", tail = \"100ms\" }}"
        );
        let plan = load(&text)?;
        let session = Session::start(&plan, backend, Session::reaper()?).await?;
        let link = session.cluster.link("c1", 0);
        let (mut shares, mut rates) = (Vec::new(), Vec::new());
        let before = cpu();
        let mut limit = path_limit(link)?;
        for round in 0..rounds {
            let rate = one_load(&session, &plan, round as u64).await?;
            let after = path_limit(link)?;
            shares.push(rate / f64::midpoint(limit, after));
            rates.push(rate);
            limit = after;
        }
        let text = format!(
            "median {:.2} of redis-benchmark's limit ({}), median {:.0} cycles/s through Toxiproxy ({})",
            median(&shares),
            shares
                .iter()
                .map(|s| format!("{s:.2}"))
                .collect::<Vec<_>>()
                .join(" "),
            median(&rates),
            session.cluster.reach(),
        );
        let least = SHARE / limits.slack;
        let kept = connection != "worker" || clients != 1 || median(&shares) >= least;
        let stated = if clients == 1 && connection == "worker" {
            format!(" (limit {least:.2})")
        } else {
            String::new()
        };
        limits.say(name, &format!("{text}{stated}"), kept);
        println!("       CPU shares: {}", shares_of_cpu(&before, &cpu()));
        session.stop().await?;
    }
    Ok(())
}

async fn one_load(session: &Session, plan: &Plan, round: u64) -> Outcome<f64> {
    let results = tempfile::tempdir()?;
    let plan = Rc::new(Plan {
        seed: round,
        ..plan.clone()
    });
    let prefix = format!("fp:bench:{round}:");
    let done = fencepost::run::run(session, plan.clone(), &prefix, results.path(), &()).await?;
    let (first, last, released) = loads_of(&done.dir.join("history.jsonl"))?;
    Ok(released as f64 / (last - first))
}

/// Begin and end of the load (s) and the releases that were answered ok in between.
fn loads_of(history: &Path) -> Outcome<(f64, f64, u64)> {
    let text = std::fs::read_to_string(history)?;
    let (mut first, mut last, mut released) = (0.0, 0.0, 0);
    for line in text.lines().skip(1) {
        if line.contains("\"f\":\"release\"") && line.contains("\"type\":\"ok\"") && last == 0.0 {
            released += 1;
        } else if line.contains("\"f\":\"phase\"") {
            let event: serde_json::Value = serde_json::from_str(line)?;
            let time = event["time"].as_f64().unwrap_or_default() / 1e9;
            match event["value"]["phase"].as_str() {
                Some("load") => (first, released) = (time, 0),
                Some("heal") => last = time,
                _ => {}
            }
        }
    }
    Ok((first, last, released))
}

/// What the path carries: 1/(1/SET + 1/EVALSHA) a second.
fn path_limit(link: std::net::SocketAddr) -> Outcome<f64> {
    let sha = redis_cli(link, &["SCRIPT", "LOAD", RELEASE])?;
    let set = benchmark(
        link,
        &["SET", "fpbench:__rand_int__", "value", "NX", "PX", "1000"],
    )?;
    let evalsha = benchmark(
        link,
        &["EVALSHA", sha.trim(), "1", "fpbench:__rand_int__", "value"],
    )?;
    Ok(1.0 / (1.0 / set + 1.0 / evalsha))
}

fn redis_cli(link: std::net::SocketAddr, words: &[&str]) -> Outcome<String> {
    let (host, port) = (link.ip().to_string(), link.port().to_string());
    let out = Command::new("redis-cli")
        .args(["-h", &host, "-p", &port])
        .args(words)
        .output()?;
    Ok(String::from_utf8(out.stdout)?)
}

fn benchmark(link: std::net::SocketAddr, words: &[&str]) -> Outcome<f64> {
    let (host, port) = (link.ip().to_string(), link.port().to_string());
    let options = [
        "-h", &host, "-p", &port, "-c", "16", "-n", "15000", "-r", "16", "--csv",
    ];
    let out = Command::new("redis-benchmark")
        .args(options)
        .args(words)
        .output()?;
    let text = String::from_utf8(out.stdout)?;
    let line = text
        .lines()
        .rev()
        .find(|l| !l.trim().is_empty())
        .ok_or("redis-benchmark said nothing")?;
    let rate = line
        .rsplit("\",\"")
        .find_map(|_| line.split("\",\"").nth(1))
        .ok_or("redis-benchmark gave no rate")?;
    Ok(rate.trim_matches('"').parse()?)
}

/// CPU time in clock ticks by the name of the process.
fn cpu() -> BTreeMap<String, u64> {
    let mut by_name = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else {
            continue;
        };
        let Some((head, tail)) = stat.rsplit_once(") ") else {
            continue;
        };
        let name = head
            .split_once('(')
            .map_or(head, |(_, name)| name)
            .to_owned();
        let fields: Vec<&str> = tail.split(' ').collect();
        let ticks = |n: usize| {
            fields
                .get(n)
                .and_then(|f| f.parse::<u64>().ok())
                .unwrap_or(0)
        };
        let own = entry.file_name().to_string_lossy() == std::process::id().to_string();
        let name = if own { "harness".to_owned() } else { name };
        // Own time, and that of children that have been waited for (clients of earlier rounds).
        *by_name.entry(name).or_default() += ticks(11) + ticks(12);
        if own {
            *by_name.entry("clients (ended)".to_owned()).or_default() += ticks(13) + ticks(14);
        }
    }
    by_name
}

fn shares_of_cpu(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> String {
    let mut spent: Vec<(u64, &String)> = after
        .iter()
        .map(|(name, t)| {
            (
                t.saturating_sub(before.get(name).copied().unwrap_or(0)),
                name,
            )
        })
        .collect();
    spent.sort_unstable_by(|a, b| b.cmp(a));
    let total: u64 = spent.iter().map(|(t, _)| t).sum::<u64>().max(1);
    let share =
        |(t, name): &(u64, &String)| format!("{name} {:.0} %", *t as f64 * 100.0 / total as f64);
    spent
        .iter()
        .take(6)
        .map(share)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Peak memory of a driver at 500 cycles a second, its own check included.
fn memory(seconds: u64, limits: &mut Limits) -> Outcome<()> {
    let results = tempfile::tempdir()?;
    let file = results.path().join("memory.toml");
    let text = format!(
        "lock = {{ name = \"set-nx-lua\", ttl = \"10s\" }}\n\
         load = {{ clients = 1, workers = 16, keys = 16, work = {{ fixed = \"1ms\" }}, rate = 500, for = \"{seconds}s\", tail = \"1s\" }}"
    );
    std::fs::write(&file, text)?;
    let binary = std::env::current_exe()?;
    let binary = binary
        .parent()
        .and_then(Path::parent)
        .ok_or("no target folder")?
        .join("fencepost");
    let mut driver = Command::new(binary)
        .arg("run")
        .arg(&file)
        .args(["--json", "--unknown", "warn", "--results"])
        .arg(results.path())
        .stdout(std::process::Stdio::null())
        .spawn()?;
    let mut peak = 0;
    while driver.try_wait()?.is_none() {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", driver.id())).unwrap_or_default();
        let kib = status.lines().find_map(|l| {
            l.strip_prefix("VmHWM:")?
                .trim()
                .strip_suffix(" kB")?
                .parse()
                .ok()
        });
        peak = peak.max(kib.unwrap_or(0));
        std::thread::sleep(Duration::from_millis(20));
    }
    let limit = MEMORY as f64 * limits.slack;
    let text = format!(
        "{} MiB at 500 cycles/s for {seconds} s, checking included (limit {limit:.0} MiB)",
        peak / 1024
    );
    limits.say(
        "peak memory of the driver",
        &text,
        peak > 0 && f64::from(peak / 1024) <= limit,
    );
    Ok(())
}

fn load(text: &str) -> Outcome<Plan> {
    let file = tempfile::Builder::new().suffix(".toml").tempfile()?;
    std::fs::write(file.path(), text)?;
    Ok(plan::load(file.path(), &Overrides::default())?.remove(0))
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}
