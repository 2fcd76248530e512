//! Suites made by hand: what counts, what is shown, and that hostile text stays text.
use super::*;
use crate::report::fixture::HOSTILE;
use crate::report::terminal::Style;
use fencepost_checker::stats;

fn run(workload: &str, seed: u64, outcome: Outcome, violated: &[&str]) -> Run {
    let check = |name: &str| Check {
        name: name.to_owned(),
        class: Class::Service,
        outcome: if violated.contains(&name) {
            Outcome::Violated
        } else {
            Outcome::Valid
        },
        expect: None,
        judgement: Judgement::Expected,
        count: 4,
        incidents: u64::from(violated.contains(&name)) * 2,
    };
    Run {
        workload: workload.to_owned(),
        file: None,
        about: "what it shows".to_owned(),
        lock: "set-nx-lua".to_owned(),
        servers: "1 node, single".to_owned(),
        seed,
        dir: PathBuf::from(format!("results/{workload}/x-{seed}")),
        outcome,
        reasons: match outcome {
            Outcome::Valid => Vec::new(),
            _ => vec!["service: violated, but was expected to hold".to_owned()],
        },
        checks: vec![check("service"), check("overrun")],
        grants: 100,
        load_ns: 10_000_000_000,
        first_finding_ns: (!violated.is_empty()).then_some(1_500_000_000 + seed),
    }
}

fn suite(runs: Vec<Run>) -> Suite {
    Suite {
        fencepost: 1,
        seed: Some(7),
        shards: vec![1],
        of: 1,
        planned: runs.len() as u64,
        runs,
        ..Suite::default()
    }
}

#[test]
fn failure_beats_unknown_beats_pass_and_gaps_are_unknown() {
    let valid = || run("a", 1, Outcome::Valid, &[]);
    let unknown = || run("a", 2, Outcome::Unknown, &[]);
    let bad = || run("a", 3, Outcome::Violated, &["service"]);
    assert_eq!(suite(vec![valid()]).outcome(), Outcome::Valid);
    assert_eq!(suite(vec![valid(), unknown()]).outcome(), Outcome::Unknown);
    assert_eq!(
        suite(vec![unknown(), bad(), valid()]).outcome(),
        Outcome::Violated
    );
    assert_eq!(suite(Vec::new()).outcome(), Outcome::Unknown);
    let mut gaps = suite(vec![valid()]);
    gaps.of = 3;
    assert_eq!(
        gaps.outcome(),
        Outcome::Valid,
        "its own part is as expected"
    );
    assert!(
        headline(&gaps).starts_with("shard 1 of 3 "),
        "{}",
        headline(&gaps)
    );
    gaps.merged = true;
    assert_eq!(
        (gaps.outcome(), gaps.missing()),
        (Outcome::Unknown, vec![2, 3])
    );
    let mut gaps = suite(vec![valid()]);
    gaps.cut = Some("interrupted".to_owned());
    assert_eq!(gaps.outcome(), Outcome::Unknown);
    gaps.cut = None;
    gaps.not_run.push(NotRun {
        workload: "b".to_owned(),
        seed: 1,
        why: "no image".to_owned(),
    });
    assert_eq!(gaps.outcome(), Outcome::Unknown);
    assert_eq!(gaps.lacks(), ["b, seed 1: not run: no image"]);
    let mut gaps = suite(vec![valid()]);
    gaps.lost.push(Lost {
        what: "a, seed 2".to_owned(),
        why: "gone".to_owned(),
    });
    assert_eq!(gaps.outcome(), Outcome::Unknown);
    assert_eq!(gaps.lacks(), ["a, seed 2: no result: gone"]);
    let mut gaps = suite(vec![valid()]);
    (gaps.of, gaps.merged, gaps.cut) = (3, true, Some("interrupted".to_owned()));
    let xml = crate::report::junit::campaign(&[], &gaps).expect("it is XML");
    for told in [
        "shard 2 of 3",
        "shard 3 of 3",
        "1 of 1 runs made: interrupted",
        "errors=\"3\"",
    ] {
        assert!(xml.contains(told), "{told}: {xml}");
    }
    let mut idle = suite(Vec::new());
    idle.of = 2;
    assert_eq!(idle.outcome(), Outcome::Valid, "nothing fell to it");
}

#[test]
fn a_row_a_workload_with_shares_and_rates() {
    let mut all = vec![run("quiet", 1, Outcome::Valid, &[])];
    all.extend((1..=3).map(|n| run("loud", n, Outcome::Valid, &["service"])));
    all.push(run("loud", 4, Outcome::Violated, &[]));
    let s = suite(all);
    assert_eq!(
        headline(&s),
        "2 workloads, 5 runs: 4 as expected, 1 NOT as expected"
    );
    let rows = overview(&s).rows;
    assert_eq!(rows[0][1..], ["quiet", "1", "1", "100", "–", "–"]);
    assert_eq!(
        rows[1],
        ["✘", "loud", "4", "3", "400", "1.500 s", "service 3 of 4"]
    );
    let rows = matrix(&s).rows;
    // 3 of 4: 19 to 99 %; 6 incidents in 400 grants: 15, with Garwood's [2.20, 13.06] over 0.4.
    assert_eq!(rows[1][5], "service 3 of 4 (19–99 %)");
    assert_eq!(rows[1][6], "service 15.0 (5.5–32.6)");
    assert_eq!(rows[0][5], "nothing in 1: at most 95 % of runs");
    assert!((stats::poisson(6, 0.95).low - 2.202).abs() < 0.001);
}

#[test]
fn the_terminal_tells_what_went_wrong_first() {
    let s = suite(vec![
        run("good", 1, Outcome::Valid, &[]),
        run("bad", 2, Outcome::Violated, &["service"]),
    ]);
    insta::assert_snapshot!(terminal(&s, Style::default()));
}

#[test]
fn hostile_text_stays_text_in_every_file() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let mut bad = run("x", 1, Outcome::Violated, &["service"]);
    for text in [
        &mut bad.workload,
        &mut bad.about,
        &mut bad.lock,
        &mut bad.servers,
    ] {
        HOSTILE.clone_into(text);
    }
    bad.reasons = vec![HOSTILE.to_owned()];
    bad.dir = dir.path().join("a\"<script>");
    let mut s = suite(vec![bad]);
    s.not_run.push(NotRun {
        workload: HOSTILE.to_owned(),
        seed: 0,
        why: HOSTILE.to_owned(),
    });
    render(&s, &[], dir.path())?;
    for name in ["summary.md", "junit.xml", "index.html"] {
        let text = std::fs::read_to_string(dir.path().join(name))?;
        // In Markdown a code span shows what is in it, whatever it is.
        let outside: String = match name {
            "summary.md" => text.replace("\\`", "").split('`').step_by(2).collect(),
            _ => text.clone(),
        };
        assert!(!outside.contains("<script>"), "{name}: {text}");
        assert!(
            !text.contains('\u{202e}') && !text.contains('\u{1b}'),
            "{name}: {text}"
        );
    }
    let shown = terminal(&s, Style::default());
    assert!(
        !shown.contains('\u{1b}') && !shown.lines().any(|l| l.starts_with("::")),
        "{shown}"
    );
    let text = std::fs::read_to_string(dir.path().join("suite.json"))?;
    let again: Suite = serde_json::from_str(&text)?;
    assert_eq!(again.not_run, s.not_run);
    Ok(())
}
