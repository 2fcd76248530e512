//! Topology `sentinel` on real servers: what the quick workloads of the matrix find, and what a finding then says.
mod harness;

use fencepost_checker::{Blame, Outcome, Verdict};
use harness::{Ran, as_stated, backend, docker_answers, ran, skipped};

/// Runs a workload of the matrix, as it states.
fn judged(name: &str, backend: &str) -> Verdict {
    let ran = as_stated(&format!("matrix/{name}--sentinel"), backend);
    Ran::verdict(&ran.folders().pop().expect("a results folder"))
}

/// The links between servers can be told apart on containers only.
fn on_docker(name: &str) -> Option<Verdict> {
    if !docker_answers() {
        skipped(name);
        return None;
    }
    Some(judged(name, "docker"))
}

#[test]
fn a_grant_that_was_not_replicated_is_lost_with_its_primary_and_the_finding_says_so() {
    let Some(verdict) = on_docker("fencing-after-failover") else {
        return;
    };
    let service = verdict.check("service").expect("service is judged");
    let first = &service.findings[0];
    assert_eq!(first.blame, Blame::Service);
    for part in ["was promoted between", "without A's key", "and granted B"] {
        assert!(first.sentence.contains(part), "{}", first.sentence);
    }
    let fencing = verdict.check("fencing").expect("fencing is judged");
    assert_eq!(fencing.outcome, Outcome::Violated);
    assert!(
        fencing.findings[0].sentence.contains("promoted by"),
        "{}",
        fencing.findings[0].sentence
    );
}

#[test]
fn a_grant_that_waits_for_the_one_replica_survives() {
    on_docker("primary-killed-wait-1");
}

#[test]
fn a_primary_that_is_cut_off_keeps_granting() {
    judged("primary-cut-off", backend("primary-cut-off"));
}

#[test]
fn a_planned_failover_leaves_two_primaries_that_grant() {
    let name = "planned-failover";
    let verdict = judged(name, backend(name));
    let service = verdict.check("service").expect("service is judged");
    assert!(
        service.findings.iter().all(|f| f.blame == Blame::Service),
        "{:?}",
        service.findings
    );
}

#[test]
fn a_set_that_arrives_after_its_own_del_holds_the_lock_for_nobody() {
    let name = "late-set";
    judged(name, backend(name));
}

const PLANNED: &str = "cluster = { topology = 'sentinel' }\n\
    lock = { name = 'set-nx-lua', ttl = '1s' }\n\
    load = { clients = 2, work = { fixed = '60ms' }, for = '2s', tail = '1s' }\n\
    [[fault]]\nkind = 'failover'\ntarget = 'primary'\nat = '500ms'\nfor = '1s'\n";

#[test]
fn a_failover_that_nobody_ordered_is_proved_to_be_none() {
    let (code, said) = ran(PLANNED, "local", Some("failover"));
    assert_eq!(code, Some(2), "{said}");
    let lacks = "fault 0 (failover) is not proved to have taken effect";
    assert!(said.contains(lacks), "{said}");
}
