//! Draws one finding as a small time line: who asked, was promised, believed; what failed; what the servers did.
//!
//! Owns the drawing, in cells. Must not know where it is shown: [`draw`] gives lines of painted cells, which
//! `terminal` colours and `markdown` prints plain. All rows share one axis of time:
//!
//! ```text
//! time, s            1.000     1.500     2.000     2.500     3.000
//!                    ├─────────┼─────────┼─────────┼─────────┤
//! A c1/0             ·╞══════════════════╡░░░░░░░░░░░░░░◆
//! B c2/0                                   ·╞════════════════→
//! overlap                                    ▓▓▓▓▓▓▓▓▓▓▓▓ 600 ms
//! client-pause c1      ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒
//! n1                   1                   2             3
//! ```
use super::evidence::{Mark, marks};
use super::latency::number;
use super::sanitise::{clip, columns};
use super::windows::FaultSummary;
use fencepost_checker::{Finding, SectionView};

/// Sections, faults and marks drawn at most.
const ROWS_MAX: usize = 6;
/// Widest label.
const LABEL_MAX: usize = 24;

/// What a cell means; renderers choose its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    /// Text.
    Plain,
    /// Axis and acquire in flight.
    Faint,
    /// The lease's promise.
    Promise,
    /// Belief beyond the promise.
    Beyond,
    /// Two at once.
    Overlap,
    /// A fault window.
    Fault,
    /// Something that a server, or a client, was seen to do.
    Event,
}

/// One drawn line, as runs of one paint.
pub type Line = Vec<(Paint, String)>;

/// The characters of a drawing.
struct Glyphs {
    flight: char,
    grant: char,
    promise: char,
    lease_end: char,
    beyond: char,
    let_go: char,
    died: char,
    overlap: char,
    fault: char,
    on: char,
    axis: [char; 4],
}

const UNICODE: Glyphs = Glyphs {
    flight: '·',
    grant: '╞',
    promise: '═',
    lease_end: '╡',
    beyond: '░',
    let_go: '◆',
    died: '✝',
    overlap: '▓',
    fault: '▒',
    on: '→',
    axis: ['├', '─', '┼', '┤'],
};

const ASCII: Glyphs = Glyphs {
    flight: '.',
    grant: '[',
    promise: '=',
    lease_end: ']',
    beyond: '-',
    let_go: 'R',
    died: 'X',
    overlap: '#',
    fault: '~',
    on: '>',
    axis: ['+', '-', '+', '+'],
};

/// The key to the drawing, in two lines.
pub fn legend(unicode: bool) -> [String; 2] {
    let g = if unicode { &UNICODE } else { &ASCII };
    [
        format!(
            "{} acquire in flight  {}{} granted, promised  {} lease ends  {} believed beyond it",
            g.flight, g.grant, g.promise, g.lease_end, g.beyond
        ),
        format!(
            "{} let go  {} died  {} two at once  {} fault  {} goes on  1 an event, listed below",
            g.let_go, g.died, g.overlap, g.fault, g.on
        ),
    ]
}

/// Draw a finding, `width` columns wide.
pub fn draw(finding: &Finding, faults: &[FaultSummary], width: usize, unicode: bool) -> Vec<Line> {
    let marks = marks(finding);
    let Some((from, to)) = range(finding, &marks) else {
        return listed(&marks);
    };
    let rows = bands(finding, faults, &marks, from, to);
    let label = rows
        .iter()
        .map(|r| columns(&r.label))
        .max()
        .unwrap_or_default()
        .clamp(7, LABEL_MAX);
    let scale = Scale {
        from,
        to,
        columns: width.saturating_sub(label + 1).max(20),
        glyphs: if unicode { &UNICODE } else { &ASCII },
    };
    let mut lines: Vec<Line> = scale.axis(label);
    lines.extend(rows.iter().map(|r| scale.row(r, label)));
    lines.extend(listed(&marks));
    let more = finding.evidence.len().saturating_sub(marks.len());
    if more > 0 {
        lines.push(vec![(
            Paint::Faint,
            format!("… {more} more events in verdict.json"),
        )]);
    }
    lines
}

fn listed(marks: &[Mark]) -> Vec<Line> {
    let line = |m: &Mark| {
        vec![
            (Paint::Event, format!("{} ", m.number)),
            (Paint::Plain, m.text.clone()),
        ]
    };
    marks.iter().map(line).collect()
}

/// The part of time that is drawn: from the first request to the last mark. A belief that lasts far longer than
/// everything else would press the rest into one column; it is cut and goes on.
fn range(finding: &Finding, marks: &[Mark]) -> Option<(u64, u64)> {
    let sections = finding.sections.iter().take(ROWS_MAX);
    let from = sections
        .clone()
        .map(|s| s.acquire_invoke)
        .chain(marks.iter().map(|m| m.time))
        .min()?;
    let mut to = finding.at;
    for s in sections.clone() {
        to = to.max(s.acquire_return);
    }
    for m in marks {
        to = to.max(m.time);
    }
    for limit in [4, 2] {
        let far = to.saturating_add(to.saturating_sub(from).saturating_mul(limit).max(1_000_000));
        for s in sections.clone() {
            for end in [s.promise_end, s.belief_end].into_iter().flatten() {
                if end <= far {
                    to = to.max(end);
                }
            }
        }
    }
    let span = to.saturating_sub(from).max(100_000);
    Some((from.saturating_sub(span / 50), to.saturating_add(span / 25)))
}

/// One row before it is drawn: painted spans of time, then single marks.
struct Band {
    label: String,
    spans: Vec<(u64, Option<u64>, Paint, Glyph)>,
    points: Vec<(u64, Paint, Glyph)>,
    note: String,
}

/// Which glyph a span or mark has.
#[derive(Clone, Copy)]
enum Glyph {
    Flight,
    Grant,
    Promise,
    LeaseEnd,
    Beyond,
    LetGo,
    Died,
    Overlap,
    Fault,
    Number(char),
}

fn bands(
    finding: &Finding,
    faults: &[FaultSummary],
    marks: &[Mark],
    from: u64,
    to: u64,
) -> Vec<Band> {
    let mut bands: Vec<Band> = finding
        .sections
        .iter()
        .take(ROWS_MAX)
        .map(|s| section(s, finding))
        .collect();
    if let Some((start, end)) = overlap(finding) {
        bands.push(Band {
            label: String::from("overlap"),
            spans: vec![(start, end, Paint::Overlap, Glyph::Overlap)],
            points: Vec::new(),
            note: finding
                .overlap_ns
                .map_or_else(String::new, |ns| format!("{} ms", number(ns as f64 / 1e6))),
        });
    }
    let injections = faults
        .iter()
        .flat_map(|f| f.injections.iter().map(move |i| (f, i)));
    let shown = injections.filter(|(_, i)| i.at <= to && i.healed.is_none_or(|h| h >= from));
    bands.extend(shown.take(ROWS_MAX).map(|(f, i)| Band {
        label: clip(&format!("{} {}", f.kind, i.target), LABEL_MAX),
        spans: vec![(i.at, i.healed, Paint::Fault, Glyph::Fault)],
        points: Vec::new(),
        note: String::new(),
    }));
    let mut rows: Vec<Band> = Vec::new();
    for m in marks {
        let label = clip(&m.row, LABEL_MAX);
        let point = (m.time, Paint::Event, Glyph::Number(m.number));
        match rows.iter_mut().find(|r| r.label == label) {
            Some(row) => row.points.push(point),
            None => rows.push(Band {
                label,
                spans: Vec::new(),
                points: vec![point],
                note: String::new(),
            }),
        }
    }
    bands.extend(rows);
    bands
}

fn section(s: &SectionView, finding: &Finding) -> Band {
    let mut band = Band {
        label: clip(&format!("{} {}/{}", s.label, s.client, s.worker), LABEL_MAX),
        spans: vec![
            (
                s.acquire_invoke,
                Some(s.acquire_return),
                Paint::Faint,
                Glyph::Flight,
            ),
            (
                s.acquire_return,
                s.promise_end,
                Paint::Promise,
                Glyph::Promise,
            ),
        ],
        points: vec![(s.acquire_return, Paint::Promise, Glyph::Grant)],
        note: String::new(),
    };
    if let Some(promised) = s.promise_end
        && s.belief_end.is_none_or(|b| b > promised)
    {
        band.spans
            .push((promised, s.belief_end, Paint::Beyond, Glyph::Beyond));
        band.points
            .push((promised, Paint::Promise, Glyph::LeaseEnd));
    }
    if let Some(end) = s.belief_end {
        let died = finding.evidence.iter().any(|e| {
            let is = |name: &str, what: &str| e.get(name).and_then(|v| v.as_str()) == Some(what);
            is("f", "death")
                && is("client", &s.client)
                && e.get("time").and_then(serde_json::Value::as_u64) == Some(end)
        });
        let glyph = if died { Glyph::Died } else { Glyph::LetGo };
        band.points.push((end, Paint::Beyond, glyph));
    }
    band
}

/// The time in which A and another held at once: by their promises, or by their beliefs where the promises do not
/// meet. None where the finding is no overlap.
fn overlap(finding: &Finding) -> Option<(u64, Option<u64>)> {
    finding.overlap_ns?;
    let (a, rest) = finding.sections.split_first()?;
    let b = rest.first()?;
    let start = a.acquire_return.max(b.acquire_return);
    let meet = |x: Option<u64>, y: Option<u64>| match (x, y) {
        (Some(x), Some(y)) => Some(x.min(y)),
        (one, other) => one.or(other),
    };
    let promised = meet(a.promise_end, b.promise_end);
    if finding.check != "overrun" && promised.is_none_or(|end| end > start) {
        return Some((start, promised));
    }
    let believed = meet(a.belief_end, b.belief_end);
    believed
        .is_none_or(|end| end > start)
        .then_some((start, believed))
}

/// Time in s with so many decimals.
fn time(ns: u64, decimals: usize) -> String {
    let fraction = format!("{:09}", ns % 1_000_000_000);
    format!("{}.{}", ns / 1_000_000_000, &fraction[..decimals])
}

/// The shared axis.
struct Scale {
    from: u64,
    to: u64,
    columns: usize,
    glyphs: &'static Glyphs,
}

impl Scale {
    /// The column of a time, within the drawing.
    fn column(&self, at: u64) -> usize {
        let at = at.clamp(self.from, self.to) - self.from;
        let span = u128::from((self.to - self.from).max(1));
        (u128::from(at) * (self.columns as u128 - 1) / span) as usize
    }

    fn glyph(&self, glyph: Glyph) -> char {
        let g = self.glyphs;
        match glyph {
            Glyph::Flight => g.flight,
            Glyph::Grant => g.grant,
            Glyph::Promise => g.promise,
            Glyph::LeaseEnd => g.lease_end,
            Glyph::Beyond => g.beyond,
            Glyph::LetGo => g.let_go,
            Glyph::Died => g.died,
            Glyph::Overlap => g.overlap,
            Glyph::Fault => g.fault,
            Glyph::Number(n) => n,
        }
    }

    /// Two lines: times, and the axis itself.
    fn axis(&self, label: usize) -> Vec<Line> {
        let span = self.to - self.from;
        let decimals = match span {
            0..10_000_000 => 6,
            10_000_000..100_000_000 => 4,
            _ => 3,
        };
        let pad = " ".repeat(label + 1);
        let mut times = format!("{:<1$}", "time, s", label + 1);
        let ticks = (self.columns / 16).clamp(2, 8);
        let mut line: Vec<char> = vec![self.glyphs.axis[1]; self.columns];
        for n in 0..=ticks {
            let column = n * (self.columns - 1) / ticks;
            line[column] = self.glyphs.axis[if n == 0 {
                0
            } else if n == ticks {
                3
            } else {
                2
            }];
            let at = self.from + (u128::from(span) * n as u128 / ticks as u128) as u64;
            let text = time(at, decimals);
            // The last one ends with the axis; the others begin at their tick.
            let start = label
                + 1
                + if n == ticks {
                    (column + 1).saturating_sub(text.len())
                } else {
                    column
                };
            if times.len() <= start && (n == 0 || times.len() < start) {
                times = format!("{times:<start$}{text}");
            }
        }
        vec![
            vec![(Paint::Faint, times)],
            vec![(
                Paint::Faint,
                format!("{pad}{}", line.into_iter().collect::<String>()),
            )],
        ]
    }

    fn row(&self, band: &Band, label: usize) -> Line {
        let mut cells = vec![(Paint::Plain, ' '); self.columns];
        for &(start, end, paint, glyph) in &band.spans {
            let first = self.column(start);
            let last = end.map_or(self.columns - 1, |e| self.column(e)).max(first);
            if start > self.to || end.is_some_and(|e| e < self.from) {
                continue;
            }
            for cell in &mut cells[first..=last] {
                *cell = (paint, self.glyph(glyph));
            }
            if end.is_none_or(|e| e > self.to) {
                cells[self.columns - 1] = (paint, self.glyphs.on);
            }
        }
        for &(at, paint, glyph) in &band.points {
            if (self.from..=self.to).contains(&at) {
                let mut column = self.column(at);
                // Events that fall into one column stand side by side.
                while matches!(glyph, Glyph::Number(_))
                    && column + 1 < self.columns
                    && cells[column].1 != ' '
                {
                    column += 1;
                }
                cells[column] = (paint, self.glyph(glyph));
            }
        }
        self.note(&mut cells, &band.note);
        let name = clip(&band.label, label);
        let pad = " ".repeat(label.saturating_sub(columns(&name)) + 1);
        let mut line = vec![(Paint::Plain, format!("{name}{pad}"))];
        for (paint, c) in cells {
            match line.last_mut() {
                Some((p, text)) if *p == paint => text.push(c),
                _ => line.push((paint, c.to_string())),
            }
        }
        line
    }

    /// Put a note behind the last drawn cell, or in front of the first where there is no room.
    fn note(&self, cells: &mut [(Paint, char)], note: &str) {
        let n = note.chars().count();
        let Some(first) = cells.iter().position(|c| c.1 != ' ') else {
            return;
        };
        let last = cells.iter().rposition(|c| c.1 != ' ').unwrap_or(first);
        let start = if last + 2 + n <= self.columns {
            last + 2
        } else if first > n {
            first - n - 1
        } else {
            return;
        };
        for (cell, c) in cells[start..].iter_mut().zip(note.chars()) {
            *cell = (Paint::Overlap, c);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::{MS, findings, section};

    fn plain(finding: &Finding, width: usize, unicode: bool) -> Vec<String> {
        draw(finding, &[], width, unicode)
            .into_iter()
            .map(|line| line.into_iter().map(|(_, text)| text).collect::<String>())
            .collect()
    }

    #[test]
    fn a_belief_without_end_goes_on_and_presses_nothing() {
        let [mut f, _] = findings();
        f.sections[0].belief_end = Some(3_600_000 * MS);
        f.sections[1] = section("B", "c2", [3_230, 3_231, 0, 0]);
        let lines = plain(&f, 80, true);
        assert!(
            lines[2].ends_with('→') && lines[3].ends_with('→'),
            "{lines:#?}"
        );
        assert!(lines[2].matches('═').count() > 20, "{lines:#?}");
    }

    #[test]
    fn a_finding_without_sections_or_events_is_no_drawing() {
        let [mut f, _] = findings();
        f.sections.clear();
        f.evidence.clear();
        assert!(plain(&f, 80, true).is_empty());
    }

    #[test]
    fn events_of_one_moment_stand_side_by_side() {
        let [mut f, _] = findings();
        f.evidence = vec![f.evidence[0].clone(); 12];
        let lines = plain(&f, 80, true);
        assert!(lines.iter().any(|l| l.contains("123456789")), "{lines:#?}");
        assert!(
            lines.iter().any(|l| l.contains("3 more events")),
            "{lines:#?}"
        );
    }

    proptest::proptest! {
        #[test]
        fn any_times_can_be_drawn(
            times in proptest::collection::vec(proptest::prelude::any::<(u64, u64, Option<u64>, Option<u64>)>(), 0..9),
            small in proptest::collection::vec((0..99_u64, 0..99_u64, proptest::option::of(0..99_u64), proptest::option::of(0..99_u64)), 0..9),
            at in proptest::prelude::any::<u64>(),
            width in 0..200_usize,
            unicode in proptest::prelude::any::<bool>(),
        ) {
            let [mut f, _] = findings();
            f.at = at;
            for times in [times, small] {
                f.sections = times
                    .iter()
                    .map(|&(acquire_invoke, acquire_return, promise_end, belief_end)| SectionView {
                        acquire_invoke,
                        acquire_return,
                        promise_end,
                        belief_end,
                        ..section("A", "c1", [0; 4])
                    })
                    .collect();
                let lines = plain(&f, width, unicode);
                for line in lines.iter().take_while(|l| !l.starts_with('1')) {
                    proptest::prop_assert!(columns(line.trim_end()) <= width.max(20 + LABEL_MAX + 1), "{line}");
                }
            }
        }
    }
}
