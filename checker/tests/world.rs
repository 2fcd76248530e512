//! A simulated world with a perfect view: clients, messages, servers and an observer in virtual time.
//!
//! Correct locks under everything that networks, schedulers and crashes with data do must give no `service`, no
//! `library` and no `leak`; planted faults must be found, and blamed on who did it.
#[path = "world/sim.rs"]
mod sim;

use fencepost_checker::{Blame, Class, Outcome, Verdict};
use sim::{Config, Lock, Plant, run};

/// Seeds a configuration. More by `WORLD_SEEDS=1000 cargo test --test world`.
fn seeds() -> u64 {
    let seeds = std::env::var("WORLD_SEEDS").ok();
    seeds.and_then(|s| s.parse().ok()).unwrap_or(30)
}

/// The first seed: `WORLD_FIRST=143 WORLD_SEEDS=1`.
fn first() -> u64 {
    let first = std::env::var("WORLD_FIRST").ok();
    first.and_then(|s| s.parse().ok()).unwrap_or(0)
}

fn correct() -> Vec<(&'static str, Config)> {
    let single = Config::default;
    let five = || Config {
        nodes: 5,
        ..Config::default()
    };
    let with = |mut config: Config, change: fn(&mut Config)| {
        change(&mut config);
        config
    };
    vec![
        ("single", single()),
        ("single, pauses", with(single(), |c| c.pauses = true)),
        ("single, bad network", with(single(), |c| c.lossy = true)),
        (
            "single, crashes with data",
            with(single(), |c| c.crashes = true),
        ),
        (
            "single, renewed",
            with(single(), |c| {
                (c.renew, c.pauses, c.lossy) = (true, true, true);
            }),
        ),
        (
            "single, observer reads little",
            with(single(), |c| {
                (c.blind, c.pauses) = (true, true);
            }),
        ),
        ("redlock", five()),
        ("redlock, pauses", with(five(), |c| c.pauses = true)),
        ("redlock, bad network", with(five(), |c| c.lossy = true)),
        (
            "redlock, crashes with data",
            with(five(), |c| {
                (c.crashes, c.lossy) = (true, true);
            }),
        ),
        (
            "redlock, renewed",
            with(five(), |c| {
                (c.renew, c.pauses, c.lossy, c.crashes) = (true, true, true, true);
            }),
        ),
    ]
}

fn violated(v: &Verdict, class: Class) -> Vec<String> {
    let checks = v.checks.iter().filter(|c| c.class == class);
    let checks = checks.filter(|c| c.outcome == Outcome::Violated);
    checks
        .flat_map(|c| {
            c.findings
                .iter()
                .map(|f| format!("{}: {:?} {}", c.name, f.blame, f.sentence))
        })
        .collect()
}

#[test]
fn correct_locks_are_never_blamed() {
    let (mut grants, mut overruns) = (0, 0);
    for (name, config) in correct() {
        for seed in first()..first() + seeds() {
            let history = run(config, seed);
            let v = history.check();
            grants += v.counts["grants"];
            overruns += v.check("overrun").map_or(0, |c| c.count);
            for class in [
                Class::Service,
                Class::Library,
                Class::Liveness,
                Class::Coverage,
            ] {
                let found = violated(&v, class);
                assert!(
                    found.is_empty(),
                    "{name}, seed {seed}: {found:#?}\n{}",
                    history.text()
                );
            }
            assert_eq!(v.counts["anomalies"], 0, "{name}, seed {seed}");
        }
    }
    assert!(
        grants > 20 * seeds() && overruns > 0,
        "{grants} grants, {overruns} overruns"
    );
}

/// Runs a plant; counts the seeds in which a check of `want` found it, and holds that none of `never` did.
fn planted(config: Config, want: &[&str], never: &[&str]) -> u64 {
    let mut found = 0;
    for seed in first()..first() + seeds() {
        let history = run(config, seed);
        let v = history.check();
        for name in never {
            let c = v.check(name).expect("it is in the table");
            // Where the observer could not read whose value it was, an exclusion has no known cause.
            let blamed = c.findings.iter().any(|f| f.blame != Blame::Unknown);
            assert!(
                !blamed,
                "seed {seed}: {:#?}\n{}",
                c.findings,
                history.text()
            );
        }
        let has = |name: &&str| {
            v.check(name)
                .is_some_and(|c| c.outcome == Outcome::Violated)
        };
        found += u64::from(want.iter().any(has));
    }
    found
}

const LIBRARY: [&str; 4] = ["validity", "continuity", "ownership", "truthful"];

#[test]
fn what_servers_do_is_blamed_on_the_service() {
    for nodes in [1, 5] {
        for plant in [Plant::Flush, Plant::RestartEmpty, Plant::ClockForward] {
            let config = Config {
                nodes,
                plant: Some(plant),
                lossy: nodes == 1,
                ..Config::default()
            };
            let found = planted(config, &["service"], &LIBRARY);
            assert!(
                found * 2 > seeds(),
                "{plant:?} on {nodes}: {found} of {}",
                seeds()
            );
        }
    }
}

#[test]
fn what_libraries_do_is_blamed_on_the_library() {
    let bad = |lock| Config {
        lock,
        pauses: true,
        ..Config::default()
    };
    for (lock, check) in [
        (Lock::PlainDel, "ownership"),
        (Lock::GetThenDel, "ownership"),
        (Lock::Never, "truthful"),
        (Lock::LongClaim, "validity"),
    ] {
        let found = planted(bad(lock), &[check], &["service"]);
        assert!(found * 3 > seeds() * 2, "{lock:?}: {found} of {}", seeds());
    }
    let lies = Config {
        renew: true,
        ..bad(Lock::ExtendAlwaysOk)
    };
    let found = planted(lies, &["continuity"], &["service", "ownership"]);
    // Most holders that were paused do not come back in time to extend at all.
    assert!(found * 4 > seeds(), "{found} of {}", seeds());
}
