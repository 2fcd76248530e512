//! The nemesis: each fault is injected, proved to bite, healed and proved healed, and each step is on record.
//!
//! Owns the life of a fault ([`Fault`] is one kind; one file a kind) and its schedule. Must not know checking. Events
//! go to the history as `nemesis` with a `phase`.
//!
//! Proof comes by another path than the injection: a probe through the link, the process table, a direct connection to
//! the node, a measured time in the driver. The injecting call's own success proves nothing.
mod client_kill;
mod client_pause;
mod failover;
mod latency;
mod links;
mod nemesis;
mod node_kill;
mod node_pause;
mod node_restart;
mod partition;
mod probe;
mod replication;
mod resource_delay;
mod slow_work;
mod target;
mod world;

pub use nemesis::Nemesis;
pub use world::World;

use crate::plan::{FaultKind, FaultPlan};
use crate::run::board::Hold;
use async_trait::async_trait;

/// Evidence, or why there is none.
pub type Proof = Result<String, String>;

/// One fault, resolved to what it hits.
#[async_trait(?Send)]
pub trait Fault {
    /// What it hits: `c1`, `n2`, `c1>n4,c1>n5`.
    fn target(&self) -> String;

    /// The client that it hits, if it hits one.
    fn client(&self) -> Option<&str> {
        None
    }

    /// Makes it so. `Err` is why it could not be done.
    async fn inject(&mut self, world: &World) -> Result<(), String>;

    /// Proves that it took effect.
    async fn bit(&mut self, world: &World) -> Proof;

    /// Whether it ends by itself: there is no window to wait for.
    fn momentary(&self) -> bool {
        false
    }

    /// Whether there is something to heal: a killed client stays dead.
    fn heals(&self) -> bool {
        true
    }

    /// Undoes it.
    async fn heal(&mut self, _world: &World) -> Result<(), String> {
        Ok(())
    }

    /// Proves that it is gone.
    async fn healed(&mut self, world: &World) -> Proof;
}

/// Resolves a planned fault against the run as it stands; `hold` is the trigger's operation, if there was one.
async fn resolve(
    plan: &FaultPlan,
    hold: Option<&Hold>,
    world: &World,
) -> Result<Box<dyn Fault>, String> {
    Ok(match plan.kind {
        FaultKind::ClientPause => Box::new(client_pause::ClientPause::new(target::client(
            plan, hold, world,
        )?)),
        FaultKind::ClientKill => Box::new(client_kill::ClientKill::new(
            target::client(plan, hold, world)?,
            false,
        )),
        FaultKind::ClientRestart => Box::new(client_kill::ClientKill::new(
            target::client(plan, hold, world)?,
            true,
        )),
        FaultKind::SlowWork => Box::new(slow_work::SlowWork::new(plan, hold, world)?),
        FaultKind::NodePause => Box::new(node_pause::NodePause::new(
            plan,
            target::nodes(plan, hold, world).await?,
            world,
        )),
        FaultKind::NodeKill => Box::new(node_kill::NodeKill::new(
            plan,
            target::nodes(plan, hold, world).await?,
        )),
        FaultKind::NodeRestart => Box::new(node_restart::NodeRestart::new(
            plan,
            target::nodes(plan, hold, world).await?,
        )),
        FaultKind::Partition => Box::new(partition::Partition::new(
            plan,
            target::links(plan, hold, world).await?,
        )),
        FaultKind::QuorumThin => Box::new(partition::Partition::new(
            plan,
            target::thin(plan, hold, world)?,
        )),
        FaultKind::Latency => Box::new(latency::Latency::new(
            plan,
            target::links(plan, hold, world).await?,
        )),
        FaultKind::Failover => {
            Box::new(failover::Failover::new(replication::primary(world).await?))
        }
        FaultKind::ResourceDelay => Box::new(resource_delay::ResourceDelay::new(
            plan,
            target::client(plan, hold, world)?,
        )?),
    })
}
