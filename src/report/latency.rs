//! Latencies of one run as histograms: one a kind of operation and phase.
//!
//! Owns what is measured ([`Measure`]), in which phase ([`Phase`]), and the figures that are shown. Memory does not
//! grow with the length of a run. Must not know events; `scan` feeds it, renderers read [`Figures`].
//!
//! Service time is what the client tells of a call ([`fencepost_checker::Value::ms`]), where it does; else it is as seen
//! at the driver, with the pipes between the two.
//!
//! Each histogram is an `HdrHistogram` (Gil Tene) in whole microseconds with three significant digits. What a call
//! that timed out would have taken is not known, only that it took at least so long: it is recorded at what was
//! waited and counted as censored, and a percentile at or past the shortest such wait is only a lower bound. (To
//! leave timeouts out would make the worst systems look best.) Nothing is corrected for coordinated omission
//! afterwards: with an open loop the intended start already does it, once.
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Longest latency that is kept apart, in µs: one hour. What took longer is counted as so long, and as cut.
const LONGEST_US: u64 = 3_600_000_000;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Service time of the try that got the lock, or that ended without a definite answer.
    Acquire,
    /// From the intended start (open loop), else from the first try, to the grant: what a user of the lock waits.
    AcquireWait,
    /// Service time of a try that was definitely refused.
    AcquireRefused,
    /// Service time of a release that was answered ok, or that ended without a definite answer.
    Release,
    /// Service time of a release that was refused: the lock was not held any more.
    ReleaseRefused,
    /// Service time of an extension, refused or not.
    Extend,
}

impl Measure {
    /// All, in the order of reports.
    pub const ALL: [Self; 6] = [
        Self::Acquire,
        Self::AcquireWait,
        Self::AcquireRefused,
        Self::Release,
        Self::ReleaseRefused,
        Self::Extend,
    ];

    /// Its name in files and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::AcquireWait => "acquire-wait",
            Self::AcquireRefused => "acquire-refused",
            Self::Release => "release",
            Self::ReleaseRefused => "release-refused",
            Self::Extend => "extend",
        }
    }
}

/// Where an operation lies with respect to the fault windows of its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// No fault window had begun when it ended.
    Before,
    /// It overlaps a fault window.
    During,
    /// No fault window was open, and one had been.
    After,
}

impl Phase {
    /// All, in the order of time.
    pub const ALL: [Self; 3] = [Self::Before, Self::During, Self::After];

    /// Its name in files and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::During => "during",
            Self::After => "after",
        }
    }
}

/// Durations in µs: those that are known, and those that are only lower bounds (censored).
#[derive(Debug, Clone, Default)]
pub struct Durations {
    all: Micros,
    censored: Micros,
    definite: Micros,
    /// How many took longer than is kept apart.
    cut: u64,
}

/// A histogram that grows with the range of its values, never with their number.
#[derive(Debug, Clone)]
struct Micros(Histogram<u64>);

impl Default for Micros {
    fn default() -> Self {
        match Histogram::<u64>::new(3) {
            Ok(h) => Self(h),
            // `new` refuses only a precision above five digits.
            Err(_) => unreachable!("three significant digits are allowed"),
        }
    }
}

impl Durations {
    /// Record a duration in ns; `censored`: it took at least so long.
    pub fn record(&mut self, ns: u64, censored: bool) {
        let us = (ns / 1_000).min(LONGEST_US);
        self.cut += u64::from(ns / 1_000 > LONGEST_US);
        let own = if censored {
            &mut self.censored
        } else {
            &mut self.definite
        };
        for histogram in [own, &mut self.all] {
            // `saturating_record` would not let the histogram grow; a value of at most an hour is never refused.
            let _ = histogram.0.record(us);
        }
    }

    /// The figures that are shown.
    pub fn figures(&self) -> Figures {
        Figures {
            count: self.all.0.len(),
            censored: self.censored.0.len(),
            cut: self.cut,
            mean_ms: self.all.0.mean() / 1e3,
            p50: self.at(0.5),
            p90: self.at(0.9),
            p99: self.at(0.99),
            p999: self.at(0.999),
            max: self.at(1.0),
        }
    }

    /// A percentile, and whether it is only a lower bound: the truth lies between the percentile with each censored
    /// duration as it was waited and the one with each of them infinite; where the two differ by more than a tenth,
    /// the first is a lower bound and is marked so.
    fn at(&self, q: f64) -> Figure {
        let us = self.all.0.value_at_quantile(q);
        let rank = q * self.all.0.len() as f64;
        let known = self.definite.0.len() as f64;
        let censored = !self.censored.0.is_empty()
            && (rank > known
                || self.definite.0.value_at_quantile(rank / known) as f64 > us as f64 * 1.1);
        // Of those that were cut it is known that they are the longest.
        let at_least = censored || rank > (self.all.0.len() - self.cut) as f64;
        Figure {
            ms: us as f64 / 1e3,
            at_least,
        }
    }

    /// The histogram of all durations, in µs, censored ones as they were waited.
    pub fn histogram(&self) -> &Histogram<u64> {
        &self.all.0
    }

    /// How many of the durations are lower bounds.
    pub fn censored(&self) -> u64 {
        self.censored.0.len()
    }

    /// How many took longer than the hour that is recorded of them.
    pub fn cut(&self) -> u64 {
        self.cut
    }

    /// Put another one's durations in too.
    pub fn merge(&mut self, other: &Self) {
        self.cut += other.cut;
        for (mine, theirs) in [
            (&mut self.all, &other.all),
            (&mut self.censored, &other.censored),
            (&mut self.definite, &other.definite),
        ] {
            // The histograms resize themselves, so an addition cannot be refused.
            let _ = mine.0.add(&theirs.0);
        }
    }
}

/// Percentiles of one histogram.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Number of durations, censored ones included.
    pub count: u64,
    /// Timeouts and other calls without a definite answer: lower bounds.
    pub censored: u64,
    /// Durations of more than an hour, each counted as one hour: lower bounds.
    #[serde(default)]
    pub cut: u64,
    /// Arithmetic mean in ms, censored ones as they were waited.
    pub mean_ms: f64,
    /// Median.
    pub p50: Figure,
    /// 90th percentile.
    pub p90: Figure,
    /// 99th percentile.
    pub p99: Figure,
    /// 99.9th percentile.
    pub p999: Figure,
    /// Largest.
    pub max: Figure,
}

/// That durations were cut, where any was.
pub fn cut_note(cut: u64) -> Option<String> {
    (cut > 0).then(|| {
        format!(
            "{cut} took longer than one hour, and {} recorded as one hour; ≥ marks a lower bound",
            if cut == 1 { "is" } else { "are" }
        )
    })
}

/// One percentile.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// In ms.
    pub ms: f64,
    /// Only a lower bound, because of censored durations.
    pub at_least: bool,
}

impl Figure {
    /// As text; `≥` (or `>=`) in front where it is only a lower bound.
    pub fn text(self, unicode: bool) -> String {
        let sign = match (self.at_least, unicode) {
            (false, _) => "",
            (true, true) => "≥",
            (true, false) => ">=",
        };
        format!("{sign}{}", number(self.ms))
    }
}

/// A duration in ms to three significant digits or whole ms: `0.184`, `12.3`, `1204`.
pub fn number(ms: f64) -> String {
    if ms < 10.0 {
        format!("{ms:.3}")
    } else if ms < 100.0 {
        format!("{ms:.1}")
    } else {
        format!("{ms:.0}")
    }
}

/// All histograms of a run.
#[derive(Debug, Clone, Default)]
pub struct Latencies(BTreeMap<(Measure, Phase), Durations>);

impl Latencies {
    /// Record a duration in ns.
    pub fn record(&mut self, measure: Measure, phase: Phase, ns: u64, censored: bool) {
        self.0
            .entry((measure, phase))
            .or_default()
            .record(ns, censored);
    }

    /// All histograms that hold anything, in the order of reports.
    pub fn iter(&self) -> impl Iterator<Item = (Measure, Phase, &Durations)> {
        self.0.iter().map(|((m, p), d)| (*m, *p, d))
    }

    /// One histogram; none where nothing was measured.
    pub fn get(&self, measure: Measure, phase: Phase) -> Option<&Durations> {
        self.0.get(&(measure, phase))
    }

    /// Put another run's in too.
    pub fn merge(&mut self, other: &Self) {
        for (measure, phase, durations) in other.iter() {
            self.0.entry((measure, phase)).or_default().merge(durations);
        }
    }

    /// One measure over all phases; none where nothing was measured.
    pub fn all_phases(&self, measure: Measure) -> Option<Durations> {
        let mut sum: Option<Durations> = None;
        for (_, _, d) in self.iter().filter(|(m, ..)| *m == measure) {
            sum.get_or_insert_with(Durations::default).merge(d);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_right_within_three_digits() {
        let mut d = Durations::default();
        for ms in 1..=1000_u64 {
            d.record(ms * 1_000_000, false);
        }
        let f = d.figures();
        assert_eq!(f.count, 1000);
        for (got, want) in [
            (f.p50, 500.0),
            (f.p90, 900.0),
            (f.p99, 990.0),
            (f.p999, 999.0),
            (f.max, 1000.0),
        ] {
            assert!((got.ms - want).abs() / want < 0.001, "{got:?} {want}");
            assert!(!got.at_least);
        }
    }

    #[test]
    fn a_timeout_stays_in_as_a_lower_bound() {
        let mut d = Durations::default();
        for _ in 0..98 {
            d.record(1_000_000, false);
        }
        d.record(500_000_000, true);
        d.record(500_000_000, true);
        let f = d.figures();
        assert_eq!((f.count, f.censored), (100, 2));
        assert_eq!(f.p50.text(true), "1.000");
        assert_eq!(f.p99.text(true), "≥500");
        assert_eq!(f.p99.text(false), ">=500");
    }

    #[test]
    fn a_short_censored_one_taints_only_what_it_can_move() {
        let mut d = Durations::default();
        for ms in 1..=1_000_u64 {
            d.record(ms * 1_000_000, false);
        }
        d.record(1_000, true);
        let f = d.figures();
        assert!(!f.p50.at_least && !f.p99.at_least);
        assert!(f.max.at_least, "it may have been the longest of all");
    }

    #[test]
    fn absurd_durations_do_not_cost_memory_or_panic() {
        let mut d = Durations::default();
        d.record(u64::MAX, true);
        let f = d.figures();
        assert!(f.max.ms <= 3_601_000.0);
        assert_eq!((f.cut, f.max.at_least), (1, true));
        assert!(d.histogram().distinct_values() < 40_000);
    }

    #[test]
    fn what_took_longer_than_an_hour_is_a_lower_bound_and_is_said() {
        let hour = 3_600_000_000_000;
        let mut d = Durations::default();
        for ns in [1_000_000, 1_000_000, hour, hour + 1_000] {
            d.record(ns, false);
        }
        let mut both = Durations::default();
        both.merge(&d);
        let f = both.figures();
        assert_eq!((f.count, f.censored, f.cut), (4, 0, 1));
        assert!(!f.p50.at_least && f.max.at_least, "{f:?}");
        let note = cut_note(f.cut).expect("it was cut");
        assert!(note.starts_with("1 took longer than one hour, and is recorded"));
        assert_eq!(cut_note(0), None);
    }

    #[test]
    fn phases_add_up() {
        let mut l = Latencies::default();
        l.record(Measure::Acquire, Phase::Before, 1_000_000, false);
        l.record(Measure::Acquire, Phase::During, 9_000_000, true);
        l.record(Measure::Release, Phase::After, 9_000_000, false);
        let all = l.all_phases(Measure::Acquire).map(|d| d.figures());
        assert_eq!(all.map(|f| (f.count, f.censored)), Some((2, 1)));
        assert!(l.all_phases(Measure::Extend).is_none());
    }
}
