//! The members of a cluster that agrees by consensus, each asked directly: who leads, who answers.
//!
//! Owns the questions. Must not know which fault asks. Answers are proofs, and the targets `primary` and `replica:1`.
use super::{Proof, World, probe};
use crate::cluster::{Phase, Speaks};
use crate::etcd::{EtcdError, Member};
use crate::{etcd, zookeeper};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Bound on the way back to one leader: two elections, and a member that starts again.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// What the members say, taken together.
#[derive(Debug, PartialEq, Eq)]
struct View {
    /// The leader of a majority of all members, where it answered itself.
    leader: Option<usize>,
    /// Those that answered, and know a leader.
    answered: Vec<usize>,
    /// They all follow this one.
    agreed: bool,
}

/// Ask one member of etcd something; the answer, and how long it took.
pub(super) async fn ask<T>(
    at: SocketAddr,
    deadline: Duration,
    question: impl AsyncFn(&Member) -> Result<T, EtcdError>,
) -> Result<(T, Duration), String> {
    let member = Member::new(at, deadline);
    timed(deadline, question(&member)).await
}

/// The answer, and how long it took.
pub(super) async fn timed<T, E: std::fmt::Display>(
    deadline: Duration,
    question: impl Future<Output = Result<T, E>>,
) -> Result<(T, Duration), String> {
    let began = Instant::now();
    match tokio::time::timeout(deadline, question).await {
        Ok(Ok(answer)) => Ok((answer, began.elapsed())),
        Ok(Err(why)) => Err(why.to_string()),
        Err(_) => Err(format!("no answer within {} ms", deadline.as_millis())),
    }
}

/// What each member that answers says, by number.
async fn each<T>(
    world: &World,
    question: impl AsyncFn(SocketAddr) -> Result<T, String>,
) -> Vec<(usize, T)> {
    let question = &question;
    let all = (0..world.cluster.node_count()).map(|node| async move {
        let said = question(world.cluster.direct(node)).await;
        said.ok().map(|said| (node, said))
    });
    let all = futures_util::future::join_all(all).await;
    all.into_iter().flatten().collect()
}

async fn look(world: &World) -> View {
    let members = world.cluster.node_count();
    if world.cluster.speaks() == Speaks::ZooKeeper {
        let status = async |at| {
            let status = zookeeper::status(at, probe::ANSWER);
            let (status, _) = timed(probe::ANSWER, status).await?;
            status.ok_or_else(|| "it has no leader".to_owned())
        };
        return zookeepers(&each(world, status).await, members);
    }
    let status = async |at| {
        let status = async |m: &Member| m.status().await;
        ask(at, probe::ANSWER, status).await.map(|(s, _)| s)
    };
    etcds(&each(world, status).await, members)
}

/// Members of etcd name their leader: an old one is named by itself alone.
fn etcds(all: &[(usize, etcd::Status)], members: usize) -> View {
    let votes = |id: u64| all.iter().filter(|(_, s)| s.leader == id).count();
    let leader = all.iter().find(|(_, s)| votes(s.member) * 2 > members);
    View {
        leader: leader.map(|(n, _)| *n),
        answered: all.iter().map(|(n, _)| *n).collect(),
        agreed: leader.is_some_and(|(_, l)| all.iter().all(|(_, s)| s.leader == l.member)),
    }
}

/// Servers of ZooKeeper say that they lead or follow, not whom: of two that lead the later one counts, whose transactions
/// have greater numbers.
fn zookeepers(all: &[(usize, zookeeper::Status)], members: usize) -> View {
    let leaders = || all.iter().filter(|(_, s)| s.leads);
    let leader = leaders().max_by_key(|(_, s)| s.transaction);
    let majority = all.len() * 2 > members;
    View {
        leader: leader.map(|(n, _)| *n).filter(|_| majority),
        answered: all.iter().map(|(n, _)| *n).collect(),
        agreed: majority && leaders().count() == 1,
    }
}

/// The member that a majority of all members follows.
pub(super) async fn leader(world: &World) -> Result<usize, String> {
    probe::retry(|| async {
        let view = look(world).await;
        view.leader
            .ok_or_else(|| format!("no majority of the members follows a leader: {view:?}"))
    })
    .await
}

/// All other members, in order.
pub(super) async fn followers(world: &World) -> Result<Vec<usize>, String> {
    let leader = leader(world).await?;
    let all = 0..world.cluster.node_count();
    Ok(all.filter(|n| *n != leader).collect())
}

/// Tell etcd's leader to hand over to the member after it.
pub(super) async fn hand_over(world: &World, leader: usize) -> Result<(), String> {
    let next = (leader + 1) % world.cluster.node_count();
    let status = async |m: &Member| m.status().await;
    let (to, _) = ask(world.cluster.direct(next), probe::ANSWER, status).await?;
    let at = world.cluster.direct(leader);
    // It answers once the other leads: an election's time at the most.
    let patience = Duration::from_secs(3);
    let move_it = async |m: &Member| m.move_leader(to.member).await;
    ask(at, patience, move_it).await.map(drop)
}

/// Waits until all members that run follow one leader. Those that are stopped or dead by another fault are left to that
/// one.
pub(super) async fn settle(world: &World) -> Proof {
    let began = Instant::now();
    loop {
        let mut running = Vec::new();
        for node in 0..world.cluster.node_count() {
            if world.cluster.node_state(node).await.phase == Phase::Running {
                running.push(node);
            }
        }
        if running.len() * 2 <= world.cluster.node_count() {
            return Ok("no majority of the members runs: left to their own fault".to_owned());
        }
        let view = look(world).await;
        let whole = running.iter().all(|n| view.answered.contains(n));
        if let Some(leader) = view.leader.filter(|_| whole && view.agreed) {
            let name = world.cluster.node_name(leader);
            let count = view.answered.len();
            return Ok(format!("{count} members follow {name} as the leader"));
        }
        if began.elapsed() > PATIENCE {
            return Err(format!("no single leader after {PATIENCE:?}: {view:?}"));
        }
        tokio::time::sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etcds_leader_is_whom_a_majority_of_all_members_names() {
        let says = |member: u64, leader: u64| etcd::Status {
            member,
            leader,
            version: String::new(),
        };
        let leader = |all: &[(usize, etcd::Status)]| etcds(all, 3).leader;
        let all = [(0, says(7, 7)), (1, says(8, 9)), (2, says(9, 9))];
        assert_eq!(leader(&all), Some(2), "an old leader names itself alone");
        assert!(!etcds(&all, 3).agreed && etcds(&all[1..], 3).agreed);
        assert_eq!(leader(&all[..2]), None);
        assert_eq!(leader(&[(1, says(8, 0)), (2, says(9, 0))]), None);
        // The majority's leader did not answer itself.
        assert_eq!(leader(&[(0, says(7, 9)), (1, says(8, 9))]), None);
    }

    #[test]
    fn zookeepers_leader_is_the_last_one_that_leads_a_majority() {
        let says = |leads, transaction| zookeeper::Status { leads, transaction };
        let old = (0, says(true, 0x1_0000_0009));
        let new = [
            old,
            (1, says(true, 0x2_0000_0000)),
            (2, says(false, 0x1_0000_0008)),
        ];
        assert_eq!(zookeepers(&new, 3).leader, Some(1));
        assert!(!zookeepers(&new, 3).agreed && zookeepers(&new[1..], 3).agreed);
        assert_eq!(zookeepers(&[old], 3).leader, None, "alone");
    }
}
