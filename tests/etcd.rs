//! Topology `etcd` on real servers: what the quick workloads of the matrix find, and a fault of its own.
mod harness;
#[path = "harness/members.rs"]
mod members;

use fencepost_checker::Outcome::{Valid, Violated};
use harness::{docker_answers, ran, skipped};
use members::{cell, judged};

#[test]
fn a_holder_that_stands_still_past_its_session_overruns_and_its_revision_gives_it_away() {
    let Some(verdict) = cell("holder-pause--etcd", Some("fenced")) else {
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
    let Some(verdict) = cell("leader--etcd", Some("killed")) else {
        return;
    };
    judged(&verdict, &[("service", Valid)]);
}

const HANDED_OVER: &str = "cluster = { topology = 'etcd' }\n\
    lock = { name = 'etcd' }\n\
    load = { clients = 2, work = { fixed = '60ms' }, think = '30ms', for = '3s', tail = '1s' }\n\
    [[fault]]\nkind = 'leader-change'\ntarget = 'leader'\nat = '1s'\n";

/// The two runs share servers and, by their names, would share keys.
const CUT_TWICE: &str = "cluster = { topology = 'etcd' }\n\
    lock = { name = 'etcd', ttl = '1s' }\n\
    load = { clients = 2, work = { fixed = '60ms' }, think = '30ms', for = '2s', tail = '1s' }\n\
    [[variant.a.fault]]\nkind = 'partition'\ntarget = 'link:c1>*'\ndirection = 'replies'\nat = '500ms'\nfor = '600ms'\n\
    [[variant.b.fault]]\nkind = 'partition'\ntarget = 'link:c1>*'\ndirection = 'requests'\nat = '500ms'\nfor = '600ms'\n";

/// One member is killed for good, another is restarted while there is no quorum to agree on anything.
const NO_QUORUM: &str = "cluster = { topology = 'etcd' }\n\
    lock = { name = 'etcd', ttl = '1s' }\n\
    load = { clients = 2, work = { fixed = '60ms' }, think = '30ms', for = '3s', tail = '1s' }\n\
    [[fault]]\nkind = 'node-kill'\ntarget = 'node:1'\nat = '500ms'\nfor = '1500ms'\n\
    [[fault]]\nkind = 'node-pause'\ntarget = 'node:2'\nat = '600ms'\nfor = '1400ms'\n\
    [[fault]]\nkind = 'node-restart'\ntarget = 'node:3'\nat = '1s'\n\
    [expect]\nservice = 'any'\noverrun = 'any'\neffects = 'any'\nminority = 'any'\nprogress = 'any'\n";

#[test]
fn a_restart_is_proved_where_the_others_agree_on_nothing() {
    let test = "a_restart_is_proved_where_the_others_agree_on_nothing";
    if !docker_answers() {
        return skipped(test);
    }
    let (code, said) = ran(NO_QUORUM, "docker", None);
    assert!(matches!(code, Some(0..=2)), "{said}");
    // Its row in the table of faults: injected, bit, healed, unproved.
    assert!(said.contains("node-restart 1 1 1 0"), "{said}");
}

#[test]
fn a_leader_that_did_not_change_makes_the_run_unknown() {
    let test = "a_leader_that_did_not_change_makes_the_run_unknown";
    if !docker_answers() {
        return skipped(test);
    }
    let (code, said) = ran(HANDED_OVER, "docker", Some("leader-change"));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("(leader-change) is not proved"), "{said}");
}

#[test]
fn a_probe_that_an_earlier_run_left_behind_proves_nothing() {
    let test = "a_probe_that_an_earlier_run_left_behind_proves_nothing";
    if !docker_answers() {
        return skipped(test);
    }
    let (code, said) = ran(CUT_TWICE, "docker", None);
    assert!(matches!(code, Some(0 | 2)), "{said}");
    assert!(!said.contains("(partition) is not proved"), "{said}");
}

#[test]
fn members_need_containers() {
    let (code, said) = ran(HANDED_OVER, "local", None);
    assert_eq!(code, Some(69), "{said}");
    for part in ["topology `etcd` runs on Docker only", "hint: "] {
        assert!(said.contains(part), "{part} in {said}");
    }
}
