//! Each workload of the repository, once, on real servers: its exit code says whether it came out as it states.
mod harness;

use fencepost_checker::Outcome;
use harness::{Ran, alone, backend, run};

/// Runs a workload and demands that it came out as it states.
fn as_stated(name: &str) -> Ran {
    let _alone = alone();
    let ran = run(name, backend(name), &["--seed", "11"]);
    assert_eq!(ran.code, 0, "{name}\n{}\n{}", ran.stdout, ran.stderr);
    ran
}

/// Runs a workload and demands that a check found something, with a sentence, sections and evidence.
fn found(name: &str, check: &str) {
    let ran = as_stated(name);
    let folder = ran.folders().pop().expect("a results folder");
    let verdict = Ran::verdict(&folder);
    let result = verdict.check(check).expect("the check is in the verdict");
    assert_eq!(
        result.outcome,
        Outcome::Violated,
        "{name}: {check}\n{}",
        ran.stdout
    );
    assert!(!result.findings[0].sentence.is_empty());
    for file in ["plan.toml", "history.jsonl", "summary.md", "junit.xml"] {
        assert!(folder.join(file).is_file(), "{file} is missing");
    }
}

macro_rules! workloads {
    ($($test:ident: $name:literal $(=> $check:literal)?;)*) => {
        $(#[test] fn $test() { workloads!(@ $name $(=> $check)?); })*

        /// The files that have a test of their own.
        const TESTED: &[&str] = &[$($name),*];
    };
    (@ $name:literal) => { as_stated($name); };
    (@ $name:literal => $check:literal) => { found($name, $check); };
}

workloads! {
    plain_del: "plain-del" => "ownership";
    get_then_del: "get-then-del" => "ownership";
    no_ttl_crash: "no-ttl-crash" => "deadlock";
    lua_pause_overrun: "lua-pause-overrun" => "overrun";
    lua_pause_fenced: "lua-pause-fenced" => "overrun";
    redlock_thin_restart_empty: "redlock-thin-restart-empty" => "service";
    redlock_one_node_killed: "redlock-one-node-killed";
    none_control: "none-control";
    perfect_control: "perfect-control";
}

#[test]
fn every_workload_file_has_a_test() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/workloads");
    let mut untested: Vec<String> = std::fs::read_dir(folder)
        .expect("workloads/")
        .flatten()
        .filter_map(|f| f.file_name().into_string().ok())
        .filter_map(|f| f.strip_suffix(".toml").map(str::to_owned))
        .filter(|name| !TESTED.contains(&name.as_str()))
        .collect();
    untested.sort();
    assert!(untested.is_empty(), "no test runs {untested:?}");
}
