//! Probes: small real requests by which a fault is proved to bite or to be gone.
//!
//! Owns the words on the wire of a probe. Must not know which fault asks.
use super::World;
use super::target::Link;
use crate::cluster::Phase;
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

/// Sends a SET of a key of its own through a link and asks the node directly whether it arrived. A Sentinel, which
/// takes no SET, is sent a PING, and whether that arrived is not known.
pub(super) async fn through(world: &World, link: &Link) -> Result<Through, String> {
    let key = format!("fencepost:probe:{}:{}", world.plan.seed, world.fresh());
    let addr = address(world, link)?;
    if link.node >= world.cluster.node_count() {
        let reply = command(addr, "PING", ANSWER).await.map(|(_, took)| took);
        return Ok(Through {
            reply,
            arrived: false,
        });
    }
    let reply = command(addr, &format!("SET {key} 1 PX 10000"), ANSWER)
        .await
        .map(|(_, took)| took);
    let asked = command(
        world.cluster.direct(link.node),
        &format!("EXISTS {key}"),
        ANSWER,
    )
    .await;
    Ok(Through {
        reply,
        arrived: asked.is_ok_and(|(answer, _)| answer == ":1"),
    })
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
        let took =
            retry(|| async { command(addr, "PING", ANSWER).await.map(|(_, took)| took) }).await?;
        proofs.push(format!(
            "{} answers in {:.1} ms",
            name(world, link),
            took.as_secs_f64() * 1e3
        ));
    }
    Ok(summary(&proofs))
}

/// The run id of a node, asked directly.
pub(super) async fn run_id(world: &World, node: usize) -> Result<String, String> {
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
