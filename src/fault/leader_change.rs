//! `leader-change`: the leader of an etcd cluster is told to hand over to the next member although it is well.
//!
//! Proof: a majority of the members, each asked directly, name another leader than before; at the end all do.
use super::{Fault, Proof, World, members, probe};
use async_trait::async_trait;

pub(super) struct LeaderChange {
    leader: usize,
}

impl LeaderChange {
    pub(super) fn new(leader: usize) -> Self {
        Self { leader }
    }
}

#[async_trait(?Send)]
impl Fault for LeaderChange {
    fn target(&self) -> String {
        super::target::node_names(&[self.leader])
    }

    async fn inject(&mut self, world: &World) -> Result<(), String> {
        members::hand_over(world, self.leader).await
    }

    async fn bit(&mut self, world: &World) -> Proof {
        let old = world.cluster.node_name(self.leader);
        probe::retry(|| async {
            let leader = members::leader(world).await?;
            if leader == self.leader {
                return Err(format!("{old} is still the leader"));
            }
            let new = world.cluster.node_name(leader);
            Ok(format!(
                "a majority names {new} as the leader, before it was {old}"
            ))
        })
        .await
    }

    fn momentary(&self) -> bool {
        true
    }

    async fn healed(&mut self, world: &World) -> Proof {
        members::settle(world).await
    }
}
