//! `fencepost report` and `merge` on folders from elsewhere: what is missing, cut, copied or no file at all is told.
//!
//! Owns what these two promise of folders that nobody vouches for. No server is started: histories are the checker's own.
mod harness;

use harness::{Said, say};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const PLAN: &str = "lock = { name = \"set-nx-lua\", ttl = \"2s\" }\n";

struct Desk(tempfile::TempDir);

impl Desk {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("temp folder"))
    }

    fn at(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// A finished run, as `run` leaves it.
    fn run(&self, place: &str, history: &str, plan: &str) -> PathBuf {
        let dir = self.0.path().join(place);
        std::fs::create_dir_all(&dir).expect("a folder");
        let golden = format!("checker/tests/golden/{history}.jsonl");
        let text = std::fs::read_to_string(&golden).expect("a history");
        std::fs::write(dir.join("history.jsonl"), text).expect("written");
        std::fs::write(dir.join("plan.toml"), plan).expect("written");
        let plan = dir.join("plan.toml").display().to_string();
        let said = say(&["check", "--json", "--expect", &plan, &golden]);
        std::fs::write(dir.join("verdict.json"), said.stdout).expect("written");
        dir
    }

    /// A shard of good runs with its suite.json.
    fn shard(&self, folder: &str, (number, of): (u32, u32), seeds: &[u64], seed: u64) {
        let runs = seeds.iter().map(|seed| {
            let dir = self.run(&format!("{folder}/clean/20261130T082201Z-{seed}"), "clean", PLAN);
            json!({ "workload": "clean", "file": null, "about": "", "lock": "", "servers": "", "seed": seed,
                "dir": dir, "outcome": "valid", "reasons": [], "checks": [], "grants": 1, "load_ns": 1,
                "first_finding_ns": null })
        });
        let runs: Vec<Value> = runs.collect();
        let suite = json!({ "fencepost": 1, "seed": seed, "shards": [number], "of": of, "planned": runs.len(),
            "runs": runs, "not_run": [], "cut": null });
        let dir = self.0.path().join(folder).join("campaigns/x");
        std::fs::create_dir_all(&dir).expect("a folder");
        std::fs::write(dir.join("suite.json"), suite.to_string()).expect("written");
    }

    fn merge(&self, folders: &[&str]) -> Said {
        let folders: Vec<String> = folders.iter().map(|f| self.at(f)).collect();
        let out = self.at("out");
        let mut words = vec!["merge", "--out", &out];
        words.extend(folders.iter().map(String::as_str));
        say(&words)
    }

    /// Demands that every output of a merge calls it unknown and names these.
    fn unknown(&self, said: &Said, named: &[&str]) {
        assert_eq!(said.code, 2, "{}{}", said.stdout, said.stderr);
        assert!(said.stdout.contains("UNKNOWN"), "{}", said.stdout);
        let read =
            |name: &str| std::fs::read_to_string(self.0.path().join("out").join(name)).expect(name);
        let (md, junit, suite) = (read("summary.md"), read("junit.xml"), read("suite.json"));
        assert!(md.starts_with("## ❔ unknown"), "{md}");
        assert!(junit.contains("type=\"no-result\""), "{junit}");
        assert!(
            !junit
                .lines()
                .nth(1)
                .is_some_and(|l| l.contains("errors=\"0\"")),
            "{junit}"
        );
        // A terminal's lines are broken where they are full.
        let stdout = said.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        for name in named {
            for text in [&stdout, &junit, &suite] {
                assert!(text.contains(name), "{name}: {text}");
            }
            assert!(md.replace('\\', "").contains(name), "{name}: {md}");
        }
    }
}

fn pipe(at: &Path) {
    let _ = std::fs::remove_file(at);
    nix::unistd::mkfifo(at, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
}

#[test]
fn what_is_no_small_file_is_refused_at_once() {
    let began = Instant::now();
    for name in ["verdict.json", "plan.toml"] {
        for kind in ["pipe", "zero", "giant"] {
            let desk = Desk::new();
            let dir = desk.run("r/clean/20261130T082201Z-1", "clean", PLAN);
            let at = dir.join(name);
            match kind {
                "pipe" => pipe(&at),
                "zero" => {
                    std::fs::remove_file(&at).expect("it is there");
                    std::os::unix::fs::symlink("/dev/zero", &at).expect("a link");
                }
                _ => {
                    let file = std::fs::File::create(&at).expect("a file");
                    file.set_len(3 << 30).expect("a sparse file");
                }
            }
            say(&["report", &dir.display().to_string()]).refused(64, &[name]);
            let said = desk.merge(&["r"]);
            desk.unknown(&said, &["clean, seed 1", name]);
        }
    }
    for name in ["suite.json", "compare.json"] {
        let desk = Desk::new();
        desk.run("r/clean/20261130T082201Z-1", "clean", PLAN);
        pipe(&desk.0.path().join("r").join(name));
        let said = desk.merge(&["r"]);
        assert_eq!(said.code, 2, "{name}: {}", said.stderr);
        assert!(said.stderr.contains(name), "{}", said.stderr);
    }
    assert!(
        began.elapsed() < Duration::from_secs(120),
        "nothing is waited for"
    );
}

#[test]
fn a_run_that_is_gone_is_unknown_and_named() {
    let desk = Desk::new();
    desk.shard("s", (1, 1), &[1, 2, 3], 1);
    assert_eq!(desk.merge(&["s"]).code, 0, "all are there");
    std::fs::remove_dir_all(desk.at("s/clean/20261130T082201Z-2")).expect("it was there");
    let said = desk.merge(&["s"]);
    desk.unknown(&said, &["clean, seed 2"]);
    assert!(
        said.stdout.contains("1 without a result"),
        "{}",
        said.stdout
    );
}

#[test]
fn runs_without_a_readable_verdict_are_unknown_and_named() {
    let desk = Desk::new();
    desk.shard("s", (1, 1), &[1, 2, 3], 1);
    for (seed, text) in [(1, "{\"outcome\": \"val"), (2, "")] {
        let at = desk.at(&format!("s/clean/20261130T082201Z-{seed}/verdict.json"));
        std::fs::write(at, text).expect("written");
    }
    let said = desk.merge(&["s"]);
    desk.unknown(&said, &["clean, seed 1", "clean, seed 2"]);
    // Killed: no suite.json tells of it.
    let desk = Desk::new();
    desk.run("r/clean/20261130T082201Z-1", "clean", PLAN);
    let cut = desk.run("r/clean/20261130T082201Z-8", "clean", PLAN);
    std::fs::remove_file(cut.join("verdict.json")).expect("it was there");
    let said = desk.merge(&["r"]);
    desk.unknown(&said, &["clean, seed 8", "no verdict.json"]);
}

#[test]
fn a_copy_counts_once_and_shards_that_do_not_belong_together_are_told() {
    let desk = Desk::new();
    desk.shard("s", (1, 2), &[1, 2], 1);
    desk.shard("t", (2, 2), &[3], 1);
    let copied = std::process::Command::new("cp")
        .args(["-r", &desk.at("s"), &desk.at("copy")])
        .status();
    assert!(copied.is_ok_and(|s| s.success()));
    let said = desk.merge(&["s", "t", "copy"]);
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    assert!(
        said.stdout.contains("1 workload, 3 runs"),
        "{}",
        said.stdout
    );
    assert!(
        said.stderr.contains("2 runs left out: a copy"),
        "{}",
        said.stderr
    );
    desk.shard("u", (2, 2), &[9], 9);
    let said = desk.merge(&["s", "u"]);
    assert!(
        said.stderr.contains("their seeds are 1, 9"),
        "{}",
        said.stderr
    );
    let summary = std::fs::read_to_string(desk.at("out/summary.md")).expect("a summary");
    assert!(summary.contains("their seeds are 1, 9"), "{summary}");
    let said = desk.merge(&["s", "t", "u"]);
    let twice = "shard 2 of 2 is here more than once";
    assert!(said.stderr.contains(twice), "{}", said.stderr);
    let suite = Path::new(&desk.at("t")).join("campaigns/x/suite.json");
    let text = std::fs::read_to_string(&suite).expect("a suite");
    let newer = text.replace("\"fencepost\":1", "\"fencepost\":7");
    std::fs::write(&suite, newer).expect("written");
    let said = desk.merge(&["s", "t"]);
    desk.unknown(&said, &["suite.json of version 7"]);
    let out = desk.at("s/clean/20261130T082201Z-1/plan.toml");
    let said = say(&["merge", &desk.at("s"), "--out", &out]);
    assert_eq!(said.code, 69, "{}", said.stderr);
    assert!(
        said.stderr.contains("--out") && !said.stderr.contains("--results"),
        "{}",
        said.stderr
    );
}

#[test]
fn numbers_of_others_neither_stop_it_nor_fill_the_memory() {
    let desk = Desk::new();
    desk.shard("s", (1, 2), &[1, 2], 1);
    let suite = Path::new(&desk.at("s")).join("campaigns/x/suite.json");
    let text = std::fs::read_to_string(&suite).expect("a suite");
    let many = text.replace("\"of\":2", "\"of\":4294967295");
    std::fs::write(&suite, many).expect("written");
    let began = Instant::now();
    let said = desk.merge(&["s"]);
    assert!(began.elapsed() < Duration::from_secs(10), "{}", said.stderr);
    desk.unknown(&said, &["a part of 4294967295, of 10000 at most"]);
    std::fs::write(
        &suite,
        text.replace("\"planned\":2", &format!("\"planned\":{}", u64::MAX)),
    )
    .expect("written");
    desk.shard("t", (2, 2), &[3], 1);
    let verdict = Path::new(&desk.at("t")).join("clean/20261130T082201Z-3/verdict.json");
    let text = std::fs::read_to_string(&verdict).expect("a verdict");
    let most = |name: &str| (format!("\"{name}\":0"), format!("\"{name}\":{}", u64::MAX));
    let counted = ["count", "incidents"].map(most).into_iter();
    let text = counted.fold(text, |text, (none, most)| text.replace(&none, &most));
    assert!(text.contains(&u64::MAX.to_string()), "{text}");
    std::fs::write(&verdict, text).expect("written");
    for words in [&["s", "t"][..], &["t"]] {
        let said = desk.merge(words);
        assert_ne!(said.code, 70, "{}", said.stderr);
    }
    let run = desk.at("t/clean/20261130T082201Z-3");
    assert_ne!(say(&["report", &run]).code, 70);
}

#[test]
fn a_copy_is_one_wherever_it_lies() {
    let desk = Desk::new();
    desk.run("x/clean/20261130T082201Z-7", "clean", PLAN);
    for other in ["y/20261130T082201Z-7", "z/other/20261130T082201Z-7"] {
        desk.run(other, "clean", PLAN);
    }
    let said = desk.merge(&["x", "y", "z"]);
    assert!(
        said.stderr.contains("2 runs left out: a copy"),
        "{}",
        said.stderr
    );
}

#[test]
fn the_hint_on_a_torn_verdict_gives_the_same_verdict_again() {
    let desk = Desk::new();
    let golden = "checker/tests/golden/plain-del.jsonl";
    let found: Value =
        serde_json::from_str(&say(&["check", "--json", golden]).stdout).expect("JSON");
    let mut plan = format!("{PLAN}[expect]\n");
    for check in found["checks"].as_array().expect("checks") {
        if check["outcome"] == "violated" {
            let name = check["name"].as_str().expect("a name");
            plan = format!("{plan}{name} = \"violated\"\n");
        }
    }
    let dir = desk.run("r/w/20261130T082201Z-1", "plain-del", &plan);
    let verdict = dir.join("verdict.json");
    let whole = std::fs::read_to_string(&verdict).expect("a verdict");
    let shown = dir.display().to_string();
    assert_eq!(say(&["report", &shown]).code, 0, "as it states");
    std::fs::write(&verdict, &whole[..whole.len() / 2]).expect("written");
    let said = say(&["report", &dir.display().to_string()]);
    said.refused(
        64,
        &["`fencepost check --json --expect plan.toml history.jsonl`"],
    );
    let mut again = harness::fencepost();
    again
        .current_dir(&dir)
        .args(["check", "--json", "--expect", "plan.toml", "history.jsonl"]);
    let out = again.output().expect("fencepost runs");
    assert_eq!(
        out.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&out.stdout)
    );
    std::fs::write(&verdict, out.stdout).expect("written");
    assert_eq!(say(&["report", &dir.display().to_string()]).code, 0);
}

#[test]
fn a_page_goes_where_it_was_asked_for_and_nowhere_else() {
    let desk = Desk::new();
    let dir = desk.run("r/clean/20261130T082201Z-1", "clean", PLAN);
    let shown = dir.display().to_string();
    let nowhere = desk.at("nope/x.html");
    say(&["report", "--html", &nowhere, &shown]).refused(69, &["nope"]);
    assert!(!Path::new(&desk.at("nope")).exists(), "no folder is made");
    let said = say(&["report", "--html", "-", &shown]);
    assert!(
        said.code == 0 && said.stdout.starts_with("<!"),
        "{}",
        said.stdout
    );
    say(&["report", &desk.at("r/clean")]).refused(64, &["fencepost merge "]);
    std::os::unix::fs::symlink("20261130T082201Z-1", desk.0.path().join("r/clean/latest"))
        .expect("a link");
    let mut report = harness::fencepost();
    report
        .current_dir(desk.0.path())
        .args(["report", "r/clean/latest/"]);
    assert!(report.output().expect("fencepost runs").status.success());
    let page = std::fs::read_to_string(dir.join("report.html")).expect("a page");
    assert!(
        page.contains("fencepost run r/clean/20261130T082201Z-1/plan.toml"),
        "the run itself"
    );
}
