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
use super::glyphs::{Glyph, Paint};
use super::latency::number;
use super::sanitise::{clip, columns};
use super::windows::FaultSummary;
use fencepost_checker::{Finding, SectionView};

/// Sections, faults and marks drawn at most.
const ROWS_MAX: usize = 6;
/// Widest label.
const LABEL_MAX: usize = 24;

/// One drawn line, as runs of one paint.
pub type Line = Vec<(Paint, String)>;

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
        unicode,
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
pub(super) fn range(finding: &Finding, marks: &[Mark]) -> Option<(u64, u64)> {
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
    spans: Vec<(u64, Option<u64>, Glyph)>,
    points: Vec<(u64, Glyph)>,
    note: String,
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
        .map(|s| section(s, faults))
        .collect();
    if let Some((start, end)) = overlap(finding) {
        bands.push(Band {
            label: String::from("overlap"),
            spans: vec![(start, Some(end), Glyph::Overlap)],
            points: Vec::new(),
            note: finding
                .overlap_ns
                .map_or_else(String::new, |ns| format!("{} ms", number(ns as f64 / 1e6))),
        });
    }
    if finding.overlap_ns.is_none() {
        bands.push(Band {
            label: clip(&finding.check, LABEL_MAX),
            spans: Vec::new(),
            points: vec![(finding.at, Glyph::Found)],
            note: String::new(),
        });
    }
    let injections = faults
        .iter()
        .flat_map(|f| f.injections.iter().map(move |i| (f, i)));
    let shown = injections.filter(|(_, i)| i.at <= to && i.healed.is_none_or(|h| h >= from));
    bands.extend(shown.take(ROWS_MAX).map(|(f, i)| Band {
        label: clip(&format!("{} {}", f.kind, i.target), LABEL_MAX),
        spans: vec![(i.at, i.healed, Glyph::Fault)],
        points: Vec::new(),
        note: String::new(),
    }));
    let mut rows: Vec<Band> = Vec::new();
    for m in marks {
        let label = clip(&m.row, LABEL_MAX);
        let point = (m.time, Glyph::Number(m.number));
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

fn section(s: &SectionView, faults: &[FaultSummary]) -> Band {
    let mut band = Band {
        label: clip(&format!("{} {}/{}", s.label, s.client, s.worker), LABEL_MAX),
        spans: vec![
            (s.acquire_invoke, Some(s.acquire_return), Glyph::Flight),
            (s.acquire_return, s.promise_end, Glyph::Promise),
        ],
        points: vec![(s.acquire_return, Glyph::Grant)],
        note: String::new(),
    };
    if let Some(promised) = s.promise_end
        && s.belief_end.is_none_or(|b| b > promised)
    {
        band.spans.push((promised, s.belief_end, Glyph::Beyond));
        band.points.push((promised, Glyph::LeaseEnd));
    }
    if let Some(end) = s.belief_end {
        let died = faults.iter().any(|f| killed(f, &s.client, end));
        let glyph = if died { Glyph::Died } else { Glyph::LetGo };
        band.points.push((end, glyph));
    }
    band
}

/// Whether a fault killed a client at that time: between the injecting call and the proof (a death is stamped before
/// the signal is sent).
pub(super) fn killed(fault: &FaultSummary, client: &str, at: u64) -> bool {
    matches!(fault.kind.as_str(), "client-kill" | "client-restart")
        && fault
            .injections
            .iter()
            .any(|i| i.target == client && i.at <= at && i.bit.is_none_or(|bit| at <= bit))
}

/// The time in which A and another held at once, as long as the finding says. None where it is no overlap.
///
/// It begins with the later grant, but for promises that were extended after a gap: there it begins when the finding
/// can first be said.
pub(super) fn overlap(finding: &Finding) -> Option<(u64, u64)> {
    let length = finding.overlap_ns?;
    let (a, rest) = finding.sections.split_first()?;
    let granted = a.acquire_return.max(rest.first()?.acquire_return);
    let meet = |end: fn(&SectionView) -> Option<u64>| {
        [end(a), end(&rest[0])]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(u64::MAX)
    };
    let end = meet(|s| s.promise_end).max(meet(|s| s.belief_end));
    let late = finding.at > granted && finding.at.saturating_add(length) <= end;
    let start = if late { finding.at } else { granted };
    Some((start, start.saturating_add(length)))
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
    unicode: bool,
}

impl Scale {
    /// The column of a time, within the drawing.
    fn column(&self, at: u64) -> usize {
        let at = at.clamp(self.from, self.to) - self.from;
        let span = u128::from((self.to - self.from).max(1));
        (u128::from(at) * (self.columns as u128 - 1) / span) as usize
    }

    fn cell(&self, glyph: Glyph) -> (Paint, char) {
        (glyph.paint(), glyph.char(self.unicode))
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
        let mut line = vec![Glyph::Axis; self.columns];
        for n in 0..=ticks {
            let column = n * (self.columns - 1) / ticks;
            line[column] = match n {
                0 => Glyph::AxisBegin,
                n if n == ticks => Glyph::AxisEnd,
                _ => Glyph::AxisTick,
            };
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
                format!(
                    "{pad}{}",
                    line.into_iter()
                        .map(|g| g.char(self.unicode))
                        .collect::<String>()
                ),
            )],
        ]
    }

    fn row(&self, band: &Band, label: usize) -> Line {
        let mut cells = vec![(Paint::Plain, ' '); self.columns];
        for &(start, end, glyph) in &band.spans {
            let first = self.column(start);
            let last = end.map_or(self.columns - 1, |e| self.column(e)).max(first);
            if start > self.to || end.is_some_and(|e| e < self.from) {
                continue;
            }
            for cell in &mut cells[first..=last] {
                *cell = self.cell(glyph);
            }
            if end.is_none_or(|e| e > self.to) {
                cells[self.columns - 1] = (glyph.paint(), Glyph::On.char(self.unicode));
            }
        }
        for &(at, glyph) in &band.points {
            if (self.from..=self.to).contains(&at) {
                let mut column = self.column(at);
                // Events that fall into one column stand side by side.
                while matches!(glyph, Glyph::Number(_))
                    && column + 1 < self.columns
                    && cells[column].1 != ' '
                {
                    column += 1;
                }
                cells[column] = self.cell(glyph);
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
    fn a_killed_holder_is_marked_as_dead() {
        use crate::report::windows::Injection;
        let [mut f, _] = findings();
        f.sections[0].belief_end = Some(2_000 * MS);
        f.sections[0].promise_end = Some(2_000 * MS);
        let mut kill = FaultSummary {
            fault: 0,
            kind: String::from("client-kill"),
            injected: 1,
            bit: 1,
            healed: 0,
            unproved: 0,
            never_fired: false,
            injections: vec![Injection {
                target: String::from("c1"),
                at: 1_999 * MS,
                bit: Some(2_001 * MS),
                ..Injection::default()
            }],
        };
        let row = |fault: &FaultSummary| {
            let lines = draw(&f, std::slice::from_ref(fault), 80, true);
            let line: String = lines[2].iter().map(|(_, text)| text.as_str()).collect();
            line.trim_end().to_owned()
        };
        assert!(row(&kill).ends_with('✝'), "{}", row(&kill));
        kill.injections[0].target = String::from("c2");
        assert!(row(&kill).ends_with('◆'), "{}", row(&kill));
    }

    #[test]
    fn an_overlap_is_as_long_as_it_is_said_to_be() {
        let [mut f, _] = findings();
        assert_eq!(overlap(&f), Some((3_231 * MS, 4_210 * MS)));
        // A's promise was extended at 4.100 s, after a gap in which B was granted.
        f.check = String::from("service");
        f.at = 4_100 * MS;
        f.overlap_ns = Some(100 * MS);
        assert_eq!(overlap(&f), Some((4_100 * MS, 4_200 * MS)));
        f.overlap_ns = None;
        assert_eq!(overlap(&f), None);
    }

    #[test]
    fn a_finding_without_sections_or_events_is_no_drawing() {
        let [mut f, _] = findings();
        f.sections.clear();
        f.evidence.clear();
        assert!(plain(&f, 80, true).is_empty());
    }

    #[test]
    fn a_finding_that_is_no_overlap_is_marked_where_it_is_found() {
        let [_, f] = findings();
        let lines = plain(&f, 80, true);
        let row = lines
            .iter()
            .find(|l| l.starts_with("ownership "))
            .map(|l| l.trim_end());
        assert!(row.is_some_and(|l| l.ends_with('▲')), "{lines:#?}");
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
