//! What the tests on members of a cluster, of etcd and of ZooKeeper, have in common: cells of the matrix.
use super::harness::{Ran, as_stated_with, docker_answers, skipped};
use fencepost_checker::{Outcome, Verdict};

/// Runs one variant of a cell of the matrix and demands that it came out as it states; none without Docker.
pub fn cell(cell: &str, variant: Option<&str>) -> Option<Verdict> {
    if !docker_answers() {
        skipped(cell);
        return None;
    }
    let flags: Vec<&str> = variant.map_or_else(Vec::new, |v| vec!["--variant", v]);
    let ran = as_stated_with(&format!("matrix/{cell}"), "docker", &flags);
    Some(Ran::verdict(
        &ran.folders().pop().expect("a results folder"),
    ))
}

/// Demands what came of each check.
pub fn judged(verdict: &Verdict, all: &[(&str, Outcome)]) {
    for (check, outcome) in all {
        let judged = verdict.check(check).expect("judged");
        assert_eq!(judged.outcome, *outcome, "{check}: {judged:?}");
    }
}
