//! The page as a whole: well-formed, without network, hostile text as text, and small for a long run.
use super::{SCRIPT, STYLE, hue, page};
use crate::report::fixture::{self, HOSTILE, History, MS, PLAN};
use crate::report::summary::{Summary, summarise};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fencepost_checker::{Blame, Event, EventType, Process, Value, Verdict};
use sha2::{Digest as _, Sha256};
use std::path::Path;

type Failure = Box<dyn std::error::Error>;

fn made(dir: &Path, history: &str, verdict: &Verdict) -> Result<(Summary, String), Failure> {
    fixture::folder(dir, PLAN, history, verdict);
    let summary = summarise(dir)?;
    let text = page(&summary)?;
    Ok((summary, text))
}

fn plain_del() -> Result<String, Failure> {
    let dir = tempfile::tempdir()?;
    let history = fixture::plain_del().text();
    Ok(made(dir.path(), &history, &fixture::verdict(true))?.1)
}

/// Elements that have no end.
const VOID: [&str; 4] = ["meta", "br", "link", "img"];

/// The names of all tags and of their attributes; fails where a tag is not closed, or closes another.
fn tags(html: &str) -> Result<Vec<(String, Vec<String>)>, String> {
    let mut found = Vec::new();
    let mut open: Vec<String> = Vec::new();
    let mut rest = html.strip_prefix("<!doctype html>").ok_or("no doctype")?;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let end = rest.find('>').ok_or("a tag without end")?;
        let (tag, after) = (&rest[..end], &rest[end + 1..]);
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            let last = open
                .pop()
                .ok_or_else(|| format!("</{name}> closes nothing"))?;
            if last != name {
                return Err(format!("</{name}> closes <{last}>"));
            }
            continue;
        }
        let bare = tag.trim_end_matches('/');
        let name = bare.split_whitespace().next().unwrap_or_default();
        let parts = bare.split('"').step_by(2).flat_map(str::split_whitespace);
        let attributes = parts.skip(1).map(|a| a.trim_end_matches('=').to_owned());
        found.push((name.to_owned(), attributes.collect()));
        if !tag.ends_with('/') && !VOID.contains(&name) {
            open.push(name.to_owned());
        }
        if name == "script" || name == "style" {
            let close = format!("</{name}>");
            let end = rest.find(&close).ok_or("raw text without end")?;
            rest = &rest[end..];
        }
    }
    if open.is_empty() {
        Ok(found)
    } else {
        Err(format!("never closed: {open:?}"))
    }
}

#[test]
fn a_picture_stands_alone_and_shows_hostile_text_as_text() -> Result<(), Failure> {
    let dir = tempfile::tempdir()?;
    let mut verdict = fixture::verdict(true);
    for finding in verdict.checks.iter_mut().flat_map(|c| &mut c.findings) {
        finding.sentence = HOSTILE.to_owned();
        for section in finding.sections.iter_mut().take(1) {
            section.client = HOSTILE.to_owned();
        }
    }
    let history = fixture::plain_del().text();
    let (summary, _) = made(dir.path(), &history, &verdict)?;
    let svg = super::picture(&summary, Some("ownership"))?.ok_or("no picture")?;
    tags(&format!("<!doctype html>{svg}"))?;
    assert!(
        !svg.contains("<script") && !svg.contains('\u{202e}'),
        "{svg}"
    );
    assert!(!svg.contains("url(http"), "{svg}");
    let first = super::picture(&summary, None)?.ok_or("no picture")?;
    assert!(first.contains("two holders"), "{first}");
    assert!(
        first.contains("B c2/0") && first.contains("time, s"),
        "with the names of rows: {first}"
    );
    assert!(super::picture(&summary, Some("no-such-check"))?.is_none());
    Ok(())
}

#[test]
fn the_page_is_well_formed_and_has_its_parts() -> Result<(), Failure> {
    let html = plain_del()?;
    let tags = tags(&html)?;
    let of = |name: &str| tags.iter().filter(|t| t.0 == name).count();
    assert_eq!((of("h1"), of("main"), of("canvas")), (1, 1, 1));
    assert!(
        html.matches(r#"class="sequence""#).count() == 2,
        "one a finding"
    );
    for (name, attributes) in &tags {
        let bad = attributes
            .iter()
            .find(|a| *a == "style" || a.starts_with("on"));
        assert_eq!(bad, None, "<{name}>: the policy forbids it");
        if name == "svg" {
            let named = ["aria-label", "aria-hidden"];
            assert!(
                attributes.iter().any(|a| named.contains(&a.as_str())),
                "an svg without a word: {attributes:?}"
            );
        }
    }
    for id in [
        "findings", "timeline", "time", "latency", "checks", "faults", "setup",
    ] {
        assert!(html.contains(&format!(r#"<section id="{id}""#)), "{id}");
    }
    // Verdict first, then the first finding of each check unfolded.
    assert!(html.find("<h1") < html.find("<h2"));
    assert_eq!(html.matches("<details class=\"finding\"").count(), 2);
    assert_eq!(html.matches("\" open><summary>").count(), 2);
    assert!(
        html.contains("fencepost run plan.toml"),
        "no path of a machine"
    );
    assert!(html.contains("two holders, 979 ms"), "the overlap's length");
    Ok(())
}

/// What stands between two texts, wherever it does.
fn each_between<'a>(html: &'a str, from: &str, to: &str) -> Vec<&'a str> {
    let parts = html.split(from).skip(1);
    parts
        .map(|rest| rest.split(to).next().unwrap_or_default())
        .collect()
}

#[test]
fn the_names_of_rows_stay_beside_what_is_scrolled() -> Result<(), Failure> {
    let html = plain_del()?;
    let names = each_between(&html, r#"<svg class="names""#, "</svg>");
    let wide = html.matches(r#"<div class="wide">"#).count();
    assert!(wide > 4 && names.len() == wide, "{wide} {}", names.len());
    assert!(
        names.iter().all(|n| n.contains(r#"aria-hidden="true""#)),
        "what they name is told by the drawing's own words and the table below"
    );
    // All that names a row, and nothing of it in the part that moves.
    for class in ["sequence", "overview", "chart"] {
        let drawn = each_between(&html, &format!(r#"<svg class="{class}""#), "</svg>");
        assert!(!drawn.is_empty(), "{class}");
        for svg in drawn {
            assert!(
                !svg.contains("class=\"label") && !svg.contains("time, s"),
                "{class}: {svg}"
            );
        }
    }
    for text in ["A c1/0", "client-pause c1", "time, s", " /s<"] {
        assert!(names.iter().any(|n| n.contains(text)), "{text}");
    }
    assert!(STYLE.contains(".wide > svg.names { position: sticky; left: 0; width: 11.8%; }"));
    assert!((super::sequence::LEFT / 1_000.0 - 0.118).abs() < 1e-9);
    assert!((super::timeline::LEFT / super::timeline::WIDTH - 0.118).abs() < 1e-9);
    Ok(())
}

#[test]
fn violations_are_counted_in_figures_too() -> Result<(), Failure> {
    let html = plain_del()?;
    let table = each_between(&html, r#"aria-label="Violations by length""#, "</table>");
    let table = table.first().ok_or("the counts")?;
    let kept = each_between(&html, "each finding&#39;s length, ", " kept");
    let kept: u64 = kept.first().ok_or("the note")?.parse()?;
    let rows = table.split("<tr>").filter(|r| r.contains("Overlap of two"));
    let counts = rows.map(|row| {
        let cells = each_between(row, "<td class=\"n\">", "</td>");
        cells.last().and_then(|n| n.parse::<u64>().ok())
    });
    assert_eq!(counts.sum::<Option<u64>>(), Some(kept), "{table}");
    assert!(html.contains("Overlap of two holders: how many of "));
    Ok(())
}

#[test]
fn only_our_style_and_script_may_run_and_nothing_is_loaded() -> Result<(), Failure> {
    let html = plain_del()?;
    let between = |from: &str, to: &str| {
        let start = html.find(from).map(|at| at + from.len())?;
        Some(html[start..start + html[start..].find(to)?].to_owned())
    };
    for (text, ours, from, to, directive) in [
        ("style", STYLE, "<style>", "</style>", "style-src"),
        ("script", SCRIPT, "<script>", "</script>", "script-src"),
    ] {
        let inside = between(from, to).ok_or(text)?;
        assert_eq!(inside, ours, "the {text} as it was hashed");
        let hash = STANDARD.encode(Sha256::digest(inside.as_bytes()));
        assert!(
            html.contains(&format!("{directive} 'sha256-{hash}';")),
            "{directive} {hash}"
        );
    }
    assert!(html.contains("content=\"default-src 'none';"));
    for (n, text) in [&html, STYLE, SCRIPT].into_iter().enumerate() {
        for bad in [
            "http:",
            "https:",
            "src=",
            "@import",
            "innerHTML",
            "fetch(",
            "eval(",
        ] {
            assert!(!text.contains(bad), "{n}: {bad}");
        }
    }
    let targets = html.split("href=\"").skip(1);
    assert!(targets.clone().count() > 5);
    assert!(
        targets.into_iter().all(|t| t.starts_with('#')),
        "only to itself"
    );
    assert!(html.split("url(").skip(1).all(|t| t.starts_with('#')));
    assert!(!SCRIPT.contains("//") && !STYLE.contains("//"));
    Ok(())
}

#[test]
fn hostile_text_is_shown_as_text() -> Result<(), Failure> {
    let dir = tempfile::tempdir()?;
    let mut verdict = fixture::verdict(true);
    verdict.reasons = vec![HOSTILE.to_owned()];
    for check in &mut verdict.checks {
        check.note = Some(HOSTILE.to_owned());
        for f in &mut check.findings {
            f.sentence = HOSTILE.to_owned();
            f.blame = Blame::Client(HOSTILE.to_owned());
            f.key = Some(HOSTILE.to_owned());
            for s in &mut f.sections {
                s.client = HOSTILE.to_owned();
                s.label = HOSTILE.to_owned();
            }
        }
    }
    let mut h = fixture::plain_del();
    for f in ["acquire", "write", "release"] {
        h.op(2_500, HOSTILE, EventType::Info, f, Value::default());
    }
    h.fault(2_600, HOSTILE, "inject", HOSTILE, HOSTILE);
    for (ms, f) in [(2_700, "set"), (2_800, "del")] {
        h.push(Event {
            index: 0,
            time: ms * MS,
            process: Process::Named("observer".into()),
            client: None,
            worker: None,
            kind: EventType::Info,
            f: f.into(),
            key: Some(HOSTILE.into()),
            value: Value {
                node: Some(HOSTILE.into()),
                owner: Some(HOSTILE.into()),
                ..Value::default()
            },
            error: None,
        });
    }
    fixture::folder(dir.path(), PLAN, &h.text(), &verdict);
    let mut s = summarise(dir.path())?;
    for text in [&mut s.setup.workload, &mut s.setup.about, &mut s.setup.lock] {
        HOSTILE.clone_into(text);
    }
    s.setup.versions.insert(HOSTILE.into(), HOSTILE.into());
    let html = page(&s)?;
    let all = tags(&html)?;
    assert_eq!(
        all.iter().filter(|t| t.0 == "script").count(),
        2,
        "ours only"
    );
    assert!(!html.contains("<script>alert") && html.contains("&lt;script&gt;alert"));
    let bad = html
        .chars()
        .find(|c| *c != '\n' && crate::report::sanitise::is_dangerous(*c));
    assert_eq!(bad, None);
    let json = html.split("id=\"data\">").nth(1).ok_or("the data")?;
    let json = &json[..json.find("</script>").ok_or("its end")?];
    let data: serde_json::Value = serde_json::from_str(json)?;
    assert!(
        data["found"][0]["text"]
            .as_str()
            .is_some_and(|t| t.contains("<script>"))
    );
    Ok(())
}

/// A long run: eight workers, so many operations, a fault and the fixture's findings.
pub fn long(operations: u64) -> History {
    let mut h = History::new("long", &[]);
    h.phase(0, "load");
    let (mut worker, mut at) = (0_u32, 0);
    for n in 0..operations / 2 {
        // Three refused for one granted, as under contention.
        let (us, kind) = (
            1_000 + n * 250,
            if n % 4 == 0 {
                EventType::Ok
            } else {
                EventType::Fail
            },
        );
        let mut op = |us: u64, kind: EventType, f: &'static str| {
            h.push(Event {
                index: 0,
                time: us * 1_000,
                process: Process::Id(u64::from(worker)),
                client: Some(format!("c{}", worker / 2 + 1).into()),
                worker: Some(worker % 2),
                kind,
                f: f.into(),
                key: Some("lock:0".into()),
                value: Value::default(),
                error: None,
            });
        };
        op(us, EventType::Invoke, "acquire");
        op(us + 40 + n * 7 % 60, kind, "acquire");
        let second = if n % 4 == 0 { "release" } else { "acquire" };
        op(us + 120, EventType::Invoke, second);
        op(
            us + 170 + n * 11 % 50,
            if n % 4 == 0 {
                EventType::Ok
            } else {
                EventType::Fail
            },
            second,
        );
        worker = (worker + 1) % 8;
        at = us / 1_000 + 1;
    }
    h.phase(at + 10, "end");
    h
}

#[test]
fn a_hundred_thousand_operations_take_less_than_five_megabytes() -> Result<(), Failure> {
    let dir = tempfile::tempdir()?;
    let (s, html) = made(dir.path(), &long(100_000).text(), &fixture::verdict(true))?;
    assert_eq!(s.total_operations(), 100_000);
    assert!(html.len() < 5_000_000, "{} bytes", html.len());
    tags(&html)?;
    Ok(())
}

#[test]
fn what_never_ended_and_what_is_no_run_still_makes_a_page() -> Result<(), Failure> {
    for history in [
        History::new("empty", &[]).text(),
        format!("{}{{\"index\":", fixture::plain_del().text()),
        long(40).text(),
    ] {
        let dir = tempfile::tempdir()?;
        let (_, html) = made(dir.path(), &history, &fixture::verdict(false))?;
        tags(&html)?;
        assert!(html.contains("Nothing was found."));
    }
    Ok(())
}

#[test]
fn absurd_times_are_drawn_without_panic() -> Result<(), Failure> {
    let dir = tempfile::tempdir()?;
    let mut verdict = fixture::verdict(true);
    for f in verdict.checks.iter_mut().flat_map(|c| &mut c.findings) {
        f.at = u64::MAX;
        f.overlap_ns = Some(u64::MAX);
        f.sections[0].promise_end = None;
        f.sections[1].acquire_invoke = u64::MAX;
        f.sections[1].belief_end = Some(0);
    }
    let mut h = fixture::plain_del();
    h.push(Event {
        index: 0,
        time: u64::MAX,
        process: Process::Id(1),
        client: Some("c1".into()),
        worker: Some(0),
        kind: EventType::Ok,
        f: "acquire".into(),
        key: Some("lock:0".into()),
        value: Value {
            validity_ms: Some(f64::MAX),
            ..Value::default()
        },
        error: None,
    });
    let (_, html) = made(dir.path(), &h.text(), &verdict)?;
    tags(&html)?;
    assert_eq!(hue(9), 1);
    Ok(())
}
