//! Histograms in the percentile format of `HdrHistogram`, which its plotter and many tools read.
//!
//! Owns `latency/<measure>-<phase>.hgrm` and `violations.hgrm` (lengths of overlaps), both in ms. Must not know what
//! was measured. The format is that of `outputPercentileDistribution` (Gil Tene's `HdrHistogram`): value,
//! percentile, total count, 1/(1−percentile), five steps a halving, then three lines of totals; lines that begin
//! with `#` are comments to its readers, so a last one tells what the file is.
use super::files::Rendered;
use super::latency::Durations;
use super::{Renderer, ReportError, Summary};
use std::fmt::Write as _;

/// Steps for each halving of the distance to 100 %.
const STEPS: u32 = 5;

/// The renderer.
#[derive(Debug, Clone, Copy)]
pub struct Hgrm;

impl Renderer for Hgrm {
    fn render(&self, summary: &Summary) -> Result<Vec<Rendered>, ReportError> {
        let mut files: Vec<Rendered> = summary
            .histograms
            .iter()
            .map(|(measure, phase, d)| {
                let name = format!("{}-{}", measure.name(), phase.name());
                let about = format!("{} {} a fault window, ms", measure.name(), phase.name());
                Rendered::new(format!("latency/{name}.hgrm"), text(&about, d))
            })
            .collect();
        if let Some(overlap) = &summary.overlap {
            let about = format!(
                "length of overlaps between two holders, ms; {} of {} violations",
                overlap.figures.count, overlap.violations
            );
            files.push(Rendered::new(
                "violations.hgrm",
                text(&about, &summary.overlaps),
            ));
        }
        Ok(files)
    }
}

/// One histogram.
fn text(about: &str, durations: &Durations) -> String {
    let h = durations.histogram();
    let ms = |us: f64| us / 1e3;
    let mut out = format!(
        "{:>12} {:>14} {:>10} {:>14}\n\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    );
    let mut seen = 0;
    for step in h.iter_quantiles(STEPS) {
        let quantile = step.quantile_iterated_to();
        let value = ms(step.value_iterated_to() as f64);
        seen += step.count_since_last_iteration();
        let _ = if quantile < 1.0 {
            let inverse = 1.0 / (1.0 - quantile);
            writeln!(
                out,
                "{value:>12.3} {quantile:>2.12} {seen:>10} {inverse:>14.2}"
            )
        } else {
            writeln!(out, "{value:>12.3} {quantile:>2.12} {seen:>10}")
        };
    }
    let _ = write!(
        out,
        "#[Mean    = {:>12.3}, StdDeviation   = {:>12.3}]\n\
         #[Max     = {:>12.3}, Total count    = {:>12}]\n\
         #[Buckets = {:>12}, SubBuckets     = {:>12}]\n\
         #[{about}; {} censored, each at what was waited; {} longer than one hour, each as one hour]\n",
        ms(h.mean()),
        ms(h.stdev()),
        ms(h.max() as f64),
        h.len(),
        h.buckets(),
        2048,
        durations.censored(),
        durations.cut(),
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_that_of_hdrhistogram() {
        let mut d = Durations::default();
        for ms in 1..=100 {
            d.record(ms * 1_000_000, false);
        }
        let text = text("test", &d);
        let rows: Vec<Vec<f64>> = text
            .lines()
            .filter(|l| !l.starts_with('#') && !l.contains("Value") && !l.is_empty())
            .map(|l| {
                l.split_whitespace()
                    .filter_map(|n| n.parse().ok())
                    .collect()
            })
            .collect();
        assert!(rows.len() > 10, "{text}");
        assert!(
            rows.windows(2)
                .all(|w| w[0][0] <= w[1][0] && w[0][1] <= w[1][1] && w[0][2] <= w[1][2]),
            "{text}"
        );
        let last = rows.last().map(Vec::as_slice).unwrap_or_default();
        assert_eq!((last[1], last[2], last.len()), (1.0, 100.0, 3), "{text}");
        assert!((last[0] - 100.0).abs() < 0.1);
        let half = rows
            .iter()
            .find(|r| r[1] >= 0.5)
            .map(|r| (r[0] * 10.0).round() / 10.0);
        assert_eq!(half, Some(50.0), "{text}");
        assert!(text.contains("Total count    =          100]"), "{text}");
    }

    #[test]
    fn an_empty_histogram_is_still_a_file() {
        assert!(text("nothing", &Durations::default()).contains("Total count    =            0]"));
    }
}
