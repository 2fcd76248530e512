//! The members of an etcd cluster: what they are told, and when they are one cluster.
//!
//! Owns their settings and the proof that they have a leader. Must not know how servers are started, or their addresses:
//! those are `layout`'s. `cluster` hands the settings to a backend.
//!
//! Each member is one container; other members reach it by the address that `layout` gives it, through Toxiproxy.
use super::layout::Layout;
use super::probe::answered;
use crate::etcd::{Member, Status};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A member's port for clients, inside its container.
pub(super) const CLIENTS: u16 = 2379;
/// A member's port for the other members.
pub(super) const PEERS: u16 = 2380;
/// Bound on the time until all members name one leader.
const CONVERGE: Duration = Duration::from_secs(30);
/// How often that is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// A leader is heard from this often, ms.
const HEARTBEAT_MS: u32 = 60;
/// A member that hears from no leader for so long, ms, or up to twice that, stands for election. Leases of a second need
/// it: a member grants none that is shorter than one and a half of this, rounded up to a second.
const ELECTION_MS: u32 = 600;
/// Bound on one question to one member.
const ANSWER: Duration = Duration::from_secs(1);

/// What a member is started with; the same at its first start and at every other.
pub(super) fn flags(layout: &Layout, node: usize) -> Vec<String> {
    let name = layout.name(node);
    let all =
        (0..layout.nodes()).map(|n| format!("{}=http://{}", layout.name(n), layout.announced(n)));
    let all: Vec<String> = all.collect();
    let (own, all) = (layout.announced(node), all.join(","));
    vec![
        format!("--name={name}"),
        "--data-dir=/data/member".to_owned(),
        format!("--listen-client-urls=http://0.0.0.0:{CLIENTS}"),
        format!("--listen-peer-urls=http://0.0.0.0:{PEERS}"),
        // Clients are given their own links, and ask no member for others.
        format!("--advertise-client-urls=http://{own}"),
        format!("--initial-advertise-peer-urls=http://{own}"),
        format!("--initial-cluster={all}"),
        "--initial-cluster-state=new".to_owned(),
        format!("--heartbeat-interval={HEARTBEAT_MS}"),
        format!("--election-timeout={ELECTION_MS}"),
        "--logger=zap".to_owned(),
        "--log-level=warn".to_owned(),
    ]
}

/// Wait until a member listens to the others: it does so before there is a leader, and to clients only after.
pub(super) async fn until_listens(at: SocketAddr, deadline: Duration) -> Result<(), String> {
    let began = Instant::now();
    let member = Member::new(at, ANSWER);
    loop {
        let Err(why) = answered(member.version()).await else {
            return Ok(());
        };
        if began.elapsed() > deadline {
            return Err(why);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Wait until all members name one leader, and make the first member that leader, so that each run begins alike.
/// Returns the members' version.
pub(super) async fn agree(members: &[SocketAddr]) -> Result<String, String> {
    let began = Instant::now();
    let members: Vec<Member> = members.iter().map(|at| Member::new(*at, ANSWER)).collect();
    loop {
        let (why, leader) = match look(&members).await {
            Ok((0, version)) => return Ok(version),
            Ok((leader, _)) => (
                "the first member does not become the leader".to_owned(),
                Some(leader),
            ),
            Err(why) => (why, None),
        };
        if let Some(leader) = leader
            && let Ok(first) = answered(members[0].status()).await
        {
            // Whether it was done, the next look tells.
            let _ = answered(members[leader].move_leader(first.member)).await;
        }
        if began.elapsed() > CONVERGE {
            return Err(format!("after {CONVERGE:?}: {why}"));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Which member all of them name as the leader.
async fn look(members: &[Member]) -> Result<(usize, String), String> {
    let mut all: Vec<Status> = Vec::new();
    for member in members {
        all.push(answered(member.status()).await?);
    }
    let named = all[0].leader;
    if named == 0 || all.iter().any(|s| s.leader != named) {
        let leaders: Vec<u64> = all.iter().map(|s| s.leader).collect();
        return Err(format!("the members name the leaders {leaders:?}"));
    }
    let leader = all.iter().position(|s| s.member == named);
    let leader = leader.ok_or_else(|| "the leader is none of the members".to_owned())?;
    Ok((leader, format!("etcd {}", all[0].version)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Backend;
    use crate::plan::{Overrides, parse};

    #[test]
    fn every_member_knows_all_by_their_addresses_behind_toxiproxy() {
        let text = "lock = { name = 'etcd' }\ncluster = { topology = 'etcd' }";
        let plan = parse("t.toml", "t", text, &Overrides::default()).expect("a plan");
        let layout = Layout::new(&plan[0].cluster, Backend::Docker, |_| Ok(1));
        let flags = flags(&layout.expect("ports").expect("servers that talk"), 1);
        let all = "--initial-cluster=n1=http://toxi:7001,n2=http://toxi:7002,n3=http://toxi:7003";
        assert!(flags.contains(&all.to_owned()), "{flags:?}");
        assert!(flags.contains(&"--initial-advertise-peer-urls=http://toxi:7002".to_owned()));
    }
}
