//! Containers for real. Without an engine these tests say so and are counted in `target/skipped-container-tests`;
//! with `FENCEPOST_REQUIRE_DOCKER=1` they fail instead.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]
mod common;

use common::{Harness, life, reaper, run_id, runtime, spec, until, victim};
use fencepost::cluster::{Backend, Cluster, ClusterError, resolve};
use fencepost::plan::{Persistence, Reach, RestartData};
use fencepost::reaper::{Clean, clean, engine, owner};
use std::io::Write;
use std::time::{Duration, Instant};

/// Whether an engine answers; if not, the test is skipped where that is allowed.
fn engine_answers(test: &str) -> bool {
    let (backend, why) = runtime().block_on(resolve(None));
    if backend == Backend::Docker {
        return true;
    }
    assert!(
        std::env::var("FENCEPOST_REQUIRE_DOCKER").as_deref() != Ok("1"),
        "FENCEPOST_REQUIRE_DOCKER=1, and {why}"
    );
    println!("skipped {test}: {why}");
    let target = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .unwrap();
    let mut file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(target.join("skipped-container-tests"))
        .unwrap();
    writeln!(file, "{test}").unwrap();
    false
}

/// Containers and networks of a run, by name.
fn left(run: &str) -> Vec<String> {
    runtime().block_on(async {
        let docker = engine::connect().await.unwrap();
        let found = engine::find(&docker, Some(run)).await.unwrap();
        found.into_iter().map(|f| f.name).collect()
    })
}

#[test]
fn a_cluster_of_containers_lives_and_dies() {
    if engine_answers("a_cluster_of_containers_lives_and_dies") {
        runtime().block_on(life(Backend::Docker, "fencepost/redis:7", Reach::Auto));
    }
}

#[test]
fn published_ports_do_as_well() {
    if engine_answers("published_ports_do_as_well") {
        runtime().block_on(life(
            Backend::Docker,
            "fencepost/valkey:8",
            Reach::Published,
        ));
    }
}

/// As without root, or with the engine on another machine: everything by its API.
#[test]
fn the_engine_route_does_as_well() {
    const NAME: &str = "the_engine_route_does_as_well";
    const ROUTE: &str = "FENCEPOST_ENGINE_ROUTE";
    if !engine_answers(NAME) {
        return;
    }
    if std::env::var_os(ROUTE).is_some() {
        runtime().block_on(life(Backend::Docker, "fencepost/redis:8", Reach::Auto));
        return;
    }
    let again = std::process::Command::new(std::env::current_exe().unwrap())
        .args([NAME, "--exact", "--nocapture"])
        .env(ROUTE, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&again.stdout);
    assert!(
        again.status.success() && said.contains("route engine"),
        "{said}"
    );
    assert!(said.contains("engine: paused"), "{said}");
}

#[test]
fn five_nodes_come_and_go_quickly() {
    if !engine_answers("five_nodes_come_and_go_quickly") {
        return;
    }
    runtime().block_on(async {
        let reaper = reaper("five");
        let spec = spec(
            Backend::Docker,
            &reaper,
            common::plan(5, Persistence::None),
            3,
        );
        let start = Instant::now();
        let cluster = Cluster::start(spec, &reaper).await.unwrap();
        let up = start.elapsed();
        let start = Instant::now();
        cluster.stop().await.unwrap();
        let down = start.elapsed();
        println!("five nodes and Toxiproxy: up {up:?}, down {down:?}");
        // The bounds are 5 s and 3 s on an idle machine; tests share theirs with other tests.
        assert!(up < Duration::from_secs(15) && down < Duration::from_secs(9));
        reaper.finish().await;
    });
}

/// Left to the engine, addresses are given to whoever starts first: a link or an observer that is just connecting to one
/// node would talk to the other.
#[test]
fn nodes_that_are_restarted_at_once_keep_their_addresses() {
    if !engine_answers("nodes_that_are_restarted_at_once_keep_their_addresses") {
        return;
    }
    runtime().block_on(async {
        let reaper = reaper("addresses");
        let spec = spec(
            Backend::Docker,
            &reaper,
            common::plan(3, Persistence::None),
            1,
        );
        let cluster = Cluster::start(spec, &reaper).await.unwrap();
        let before: Vec<_> = (0..3).map(|n| cluster.direct(n)).collect();
        for data in [RestartData::Keep, RestartData::Drop] {
            for node in 0..3 {
                cluster.kill_node(node).await.unwrap();
            }
            // The last one first.
            for node in [2, 1, 0] {
                cluster.start_node(node, data).await.unwrap();
            }
            let after: Vec<_> = (0..3).map(|n| cluster.direct(n)).collect();
            assert_eq!(before, after, "{data:?}");
        }
        cluster.stop().await.unwrap();
        reaper.finish().await;
    });
}

#[test]
fn a_killed_harness_leaves_no_container() {
    if victim(Backend::Docker) || !engine_answers("a_killed_harness_leaves_no_container") {
        return;
    }
    let harness = Harness::start("a_killed_harness_leaves_no_container", &run_id("killed"));
    let (run, scratch) = (harness.run.clone(), owner::scratch(&harness.run));
    assert_eq!(left(&run).len(), 5, "three nodes, Toxiproxy, a network");
    harness.kill();
    let took = until("containers, network and folder are gone", 10, || {
        left(&run).is_empty() && !scratch.exists()
    });
    println!("gone {took:?} after kill -9");
}

#[test]
fn a_dropped_cluster_leaves_no_container() {
    if !engine_answers("a_dropped_cluster_leaves_no_container") {
        return;
    }
    let reaper = reaper("dropped");
    let run = reaper.run().to_owned();
    runtime().block_on(async {
        let spec = spec(
            Backend::Docker,
            &reaper,
            common::plan(1, Persistence::None),
            1,
        );
        drop(Cluster::start(spec, &reaper).await.unwrap());
    });
    until("the reaper swept", 10, || left(&run).is_empty());
    runtime().block_on(reaper.finish());
}

#[test]
fn what_the_engine_lacks_is_named() {
    if !engine_answers("what_the_engine_lacks_is_named") {
        return;
    }
    runtime().block_on(async {
        let reaper = reaper("lacks");
        let mut bad = spec(
            Backend::Docker,
            &reaper,
            common::plan(1, Persistence::None),
            1,
        );
        bad.plan.image = "fencepost/no-such-image:1".to_owned();
        let e = Cluster::start(bad, &reaper).await.err().unwrap();
        assert_eq!(e.to_string(), "image fencepost/no-such-image:1 is not here");
        assert!(e.is_missing() && e.hint().unwrap().contains("make setup"));

        // An image that is here and is no server: the container ends at once.
        let mut bad = spec(
            Backend::Docker,
            &reaper,
            common::plan(2, Persistence::None),
            1,
        );
        bad.plan.image = "fencepost/toxiproxy:2.12".to_owned();
        let e = Cluster::start(bad, &reaper).await.err().unwrap();
        assert!(matches!(e, ClusterError::NotReady { .. }), "{e}");
        let docker = engine::connect().await.unwrap();
        let found = engine::find(&docker, Some(reaper.run())).await.unwrap();
        assert!(found.is_empty(), "a failed start leaves {found:?}");
        reaper.finish().await;
    });
}

#[test]
fn a_start_given_up_half_way_leaves_nothing() {
    if !engine_answers("a_start_given_up_half_way_leaves_nothing") {
        return;
    }
    for after in [100, 400, 900] {
        let reaper = reaper("given-up");
        let run = reaper.run().to_owned();
        runtime().block_on(async {
            let spec = spec(
                Backend::Docker,
                &reaper,
                common::plan(3, Persistence::None),
                1,
            );
            let start = Cluster::start(spec, &reaper);
            let outcome = tokio::time::timeout(Duration::from_millis(after), start).await;
            println!("given up after {after} ms: {}", outcome.is_err());
            drop(outcome);
            reaper.finish().await;
        });
        assert_eq!(left(&run), [""; 0]);
    }
}

/// What the engine's own command says.
fn docker(words: &[&str]) -> String {
    let out = std::process::Command::new("docker").args(words).output();
    let out = out.expect("docker is here");
    assert!(out.status.success(), "{words:?}: {out:?}");
    String::from_utf8(out.stdout).expect("text")
}

#[test]
fn clean_removes_containers_that_even_the_reaper_lost() {
    const NAME: &str = "clean_removes_containers_that_even_the_reaper_lost";
    if victim(Backend::Docker) || !engine_answers(NAME) {
        return;
    }
    let harness = Harness::start(NAME, &run_id("clean"));
    let run = harness.run.clone();
    let kept = clean(Clean::default()).unwrap();
    assert!(
        kept.kept.iter().any(|k| k.starts_with(&run)),
        "its owner lives: {kept:?}"
    );
    assert_eq!(left(&run).len(), 5);
    harness.kill_both();
    assert_eq!(left(&run).len(), 5, "nobody removed anything");
    // A stranger in a network of the run's: what cannot go is told, and everything else goes.
    let network = docker(&[
        "network",
        "ls",
        "-q",
        "--filter",
        &format!("label=fencepost.run={run}"),
    ]);
    let network = network.lines().next().expect("a network").to_owned();
    let stranger = docker(&["run", "-d", "--network", &network, "fencepost/redis:7"]);
    let cleaned = clean(Clean::default()).unwrap();
    assert_eq!(cleaned.trouble.len(), 1, "{cleaned:?}");
    assert!(
        cleaned.trouble[0].to_string().contains("endpoints"),
        "{cleaned:?}"
    );
    docker(&["rm", "-f", "-v", stranger.trim()]);
    assert_eq!(left(&run).len(), 1, "the network alone");
    let cleaned = clean(Clean::default()).unwrap();
    println!("{cleaned:?}");
    assert!(
        cleaned.removed.iter().any(|r| r.starts_with(&run)),
        "{cleaned:?}"
    );
    assert!(left(&run).is_empty() && !owner::scratch(&run).exists());
}
