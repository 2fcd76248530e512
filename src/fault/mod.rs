//! The nemesis: each fault is injected, proved to bite, healed and proved healed, and each step is on record.
//!
//! Owns the life of a fault ([`Fault`] is one kind; one file a kind) and its schedule. Must not know checking. Events
//! go to the history as `nemesis` with a `phase`.
//!
//! Proof comes by another path than the injection: a probe through the link, the process table, a direct connection to
//! the node, a measured time in the driver. The injecting call's own success proves nothing.
mod ask;
mod bandwidth;
mod client_clock;
mod client_kill;
mod client_pause;
mod cripple;
mod failover;
mod latency;
mod leader_change;
mod limit_data;
mod links;
mod members;
mod message;
mod nemesis;
mod node_clock;
mod node_delete;
mod node_drop_clients;
mod node_evict;
mod node_flush;
mod node_full;
mod node_kill;
mod node_pause;
mod node_power_loss;
mod node_readonly;
mod node_restart;
mod node_script_flush;
mod node_slow;
mod packet_loss;
mod partition;
mod pipe;
mod probe;
mod replication;
mod resource_delay;
mod session_expiry;
mod slicer;
mod slow_close;
mod slow_work;
mod stamp;
mod stream;
mod swizzle;
mod target;
mod wall;
mod world;

pub use message::{Messages, watch};
pub use nemesis::Nemesis;
pub use world::World;

use crate::cluster::{Backend, Cluster, ClusterError, SHARED_ADDRESS, SHARED_NETWORK};
use crate::plan::{FaultKind, FaultPlan, Plan, Target, is_server};
use crate::run::board::Hold;
use async_trait::async_trait;
use session_expiry::SessionExpiry;

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

    /// Takes down what [`Fault::bit`] compares with, before anything is done. `Err`: it cannot be injected.
    async fn prepare(&mut self, _world: &World) -> Result<(), String> {
        Ok(())
    }

    /// Makes it so. `Err` is why it could not be done.
    async fn inject(&mut self, world: &World) -> Result<(), String>;

    /// Proves that it took effect.
    async fn bit(&mut self, world: &World) -> Proof;

    /// Whether it ends by itself: there is no window to wait for.
    fn momentary(&self) -> bool {
        false
    }

    /// Waits until nothing is left for it to do, so that its window may end before its time.
    async fn spent(&mut self) {
        std::future::pending::<()>().await;
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

/// Whether each fault of the plan can be made on this backend, known before a server is started.
///
/// # Errors
/// [`ClusterError::Impossible`] with the reason of the first that cannot.
pub fn possible_on(plan: &Plan, backend: Backend) -> Result<(), ClusterError> {
    if backend != Backend::Local {
        return Ok(());
    }
    for fault in &plan.faults {
        let why = match (&fault.kind, &fault.target) {
            (FaultKind::PacketLoss, _) => Some(SHARED_NETWORK),
            (_, Target::Link(from, to)) if is_server(from) || from.starts_with('n') => {
                let alone = !matches!(from.as_str(), "replicas" | "sentinels" | "servers");
                (!alone || to != "servers").then_some(SHARED_ADDRESS)
            }
            _ => None,
        };
        if let Some(why) = why {
            return Err(ClusterError::Impossible {
                fault: fault.kind.to_string(),
                target: fault.target.to_string(),
                why,
            });
        }
    }
    Ok(())
}

/// Whether each fault of the plan can be made on these servers, which depends on how the engine runs them.
///
/// # Errors
/// The reason of the first that cannot.
pub fn possible(plan: &Plan, cluster: &Cluster) -> Result<(), ClusterError> {
    for fault in &plan.faults {
        if fault.kind == FaultKind::PacketLoss {
            for node in 0..cluster.node_count() {
                cluster.namespace(node)?;
            }
        }
    }
    Ok(())
}

/// Resolves a planned fault against the run as it stands; `hold` is the trigger's operation, if there was one.
async fn resolve(
    plan: &FaultPlan,
    number: u32,
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
        FaultKind::QuorumThin => Box::new(partition::Partition::new(
            plan,
            target::thin(plan, hold, world)?,
        )),
        FaultKind::Failover => {
            Box::new(failover::Failover::new(replication::primary(world).await?))
        }
        FaultKind::LeaderChange => Box::new(leader_change::LeaderChange::new(
            members::leader(world).await?,
        )),
        FaultKind::SessionExpiry => Box::new(SessionExpiry::new(plan, hold, world)?),
        FaultKind::ResourceDelay => Box::new(resource_delay::ResourceDelay::new(
            plan,
            target::client(plan, hold, world)?,
        )?),
        FaultKind::NodeDropClients
        | FaultKind::NodeScriptFlush
        | FaultKind::NodeFlush
        | FaultKind::NodeEvict
        | FaultKind::NodeFull
        | FaultKind::NodeSlow
        | FaultKind::NodeReadonly
        | FaultKind::NodeClock
        | FaultKind::NodePowerLoss
        | FaultKind::PacketLoss => of_nodes(plan, target::nodes(plan, hold, world).await?)?,
        FaultKind::NodeDelete => Box::new(node_delete::NodeDelete::new(
            target::nodes(plan, hold, world).await?,
            hold,
            world,
        )?),
        FaultKind::ClientClock => Box::new(client_clock::ClientClock::new(
            plan,
            target::client(plan, hold, world)?,
        )),
        FaultKind::Partition
        | FaultKind::Latency
        | FaultKind::Bandwidth
        | FaultKind::SlowClose
        | FaultKind::Slicer
        | FaultKind::LimitData
        | FaultKind::Swizzle => of_links(plan, target::links(plan, hold, world).await?, world)?,
        FaultKind::Message => Box::new(message::MessageRule::new(plan, number, hold, world)?),
    })
}

/// Faults of servers that live: commands to them, and packets on their way.
fn of_nodes(plan: &FaultPlan, nodes: Vec<usize>) -> Result<Box<dyn Fault>, String> {
    Ok(match plan.kind {
        FaultKind::NodeDropClients => Box::new(node_drop_clients::NodeDropClients::new(nodes)),
        FaultKind::NodeScriptFlush => Box::new(node_script_flush::NodeScriptFlush::new(nodes)),
        FaultKind::NodeFlush => Box::new(node_flush::NodeFlush::new(nodes)),
        FaultKind::NodeEvict => Box::new(node_evict::NodeEvict::new(nodes)),
        FaultKind::NodeFull => Box::new(node_full::NodeFull::new(nodes)),
        FaultKind::NodeSlow => Box::new(node_slow::NodeSlow::new(plan, nodes)),
        FaultKind::NodeReadonly => Box::new(node_readonly::NodeReadonly::new(nodes)),
        FaultKind::NodeClock => Box::new(node_clock::NodeClock::new(plan, nodes)),
        FaultKind::NodePowerLoss => Box::new(node_power_loss::NodePowerLoss::new(plan, nodes)),
        FaultKind::PacketLoss => Box::new(packet_loss::PacketLoss::new(plan, nodes)?),
        other => return Err(format!("{other} is no fault of a living server")),
    })
}

/// Faults of links: cut, late, or carrying bytes badly.
fn of_links(
    plan: &FaultPlan,
    links: Vec<target::Link>,
    world: &World,
) -> Result<Box<dyn Fault>, String> {
    use pipe::Pipe;
    let direction = plan.direction;
    Ok(match plan.kind {
        FaultKind::Partition => Box::new(partition::Partition::new(plan, links)),
        FaultKind::Latency => Box::new(latency::Latency::new(plan, links)),
        FaultKind::Bandwidth => Box::new(Pipe::new(
            bandwidth::Bandwidth::new(plan)?,
            links,
            direction,
        )),
        FaultKind::SlowClose => Box::new(Pipe::new(
            slow_close::SlowClose::new(plan)?,
            links,
            direction,
        )),
        FaultKind::Slicer => Box::new(Pipe::new(slicer::Slicer::new(plan)?, links, direction)),
        FaultKind::LimitData => Box::new(Pipe::new(
            limit_data::LimitData::new(plan)?,
            links,
            direction,
        )),
        FaultKind::Swizzle => Box::new(swizzle::Swizzle::new(plan, links, world)),
        other => return Err(format!("{other} is no fault of links")),
    })
}
