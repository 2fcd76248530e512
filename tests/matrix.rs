//! The fast cells of the matrix as one suite, each as it states; `make matrix` runs them all.
//!
//! Owns which cells are fast. What Sentinels, etcd and ZooKeeper add is in the tests of these.
mod harness;

use harness::{alone, backend, remark, say};
use serde_json::Value;
use std::collections::BTreeMap;

/// A cell on a single Redis or on Redlock is fast when each of its variants takes no longer than this by plan, in seconds.
const FAST: f64 = 7.5;

#[test]
fn the_fast_cells_come_out_as_they_state() {
    let _alone = alone();
    let dry = say(&["suite", "workloads/matrix", "--dry-run", "--json"]);
    assert_eq!(dry.code, 0, "{}", dry.stderr);
    let dry: Value = serde_json::from_str(&dry.stdout).expect("JSON");
    let mut longest: BTreeMap<&str, f64> = BTreeMap::new();
    for run in dry["runs"].as_array().expect("runs") {
        let file = run["file"].as_str().expect("a file");
        let seconds = run["seconds"].as_f64().expect("a number");
        let most = longest.entry(file).or_default();
        *most = most.max(seconds);
    }
    let ours = |file: &str| file.ends_with("--single.toml") || file.ends_with("--redlock.toml");
    let fast = longest.iter().filter(|(_, seconds)| **seconds <= FAST);
    let files: Vec<&str> = fast.map(|(file, _)| *file).filter(|f| ours(f)).collect();
    assert!(files.len() >= 10, "{longest:?}");
    let results = tempfile::tempdir().expect("a folder");
    let folder = results.path().display().to_string();
    let on = backend("the_fast_cells_come_out_as_they_state");
    let mut words = vec!["suite"];
    words.extend(&files);
    words.extend(["--seed", "1", "--backend", on, "--results", &folder]);
    let said = say(&words);
    remark(&format!("{} files of the matrix", files.len()));
    assert_eq!(said.code, 0, "{}\n{}", said.stdout, said.stderr);
}
