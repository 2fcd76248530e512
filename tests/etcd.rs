//! Topology `etcd` on real servers: what the quick workloads of the matrix find, and a fault of its own.
mod harness;

use fencepost_checker::{Outcome, Verdict};
use harness::{Ran, alone, as_stated_with, docker_answers, fencepost, skipped};
use std::process::Output;

/// Runs one variant of a cell of the matrix and demands that it came out as it states.
fn as_stated(cell: &str, variant: &str) -> Option<Verdict> {
    if !docker_answers() {
        skipped(cell);
        return None;
    }
    let file = format!("matrix/{cell}--etcd");
    let ran = as_stated_with(&file, "docker", &["--variant", variant]);
    Some(Ran::verdict(
        &ran.folders().pop().expect("a results folder"),
    ))
}

#[test]
fn a_holder_that_stands_still_past_its_session_overruns_and_its_revision_gives_it_away() {
    let Some(verdict) = as_stated("holder-pause", "fenced") else {
        return;
    };
    for (check, outcome) in [
        ("overrun", Outcome::Violated),
        ("effects", Outcome::Valid),
        ("fencing", Outcome::Valid),
        ("ownership", Outcome::Valid),
        ("truthful", Outcome::Valid),
    ] {
        let judged = verdict.check(check).expect("judged");
        assert_eq!(judged.outcome, outcome, "{check}: {judged:?}");
    }
}

#[test]
fn the_leader_dies_and_nobody_is_granted_what_another_holds() {
    let Some(verdict) = as_stated("leader", "killed") else {
        return;
    };
    let service = verdict.check("service").expect("judged");
    assert_eq!(service.outcome, Outcome::Valid, "{service:?}");
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

/// Exit code and both outputs.
fn ran(text: &str, backend: &str, cripple: Option<&str>) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().expect("temp folder");
    let file = folder.path().join("own.toml");
    std::fs::write(&file, text).expect("written");
    let mut command = fencepost();
    command.arg("run").arg(&file);
    command.args(["--seed", "3", "--backend", backend, "--results"]);
    command.arg(folder.path().join("results"));
    if let Some(kinds) = cripple {
        command.env("FENCEPOST_CRIPPLE", kinds);
    }
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().expect("fencepost runs");
    let said = [stdout, stderr].map(|s| String::from_utf8_lossy(&s).into_owned());
    (status.code(), said.join("\n"))
}

#[test]
fn a_leader_that_did_not_change_makes_the_run_unknown() {
    let test = "a_leader_that_did_not_change_makes_the_run_unknown";
    if !docker_answers() {
        return skipped(test);
    }
    let _alone = alone();
    let (code, said) = ran(HANDED_OVER, "docker", Some("leader-change"));
    assert_eq!(code, Some(2), "{said}");
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("(leader-change) is not proved"), "{said}");
}

#[test]
fn a_probe_that_an_earlier_run_left_behind_proves_nothing() {
    let test = "a_probe_that_an_earlier_run_left_behind_proves_nothing";
    if !docker_answers() {
        return skipped(test);
    }
    let _alone = alone();
    let (code, said) = ran(CUT_TWICE, "docker", None);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(matches!(code, Some(0 | 2)), "{said}");
    assert!(!said.contains("(partition) is not proved"), "{said}");
}

#[test]
fn members_need_containers() {
    let _alone = alone();
    let (code, said) = ran(HANDED_OVER, "local", None);
    assert_eq!(code, Some(69), "{said}");
    for part in ["topology `etcd` runs on Docker only", "hint: "] {
        assert!(said.contains(part), "{part} in {said}");
    }
}
