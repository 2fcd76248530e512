//! Was it as expected? Check results against a workload's `expect`.
//!
//! Owns the rules of judgement. Must not know how a check came to its result. The outcome goes into the verdict.
//!
//! | what is said of a check | violated | valid | unknown |
//! |---|---|---|---|
//! | nothing | not as expected | as expected | as expected: what cannot be seen by design is not asked |
//! | `valid`, by its name | not as expected | as expected | unknown |
//! | `valid`, by its class | not as expected | as expected | as expected if another check of the class is valid |
//! | `violated` (a class: any of its checks) | as expected | not as expected | unknown |
//! | `any` | as expected | as expected | as expected |
//!
//! Then coverage. Where it lacks, what was *found* stands: an unexpected violation is still not as expected, and a
//! run whose only named expectations are `violated` and met is still as expected. What was *not* found says nothing:
//! a `violated` that was not met, and every other run, is unknown. Likewise an unexpected `overrun` (or the damage
//! that follows from one) is unknown where all of it fell into times in which the machine itself stood still; and where
//! coverage lacks, such a one meets no expectation: no fault is known that could have led to it.
//!
//! Failure beats unknown beats success.
use crate::model::Expect;
use crate::verdict::{CheckResult, Class, Outcome};
use std::collections::BTreeMap;

/// What is held against a run.
#[derive(Default)]
struct Reasons {
    failed: Vec<String>,
    unknown: Vec<String>,
    remarks: Vec<String>,
    /// Some expectation was `violated`, and met.
    met: bool,
    /// Some expectation was `valid`, and met: worth nothing without coverage.
    clean: bool,
}

/// Judges check results against expectations, each by the name of a check or of a class: the outcome, and a line a
/// check that came out otherwise or is unknown.
pub fn judge(checks: &[CheckResult], expect: &BTreeMap<String, Expect>) -> (Outcome, Vec<String>) {
    let mut r = Reasons::default();
    let coverage = checks.iter().find(|c| c.class == Class::Coverage);
    let lack = coverage
        .filter(|c| c.outcome != Outcome::Valid && expect.get(&c.name) != Some(&Expect::Any))
        .map(|c| format!("coverage: {}", c.note.as_deref().unwrap_or("lacking")));
    for c in checks.iter().filter(|c| c.class != Class::Coverage) {
        let by_name = expect.get(&c.name).copied();
        let by_class = expect.get(c.class.name()).copied();
        match (by_name, by_class) {
            (Some(Expect::Any), _) | (None, Some(Expect::Any | Expect::Violated)) => {}
            (Some(Expect::Violated), _) => violated(c, lack.is_some(), &mut r),
            (Some(Expect::Valid), _) => {
                valid(c, &mut r);
                if c.outcome == Outcome::Unknown {
                    r.unknown.push(line(c, "valid"));
                }
            }
            (None, Some(Expect::Valid) | None) => valid(c, &mut r),
        }
    }
    for (name, expected) in expect {
        class(name, *expected, checks, lack.is_some(), &mut r);
    }
    conclude(r, lack)
}

fn conclude(mut r: Reasons, lack: Option<String>) -> (Outcome, Vec<String>) {
    let only_met = r.met && !r.clean;
    let outcome = if !r.failed.is_empty() {
        Outcome::Violated
    } else if !r.unknown.is_empty() || (lack.is_some() && !only_met) {
        Outcome::Unknown
    } else {
        Outcome::Valid
    };
    let mut reasons = r.failed;
    reasons.append(&mut r.unknown);
    reasons.extend(lack);
    reasons.append(&mut r.remarks);
    (outcome, reasons)
}

/// A check of which nothing is expected to be found.
fn valid(c: &CheckResult, r: &mut Reasons) {
    match c.outcome {
        Outcome::Violated if c.all_excused() => r.unknown.push(stood_still(c)),
        Outcome::Violated => r.failed.push(line(c, "valid")),
        Outcome::Valid | Outcome::Unknown => {}
    }
}

fn stood_still(c: &CheckResult) -> String {
    format!(
        "{}: found {} times, each while the machine itself stood still",
        c.name, c.count
    )
}

/// A check that is expected to find something.
fn violated(c: &CheckResult, lacks_coverage: bool, r: &mut Reasons) {
    match c.outcome {
        Outcome::Violated if lacks_coverage && c.all_excused() => r.unknown.push(stood_still(c)),
        Outcome::Violated => r.met = true,
        Outcome::Valid if !lacks_coverage => r.failed.push(line(c, "violated")),
        Outcome::Valid | Outcome::Unknown => r.unknown.push(line(c, "violated")),
    }
}

/// What is expected of a name: whether its checks together satisfy it.
fn class(
    name: &str,
    expected: Expect,
    checks: &[CheckResult],
    lacks_coverage: bool,
    r: &mut Reasons,
) {
    if checks.iter().any(|c| c.name == name) {
        r.clean |= expected == Expect::Valid;
        return;
    }
    let mut of_class = checks.iter().filter(|c| c.class.name() == name).peekable();
    if of_class.peek().is_none() {
        r.unknown
            .push(format!("{name}: there is no such check or class"));
        return;
    }
    let of_class: Vec<&CheckResult> = of_class.collect();
    let any = |o: Outcome| of_class.iter().any(|c| c.outcome == o);
    match expected {
        Expect::Any => {}
        Expect::Valid => {
            r.clean = true;
            if !any(Outcome::Valid) && !any(Outcome::Violated) {
                r.unknown.push(format!(
                    "{name}: expected valid, but none of its checks could be judged"
                ));
            }
        }
        Expect::Violated if any(Outcome::Violated) => {
            let found = of_class.iter().filter(|c| c.outcome == Outcome::Violated);
            let (in_stalls, proper): (Vec<_>, Vec<_>) = found.partition(|c| c.all_excused());
            if lacks_coverage && proper.is_empty() {
                r.unknown.extend(in_stalls.into_iter().map(stood_still));
            } else {
                r.met = true;
            }
        }
        Expect::Violated => {
            let text = format!("{name}: expected violated, but none of its checks found anything");
            if lacks_coverage || !any(Outcome::Valid) {
                r.unknown.push(text);
            } else {
                r.failed.push(text);
            }
        }
    }
}

fn line(c: &CheckResult, expected: &str) -> String {
    let found = match c.outcome {
        Outcome::Valid => "found nothing".to_owned(),
        Outcome::Violated if c.count == 1 => "found 1 violation".to_owned(),
        Outcome::Violated => format!("found {} violations", c.count),
        Outcome::Unknown => format!("unknown: {}", c.note.as_deref().unwrap_or("no evidence")),
    };
    format!("{}: expected {expected}, {found}", c.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Outcome::{Unknown, Valid, Violated};

    fn check(name: &str, class: Class, outcome: Outcome) -> CheckResult {
        CheckResult {
            name: name.to_owned(),
            class,
            outcome,
            count: u64::from(outcome == Violated),
            incidents: 0,
            excused: 0,
            note: None,
            findings: Vec::new(),
        }
    }

    /// service, overrun, ownership, truthful, coverage.
    fn run(outcomes: [Outcome; 5], expect: &[(&str, Expect)]) -> Outcome {
        run_excused(outcomes, 0, expect)
    }

    fn run_excused(o: [Outcome; 5], excused: u64, expect: &[(&str, Expect)]) -> Outcome {
        let mut checks = vec![
            check("service", Class::Service, o[0]),
            check("overrun", Class::Overrun, o[1]),
            check("ownership", Class::Library, o[2]),
            check("truthful", Class::Library, o[3]),
            check("coverage", Class::Coverage, o[4]),
        ];
        checks[1].excused = excused;
        let expect = expect.iter().map(|(n, e)| ((*n).to_owned(), *e)).collect();
        judge(&checks, &expect).0
    }

    #[test]
    fn a_check_that_is_not_named_must_not_be_violated() {
        assert_eq!(run([Valid; 5], &[]), Valid);
        assert_eq!(run([Violated, Valid, Valid, Valid, Valid], &[]), Violated);
        assert_eq!(run([Valid, Valid, Unknown, Unknown, Valid], &[]), Valid);
    }

    #[test]
    fn expected_valid_needs_evidence() {
        let expect = [("ownership", Expect::Valid)];
        assert_eq!(run([Valid, Valid, Unknown, Valid, Valid], &expect), Unknown);
        let expect = [("library", Expect::Valid)];
        assert_eq!(run([Valid, Valid, Unknown, Valid, Valid], &expect), Valid);
        assert_eq!(
            run([Valid, Valid, Unknown, Unknown, Valid], &expect),
            Unknown
        );
        assert_eq!(
            run([Valid, Valid, Violated, Valid, Valid], &expect),
            Violated
        );
    }

    #[test]
    fn expected_violated() {
        let expect = [("service", Expect::Violated)];
        assert_eq!(run([Violated, Valid, Valid, Valid, Valid], &expect), Valid);
        assert_eq!(run([Valid; 5], &expect), Violated);
        assert_eq!(run([Unknown, Valid, Valid, Valid, Valid], &expect), Unknown);
        assert_eq!(
            run([Violated, Violated, Valid, Valid, Valid], &expect),
            Violated
        );
        let expect = [("library", Expect::Violated)];
        assert_eq!(run([Valid, Valid, Violated, Valid, Valid], &expect), Valid);
        assert_eq!(run([Valid; 5], &expect), Violated);
    }

    #[test]
    fn without_coverage_only_what_was_found_counts() {
        let expect = [("service", Expect::Violated)];
        assert_eq!(
            run([Violated, Valid, Valid, Valid, Unknown], &expect),
            Valid
        );
        assert_eq!(run([Valid, Valid, Valid, Valid, Unknown], &expect), Unknown);
        assert_eq!(run([Valid, Valid, Valid, Valid, Unknown], &[]), Unknown);
        assert_eq!(
            run([Valid, Violated, Valid, Valid, Unknown], &expect),
            Violated
        );
        let both = [("service", Expect::Violated), ("overrun", Expect::Valid)];
        assert_eq!(
            run([Violated, Valid, Valid, Valid, Unknown], &both),
            Unknown
        );
        let waived = [("coverage", Expect::Any)];
        assert_eq!(run([Valid, Valid, Valid, Valid, Unknown], &waived), Valid);
    }

    #[test]
    fn a_stall_excuses_an_overrun() {
        assert_eq!(
            run_excused([Valid, Violated, Valid, Valid, Valid], 1, &[]),
            Unknown
        );
        assert_eq!(
            run_excused([Violated, Violated, Valid, Valid, Valid], 1, &[]),
            Violated
        );
        let any = [("overrun", Expect::Any)];
        assert_eq!(
            run_excused([Valid, Violated, Valid, Valid, Valid], 1, &any),
            Valid
        );
    }

    #[test]
    fn without_coverage_what_a_stall_excuses_meets_no_expectation() {
        let expect = [("overrun", Expect::Violated)];
        let found = |coverage| [Valid, Violated, Valid, Valid, coverage];
        assert_eq!(run_excused(found(Valid), 1, &expect), Valid);
        assert_eq!(run_excused(found(Unknown), 0, &expect), Valid);
        assert_eq!(run_excused(found(Unknown), 1, &expect), Unknown);
    }

    #[test]
    fn an_unknown_name_is_said() {
        assert_eq!(run([Valid; 5], &[("servise", Expect::Valid)]), Unknown);
    }
}
