//! Who is the primary, by the word of the Sentinels and of the nodes; and the way back to one primary after a fault.
//!
//! Owns the questions and the one command (`REPLICAOF`) that ends a time of two primaries, or of a replica's replica. Must not know which fault
//! came before. Faults of nodes and of links between servers end here where there are Sentinels.
use super::{Proof, World};
use crate::cluster::{self, Phase, probe};
use futures_util::future::join_all;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Bound on one question to a server.
const ANSWER: Duration = Duration::from_millis(500);
/// Bound on the way back: Sentinels may still have to finish a failover, and a replica its full copy.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time between two looks; what the Sentinels say must be the same twice before a command follows from it.
const LOOK: Duration = Duration::from_millis(150);

/// What one Sentinel says.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Word {
    /// The node that it names.
    primary: Option<usize>,
    /// Its flags, such as `master,o_down,failover_in_progress`.
    flags: String,
}

impl Word {
    /// Nothing is under way, and the primary is well.
    fn calm(&self) -> bool {
        let storm = ["down", "failover", "disconnected"];
        !storm.iter().any(|word| self.flags.contains(word))
    }
}

/// The node that a majority of the Sentinels names.
pub(super) async fn primary(world: &World) -> Result<usize, String> {
    let words = words(world).await;
    let named = |node: usize| words.iter().filter(|w| w.primary == Some(node)).count();
    let most = (0..world.cluster.node_count()).max_by_key(|n| named(*n));
    let sentinels = world.cluster.server_count() - world.cluster.node_count();
    most.filter(|n| named(*n) * 2 > sentinels)
        .ok_or_else(|| "no majority of the Sentinels names a primary".to_owned())
}

/// All replicas, in the order of the nodes.
pub(super) async fn replicas(world: &World) -> Result<Vec<usize>, String> {
    let primary = primary(world).await?;
    Ok((0..world.cluster.node_count())
        .filter(|n| *n != primary)
        .collect())
}

/// Numbers of the Sentinels, as servers of the cluster.
pub(super) fn sentinels(world: &World) -> std::ops::Range<usize> {
    world.cluster.node_count()..world.cluster.server_count()
}

/// `master` or `slave`, as the node itself says.
pub(super) async fn role(world: &World, node: usize) -> Result<String, String> {
    let answer = probe::text(world.cluster.direct(node), "ROLE", ANSWER).await?;
    probe::texts(&answer)
        .into_iter()
        .next()
        .ok_or_else(|| format!("{} does not tell its role", world.cluster.node_name(node)))
}

/// Waits until one node alone is primary and all others follow it. An old primary that still stands beside the new
/// one, or a replica of another replica, is told to follow, `after` this time; the Sentinels would do it after about 10 s. Servers that are stopped or
/// dead by another fault are left to that one.
pub(super) async fn settle(world: &World, after: Duration) -> Proof {
    if !world.cluster.has_sentinels() {
        return Ok("no replicas".to_owned());
    }
    tokio::time::sleep(after).await;
    let began = Instant::now();
    let mut last: Option<usize> = None;
    loop {
        let why = match look(world, last).await {
            Look::Settled(proof) => return Ok(proof),
            Look::Named(primary, why) => {
                last = Some(primary);
                why
            }
            Look::Unclear(why) => {
                last = None;
                why
            }
        };
        if began.elapsed() > PATIENCE {
            return Err(format!("no single primary after {PATIENCE:?}: {why}"));
        }
        tokio::time::sleep(LOOK).await;
    }
}

enum Look {
    Settled(String),
    /// All Sentinels name this node, calmly, and yet something is missing.
    Named(usize, String),
    Unclear(String),
}

async fn look(world: &World, last: Option<usize>) -> Look {
    let running = running(world).await;
    let up: Vec<usize> = sentinels(world).filter(|s| running.contains(s)).collect();
    if up.len() * 2 <= sentinels(world).len() {
        return Look::Settled(
            "no majority of the Sentinels runs: left to their own fault".to_owned(),
        );
    }
    let words = words(world).await;
    let named = words.first().and_then(|w| w.primary);
    let agree = words.len() >= up.len() && words.iter().all(|w| w.primary == named && w.calm());
    let Some(primary) = named.filter(|_| agree) else {
        return Look::Unclear(format!("the Sentinels say {words:?}"));
    };
    let nodes: Vec<usize> = (0..world.cluster.node_count())
        .filter(|n| running.contains(n))
        .collect();
    let name = |n: usize| world.cluster.node_name(n);
    let mut why = None;
    for node in nodes {
        let role = role(world, node).await.unwrap_or_else(|why| why);
        let stands = match (node == primary, role.as_str()) {
            (true, "master") => true,
            (false, "slave") if follows(world, node, primary).await => true,
            // A server that was started again follows whom its settings name. The Sentinels mend that too, 10 s later, and
            // end all of its connections then: perhaps in the middle of another run.
            (false, "master" | "slave") if last == Some(primary) => {
                follow(world, node, primary).await;
                false
            }
            _ => false,
        };
        if !stands {
            why = Some(format!("{} says {role}", name(node)));
        }
    }
    match why {
        Some(why) => Look::Named(primary, why),
        None => Look::Settled(format!(
            "{} alone says master, the others follow it, {} Sentinels name it",
            name(primary),
            words.len()
        )),
    }
}

/// Servers that run, by their process state.
async fn running(world: &World) -> Vec<usize> {
    let mut running = Vec::new();
    for server in 0..world.cluster.server_count() {
        if world.cluster.node_state(server).await.phase == Phase::Running {
            running.push(server);
        }
    }
    running
}

/// It copies this primary, not another replica of it: a restarted server follows whom its settings name.
async fn follows(world: &World, node: usize, primary: usize) -> bool {
    let info = probe::info(world.cluster.direct(node), "replication").await;
    let announced = world.cluster.announced(primary);
    info.is_ok_and(|text| text.contains("master_link_status:up") && followed(&text) == announced)
}

/// Whom a replica follows, by its own word, as `toxi:7001`.
fn followed(info: &str) -> Option<String> {
    let field = |name| info.lines().find_map(|line| line.strip_prefix(name));
    let (host, port) = (field("master_host:")?, field("master_port:")?);
    Some(format!("{}:{}", host.trim(), port.trim()))
}

async fn follow(world: &World, node: usize, primary: usize) {
    let Some(address) = world.cluster.announced(primary) else {
        return;
    };
    let command = format!("REPLICAOF {}", address.replacen(':', " ", 1));
    // Whether it was heard, the next look tells.
    let _ = probe::text(world.cluster.direct(node), &command, ANSWER).await;
}

async fn words(world: &World) -> Vec<Word> {
    let all = sentinels(world).map(|s| cluster::master(world.cluster.direct(s), ANSWER));
    let answers = join_all(all).await;
    let word = |fields: BTreeMap<String, String>| {
        let address = format!("{}:{}", fields.get("ip")?, fields.get("port")?);
        let mut nodes = 0..world.cluster.node_count();
        Some(Word {
            primary: nodes.find(|n| world.cluster.announced(*n).as_ref() == Some(&address)),
            flags: fields.get("flags")?.clone(),
        })
    };
    let heard = answers.into_iter().flatten();
    heard.filter_map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentinel_that_is_about_to_act_is_not_calm() {
        let word = |flags: &str| Word {
            primary: Some(0),
            flags: flags.to_owned(),
        };
        assert!(word("master").calm());
        for flags in [
            "master,s_down",
            "s_down,o_down,master",
            "master,failover_in_progress",
        ] {
            assert!(!word(flags).calm(), "{flags}");
        }
    }

    #[test]
    fn a_replica_says_whom_it_follows() {
        let info =
            "role:slave\r\nmaster_host:toxi\r\nmaster_port:7003\r\nmaster_link_status:up\r\n";
        assert_eq!(followed(info).as_deref(), Some("toxi:7003"));
        assert_eq!(followed("role:master\r\n"), None);
    }
}
