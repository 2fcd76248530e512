//! Every kind of fault of the table, on real servers: it bites and is proved to, it heals and is proved to; and with its
//! injecting call left out it is proved to do nothing, so that the run is `unknown`.
mod harness;

use fencepost::plan::kinds::kinds;
use harness::{Ran, alone, docker_answers, fencepost, skipped};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

/// One fault of each kind, with the keys of its row: what stands below `kind`. Kinds that only one backend or topology
/// knows are in [`ELSEWHERE`].
const SAMPLES: &[(&str, &str)] = &[
    ("client-pause", "target = 'client:c1'\nfor = '200ms'"),
    ("client-restart", "target = 'client:c2'\nfor = '200ms'"),
    ("slow-work", "target = 'client:c1'\nwork = '250ms'"),
    ("node-pause", "target = 'node:1'\nfor = '200ms'"),
    ("node-kill", "target = 'node:1'\nfor = '200ms'"),
    ("node-restart", "target = 'node:2'"),
    ("partition", "target = 'link:c1>n1'\nfor = '200ms'"),
    (
        "latency",
        "target = 'link:c1>n2'\nlatency = '100ms'\nfor = '300ms'",
    ),
    ("quorum-thin", "target = 'client:c1'\nfor = '200ms'"),
    (
        "resource-delay",
        "target = 'client:c1'\nlatency = '100ms'\nfor = '3s'",
    ),
    ("node-drop-clients", "target = 'nodes'"),
    ("node-script-flush", "target = 'nodes'"),
    ("node-flush", "target = 'node:3'"),
    ("node-delete", "target = 'nodes'"),
    ("node-evict", "target = 'node:2'\nfor = '200ms'"),
    ("node-full", "target = 'node:2'\nfor = '200ms'"),
    ("node-slow", "target = 'node:3'\nfor = '600ms'"),
    ("node-readonly", "target = 'node:3'\nfor = '200ms'"),
    (
        "bandwidth",
        "target = 'link:c2>n1'\nrate = 1\nfor = '300ms'",
    ),
    (
        "slow-close",
        "target = 'link:c2>n1'\nlatency = '200ms'\nfor = '300ms'",
    ),
    (
        "slicer",
        "target = 'link:c2>n2'\nbytes = 10\nlatency = '5ms'\nfor = '300ms'",
    ),
    (
        "limit-data",
        "target = 'link:c2>n2'\nbytes = 200\nfor = '300ms'",
    ),
    (
        "swizzle",
        "target = 'link:c2>*'\ngap = '20ms'\nfor = '200ms'",
    ),
    (
        "node-clock",
        "target = 'node:1'\nstep = '+60s'\ndrift = 0.1\nfor = '200ms'",
    ),
    (
        "client-clock",
        "target = 'client:c1'\nstep = '-60s'\nfor = '200ms'",
    ),
    ("node-power-loss", "target = 'node:2'"),
    ("client-kill", "target = 'client:c4'"),
];

/// Kinds that need more than a moment here: `packet-loss` and `message` are below, crippled too. `failover` needs Sentinels:
/// tests/sentinel.rs, crippled too.
/// `leader-change` needs etcd and `session-expiry` ZooKeeper: tests/etcd.rs and tests/zookeeper.rs, crippled too.
const ELSEWHERE: &[&str] = &[
    "packet-loss",
    "failover",
    "leader-change",
    "session-expiry",
    "message",
];

/// Time between two faults, so that none disturbs another's proof.
const APART_MS: usize = 700;

/// The workload with every sample, one after the other.
fn workload() -> String {
    let length = (SAMPLES.len() + 2) * APART_MS;
    let mut text = format!(
        "cluster = {{ topology = 'independent', nodes = 3, persistence = 'aof' }}\n\
         lock = {{ name = 'redlock', ttl = '2s' }}\n\
         load = {{ clients = 4, work = {{ fixed = '60ms' }}, think = '30ms', for = '{length}ms', tail = '3500ms' }}\n"
    );
    for (n, (kind, keys)) in SAMPLES.iter().enumerate() {
        let at = (n + 1) * APART_MS;
        // A key can be deleted only while somebody holds the lock: as soon as it is granted.
        let when = match *kind {
            "node-delete" => "on = { op = 'acquire', result = 'ok', nth = 20 }".to_owned(),
            _ => format!("at = '{at}ms'"),
        };
        let _ = write!(text, "[[fault]]\nkind = '{kind}'\n{keys}\n{when}\n");
    }
    text
}

/// The phases of each fault of a run, in order, with their proofs.
fn phases(folder: &Path) -> BTreeMap<u64, Vec<(String, String)>> {
    let history = std::fs::read_to_string(folder.join("history.jsonl")).expect("history.jsonl");
    let mut all: BTreeMap<u64, Vec<_>> = BTreeMap::new();
    for line in history.lines() {
        let event: serde_json::Value = serde_json::from_str(line).expect("an event a line");
        if event["process"] == "nemesis" {
            let text = |key: &str| event["value"][key].as_str().unwrap_or_default().to_owned();
            let number = event["value"]["fault"].as_u64().expect("a number");
            all.entry(number)
                .or_default()
                .push((text("phase"), text("proof")));
        }
    }
    all
}

fn run(
    text: &str,
    backend: &str,
    cripple: Option<&str>,
) -> (Ran, BTreeMap<u64, Vec<(String, String)>>) {
    let results = tempfile::tempdir().expect("temp folder");
    let file = results.path().join("all-faults.toml");
    std::fs::write(&file, text).expect("written");
    let mut command = fencepost();
    command
        .arg("run")
        .arg(&file)
        .args(["--seed", "3", "--backend", backend, "--results"]);
    command.arg(results.path().join("results"));
    if let Some(kinds) = cripple {
        command.env("FENCEPOST_CRIPPLE", kinds);
    }
    let output = command.output().expect("fencepost runs");
    let ran = Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        results,
    };
    let phases = folder(&ran).map(|f| phases(&f)).unwrap_or_default();
    (ran, phases)
}

/// The folder of the run; one that is refused leaves no history.
fn folder(ran: &Ran) -> Option<std::path::PathBuf> {
    let runs = ran.results.path().join("results/all-faults");
    let folders = std::fs::read_dir(&runs).into_iter().flatten().flatten();
    let mut paths = folders.map(|f| f.path());
    paths.find(|p| p.join("history.jsonl").is_file() && !p.is_symlink())
}

/// One rule on the third command that takes the lock.
fn message(action: &str) -> String {
    format!(
        "cluster = {{ topology = 'single' }}\n\
         lock = {{ name = 'set-nx-lua', ttl = '1s', timeout = '500ms' }}\n\
         load = {{ clients = 2, work = {{ fixed = '30ms' }}, for = '1s', tail = '0ms' }}\n\
         [[fault]]\nkind = 'message'\ntarget = 'clients'\n{action}\n"
    )
}

#[test]
fn a_message_that_was_let_pass_is_no_proof() {
    let _alone = alone();
    let request = "on = { message = 'SET', nth = 3 }";
    let reply = "on = { message = 'SET', edge = 'reply', nth = 3 }";
    for action in [
        format!("{request}\naction = 'hold'\nfor = '200ms'"),
        format!("{request}\naction = 'drop'\nconnection = 'close'"),
        format!("{request}\naction = 'delay'\nlatency = '100ms'"),
        format!("{reply}\naction = 'swallow'\nconnection = 'close'"),
        format!("{reply}\naction = 'error'\nerror = 'BUSY'"),
    ] {
        let bit = |cripple| {
            let (ran, phases) = run(&message(&action), "local", cripple);
            let steps = phases.get(&0).cloned().unwrap_or_default();
            let bit = steps.iter().any(|(phase, _)| phase == "bit");
            (
                ran.code,
                bit,
                format!("{action}: {steps:?}\n{}", ran.stderr),
            )
        };
        let (_, whole, told) = bit(None);
        assert!(whole, "{told}");
        let (code, crippled, told) = bit(Some("message"));
        assert_eq!((code, crippled), (2, false), "{told}");
    }
}

#[test]
fn every_kind_has_a_sample() {
    let known: BTreeSet<&str> = kinds().iter().map(|k| k.name).collect();
    let samples = SAMPLES.iter().map(|s| s.0);
    let tested: BTreeSet<&str> = samples.chain(ELSEWHERE.iter().copied()).collect();
    assert_eq!(
        known, tested,
        "a sample for each kind of the table, no other"
    );
}

#[test]
fn every_kind_bites_and_heals() {
    let _alone = alone();
    let (ran, phases) = run(&workload(), "local", None);
    for (number, (kind, _)) in (0..).zip(SAMPLES) {
        let steps = phases
            .get(&number)
            .unwrap_or_else(|| panic!("{kind}: {}", ran.stderr));
        let has = |phase: &str| {
            steps
                .iter()
                .any(|(p, proof)| p == phase && !proof.is_empty())
        };
        assert!(has("bit"), "{kind}: {steps:?}");
        assert!(has("healed") || *kind == "client-kill", "{kind}: {steps:?}");
    }
}

#[test]
fn a_fault_whose_injection_was_left_out_makes_the_run_unknown() {
    let _alone = alone();
    let (ran, phases) = run(&workload(), "local", Some("all"));
    assert_eq!(ran.code, 2, "{}\n{}", ran.stdout, ran.stderr);
    let verdict = Ran::verdict(&folder(&ran).expect("a run"));
    let coverage = verdict.check("coverage").expect("it is checked");
    let lacks = coverage.note.clone().expect("what the history lacks");
    for (number, (kind, _)) in (0..).zip(SAMPLES) {
        let steps = phases
            .get(&number)
            .unwrap_or_else(|| panic!("{kind}: {}", ran.stderr));
        let has = |phase: &str| steps.iter().any(|(p, _)| p == phase);
        assert!(has("no-bite") && !has("bit"), "{kind}: {steps:?}");
        let lack = format!("fault {number} ({kind}) is not proved to have taken effect");
        assert!(
            lacks.split("; ").any(|told| told == lack),
            "{kind} is not told of:\n{lacks}"
        );
    }
}

/// With this name and seed the second client meets no pause within the load.
const RANDOM: &str = "lock = { name = 'set-nx-lua', ttl = '1s', retry = '20ms' }\n\
    load = { clients = 2, work = { fixed = '20ms' }, for = '2s', tail = '1s' }\n\
    [[fault]]\nid = 'still'\nkind = 'client-pause'\ntarget = 'each-client'\nevery = '1s'\nfor = '100ms'\n";

#[test]
fn a_random_schedule_that_leaves_one_client_out_is_no_gap() {
    let _alone = alone();
    let (ran, phases) = run(RANDOM, "local", None);
    let numbers: Vec<u64> = phases.keys().copied().collect();
    assert_eq!(numbers, [0], "{}\n{}", ran.stdout, ran.stderr);
    assert_eq!(ran.code, 0, "{}\n{}", ran.stdout, ran.stderr);
}

const LOSSY: &str = "cluster = { topology = 'single' }\n\
    lock = { name = 'set-nx-lua', ttl = '2s' }\n\
    load = { clients = 3, work = { fixed = '60ms' }, think = '30ms', for = '5s', tail = '3500ms' }\n\
    [[fault]]\nkind = 'packet-loss'\ntarget = 'node:1'\nloss = 0.3\nat = '1s'\nfor = '1s'\n";

#[test]
fn packets_are_lost_where_a_server_has_a_network_of_its_own() {
    let test = "packets_are_lost_where_a_server_has_a_network_of_its_own";
    if !docker_answers() {
        return skipped(test);
    }
    let _alone = alone();
    if !nix::unistd::geteuid().is_root() {
        return harness::remark(&format!(
            "{test}: entering a container's network needs root"
        ));
    }
    let (ran, phases) = run(LOSSY, "docker", None);
    let steps = phases.get(&0).unwrap_or_else(|| panic!("{}", ran.stderr));
    let has = |phase: &str| {
        steps
            .iter()
            .any(|(p, proof)| p == phase && !proof.is_empty())
    };
    assert!(has("bit") && has("healed"), "{steps:?}");
    let (ran, phases) = run(LOSSY, "docker", Some("packet-loss"));
    assert_eq!(ran.code, 2, "{}\n{}", ran.stdout, ran.stderr);
    assert!(phases[&0].iter().any(|(p, _)| p == "no-bite"), "{phases:?}");
}

#[test]
fn packets_are_not_lost_where_that_would_hit_the_whole_machine() {
    let _alone = alone();
    let (ran, _) = run(LOSSY, "local", None);
    assert_eq!(ran.code, 69, "{}\n{}", ran.stdout, ran.stderr);
    for part in [
        "cannot be made on the local backend",
        "share this machine's network",
        "hint: ",
    ] {
        assert!(ran.stderr.contains(part), "{part} in {}", ran.stderr);
    }
}

/// All servers of the local backend reach each other by one address.
#[test]
fn links_that_cannot_be_told_apart_are_refused_before_a_server_is_started() {
    let cut = "cluster = { topology = 'sentinel' }\nlock = { name = 'set-nx-lua' }\n\
        [[fault]]\nkind = 'partition'\ntarget = 'link:primary>replicas'\nat = '1s'\nfor = '1s'\n";
    let (ran, _) = run(cut, "local", None);
    assert_eq!(ran.code, 69, "{}\n{}", ran.stdout, ran.stderr);
    assert!(
        ran.stderr.contains("link:primary>servers"),
        "{}",
        ran.stderr
    );
    assert!(!ran.stderr.contains("ready in"), "{}", ran.stderr);
}
