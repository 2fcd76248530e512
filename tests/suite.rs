//! `fencepost suite` and `merge` as users meet them, on processes of this machine: what is run, what is told, what stays.
//!
//! Runs are short: what a lock does is tested elsewhere.
mod harness;

use harness::{Said, alone, fencepost, say};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// A lock that holds, for half a second.
const GOOD: &str = "# good.toml: a short one\n\
    lock = { name = \"set-nx-lua\", ttl = \"500ms\", retry = \"5ms\" }\n\
    load = { clients = 2, work = { fixed = \"5ms\" }, for = \"400ms\", tail = \"1600ms\" }\n";

/// One that says that it breaks, which it does not.
const BAD: &str = "lock = { name = \"set-nx-lua\", ttl = \"500ms\", retry = \"5ms\" }\n\
    load = { clients = 3, work = { fixed = \"5ms\" }, for = \"400ms\", tail = \"1600ms\" }\n\
    [expect]\nservice = \"violated\"\n";

/// An adapter that is not there.
const LOST: &str = "lock = { command = [\"./no-such-adapter\"], ttl = \"500ms\" }\n\
    load = { clients = 2, work = { fixed = \"5ms\" }, for = \"400ms\", tail = \"1600ms\" }\n";

struct Desk {
    dir: tempfile::TempDir,
}

impl Desk {
    fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().expect("temp folder");
        for (name, text) in files {
            let path = dir.path().join("workloads").join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
            std::fs::write(path, text).expect("a workload");
        }
        Self { dir }
    }

    fn at(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    fn suite(&self, results: &str, more: &[&str]) -> Said {
        let (workloads, results) = (self.at("workloads"), self.at(results));
        let mut words = vec![
            "suite",
            &workloads,
            "--backend",
            "local",
            "--results",
            &results,
        ];
        words.extend(more);
        say(&words)
    }
}

/// The only campaign in a results folder.
fn campaign(results: &str) -> PathBuf {
    let folder = Path::new(results).join("campaigns");
    let mut all = std::fs::read_dir(folder).expect("campaigns").flatten();
    let one = all.next().expect("a campaign").path();
    assert!(all.next().is_none(), "one campaign in {results}");
    one
}

fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).expect("a file");
    serde_json::from_str(&text).expect("JSON")
}

fn length(value: &Value, key: &str) -> usize {
    value[key].as_array().expect("an array").len()
}

#[test]
fn a_folder_is_run_on_one_set_of_servers_and_told_together() {
    let _alone = alone();
    let desk = Desk::new(&[("a.toml", GOOD), ("b/bad.toml", BAD), ("b/lost.toml", LOST)]);
    let said = desk.suite("r", &["--seed", "7"]);
    // An adapter that is not there is the user's mistake; it outweighs the failure, and ends neither of the others.
    assert_eq!(said.code, 64, "{}", said.stderr);
    let first = said.stderr.lines().next().unwrap_or_default();
    assert!(
        first.contains("3 runs on one set of servers, about "),
        "{first}"
    );
    assert!(
        said.stderr.contains("[3/3] lost, seed 7: not run: "),
        "{}",
        said.stderr
    );
    let ready = said.stderr.matches(" ready in ").count();
    assert_eq!(ready, 1, "{}", said.stderr);
    assert!(
        said.stdout
            .contains("2 workloads, 2 runs: 1 as expected, 1 NOT as expected, 1 not run"),
        "{}",
        said.stdout
    );
    let dir = campaign(&desk.at("r"));
    let suite = json(&dir.join("suite.json"));
    assert_eq!((length(&suite, "runs"), length(&suite, "not_run")), (2, 1));
    let junit = std::fs::read_to_string(dir.join("junit.xml")).expect("junit.xml");
    assert!(
        junit.contains("<testsuites name=\"fencepost\"") && junit.contains("type=\"not-run\""),
        "{junit}"
    );
    assert!(
        junit.contains("errors=\"1\" failures=\"1\"")
            || junit.contains("failures=\"1\" errors=\"1\""),
        "{junit}"
    );
    let page = std::fs::read_to_string(dir.join("index.html")).expect("index.html");
    let href = page
        .split("href=\"")
        .nth(1)
        .and_then(|h| h.split('"').next())
        .expect("a link");
    assert!(dir.join(href).is_file(), "{href} leads nowhere");
    let summary = std::fs::read_to_string(dir.join("summary.md")).expect("summary.md");
    assert!(summary.starts_with("## ❌ not as expected\n"), "{summary}");
}

#[test]
fn an_interrupted_suite_leaves_what_was_done() {
    let _alone = alone();
    let desk = Desk::new(&[("a.toml", GOOD), ("b.toml", GOOD)]);
    let mut child = fencepost()
        .args([
            "suite",
            &desk.at("workloads"),
            "--backend",
            "local",
            "--results",
            &desk.at("r"),
        ])
        .args(["--repeat", "50", "--unknown", "warn"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("fencepost runs");
    let mut words = BufReader::new(child.stderr.take().expect("stderr")).lines();
    let done = words
        .by_ref()
        .map_while(Result::ok)
        .find(|l| l.contains("[1/100"));
    assert!(done.is_some(), "the first of the runs is told");
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).expect("a pid"));
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).expect("it runs");
    let rest: Vec<String> = words.map_while(Result::ok).collect();
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(130), "{rest:?}");
    let suite = json(&campaign(&desk.at("r")).join("suite.json"));
    assert!(length(&suite, "runs") >= 1);
    assert_eq!(suite["cut"], "interrupted");
    assert_eq!(suite["planned"], 100);
}

#[test]
fn fail_fast_ends_after_the_first_failure() {
    let _alone = alone();
    let desk = Desk::new(&[("a.toml", BAD), ("b.toml", GOOD)]);
    let said = desk.suite("r", &["--fail-fast"]);
    assert_eq!(said.code, 1, "{}", said.stderr);
    let suite = json(&campaign(&desk.at("r")).join("suite.json"));
    assert_eq!(
        (length(&suite, "runs"), suite["planned"].as_u64()),
        (1, Some(2))
    );
}

#[test]
fn what_would_be_run_is_told_without_running_it() {
    let desk = Desk::new(&[("a.toml", GOOD), ("b.toml", GOOD), ("c.toml", GOOD)]);
    let dry = |more: &[&str]| {
        let words = [&["--dry-run", "--seed", "1"], more].concat();
        let said = desk.suite("r", &words);
        assert_eq!(said.code, 0, "{}", said.stderr);
        said
    };
    assert_eq!(dry(&["--repeat", "2"]).stdout.lines().count(), 6);
    let parts = ["1/2", "2/2"].map(|shard| dry(&["--repeat", "2", "--shard", shard]).stdout);
    let mut lines: Vec<&str> = parts.iter().flat_map(|p| p.lines()).collect();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), 6, "each in one shard");
    assert!(!Path::new(&desk.at("r")).exists(), "nothing is written");
}

#[test]
fn mistakes_are_told_before_anything_is_started() {
    let desk = Desk::new(&[
        ("a.toml", GOOD),
        ("b.toml", "lokc = 1\n"),
        ("c.toml", "lokc = 2\n"),
    ]);
    desk.suite("r", &[])
        .refused(64, &["b.toml", "c.toml", "lokc"]);
    assert!(!Path::new(&desk.at("r")).exists(), "nothing is written");
    say(&["suite", &desk.at("gone")]).refused(64, &["gone"]);
    std::fs::create_dir(desk.at("empty")).expect("a folder");
    say(&["suite", &desk.at("empty")]).refused(64, &["no workload in it"]);
    say(&["suite", "--shard", "3/2"]).refused(64, &["no shard 3 of 2"]);
    say(&["merge", &desk.at("empty")]).refused(64, &["no finished run"]);
    harness::say_with(&["suite", "--dry-run"], &[("JOB_COMPLETION_INDEX", "0")])
        .refused(64, &["JOB_COMPLETION_COUNT"]);
}
