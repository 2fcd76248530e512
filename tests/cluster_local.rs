//! Local servers for real: life, death, and what the reaper leaves of a killed harness: nothing.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]
mod common;

use common::{Harness, ask, life, reaper, run_id, runtime, spec, until, victim};
use fencepost::cluster::{Backend, Cluster, ClusterError};
use fencepost::plan::{Persistence, Reach};
use fencepost::reaper::{Clean, clean, owner, procs};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Processes with a working directory below a folder: servers have theirs in the scratch folder.
fn processes_below(dir: &Path) -> Vec<i32> {
    let below = |pid: i32| {
        std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(dir))
    };
    procs::all()
        .into_iter()
        .filter(procs::Stat::alive)
        .map(|s| s.pid)
        .filter(|&p| below(p))
        .collect()
}

#[test]
fn a_cluster_lives_and_dies() {
    runtime().block_on(life(Backend::Local, "", Reach::Auto));
}

#[test]
fn a_killed_harness_leaves_nothing() {
    if victim(Backend::Local) {
        return;
    }
    let harness = Harness::start("a_killed_harness_leaves_nothing", &run_id("killed"));
    let scratch: PathBuf = owner::scratch(&harness.run).canonicalize().unwrap();
    let before = processes_below(&scratch);
    assert!(before.len() >= 4, "three nodes and Toxiproxy: {before:?}");
    let stopped = before
        .iter()
        .filter(|&&p| procs::stat(p).is_some_and(|s| s.state == 'T'));
    assert_eq!(stopped.count(), 1, "one node is paused");
    harness.kill();
    let took = until("processes and folder are gone", 3, || {
        !scratch.exists()
            && before
                .iter()
                .all(|&p| procs::stat(p).is_none_or(|s| !s.alive()))
    });
    println!("gone {took:?} after kill -9");
}

#[test]
fn a_dropped_cluster_leaves_no_process() {
    runtime().block_on(async {
        let reaper = reaper("dropped");
        let spec = spec(
            Backend::Local,
            &reaper,
            common::plan(2, Persistence::None),
            1,
        );
        let cluster = Cluster::start(spec, &reaper).await.unwrap();
        let scratch = reaper.scratch().to_path_buf();
        assert!(processes_below(&scratch).len() >= 3);
        let link = cluster.link("c1", 1);
        drop(cluster);
        assert_eq!(processes_below(&scratch), [0_i32; 0]);
        assert!(ask(link, "PING").is_err());
        reaper.finish().await;
    });
}

#[test]
fn what_is_missing_is_named() {
    runtime().block_on(async {
        let reaper = reaper("missing");
        let mut bad = spec(
            Backend::Local,
            &reaper,
            common::plan(1, Persistence::None),
            1,
        );
        bad.command = vec!["no-such-server".to_owned()];
        let e = Cluster::start(bad, &reaper).await.err().unwrap();
        assert!(
            matches!(e, ClusterError::Program { .. }) && e.is_missing(),
            "{e}"
        );
        assert!(e.hint().is_some());

        let mut bad = spec(
            Backend::Local,
            &reaper,
            common::plan(2, Persistence::None),
            1,
        );
        bad.command = vec![
            "redis-server".to_owned(),
            "--no-such-setting".to_owned(),
            "1".to_owned(),
        ];
        let e = Cluster::start(bad, &reaper).await.err().unwrap();
        assert!(
            e.to_string().contains("Bad directive"),
            "the log's end is told: {e}"
        );

        let mut bad = spec(
            Backend::Local,
            &reaper,
            common::plan(1, Persistence::None),
            1,
        );
        bad.dir = PathBuf::from("/proc/nowhere");
        let e = Cluster::start(bad, &reaper).await.err().unwrap();
        assert!(
            matches!(e, ClusterError::Disk { .. }) && e.is_missing(),
            "{e}"
        );
        assert_eq!(processes_below(reaper.scratch()), [0_i32; 0]);
        reaper.finish().await;
    });
}

#[test]
fn a_node_that_lives_is_not_started() {
    runtime().block_on(async {
        let reaper = reaper("alive");
        let spec = spec(
            Backend::Local,
            &reaper,
            common::plan(1, Persistence::None),
            1,
        );
        let cluster = Cluster::start(spec, &reaper).await.unwrap();
        let call = cluster.start_node(0, fencepost::plan::RestartData::Drop);
        let e = tokio::time::timeout(Duration::from_secs(20), call)
            .await
            .unwrap()
            .err()
            .unwrap();
        assert!(matches!(e, ClusterError::State { .. }), "{e}");
        assert!(ask(cluster.link("c1", 0), "PING").is_ok());
        cluster.stop().await.unwrap();
        reaper.finish().await;
    });
}

#[test]
fn clean_removes_what_even_the_reaper_lost() {
    if victim(Backend::Local) {
        return;
    }
    let harness = Harness::start("clean_removes_what_even_the_reaper_lost", &run_id("clean"));
    let run = harness.run.clone();
    let scratch = owner::scratch(&run).canonicalize().unwrap();
    let before = processes_below(&scratch);
    let kept = clean(Clean::default()).unwrap();
    assert!(
        kept.kept.iter().any(|k| k.starts_with(&run)),
        "its owner lives: {kept:?}"
    );
    harness.kill_both();
    assert_eq!(processes_below(&scratch), before, "nobody removed anything");
    let cleaned = clean(Clean::default()).unwrap();
    println!("{cleaned:?}");
    assert!(
        cleaned.removed.iter().any(|r| r.starts_with(&run)),
        "{cleaned:?}"
    );
    assert!(!scratch.exists());
    assert!(
        before
            .iter()
            .all(|&p| procs::stat(p).is_none_or(|s| !s.alive()))
    );
    let again = clean(Clean::default()).unwrap();
    assert!(
        !again.removed.iter().any(|r| r.starts_with(&run)),
        "once is enough: {again:?}"
    );
}
