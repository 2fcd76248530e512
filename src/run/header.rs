//! The head of a history: what the checker is told of the system under test.
//!
//! Owns the bounds that follow from the plan. Must not know what happens in the run; `recorder` writes it first.
use crate::plan::{Plan, StepPlan, Topology};
use fencepost_checker::{Header, Model};
use std::collections::BTreeMap;
use std::time::Duration;

/// What the checker is told of the system under test.
pub(super) fn header(plan: &Plan, versions: BTreeMap<String, String>) -> Header {
    let name = plan.lock.name.as_deref();
    let lease = !matches!(name, Some("set-nx-no-ttl" | "perfect"));
    // Members of one cluster answer as one: a majority of them has agreed on whatever one says.
    let replicated = plan.cluster.topology.is_replicated();
    let nodes = if replicated { 1 } else { plan.cluster.nodes };
    let millis = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
    Header {
        fencepost: 1,
        workload: plan
            .variant
            .as_ref()
            .map_or_else(|| plan.name.clone(), |v| format!("{}/{v}", plan.name)),
        seed: plan.seed,
        model: Model {
            ttl_ms: lease.then(|| millis(plan.lock.ttl)),
            nodes,
            // Of a primary and its replicas one has the say; copies are no quorum.
            quorum: match plan.cluster.topology {
                Topology::Sentinel => 1,
                _ => nodes / 2 + 1,
            },
            members: match plan.cluster.topology {
                Topology::Etcd | Topology::ZooKeeper => plan.cluster.nodes,
                Topology::Single | Topology::Independent | Topology::Sentinel => 0,
            },
            fence: plan.resource.fence,
            tokens: plan.lock.fencing,
            respects_validity: plan.lock.respect_validity,
            retry_ms: millis(plan.lock.retry),
            call_ms: call_bound(plan).map(millis),
            load_max: load_bound(plan),
            bypass_max: plan.lock.bypass,
            // The control lock `perfect` leaves nothing on the servers to be observed.
            observed: name != Some("perfect"),
            silent_renewals: replicated,
            coverage: true,
            waits: plan
                .steps
                .iter()
                .any(|step| matches!(step, StepPlan::Do(d) if !d.wait.is_zero())),
            ..Model::default()
        },
        expect: plan.expect.clone(),
        versions,
    }
}

/// The bound that is stated on every call, where a lock can keep to it: a call asks each server twice at most (set and
/// give up, or a script and its text), side by side, and may spend `node_timeout` on each.
fn call_bound(plan: &Plan) -> Option<Duration> {
    const SLACK: Duration = Duration::from_secs(1);
    let needed = 2 * plan.lock.node_timeout + SLACK;
    (needed <= plan.lock.timeout).then_some(plan.lock.timeout)
}

/// Commands a second and server that the workers may send: each makes a try at most every half `retry`, and a try is
/// worth eight commands at most (the grant, its giving up, an extension, each once more by its text, and two to greet a
/// server anew).
fn load_bound(plan: &Plan) -> Option<f64> {
    const A_TRY: f64 = 8.0;
    let pause = plan.lock.retry.as_secs_f64() / 2.0;
    let workers = f64::from(plan.load.clients * plan.load.workers);
    (pause > 0.0).then(|| workers * A_TRY / pause)
}
