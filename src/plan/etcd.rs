//! What holds for topology `etcd` alone: which settings, locks and faults make sense there.
//!
//! Owns these rules. Must not know how anything is run. `sections`, `fault` and `file` ask here.
use super::kinds::{KindInfo, on_etcd};
use super::names::{LockRules, Place};
use super::read::Section;
use super::tree::{At, Texts};
use super::{ClusterPlan, Connection, LockPlan, Persistence, RestartData, Target, Topology};
use std::time::Duration;

/// The shortest lease that a member grants with the election timeout that it is given here.
const LEASE_MIN: Duration = Duration::from_secs(1);

/// The image of the servers, where the file names none.
pub fn image(topology: Option<Topology>) -> &'static str {
    match topology {
        Some(Topology::Etcd) => "fencepost/etcd:3.4",
        _ => "fencepost/redis:7",
    }
}

/// Members always sync their log before they answer; elsewhere it is as given.
pub fn persistence(
    texts: &mut Texts,
    s: &Section<'_>,
    topology: Topology,
    given: Option<Persistence>,
) -> Option<Persistence> {
    if topology != Topology::Etcd {
        return given;
    }
    if given.is_some_and(|p| p != Persistence::AofAlways) {
        let help = "a member syncs its log before it answers; leave `persistence` out".to_owned();
        let label = "cannot be chosen for etcd";
        texts.problem(
            &s.at("persistence"),
            "`persistence` on topology `etcd`",
            label,
            help,
        );
    }
    Some(Persistence::AofAlways)
}

/// What a lock on etcd can and cannot do, and what else runs there.
pub fn lock(
    texts: &mut Texts,
    s: &Section<'_>,
    cluster_s: &Section<'_>,
    (rules, plan): (&LockRules, &LockPlan),
    cluster: Option<&ClusterPlan>,
) {
    let there = cluster.is_some_and(|c| c.topology == Topology::Etcd);
    let (name, known) = (rules.name, cluster.is_some());
    if there && matches!(rules.place, Place::OneNode | Place::Quorum) {
        let help = "take lock.name = \"etcd\", or another topology".to_owned();
        let message = format!("`{name}` on topology `etcd`");
        let label = format!("{name} speaks to Redis");
        texts.problem(&s.at("name"), message, label, help);
    }
    if rules.place != Place::Etcd {
        return;
    }
    if known && !there {
        let at = if cluster_s.entry("topology").is_some() {
            cluster_s.at("topology")
        } else {
            s.at("name")
        };
        let help = "take cluster = { topology = \"etcd\" }".to_owned();
        texts.problem(
            &at,
            "`etcd` without etcd",
            "the lock needs an etcd cluster",
            help,
        );
    }
    if plan.ttl.subsec_nanos() != 0 || plan.ttl < LEASE_MIN {
        let help = "ttl = \"1s\" is the shortest".to_owned();
        let label = "a lease there is whole seconds, one at least";
        texts.problem(
            &s.at("ttl"),
            "`ttl` is no lease that etcd grants",
            label,
            help,
        );
    }
    if plan.connection == Connection::Worker {
        let help = "leave `connection` out: one connection carries one request at a time";
        let label = "not for this lock";
        texts.problem(
            &s.at("connection"),
            "`connection` for `etcd`",
            label,
            help.to_owned(),
        );
    }
}

/// Whether a fault can be made on etcd's servers at all.
pub fn fault(
    texts: &mut Texts,
    (at, target_at): (&At, &At),
    row: &KindInfo,
    target: &Target,
) -> bool {
    if let Err(why) = on_etcd(row.kind) {
        let message = format!("`{}` on topology `etcd`", row.name);
        texts.problem(at, message, "cannot be made there", why.to_owned());
        return false;
    }
    let sentinel = |end: &str| end.starts_with("sentinel");
    let sentinels = match target {
        Target::Sentinel(_) | Target::Sentinels => true,
        Target::Link(from, to) => sentinel(from) || sentinel(to),
        _ => false,
    };
    if sentinels {
        let message = format!("`{target}` for `{}` on topology `etcd`", row.name);
        let help = "etcd's servers are its members: `primary` (the leader), `replica:1`, `servers`";
        texts.problem(
            target_at,
            message,
            "there are no Sentinels",
            help.to_owned(),
        );
    }
    !sentinels
}

/// A member that comes back empty is no member any more.
pub fn restart(texts: &mut Texts, s: &Section<'_>, data: RestartData) {
    if data == RestartData::Drop {
        let help = "data = \"keep\"; a member that lost its data must be removed from the cluster and added anew";
        let label = "the others would not take it back";
        texts.problem(
            &s.at("data"),
            "an empty restart on topology `etcd`",
            label,
            help.to_owned(),
        );
    }
}

/// Taps read RESP.
pub fn tap(texts: &mut Texts, at: &At) {
    let help = "leave `tap` out; triggers on operations work".to_owned();
    let label = "messages are read in RESP, which etcd does not speak";
    texts.problem(at, "`tap` on topology `etcd`", label, help);
}
