//! Probes: small real requests by which a fault is proved to bite or to be gone.
//!
//! Owns the words on the wire of a probe, in what the servers speak. Must not know which fault asks.
use super::target::Link;
use super::{World, members};
use crate::cluster::{Phase, Speaks};
use crate::etcd::Member;
use crate::zookeeper::{self, Conn};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Longest wait for one probe's answer.
pub(super) const ANSWER: Duration = Duration::from_millis(300);
/// How long the end of another fault is waited for: no load is longer in practice.
const OTHERS: Duration = Duration::from_secs(600);
/// How long a proof is looked for before there is none.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Sends one inline command on a new connection and waits for the first line of the answer.
///
/// Inline, and with no greeting before it, so that the command arrives even where no reply comes back.
pub(super) async fn command(
    addr: SocketAddr,
    line: &str,
    deadline: Duration,
) -> Result<(String, Duration), String> {
    let began = Instant::now();
    let talk = async {
        let mut stream = TcpStream::connect(addr).await?;
        stream.set_nodelay(true)?;
        stream.write_all(format!("{line}\r\n").as_bytes()).await?;
        let mut answer = vec![0; 512];
        let n = stream.read(&mut answer).await?;
        answer.truncate(n);
        std::io::Result::Ok(answer)
    };
    match tokio::time::timeout(deadline, talk).await {
        Err(_) => Err(format!("no answer within {} ms", deadline.as_millis())),
        Ok(Err(error)) => Err(error.to_string()),
        Ok(Ok(answer)) if answer.is_empty() => Err("the connection was closed".to_owned()),
        Ok(Ok(answer)) => Ok((
            String::from_utf8_lossy(&answer).trim().to_owned(),
            began.elapsed(),
        )),
    }
}

/// The smallest request that a server answers by itself: PING; of etcd its version, on either of its ports; of ZooKeeper
/// `ruok`.
pub(super) async fn ping(
    world: &World,
    addr: SocketAddr,
    deadline: Duration,
) -> Result<Duration, String> {
    match world.cluster.speaks() {
        Speaks::Resp => command(addr, "PING", deadline).await.map(|(_, took)| took),
        Speaks::Etcd => {
            let version = async |m: &Member| m.version().await;
            members::ask(addr, deadline, version)
                .await
                .map(|(_, took)| took)
        }
        Speaks::ZooKeeper => {
            let asked = zookeeper::command(addr, deadline, "ruok");
            members::timed(deadline, asked).await.map(|(_, took)| took)
        }
    }
}

/// As [`ping`], of a server that serves clients: one of ZooKeeper has words for others before.
pub(super) async fn serves(world: &World, addr: SocketAddr) -> Result<Duration, String> {
    if world.cluster.speaks() != Speaks::ZooKeeper {
        return ping(world, addr, ANSWER).await;
    }
    let status = zookeeper::status(addr, ANSWER);
    let (status, took) = members::timed(ANSWER, status).await?;
    status
        .map(|_| took)
        .ok_or_else(|| "it has no leader".to_owned())
}

/// As [`ping`], through a link.
pub(super) async fn ping_link(
    world: &World,
    link: &Link,
    addr: SocketAddr,
) -> Result<Duration, String> {
    if world.cluster.speaks() == Speaks::ZooKeeper && !link.of_client() {
        // Where the others reach it, it takes votes, and hangs up on a stranger.
        let knock = zookeeper::knock(addr, ANSWER);
        return members::timed(ANSWER, knock).await.map(|((), took)| took);
    }
    ping(world, addr, ANSWER).await
}

/// Writes a key that nobody else uses; a Redis and ZooKeeper forget it by themselves.
pub(super) async fn set(
    world: &World,
    addr: SocketAddr,
    key: &str,
    life: Duration,
) -> Result<Duration, String> {
    match world.cluster.speaks() {
        Speaks::Resp => {
            let set = format!("SET {key} 1 PX {}", life.as_millis());
            command(addr, &set, ANSWER).await.map(|(_, took)| took)
        }
        Speaks::Etcd => {
            let put = async |m: &Member| m.put(key, "1").await;
            members::ask(addr, ANSWER, put).await.map(|((), took)| took)
        }
        Speaks::ZooKeeper => {
            let (path, now) = (mark(key), Instant::now());
            let made = zookeeper::leave_mark(addr, &path, life);
            members::timed(ANSWER, made).await.map(|_| now.elapsed())
        }
    }
}

/// Whether a server has a key, asked directly; of a member of a cluster what this very one has.
pub(super) async fn exists(world: &World, node: usize, key: &str) -> Result<bool, String> {
    let addr = world.cluster.direct(node);
    match world.cluster.speaks() {
        Speaks::Resp => {
            let (answer, _) = command(addr, &format!("EXISTS {key}"), ANSWER).await?;
            match answer.as_str() {
                ":1" => Ok(true),
                ":0" => Ok(false),
                other => Err(other.to_owned()),
            }
        }
        Speaks::Etcd => {
            let read = async |m: &Member| m.read(key, true).await;
            let (entry, _) = members::ask(addr, ANSWER, read).await?;
            Ok(entry.is_some())
        }
        Speaks::ZooKeeper => {
            let read = async {
                let mut conn = Conn::open(addr, ANSWER, ANSWER).await?;
                let there = conn.exists(&mark(key)).await?;
                conn.close().await?;
                Ok::<_, zookeeper::ZkError>(there.is_some())
            };
            members::timed(ANSWER, read).await.map(|(there, _)| there)
        }
    }
}

/// What became of a probe that was sent through a link.
pub(super) struct Through {
    /// The answer's delay, or why none came.
    pub reply: Result<Duration, String>,
    /// Whether the node has executed it.
    pub arrived: bool,
}

/// Where a link is entered. Links between servers are out of reach where only published ports are.
pub(super) fn address(world: &World, link: &Link) -> Result<SocketAddr, String> {
    world.cluster.reachable(&link.client, link.node).ok_or_else(|| {
        let why = "cannot be reached from here, so nothing about it can be proved: reach = \"container\" is needed";
        format!("{} {why}", link.name)
    })
}

/// Writes a key of its own through a link and asks the node directly whether it arrived. A Sentinel, which takes no SET,
/// and a member of a cluster as the others reach it, is sent a PING, and whether that arrived is not known.
pub(super) async fn through(world: &World, link: &Link) -> Result<Through, String> {
    let key = format!("fencepost:probe:{}:{}", world.plan.seed, world.fresh());
    let addr = address(world, link)?;
    let inner = world.cluster.speaks() != Speaks::Resp && !link.of_client();
    if link.node >= world.cluster.node_count() || inner {
        let reply = ping_link(world, link, addr).await;
        return Ok(Through {
            reply,
            arrived: false,
        });
    }
    let reply = set(world, addr, &key, Duration::from_secs(10)).await;
    let arrived = exists(world, link.node, &key).await.unwrap_or(false);
    Ok(Through { reply, arrived })
}

/// Waits until every link answers again; where its server is stopped or dead by another fault, that one ends first.
pub(super) async fn all_answer(world: &World, links: &[Link]) -> super::Proof {
    let mut proofs = Vec::new();
    for link in links {
        let addr = address(world, link)?;
        let began = Instant::now();
        while world.cluster.node_state(link.node).await.phase != Phase::Running {
            if began.elapsed() > OTHERS {
                return Err(format!("{} leads to a server that is down", link.name));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let took = retry(|| async { ping_link(world, link, addr).await }).await?;
        proofs.push(format!(
            "{} answers in {:.1} ms",
            name(world, link),
            took.as_secs_f64() * 1e3
        ));
    }
    Ok(summary(&proofs))
}

/// The node that a probe leaves in ZooKeeper.
pub(super) fn mark(key: &str) -> String {
    format!("/{}", key.replace('/', "|"))
}

/// The run id of a node, asked directly; of a member of etcd the time at which its process began; of a server of ZooKeeper
/// the folder in which it works, another one after each start.
pub(super) async fn run_id(world: &World, node: usize) -> Result<String, String> {
    let at = world.cluster.direct(node);
    match world.cluster.speaks() {
        Speaks::Etcd => {
            let began = async |m: &Member| m.began().await;
            return members::ask(at, ANSWER, began).await.map(|(id, _)| id);
        }
        Speaks::ZooKeeper => {
            let said = zookeeper::command(at, ANSWER, "envi");
            let (said, _) = members::timed(ANSWER, said).await?;
            let folder = said.lines().find_map(|l| l.strip_prefix("user.dir="));
            let folder = folder.map(|f| f.trim().to_owned());
            return folder.ok_or_else(|| "`envi` names no folder".to_owned());
        }
        Speaks::Resp => {}
    }
    let (answer, _) = command(world.cluster.direct(node), "INFO server", ANSWER).await?;
    answer
        .lines()
        .find_map(|line| line.strip_prefix("run_id:"))
        .map(|id| id.trim().to_owned())
        .ok_or_else(|| "INFO names no run_id".to_owned())
}

/// Repeats a probe until it succeeds; after [`PATIENCE`] its last word is the outcome.
pub(super) async fn retry<T, F: AsyncFn() -> Result<T, String>>(probe: F) -> Result<T, String> {
    retry_for(PATIENCE, probe).await
}

/// As [`retry`], with a patience of its own.
pub(super) async fn retry_for<T, F: AsyncFn() -> Result<T, String>>(
    patience: Duration,
    probe: F,
) -> Result<T, String> {
    let began = Instant::now();
    loop {
        match probe().await {
            Ok(value) => return Ok(value),
            Err(why) if began.elapsed() > patience => return Err(why),
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

/// `c1>n2`, `n2>n1`.
pub(super) fn name(world: &World, link: &Link) -> String {
    world.cluster.proxy_name(&link.client, link.node)
}

/// The first proof, and how many more there are.
pub(super) fn summary(proofs: &[String]) -> String {
    match proofs {
        [] => "nothing to prove".to_owned(),
        [one] => one.clone(),
        [first, rest @ ..] => format!("{first} (and {} more alike)", rest.len()),
    }
}
