//! A comparison as files and on a terminal.
//!
//! Owns which files a campaign's folder holds, and the plain formats. Must not know what the figures are.
use super::figures::{FIGURES, Finding, checks_found};
use super::tests::tests;
use super::{Comparison, page, tables};
use crate::report::files::Rendered;
use crate::report::sanitise::{self, guard_lines};
use crate::report::summary::Judgement;
use crate::report::terminal::{Style, sheet};
use crate::report::{ReportError, files, markdown as md};
use std::fmt::Write as _;
use std::path::Path;

/// Writes compare.json, compare.csv, summary.md and index.html.
///
/// # Errors
/// The first file that cannot be made or written.
pub fn render(c: &Comparison, dir: &Path) -> Result<(), ReportError> {
    let json = serde_json::to_string_pretty(c).map_err(|e| ReportError::Io {
        path: dir.join("compare.json"),
        source: e.into(),
    })?;
    for file in [
        Rendered::new("compare.json", json),
        Rendered::new("compare.csv", csv(c)),
        Rendered::new("summary.md", markdown(c)),
        Rendered::new("index.html", page::page(c, dir)?),
    ] {
        files::write(dir, &file)?;
    }
    Ok(())
}

/// The tables as Markdown.
pub fn markdown(c: &Comparison) -> String {
    let mut out = format!(
        "## {}{}\n\n",
        sanitise::markdown(&c.name),
        c.exposure.heading()
    );
    for line in c.lacks() {
        let _ = writeln!(out, "* {}", sanitise::markdown(&line));
    }
    out.push('\n');
    for (title, table) in tables::all(c) {
        if !table.rows.is_empty() {
            let _ = writeln!(out, "**{}**\n", sanitise::markdown(title));
            md::table(&mut out, &table);
        }
    }
    for note in tables::notes(c) {
        let _ = writeln!(out, "* {}", sanitise::markdown(&note));
    }
    guard_lines(&out)
}

/// The tables on a terminal.
pub fn terminal(c: &Comparison, style: Style) -> String {
    let judgement = if c.whole() {
        Judgement::Skipped
    } else {
        Judgement::Unknown
    };
    let mut lines = c.lacks();
    lines.extend(tables::notes(c));
    sheet(
        judgement,
        "MEASURED",
        &c.name,
        &lines,
        &tables::all(c),
        style,
    )
}

/// Every figure on a line of its own, for a spreadsheet: exposure, system, measure, value and its 95 % interval, and
/// whether the value is only a lower bound.
pub fn csv(c: &Comparison) -> String {
    let mut out = String::from("exposure,system,measure,value,low,high,episodes,at_least\n");
    let exposure = match c.exposure {
        super::Exposure::AsStated => "as-stated",
        super::Exposure::PerNode => "per-node",
        super::Exposure::PerCluster => "per-cluster",
    };
    let mut line = |system: &str, measure: &str, value: [Option<f64>; 3], n: u64, least: bool| {
        let cells = value.map(|v| v.map_or_else(String::new, |v| v.to_string()));
        let (system, measure) = (sanitise::csv(system), sanitise::csv(measure));
        let _ = writeln!(
            out,
            "{exposure},{system},{measure},{},{n},{least}",
            cells.join(",")
        );
    };
    for s in &c.systems {
        let n = s.episodes.len() as u64;
        for check in checks_found(c) {
            let f = Finding::of(s, &check);
            if f.judged > 0 {
                let (i, share) = (f.share(), f.episodes as f64 / f.judged as f64);
                let name = format!("{check}: share of episodes");
                line(
                    &s.label,
                    &name,
                    [Some(share), Some(i.low), Some(i.high)],
                    f.judged,
                    false,
                );
            }
            if let Some(v) = f.rate() {
                let (low, high) = (v.interval.map(|i| i.low), v.interval.map(|i| i.high));
                let name = format!("{check}: incidents per million grants");
                line(&s.label, &name, [Some(v.value), low, high], f.judged, false);
            }
        }
        for figure in FIGURES {
            if let Some(v) = figure.value(s) {
                let (low, high) = (v.interval.map(|i| i.low), v.interval.map(|i| i.high));
                line(
                    &s.label,
                    figure.name,
                    [Some(v.value), low, high],
                    n,
                    v.at_least,
                );
            }
        }
        for w in &s.latency {
            for (name, f) in [
                ("p50", w.figures.p50),
                ("p99", w.figures.p99),
                ("p99.9", w.figures.p999),
                ("max", w.figures.max),
            ] {
                let name = format!("wait {} a fault: {name}, ms", w.phase.name());
                line(&s.label, &name, [Some(f.ms), None, None], n, f.at_least);
            }
        }
    }
    for t in tests(c) {
        let name = format!(
            "{}: corrected p against {} ({})",
            t.measure, c.systems[0].label, t.kind
        );
        line(
            &t.system,
            &name,
            [Some(t.corrected), None, None],
            t.pairs,
            false,
        );
    }
    out
}
