//! The command line as users meet it: helps, lists, schemas, `check` on golden histories, the README's commands.
//!
//! What a stranger may do wrong is in `bad_input.rs`. Nothing here starts a server.
mod harness;

use fencepost_checker::{Outcome, check_path};
use harness::{Said, say};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const COMMANDS: &[&str] = &[
    "run",
    "suite",
    "compare",
    "scorecard",
    "merge",
    "predict",
    "check",
    "doctor",
    "clean",
    "adapter",
    "list",
    "schema",
    "report",
    "serve",
    "completions",
    "man",
];

fn golden(name: &str) -> String {
    format!("checker/tests/golden/{name}.jsonl")
}

fn goldens() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("checker/tests/golden");
    let files = std::fs::read_dir(folder).expect("golden histories");
    let mut files: Vec<PathBuf> = files.map(|f| f.expect("readable").path()).collect();
    files.sort();
    files
}

fn exit_of(outcome: Outcome) -> i32 {
    match outcome {
        Outcome::Valid => 0,
        Outcome::Violated => 1,
        Outcome::Unknown => 2,
    }
}

fn json_lines(said: &Said) -> Vec<serde_json::Value> {
    let lines = said.stdout.lines();
    let parse = |line| serde_json::from_str(line).expect("stdout is JSON, a value a line");
    lines.map(parse).collect()
}

#[test]
fn a_name_drives_no_terminal() {
    for command in ["check", "report", "merge", "suite", "run"] {
        let said = say(&[command, "no\u{1b}[31m\u{202e}such\u{7}.toml"]);
        assert!(said.stderr.contains("such"), "{command}: {}", said.stderr);
        let drives = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
        let all = said.stdout + &said.stderr;
        assert!(!all.contains(drives), "{command}: {all:?}");
    }
}

#[test]
fn the_helps_are_whole_and_their_examples_are_right() {
    let mut all = say(&["--help"]).good();
    let list = all.split("Commands:\n").nth(1).expect("a list");
    let list = list.split("\n\n").next().unwrap_or_default();
    let listed = list
        .lines()
        .filter(|l| l.starts_with("  ") && !l.starts_with("   "));
    let listed: BTreeSet<&str> = listed.filter_map(|l| l.split_whitespace().next()).collect();
    let known: BTreeSet<&str> = COMMANDS.iter().copied().chain(["help"]).collect();
    assert_eq!(listed, known);
    for command in COMMANDS {
        let help = say(&[command, "--help"]).good();
        let examples: Vec<&str> = help
            .lines()
            .filter(|l| l.starts_with("  fencepost "))
            .collect();
        assert!(!examples.is_empty(), "{command} shows no example");
        for example in examples {
            parses(example);
        }
        let _ = write!(all, "\n=== {command}\n{help}");
    }
    insta::assert_snapshot!(all);
}

/// Demands that the command line is one: with `--help` behind it, it prints its help, unless a word before is wrong.
fn parses(line: &str) {
    let end = line.find(['|', '>', '#']).unwrap_or(line.len());
    let mut words: Vec<&str> = line[..end].split_whitespace().skip(1).collect();
    // What stands behind `--` is another program's.
    let own = words.iter().position(|w| *w == "--");
    words.insert(own.unwrap_or(words.len()), "--help");
    assert_eq!(say(&words).code, 0, "{line}");
}

#[test]
fn completions_are_scripts_that_know_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = say(&["completions", shell]).good();
        for command in COMMANDS {
            assert!(script.contains(command), "{shell}: {command}");
        }
        assert!(script.contains("repeat"), "{shell}: and their flags");
        assert!(
            !script.contains("reaper"),
            "{shell}: hidden ones stay hidden"
        );
    }
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("fencepost.bash");
    std::fs::write(&script, say(&["completions", "bash"]).stdout).expect("written");
    // What a shell does with it: completes a command, and a flag of one.
    let typed = "source \"$0\"; COMP_WORDS=(fencepost \"$@\"); COMP_CWORD=$#; \
                 _fencepost fencepost \"${@: -1}\" \"\"; echo \"${COMPREPLY[@]}\"";
    for (words, reply) in [(&["sui"][..], "suite"), (&["run", "--rep"][..], "--repeat")] {
        let out = std::process::Command::new("bash")
            .args(["-c", typed])
            .arg(&script)
            .args(words)
            .output()
            .expect("bash runs");
        assert_eq!(String::from_utf8_lossy(&out.stdout).trim(), reply);
    }
    assert_eq!(say(&["completions", "csh"]).code, 64);
}

#[test]
fn each_command_has_its_manual_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("man1").display().to_string();
    say(&["man", "--dir", &dir]).good();
    let mut pages: Vec<String> = std::fs::read_dir(&dir)
        .expect("pages")
        .map(|f| {
            f.expect("a page")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    pages.sort();
    let mut wanted: Vec<String> = COMMANDS
        .iter()
        .map(|c| format!("fencepost-{c}.1"))
        .collect();
    wanted.push("fencepost.1".to_owned());
    wanted.sort();
    assert_eq!(pages, wanted);
    let page = say(&["man", "run"]).good();
    assert!(page.contains(".TH fencepost-run 1"), "{page}");
    assert!(
        page.contains("fencepost run workloads/plain\\-del.toml"),
        "{page}"
    );
    assert!(say(&["man"]).good().contains(".TH fencepost 1"));
    say(&["man", "rnu"]).refused(64, &["fencepost-rnu", "suite"]);
}

#[test]
fn no_command_shows_the_help_as_a_mistake() {
    let said = say(&[]);
    assert_eq!((said.code, said.stdout.as_str()), (64, ""));
    assert!(
        said.stderr.contains("Usage: fencepost <COMMAND>"),
        "{}",
        said.stderr
    );
    assert!(say(&["--version"]).good().starts_with("fencepost "));
}

#[test]
fn lists_hold_all_that_there_is() {
    let locks = say(&["list", "locks"]).good();
    for lock in fencepost::lock::LOCKS {
        assert!(
            locks.lines().any(|l| l == lock.name),
            "{} in {locks}",
            lock.name
        );
    }
    assert!(
        locks.contains("takes consensus"),
        "why Redlock has no tokens: {locks}"
    );
    let faults = say(&["list", "faults"]).good();
    for fault in fencepost::plan::kinds::kinds() {
        assert!(
            faults.lines().any(|l| l == fault.name),
            "{} in {faults}",
            fault.name
        );
    }
    for (what, names) in [
        ("checks", fencepost::plan::names::CHECKS.to_vec()),
        ("topologies", vec!["single", "independent"]),
    ] {
        let list = say(&["list", what]).good();
        for name in names {
            assert!(
                list.lines().any(|l| l.starts_with(name)),
                "{name} in {list}"
            );
        }
    }
    for text in [locks, faults] {
        assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
    }
}

#[test]
fn workloads_are_listed_a_row_a_variant_with_what_they_expect() {
    let list = say(&["list", "workloads"]).good();
    let files = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("workloads"));
    for file in files.expect("workloads/") {
        let path = file.expect("readable").path();
        if path.extension().is_none_or(|e| e != "toml") {
            continue;
        }
        let plans = fencepost::plan::load(&path, &fencepost::plan::Overrides::default());
        for plan in plans.expect("a workload") {
            let name = plan
                .variant
                .map_or(plan.name.clone(), |v| format!("{}/{v}", plan.name));
            let row = list.lines().find(|l| l.split(' ').next() == Some(&name));
            let row = row.unwrap_or_else(|| panic!("{name} is not in\n{list}"));
            assert!(
                row.contains("violated: ") || row.contains("valid: "),
                "{row}"
            );
        }
    }
}

#[test]
fn schemas_are_json() {
    for what in ["workload", "history", "verdict"] {
        let text = say(&["schema", what]).good();
        let schema: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert!(schema.is_object() && text.len() > 500, "{what}: {text}");
    }
}

#[test]
fn check_exits_as_each_golden_history_says() {
    for path in goldens() {
        let expected = exit_of(
            check_path(&path)
                .expect("a history")
                .judge_with(&BTreeMap::default())
                .outcome,
        );
        let file = path.display().to_string();
        let said = say(&["check", &file]);
        assert_eq!(
            (said.code, said.stderr.as_str()),
            (expected, ""),
            "{file}\n{}",
            said.stdout
        );
        assert_eq!(said, say(&["check", &file]), "the same bytes twice: {file}");
        let said = say(&["check", "--json", &file]);
        assert_eq!(
            (said.code, said.stderr.as_str(), json_lines(&said).len()),
            (expected, "", 1),
            "{file}"
        );
    }
}

#[test]
fn over_several_histories_failure_beats_unknown_beats_pass() {
    let pick = |wanted: i32| {
        let exit = |p: &PathBuf| say(&["check", &p.display().to_string()]).code;
        let found = goldens().into_iter().find(|p| exit(p) == wanted);
        found
            .expect("a golden history of that outcome")
            .display()
            .to_string()
    };
    let (valid, violated, unknown) = (pick(0), pick(1), pick(2));
    assert_eq!(say(&["check", &valid, &valid]).code, 0);
    assert_eq!(say(&["check", &unknown, &valid]).code, 2);
    assert_eq!(say(&["check", &valid, "--unknown=warn", &unknown]).code, 0);
    assert_eq!(say(&["check", &unknown, &violated, &valid]).code, 1);
    let said = say(&["check", "--json", &violated, "gone.jsonl", &valid]);
    assert_eq!(
        (said.code, json_lines(&said).len()),
        (64, 3),
        "{}",
        said.stderr
    );
}

#[test]
fn check_judges_against_a_workload() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("expect.toml");
    let expect = file.display().to_string();
    let path = golden("plain-del");
    let judge = |text: &str| {
        let head = "lock = { name = \"set-nx-del\" }\n";
        std::fs::write(&file, format!("{head}{text}")).expect("written");
        say(&["check", "--expect", &expect, &path]).code
    };
    let verdict =
        check_path(Path::new(env!("CARGO_MANIFEST_DIR")).join(&path).as_path()).expect("a history");
    let violated: Vec<String> = verdict
        .checks
        .iter()
        .filter(|c| c.outcome == Outcome::Violated)
        .map(|c| format!("{} = \"violated\"\n", c.name))
        .collect();
    assert_eq!(judge(&format!("[expect]\n{}", violated.concat())), 0);
    assert_eq!(judge(""), 1, "what is not named must not be violated");
    assert_eq!(
        judge("[expect]\nownership = \"violated\"\nservice = \"violated\"\n"),
        1,
        "nor be missed"
    );
    let variants = "[variant.a]\nload.keys = 1\n[variant.b]\nload.keys = 2\n";
    assert_eq!(judge(variants), 64, "which variant?");
    let said = say(&["check", "--expect", &expect, "--variant", "a", &path]);
    assert_eq!(said.code, 1, "{}", said.stderr);
}

#[test]
fn doctor_speaks_json_and_clean_touches_no_living_run() {
    let said = say(&["doctor", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&said.stdout).expect("JSON");
    assert!(report["lines"].is_array() && report["faults"].is_array());
    let usable = ["docker", "local"]
        .iter()
        .any(|b| report[b]["by"].is_string());
    assert_eq!(said.code, if usable { 0 } else { 69 });
    // Twice: after the first one no dead run is left, but those of tests that are going on.
    say(&["clean"]).good();
    let said = say(&["clean"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let mistake = say(&["clean", "--older-than", "2 parsecs"]);
    mistake.refused(64, &["parsecs", "--older-than"]);
}

/// Code blocks of that language.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let parts = text.split("```").skip(1).step_by(2);
    let named = parts.filter_map(|b| b.strip_prefix(language)?.strip_prefix('\n'));
    named.map(str::to_owned).collect()
}

#[test]
fn what_the_documents_show_can_be_typed() {
    let mut tried = BTreeSet::new();
    for page in [
        "README.md",
        "PROTOCOL.md",
        "CONTRIBUTING.md",
        "workloads/README.md",
    ] {
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(page));
        let text = text.expect("the page");
        let lines: Vec<String> = blocks(&text, "sh")
            .iter()
            .flat_map(|b| b.lines().map(str::to_owned).collect::<Vec<_>>())
            .collect();
        let inline = text
            .split('`')
            .filter(|t| !t.contains('\n'))
            .map(str::to_owned);
        for line in lines.into_iter().chain(inline) {
            let line = line.trim().replace("target/debug/fencepost ", "fencepost ");
            if line.starts_with("fencepost ") && !line.contains(['<', '…']) {
                typed(&line);
                tried.insert(line);
            }
        }
        for block in blocks(&text, "toml") {
            let plans = fencepost::plan::parse(
                page,
                "page",
                &block,
                &fencepost::plan::Overrides::default(),
            );
            assert!(
                plans.is_ok(),
                "{page}: {}",
                plans.expect_err("checked").render(100, false, true)
            );
        }
    }
    assert!(tried.len() >= 7, "{tried:?}");
}

/// Runs what needs no server; of the rest, the words must be right and the files there.
fn typed(line: &str) {
    let command = line.split('#').next().unwrap_or_default();
    let words: Vec<&str> = command.split_whitespace().skip(1).collect();
    match words.first().copied() {
        Some("list" | "schema") => drop(say(&words).good()),
        Some("run") => {
            parses(command);
            let files = words
                .iter()
                .filter(|w| Path::new(w).extension().is_some_and(|e| e == "toml"));
            let sets = words
                .iter()
                .zip(words.iter().skip(1))
                .filter(|(w, _)| **w == "--set");
            let over = fencepost::plan::Overrides {
                set: sets.map(|(_, v)| (*v).to_owned()).collect(),
                ..Default::default()
            };
            for file in files {
                let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
                assert!(fencepost::plan::load(&path, &over).is_ok(), "{line}");
            }
        }
        _ => parses(command),
    }
}
