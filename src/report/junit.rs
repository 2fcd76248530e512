//! junit.xml: a test case for each check, for every CI service.
//!
//! Owns the mapping. Must not know a CI service. A run is a test suite, a check a test case:
//!
//! | judgement | `JUnit` |
//! |---|---|
//! | as expected | passed (a violation that was asked for too) |
//! | not as expected, in either direction | failure, with the first finding and its drawing |
//! | asked for, but the history does not hold enough | error: neither a pass nor a proof |
//! | not asked for, and nothing can be said | skipped, with the reason |
//!
//! Should the verdict be worse than all of its checks (a reason that belongs to none), a last case `verdict` says so,
//! so that a file never passes where the run did not.
use super::files::Rendered;
use super::glyphs::legend;
use super::sanitise::{visible, xml};
use super::suite::Suite;
use super::summary::{Judged, Judgement, Summary};
use super::terminal::{finding_head, finding_more};
use super::{Renderer, ReportError, tables, timeline};
use fencepost_checker::{CheckResult, Expect, Outcome};
use quick_junit::{NonSuccessKind, Property, Report, TestCase, TestCaseStatus, TestSuite};
use std::time::Duration;

/// The renderer.
#[derive(Debug, Clone, Copy)]
pub struct Junit;

impl Renderer for Junit {
    fn render(&self, summary: &Summary) -> Result<Vec<Rendered>, ReportError> {
        let text = several(std::slice::from_ref(summary))?;
        Ok(vec![Rendered::new("junit.xml", text)])
    }
}

/// All runs in one file, a suite a run.
///
/// # Errors
/// When the XML cannot be written.
pub fn several(runs: &[Summary]) -> Result<String, ReportError> {
    campaign(runs, &Suite::default())
}

/// All runs in one file, and what keeps the campaign from being whole, each as an error: runs that could not be made or
/// whose results are lost, shards that are not there, an early end.
///
/// # Errors
/// As [`several`].
pub fn campaign(runs: &[Summary], of: &Suite) -> Result<String, ReportError> {
    let mut report = Report::new("fencepost");
    for s in runs {
        report.add_test_suite(suite(s, &title(s)));
    }
    for shard in of.missing() {
        let name = format!("shard {shard} of {}", of.of);
        report.add_test_suite(error(
            &name,
            ("shard", "no-result"),
            &name,
            "no results of it",
        ));
    }
    if let Some(why) = &of.cut {
        let made = format!("{} of {} runs made: {why}", of.runs.len(), of.planned);
        report.add_test_suite(error("the campaign", ("end", "cut"), "campaign", &made));
    }
    for n in &of.not_run {
        let name = format!("{} seed {}", n.workload, n.seed);
        report.add_test_suite(error(&name, ("run", "not-run"), &n.workload, &n.why));
    }
    for l in &of.lost {
        report.add_test_suite(error(&l.what, ("run", "no-result"), &l.what, &l.why));
    }
    Ok(plain(&report.to_string()?))
}

/// A history that was to be judged (`check`).
#[derive(Debug, Clone, Copy)]
pub struct Checked<'a> {
    /// Its file, as it was given.
    pub file: &'a str,
    /// Its summary, or why there is none.
    pub outcome: Result<&'a Summary, &'a str>,
}

/// All histories in one file, in their order, each a suite with its file's name; one that could not be read is an error.
///
/// # Errors
/// As [`several`].
pub fn checked<'a>(all: impl Iterator<Item = Checked<'a>>) -> Result<String, ReportError> {
    let mut report = Report::new("fencepost");
    for Checked { file, outcome } in all {
        report.add_test_suite(match outcome {
            Ok(s) => suite(s, &format!("{file}: {}", title(s))),
            Err(why) => error(file, ("history", "not-read"), file, why),
        });
    }
    Ok(plain(&report.to_string()?))
}

/// A suite that holds an error alone: its case and type, its class, and why.
fn error(name: &str, (case, kind): (&str, &str), class: &str, why: &str) -> TestSuite {
    let mut suite = TestSuite::new(text(name));
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
    status.set_type(kind);
    status.set_message(text(why));
    let mut case = TestCase::new(case, status);
    case.set_classname(text(class));
    suite.add_test_case(case);
    suite
}

fn title(s: &Summary) -> String {
    format!("{} seed {}", s.setup.workload, s.setup.seed)
}

/// The writer counts what is skipped as `disabled`, an attribute of older tools that the schema of Jenkins' xUnit plugin
/// refuses: a suite's says `skipped`, the root's goes. In a tag no text holds a bare quote, so it can be found as it is.
fn plain(xml: &str) -> String {
    let mut out = String::with_capacity(xml.len());
    for line in xml.split_inclusive('\n') {
        let tag = line.trim_start();
        let with = if tag.starts_with("<testsuites ") {
            Some("")
        } else if tag.starts_with("<testsuite ") {
            Some(" skipped=\"")
        } else {
            None
        };
        let found = with.and_then(|with| {
            let at = line.find(" disabled=\"")?;
            let end = at + " disabled=\"".len();
            let close = end + line[end..].find('"')?;
            Some((with, at, end, close))
        });
        match found {
            Some(("", at, _, close)) => {
                out.push_str(&line[..at]);
                out.push_str(&line[close + 1..]);
            }
            Some((with, at, end, _)) => {
                out.push_str(&line[..at]);
                out.push_str(with);
                out.push_str(&line[end..]);
            }
            None => out.push_str(line),
        }
    }
    out
}

fn suite(s: &Summary, name: &str) -> TestSuite {
    let mut suite = TestSuite::new(text(name));
    suite.set_time(Duration::from_nanos(s.history.end));
    for (name, value) in [
        ("seed", s.setup.seed.to_string()),
        ("setup", tables::setup(s)),
        ("results", s.dir.display().to_string()),
    ] {
        suite.add_property(Property::new(name, text(&value)));
    }
    for (name, value) in tables::numbers(s) {
        suite.add_property(Property::new(text(&name), text(&value)));
    }
    for assumed in &s.verdict.reading {
        suite.add_property(Property::new("reading", text(assumed)));
    }
    for (check, judged) in s.checks() {
        suite.add_test_case(case(s, check, judged));
    }
    let worst = |j: Judgement| s.judged.iter().any(|c| c.judgement == j);
    let kind = match s.verdict.outcome {
        Outcome::Violated if !worst(Judgement::Unexpected) => Some(NonSuccessKind::Failure),
        Outcome::Unknown if !worst(Judgement::Unknown) && !worst(Judgement::Unexpected) => {
            Some(NonSuccessKind::Error)
        }
        _ => None,
    };
    if let Some(kind) = kind {
        let mut status = TestCaseStatus::non_success(kind);
        status.set_message(text(&s.verdict.reasons.join("; ")));
        let mut case = TestCase::new("verdict", status);
        case.set_classname(text(&s.setup.workload));
        suite.add_test_case(case);
    }
    suite
}

fn case(s: &Summary, check: &CheckResult, judged: &Judged) -> TestCase {
    let status = match judged.judgement {
        Judgement::Expected => TestCaseStatus::success(),
        Judgement::Unexpected => {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            status.set_type("not-as-expected");
            status.set_message(text(&unexpected(check, judged)));
            status.set_description(description(s, check, judged));
            status
        }
        Judgement::Unknown => {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
            status.set_type("unknown");
            status.set_message(text(&format!("unknown: {}", note(check))));
            status
        }
        Judgement::Skipped => {
            let mut status = TestCaseStatus::skipped();
            status.set_message(text(&format!(
                "unknown, and not asked for: {}",
                note(check)
            )));
            status
        }
    };
    let mut case = TestCase::new(text(&check.name), status);
    let class = format!("{}.{}", s.setup.workload, check.class.name());
    case.set_classname(text(&class));
    if judged.judgement == Judgement::Expected && check.outcome == Outcome::Violated {
        case.set_system_out(description(s, check, judged));
    }
    case
}

fn unexpected(check: &CheckResult, judged: &Judged) -> String {
    match (check.outcome, judged.expect) {
        (Outcome::Violated, _) => check.findings.first().map_or_else(
            || format!("violated {}", tables::plural(check.count, "time")),
            |f| f.sentence.clone(),
        ),
        (_, Some(Expect::Violated)) => {
            String::from("expected to be violated, but nothing was found")
        }
        (outcome, _) => tables::outcome(outcome).to_owned(),
    }
}

fn note(check: &CheckResult) -> &str {
    check
        .note
        .as_deref()
        .unwrap_or("the history does not hold enough")
}

/// The head, the sentence and the drawing, in lines.
fn description(s: &Summary, check: &CheckResult, judged: &Judged) -> String {
    let mut lines = vec![finding_head(check, judged)];
    if let Some(finding) = check.findings.first() {
        lines.push(visible(&finding.sentence).into_owned());
        lines.push(visible(&finding_more(finding)).into_owned());
        for line in timeline::draw(finding, &s.faults, 96, true) {
            let line: String = line.into_iter().map(|(_, text)| text).collect();
            lines.push(line.trim_end().to_owned());
        }
        lines.extend(legend(true));
    }
    xml(&lines.join("\n"))
}

/// One line for XML.
fn text(text: &str) -> String {
    xml(&visible(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn a_suite_tells_its_grants_and_those_judged_once_each() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut verdict = fixture::verdict(true);
        verdict.counts.insert("grants".into(), 3);
        fixture::folder(dir.path(), "", &fixture::plain_del().text(), &verdict);
        let s = crate::report::summarise(dir.path()).expect("a summary");
        let xml = several(std::slice::from_ref(&s)).expect("XML");
        for name in ["grants", "grants judged"] {
            let property = format!(r#"<property name="{name}""#);
            assert_eq!(xml.matches(&property).count(), 1, "{name}: {xml}");
        }
    }
}
