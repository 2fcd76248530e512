//! index.html of a campaign: one page without network that leads to each run's own.
//!
//! Owns which part stands where, and the links, which are relative so that the results can be moved and sent. Must not
//! know how a figure is made.
use super::{Suite, groups, headline, matrix};
use crate::report::ReportError;
use crate::report::html::{Grid, STYLE, class, headline as headline_of, style_policy};
use crate::report::sanitise::visible;
use crate::report::tables::{self, sign};
use askama::Template;
use std::path::{Component, Path, PathBuf};

#[derive(Template)]
#[template(path = "suite.html")]
struct Page {
    policy: String,
    style: &'static str,
    class: &'static str,
    sign: &'static str,
    judgement: &'static str,
    headline: String,
    lacks: Vec<String>,
    matrix: Grid,
    workloads: Vec<Workload>,
}

/// One workload with its runs.
struct Workload {
    name: String,
    about: String,
    runs: Vec<Link>,
}

/// One run.
struct Link {
    sign: &'static str,
    class: &'static str,
    href: String,
    text: String,
}

pub(super) fn page(suite: &Suite, dir: &Path) -> Result<String, ReportError> {
    let outcome = super::judgement(suite.outcome());
    let page = Page {
        policy: style_policy(),
        style: STYLE,
        class: class(outcome),
        sign: sign(outcome),
        judgement: headline_of(outcome),
        headline: headline(suite),
        lacks: suite
            .lacks()
            .iter()
            .map(|l| visible(l).into_owned())
            .collect(),
        matrix: Grid::of(&matrix(suite), "Workloads and what was found"),
        workloads: groups(suite)
            .iter()
            .map(|g| Workload {
                name: visible(&g.runs[0].workload).into_owned(),
                about: visible(&g.runs[0].about).into_owned(),
                runs: g.runs.iter().map(|r| link(r, dir)).collect(),
            })
            .collect(),
    };
    page.render().map_err(|e| ReportError::Io {
        path: dir.join("index.html"),
        source: std::io::Error::other(e),
    })
}

fn link(run: &super::Run, dir: &Path) -> Link {
    let found: Vec<&str> = run
        .checks
        .iter()
        .filter(|c| c.outcome == fencepost_checker::Outcome::Violated)
        .map(|c| c.name.as_str())
        .collect();
    let found = if found.is_empty() {
        "nothing found".to_owned()
    } else {
        found.join(", ")
    };
    let judgement = run.judgement();
    let text = format!(
        "seed {}: {}; {found}",
        run.seed,
        tables::judgement(judgement)
    );
    Link {
        sign: sign(judgement),
        class: class(judgement),
        href: href(dir, &run.dir.join("report.html")),
        text: visible(&text).into_owned(),
    }
}

/// The way from a folder to a file as a relative reference (RFC 3986): `../../plain-del/…/report.html`.
pub fn href(from: &Path, to: &Path) -> String {
    let absolute = |p: &Path| std::path::absolute(p).unwrap_or_else(|_| p.to_owned());
    let (from, to) = (absolute(from), absolute(to));
    let parts = |p: &PathBuf| -> Vec<String> {
        p.components()
            .filter(|c| !matches!(c, Component::CurDir))
            .map(|c| c.as_os_str().to_string_lossy().into_owned())
            .collect()
    };
    let (from, to) = (parts(&from), parts(&to));
    let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let up = std::iter::repeat_n("..".to_owned(), from.len() - common);
    let down = to[common..].iter().map(|part| percent(part.as_bytes()));
    up.chain(down).collect::<Vec<_>>().join("/")
}

/// Percent-encoding of one segment of a path, or of a value in a query.
pub fn percent(segment: &[u8]) -> String {
    let mut out = String::new();
    for &byte in segment {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = std::fmt::Write::write_fmt(&mut out, format_args!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::href;
    use std::path::Path;

    #[test]
    fn links_are_relative_and_encoded() {
        let from = Path::new("/r/campaigns/1");
        assert_eq!(
            href(from, Path::new("/r/a/b/report.html")),
            "../../a/b/report.html"
        );
        assert_eq!(href(from, Path::new("/r/campaigns/1/x")), "x");
        assert_eq!(
            href(from, Path::new("/r/a \"b/%/x")),
            "../../a%20%22b/%25/x"
        );
        assert_eq!(
            href(from, Path::new("/r/javascript:x/y")),
            "../../javascript%3Ax/y"
        );
    }
}
