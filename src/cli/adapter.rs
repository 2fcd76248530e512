//! `fencepost adapter check`: does an adapter keep to the client protocol?
//!
//! Owns the flags, how the findings are shown, and which exit code they are. Must not know the rules:
//! [`crate::client::conformance`] has them.
use super::exit::Exit;
use super::{say, signals::Signals};
use crate::client::conformance::{self, Finding, Grade, Servers, Setup};
use crate::client::{ClientSpec, Init};
use crate::cluster::{self, Backend, Cluster, ClusterError, Speaks, Spec};
use crate::own::Own;
use crate::plan::{ClusterPlan, Persistence, Reach, Topology, duration, replicated};
use crate::reaper::Reaper;
use crate::report::sanitise::visible;
use crate::run::members::MemberServers;
use crate::run::servers::ClusterServers;
use crate::run::session::Session;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;
use tokio::runtime::LocalOptions;

/// Arguments of `adapter`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fencepost adapter check -- python3 adapters/example.py
  fencepost adapter check --nodes 3 -- node adapters/node/redlock.js --version 4.2.0")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Start an adapter, ask it everything that PROTOCOL.md knows, and tell what it gets wrong.
    ///
    /// It judges the adapter, not the lock: no fault but silent servers and a stopped process. Exit: 0 nothing wrong;
    /// 1 something wrong; 64 no handshake; 69 no servers.
    Check(Check),
}

/// A lease, which takes some time.
fn lease(text: &str) -> Result<Duration, String> {
    match duration::parse(text) {
        Ok(length) if length.is_zero() => Err("a lease of no time is none".to_owned()),
        Ok(length) => Ok(length),
        Err(error) => Err(error.to_string()),
    }
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fencepost adapter check -- python3 adapters/example.py
  fencepost adapter check --nodes 3 -- node adapters/node/redlock.js --version 4.2.0
  fencepost adapter check --topology etcd -- adapters/go/run etcd_mutex
  fencepost adapter check --ttl 10s --option auto_renewal=true -- python3 my_adapter.py")]
struct Check {
    /// Servers: one, or several that know nothing of each other. With `--topology` members of one cluster, 3 by default.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=15))]
    nodes: Option<u32>,
    /// Servers that agree by consensus, instead of Redis (docker).
    #[arg(long, value_name = "NAME", value_parser = ["etcd", "zookeeper"])]
    topology: Option<String>,
    /// The lease to ask for.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = lease)]
    ttl: Duration,
    /// Bound on one command to one server.
    #[arg(long, value_name = "DURATION", default_value = "500ms", value_parser = duration::parse)]
    node_timeout: Duration,
    /// Longest that the adapter may take to start and give its first answer.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse)]
    start_limit: Duration,
    /// Workers, numbered from 0.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..=64))]
    workers: u32,
    /// An option for `init`, such as `retries=3`; the value is TOML, else a text. May be given more than once.
    #[arg(long = "option", value_name = "KEY=VALUE", value_parser = option)]
    options: Vec<(String, serde_json::Value)>,
    /// Environment variables let through beside PATH, HOME and LANG. May be given more than once.
    #[arg(long, value_name = "NAME")]
    env: Vec<String>,
    /// Where servers run: in Docker, as child processes, or in Docker where an engine answers, else as processes.
    #[arg(long, default_value = "auto", env = "FENCEPOST_BACKEND", value_parser = ["auto", "docker", "local"])]
    backend: String,
    /// Image of the servers (docker); by default the one that workloads take.
    #[arg(long, value_name = "NAME")]
    image: Option<String>,
    /// Print a JSON object a rule on stdout.
    #[arg(long)]
    json: bool,
    /// The adapter and its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

impl Check {
    fn topology(&self) -> Topology {
        match self.topology.as_deref() {
            Some("etcd") => Topology::Etcd,
            Some(_) => Topology::ZooKeeper,
            None if self.nodes() == 1 => Topology::Single,
            None => Topology::Independent,
        }
    }

    fn nodes(&self) -> u32 {
        let default = if self.topology.is_some() { 3 } else { 1 };
        self.nodes.unwrap_or(default)
    }
}

/// `key=value`.
fn option(text: &str) -> Result<(String, serde_json::Value), String> {
    let (key, value) = text
        .split_once('=')
        .filter(|(key, _)| !key.is_empty())
        .ok_or("expected KEY=VALUE")?;
    let parsed = toml::from_str::<toml::Table>(&format!("v = {value}"))
        .ok()
        .and_then(|table| serde_json::to_value(table.get("v")?).ok());
    let value = parsed.unwrap_or_else(|| value.into());
    Ok((key.to_owned(), value))
}

pub fn main(args: &Args) -> Exit {
    let Command::Check(args) = &args.command;
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
    let exit = runtime.block_on(check(args));
    runtime.shutdown_timeout(Duration::from_millis(100));
    exit
}

async fn check(args: &Check) -> Exit {
    match with_servers(args).await {
        Ok(exit) => exit,
        Err(error) => {
            say::error(&error, error.hint().as_deref());
            Exit::Missing
        }
    }
}

async fn with_servers(args: &Check) -> Result<Exit, ClusterError> {
    let mut signals = Signals::listen().map_err(disk)?;
    let choice = Backend::parse(&args.backend)?;
    let (backend, why) = cluster::resolve(choice).await;
    say::word(&format!(
        "{} on {}; {why}",
        args.command.join(" "),
        nodes(args.nodes())
    ));
    let reaper = Session::reaper(Own::this())?;
    let findings = tokio::select! {
        findings = started(args, backend, &reaper) => findings,
        exit = signals.heard() => {
            reaper.finish().await;
            say::word("interrupted; everything that was started is removed");
            return Ok(exit);
        }
    };
    reaper.finish().await;
    Ok(show(&findings?, args.json))
}

fn disk(source: std::io::Error) -> ClusterError {
    let path = std::env::temp_dir();
    ClusterError::Disk { path, source }
}

fn nodes(n: u32) -> String {
    crate::report::tables::plural(u64::from(n), "server")
}

/// Starts the servers, asks, and stops them.
async fn started(
    args: &Check,
    backend: Backend,
    reaper: &Reaper,
) -> Result<Vec<Finding>, ClusterError> {
    let cluster = Cluster::start(spec(args, backend, reaper), reaper).await?;
    let cluster = Rc::new(cluster);
    let servers: Box<dyn Servers> = match cluster.speaks() {
        Speaks::Resp => Box::new(ClusterServers::new(cluster.clone())),
        Speaks::Etcd | Speaks::ZooKeeper => Box::new(MemberServers::new(cluster.clone())),
    };
    let logs = tempfile::tempdir().map_err(disk)?;
    let dir = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
    let ms = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
    let setup = Setup {
        spec: ClientSpec {
            name: String::new(),
            argv: args.command.clone(),
            env: args.env.clone(),
            variables: Vec::new(),
            log: PathBuf::new(),
            dir,
        },
        logs: logs.path().to_owned(),
        init: Init {
            ttl_ms: ms(args.ttl),
            prefix: format!("fp:{}:", reaper.run()),
            node_timeout_ms: ms(args.node_timeout),
            workers: args.workers,
            options: args.options.iter().cloned().collect(),
            ..Init::default()
        },
        start_limit: args.start_limit,
        reaper,
        servers: &*servers,
    };
    let findings = conformance::check(&setup, |part| say::word(&format!("… {part}"))).await;
    drop(servers);
    if let Ok(cluster) = Rc::try_unwrap(cluster) {
        cluster.stop().await?;
    }
    Ok(findings)
}

fn spec(args: &Check, backend: Backend, reaper: &Reaper) -> Spec {
    let topology = args.topology();
    let persistence = match topology {
        Topology::Etcd | Topology::ZooKeeper => Persistence::AofAlways,
        _ => Persistence::None,
    };
    let default_image = || replicated::image(Some(topology)).to_owned();
    Spec {
        backend,
        plan: ClusterPlan {
            topology,
            nodes: args.nodes(),
            persistence,
            image: args.image.clone().unwrap_or_else(default_image),
            toxiproxy_image: "fencepost/toxiproxy:2.12".to_owned(),
            reach: Reach::Auto,
            shim: false,
            down_after: None,
            min_replicas: None,
            max_lag: None,
        },
        clients: vec!["c1".to_owned(), "c2".to_owned()],
        run: reaper.run().to_owned(),
        dir: reaper.scratch().to_owned(),
        command: Vec::new(),
    }
}

fn show(findings: &[Finding], json: bool) -> Exit {
    for f in findings {
        let line = if json {
            let line = serde_json::json!({
                "rule": f.rule, "grade": f.grade.name(), "seen": f.seen, "page": f.page,
            });
            line.to_string()
        } else {
            line(f)
        };
        say::data(&line);
    }
    let count = |grade| findings.iter().filter(|f| f.grade == grade).count();
    let (wrong, not_tried) = (count(Grade::Wrong), count(Grade::NotTried));
    say::word(&format!(
        "{} ok, {} to note, {wrong} wrong, {not_tried} not tried",
        count(Grade::Ok),
        count(Grade::Note),
    ));
    let no_handshake = |f: &Finding| f.rule == "handshake" && f.grade == Grade::Wrong;
    if findings.iter().any(no_handshake) {
        say::word("hint: PROTOCOL.md has the handshake and a complete example");
        Exit::Usage
    } else if wrong + not_tried > 0 {
        say::word("hint: each line names its place in PROTOCOL.md");
        Exit::Failed
    } else {
        Exit::Ok
    }
}

/// `wrong      owner           told "a", the key holds "b" (PROTOCOL.md: Requests, acquire)`; the place only where
/// something is to be read.
fn line(f: &Finding) -> String {
    let seen = f
        .seen
        .lines()
        .map(str::trim)
        .collect::<Vec<_>>()
        .join(" | ");
    let seen = visible(&seen);
    let place = match f.grade {
        Grade::Ok | Grade::NotTried => String::new(),
        Grade::Note | Grade::Wrong => format!(" (PROTOCOL.md: {})", f.page),
    };
    format!("{:<10} {:<15} {seen}{place}", f.grade.name(), f.rule)
}
