//! What the path itself carries: redis-benchmark on one link, SET NX PX and the release script apart.
//!
//! Owns redis-benchmark's command line and how its answer is read. Must not know the harness. Its rates go to `main`,
//! its latencies to `latency` and `tap`.
use crate::Outcome;
use std::net::SocketAddr;
use std::process::Command;

/// The release of `set-nx-lua`, as the client sends it.
const RELEASE: &str = "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";
/// Connections, as many as there are workers.
const CONNECTIONS: &str = "16";
/// So many keys that each SET NX finds none there, and is granted: a refusal is cheaper.
pub const FRESH: &str = "1000000000";
/// A key a worker.
pub const WORKERS: &str = "16";

/// What redis-benchmark gave on one link.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// `SET NX PX` a second.
    pub set: f64,
    /// `EVALSHA` of the release script a second.
    pub evalsha: f64,
}

impl Limit {
    /// One lock cycle is one of each, one after the other: 1/(1/SET + 1/EVALSHA) a second.
    pub fn cycles(self) -> f64 {
        1.0 / (1.0 / self.set + 1.0 / self.evalsha)
    }
}

/// Measures the link with `requests` of each command on 16 connections, without pipelining.
pub fn measure(link: SocketAddr, requests: u32) -> Outcome<Limit> {
    let sha = redis_cli(link, &["SCRIPT", "LOAD", RELEASE])?;
    let key = "fpbench:__rand_int__";
    let set = ["SET", key, "value", "NX", "PX", "1000"];
    let release = ["EVALSHA", sha.trim(), "1", key, "value"];
    Ok(Limit {
        set: ask(link, CONNECTIONS, requests, FRESH, &set)?.rate,
        evalsha: ask(link, CONNECTIONS, requests, WORKERS, &release)?.rate,
    })
}

fn redis_cli(link: SocketAddr, words: &[&str]) -> Outcome<String> {
    let out = at("redis-cli", link).args(words).output()?;
    Ok(String::from_utf8(out.stdout)?)
}

/// What redis-benchmark says of one command.
#[derive(Debug, Clone, Copy)]
pub struct Said {
    /// Commands a second.
    pub rate: f64,
    /// Median of the round trip, ms.
    pub p50: f64,
    /// 99 % of the round trips took no longer, ms.
    pub p99: f64,
}

/// `requests` times the command in `words`, on so many connections and keys, without pipelining.
pub fn ask(
    link: SocketAddr,
    connections: &str,
    requests: u32,
    keys: &str,
    words: &[&str],
) -> Outcome<Said> {
    let requests = requests.to_string();
    let options = ["-c", connections, "-n", &requests, "-r", keys, "--csv"];
    let out = at("redis-benchmark", link)
        .args(options)
        .args(words)
        .output()?;
    let text = String::from_utf8(out.stdout)?;
    // "test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms"
    // and below it "SET fpbench... ","12345.67",...
    let line = text.lines().rfind(|line| !line.trim().is_empty());
    let field = |n: usize| {
        let field = line.and_then(|line| line.split("\",\"").nth(n));
        let number = field.and_then(|field| field.trim_matches('"').parse().ok());
        number.ok_or_else(|| format!("redis-benchmark gave no figures: {text}"))
    };
    Ok(Said {
        rate: field(1)?,
        p50: field(4)?,
        p99: field(6)?,
    })
}

fn at(program: &str, link: SocketAddr) -> Command {
    let mut command = Command::new(program);
    let (host, port) = (link.ip().to_string(), link.port().to_string());
    command.args(["-h", &host, "-p", &port]);
    command
}
