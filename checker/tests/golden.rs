//! Golden histories: small files, each with what the checker says of it written down.
//!
//! A bug that was found becomes a file here. The name says what happened; the snapshot holds all violated and
//! unknown checks, and every sentence.
use fencepost_checker::{CHECKS, Class, Outcome, Verdict, check_path, check_reader};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn golden() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let files = std::fs::read_dir(dir).expect("the folder is there");
    let mut files: Vec<PathBuf> = files.map(|f| f.expect("readable").path()).collect();
    files.sort();
    files
}

fn name(path: &Path) -> String {
    let stem = path.file_stem().expect("a file");
    stem.to_string_lossy().into_owned()
}

fn verdict(path: &Path) -> Verdict {
    check_path(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[test]
fn what_the_checker_says() {
    let mut text = String::new();
    for path in golden() {
        let v = verdict(&path);
        let _ = writeln!(text, "{}: {:?}", name(&path), v.outcome);
        for reason in &v.reasons {
            let _ = writeln!(text, "    ! {reason}");
        }
        for c in v.checks.iter().filter(|c| c.outcome == Outcome::Violated) {
            let _ = writeln!(
                text,
                "    {} {} in {} incidents",
                c.name, c.count, c.incidents
            );
            for f in &c.findings {
                let _ = writeln!(text, "        {:?}: {}", f.blame, f.sentence);
                let _ = writeln!(
                    text,
                    "            {} sections, {} events, overlap {:?} ns, faults {:?}",
                    f.sections.len(),
                    f.evidence.len(),
                    f.overlap_ns,
                    f.faults
                );
            }
        }
        for c in v
            .checks
            .iter()
            .filter(|c| c.name == "service" && c.note.is_some())
        {
            let _ = writeln!(text, "    note: {}", c.note.as_deref().unwrap_or_default());
        }
    }
    insta::assert_snapshot!(text);
}

/// The proof of each check's first finding in each history, as a reviewer reads it.
#[test]
fn the_proofs() {
    let mut text = String::new();
    for path in golden() {
        for c in &verdict(&path).checks {
            let Some(f) = c.findings.first() else {
                continue;
            };
            let _ = writeln!(text, "{}, {}: {}", name(&path), c.name, f.sentence);
            for step in &f.proof {
                let _ = writeln!(text, "    {step}");
            }
        }
    }
    insta::assert_snapshot!(text);
}

/// With another holder to profit, too: what a stall may have forced is not judged, and not called right.
#[test]
fn a_stall_makes_a_missing_notice_unknown() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/notice.jsonl");
    let text = std::fs::read_to_string(path).expect("it is there");
    let stall = r#"{"index":3,"time":1500000000,"process":"driver","type":"info","f":"stall","value":{"ms":80.0}}"#;
    let mut lines: Vec<&str> = text.lines().collect();
    let outcome = |lines: &[&str]| {
        let v = check_reader(lines.join("\n").as_bytes()).expect("judged");
        let notice = v.check("notice").expect("it is in the table");
        (notice.outcome, notice.note.clone())
    };
    assert_eq!(outcome(&lines).0, Outcome::Violated);
    lines.insert(4, stall);
    let (stalled, note) = outcome(&lines);
    assert_eq!(stalled, Outcome::Unknown);
    let told = note.unwrap_or_default();
    assert!(told.starts_with("1 holders"), "each counts once: {told}");
}

/// The checks that are violated, by history: one row a plant, and exactly what it planted.
const VIOLATED: &[(&str, &[&str])] = &[
    ("below-quorum", &["truthful"]),
    ("clean", &[]),
    ("tap-late-quorum", &["validity"]),
    ("tap-waited", &["service"]),
    ("tap-watchdog", &["overrun", "notice"]),
    ("continuity", &["overrun", "continuity"]),
    ("early-expiry", &["service"]),
    ("extend-always-ok", &["continuity"]),
    ("extend-deletes", &["continuity"]),
    ("extend-good", &[]),
    ("restart-unseen-set", &["service"]),
    ("restart-unseen", &["service"]),
    ("get-then-del", &["ownership"]),
    ("outsider-del", &["service"]),
    ("lost-unlock-reply", &[]),
    ("overwrite", &["ownership"]),
    ("killed-with-ttl", &[]),
    ("latent", &[]),
    ("leak-minority", &["leak"]),
    ("leak-minority-cleaned", &[]),
    ("leak-minority-stalled", &["leak"]),
    ("mutex-clean-up", &[]),
    ("mutex-failed-release", &["service"]),
    ("mutex-ok", &[]),
    ("mutex-stranger", &["service"]),
    ("mutex-ghost-late-release", &[]),
    ("mutex-never-answered", &[]),
    ("mutex-out-of-turn", &[]),
    ("damaged-key", &[]),
    ("mutex-retried-release", &["service"]),
    ("reentrant-lost-release", &[]),
    ("semaphore-two-permits", &[]),
    ("semaphore-over", &["service"]),
    ("semaphore-leased", &["service"]),
    ("overrun-waited", &["overrun"]),
    ("leak-members-election", &[]),
    ("minority-members-anew", &[]),
    ("leak-members", &["leak"]),
    ("session-quoted-tick", &[]),
    ("service-restart-out-of-sight", &["service", "fencing"]),
    ("minority-session-in-doubt", &[]),
    ("minority-session-too-late", &["progress"]),
    ("mutex-twice", &["service"]),
    ("never-locks", &["truthful"]),
    ("no-observer", &["service"]),
    ("no-ttl-killed", &["leak", "deadlock"]),
    ("notice", &["overrun", "notice"]),
    ("notice-told", &[]),
    ("notice-stalled", &[]),
    ("overrun", &["overrun"]),
    ("overrun-stall", &["overrun"]),
    ("plain-del", &["overrun", "ownership"]),
    ("plain-del-third", &["overrun", "ownership"]),
    ("plain-del-unread", &["ownership"]),
    ("plain-del-unread-doubt", &["service"]),
    ("plain-del-unread-redlock", &["ownership"]),
    ("redlock-kept", &[]),
    ("redlock-thin", &["service"]),
    ("release-lies", &["truthful"]),
    ("restart-empty", &["service"]),
    ("retimed", &["continuity", "ownership"]),
    ("stale-write", &["overrun", "effects"]),
    ("stale-write-refused", &["overrun"]),
    ("token-regressed", &["fencing"]),
    ("token-twice", &["fencing"]),
    ("validity", &["validity"]),
    ("validity-late", &["validity"]),
    ("coverage-good", &[]),
    ("coverage-no-bite", &[]),
    ("coverage-never-fired", &[]),
    ("coverage-cut", &[]),
    ("coverage-server-lost", &[]),
    ("nothing-completed", &[]),
    ("deadlock-no-try", &[]),
    ("paused-before-call", &[]),
    ("coverage-client-ended", &[]),
    ("progress-call", &["progress"]),
    ("progress-call-stopped", &[]),
    ("progress-call-stopped-by-hand", &[]),
    ("progress-free", &["progress"]),
    ("progress-free-excused", &[]),
    ("progress-race", &[]),
    ("minority", &["minority"]),
    ("minority-releases", &["minority"]),
    ("minority-doubt", &["minority"]),
    ("minority-members", &["minority"]),
    ("minority-members-election", &[]),
    ("load", &["load"]),
    ("load-bounded", &[]),
    ("starvation", &["starvation"]),
    ("starvation-unstated", &[]),
    ("deadlock", &["deadlock"]),
    ("thread-end", &["deadlock"]),
    ("thread-end-refusal", &[]),
    ("service-while-stalled", &["service"]),
    ("own-retry-cleans-up", &[]),
    ("truthful-set-told-late", &["truthful"]),
    ("leak", &["leak"]),
    ("effects", &["effects"]),
    ("notice-zombie", &["notice"]),
    ("notice-renewed", &[]),
    ("sharpened", &["service"]),
    ("made-up-value", &["truthful"]),
    ("one-value", &["ownership"]),
    ("silent-renewals", &["service"]),
    ("session", &[]),
    ("session-found-again", &[]),
    ("failover-unreplicated", &["service", "fencing"]),
    ("failover-two-primaries", &["service"]),
    ("failover-extension", &["service"]),
    ("failover-extension-gone", &["service"]),
    ("replica-removed", &[]),
];

/// One history a check, in which theory expects that check alone to find something (`coverage`: to lack something).
const PLANTS: &[(&str, &str)] = &[
    ("service", "early-expiry"),
    ("overrun", "overrun"),
    ("validity", "validity"),
    ("continuity", "extend-always-ok"),
    ("ownership", "get-then-del"),
    ("truthful", "release-lies"),
    ("notice", "notice-zombie"),
    ("leak", "leak"),
    ("deadlock", "deadlock"),
    ("progress", "progress-free"),
    ("minority", "minority"),
    ("load", "load"),
    ("starvation", "starvation"),
    ("fencing", "token-twice"),
    ("effects", "effects"),
    ("coverage", "coverage-no-bite"),
];

#[test]
fn every_check_has_a_plant_that_it_alone_finds() {
    for check in CHECKS {
        let (_, plant) = PLANTS
            .iter()
            .find(|p| p.0 == check.name)
            .unwrap_or_else(|| panic!("no plant for {}", check.name));
        let path = golden().into_iter().find(|p| name(p) == *plant);
        let v = verdict(&path.unwrap_or_else(|| panic!("{plant} is not there")));
        let violated = v.checks.iter().filter(|c| c.outcome == Outcome::Violated);
        let violated: Vec<&str> = violated.map(|c| c.name.as_str()).collect();
        if check.class == Class::Coverage {
            let c = v.check(check.name).expect("it is in the table");
            assert_eq!(c.outcome, Outcome::Unknown, "{plant}");
            assert_eq!(violated, [""; 0], "{plant}");
        } else {
            assert_eq!(violated, [check.name], "{plant}");
        }
    }
}

/// What was found in a history that lacks a line may come of that.
#[test]
fn a_history_that_lacks_a_line_accuses_nobody() {
    let mut accused = 0;
    for path in golden() {
        let text = std::fs::read_to_string(&path).expect("it is read");
        let lines: Vec<&str> = text.lines().collect();
        accused += u32::from(verdict(&path).outcome == Outcome::Violated);
        // Without the last one it was cut, and what was found before stands.
        for lost in 1..lines.len() - 1 {
            let rest = [&lines[..lost], &lines[lost + 1..]].concat().join("\n");
            let v = check_reader(format!("{rest}\n").as_bytes()).expect("judged");
            assert_ne!(
                v.outcome,
                Outcome::Violated,
                "{} without line {}",
                name(&path),
                lost + 1
            );
        }
    }
    assert!(accused > 20, "{accused}");
}

#[test]
fn each_plant_is_found_and_nothing_else() {
    let files = golden();
    assert_eq!(
        files.len(),
        VIOLATED.len(),
        "a history without a row, or a row without a history"
    );
    for path in files {
        let name = name(&path);
        let (_, expected) = VIOLATED
            .iter()
            .find(|(n, _)| *n == name)
            .unwrap_or_else(|| panic!("{name} has no row"));
        let v = verdict(&path);
        let violated = v.checks.iter().filter(|c| c.outcome == Outcome::Violated);
        let violated: Vec<&str> = violated.map(|c| c.name.as_str()).collect();
        assert_eq!(violated, *expected, "{name}");
    }
}

#[test]
fn checking_again_gives_the_same_bytes() {
    for path in golden() {
        let bytes = || serde_json::to_string_pretty(&verdict(&path)).expect("writes");
        assert_eq!(bytes(), bytes());
    }
}

#[test]
fn evidence_is_as_it_stands_in_the_history() {
    let path = golden().into_iter().find(|p| name(p) == "plain-del");
    let path = path.expect("it is there");
    let history = std::fs::read_to_string(&path).expect("readable");
    let v = verdict(&path);
    for f in v.checks.iter().flat_map(|c| &c.findings) {
        for event in &f.evidence {
            let line = serde_json::to_string(event).expect("writes");
            let parsed: serde_json::Value = serde_json::from_str(&line).expect("JSON");
            let same =
                |l: &str| serde_json::from_str::<serde_json::Value>(l).ok() == Some(parsed.clone());
            assert!(history.lines().any(same), "{line}");
        }
    }
}

/// The cause comes from events: a history without its plan (no `expect`, no nemesis) gives the same sentences.
#[test]
fn the_plan_is_not_needed() {
    for path in golden() {
        let told = [
            "coverage",
            "notice",
            "validity-late",
            "progress",
            "minority",
            "load",
            "leak-members",
        ];
        if told.iter().any(|t| name(&path).starts_with(t)) {
            continue; // These judge what could be done while something was stopped or lost, which only the nemesis tells.
        }
        let history = std::fs::read_to_string(&path).expect("readable");
        let without: Vec<&str> = history
            .lines()
            .filter(|l| !l.contains("\"nemesis\""))
            .collect();
        let stripped = fencepost_checker::check_reader(without.join("\n").as_bytes());
        let stripped = stripped.expect("still a history");
        let sentences = |v: &Verdict| -> Vec<String> {
            let findings = v.checks.iter().flat_map(|c| &c.findings);
            findings.map(|f| f.sentence.clone()).collect()
        };
        assert_eq!(
            sentences(&verdict(&path)),
            sentences(&stripped),
            "{}",
            name(&path)
        );
    }
}
