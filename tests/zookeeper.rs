//! Topology `zookeeper` on real servers: what the quick workloads of the matrix find, and a fault of its own.
mod harness;
#[path = "harness/members.rs"]
mod members;

use fencepost_checker::Outcome::{Valid, Violated};
use harness::{docker_answers, ran, skipped};
use members::{cell, judged};

#[test]
fn a_holder_that_stands_still_past_its_session_overruns_and_its_czxid_gives_it_away() {
    let Some(verdict) = cell("holder-pause--zookeeper", Some("fenced")) else {
        return;
    };
    let all = [
        ("overrun", Violated),
        ("effects", Valid),
        ("fencing", Valid),
        ("ownership", Valid),
        ("truthful", Valid),
    ];
    judged(&verdict, &all);
}

#[test]
fn the_leader_dies_and_nobody_is_granted_what_another_holds() {
    let Some(verdict) = cell("leader--zookeeper", Some("killed")) else {
        return;
    };
    judged(&verdict, &[("service", Valid), ("leak", Valid)]);
}

/// The trigger's holder works for 1 s more, so another is granted the lock while it has a promise.
#[test]
fn a_session_that_somebody_ends_breaks_the_promise_and_a_fence_refuses_the_write() {
    let Some(verdict) = cell("session-expiry--zookeeper", Some("fenced")) else {
        return;
    };
    judged(&verdict, &[("service", Violated), ("effects", Valid)]);
}

/// A holder that crashed while the leader's clock is a minute behind loses its session after its own two seconds.
#[test]
fn the_leaders_clock_steps_and_sessions_last_neither_longer_nor_shorter() {
    let Some(verdict) = cell("clock-back--zookeeper", Some("crash")) else {
        return;
    };
    judged(&verdict, &[("service", Valid), ("deadlock", Valid)]);
    let stopped = "cluster = { topology = 'zookeeper' }\nlock = { name = 'zookeeper' }\n\
        load = { clients = 2, work = { fixed = '100ms' }, think = '30ms', for = '2s', tail = '1s' }\n\
        [[fault]]\nkind = 'node-clock'\ntarget = 'leader'\nstep = '+60s'\nat = '500ms'\nfor = '200ms'\n";
    let (code, said) = ran(stopped, "docker", Some("node-clock"));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("(node-clock) is not proved"), "{said}");
}

const ENDED: &str = "cluster = { topology = 'zookeeper' }\n\
    lock = { name = 'zookeeper' }\n\
    load = { clients = 2, work = { fixed = '300ms' }, think = '30ms', for = '2s', tail = '1s' }\n\
    [[fault]]\nkind = 'session-expiry'\ntarget = 'holder'\non = { op = 'acquire', result = 'ok', nth = 2 }\n";

#[test]
fn a_session_that_goes_on_makes_the_run_unknown() {
    let test = "a_session_that_goes_on_makes_the_run_unknown";
    if !docker_answers() {
        return skipped(test);
    }
    let (code, said) = ran(ENDED, "docker", Some("session-expiry"));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("(session-expiry) is not proved"), "{said}");
}

#[test]
fn servers_of_an_ensemble_need_containers() {
    let (code, said) = ran(ENDED, "local", None);
    assert_eq!(code, Some(69), "{said}");
    for part in ["topology `zookeeper` runs on Docker only", "hint: "] {
        assert!(said.contains(part), "{part} in {said}");
    }
}
