//! What explains a finding: its proof, and the smallest part of the history that still shows it.
mod histories;

use fencepost_checker::{
    Finding, Options, Outcome, Part, Verdict, check_path, check_reader, shrink,
};
use histories::{clients, random};
use proptest::prelude::*;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn golden() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let files = std::fs::read_dir(dir).expect("the folder is there");
    files.map(|f| f.expect("readable").path()).collect()
}

/// The part alone gives the same finding, and its check says nothing that it did not say of the whole.
fn alike(part: &Part, finding: &Finding, whole: &Verdict) {
    let alone = check_reader(part.text.as_bytes()).expect("judged");
    let check = alone.check(&finding.check).expect("it is in the table");
    let before = whole.check(&finding.check).expect("it is in the table");
    if before.count == before.findings.len() as u64 {
        for f in &check.findings {
            let known = before.findings.iter().any(|w| w.sentence == f.sentence);
            assert!(known, "{}\n{}", f.sentence, part.text);
        }
    }
    let mut found = check.findings.iter();
    let same = found.any(|f| f.sentence == finding.sentence && f.blame == finding.blame);
    assert!(same, "{}\n{}", finding.sentence, part.text);
    assert_eq!(alone.outcome, Outcome::Violated);
}

#[test]
fn the_smallest_part_is_judged_alike() {
    let mut parts = 0;
    for path in golden() {
        let v = check_path(&path).expect("judged");
        for c in v.checks.iter().filter(|c| c.outcome == Outcome::Violated) {
            for finding in &c.findings {
                let part = shrink(&path, &Options::default(), &v, finding).expect("readable");
                let part =
                    part.unwrap_or_else(|| panic!("{}: no part shows {}", path.display(), c.name));
                alike(&part, finding, &v);
                parts += 1;
            }
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
    let finding = &v.check("service").expect("it is in the table").findings[0];
    let part = shrink(&path, &Options::default(), &v, finding).expect("readable");
    std::fs::remove_file(&path).expect("it is there");
    assert_eq!(part.expect("a part shows it").events, 6);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_smallest_part_of_a_random_history_is_judged_alike(
        clients in clients(),
        leased in any::<bool>(),
    ) {
        let text = random(&clients, leased);
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), &text).expect("writes");
        let v = check_path(file.path()).expect("judged");
        // Where events do not fit together, a part may be judged otherwise on purpose.
        prop_assume!(v.counts["anomalies"] == 0);
        for finding in v.checks.iter().flat_map(|c| &c.findings).take(6) {
            proved(finding, &text);
            let part = shrink(file.path(), &Options::default(), &v, finding).expect("readable");
            let part = part.unwrap_or_else(|| panic!("no part shows {}\n{text}", finding.sentence));
            alike(&part, finding, &v);
        }
    }
}

fn proved(finding: &Finding, place: &str) {
    let proof = finding.proof.join(" ");
    for word in ["Let ", " Then ", " But "] {
        assert!(
            proof.contains(word),
            "{place}: {}: {proof}",
            finding.sentence
        );
    }
}

#[test]
fn each_finding_has_a_proof() {
    for path in golden() {
        let v = check_path(&path).expect("judged");
        for finding in v.checks.iter().flat_map(|c| &c.findings) {
            proved(finding, &path.display().to_string());
        }
    }
}
