//! What explains a finding: its proof, and the smallest part of the history that still shows it.
use fencepost_checker::{Options, Outcome, check_path, check_reader, shrink};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn golden() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let files = std::fs::read_dir(dir).expect("the folder is there");
    files.map(|f| f.expect("readable").path()).collect()
}

#[test]
fn the_smallest_part_is_judged_alike() {
    let mut parts = 0;
    for path in golden() {
        let v = check_path(&path).expect("judged");
        for c in v.checks.iter().filter(|c| c.outcome == Outcome::Violated) {
            let part = shrink(&path, &Options::default(), &v, &c.name).expect("readable");
            let part =
                part.unwrap_or_else(|| panic!("{}: no part shows {}", path.display(), c.name));
            let alone = check_reader(part.text.as_bytes()).expect("judged");
            let found = alone.check(&c.name).expect("it is in the table");
            let first = &c.findings[0];
            let same = found
                .findings
                .iter()
                .any(|f| f.sentence == first.sentence && f.blame == first.blame);
            assert!(same, "{}", first.sentence);
            assert_eq!(alone.outcome, Outcome::Violated);
            parts += 1;
        }
    }
    assert!(parts > 20, "{parts}");
}

/// Two clients at once, in the middle of a thousand good turns.
#[test]
fn of_a_long_history_three_operations_are_left() {
    let mut text = r#"{"fencepost":1,"workload":"long","seed":0,"model":{}}"#.to_owned();
    let mut add = |time: u64, process: u64, kind: &str, f: &str| {
        let _ = write!(
            text,
            "\n{{\"index\":0,\"time\":{time},\"process\":{process},\"type\":\"{kind}\",\"f\":\"{f}\",\"key\":\"k\"}}"
        );
    };
    for turn in 0..1000 {
        for (i, (kind, f)) in [
            ("invoke", "acquire"),
            ("ok", "acquire"),
            ("invoke", "release"),
            ("ok", "release"),
        ]
        .into_iter()
        .enumerate()
        {
            add(turn * 10 + i as u64 * 2, turn % 5, kind, f);
        }
        if turn == 500 {
            add(turn * 10 + 3, 7, "invoke", "acquire");
            add(turn * 10 + 3, 7, "ok", "acquire");
            add(turn * 10 + 4, 7, "invoke", "release");
            add(turn * 10 + 5, 7, "ok", "release");
        }
    }
    let lines: Vec<&str> = text.lines().collect();
    let mut sorted = lines[1..].to_vec();
    let time =
        |l: &str| serde_json::from_str::<serde_json::Value>(l).expect("JSON")["time"].as_u64();
    sorted.sort_by_key(|l| time(l));
    let path = std::env::temp_dir().join(format!("fencepost-shrink-{}.jsonl", std::process::id()));
    std::fs::write(&path, [&lines[..1], &sorted[..]].concat().join("\n")).expect("writes");
    let v = check_path(&path).expect("judged");
    let part = shrink(&path, &Options::default(), &v, "service").expect("readable");
    std::fs::remove_file(&path).expect("it is there");
    assert_eq!(part.expect("a part shows it").events, 6);
}

#[test]
fn each_pair_has_a_proof() {
    for path in golden() {
        let v = check_path(&path).expect("judged");
        for f in v.checks.iter().flat_map(|c| &c.findings) {
            if !matches!(f.check.as_str(), "service" | "overrun") {
                continue;
            }
            let proof = f.proof.join(" ");
            for word in ["Let ", " Then ", " But "] {
                assert!(proof.contains(word), "{}: {proof}", path.display());
            }
        }
    }
}
