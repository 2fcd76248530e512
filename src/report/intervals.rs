//! Latencies second by second, as `HdrHistogram` interval logs, which its plotters read.
//!
//! Owns one histogram a second and measure, kept as the compressed bytes that the log holds, and
//! `latency/<measure>.hlog`. Must not know events: `scan` feeds it in the order of time. An operation belongs to the
//! second in which it ended, as a recorder that is read once a second would have it. Values are whole nanoseconds, as
//! those plotters expect; the column of maxima is in milliseconds.
use super::files::Rendered;
use super::latency::Measure;
use super::{Renderer, ReportError, Summary};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::IntervalLogWriterBuilder;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

/// Longest latency that is kept apart, in ns: one hour.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// What the column of maxima is divided by: ns in a ms.
const PER_MS: f64 = 1e6;

/// The renderer.
#[derive(Debug, Clone, Copy)]
pub struct IntervalLogs;

impl Renderer for IntervalLogs {
    fn render(&self, summary: &Summary) -> Result<Vec<Rendered>, ReportError> {
        let mut files = Vec::new();
        for measure in Measure::ALL {
            if let Some(text) = summary.intervals.log(measure) {
                let name = format!("latency/{}.hlog", measure.name());
                files.push(Rendered::new(name, text));
            }
        }
        Ok(files)
    }
}

/// One second of one measure.
#[derive(Debug, Clone)]
struct Interval {
    second: u64,
    measure: Measure,
    /// The histogram as it stands in the log, before base64.
    bytes: Vec<u8>,
}

/// All seconds of a run.
#[derive(Debug, Clone, Default)]
pub struct Intervals {
    second: u64,
    open: BTreeMap<Measure, Histogram<u64>>,
    done: Vec<Interval>,
}

impl Intervals {
    /// Record a duration in ns that ended at `at` ns since the start of the run.
    pub fn record(&mut self, at: u64, measure: Measure, ns: u64) {
        let second = at / 1_000_000_000;
        if second > self.second {
            self.flush();
            self.second = second;
        }
        let histogram = match self.open.entry(measure) {
            std::collections::btree_map::Entry::Occupied(there) => there.into_mut(),
            std::collections::btree_map::Entry::Vacant(free) => match Histogram::new(3) {
                Ok(histogram) => free.insert(histogram),
                // `new` refuses only a precision above five digits.
                Err(_) => return,
            },
        };
        // The histogram resizes itself; a value of at most an hour is never refused.
        let _ = histogram.record(ns.min(LONGEST_NS));
    }

    /// Nothing more comes in the second that is open.
    pub fn flush(&mut self) {
        for (measure, histogram) in std::mem::take(&mut self.open) {
            let mut bytes = Vec::new();
            // Writing to memory is not refused.
            if V2DeflateSerializer::new()
                .serialize(&histogram, &mut bytes)
                .is_ok()
            {
                self.done.push(Interval {
                    second: self.second,
                    measure,
                    bytes,
                });
            }
        }
    }

    /// The log of one measure; none where nothing was measured.
    fn log(&self, measure: Measure) -> Option<String> {
        let mine: Vec<&Interval> = self.done.iter().filter(|i| i.measure == measure).collect();
        if mine.is_empty() {
            return None;
        }
        let mut out = Vec::new();
        let mut serializer = V2DeflateSerializer::new();
        let mut builder = IntervalLogWriterBuilder::new();
        builder
            .add_comment("[Histogram log format version 1.3]")
            .add_comment(&format!(
                "fencepost: {}, ns, what took longer than one hour as one hour; one interval a second, times since the \
                 start of the run",
                measure.name()
            ))
            .with_start_time(UNIX_EPOCH)
            .with_base_time(UNIX_EPOCH)
            .with_max_value_divisor(PER_MS);
        let mut log = builder.begin_log_with(&mut out, &mut serializer).ok()?;
        for interval in mine {
            let read = Deserializer::new().deserialize(&mut interval.bytes.as_slice());
            let histogram: Histogram<u64> = read.ok()?;
            let start = Duration::from_secs(interval.second);
            log.write_histogram(&histogram, start, Duration::from_secs(1), None)
                .ok()?;
        }
        String::from_utf8(out).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    /// The intervals of a log: start in s, length in s, maximum as printed, histogram.
    pub fn read(text: &str) -> Vec<(f64, f64, f64, Histogram<u64>)> {
        let mut found = Vec::new();
        for entry in IntervalLogIterator::new(text.as_bytes()) {
            let LogEntry::Interval(interval) = entry.expect("an entry") else {
                continue;
            };
            let bytes = base64::engine::general_purpose::STANDARD
                .decode(interval.encoded_histogram())
                .expect("base64");
            let histogram = Deserializer::new()
                .deserialize(&mut bytes.as_slice())
                .expect("a histogram");
            found.push((
                interval.start_timestamp().as_secs_f64(),
                interval.duration().as_secs_f64(),
                interval.max(),
                histogram,
            ));
        }
        found
    }

    #[test]
    fn a_log_is_read_back_second_by_second() {
        let mut intervals = Intervals::default();
        let ms = 1_000_000;
        for (at, measure, took) in [
            (200 * ms, Measure::Acquire, 3 * ms),
            (900 * ms, Measure::Acquire, 5 * ms),
            (999 * ms, Measure::Release, ms),
            (2_500 * ms, Measure::Acquire, 250 * ms),
            (2_400 * ms, Measure::Acquire, u64::MAX),
        ] {
            intervals.record(at, measure, took);
        }
        intervals.flush();
        let text = intervals.log(Measure::Acquire).expect("a log");
        let head = "#[Histogram log format version 1.3]\n#fencepost: acquire, ns";
        assert!(text.starts_with(head), "{text}");
        let seen = read(&text);
        let starts: Vec<_> = seen.iter().map(|(s, l, _, h)| (*s, *l, h.len())).collect();
        assert_eq!(starts, [(0.0, 1.0, 2), (2.0, 1.0, 2)]);
        assert!((seen[0].2 - 5.0).abs() < 0.01, "in ms: {}", seen[0].2);
        assert!((seen[0].3.max() as f64 - 5e6).abs() < 5e3);
        assert!((seen[1].2 - 3.6e6).abs() < 4e3, "an hour at most");
        assert!(intervals.log(Measure::Extend).is_none());
    }

    #[test]
    fn the_logs_of_a_run_hold_what_its_histograms_hold() {
        use crate::report::fixture;
        let dir = tempfile::tempdir().expect("a folder");
        let verdict = fixture::verdict(true);
        let history = fixture::plain_del().text();
        fixture::folder(dir.path(), "", &history, &verdict);
        let summary = crate::report::summarise(dir.path()).expect("a summary");
        let files = IntervalLogs.render(&summary).expect("files");
        assert!(files.len() >= 3, "{files:?}");
        for measure in Measure::ALL {
            let all = summary.histograms.all_phases(measure);
            let name = format!("latency/{}.hlog", measure.name());
            let file = files.iter().find(|f| f.path.as_os_str() == name.as_str());
            assert_eq!(file.is_some(), all.is_some(), "{name}");
            let (Some(file), Some(all)) = (file, all) else {
                continue;
            };
            let intervals = read(&file.text);
            let count: u64 = intervals.iter().map(|(_, _, _, h)| h.len()).sum();
            assert_eq!(count, all.histogram().len(), "{name}");
            let longest = intervals
                .iter()
                .map(|(_, _, max, _)| *max)
                .fold(0.0, f64::max);
            let wanted = all.histogram().max() as f64 / 1e3;
            assert!(
                (longest - wanted).abs() <= wanted * 0.002 + 0.001,
                "{name}: {longest} {wanted}"
            );
            assert!(
                intervals.windows(2).all(|w| w[0].0 < w[1].0),
                "{name}: in order"
            );
        }
    }
}
