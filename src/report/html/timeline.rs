//! The time line of the whole run: the spans packed for the script that zooms, and a picture for everybody else.
//!
//! Owns the packing, which `page.js` unpacks, and the picture of the whole run, in which what falls into one column is
//! one stroke. Must not know how it is zoomed. Goes to the page.
use super::nodes::Holding;
use super::svg::{Anchor, Scale, Svg, fit};
use super::track::{Kind, Span, Track, findings};
use crate::report::sanitise::visible;
use crate::report::summary::Summary;
use crate::report::tables::seconds;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;
use std::fmt::Write as _;

/// Geometry, shared with the charts over time so that all stand above each other.
pub const WIDTH: f64 = 1_000.0;
/// Where time begins.
pub const LEFT: f64 = 118.0;
/// Where it ends.
pub const RIGHT: f64 = 992.0;
/// Columns of the picture: what is closer is drawn as one.
const COLUMN: f64 = 1.25;
const LANE: f64 = 16.0;
/// Height of the axis of time below rows and charts.
pub const AXIS: f64 = 20.0;
/// Rows of servers at most.
const NODES_MAX: usize = 32;

/// The spans of all lanes and what else the script draws, as JSON that cannot end its element.
pub fn data(s: &Summary, track: &Track) -> String {
    let lanes: Vec<_> = track
        .lanes
        .iter()
        .map(|lane| {
            let spans = lane.spans.iter().map(|s| (s.kind as u8, s.from, s.to));
            json!({"name": visible(&lane.name), "n": lane.spans.len(), "d": pack(spans)})
        })
        .collect();
    let nodes: Vec<_> = places(&track.holdings)
        .into_iter()
        .map(|(name, of)| {
            let spans = of
                .iter()
                .map(|h| (h.lane.map_or(255, |l| l.min(254) as u8), h.from, h.to));
            json!({"name": visible(&name), "n": of.len(), "d": pack(spans)})
        })
        .collect();
    let faults: Vec<_> = s
        .faults
        .iter()
        .flat_map(|f| f.injections.iter().map(move |i| (f, i)))
        .map(|(f, i)| {
            json!({"name": visible(&format!("{} {}", f.kind, i.target)), "from": i.at / 1_000,
                "to": i.healed.unwrap_or(s.history.end) / 1_000})
        })
        .collect();
    let found: Vec<_> = findings(s)
        .zip(&track.scenes)
        .enumerate()
        .map(|(n, (f, scene))| {
            let (from, to) = scene.range.unwrap_or((f.at, f.at));
            json!({"id": super::finding_id(n), "check": visible(&f.check), "text": visible(&f.sentence),
                "at": f.at / 1_000, "from": from / 1_000, "to": to / 1_000})
        })
        .collect();
    let phases: Vec<_> = s
        .history
        .phases
        .iter()
        .map(|(name, at)| json!([visible(name), at / 1_000]))
        .collect();
    let all = json!({"end": s.history.end / 1_000, "lanes": lanes, "nodes": nodes, "faults": faults,
        "found": found, "phases": phases});
    harmless(&all.to_string())
}

/// JSON in which nothing can end a script element or begin a comment.
fn harmless(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' | '>' | '&' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

/// Spans as bytes in base64: a kind, then the distance from the last begin and the length, in µs, seven bits a byte.
fn pack(spans: impl Iterator<Item = (u8, u64, u64)>) -> String {
    let mut bytes = Vec::new();
    let mut last = 0;
    for (kind, from, to) in spans {
        let from_us = from / 1_000;
        bytes.push(kind);
        varint(&mut bytes, from_us.saturating_sub(last));
        varint(&mut bytes, (to / 1_000).saturating_sub(from_us));
        last = last.max(from_us);
    }
    URL_SAFE_NO_PAD.encode(bytes)
}

fn varint(bytes: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        bytes.push(n as u8 | 0x80);
        n >>= 7;
    }
    bytes.push(n as u8);
}

/// Holdings by server and key, as they are drawn: a row each.
fn places(holdings: &[Holding]) -> Vec<(String, Vec<&Holding>)> {
    let mut rows: Vec<(String, Vec<&Holding>)> = Vec::new();
    for h in holdings {
        let name = format!("{} {}", h.node, h.key);
        let full = rows.len() == NODES_MAX;
        match rows.last_mut() {
            Some((last, of)) if *last == name => of.push(h),
            _ if full => break,
            _ => rows.push((name, vec![h])),
        }
    }
    rows
}

/// The whole run in one picture.
pub fn picture(s: &Summary, track: &Track) -> String {
    let scale = Scale {
        from: 0,
        to: s.history.end,
        left: LEFT,
        right: RIGHT,
    };
    let places = places(&track.holdings);
    let rows = track.lanes.len() + places.len();
    let top = 16.0;
    let height = top + rows as f64 * LANE + 2.0;
    let mut svg = Svg::default();
    for (at, text) in scale.ticks(10) {
        let x = scale.x(at);
        svg.line("grid", (x, 0.0), (x, height)).text(
            "tick",
            x,
            height + 14.0,
            Anchor::Middle,
            &text,
        );
    }
    svg.name("tick", 2.0, height + 14.0, Anchor::Start, "time, s");
    fault_bands(&mut svg, s, &scale, height);
    let mut y = top;
    for (n, lane) in track.lanes.iter().enumerate() {
        let hue = super::hue(n);
        label(&mut svg, &lane.name, y);
        let mut row = |class: &str, kinds: &[Kind], dy: f64| {
            let d = strokes(&lane.spans, kinds, &scale, y + dy);
            if !d.is_empty() {
                svg.path(class, &d);
            }
        };
        let low = LANE - 3.5;
        row("s-refused", &[Kind::Refused], low);
        row("s-unknown", &[Kind::Unknown], low);
        row(&format!("s-held s{hue}"), &[Kind::Held], LANE / 2.0 - 1.0);
        row(
            &format!("s-beyond s{hue}"),
            &[Kind::Beyond],
            LANE / 2.0 - 1.0,
        );
        row("s-no", &[Kind::NoWrite, Kind::Death], LANE / 2.0 - 1.0);
        y += LANE;
    }
    for (name, of) in &places {
        label(&mut svg, name, y);
        for lane in 0..=track.lanes.len() {
            let who = (lane < track.lanes.len()).then_some(lane);
            let mine = of.iter().filter(|h| h.lane == who).map(|h| (h.from, h.to));
            let d = columns(mine, &scale, y + LANE / 2.0);
            if !d.is_empty() {
                let hue = who.map_or_else(
                    || String::from("s-nobody"),
                    |l| format!("s{}", super::hue(l)),
                );
                svg.path(&format!("s-value {hue}"), &d);
            }
        }
        y += LANE;
    }
    for f in findings(s) {
        let x = scale.x(f.at);
        svg.path("mark", &format!("M{x:.1} 12l-3.5 -8h7Z"));
    }
    let label = format!(
        "The whole run, {}: {} workers and {} server keys, {} findings. The table below it has the figures.",
        seconds(s.history.end),
        track.lanes.len(),
        places.len(),
        findings(s).count()
    );
    svg.finish("overview", WIDTH, height + AXIS, &label)
        .scrolled(LEFT, AXIS)
}

fn label(svg: &mut Svg, name: &str, y: f64) {
    let text = fit(name, LEFT - 6.0, 5.9);
    svg.name("label", 2.0, y + LANE - 4.0, Anchor::Start, &text);
}

/// Each fault's window as a band.
pub fn fault_bands(svg: &mut Svg, s: &Summary, scale: &Scale, height: f64) {
    for f in &s.faults {
        for i in &f.injections {
            let a = scale.x(i.at);
            let b = i.healed.map_or(scale.right, |t| scale.x(t));
            let title = format!("{} {} from {}", f.kind, i.target, seconds(i.at));
            svg.titled(&title, |svg| {
                svg.rect("fault-band", a, 0.0, b - a, height);
            });
        }
    }
}

fn strokes(spans: &[Span], kinds: &[Kind], scale: &Scale, y: f64) -> String {
    let of = spans.iter().filter(|s| kinds.contains(&s.kind));
    columns(of.map(|s| (s.from, s.to)), scale, y)
}

/// Spans in order of their begin as strokes, in columns.
fn columns(spans: impl Iterator<Item = (u64, u64)>, scale: &Scale, y: f64) -> String {
    let mut d = String::new();
    let mut open: Option<(f64, f64)> = None;
    let mut put = |(a, b): (f64, f64)| {
        let _ = write!(d, "M{a:.1} {y:.0}h{:.1}", b - a);
    };
    for (from, to) in spans {
        let a = scale.x(from);
        let b = scale.x(to).max(a + COLUMN);
        match &mut open {
            Some((_, end)) if a <= *end => *end = end.max(b),
            _ => {
                if let Some(last) = open.replace((a, b)) {
                    put(last);
                }
            }
        }
    }
    if let Some(last) = open {
        put(last);
    }
    d
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_packed_in_a_few_bytes() {
        let bytes = |spans: &[(u8, u64, u64)]| URL_SAFE_NO_PAD.decode(pack(spans.iter().copied()));
        assert_eq!(
            bytes(&[(2, 5_000, 9_000), (1, 305_000, 305_000)]),
            Ok(vec![2, 5, 4, 1, 0xac, 2, 0])
        );
        // A begin before the last one, as in merged spans, does not wrap.
        assert_eq!(bytes(&[(0, 9_000, 1_000)]), Ok(vec![0, 9, 0]));
    }

    #[test]
    fn json_cannot_end_its_element() {
        let text = harmless(r#"{"a":"</script><!--&"}"#);
        assert!(!text.contains(['<', '>', '&']), "{text}");
        let back: serde_json::Value = serde_json::from_str(&text).expect("still JSON");
        assert_eq!(back["a"], "</script><!--&");
    }
}
