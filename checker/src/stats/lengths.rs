//! Distributions of durations: given as a formula, or as what was observed.
//!
//! Owns their tails and means. Must not know what the durations are of.

/// Parts, by value and by chance each, into which a formula is cut for a sum over it.
const PARTS: usize = 1_000;

/// A distribution of durations in seconds.
#[derive(Debug, Clone, PartialEq)]
pub enum Lengths {
    /// Always the same.
    Fixed(f64),
    /// Uniform between two.
    Uniform(f64, f64),
    /// Exponential with this mean.
    Exponential(f64),
    /// As observed: each of these is as likely.
    Observed(Vec<f64>),
}

/// Lengths, ready to be asked.
pub(super) struct Law {
    /// Samples are in order.
    pub lengths: Lengths,
    /// Of samples: the sum of the first i.
    sums: Vec<f64>,
}

impl Law {
    pub(super) fn of(lengths: &Lengths) -> Self {
        let mut lengths = match lengths {
            // A density that has no width.
            Lengths::Exponential(mean) if *mean <= 0.0 => Lengths::Fixed(0.0),
            other => other.clone(),
        };
        let mut sums = vec![0.0];
        if let Lengths::Observed(all) = &mut lengths {
            all.sort_by(f64::total_cmp);
            let mut sum = 0.0;
            sums.extend(all.iter().map(|v| {
                sum += v;
                sum
            }));
        }
        Self { lengths, sums }
    }

    /// How many samples it is known from.
    pub(super) fn samples(&self) -> Option<usize> {
        match &self.lengths {
            Lengths::Observed(all) if !all.is_empty() => Some(all.len()),
            _ => None,
        }
    }

    /// P(X > x).
    pub(super) fn beyond(&self, x: f64) -> f64 {
        if x < 0.0 {
            return 1.0;
        }
        match &self.lengths {
            Lengths::Fixed(d) => f64::from(u8::from(*d > x)),
            Lengths::Uniform(low, high) if x < *low || high <= low => f64::from(u8::from(*low > x)),
            Lengths::Uniform(low, high) => ((high - x) / (high - low)).clamp(0.0, 1.0),
            Lengths::Exponential(mean) => (-x / mean).exp(),
            Lengths::Observed(all) => {
                let beyond = all.len() - all.partition_point(|&v| v <= x);
                beyond as f64 / all.len().max(1) as f64
            }
        }
    }

    /// The integral of P(X > x) from `a` to `b`.
    pub(super) fn between(&self, a: f64, b: f64) -> f64 {
        if let Lengths::Exponential(mean) = self.lengths {
            return mean * ((-a / mean).exp() - (-b / mean).exp());
        }
        (self.capped(b) - self.capped(a)).max(0.0)
    }

    /// E min(X, t).
    fn capped(&self, t: f64) -> f64 {
        match &self.lengths {
            Lengths::Fixed(d) => d.min(t),
            Lengths::Exponential(mean) => mean * -(-t / mean).exp_m1(),
            Lengths::Uniform(low, high) if t <= *low || high <= low => t.min(*low),
            Lengths::Uniform(low, high) => {
                let to = t.min(*high);
                let inside = (to - low) * f64::midpoint(*low, to) / (high - low);
                inside + (high - to) * to / (high - low)
            }
            Lengths::Observed(all) => {
                let shorter = all.partition_point(|&v| v <= t);
                let longer = (all.len() - shorter) as f64;
                (self.sums[shorter] + t * longer) / all.len().max(1) as f64
            }
        }
    }

    /// The mean, and the mean of squares.
    pub(super) fn moments(&self) -> (f64, f64) {
        match &self.lengths {
            Lengths::Fixed(d) => (*d, d * d),
            Lengths::Exponential(mean) => (*mean, 2.0 * mean * mean),
            Lengths::Uniform(a, b) => (f64::midpoint(*a, *b), (a * a + a * b + b * b) / 3.0),
            Lengths::Observed(all) => {
                let mean = |of: fn(f64) -> f64| {
                    all.iter().copied().map(of).sum::<f64>() / all.len().max(1) as f64
                };
                (mean(|v| v), mean(|v| v * v))
            }
        }
    }

    /// Values with their shares. Of samples each value; of a formula the middles of parts below `slack`, and one above it.
    pub(super) fn points(&self, slack: f64) -> Vec<(f64, f64)> {
        match &self.lengths {
            Lengths::Fixed(d) => vec![(*d, 1.0)],
            Lengths::Uniform(low, high) if high <= low => vec![(*low, 1.0)],
            Lengths::Observed(all) => {
                let equals = all.chunk_by(|a, b| a.total_cmp(b).is_eq());
                equals
                    .map(|same| (same[0], same.len() as f64 / all.len() as f64))
                    .collect()
            }
            formula => {
                let quantile = |q: f64| match formula {
                    Lengths::Uniform(low, high) => low + (high - low) * q,
                    _ => -self.moments().0 * (-q).ln_1p(),
                };
                let parts = (0..=PARTS).map(|i| i as f64 / PARTS as f64);
                let mut ends: Vec<f64> = parts
                    .flat_map(|part| [slack * part, quantile(part)])
                    .filter(|v| *v <= slack)
                    .collect();
                ends.sort_by(f64::total_cmp);
                let inside = ends.windows(2).map(|e| {
                    let share = self.beyond(e[0]) - self.beyond(e[1]);
                    (f64::midpoint(e[0], e[1]), share)
                });
                let mut all: Vec<_> = inside.filter(|p| p.1 > 0.0).collect();
                all.push((slack * 2.0 + 1.0, self.beyond(slack)));
                all
            }
        }
    }
}
