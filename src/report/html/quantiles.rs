//! Quantiles of many durations in little memory: what a column of a chart needs, hundreds of times over.
//!
//! Owns [`Quantiles`]: counts by value in steps of 1/64 of a power of two, so an answer is at most 1.6 % low. Must not
//! know time. The figures that are quoted come from the histograms of `latency`; these are for drawing.
use std::collections::BTreeMap;

/// Steps in a power of two, as a power of two.
const FINE: u32 = 6;

/// Durations in µs.
#[derive(Debug, Default)]
pub struct Quantiles {
    counts: BTreeMap<u16, u32>,
    count: u64,
    max_us: u64,
}

impl Quantiles {
    /// Record a duration in ns.
    pub fn record(&mut self, ns: u64) {
        let us = ns / 1_000;
        let n = self.counts.entry(slot(us)).or_default();
        *n = n.saturating_add(1);
        self.count += 1;
        self.max_us = self.max_us.max(us);
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest, in ms.
    pub fn max(&self) -> f64 {
        self.max_us as f64 / 1e3
    }

    /// The value at a share of the count, in ms.
    pub fn at(&self, q: f64) -> f64 {
        let rank = (q * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (slot, n) in &self.counts {
            seen += u64::from(*n);
            if seen >= rank {
                return value(*slot) as f64 / 1e3;
            }
        }
        self.max()
    }
}

fn slot(us: u64) -> u16 {
    let bits = 64 - us.leading_zeros();
    let shift = bits.saturating_sub(FINE + 1);
    ((u64::from(shift) << FINE) + (us >> shift)) as u16
}

fn value(slot: u16) -> u64 {
    let slot = u64::from(slot);
    let shift = (slot >> FINE).saturating_sub(1);
    (slot - (shift << FINE)) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_comes_back_within_a_step() {
        for us in (0..200_000).chain([u64::MAX / 1_000, 3_600_000_000]) {
            let back = value(slot(us));
            assert!(back <= us && us - back <= us / 64, "{us} {back}");
        }
    }

    #[test]
    fn quantiles_of_a_thousand() {
        let mut q = Quantiles::default();
        (1..=1_000_u64).for_each(|ms| q.record(ms * 1_000_000));
        assert_eq!((q.count(), q.max()), (1_000, 1_000.0));
        assert!((q.at(0.5) - 500.0).abs() < 8.0 && (q.at(0.99) - 990.0).abs() < 16.0);
    }
}
