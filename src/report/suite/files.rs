//! A suite as files and on a terminal.
//!
//! Owns which files a campaign's folder holds, and the two plain formats. Must not know what the figures are.
use super::{Suite, groups, headline, matrix, overview, page};
use crate::report::files::Rendered;
use crate::report::sanitise::{self, code, guard_lines};
use crate::report::summary::Summary;
use crate::report::terminal::{Style, sheet, word as word_of};
use crate::report::{ReportError, files, junit, markdown as md};
use fencepost_checker::Outcome;
use std::fmt::Write as _;
use std::path::Path;

/// Workloads that are told about in detail in summary.md; a pull request shows no more than 64 KiB.
const DETAILS_MAX: usize = 20;

/// Writes suite.json, summary.md, junit.xml and index.html. `summaries` are those of `suite.runs`; they may be slim.
///
/// # Errors
/// The first file that cannot be made or written.
pub fn render(suite: &Suite, summaries: &[Summary], dir: &Path) -> Result<(), ReportError> {
    let json = serde_json::to_string_pretty(suite).map_err(|e| ReportError::Io {
        path: dir.join("suite.json"),
        source: e.into(),
    })?;
    for file in [
        Rendered::new("suite.json", json),
        Rendered::new("summary.md", summary_md(suite)),
        Rendered::new("junit.xml", junit::campaign(summaries, suite)?),
        Rendered::new("index.html", page::page(suite, dir)?),
    ] {
        files::write(dir, &file)?;
    }
    Ok(())
}

fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Valid => "✅ as expected",
        Outcome::Violated => "❌ not as expected",
        Outcome::Unknown => "❔ unknown",
    }
}

fn summary_md(suite: &Suite) -> String {
    let mut out = format!("## {}\n\n", word(suite.outcome()));
    let _ = writeln!(out, "{}\n", sanitise::markdown(&headline(suite)));
    for line in suite.lacks() {
        let _ = writeln!(out, "* {}", sanitise::markdown(&line));
    }
    out.push('\n');
    md::table(&mut out, &overview(suite));
    let bad: Vec<_> = groups(suite)
        .into_iter()
        .filter(|g| g.outcome() != Outcome::Valid)
        .collect();
    for g in bad.iter().take(DETAILS_MAX) {
        let run = g.example();
        let _ = writeln!(out, "### {}, seed {}\n", code(&run.workload), run.seed);
        for reason in &run.reasons {
            let _ = writeln!(out, "* {}", sanitise::markdown(reason));
        }
        let _ = writeln!(out, "\nResults: {}\n", code(&run.dir.display().to_string()));
    }
    if bad.len() > DETAILS_MAX {
        let _ = writeln!(out, "And {} workloads more.", bad.len() - DETAILS_MAX);
    }
    guard_lines(&out)
}

/// The table with shares, rates and intervals alone.
pub fn markdown(suite: &Suite) -> String {
    let mut out = format!("{}\n\n", sanitise::markdown(&headline(suite)));
    for line in suite.lacks() {
        let _ = writeln!(out, "* {}", sanitise::markdown(&line));
    }
    out.push('\n');
    md::table(&mut out, &matrix(suite));
    out.push_str("Workloads:\n\n");
    for g in groups(suite) {
        let run = g.example();
        let name = code(&run.workload);
        let about = sanitise::markdown(&run.about);
        // A relative path of plain characters alone becomes a link: from docs/ to the tree's root.
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
        let file = run.file.as_ref().map(|f| f.display().to_string());
        match file.filter(|f| !f.starts_with('/') && !f.contains("..") && f.chars().all(plain)) {
            Some(file) => {
                let _ = writeln!(out, "* [{name}](../{file}): {about}");
            }
            None => {
                let _ = writeln!(out, "* {name}: {about}");
            }
        }
    }
    guard_lines(&out)
}

/// The suite on a terminal: how it came out, what is not as expected and why, a row a workload.
pub fn terminal(suite: &Suite, style: Style) -> String {
    let mut lines = suite.lacks();
    for g in groups(suite) {
        if g.outcome() != Outcome::Valid {
            let run = g.example();
            let reasons = run.reasons.join("; ");
            lines.push(format!("{}, seed {}: {reasons}", run.workload, run.seed));
        }
    }
    let judgement = super::judgement(suite.outcome());
    sheet(
        judgement,
        word_of(judgement),
        &headline(suite),
        &lines,
        &[("", overview(suite))],
        style,
    )
}
