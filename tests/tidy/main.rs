//! Holds the rooms apart: a table room → forbidden paths, with reasons, and the few rules that every file keeps.
//!
//! Owns the rules that no lint can state, since clippy's bans hold for a whole package and these hold for a folder.
//! Must not know what the code does; it reads text. Where the data goes next: a failure names file, line and reason.
mod rules;
mod source;

use rules::{CHECKER_NEEDS, KEEPERS, MARKS, RULES, Rule};
use source::{code_only, plain_paths, uses, without_tests};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// No file is longer: what needs more is two things.
const LINES_MAX: usize = 600;
/// Fewer files than this, and the walk itself is broken.
const FILES_MIN: usize = 10;

/// A broken rule, as `file:line: what (why)`.
type Breach = String;

#[test]
fn rooms_name_no_forbidden_path() {
    report(&each_file(&["src", "checker/src"], |file, text, found| {
        for rule in RULES.iter().filter(|r| in_room(file, r.room)) {
            found.extend(forbidden(file, text, rule));
        }
    }));
}

#[test]
fn kept_crates_stay_in_their_place() {
    report(&each_file(&["src"], |file, text, found| {
        for (name, places, reason) in KEEPERS {
            if !places.iter().any(|place| file.starts_with(place)) {
                found.extend(named(file, text, &[name], reason));
            }
        }
    }));
}

#[test]
fn files_open_with_what_they_own() {
    report(&each_file(
        &["src", "checker/src", "tests", "checker/tests"],
        |file, text, found| {
            if !text.starts_with("//!") {
                found.push(format!("{file}:1: no `//!` at its head (say what it owns, what it must not know, where data goes next)"));
            }
        },
    ));
}

#[test]
fn files_are_short() {
    report(&each_file(
        &["src", "checker/src", "tests", "checker/tests"],
        |file, text, found| {
            let lines = text.lines().count();
            if lines > LINES_MAX {
                found.push(format!(
                    "{file}:{lines}: longer than {LINES_MAX} lines (split it by what it owns)"
                ));
            }
        },
    ));
}

#[test]
fn nothing_is_unfinished_or_silenced() {
    report(&each_file(
        &["src", "checker/src", "tests", "checker/tests"],
        |file, text, found| found.extend(find_marks(file, text)),
    ));
}

#[test]
fn every_room_of_the_table_is_there() {
    for rule in RULES {
        assert!(
            root().join(rule.room).is_dir(),
            "{}: no such folder; the rule guards nothing",
            rule.room
        );
    }
}

#[test]
fn the_checker_depends_on_no_runtime_clock_or_network() {
    let file = std::fs::read_to_string(root().join("checker/Cargo.toml")).expect("it is there");
    let dependencies = file.split("\n[dependencies]\n").nth(1).expect("a table");
    let dependencies = dependencies.split("\n[").next().expect("its lines");
    let names = dependencies.lines().filter_map(|l| l.split_once(" = "));
    let names: Vec<&str> = names.map(|(name, _)| name.trim()).collect();
    let allowed: Vec<&str> = CHECKER_NEEDS.iter().map(|n| n.0).collect();
    assert_eq!(names, allowed, "a new one needs its reason in the table");
}

#[test]
fn a_planted_breach_is_found() {
    let rule = RULES
        .iter()
        .find(|r| r.room == "src/lock" && r.forbidden.contains(&"tokio"))
        .expect("a rule for locks");
    let breaches = |text: &str| forbidden("src/lock/planted.rs", text, rule).len();
    assert_eq!(breaches("//! Head.\nuse tokio::time::sleep;\n"), 1);
    assert_eq!(
        breaches("use {tokio::time, std::fmt};\n"),
        1,
        "inside braces"
    );
    assert_eq!(
        breaches("    tokio::spawn(work());\n"),
        1,
        "a path without a use"
    );
    assert_eq!(breaches("use ::tokio::time;\n"), 1, "a leading ::");
    assert_eq!(
        breaches("/// No tokio here.\n// use tokio::time;\n"),
        0,
        "comments are free"
    );
    assert_eq!(
        breaches("use tokio_like::time;\nlet my_tokio = 1;\n"),
        0,
        "only whole names"
    );
    assert_eq!(breaches("let s = \"tokio\";\n"), 0, "text is free");
    let found = forbidden(
        "src/lock/planted.rs",
        "//! Head.\n\nuse tokio::time;\n",
        rule,
    );
    assert!(
        found[0].starts_with("src/lock/planted.rs:3: `tokio`"),
        "place and name: {}",
        found[0]
    );
    assert!(
        found[0].contains(rule.reason),
        "and the reason: {}",
        found[0]
    );
}

#[test]
fn a_nested_use_is_read_as_its_full_path() {
    let rule = Rule {
        room: "src/report",
        forbidden: &["crate::cluster", "std::time::Instant"],
        reason: "because",
    };
    let breaches = |text: &str| forbidden("src/report/planted.rs", text, &rule);
    assert_eq!(
        breaches("use crate::{\n    plan::Plan,\n    cluster::{Cluster, Spec},\n};\n").len(),
        1
    );
    assert_eq!(
        breaches("use crate::{\n    plan::Plan,\n    cluster::Spec,\n};\n")[0]
            .split(':')
            .nth(1),
        Some("1")
    );
    assert_eq!(
        breaches("use std::{fmt, time::{Duration, Instant}};\n").len(),
        1
    );
    assert_eq!(breaches("use std::{fmt, time::Duration};\n").len(), 0);
    assert_eq!(breaches("use crate::plan::cluster;\n").len(), 0);
}

#[test]
fn a_planted_mark_is_found() {
    for (mark, why) in MARKS {
        let found = find_marks(
            "src/planted.rs",
            &format!("//! Head.\nfn f() {{\n    {mark}\n}}\n"),
        );
        assert_eq!(found.len(), 1, "{mark}");
        assert!(
            found[0].starts_with("src/planted.rs:3:") && found[0].contains(why),
            "{}",
            found[0]
        );
    }
    assert!(find_marks("src/planted.rs", "fn f() {}\n").is_empty());
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Whether a file (relative, with `/`) lies in a room.
fn in_room(file: &str, room: &str) -> bool {
    file.strip_prefix(room)
        .is_some_and(|rest| rest.starts_with('/') || rest == ".rs")
}

/// Runs `rule` over each Rust file below the folders and returns what it found; fails where there are too few files
/// for the walk to be right.
fn each_file(folders: &[&str], rule: impl Fn(&str, &str, &mut Vec<Breach>)) -> Vec<Breach> {
    let mut files = Vec::new();
    for folder in folders {
        walk(&root().join(folder), &mut files);
    }
    files.sort();
    assert!(
        files.len() >= FILES_MIN,
        "only {} files in {folders:?}: the walk is broken",
        files.len()
    );
    let mut found = Vec::new();
    for path in &files {
        let text =
            std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let relative = path
            .strip_prefix(root())
            .unwrap_or(path)
            .to_string_lossy()
            .replace('\\', "/");
        rule(&relative, &text, &mut found);
    }
    found
}

/// Adds every `.rs` file below `folder`; a folder that is not there adds none.
fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            walk(&path, files);
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
}

fn report(found: &[Breach]) {
    let mut text = String::new();
    for breach in found {
        let _ = write!(text, "\n  {breach}");
    }
    assert!(found.is_empty(), "{} broken:{text}", found.len());
}

/// Where `text` names a path that `rule` forbids.
fn forbidden(file: &str, text: &str, rule: &Rule) -> Vec<Breach> {
    named(file, text, rule.forbidden, rule.reason)
}

/// Whether the file belongs to a module that its parent declares for tests only: tests may use what their room may not.
fn only_for_tests(file: &str) -> bool {
    let path = Path::new(file);
    path.ancestors().any(|module| {
        let (Some(folder), Some(name)) = (module.parent(), module.file_stem()) else {
            return false;
        };
        let declared = format!("#[cfg(test)]\nmod {};", name.to_string_lossy());
        ["mod.rs", "lib.rs"].iter().any(|parent| {
            let text = std::fs::read_to_string(root().join(folder).join(parent));
            text.is_ok_and(|text| text.contains(&declared))
        })
    })
}

/// Where `text`, its comments, strings and test modules left out, names one of `paths`.
fn named(file: &str, text: &str, paths: &[&str], reason: &str) -> Vec<Breach> {
    if only_for_tests(file) {
        return Vec::new();
    }
    let code = without_tests(&code_only(text));
    let mut found = Vec::new();
    for (line, path) in uses(&code).into_iter().chain(plain_paths(&code)) {
        if let Some(name) = paths.iter().find(|name| names(&path, name)) {
            found.push(format!("{file}:{line}: `{name}` ({reason})"));
        }
    }
    found.dedup();
    found
}

/// Where `text` holds a mark of unfinished or silenced code, comments included.
fn find_marks(file: &str, text: &str) -> Vec<Breach> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for (mark, why) in MARKS.iter().filter(|(mark, _)| line.contains(mark)) {
            found.push(format!("{file}:{}: `{mark}` ({why})", number + 1));
        }
    }
    found
}

/// Whether `path` begins with, or (for a single name such as `HashMap` or `Instant::now`) holds, the forbidden one.
fn names(path: &str, forbidden: &str) -> bool {
    let forbidden = forbidden.trim_end_matches("::");
    let (have, want): (Vec<&str>, Vec<&str>) =
        (path.split("::").collect(), forbidden.split("::").collect());
    let relative = want[0].starts_with(char::is_uppercase);
    if relative {
        have.windows(want.len()).any(|w| w == want)
    } else {
        have.starts_with(&want)
    }
}
