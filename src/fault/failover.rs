//! `failover`: a Sentinel is told to promote a replica although the primary is well.
//!
//! Proof: another node's ROLE says master, on a direct connection; at the end one node's alone, and the Sentinels name
//! it. In between there are two primaries, and both take writes: that is the fault's window.
use super::{Fault, Proof, World, probe, replication};
use crate::cluster::SERVICE;
use async_trait::async_trait;
use std::time::Duration;

pub(super) struct Failover {
    primary: usize,
}

impl Failover {
    pub(super) fn new(primary: usize) -> Self {
        Self { primary }
    }
}

#[async_trait(?Send)]
impl Fault for Failover {
    fn target(&self) -> String {
        super::target::node_names(&[self.primary])
    }

    async fn inject(&mut self, world: &World) -> Result<(), String> {
        let mut refused = "there are no Sentinels".to_owned();
        for sentinel in replication::sentinels(world) {
            let command = format!("SENTINEL FAILOVER {SERVICE}");
            let direct = world.cluster.direct(sentinel);
            match probe::command(direct, &command, probe::ANSWER).await {
                Ok((answer, _)) if answer == "+OK" => return Ok(()),
                Ok((answer, _)) => refused = answer,
                Err(why) => refused = why,
            }
        }
        Err(format!("the Sentinels refuse: {refused}"))
    }

    async fn bit(&mut self, world: &World) -> Proof {
        let old = world.cluster.node_name(self.primary);
        probe::retry(|| async {
            for node in (0..world.cluster.node_count()).filter(|n| *n != self.primary) {
                if replication::role(world, node).await.as_deref() == Ok("master") {
                    let still = replication::role(world, self.primary).await?;
                    let new = world.cluster.node_name(node);
                    return Ok(format!("ROLE of {new} says master, that of {old} {still}"));
                }
            }
            Err(format!("no node but {old} says master"))
        })
        .await
    }

    async fn healed(&mut self, world: &World) -> Proof {
        replication::settle(world, Duration::ZERO).await
    }
}
