//! summary.md: what a pull request or a CI job page shows.
//!
//! Owns the Markdown. Must not know a terminal. Every text that came from outside is escaped by `sanitise`, so that
//! nothing in it becomes markup, a link, a mention, or the end of a table.
use super::files::Rendered;
use super::glyphs::legend;
use super::sanitise::{code, fence, guard_lines, markdown};
use super::summary::{Judgement, Summary};
use super::tables::{self, Table};
use super::terminal::{finding_head, finding_more};
use super::timeline;
use super::{Renderer, ReportError};
use fencepost_checker::CheckResult;
use std::fmt::Write as _;

/// Columns of a drawing: what GitHub shows without a scroll bar.
const WIDTH: usize = 96;

/// The renderer.
#[derive(Debug, Clone, Copy)]
pub struct Markdown;

impl Renderer for Markdown {
    fn render(&self, summary: &Summary) -> Result<Vec<Rendered>, ReportError> {
        let mut out = String::new();
        one(&mut out, summary);
        Ok(vec![Rendered::new("summary.md", guard_lines(&out))])
    }
}

/// Several runs: the comparison, then one example a violated check and run set-up, then where the rest is.
pub fn several(runs: &[Summary]) -> String {
    let mut out = String::new();
    for s in tables::headlines(runs) {
        heading(&mut out, s);
        reasons(&mut out, s);
    }
    for line in tables::tally(runs) {
        let _ = writeln!(out, "* {}", markdown(&line));
    }
    out.push('\n');
    if runs.len() <= tables::SIDE_BY_SIDE {
        table(&mut out, &tables::comparison(runs));
    } else {
        table(&mut out, &tables::runs(runs));
    }
    let mut done: Vec<(&str, &str)> = Vec::new();
    for s in runs {
        let mut named = false;
        for (check, _) in s.violated() {
            let what = (s.setup.workload.as_str(), check.name.as_str());
            if !done.contains(&what) {
                done.push(what);
                if !named {
                    let name = code(&s.setup.workload);
                    let _ = writeln!(out, "### {name}, seed {}\n", s.setup.seed);
                }
                named = true;
                example(&mut out, s, check);
            }
        }
    }
    out.push_str("Results:\n\n");
    for s in runs {
        let _ = writeln!(out, "* {}", code(&s.dir.display().to_string()));
    }
    guard_lines(&out)
}

fn one(out: &mut String, s: &Summary) {
    heading(out, s);
    let _ = writeln!(out, "{}\n", markdown(&tables::setup(s)));
    if !s.setup.about.is_empty() {
        let _ = writeln!(out, "{}\n", markdown(&s.setup.about));
    }
    reasons(out, s);
    for (check, _) in s.violated() {
        example(out, s, check);
    }
    out.push_str("### Checks\n\n");
    table(out, &tables::checks(s));
    out.push_str("<details><summary>Figures</summary>\n\n");
    for t in [tables::operations(s), tables::latency(s), tables::faults(s)] {
        table(out, &t);
    }
    for note in tables::latency_notes(s) {
        let _ = writeln!(out, "{}\n", markdown(&note));
    }
    for (name, value) in tables::numbers(s) {
        let _ = writeln!(out, "* {}: {}", markdown(&name), markdown(&value));
    }
    for (what, version) in &s.setup.versions {
        let _ = writeln!(out, "* version of {}: {}", markdown(what), code(version));
    }
    let _ = writeln!(
        out,
        "\n</details>\n\nResults: {}",
        code(&s.dir.display().to_string())
    );
}

fn reasons(out: &mut String, s: &Summary) {
    for reason in &s.verdict.reasons {
        let _ = writeln!(out, "* {}", markdown(reason));
    }
    if !s.verdict.reasons.is_empty() {
        out.push('\n');
    }
}

fn heading(out: &mut String, s: &Summary) {
    let word = match tables::run_judgement(s) {
        Judgement::Expected | Judgement::Skipped => "✅ as expected",
        Judgement::Unexpected => "❌ not as expected",
        Judgement::Unknown => "❔ unknown",
    };
    let _ = writeln!(
        out,
        "## {word}: {}, seed {}\n",
        code(&s.setup.workload),
        s.setup.seed
    );
}

fn example(out: &mut String, s: &Summary, check: &CheckResult) {
    let Some((_, judged)) = s.checks().find(|(c, _)| c.name == check.name) else {
        return;
    };
    let _ = writeln!(out, "**{}**\n", markdown(&finding_head(check, judged)));
    let Some(finding) = check.findings.first() else {
        return;
    };
    let _ = writeln!(out, "{}\n", markdown(&finding.sentence));
    let _ = writeln!(out, "{}\n", markdown(&finding_more(finding)));
    let mut block = String::new();
    for line in timeline::draw(finding, &s.faults, WIDTH, true) {
        let line: String = line.into_iter().map(|(_, text)| text).collect();
        let _ = writeln!(block, "{}", line.trim_end());
    }
    let _ = writeln!(block, "\n{}", legend(true).join("\n"));
    let _ = writeln!(out, "{}", fence(&block));
}

/// A table, with a blank line behind it; nothing where there are no rows.
pub(super) fn table(out: &mut String, t: &Table) {
    if t.rows.is_empty() {
        return;
    }
    let head: Vec<String> = t.head.iter().map(|h| markdown(h)).collect();
    let _ = writeln!(out, "| {} |", head.join(" | "));
    let rule = (0..t.head.len()).map(|n| if t.is_figure(n) { "--:" } else { "---" });
    let _ = writeln!(out, "| {} |", rule.collect::<Vec<_>>().join(" | "));
    for row in &t.rows {
        let cells: Vec<String> = row.iter().map(|c| markdown(c)).collect();
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    out.push('\n');
}
