//! The members of an etcd cluster, asked directly: who leads, who answers, what a probe wrote.
//!
//! Owns the questions. Must not know which fault asks. Answers are proofs, and the targets `primary` and `replica:1`.
use super::{Proof, World, probe};
use crate::cluster::Phase;
use crate::etcd::{EtcdError, Member, Status};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Bound on the way back to one leader: two elections, and a member that starts again.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// Ask one member something; the answer, and how long it took.
pub(super) async fn ask<T>(
    at: SocketAddr,
    deadline: Duration,
    question: impl AsyncFn(&Member) -> Result<T, EtcdError>,
) -> Result<(T, Duration), String> {
    let began = Instant::now();
    let member = Member::new(at, deadline);
    match tokio::time::timeout(deadline, question(&member)).await {
        Ok(Ok(answer)) => Ok((answer, began.elapsed())),
        Ok(Err(why)) => Err(why.to_string()),
        Err(_) => Err(format!("no answer within {} ms", deadline.as_millis())),
    }
}

/// What each member that answers says of itself, by number.
async fn statuses(world: &World) -> Vec<(usize, Status)> {
    let all = (0..world.cluster.node_count()).map(|node| async move {
        let at = world.cluster.direct(node);
        let said = ask(at, probe::ANSWER, async |m: &Member| m.status().await).await;
        said.ok().map(|(status, _)| (node, status))
    });
    let all = futures_util::future::join_all(all).await;
    all.into_iter().flatten().collect()
}

/// The member that a majority of all members names as the leader.
pub(super) async fn leader(world: &World) -> Result<usize, String> {
    probe::retry(|| async {
        let all = statuses(world).await;
        named(&all, world.cluster.node_count())
            .ok_or_else(|| format!("no majority of the members names a leader: {all:?}"))
    })
    .await
}

/// The member that most of `members` name, if it is one of those that answered.
fn named(all: &[(usize, Status)], members: usize) -> Option<usize> {
    let votes = |id: u64| all.iter().filter(|(_, s)| s.leader == id).count();
    let leader = all.iter().find(|(_, s)| votes(s.member) * 2 > members)?;
    Some(leader.0)
}

/// All other members, in order.
pub(super) async fn followers(world: &World) -> Result<Vec<usize>, String> {
    let leader = leader(world).await?;
    let all = 0..world.cluster.node_count();
    Ok(all.filter(|n| *n != leader).collect())
}

/// Tell the leader to hand over to the member after it.
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

/// Waits until all members that run name one leader. Those that are stopped or dead by another fault are left to that
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
        let members = world.cluster.node_count();
        if running.len() * 2 <= members {
            return Ok("no majority of the members runs: left to their own fault".to_owned());
        }
        let all = statuses(world).await;
        let leader = named(&all, members);
        let one = |leader: usize| {
            let id = all
                .iter()
                .find(|(n, _)| *n == leader)
                .map(|(_, s)| s.member);
            let whole = running.iter().all(|n| all.iter().any(|(m, _)| m == n));
            whole && all.iter().all(|(_, s)| Some(s.leader) == id)
        };
        if let Some(leader) = leader.filter(|l| one(*l)) {
            let name = world.cluster.node_name(leader);
            return Ok(format!("{} members name {name} as the leader", all.len()));
        }
        if began.elapsed() > PATIENCE {
            return Err(format!("no single leader after {PATIENCE:?}: {all:?}"));
        }
        tokio::time::sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_is_whom_a_majority_of_all_members_names() {
        let says = |member: u64, leader: u64| Status {
            member,
            leader,
            version: String::new(),
        };
        let all = [(0, says(7, 7)), (1, says(8, 9)), (2, says(9, 9))];
        assert_eq!(named(&all, 3), Some(2), "an old leader names itself alone");
        assert_eq!(named(&all[..2], 3), None);
        assert_eq!(named(&[(1, says(8, 0)), (2, says(9, 0))], 3), None);
        // The majority's leader did not answer itself.
        assert_eq!(named(&[(0, says(7, 9)), (1, says(8, 9))], 3), None);
    }
}
