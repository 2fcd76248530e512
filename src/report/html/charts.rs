//! Charts: latency quantiles and rates over time, histograms of latencies and of violations, stalls.
//!
//! Owns the pictures. Must not know a page. All charts over time share the axis of the time line. Logarithmic where
//! values span decades, and said so; empty columns are gaps, not zeros.
use super::quantiles::Quantiles;
use super::svg::{Anchor, Scale, Svg};
use super::timeline::{AXIS, LEFT, RIGHT, WIDTH, fault_bands};
use super::track::{Bin, Track};
use crate::report::latency::{Durations, Measure, Phase, number};
use crate::report::summary::Summary;
use crate::report::tables::{Table, seconds};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Height of a chart over time.
const HEIGHT: f64 = 120.0;
/// Columns a decade of a histogram.
const A_DECADE: f64 = 10.0;

fn time(s: &Summary) -> Scale {
    Scale {
        from: 0,
        to: s.history.end,
        left: LEFT,
        right: RIGHT,
    }
}

/// Axis of time, fault bands, and the name of the chart.
fn frame(svg: &mut Svg, s: &Summary, scale: &Scale) {
    fault_bands(svg, s, scale, HEIGHT);
    for (at, text) in scale.ticks(10) {
        let x = scale.x(at);
        svg.line("grid", (x, 0.0), (x, HEIGHT)).text(
            "tick",
            x,
            HEIGHT + 14.0,
            Anchor::Middle,
            &text,
        );
    }
    svg.name("tick", 2.0, HEIGHT + 14.0, Anchor::Start, "time, s")
        .line("axis", (LEFT, HEIGHT), (RIGHT, HEIGHT));
}

/// A chart over time, for a box that scrolls.
fn done(svg: Svg, label: &str) -> String {
    svg.finish("chart", WIDTH, HEIGHT + AXIS, label)
        .scrolled(LEFT, AXIS)
}

/// A logarithmic axis of ms upwards, over whole decades around the values.
struct Log {
    low: f64,
    high: f64,
}

impl Log {
    fn around(values: impl Iterator<Item = f64>) -> Option<Self> {
        let (mut low, mut high) = (f64::MAX, f64::MIN);
        for v in values.map(|v| v.max(0.001)) {
            low = low.min(v);
            high = high.max(v);
        }
        (low <= high).then(|| {
            let low = low.log10().floor();
            Self {
                low,
                high: high.log10().ceil().max(low + 1.0),
            }
        })
    }

    /// Each decade as a line with its value.
    fn draw(&self, svg: &mut Svg) {
        for decade in self.low as i32..=self.high as i32 {
            let ms = 10_f64.powi(decade);
            let y = self.y(ms);
            svg.line("grid", (LEFT, y), (RIGHT, y)).name(
                "tick",
                LEFT - 5.0,
                y + 3.5,
                Anchor::End,
                &format!("{} ms", plain(ms)),
            );
        }
    }

    /// The height of a value in a chart over time.
    fn y(&self, ms: f64) -> f64 {
        let share = (ms.max(0.001).log10() - self.low) / (self.high - self.low);
        HEIGHT - share.clamp(0.0, 1.0) * (HEIGHT - 8.0)
    }
}

/// `0.1`, `1`, `1000`.
fn plain(ms: f64) -> String {
    if ms < 1.0 {
        format!("{ms}")
    } else {
        format!("{ms:.0}")
    }
}

/// Which durations of a column a chart shows.
pub type Pick = fn(&Bin) -> &Quantiles;

/// p50, p99 and the longest of each column, as steps over time; none where nothing was measured.
pub fn latency_over_time(s: &Summary, track: &Track, pick: Pick, what: &str) -> Option<String> {
    let of: Vec<_> = track.bins.iter().map(pick).collect();
    let some = of.iter().filter(|q| q.count() > 0);
    let log = Log::around(some.flat_map(|q| [q.at(0.5), q.max()]))?;
    let scale = time(s);
    let mut svg = Svg::default();
    frame(&mut svg, s, &scale);
    log.draw(&mut svg);
    for (class, at) in [("q-max", 1.0), ("q-p99", 0.99), ("q-p50", 0.5)] {
        let values = of.iter().map(|q| {
            let ms = if at < 1.0 { q.at(at) } else { q.max() };
            (q.count() > 0).then(|| log.y(ms))
        });
        svg.path(class, &steps(&scale, track.bin_ns, values));
    }
    let label = format!("{what} over time, logarithmic: median, 99th percentile, longest");
    Some(done(svg, &label))
}

/// A line of steps with gaps.
fn steps(scale: &Scale, bin_ns: u64, values: impl Iterator<Item = Option<f64>>) -> String {
    let mut d = String::new();
    let mut before = None;
    for (n, y) in values.enumerate() {
        let a = scale.x(n as u64 * bin_ns);
        let b = scale.x((n as u64 + 1).saturating_mul(bin_ns));
        if let Some(y) = y {
            let _ = match before {
                Some(last) if last == format!("{y:.1}") => write!(d, "H{b:.1}"),
                Some(_) => write!(d, "V{y:.1}H{b:.1}"),
                None => write!(d, "M{a:.1} {y:.1}H{b:.1}"),
            };
        }
        before = y.map(|y| format!("{y:.1}"));
    }
    d
}

/// Something counted a second over time, as an area.
pub fn rate(s: &Summary, track: &Track, count: fn(&Bin) -> u64, what: &str) -> Option<String> {
    let per_s = |b: &Bin| count(b) as f64 * 1e9 / track.bin_ns as f64;
    let most = track.bins.iter().map(per_s).fold(0.0, f64::max);
    if most <= 0.0 {
        return None;
    }
    let top = nice(most);
    let scale = time(s);
    let mut svg = Svg::default();
    frame(&mut svg, s, &scale);
    for part in [0.5, 1.0] {
        let y = HEIGHT - part * (HEIGHT - 8.0);
        svg.line("grid", (LEFT, y), (RIGHT, y)).name(
            "tick",
            LEFT - 5.0,
            y + 3.5,
            Anchor::End,
            &format!("{} /s", plain_rate(top * part)),
        );
    }
    let height = |b: &Bin| HEIGHT - per_s(b) / top * (HEIGHT - 8.0);
    let line = steps(
        &scale,
        track.bin_ns,
        track.bins.iter().map(|b| Some(height(b))),
    );
    svg.path("area", &format!("{line}V{HEIGHT}H{LEFT}Z"))
        .path("area-line", &line);
    Some(done(svg, &format!("{what} a second over time")))
}

fn nice(most: f64) -> f64 {
    let power = 10_f64.powf(most.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|m| m * power)
        .find(|v| *v >= most)
        .unwrap_or(most)
}

fn plain_rate(v: f64) -> String {
    if v >= 10.0 {
        format!("{v:.0}")
    } else {
        format!("{v:.1}")
    }
}

/// Stalls of the machine as stems over time; none where there was none.
pub fn stalls(s: &Summary, track: &Track) -> Option<String> {
    let log = Log::around(track.stalls.iter().map(|s| s.1))?;
    let scale = time(s);
    let mut svg = Svg::default();
    frame(&mut svg, s, &scale);
    log.draw(&mut svg);
    for (at, ms) in &track.stalls {
        let (x, y) = (scale.x(*at), log.y(*ms));
        let title = format!("{} ms until {}", number(*ms), seconds(*at));
        svg.titled(&title, |svg| {
            svg.line("stem", (x, HEIGHT), (x, y))
                .diamond("stem-head", x, y, 2.5);
        });
    }
    Some(done(svg, "Stalls of the machine over time, logarithmic"))
}

/// One line or area of a histogram.
pub struct Series<'a> {
    /// Its class of colour.
    pub class: &'static str,
    /// Its durations.
    pub of: &'a Durations,
}

/// What a histogram shows upwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Up {
    /// How many.
    Count,
    /// Each series as a share of its own sum, so that few can be seen beside many.
    Share,
}

/// Histograms over a logarithmic axis of ms.
pub fn histogram(series: &[Series<'_>], up: Up, label: &str) -> Option<String> {
    const W: f64 = 370.0;
    const H: f64 = 90.0;
    const L: f64 = 40.0;
    const R: f64 = W - 8.0;
    let columns: Vec<BTreeMap<i32, u64>> = series.iter().map(|s| decades(s.of)).collect();
    let first = columns.iter().filter_map(|c| c.keys().next()).min()?;
    let last = columns.iter().filter_map(|c| c.keys().next_back()).max()?;
    let low = f64::from(*first).div_euclid(A_DECADE);
    let high = (f64::from(*last + 1) / A_DECADE).ceil().max(low + 1.0);
    let value = |counts: &BTreeMap<i32, u64>, n: u64| match up {
        Up::Count => n as f64,
        Up::Share => 100.0 * n as f64 / counts.values().sum::<u64>().max(1) as f64,
    };
    let all = columns
        .iter()
        .flat_map(|c| c.values().map(move |n| value(c, *n)));
    let (top, grain) = upwards(all.fold(0.0, f64::max), up);
    let x = |column: f64| L + (column / A_DECADE - low) / (high - low) * (R - L);
    let y = |value: f64| H - value / top * (H - 12.0);
    let mut svg = Svg::default();
    for (ms, text, anchor) in marks_of(low as i32, high as i32) {
        let at = x(ms.log10() * A_DECADE);
        svg.line("grid", (at, y(top)), (at, H))
            .text("tick", at, H + 14.0, anchor, &text);
    }
    for n in 0..=(top / grain).round() as u32 {
        let value = f64::from(n) * grain;
        let unit = if up == Up::Share { " %" } else { "" };
        let text = format!("{value:.0$}{unit}", usize::from(grain < 1.0));
        svg.line("grid", (L, y(value)), (R, y(value))).text(
            "tick",
            L - 5.0,
            y(value) + 3.5,
            Anchor::End,
            &text,
        );
    }
    svg.line("axis", (L, H), (R, H));
    for (s, counts) in series.iter().zip(&columns) {
        let mut d = format!("M{:.1} {H}", x(low * A_DECADE));
        for column in (low * A_DECADE) as i32..(high * A_DECADE) as i32 {
            let value = value(counts, counts.get(&column).copied().unwrap_or_default());
            let _ = write!(d, "V{:.1}H{:.1}", y(value), x(f64::from(column + 1)));
        }
        let _ = write!(d, "V{H}");
        svg.path(&format!("hist {}", s.class), &d);
    }
    Some(svg.finish("half", W, H + 20.0, label).alone())
}

/// The top of an axis upwards and the distance of its marks, both round: two to four marks above zero.
fn upwards(most: f64, up: Up) -> (f64, f64) {
    let least = if up == Up::Count { 1.0 } else { 0.1 };
    let grain = nice(most / 4.0).max(least);
    ((most / grain).ceil().max(1.0) * grain, grain)
}

/// How many of the durations fell into each column of their histogram, as rows: what, from, to, how many.
pub fn counted(what: &str, of: &Durations) -> Vec<Vec<String>> {
    let edge = |column: i32| number(10_f64.powf(f64::from(column) / A_DECADE));
    let rows = decades(of).into_iter().map(|(column, n)| {
        vec![
            what.to_owned(),
            edge(column),
            edge(column + 1),
            n.to_string(),
        ]
    });
    rows.collect()
}

/// The marks of a logarithmic axis: each decade, and 2 and 5 where there are few.
fn marks_of(low: i32, high: i32) -> Vec<(f64, String, Anchor)> {
    let mut marks = Vec::new();
    for decade in low..=high {
        let ms = 10_f64.powi(decade);
        let anchor = match decade {
            d if d == high => Anchor::End,
            d if d == low => Anchor::Start,
            _ => Anchor::Middle,
        };
        // The unit stands at both ends, where there is room for it.
        let inside = low < decade && decade < high;
        let unit = if inside { "" } else { " ms" };
        marks.push((ms, format!("{}{unit}", plain(ms)), anchor));
        if high - low <= 2 && decade < high {
            // Beside the last one, which has its unit, two decades leave no room for another.
            let crowded = |m: f64| m > 2.0 && high - low == 2 && decade == high - 1;
            let text = |m: f64| {
                if crowded(m) {
                    String::new()
                } else {
                    plain(m * ms)
                }
            };
            marks.extend([2.0, 5.0].map(|m| (m * ms, text(m), Anchor::Middle)));
        }
    }
    marks
}

/// Counts by column of a logarithmic axis of ms.
fn decades(of: &Durations) -> BTreeMap<i32, u64> {
    let mut columns = BTreeMap::new();
    for v in of.histogram().iter_recorded() {
        let ms = (v.value_iterated_to() as f64 / 1e3).max(0.001);
        let column = (ms.log10() * A_DECADE).floor() as i32;
        *columns.entry(column).or_default() += v.count_at_value();
    }
    columns
}

/// Latencies of one measure before, during and after faults.
pub fn phases(s: &Summary, measure: Measure) -> Option<String> {
    let mut series: Vec<Series<'_>> = Vec::new();
    for (m, phase, of) in s.histograms.iter() {
        if m == measure {
            let class = match phase {
                Phase::Before => "p-before",
                Phase::During => "p-during",
                Phase::After => "p-after",
            };
            series.push(Series { class, of });
        }
    }
    let label = format!(
        "Histogram of {} latency before, during and after faults, each in per cent of its own calls, logarithmic",
        measure.name()
    );
    histogram(&series, Up::Share, &label)
}

/// The figures behind the charts over time.
pub fn over_time(track: &Track) -> Table {
    let head = [
        "from",
        "grants",
        "refused",
        "unknown",
        "acquire p50, ms",
        "p99",
        "max",
        "wait p50, ms",
        "p99",
        "max",
    ];
    let mut t = Table {
        head: head.map(str::to_owned).to_vec(),
        rows: Vec::new(),
        figures_from: 0,
        figures: head.len(),
    };
    for (n, b) in track.bins.iter().enumerate() {
        if b.grants + b.refused + b.unknown == 0 {
            continue;
        }
        let mut row = vec![seconds(n as u64 * track.bin_ns)];
        row.extend([b.grants, b.refused, b.unknown].map(|n| n.to_string()));
        for q in [&b.acquire, &b.wait] {
            let cells = [q.at(0.5), q.at(0.99), q.max()];
            row.extend(cells.map(|ms| {
                if q.count() == 0 {
                    String::from("–")
                } else {
                    number(ms)
                }
            }));
        }
        t.rows.push(row);
    }
    t
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_upwards_ends_at_a_round_value_above_all() {
        for (most, up, want) in [
            (1.0, Up::Count, (1.0, 1.0)),
            (3.0, Up::Count, (3.0, 1.0)),
            (24.0, Up::Count, (30.0, 10.0)),
            (100.0, Up::Share, (100.0, 50.0)),
            (12.5, Up::Share, (15.0, 5.0)),
            (0.0, Up::Count, (1.0, 1.0)),
        ] {
            assert_eq!(upwards(most, up), want, "{most} {up:?}");
        }
    }

    #[test]
    fn a_histogram_has_its_counts_upwards_and_as_rows() {
        let mut of = Durations::default();
        for ms in [3, 3, 300, 310, 310] {
            of.record(ms * 1_000_000, false);
        }
        let class = "p-found";
        let svg = histogram(&[Series { class, of: &of }], Up::Count, "x").expect("a picture");
        for mark in 0..=3 {
            let text = format!(r#"text-anchor="end">{mark}</text>"#);
            assert!(svg.contains(&text), "{mark}: {svg}");
        }
        let rows = counted("x", &of);
        let rows: Vec<String> = rows.iter().map(|r| r[1..].join(" ")).collect();
        assert_eq!(rows, ["2.512 3.162 2", "251 316 3"]);
    }
}
