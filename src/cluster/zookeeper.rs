//! The servers of a ZooKeeper ensemble: what they are told, and when they are one ensemble.
//!
//! Owns their settings and the proof that they have a leader. Must not know how servers are started, or their addresses:
//! those are `layout`'s. `cluster` hands the settings to a backend.
//!
//! Each server is one container; the others reach it by the two addresses that `layout` gives it, for votes and for the
//! quorum's traffic, through Toxiproxy. A server tells others its own address as it finds it looked up, and they connect
//! back to that; but Toxiproxy has another address in each server's network. So each server has a name of its own, which
//! the image looks up for all servers but the one it runs: that one tells its name, and each finds what it means for itself.
use super::layout::Layout;
use super::probe::answered;
use crate::zookeeper::{Status, command, status};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A server's port for clients, inside its container.
pub(super) const CLIENTS: u16 = 2181;
/// The grain of a server's time, ms: sessions end at a multiple of it, and a leader is heard from twice in it.
const TICK_MS: u32 = 100;
/// Ticks without a word after which a leader and its followers leave each other.
const SYNC_LIMIT: u32 = 8;
/// Ticks in which a follower must have caught up with a new leader. An election that came to nothing costs as much, and
/// some do: through Toxiproxy a follower that is first reaches a leader that does not listen yet, and gives it up.
const INIT_LIMIT: u32 = 8;
/// Bound on the time until all servers follow one leader.
const CONVERGE: Duration = Duration::from_secs(30);
/// How often that is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// Bound on one question to one server.
const ANSWER: Duration = Duration::from_secs(1);

/// What a server is started with; the same at its first start and at every other.
pub(super) fn flags(layout: &Layout, node: usize) -> Vec<String> {
    let mut flags = vec![number(layout, node).to_string()];
    let lines = [
        format!("tickTime={TICK_MS}"),
        format!("initLimit={INIT_LIMIT}"),
        format!("syncLimit={SYNC_LIMIT}"),
        format!("clientPort={CLIENTS}"),
        format!("minSessionTimeout={}", 2 * TICK_MS),
        "maxSessionTimeout=600000".to_owned(),
        "maxClientCnxns=0".to_owned(),
        // A server's own address is Toxiproxy's, so it listens on that port everywhere.
        "quorumListenOnAllIPs=true".to_owned(),
        "4lw.commands.whitelist=*".to_owned(),
    ];
    flags.extend(lines);
    flags.extend((0..layout.nodes()).map(|n| {
        let (host, quorum) = layout.at(n);
        let (name, votes) = (layout.name(n), Layout::votes_of(n));
        let number = number(layout, n);
        format!("server.{number}={name}.{host}:{quorum}:{votes}")
    }));
    flags
}

/// Of servers that know the same, the one with the greatest number is elected: the first, so that runs begin alike.
fn number(layout: &Layout, node: usize) -> usize {
    layout.nodes() - node
}

/// Wait until a server listens to clients: it does so before there is a leader.
pub(super) async fn until_listens(at: SocketAddr, deadline: Duration) -> Result<(), String> {
    let began = Instant::now();
    loop {
        let why = match answered(command(at, ANSWER, "ruok")).await {
            Ok(said) if said == "imok" => return Ok(()),
            Ok(said) => said,
            Err(why) => why,
        };
        if began.elapsed() > deadline {
            return Err(why);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Wait until all servers follow one leader. Returns their version.
pub(super) async fn agree(servers: &[SocketAddr]) -> Result<String, String> {
    let began = Instant::now();
    loop {
        let looks = servers.iter().map(|at| answered(status(*at, ANSWER)));
        let looks = futures_util::future::join_all(looks).await;
        let all: Vec<Status> = looks.iter().flatten().copied().flatten().collect();
        if all.len() == servers.len() && all.iter().filter(|s| s.leads).count() == 1 {
            return version(servers[0]).await;
        }
        if began.elapsed() > CONVERGE {
            return Err(format!("after {CONVERGE:?} the servers say {looks:?}"));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Such as `ZooKeeper 3.8.0`.
async fn version(at: SocketAddr) -> Result<String, String> {
    let said = answered(command(at, ANSWER, "srvr")).await?;
    let full = said
        .lines()
        .find_map(|l| l.strip_prefix("Zookeeper version: "));
    let short = full.and_then(|v| v.split(['-', ',', ' ']).next());
    Ok(format!("ZooKeeper {}", short.unwrap_or("?")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Backend;
    use crate::plan::{Overrides, parse};

    #[test]
    fn every_server_knows_all_by_their_addresses_behind_toxiproxy() {
        let text = "lock = { name = 'zookeeper' }\ncluster = { topology = 'zookeeper' }";
        let plan = parse("t.toml", "t", text, &Overrides::default()).expect("a plan");
        let layout = Layout::new(&plan[0].cluster, Backend::Docker, |_| Ok(1));
        let flags = flags(&layout.expect("ports").expect("servers that talk"), 1);
        assert_eq!(flags[0], "2");
        for line in ["server.3=n1.toxi:7001:7101", "server.2=n2.toxi:7002:7102"] {
            assert!(flags.contains(&line.to_owned()), "{flags:?}");
        }
    }
}
