//! Each workload of the repository, once, on real servers: its exit code says whether it came out as it states.
mod harness;

use fencepost_checker::Outcome;
use harness::{Ran, as_stated, backend};

/// Runs a workload and demands that a check found something, with a sentence, sections and evidence.
fn found(name: &str, check: &str) {
    let ran = as_stated(name, backend(name));
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
    (@ $name:literal) => { as_stated($name, backend($name)); };
    (@ $name:literal => $check:literal) => { found($name, $check); };
}

workloads! {
    client_restart: "client-restart";
    get_then_del: "get-then-del" => "ownership";
    lua_pause_fence_write: "lua-pause-fence-write" => "overrun";
    lua_pause_fenced: "lua-pause-fenced" => "overrun";
    lua_pause_overrun: "lua-pause-overrun" => "overrun";
    lua_pause_respect: "lua-pause-respect";
    lua_plain: "lua-plain";
    lua_slow_release: "lua-slow-release";
    no_ttl_crash: "no-ttl-crash" => "deadlock";
    none_control: "none-control" => "overrun";
    open_loop_latency: "open-loop-latency";
    pause_renew_off: "pause-renew-off" => "overrun";
    pause_renew_on: "pause-renew-on" => "overrun";
    perfect_control: "perfect-control";
    plain_del: "plain-del" => "ownership";
    redlock_minority_partition: "redlock-minority-partition";
    redlock_one_node_killed: "redlock-one-node-killed";
    redlock_pause: "redlock-pause" => "overrun";
    redlock_plain: "redlock-plain";
    redlock_thin_restart_empty: "redlock-thin-restart-empty" => "service";
    redlock_thin_restart_kept: "redlock-thin-restart-kept";
    message_lost_reply: "message-lost-reply";
    release_lost_reply: "release-lost-reply";
    resource_delay: "resource-delay" => "overrun";
    resource_delay_fenced: "resource-delay-fenced" => "overrun";
    single_node_pause: "single-node-pause";
    single_partition_holder: "single-partition-holder" => "overrun";
    single_restart_empty: "single-restart-empty" => "service";
    single_restart_kept: "single-restart-kept";
    single_vs_redlock: "single-vs-redlock";
    slow_work_renew_off: "slow-work-renew-off" => "overrun";
    slow_work_renew_on: "slow-work-renew-on";
    steps_plain_del: "steps-plain-del" => "ownership";
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
