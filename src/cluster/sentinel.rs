//! A primary, its replicas and three Sentinels: who is told what, and when they have found each other.
//!
//! Owns the settings of such servers. Must not know how servers are started, or their addresses: those are `layout`'s.
//! `cluster` hands the settings to a backend.
use super::layout::Layout;
use super::probe;
use crate::plan::ClusterPlan;
use futures_util::future::{join_all, try_join_all};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Sentinels; a majority of them decides.
pub(super) const SENTINELS: usize = 3;
/// The name under which Sentinels watch the primary.
pub const SERVICE: &str = "fencepost";
/// Bound on the time until replicas follow and Sentinels know all.
const CONVERGE: Duration = Duration::from_secs(20);
/// How often that is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// Bound on one question.
const ANSWER: Duration = Duration::from_secs(1);
/// `failover-timeout`: a Sentinel waits twice this before it tries again.
const FAILOVER_TIMEOUT_MS: u32 = 2000;
/// How much later than the others the last Sentinel calls a server down. Two make the quorum; were all three candidates
/// at once, each would vote for itself, and the failover would take two `failover-timeout`s more. Longer than the
/// second in which a Sentinel pings, which is the spread of the moments at which they notice.
const TIE_BREAK: Duration = Duration::from_millis(1500);

/// What a node is started with beside the settings of every node. The first one is the primary whenever it is
/// started: what the Sentinels decided since is not kept in its settings, as with a container's fixed command.
pub(super) fn node_flags(plan: &ClusterPlan, layout: &Layout, node: usize) -> Vec<String> {
    let (host, port) = layout.at(node);
    let (primary, primary_port) = layout.at(0);
    let follows = if node == 0 {
        String::new()
    } else {
        format!(" --replicaof {primary} {primary_port}")
    };
    let words = format!(
        "--replica-announce-ip {host} --replica-announce-port {port} --repl-diskless-sync yes \
         --repl-diskless-sync-delay 0 --repl-ping-replica-period 1 --repl-timeout 5 --min-replicas-to-write {} \
         --min-replicas-max-lag {}{follows}",
        plan.min_replicas.unwrap_or(0),
        plan.max_lag.unwrap_or(Duration::from_secs(10)).as_secs(),
    );
    words.split(' ').map(str::to_owned).collect()
}

/// A Sentinel's file. The order matters: names must be allowed before one is used.
pub(super) fn sentinel_file(
    plan: &ClusterPlan,
    layout: &Layout,
    server: usize,
    (port, bind): (u16, &str),
) -> String {
    let (host, own) = layout.at(server);
    let (primary, primary_port) = layout.at(0);
    let quorum = SENTINELS / 2 + 1;
    let last = server + 1 == layout.servers();
    let later = if last { TIE_BREAK } else { Duration::ZERO };
    let down_after = plan.down_after.unwrap_or(Duration::from_secs(1));
    let down_after = (down_after + later).as_millis();
    format!(
        "port {port}\nbind {bind}\nprotected-mode no\ndir /tmp\nsentinel resolve-hostnames yes\n\
         sentinel announce-hostnames yes\nsentinel announce-ip {host}\nsentinel announce-port {own}\n\
         sentinel monitor {SERVICE} {primary} {primary_port} {quorum}\n\
         sentinel down-after-milliseconds {SERVICE} {down_after}\n\
         sentinel failover-timeout {SERVICE} {FAILOVER_TIMEOUT_MS}\nsentinel parallel-syncs {SERVICE} 1\n"
    )
}

/// Wait until every replica follows the primary: a Sentinel that asks before looks for replicas only 10 s later.
pub(super) async fn replicas_follow(replicas: &[SocketAddr]) -> Result<(), String> {
    let each = replicas.iter().map(|at| {
        until(*at, "replication", |info| {
            info.contains("master_link_status:up")
        })
    });
    try_join_all(each).await.map(drop)
}

/// Wait until every Sentinel knows all replicas and the other Sentinels.
pub(super) async fn sentinels_agree(
    sentinels: &[SocketAddr],
    replicas: usize,
) -> Result<(), String> {
    let knows = format!("slaves={replicas},sentinels={SENTINELS}");
    let each = sentinels.iter().map(|at| {
        until(*at, "sentinel", |info| {
            info.contains(&knows) && info.contains("status=ok")
        })
    });
    try_join_all(each).await.map(drop)
}

/// What a Sentinel says of the primary: the fields of `SENTINEL MASTER`.
///
/// # Errors
/// It does not answer.
pub async fn master(
    at: SocketAddr,
    deadline: Duration,
) -> Result<BTreeMap<String, String>, String> {
    let answer = probe::text(at, &format!("SENTINEL MASTER {SERVICE}"), deadline).await?;
    Ok(fields(&answer))
}

fn fields(answer: &str) -> BTreeMap<String, String> {
    let mut words = probe::texts(answer).into_iter();
    std::iter::from_fn(|| Some((words.next()?, words.next()?))).collect()
}

/// Whether these Sentinels have failed over, or do not say that they have not: each keeps count in `config-epoch`.
pub(super) async fn failed_over(sentinels: &[SocketAddr]) -> bool {
    let answers = join_all(sentinels.iter().map(|at| master(*at, ANSWER))).await;
    let first = |a: &Result<_, _>| a.as_ref().is_ok_and(is_first_epoch);
    !answers.iter().all(first)
}

fn is_first_epoch(fields: &BTreeMap<String, String>) -> bool {
    fields.get("config-epoch").is_some_and(|epoch| epoch == "0")
}

async fn until(at: SocketAddr, section: &str, done: impl Fn(&str) -> bool) -> Result<(), String> {
    let began = Instant::now();
    loop {
        let answer = probe::info(at, section).await;
        match answer {
            Ok(info) if done(&info) => return Ok(()),
            _ if began.elapsed() < CONVERGE => tokio::time::sleep(LOOK).await,
            Ok(info) => {
                let line = info.lines().find(|l| l.starts_with("master"));
                return Err(format!(
                    "after {CONVERGE:?} it says {}",
                    line.unwrap_or(&info)
                ));
            }
            Err(why) => return Err(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Backend;
    use crate::plan::{Overrides, parse};

    #[test]
    fn a_failover_is_read_off_the_epoch() {
        let answer = |epoch| {
            format!(
                "*4\r\n$4\r\nname\r\n$9\r\nfencepost\r\n$12\r\nconfig-epoch\r\n$1\r\n{epoch}\r\n"
            )
        };
        assert!(is_first_epoch(&fields(&answer(0))));
        assert!(!is_first_epoch(&fields(&answer(3))));
        let none = fields("-ERR No such master with that name\r\n");
        assert!(!is_first_epoch(&none));
    }

    #[test]
    fn the_first_node_is_the_primary_and_names_come_before_their_use() {
        let text = "lock = { name = 'set-nx-lua' }\ncluster = { topology = 'sentinel' }";
        let plan = parse("t.toml", "t", text, &Overrides::default()).expect("a plan");
        let plan = &plan[0].cluster;
        let layout = Layout::new(plan, Backend::Docker, |_| Ok(12_345));
        let docker = layout.expect("ports").expect("servers that talk");
        assert!(!node_flags(plan, &docker, 0).contains(&"--replicaof".to_owned()));
        assert!(
            node_flags(plan, &docker, 1)
                .ends_with(&["--replicaof", "toxi", "7001"].map(str::to_owned))
        );
        let file = sentinel_file(plan, &docker, 3, (26_379, "0.0.0.0"));
        assert!(file.find("resolve-hostnames") < file.find("sentinel monitor"));
        let down_after = |server, ms: u32| {
            let file = sentinel_file(plan, &docker, server, (26_379, "0.0.0.0"));
            file.contains(&format!("down-after-milliseconds {SERVICE} {ms}\n"))
        };
        assert!(down_after(3, 1000) && down_after(4, 1000) && down_after(5, 2500));
    }
}
