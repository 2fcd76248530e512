//! Reports from the field (workloads/reports/) and the scorecard, on the local backend.
//!
//! All files are read; some quick ones are run, bad version and good. A library that is not in the cache is skipped; where
//! `FENCEPOST_REQUIRE_ADAPTERS` names its language, that fails.
mod harness;

use fencepost_checker::Outcome;
use harness::{Ran, adapters, alone, as_stated_with, fencepost, remark, say};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};

/// Whether the Python libraries are there.
fn python(folders: &[&str]) -> bool {
    let there = |folder: &&str| adapters().join("python").join(folder).exists();
    if folders.iter().all(there) {
        return true;
    }
    let required = std::env::var("FENCEPOST_REQUIRE_ADAPTERS").unwrap_or_default();
    let skipped = format!("{folders:?}: skipped, adapters/setup python was not run");
    assert!(!required.split(' ').any(|l| l == "python"), "{skipped}");
    remark(&skipped);
    false
}

/// Runs one variant, as it states.
fn stated(name: &str, variant: &str) -> Ran {
    let more = ["--variant", variant, "--set", "load.tail=3s"];
    as_stated_with(&format!("reports/{name}"), "local", &more)
}

/// The bad version is caught by this check, the good one passes.
fn told_apart(name: &str, check: &str, bad: &str, good: &str) {
    let ran = stated(name, bad);
    let folder = ran.folders().pop().expect("a results folder");
    let found = Ran::verdict(&folder);
    let found = found.check(check).expect("the check is in the verdict");
    assert_eq!(found.outcome, Outcome::Violated, "{}", ran.stdout);
    stated(name, good);
}

#[test]
fn a_cancelled_release_that_forgets_its_token_is_caught() {
    if python(&["redis_py-7.1.1", "redis_py-7.2.0"]) {
        let name = "redis-py-asyncio-cancelled-release";
        told_apart(name, "truthful", "bad-7_1_1", "good-7_2_0");
    }
}

#[test]
fn a_destructor_that_releases_a_lock_in_use_is_caught() {
    if python(&["pottery-1.0.1", "pottery-1.0.2"]) {
        told_apart("pottery-destructor", "service", "bad-1_0_1", "good-1_0_2");
    }
}

#[test]
fn a_majority_that_is_left_behind_is_caught() {
    if python(&["redlock_py-1.0.8", "redlock_py-1.0.4"]) {
        let name = "redlock-py-dead-node-leak";
        told_apart(name, "leak", "bad-1_0_8", "good-1_0_4");
    }
}

#[test]
fn a_lock_without_lease_is_lost_with_the_thread_that_holds_it() {
    if python(&["redis_py-8.1.0"]) {
        let ran =
            |variant| as_stated_with("adapters/kill-thread", "local", &["--variant", variant]);
        ran("redis-py");
        let lost = ran("redis-py-no-lease");
        let folder = lost.folders().pop().expect("a results folder");
        let found = Ran::verdict(&folder);
        let deadlock = found.check("deadlock").expect("it is in the verdict");
        // The process lives on, with another thread that may not give back what the first one held.
        assert_eq!(deadlock.outcome, Outcome::Violated);
        let history = std::fs::read_to_string(folder.join("history.jsonl")).expect("a history");
        assert!(history.contains("\"thread-end\"") && !history.contains("\"f\":\"death\""));
    }
}

/// What `script` matches is known to a tap only once the text was sent, and a server that knows it from the run before is
/// sent a hash alone.
#[test]
fn the_second_run_on_the_same_servers_is_as_the_first() {
    if !python(&["redis_py-8.1.0"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("twice.toml");
    let text = r#"
        lock = { command = ["python3", "adapters/python/redis_py.py"], ttl = "2s", env = ["XDG_CACHE_HOME", "FENCEPOST_ADAPTERS"] }
        load = { clients = 2, work = { fixed = "10ms" }, for = "1s", tail = "200ms" }
        [[fault]]
        kind = "message"
        target = "link:c1>n1"
        on = { message = "EVALSHA", edge = "request", client = "c1", script = "del" }
        action = "delay"
        latency = "20ms"
        [expect]
        service = "valid"
    "#;
    std::fs::write(&file, text).expect("written");
    let file = file.display().to_string();
    let results = folder.path().display().to_string();
    let ran = say(&[
        "run",
        &file,
        "--repeat",
        "2",
        "--seed",
        "1",
        "--backend",
        "local",
        "--results",
        &results,
    ]);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
}

#[test]
fn every_report_states_what_must_be_found_and_stands_in_the_table() {
    let dry = say(&["suite", "workloads/reports", "--dry-run", "--seed", "1"]);
    assert_eq!(dry.code, 0, "{}", dry.stderr);
    let runs = dry
        .stdout
        .lines()
        .filter_map(|l| l.split_whitespace().next());
    let names: BTreeSet<&str> = runs.map(|r| r.split('/').next().unwrap_or(r)).collect();
    let page = std::fs::read_to_string("workloads/reports/README.md").expect("the page");
    for name in &names {
        assert!(page.contains(&format!("({name}.toml)")), "{name}");
    }
    let bad = dry.stdout.lines().filter(|l| l.contains("/bad-")).count();
    assert!(names.len() >= 25 && bad >= 25, "{names:?}, {bad} bad");
}

#[test]
fn the_adapter_of_the_protocol_page_gets_its_card() {
    let _alone = alone();
    let results = tempfile::tempdir().expect("a folder");
    let mut command = scorecard(results.path(), "crash", &["adapters/example.py"]);
    let out = command.output().expect("fencepost runs");
    let card = String::from_utf8_lossy(&out.stdout);
    let words = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(0), "{card}\n{words}");
    assert!(card.starts_with("example 1 on "), "{card}");
    for check in ["exclusion", "honest", "claim", "lease", "crash"] {
        assert_eq!(grade(&card, check), "ok", "{check}\n{card}");
    }
    for check in ["tokens", "extension", "one-dead"] {
        assert_eq!(grade(&card, check), "-", "{check}\n{card}");
    }
}

/// Puts one schedule to an adapter in Python; `adapter` is its file and arguments.
fn scorecard(results: &Path, schedule: &str, adapter: &[&str]) -> Command {
    let mut command = fencepost();
    command.args(["scorecard", "--backend", "local", "--results"]);
    command.arg(results).args(["--schedule", schedule, "--"]);
    command.arg("python3").args(adapter);
    command
}

/// A check's grade on a card.
fn grade<'a>(card: &'a str, check: &str) -> &'a str {
    let mut lines = card.lines();
    let line = lines.find(|l| l.split_whitespace().nth(1) == Some(check));
    line.and_then(|l| l.split_whitespace().next())
        .unwrap_or("?")
}

#[test]
fn a_lock_that_is_taken_back_and_tokens_that_do_not_rise_are_on_the_card() {
    let _alone = alone();
    let results = tempfile::tempdir().expect("a folder");
    let adapter = ["tests/hostile/variant.py", "takes-back", "one-token"];
    let mut command = scorecard(results.path(), "renew-lost", &adapter);
    let out = command.output().expect("fencepost runs");
    let card = String::from_utf8_lossy(&out.stdout);
    let words = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{card}\n{words}");
    assert_eq!(grade(&card, "honest"), "ok", "{card}\n{words}");
    assert_eq!(grade(&card, "tokens"), "broken", "{card}\n{words}");
    assert_eq!(grade(&card, "extension"), "broken", "{card}\n{words}");
    assert!(card.contains("`continuity`: A (c3)"), "{card}");
    assert!(words.contains("fencepost adapter check -- CMD"), "{words}");
}

#[test]
fn an_interrupted_scorecard_tells_what_it_has() {
    let _alone = alone();
    let results = tempfile::tempdir().expect("a folder");
    let mut command = scorecard(results.path(), "crash", &["adapters/example.py"]);
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().expect("fencepost runs");
    let lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let mut words = Vec::new();
    for line in lines.map_while(Result::ok) {
        if line.starts_with("own--plain, seed ") {
            let pid = Pid::from_raw(child.id().cast_signed());
            kill(pid, Signal::SIGINT).expect("it is there");
        }
        words.push(line);
    }
    let mut card = String::new();
    let mut stdout = child.stdout.take().expect("a pipe");
    stdout.read_to_string(&mut card).expect("a text");
    let code = child.wait().expect("it ends").code();
    assert_eq!(code, Some(130), "{card}\n{words:?}");
    assert!(card.starts_with("example 1 on "), "{card}");
    assert_eq!(grade(&card, "exclusion"), "ok", "{card}");
    assert_eq!(grade(&card, "crash"), "-", "{card}");
    assert!(card.contains("not run"), "{card}");
}

#[test]
fn a_library_that_is_broken_is_said_with_its_report_and_the_way_to_replay_it() {
    if !python(&["redlock_py-1.0.8"]) {
        return;
    }
    let _alone = alone();
    let results = tempfile::tempdir().expect("a folder");
    let mut command = fencepost();
    command.args(["scorecard", "--backend", "local", "--results"]);
    command.arg(results.path());
    command.args(["--library", "redlock-py", "--schedule", "one-node-dead"]);
    let out = command.output().expect("fencepost runs");
    let card = String::from_utf8_lossy(&out.stdout);
    let words = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{card}\n{words}");
    for part in [
        "broken   one-dead",
        "`minority`: nobody was granted lock:0",
        "public: SPSCommerce/redlock-py PR 27",
    ] {
        assert!(card.contains(part), "{part}\n{card}");
    }
    let replay = card
        .lines()
        .find_map(|l| l.trim().strip_prefix("replay: fencepost run "))
        .expect("the way to replay it");
    assert!(std::path::Path::new(replay).is_file(), "{replay}");
}

#[test]
fn wrong_flags_of_a_scorecard_are_the_users() {
    say(&["scorecard", "--library", "no-such"]).refused(64, &["no library `no-such`"]);
    say(&["scorecard", "--schedule", "no-such", "--", "true"]).refused_by_flags("--schedule");
    let both = ["scorecard", "--library", "redsync", "--", "true"];
    assert_eq!(say(&both).code, 64);
    let results = tempfile::tempdir().expect("a folder");
    let results = results.path().display().to_string();
    let flags = ["scorecard", "--backend", "local", "--results", &results];
    let missing = say(&[&flags[..], &["--", "/no/such/program"]].concat());
    assert_eq!(missing.code, 64, "{}", missing.stderr);
}
