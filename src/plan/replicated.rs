//! What holds for the topologies whose members agree by consensus, `etcd` and `zookeeper`: which settings, locks and faults
//! make sense there.
//!
//! Owns these rules: one table of what the systems differ in, and one of the faults. Must not know how anything is run.
//! `sections`, `fault` and `file` ask here.
use super::kinds::KindInfo;
use super::names::{LockRules, Place};
use super::read::Section;
use super::tree::{At, Texts};
use super::{
    ClusterPlan, Connection, Direction, FaultKind, FaultPlan, LockPlan, Persistence, RestartData,
    Target, Topology,
};
use std::time::Duration;

/// One such system.
struct System {
    topology: Topology,
    /// As people write it.
    name: &'static str,
    /// What its servers are together, and one of them.
    cluster: &'static str,
    member: &'static str,
    image: &'static str,
    /// The shortest lease that is granted with the settings that servers get here, and what leases can be.
    shortest: Duration,
    whole_seconds: bool,
    leases: &'static str,
    /// Why it can have no other connections.
    connection: &'static str,
}

const SYSTEMS: [System; 2] = [
    System {
        topology: Topology::Etcd,
        name: "etcd",
        cluster: "an etcd cluster",
        member: "a member",
        image: "fencepost/etcd:3.4",
        shortest: Duration::from_secs(1),
        whole_seconds: true,
        leases: "a lease there is whole seconds, one at least",
        connection: "one connection carries one request at a time",
    },
    System {
        topology: Topology::ZooKeeper,
        name: "ZooKeeper",
        cluster: "a ZooKeeper ensemble",
        member: "a server",
        image: "fencepost/zookeeper:3.8",
        shortest: Duration::from_millis(500),
        whole_seconds: false,
        leases: "a session there lasts 500 ms at least",
        connection: "each lease is a session, with connections of its own",
    },
];

fn system(topology: Topology) -> Option<&'static System> {
    SYSTEMS.iter().find(|s| s.topology == topology)
}

/// The image of the servers, where the file names none.
pub fn image(topology: Option<Topology>) -> &'static str {
    topology
        .and_then(system)
        .map_or("fencepost/redis:7", |s| s.image)
}

/// Members always sync their log before they answer; elsewhere it is as given.
pub fn persistence(
    texts: &mut Texts,
    s: &Section<'_>,
    topology: Topology,
    given: Option<Persistence>,
) -> Option<Persistence> {
    let Some(system) = system(topology) else {
        return given;
    };
    if given.is_some_and(|p| p != Persistence::AofAlways) {
        let member = system.member;
        let help = format!("{member} syncs its log before it answers; leave `persistence` out");
        let message = format!("`persistence` on topology `{}`", topology.name());
        let label = format!("cannot be chosen for {}", system.name);
        texts.problem(&s.at("persistence"), message, label, help);
    }
    Some(Persistence::AofAlways)
}

/// What a lock on such a system can and cannot do, and what else runs there.
pub fn lock(
    texts: &mut Texts,
    s: &Section<'_>,
    cluster_s: &Section<'_>,
    (rules, plan): (&LockRules, &LockPlan),
    cluster: Option<&ClusterPlan>,
) {
    let topology = cluster.map(|c| c.topology);
    let name = rules.name;
    let home = match rules.place {
        Place::Replicated(home) => Some(home),
        Place::OneNode | Place::Quorum | Place::Anywhere => None,
    };
    if let Some(there) = topology.and_then(system)
        && rules.place != Place::Anywhere
        && home != Some(there.topology)
    {
        let topology = there.topology.name();
        let help = format!("take lock.name = \"{topology}\", or another topology");
        let message = format!("`{name}` on topology `{topology}`");
        let speaks = home.and_then(system).map_or("Redis", |s| s.name);
        let label = format!("{name} speaks to {speaks}");
        texts.problem(&s.at("name"), message, label, help);
        return;
    }
    let Some(home) = home.and_then(system) else {
        return;
    };
    if topology.is_some_and(|t| t != home.topology) {
        let at = if cluster_s.entry("topology").is_some() {
            cluster_s.at("topology")
        } else {
            s.at("name")
        };
        let help = format!(
            "take cluster = {{ topology = \"{}\" }}",
            home.topology.name()
        );
        let message = format!("`{name}` without {}", home.name);
        let label = format!("the lock needs {}", home.cluster);
        texts.problem(&at, message, label, help);
    }
    let odd = home.whole_seconds && plan.ttl.subsec_nanos() != 0;
    if odd || plan.ttl < home.shortest {
        let shortest = super::duration::text(home.shortest);
        let help = format!("ttl = \"{shortest}\" is the shortest");
        let message = format!("`ttl` is no lease that {} grants", home.name);
        texts.problem(&s.at("ttl"), message, home.leases, help);
    }
    if plan.connection == Connection::Worker {
        let help = format!("leave `connection` out: {}", home.connection);
        let message = format!("`connection` for `{name}`");
        texts.problem(&s.at("connection"), message, "not for this lock", help);
    }
}

/// Whether a fault can be made on these servers at all.
pub fn fault(
    texts: &mut Texts,
    (at, target_at): (&At, &At),
    row: &KindInfo,
    target: &Target,
    topology: Topology,
) -> bool {
    let Some(system) = system(topology) else {
        return true;
    };
    let place = topology.name();
    if let Err(why) = possible(row.kind, topology) {
        let message = format!("`{}` on topology `{place}`", row.name);
        texts.problem(at, message, "cannot be made there", why);
        return false;
    }
    if row.kind == FaultKind::NodeClock && *target != Target::Primary {
        let message = format!("`{target}` for `{}` on topology `{place}`", row.name);
        let help = "take target = \"leader\": it stamps what all agree on with its time of day; no answer of a follower \
                    tells the time"
            .to_owned();
        let label = "only the leader's clock can be proved wrong";
        texts.problem(target_at, message, label, help);
        return false;
    }
    let sentinel = |end: &str| end.starts_with("sentinel");
    let sentinels = match target {
        Target::Sentinel(_) | Target::Sentinels => true,
        Target::Link(from, to) => sentinel(from) || sentinel(to),
        _ => false,
    };
    if sentinels {
        let message = format!("`{target}` for `{}` on topology `{place}`", row.name);
        let name = system.name;
        let help = format!(
            "{name}'s servers are its members: `primary` (the leader), `replica:1`, `servers`"
        );
        texts.problem(target_at, message, "there are no Sentinels", help);
    }
    !sentinels
}

/// Whether a kind can hit servers that speak no RESP, but what a system speaks.
///
/// # Errors
/// Why not.
fn possible(kind: FaultKind, topology: Topology) -> Result<(), String> {
    use FaultKind::{
        Bandwidth, ClientClock, ClientKill, ClientPause, ClientRestart, Failover, Latency,
        LeaderChange, LimitData, Message, NodeClock, NodeDelete, NodeDropClients, NodeEvict,
        NodeFlush, NodeFull, NodeKill, NodePause, NodePowerLoss, NodeReadonly, NodeRestart,
        NodeScriptFlush, NodeSlow, PacketLoss, Partition, QuorumThin, ResourceDelay, SessionExpiry,
        Slicer, SlowClose, SlowWork, Swizzle,
    };
    let etcd = topology == Topology::Etcd;
    let name = system(topology).map_or("it", |s| s.name);
    let why = match kind {
        ClientPause | ClientKill | ClientRestart | SlowWork | NodePause | NodeKill
        | NodeRestart | Partition | Latency | ResourceDelay | ClientClock => return Ok(()),
        LeaderChange if etcd => return Ok(()),
        SessionExpiry | NodeClock if !etcd => return Ok(()),
        LeaderChange => {
            "no command makes another server of ZooKeeper the leader: kill, pause or cut off the one \
             that leads"
        }
        SessionExpiry => "etcd has leases, which only their own id ends; this fault is ZooKeeper's",
        NodeClock => {
            "etcd is a Go program, which reads the clock without the C library, so no preload shim \
             reaches it; its leases run on the monotonic clock"
        }
        NodePowerLoss if etcd => {
            "etcd answers once its log is synced, and the preload shim, which notes what was, does not \
             reach a Go program"
        }
        NodePowerLoss => {
            "what is cut is the un-synced tail of an append-only file of Redis; ZooKeeper answers once \
             its log is synced"
        }
        Failover if etcd => {
            "there are no Sentinels; `leader-change` makes another member the leader"
        }
        Failover => {
            "there are no Sentinels; another server leads once the leader is killed, paused or cut off"
        }
        QuorumThin => {
            return Err(format!(
                "{name}'s members agree among themselves: its clients need one of them, no quorum"
            ));
        }
        NodeDropClients | NodeScriptFlush | NodeFlush | NodeDelete | NodeEvict | NodeFull
        | NodeSlow | NodeReadonly => {
            return Err(format!("it is made of commands that {name} does not know"));
        }
        Bandwidth | SlowClose | Slicer | LimitData | Swizzle | PacketLoss => {
            return Err(format!("its proof speaks RESP, which {name} does not"));
        }
        Message => {
            return Err(format!(
                "messages are read in RESP, which {name} does not speak"
            ));
        }
    };
    Err(why.to_owned())
}

/// A member that comes back empty is no member any more; and what cannot be proved between members.
pub fn members(texts: &mut Texts, s: &Section<'_>, plan: &FaultPlan, topology: Topology) {
    let Some(system) = system(topology) else {
        return;
    };
    if plan.data == RestartData::Drop {
        let help = match topology {
            Topology::ZooKeeper => {
                "data = \"keep\"; a server that lost its data votes as if it had never agreed to anything"
            }
            _ => {
                "data = \"keep\"; a member that lost its data must be removed from the cluster and added anew"
            }
        };
        let message = format!("an empty restart on topology `{}`", topology.name());
        let label = match topology {
            Topology::ZooKeeper => "what a majority agreed on could be lost with it",
            _ => "the others would not take it back",
        };
        texts.problem(&s.at("data"), message, label, help.to_owned());
    }
    let inner = matches!(&plan.target, Target::Link(from, _) if super::fault::is_server(from));
    let whole = plan.kind == FaultKind::Partition && plan.direction == Direction::Both;
    if topology == Topology::ZooKeeper && inner && !whole {
        let message = format!("`{}` between servers of {}", plan.kind, system.name);
        let help = "take kind = \"partition\" without `direction`: a server hangs up on a stranger, and that passes any \
                    toxic on its replies, so nothing else can be proved";
        texts.problem(&s.at("target"), message, "only whole cuts", help.to_owned());
    }
}

/// Taps read RESP: no `tap`, and nothing that waits for a message, which would bring one.
pub fn tap(texts: &mut Texts, at: &At, key: &str, topology: Topology) {
    let Some(system) = system(topology) else {
        return;
    };
    let help = format!(
        "leave `{key}` out; triggers on operations work: {{ op = \"acquire\", result = \"ok\" }}"
    );
    let name = system.name;
    let label = format!("messages are read in RESP, which {name} does not speak");
    let message = format!("`{key}` on topology `{}`", topology.name());
    texts.problem(at, message, label, help);
}
