//! What the tests on members of a cluster, of etcd and of ZooKeeper, have in common: cells of the matrix, and runs of a
//! text of their own.
use super::harness::{Ran, alone, as_stated_with, docker_answers, fencepost, skipped};
use fencepost_checker::{Outcome, Verdict};
use std::process::Output;

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

/// Runs this text as a workload, alone: exit code, and both outputs with single spaces. `cripple`: a kind of fault whose
/// injecting call is left out.
pub fn ran(text: &str, backend: &str, cripple: Option<&str>) -> (Option<i32>, String) {
    let _alone = alone();
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
    let said = said.join("\n");
    let said: Vec<&str> = said.split_whitespace().collect();
    (status.code(), said.join(" "))
}
