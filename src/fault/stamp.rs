//! What ZooKeeper's leader takes for the time of day: it stamps each transaction with its wall clock, and whoever creates a
//! node is told the stamp.
//!
//! Owns the question. Must not know which fault asks. The node is none of a lock's, and goes with its session. Of no other
//! server does any answer tell the time.
use super::wall::now_ns;
use super::{World, members, probe};
use crate::zookeeper::{self, Conn, ZkError, term};
use std::time::Duration;

/// Bound on one question: a session, a node, and the end of both, each by a quorum.
const LONGEST: Duration = Duration::from_secs(1);
/// Timeout of a session that is not ended.
const LIFE: Duration = Duration::from_secs(2);
/// What a stamp leaves out, in ns.
const GRAIN_NS: i64 = 1_000_000;

/// How far the leader's clock is ahead of ours, and how well that is known, in ns. `Err` where this server does not lead:
/// then the stamp is another's.
pub(super) async fn ahead(world: &World, node: usize) -> Result<(i64, i64), String> {
    let at = world.cluster.direct(node);
    let key = format!("fencepost:stamp:{}:{}", world.plan.seed, world.fresh());
    let path = probe::mark(&key);
    let asked = async {
        let mut conn = Conn::open(at, probe::ANSWER, LIFE).await?;
        let before = now_ns();
        let stamp = conn.stamp(&path).await?;
        let after = now_ns();
        let status = zookeeper::status(at, probe::ANSWER).await?;
        conn.close().await?;
        Ok::<_, ZkError>((before, stamp, after, status))
    };
    let ((before, (transaction, stamp_ms), after, status), _) =
        members::timed(LONGEST, asked).await?;
    let leads = status.filter(|s| s.leads && term(s.transaction) == term(transaction));
    if leads.is_none() {
        let name = world.cluster.node_name(node);
        return Err(format!(
            "{name} does not lead, and only the leader's time of day is told"
        ));
    }
    Ok(told(before, stamp_ms, after))
}

/// The stamp was made between the two.
fn told(before: i64, stamp_ms: i64, after: i64) -> (i64, i64) {
    let stamp = stamp_ms * 1_000_000 + GRAIN_NS / 2;
    (
        stamp - i64::midpoint(before, after),
        after - before + GRAIN_NS,
    )
}

#[cfg(test)]
mod tests {
    use super::told;

    #[test]
    fn a_stamp_is_known_to_within_the_way_and_a_millisecond() {
        let second = 1_000_000_000;
        let (ahead, doubt) = told(5 * second, 8_000, 5 * second + 3_000_000);
        assert_eq!((ahead, doubt), (3 * second - 1_000_000, 4_000_000));
    }
}
