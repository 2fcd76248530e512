//! The pages of `fencepost serve`: the list of runs with its filters, and what lies in one folder.
//!
//! Owns [`Row`], [`Query`] and which part stands where. Must not know how files are read or sent. The pages work
//! without JavaScript: the filters are a plain form.
use super::ReportError;
use super::html::{STYLE, class, headline, served_policy, style_policy};
use super::sanitise::visible;
use super::suite::percent;
use super::summary::Judgement;
use super::tables::{plural, sign};
use askama::Template;
use std::path::{Path, PathBuf};

/// Rows on one page of the list.
const PAGE: usize = 100;

/// How far a run is, and how it came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It has a verdict.
    Judged(Judgement),
    /// There is no verdict: the run is under way, or was cut; the text says what is known.
    Unfinished(String),
    /// What lies there cannot be read; the text says why.
    Unreadable(String),
    /// A campaign, whose runs are rows of their own.
    Several,
}

/// One run, or one campaign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its folder, below the results folder.
    pub dir: PathBuf,
    /// The workload with its variant after a slash; none: a campaign.
    pub workload: Option<String>,
    /// The seed, where one is known.
    pub seed: Option<u64>,
    /// When it began, as `2026-11-30 08:22:01`; UTC.
    pub date: String,
    /// How it came out.
    pub state: State,
    /// The lock under test.
    pub lock: String,
    /// What the workload shows.
    pub about: String,
    /// The checks that were violated, and the kinds of its faults: words to search for.
    pub violated: Vec<String>,
    /// Kinds of its faults.
    pub faults: Vec<String>,
    /// Its own page is there.
    pub has_page: bool,
}

/// What the list is asked for; empty fields ask for nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// Words that must all occur, in either case.
    pub text: String,
    /// `expected`, `unexpected`, `unknown`, `unfinished`, `unreadable` or `several`.
    pub verdict: String,
    /// Exactly this workload.
    pub workload: String,
    /// Exactly this seed.
    pub seed: String,
    /// The page, from 1.
    pub page: usize,
}

/// A file or folder beside the page of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name, in bytes as the system has it.
    pub name: Vec<u8>,
    /// It is a folder.
    pub folder: bool,
    /// Its size in bytes.
    pub bytes: u64,
}

/// The verdicts that can be asked for, with their words.
const VERDICTS: &[(&str, &str)] = &[
    ("expected", "as expected"),
    ("unexpected", "not as expected"),
    ("unknown", "unknown"),
    ("unfinished", "unfinished"),
    ("unreadable", "unreadable"),
    ("several", "several runs together"),
];

impl State {
    /// Its name in a query.
    pub fn key(&self) -> &'static str {
        match self {
            Self::Judged(Judgement::Expected | Judgement::Skipped) => "expected",
            Self::Judged(Judgement::Unexpected) => "unexpected",
            Self::Judged(Judgement::Unknown) => "unknown",
            Self::Unfinished(_) => "unfinished",
            Self::Unreadable(_) => "unreadable",
            Self::Several => "several",
        }
    }

    fn class(&self) -> &'static str {
        match self {
            Self::Judged(judgement) => class(*judgement),
            Self::Unfinished(_) | Self::Unreadable(_) => "unsure",
            Self::Several => "none",
        }
    }

    fn words(&self) -> String {
        match self {
            Self::Judged(judgement) => format!("{} {}", sign(*judgement), headline(*judgement)),
            Self::Unfinished(why) => format!("… Unfinished: {why}"),
            Self::Unreadable(why) => format!("? Unreadable: {why}"),
            Self::Several => "Several runs".to_owned(),
        }
    }
}

impl Query {
    /// Whether a row is asked for.
    pub fn wants(&self, row: &Row) -> bool {
        let is = |wanted: &str, value: &str| wanted.is_empty() || wanted == value;
        let seed = row.seed.map_or_else(String::new, |s| s.to_string());
        if !is(&self.verdict, row.state.key())
            || !is(&self.seed, &seed)
            || !is(&self.workload, row.workload.as_deref().unwrap_or_default())
        {
            return false;
        }
        if self.text.trim().is_empty() {
            return true;
        }
        let mut all = row.dir.to_string_lossy().into_owned();
        let words = [&row.lock, &row.about, &row.date, &seed];
        let more = row.violated.iter().chain(&row.faults).chain(&row.workload);
        for part in words.into_iter().chain(more) {
            all.push('\n');
            all.push_str(part);
        }
        let all = all.to_lowercase();
        let mut wanted = self.text.split_whitespace().map(str::to_lowercase);
        wanted.all(|word| all.contains(&word))
    }

    /// The same query for another page, as the part of an address after `?`.
    fn address(&self, page: usize) -> String {
        let pairs = [
            ("q", self.text.as_str()),
            ("verdict", &self.verdict),
            ("workload", &self.workload),
            ("seed", &self.seed),
        ];
        let mut out = format!("page={page}");
        for (name, value) in pairs.into_iter().filter(|(_, v)| !v.is_empty()) {
            out = format!("{out}&{name}={}", percent(value.as_bytes()));
        }
        out
    }
}

#[derive(Template)]
#[template(path = "runs.html")]
struct List {
    policy: String,
    style: &'static str,
    root: String,
    text: String,
    seed: String,
    verdicts: Vec<(&'static str, &'static str, bool)>,
    workloads: Vec<(String, bool)>,
    told: String,
    notes: Vec<String>,
    rows: Vec<Line>,
    before: Option<String>,
    after: Option<String>,
}

/// One row of the table.
struct Line {
    class: &'static str,
    state: String,
    href: String,
    folder: String,
    name: String,
    seed: String,
    date: String,
    lock: String,
    violated: String,
}

/// The list of runs, newest first as they are given; `notes` say what the list lacks.
///
/// # Errors
/// When the page cannot be made.
pub fn list(
    root: &Path,
    rows: &[Row],
    query: &Query,
    notes: &[String],
) -> Result<String, ReportError> {
    let found: Vec<&Row> = rows.iter().filter(|row| query.wants(row)).collect();
    let pages = found.len().div_ceil(PAGE).max(1);
    let page = query.page.clamp(1, pages);
    let from = (page - 1) * PAGE;
    let shown = &found[from..found.len().min(from + PAGE)];
    let told = match (found.len(), shown.len()) {
        (0, _) if rows.is_empty() => "No runs yet.".to_owned(),
        (0, _) => format!("None of {} is like that.", plural(rows.len() as u64, "run")),
        (all, n) if all == n => format!("{} of {}.", plural(all as u64, "run"), rows.len()),
        (all, n) => format!(
            "{} to {} of {} that are like that.",
            from + 1,
            from + n,
            plural(all as u64, "run")
        ),
    };
    let mut workloads: Vec<&str> = rows.iter().filter_map(|r| r.workload.as_deref()).collect();
    workloads.sort_unstable();
    workloads.dedup();
    let shown_name = |name: &str| visible(name).into_owned();
    let list = List {
        policy: form_policy(),
        style: STYLE,
        root: visible(&root.display().to_string()).into_owned(),
        text: shown_name(&query.text),
        seed: shown_name(&query.seed),
        verdicts: VERDICTS
            .iter()
            .map(|(key, word)| (*key, *word, query.verdict == *key))
            .collect(),
        workloads: workloads
            .iter()
            .map(|w| (shown_name(w), query.workload == *w))
            .collect(),
        told,
        notes: notes.iter().map(|n| visible(n).into_owned()).collect(),
        rows: shown.iter().map(|row| line(row)).collect(),
        before: (page > 1).then(|| query.address(page - 1)),
        after: (page < pages).then(|| query.address(page + 1)),
    };
    rendered(&list, "the list of runs")
}

fn line(row: &Row) -> Line {
    let folder = address(&row.dir);
    let text = |t: &str| visible(t).into_owned();
    let page = match (&row.workload, row.has_page) {
        (_, false) => "",
        (Some(_), true) => "report.html",
        (None, true) => "index.html",
    };
    Line {
        class: row.state.class(),
        state: text(&row.state.words()),
        href: format!("{folder}{page}"),
        folder,
        name: match &row.workload {
            Some(workload) => text(workload),
            None => text(&row.dir.to_string_lossy()),
        },
        seed: row.seed.map_or_else(String::new, |s| s.to_string()),
        date: text(&row.date),
        lock: text(&row.lock),
        violated: text(&row.violated.join(", ")),
    }
}

/// Where a folder below the results is: `/runs/plain-del/20261130T082201Z-7/`.
fn address(dir: &Path) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    let mut out = String::from("/runs/");
    for part in dir {
        out.push_str(&percent(part.as_bytes()));
        out.push('/');
    }
    out
}

#[derive(Template)]
#[template(path = "folder.html")]
struct Folder {
    policy: String,
    style: &'static str,
    name: String,
    state: Option<(&'static str, String)>,
    up: String,
    entries: Vec<Shown>,
}

struct Shown {
    href: String,
    name: String,
    size: String,
}

/// What lies in one folder below the results, with how the run there came out where it is one.
///
/// # Errors
/// When the page cannot be made.
pub fn folder(dir: &Path, row: Option<&Row>, entries: &[Entry]) -> Result<String, ReportError> {
    let up = dir.parent().filter(|p| *p != Path::new(""));
    let page = Folder {
        policy: form_policy(),
        style: STYLE,
        name: visible(&dir.to_string_lossy()).into_owned(),
        state: row.map(|r| {
            let words = visible(&r.state.words()).into_owned();
            (r.state.class(), words)
        }),
        up: up.map_or_else(|| "/".to_owned(), address),
        entries: entries.iter().map(shown).collect(),
    };
    rendered(&page, "the page of a folder")
}

fn shown(entry: &Entry) -> Shown {
    let slash = if entry.folder { "/" } else { "" };
    let name = String::from_utf8_lossy(&entry.name);
    Shown {
        // `./` before a name with a colon: it is no scheme.
        href: format!("./{}{slash}", percent(&entry.name)),
        name: format!("{}{slash}", visible(&name)),
        size: if entry.folder {
            String::new()
        } else {
            size(entry.bytes)
        },
    }
}

/// `312 B`, `4.2 KB`, `1.3 GB`.
fn size(bytes: u64) -> String {
    let units = ["KB", "MB", "GB", "TB"];
    let mut value = bytes as f64;
    let mut unit = "B";
    for next in units {
        if value < 1000.0 {
            break;
        }
        value /= 1000.0;
        unit = next;
    }
    if unit == "B" {
        format!("{bytes} B")
    } else {
        format!("{value:.1} {unit}")
    }
}

/// The policy of a page that has our style and our form, and runs nothing.
pub fn form_policy() -> String {
    style_policy().replace("form-action 'none'", "form-action 'self'")
}

/// The policy of a file that is served: its own style, our script where the page is ours, and an origin of its own.
pub fn file_policy() -> String {
    served_policy()
}

fn rendered(page: &impl Template, what: &str) -> Result<String, ReportError> {
    page.render().map_err(|e| ReportError::Io {
        path: what.into(),
        source: std::io::Error::other(e),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(workload: &str, seed: u64, state: State) -> Row {
        Row {
            dir: PathBuf::from(workload).join(format!("x-{seed}")),
            workload: Some(workload.to_owned()),
            seed: Some(seed),
            date: "2026-11-30 08:22:01".to_owned(),
            state,
            lock: "set-nx-lua".to_owned(),
            about: "A paused holder".to_owned(),
            violated: vec!["overrun".to_owned()],
            faults: vec!["client-pause".to_owned()],
            has_page: true,
        }
    }

    fn query(text: &str) -> Query {
        Query {
            text: text.to_owned(),
            ..Query::default()
        }
    }

    #[test]
    fn all_words_must_occur_and_filters_are_exact() {
        let row = row("plain-del", 7, State::Judged(Judgement::Expected));
        for yes in ["", "PAUSED", "plain overrun", "client-pause lua", "2026-11"] {
            assert!(query(yes).wants(&row), "{yes}");
        }
        for no in ["redlock", "plain redlock"] {
            assert!(!query(no).wants(&row), "{no}");
        }
        let with = |verdict: &str, workload: &str, seed: &str| Query {
            verdict: verdict.to_owned(),
            workload: workload.to_owned(),
            seed: seed.to_owned(),
            ..Query::default()
        };
        assert!(with("expected", "plain-del", "7").wants(&row));
        for (v, w, s) in [("unknown", "", ""), ("", "plain", ""), ("", "", "70")] {
            assert!(!with(v, w, s).wants(&row), "{v}{w}{s}");
        }
    }

    #[test]
    fn names_that_are_markup_show_as_text() {
        let evil = "<script>alert(1)</script>\u{202e}\"'&";
        let mut hostile = row(evil, 7, State::Unreadable(evil.to_owned()));
        hostile.lock = evil.to_owned();
        let mut asked = query(evil);
        asked.workload = evil.to_owned();
        let page = list(Path::new(evil), &[hostile], &asked, &[evil.to_owned()]);
        let page = page.expect("a page");
        assert!(!page.contains("<script"), "{page}");
        assert!(!page.contains('\u{202e}'));
        let entries = [Entry {
            name: b"javascript:x\xff<b>".to_vec(),
            folder: false,
            bytes: 4200,
        }];
        let page = folder(Path::new(evil), None, &entries).expect("a page");
        assert!(!page.contains("<script") && !page.contains("<b>"), "{page}");
        assert!(page.contains("./javascript%3Ax%FF%3Cb%3E"), "{page}");
        assert!(page.contains("4.2 KB"));
    }

    #[test]
    fn many_runs_are_shown_page_by_page() {
        let rows: Vec<Row> = (0..250)
            .map(|seed| row("w", seed, State::Judged(Judgement::Expected)))
            .collect();
        let page = |n| {
            let asked = Query {
                page: n,
                verdict: "expected".to_owned(),
                ..Query::default()
            };
            list(Path::new("results"), &rows, &asked, &[]).expect("a page")
        };
        let (first, last) = (page(0), page(99));
        assert!(first.contains("1 to 100 of 250 runs"), "{first}");
        assert!(
            first.contains("page=2&amp;verdict=expected")
                || first.contains("page=2&#38;verdict=expected")
        );
        assert!(last.contains("201 to 250 of 250 runs"), "{last}");
    }
}
