//! The grades of a card, from verdicts made by hand.
use super::page::page;
use super::terminal::terminal;
use super::*;
use fencepost_checker::{Blame, Class, Finding};

/// The findings are kinds with their sentences.
fn result(name: &str, outcome: Outcome, note: Option<&str>, found: &[[&str; 2]]) -> CheckResult {
    let finding = |[kind, sentence]: &[&str; 2]| Finding {
        check: name.to_owned(),
        blame: Blame::Unknown,
        kind: Some((*kind).to_owned()),
        sentence: (*sentence).to_owned(),
        proof: Vec::new(),
        at: 0,
        key: None,
        sections: Vec::new(),
        overlap_ns: None,
        evidence: Vec::new(),
        faults: Vec::new(),
    };
    CheckResult {
        name: name.to_owned(),
        class: Class::Library,
        outcome,
        count: found.len() as u64,
        incidents: 0,
        excused: 0,
        note: note.map(str::to_owned),
        findings: found.iter().map(finding).collect(),
    }
}

const AFTER: [&str; 2] = ["nothing-left", "success with a validity of -251.0 ms"];

fn run(outcome: Outcome, reasons: &[&str], checks: Vec<CheckResult>) -> Run {
    Run {
        seed: 7,
        made: Ok(Verdict {
            outcome,
            damaged: None,
            reading: Vec::new(),
            reasons: reasons.iter().map(|r| (*r).to_owned()).collect(),
            checks,
            counts: BTreeMap::new(),
        }),
        dir: "results/x".into(),
        misbehaved: BTreeMap::new(),
    }
}

fn card(schedule: &'static str, run: Run) -> Card {
    Card {
        subject: Subject {
            name: "mine".into(),
            command: vec!["python3".into(), "it's mine.py".into()],
            several: false,
            known: BTreeMap::from([("late-claim".to_owned(), "somebody 12".to_owned())]),
        },
        about: About {
            library: "mine".into(),
            version: "1".into(),
            driver: None,
        },
        runs: BTreeMap::from([(schedule, run)]),
    }
}

fn grade(card: &Card, name: &str) -> Grade {
    let check = CHECKS.iter().find(|c| c.name == name).expect("a check");
    card.cell(check).grade
}

#[test]
fn a_claim_too_long_by_the_drift_is_another_check_than_one_after_the_lease() {
    use Outcome::{Valid, Violated};
    let drift = [
        "too-long",
        "it claims 989.2 ms, but a lease of 1000 ms is good for 988.0 ms at most",
    ];
    let short = ["too-short", "it claims 1.0 ms, but 900.0 ms were left"];
    let only = vec![result("validity", Violated, None, &[drift, short])];
    let late = card("late-replies", run(Violated, &[], only.clone()));
    assert_eq!(grade(&late, "late-claim"), Grade::Ok);
    assert_eq!(
        grade(&card("plain", run(Violated, &[], only)), "claim"),
        Grade::Broken
    );
    // A difference below nothing that wrapped around.
    let wrapped = [
        "beyond-lease",
        "it claims 18446744073709549568.0 ms, more than the whole lease of 1000 ms",
    ];
    let wrapped = vec![result("validity", Violated, None, &[drift, wrapped])];
    let late = card("late-replies", run(Violated, &[], wrapped));
    assert_eq!(grade(&late, "late-claim"), Grade::Broken);
    let both = vec![result("validity", Violated, None, &[drift, AFTER])];
    let late = card("late-replies", run(Violated, &[], both));
    assert_eq!(grade(&late, "late-claim"), Grade::Broken);
    assert_eq!(grade(&late, "one-dead"), Grade::NotAsked);
    let none = vec![result("validity", Valid, None, &[])];
    let unsure = card("late-replies", run(Outcome::Unknown, &["stalled"], none));
    assert_eq!(grade(&unsure, "late-claim"), Grade::Unknown);
    assert!(unsure.runs["late-replies"].is_unknown());
}

#[test]
fn what_the_library_does_not_offer_is_no_doubt() {
    use Outcome::{Unknown, Valid};
    let none = vec![result(
        "validity",
        Unknown,
        Some("the library claims no validity"),
        &[],
    )];
    let silent = card("late-replies", run(Valid, &[], none));
    assert_eq!(grade(&silent, "late-claim"), Grade::NotAsked);
    let cannot = vec![result("continuity", Unknown, None, &[])];
    let cannot = run(Unknown, &["coverage: no extend of 9 succeeded"], cannot);
    assert!(!cannot.is_unknown());
    assert_eq!(
        grade(&card("renew-lost", cannot), "extension"),
        Grade::NotAsked
    );
    let gone = card("plain", Run::not_made("no servers".into(), 7));
    assert_eq!(grade(&gone, "exclusion"), Grade::Unknown);
    assert_eq!(gone.worst(), Grade::Unknown);
}

#[test]
fn a_cell_of_which_a_part_could_not_be_judged_is_not_ok() {
    use Outcome::{Unknown, Valid};
    let blind = Some("the library does not tell its owner values");
    let parts = vec![
        result("ownership", Unknown, blind, &[]),
        result("service", Valid, None, &[]),
    ];
    let card = card("pause", run(Valid, &[], parts));
    let check = CHECKS.iter().find(|c| c.name == "late-release");
    let cell = card.cell(check.expect("a check"));
    assert_eq!(cell.grade, Grade::Unknown);
    let why = "`ownership`: the library does not tell its owner values";
    assert_eq!(cell.why, why);
}

#[test]
fn the_page_gives_the_recipe_only_of_what_is_public() {
    let found = || vec![result("validity", Outcome::Violated, None, &[AFTER])];
    let mut card = card("late-replies", run(Outcome::Violated, &[], found()));
    card.runs
        .insert("plain", run(Outcome::Violated, &[], found()));
    let text = page(std::slice::from_ref(&card));
    assert!(text.contains("Known: somebody 12. Replay: `"), "{text}");
    assert_eq!(text.matches("Replay:").count(), 1, "{text}");
    assert!(text.contains("No public report is known"), "{text}");
    let shown = terminal(&card);
    assert_eq!(
        shown
            .matches("replay: fencepost run results/x/plan.toml")
            .count(),
        2
    );
    assert_eq!(card.worst(), Grade::Broken);
}

#[test]
fn what_the_adapter_did_against_the_protocol_stands_on_the_card_once() {
    let mut runs = ["pause", "plain"].map(|schedule| (schedule, run(Outcome::Valid, &[], vec![])));
    for (_, run) in &mut runs {
        run.misbehaved.insert("answered twice \u{202e}".into(), 3);
    }
    let mut card = card("plain", run(Outcome::Valid, &[], vec![]));
    card.runs.extend(runs);
    for text in [page(std::slice::from_ref(&card)), terminal(&card)] {
        let said = "the adapter misbehaved under pause: answered twice";
        assert_eq!(text.matches(said).count(), 1, "{text}");
        assert!(!text.contains('\u{202e}'), "{text}");
    }
}

#[test]
fn words_for_a_shell_stay_words() {
    let words = ["run", "it's", "a b", ""].map(str::to_owned);
    assert_eq!(shell(&words), r"run 'it'\''s' 'a b' ''");
}
