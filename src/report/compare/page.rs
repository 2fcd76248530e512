//! index.html of a comparison: one page without network, with links to every run.
//!
//! Owns which part stands where. Must not know how a figure is made.
use super::{Comparison, tables};
use crate::report::ReportError;
use crate::report::html::{Grid, STYLE, style_policy};
use crate::report::sanitise::visible;
use crate::report::suite::href;
use askama::Template;
use std::path::Path;

#[derive(Template)]
#[template(path = "compare.html")]
struct Page {
    policy: String,
    style: &'static str,
    name: String,
    lacks: Vec<String>,
    notes: Vec<String>,
    parts: Vec<(&'static str, Grid)>,
    systems: Vec<Runs>,
}

/// The runs of one system.
struct Runs {
    label: String,
    runs: Vec<(String, String)>,
}

pub(super) fn page(c: &Comparison, dir: &Path) -> Result<String, ReportError> {
    let safe = |lines: Vec<String>| lines.iter().map(|l| visible(l).into_owned()).collect();
    let runs = |s: &super::System| Runs {
        label: visible(&s.label).into_owned(),
        runs: s
            .episodes
            .iter()
            .map(|e| {
                let found = e.checks.iter().filter(|(_, f)| f.violated == Some(true));
                let found: Vec<&str> = found.map(|(name, _)| name.as_str()).collect();
                let found = if found.is_empty() {
                    "nothing found".to_owned()
                } else {
                    visible(&found.join(", ")).into_owned()
                };
                (
                    href(dir, &e.dir.join("report.html")),
                    format!("seed {}: {found}", e.seed),
                )
            })
            .collect(),
    };
    let page = Page {
        policy: style_policy(),
        style: STYLE,
        name: visible(&c.name).into_owned(),
        lacks: safe(c.lacks()),
        notes: safe(tables::notes(c)),
        parts: tables::all(c)
            .into_iter()
            .filter(|(_, t)| !t.rows.is_empty())
            .map(|(title, t)| (title, Grid::of(&t, title)))
            .collect(),
        systems: c.systems.iter().map(runs).collect(),
    };
    page.render().map_err(|e| ReportError::Io {
        path: dir.join("index.html"),
        source: std::io::Error::other(e),
    })
}
