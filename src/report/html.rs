//! report.html: one page that shows a whole run, in one file, without network.
//!
//! Owns which part stands where, and the content policy: nothing is loaded, only our own style and script run, each
//! known by its hash. Must not know how a picture is drawn. All text is made visible by `sanitise` and escaped by the
//! template (or, in pictures, by [`svg`]); what the script reads cannot end its element. Goes to `files`.
//!
//! ```text
//! Summary ──────────────┬─ sequence (a finding)   ─┐
//! history.jsonl ─ track ┼─ timeline (whole run)    ├─ page.html + page.css + page.js → report.html
//!                       └─ charts (over time, histograms) ─┘
//! ```
//! Without script all is there but zooming; without colours all is told apart by pattern, place and text.
mod charts;
mod nodes;
mod picture;
mod quantiles;
mod sequence;
mod svg;
mod timeline;
mod track;

use super::files::Rendered;
use super::latency::{Durations, Measure, cut_note};
use super::sanitise::visible;
use super::summary::{Judgement, Summary};
use super::tables::{self, Table};
use super::terminal::{finding_head, finding_more};
use super::{Renderer, ReportError};
use askama::Template;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};
use track::{Track, track};

pub use picture::picture;

pub(super) const STYLE: &str = include_str!("html/page.css");
const SCRIPT: &str = include_str!("html/page.js");
/// Bytes of sequence diagrams in one page; findings beyond are told in words and figures.
const PICTURES_MAX: usize = 1_500_000;

/// The renderer.
#[derive(Debug, Clone, Copy)]
pub struct Html;

impl Renderer for Html {
    fn render(&self, summary: &Summary) -> Result<Vec<Rendered>, ReportError> {
        Ok(vec![Rendered::new("report.html", page(summary)?)])
    }
}

/// The page of a results folder, from `summary.dir`.
///
/// # Errors
/// When its history cannot be read.
pub fn page(s: &Summary) -> Result<String, ReportError> {
    let track = track(s)?;
    let plan = crate::foreign::text(&s.dir.join("plan.toml"), crate::foreign::PLAN_MAX);
    let plan = plan.unwrap_or_default();
    let (violations, counted) = violations(s);
    let page = Page {
        policy: policy(),
        style: STYLE,
        script: SCRIPT,
        class: class(tables::run_judgement(s)),
        sign: tables::sign(tables::run_judgement(s)),
        judgement: headline(tables::run_judgement(s)),
        workload: visible(&s.setup.workload).into_owned(),
        about: visible(&s.setup.about).into_owned(),
        setup: visible(&tables::setup(s)).into_owned(),
        seed: s.setup.seed,
        reasons: s
            .verdict
            .reasons
            .iter()
            .map(|r| visible(r).into())
            .collect(),
        facts: facts(s),
        checks: checks(s, &track),
        tells: tells(s),
        picture: timeline::picture(s, &track),
        data: timeline::data(s, &track),
        lanes: Grid::of(&lanes(&track), "Workers"),
        over_time: over_time(s, &track),
        behind: Grid::of(&charts::over_time(&track), "Figures over time"),
        histograms: histograms(s),
        latency: Grid::of(
            &tables::latency(s),
            "Latencies in ms by measure and fault window",
        ),
        latency_notes: tables::latency_notes(s),
        violations,
        counted: Grid::of(&counted, "Violations by length"),
        all_checks: Grid::of(&tables::checks(s), "All checks"),
        operations: Grid::of(&tables::operations(s), "Operations by result"),
        faults: Grid::of(&tables::faults(s), "Faults and how each is known"),
        numbers: tables::numbers(s).into_iter().map(shown).collect(),
        versions: s.setup.versions.clone().into_iter().map(shown).collect(),
        plan: plan.lines().map(|l| visible(l).into_owned()).collect(),
        replay: replay(s),
    };
    page.render().map_err(|e| ReportError::Io {
        path: s.dir.join("report.html"),
        source: std::io::Error::other(e),
    })
}

#[derive(Template)]
#[template(path = "page.html")]
struct Page {
    policy: String,
    style: &'static str,
    script: &'static str,
    class: &'static str,
    sign: &'static str,
    judgement: &'static str,
    workload: String,
    about: String,
    setup: String,
    seed: u64,
    reasons: Vec<String>,
    facts: Vec<(String, String)>,
    checks: Vec<Check>,
    tells: Vec<String>,
    picture: String,
    data: String,
    lanes: Grid,
    over_time: Vec<Chart>,
    behind: Grid,
    histograms: Vec<Chart>,
    latency: Grid,
    latency_notes: Vec<String>,
    violations: Vec<Chart>,
    counted: Grid,
    all_checks: Grid,
    operations: Grid,
    faults: Grid,
    numbers: Vec<(String, String)>,
    versions: Vec<(String, String)>,
    plan: Vec<String>,
    replay: String,
}

/// A violated check with its findings.
struct Check {
    class: &'static str,
    head: String,
    more: u64,
    findings: Vec<Found>,
}

/// One finding.
struct Found {
    id: String,
    open: bool,
    at: String,
    sentence: String,
    more: String,
    picture: Option<String>,
    steps: Vec<[String; 3]>,
}

/// A picture with its name.
struct Chart {
    title: String,
    note: String,
    svg: String,
}

impl Chart {
    fn new(title: &str, note: impl Into<String>, svg: Option<String>) -> Option<Self> {
        Some(Self {
            title: title.to_owned(),
            note: note.into(),
            svg: svg?,
        })
    }
}

/// A table whose cells are safe text and know whether they are figures.
pub(super) struct Grid {
    pub(super) caption: &'static str,
    pub(super) head: Vec<(String, bool)>,
    pub(super) rows: Vec<Vec<(String, bool)>>,
}

impl Grid {
    pub(super) fn of(t: &Table, caption: &'static str) -> Self {
        let cells = |row: &Vec<String>| {
            let cells = row.iter().enumerate();
            cells
                .map(|(n, c)| (visible(c).into_owned(), t.is_figure(n)))
                .collect()
        };
        Self {
            caption,
            head: cells(&t.head),
            rows: t.rows.iter().map(cells).collect(),
        }
    }
}

fn shown((name, value): (String, String)) -> (String, String) {
    (visible(&name).into_owned(), visible(&value).into_owned())
}

/// What may run and load: nothing but the two texts that hash to this.
fn policy() -> String {
    let hash = |text: &str| STANDARD.encode(Sha256::digest(text.as_bytes()));
    format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
        hash(STYLE),
        hash(SCRIPT)
    )
}

/// The policy of a page that runs nothing.
pub(super) fn style_policy() -> String {
    let hash = STANDARD.encode(Sha256::digest(STYLE.as_bytes()));
    format!("default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'")
}

/// The policy for a page or file that stands in somebody's folder: its style, our script, and an origin of its own, so
/// that nothing else on it runs, and nothing on it can read what is beside it.
pub(super) fn served_policy() -> String {
    let hash = STANDARD.encode(Sha256::digest(SCRIPT.as_bytes()));
    format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{hash}'; sandbox allow-scripts; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
}

pub(super) fn class(j: Judgement) -> &'static str {
    match j {
        Judgement::Expected => "good",
        Judgement::Unexpected => "bad",
        Judgement::Unknown => "unsure",
        Judgement::Skipped => "none",
    }
}

pub(super) fn headline(j: Judgement) -> &'static str {
    match j {
        Judgement::Expected => "As expected",
        Judgement::Unexpected => "Not as expected",
        Judgement::Unknown => "Unknown",
        Judgement::Skipped => "Not judged",
    }
}

/// The id of a finding, by its place in the verdict.
fn finding_id(n: usize) -> String {
    format!("finding-{}", n + 1)
}

/// The colour of a worker's lane, the same in all pictures.
fn hue(lane: usize) -> usize {
    lane % 8
}

/// The lease asked for, ns.
fn ttl_ns(s: &Summary) -> Option<u64> {
    let ttl = crate::plan::duration::parse(&s.setup.ttl).ok()?;
    u64::try_from(ttl.as_nanos()).ok()
}

/// The few figures at the head of the page.
fn facts(s: &Summary) -> Vec<(String, String)> {
    let found = tables::total(s.verdict.checks.iter().map(|c| c.count));
    let mut facts = vec![
        (String::from("violations"), found.to_string()),
        (String::from("operations"), s.total_operations().to_string()),
        (String::from("grants"), s.grants.to_string()),
        (
            String::from("cycles a second"),
            format!("{:.1}", s.cycles_per_s),
        ),
    ];
    if let Some(f) = s.over_all(Measure::Acquire) {
        let text = format!("{} / {} ms", f.p50.text(true), f.p99.text(true));
        facts.push((String::from("acquire p50 / p99"), text));
    }
    if let Some(ns) = s.first_finding_ns {
        let text = format!("after {}", tables::seconds(ns));
        facts.push((String::from("first finding"), text));
    }
    if let Some(o) = &s.overlap {
        let text = format!("{} ms", o.figures.max.text(true));
        facts.push((String::from("longest overlap"), text));
    }
    facts
}

fn checks(s: &Summary, track: &Track) -> Vec<Check> {
    let mut room = PICTURES_MAX;
    let mut at = 0;
    let starts: std::collections::BTreeMap<&str, usize> = s
        .verdict
        .checks
        .iter()
        .map(|c| {
            let start = at;
            at += c.findings.len();
            (c.name.as_str(), start)
        })
        .collect();
    let violated = s.violated();
    violated
        .into_iter()
        .map(|(check, judged)| {
            let start = starts.get(check.name.as_str()).copied().unwrap_or_default();
            let findings = check.findings.iter().enumerate().map(|(n, finding)| {
                let scene = &track.scenes[start + n];
                let picture = sequence::draw(s, track, finding, scene)
                    .filter(|drawn| drawn.len() <= room || n == 0)
                    .map(|drawn| drawn.scrolled(sequence::LEFT, sequence::AXIS));
                room = room.saturating_sub(picture.as_ref().map_or(0, String::len));
                let steps = sequence::steps(finding, scene)
                    .into_iter()
                    .map(|row| row.map(|cell| visible(&cell).into_owned()));
                Found {
                    id: finding_id(start + n),
                    open: n == 0,
                    at: tables::seconds(finding.at),
                    sentence: visible(&finding.sentence).into_owned(),
                    more: visible(&finding_more(finding)).into_owned(),
                    picture,
                    steps: steps.collect(),
                }
            });
            let findings: Vec<Found> = findings.collect();
            Check {
                class: class(judged.judgement),
                head: finding_head(check, judged),
                more: check.count.saturating_sub(findings.len() as u64),
                findings,
            }
        })
        .collect()
}

/// What can be said of checks that could not be judged.
fn tells(s: &Summary) -> Vec<String> {
    s.checks()
        .filter(|(_, j)| j.judgement == Judgement::Unknown)
        .map(|(c, _)| {
            let note = c.note.as_deref().unwrap_or("no reason was given");
            format!("{}: unknown: {}", visible(&c.name), visible(note))
        })
        .collect()
}

fn lanes(track: &Track) -> Table {
    let head = [
        "worker",
        "grants",
        "refused",
        "unknown",
        "held, s",
        "past its lease, s",
    ];
    let rows = track.lanes.iter().map(|l| {
        let mut row = vec![l.name.clone()];
        row.extend([l.grants, l.refused, l.unknown].map(|n| n.to_string()));
        row.extend([l.held, l.beyond].map(|ns| svg::seconds(ns, 3)));
        row
    });
    Table {
        head: head.map(str::to_owned).to_vec(),
        rows: rows.collect(),
        figures_from: 1,
        figures: 5,
    }
}

fn over_time(s: &Summary, track: &Track) -> Vec<Chart> {
    let quantiles = "median, 99th percentile, longest; logarithmic";
    let from = if s.setup.rate.is_some() {
        "from the intended start to the grant"
    } else {
        "from a worker's first try to the grant"
    };
    [
        Chart::new(
            "Acquire, service time",
            quantiles,
            charts::latency_over_time(s, track, |b| &b.acquire, "Acquire latency"),
        ),
        Chart::new(
            "Acquire, waiting time",
            format!("{from}: {quantiles}"),
            charts::latency_over_time(s, track, |b| &b.wait, "Waiting time"),
        ),
        Chart::new(
            "Grants",
            "a second",
            charts::rate(s, track, |b| b.grants, "Grants"),
        ),
        Chart::new(
            "Refused acquires",
            "a second",
            charts::rate(s, track, |b| b.refused, "Refused acquires"),
        ),
        Chart::new(
            "Calls without a definite answer",
            "a second",
            charts::rate(s, track, |b| b.unknown, "Calls without a definite answer"),
        ),
        Chart::new(
            "Stalls of the machine",
            "over 50 ms, by no fault of the plan",
            charts::stalls(s, track),
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn histograms(s: &Summary) -> Vec<Chart> {
    let one = |m: Measure| {
        let n = s.over_all(m)?.count;
        let note = format!("{n} calls; % of those before, during, after");
        Chart::new(m.name(), note, charts::phases(s, m))
    };
    Measure::ALL.into_iter().filter_map(one).collect()
}

/// How long violations lasted, and how long after a fault they came: as histograms, and as counts.
fn violations(s: &Summary) -> (Vec<Chart>, Table) {
    let mut past = Durations::default();
    let mut since = Durations::default();
    let injected = || s.faults.iter().flat_map(|f| &f.injections);
    let mut seen = std::collections::BTreeSet::new();
    for f in track::findings(s) {
        if let Some(at) = injected().map(|i| i.at).filter(|t| *t <= f.at).max() {
            since.record(f.at - at, false);
        }
        for v in &f.sections {
            if let (Some(promise), Some(belief)) = (v.promise_end, v.belief_end)
                && belief > promise
                && seen.insert((v.process, v.acquire_return))
            {
                past.record(belief - promise, false);
            }
        }
    }
    let head = ["violations", "from, ms", "to, ms", "how many"];
    let mut counted = Table::new(&head, 1, 3);
    let mut charts = Vec::new();
    for (title, note, of) in [
        (
            "Overlap of two holders",
            "each finding's length",
            &s.overlaps,
        ),
        (
            "Past the lease",
            "how long a holder in a finding went on",
            &past,
        ),
        (
            "From fault to finding",
            "from the last injection before it",
            &since,
        ),
    ] {
        let class = "p-found";
        let n = of.histogram().len();
        let label = format!(
            "{title}: how many of {n} by length in ms, logarithmic. The table below has the counts."
        );
        let svg = charts::histogram(&[charts::Series { class, of }], charts::Up::Count, &label);
        let mut note = format!("{note}, {n} kept");
        if let Some(cut) = cut_note(of.cut()) {
            note = format!("{note}; {cut}");
        }
        charts.extend(Chart::new(title, note, svg));
        counted.rows.extend(charts::counted(title, of));
    }
    (charts, counted)
}

/// The command that makes this run again. A path of somebody's machine is left out.
fn replay(s: &Summary) -> String {
    let plan = s.dir.join("plan.toml");
    let path = if plan.is_relative() {
        plan.display().to_string()
    } else {
        String::from("plan.toml")
    };
    let path = visible(&path);
    let bare = |c: char| c.is_ascii_alphanumeric() || "/._-+=".contains(c);
    if path.chars().all(bare) {
        format!("fencepost run {path}")
    } else {
        format!("fencepost run '{}'", path.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests;
