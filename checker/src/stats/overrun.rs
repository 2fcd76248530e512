//! How often will a critical section outlast its lease, given how long it works and how its process pauses?
//!
//! Owns the model and its arithmetic. Must not know where the numbers come from. Pauses begin at random (a Poisson
//! process of rate λ) while the process runs, and may hit a section of work W. What the lock itself costs, from the
//! stamped invoke to the grant, is taken off the slack by whoever asks.
//!
//! Work that computes stands still in a pause: with N ~ Poisson(λW) pauses of lengths X it overruns if they and W together
//! outlast the slack, `P = E_W Σ P(N = n) · P(X₁ + … + Xₙ > slack − W)`. The terms n = 0 and 1 are exact; the rest, in
//! which several pauses hit one section, is drawn.
//!
//! Work that waits (for a network, a disk, a timer) goes on: it overruns if a pause that began at u < W lasts beyond the
//! slack, `P = E_W [1 − exp(−λ ∫₀^W P(X > slack − u) du)]`, pauses within pauses left out.
use super::interval::{Interval, poisson};
use super::random::SplitMix;

/// Draws for each term of two and more pauses, and for each work time.
const DRAWS: u32 = 400;
/// Terms looked at; the chance of more pauses in one section is counted as overrun.
const TERMS: u32 = 6;
/// Points that stand for a distribution: the middles of as many parts of equal chance.
const POINTS: usize = 200;

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

impl Lengths {
    /// The value below which the share `q` lies.
    fn quantile(&self, q: f64) -> f64 {
        match self {
            Self::Fixed(d) => *d,
            Self::Uniform(low, high) => low + (high - low) * q,
            Self::Exponential(mean) => -mean * (1.0 - q).ln(),
            Self::Observed(all) => {
                let at = (q * all.len() as f64) as usize;
                all.get(at.min(all.len().saturating_sub(1)))
                    .copied()
                    .unwrap_or_default()
            }
        }
    }

    /// P(X > x).
    fn beyond(&self, x: f64) -> f64 {
        if x < 0.0 {
            return 1.0;
        }
        match self {
            Self::Fixed(d) => f64::from(u8::from(*d > x)),
            Self::Uniform(low, high) if x < *low || high <= low => f64::from(u8::from(*low > x)),
            Self::Uniform(low, high) => ((high - x) / (high - low)).clamp(0.0, 1.0),
            Self::Exponential(mean) => (-x / mean).exp(),
            Self::Observed(all) => {
                let beyond = all.iter().filter(|&&v| v > x).count();
                beyond as f64 / all.len().max(1) as f64
            }
        }
    }

    /// Points of equal weight that stand for it.
    fn points(&self) -> Vec<f64> {
        match self {
            Self::Fixed(d) => vec![*d],
            Self::Observed(all) if all.len() <= POINTS => all.clone(),
            _ => (0..POINTS)
                .map(|i| self.quantile((i as f64 + 0.5) / POINTS as f64))
                .collect(),
        }
    }
}

/// What is known of a lock's user.
#[derive(Debug, Clone, PartialEq)]
pub struct Habits {
    /// Time in the critical section.
    pub work: Lengths,
    /// Lengths of pauses.
    pub pauses: Lengths,
    /// Pauses a second of running.
    pub rate: f64,
    /// The work waits and goes on while the process is paused; else it computes, and stands still.
    pub waits: bool,
    /// Where the pauses were observed: for how long, s. Then the rate and the tail are known only so well.
    pub observed_s: Option<f64>,
}

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Overruns {
    /// Chance that a section overruns.
    pub chance: f64,
    /// 95 %: of the chance, from how often pauses long enough were observed; the chance itself where nothing was.
    pub known: Interval,
    /// 95 %: in how many of a million sections it will be seen.
    pub of_a_million: Interval,
}

/// The chance that a section outlasts `slack` (s), the time from its grant to the end of its lease.
pub fn overruns(habits: &Habits, slack: f64) -> Overruns {
    let mut sorted = habits.clone();
    for lengths in [&mut sorted.work, &mut sorted.pauses] {
        if let Lengths::Observed(all) = lengths {
            all.sort_by(f64::total_cmp);
        }
    }
    let chance = chance(&sorted, slack, 1.0);
    let known = match (&sorted.pauses, sorted.observed_s) {
        (Lengths::Observed(all), Some(_)) => {
            // Pauses that are long enough for the typical section: their number is what is uncertain.
            let typical = sorted.work.quantile(0.5);
            let long = all.iter().filter(|&&x| x > slack - typical).count() as u64;
            let counted = poisson(long, 0.95);
            if long == 0 {
                // None was long enough: at most as many as 0 of the observed time allows.
                let rate = counted.high / sorted.observed_s.unwrap_or(f64::INFINITY);
                Interval {
                    low: 0.0,
                    high: (1.0 - (-rate * mean(&sorted.work)).exp()).max(chance),
                }
            } else {
                let of = |n: f64| self::chance(&sorted, slack, n / long as f64);
                Interval {
                    low: of(counted.low),
                    high: of(counted.high),
                }
            }
        }
        _ => Interval {
            low: chance,
            high: chance,
        },
    };
    Overruns {
        chance,
        known,
        of_a_million: Interval {
            low: seen(known.low * 1e6, false),
            high: seen(known.high * 1e6, true),
        },
    }
}

fn mean(lengths: &Lengths) -> f64 {
    let points = lengths.points();
    points.iter().sum::<f64>() / points.len().max(1) as f64
}

fn chance(habits: &Habits, slack: f64, times: f64) -> f64 {
    let mut random = SplitMix(0x6f76_6572);
    let points = habits.work.points();
    let each = points.iter().map(|&work| {
        let left = slack - work;
        if left < 0.0 {
            return 1.0;
        }
        let mean = habits.rate * times * work;
        if habits.waits {
            let at = |i: usize| {
                habits
                    .pauses
                    .beyond(left + work * (1.0 - (i as f64 + 0.5) / POINTS as f64))
            };
            let long = (0..POINTS).map(at).sum::<f64>() / POINTS as f64;
            return 1.0 - (-mean * long).exp();
        }
        // P(N = n), from 0 on.
        let mut weight = (-mean).exp();
        let mut rest = 1.0 - weight;
        let mut sum = 0.0;
        for n in 1..TERMS {
            weight *= mean / f64::from(n);
            rest -= weight;
            sum += weight * several(&habits.pauses, n, left, &mut random);
        }
        sum + rest.max(0.0)
    });
    each.sum::<f64>() / points.len().max(1) as f64
}

/// `P(X₁ + … + X_n > left)`.
fn several(pauses: &Lengths, n: u32, left: f64, random: &mut SplitMix) -> f64 {
    if n == 1 {
        return pauses.beyond(left);
    }
    let mut sum = 0.0;
    for _ in 0..DRAWS {
        // All but the last are drawn; the last is exact.
        let drawn: f64 = (1..n)
            .map(|_| pauses.quantile((random.next() >> 11) as f64 / (1_u64 << 53) as f64))
            .sum();
        sum += pauses.beyond(left - drawn);
    }
    sum / f64::from(DRAWS)
}

/// The count that a Poisson of this mean stays above, or below, with 97.5 %.
fn seen(mean: f64, above: bool) -> f64 {
    if mean > 1e5 {
        let by = 1.96 * mean.sqrt();
        return if above { mean + by } else { mean - by }
            .clamp(0.0, 1e6)
            .round();
    }
    let (mut k, mut term) = (0.0, (-mean).exp());
    let mut below = term;
    // For large means the first terms vanish; walk in logarithms then.
    if term == 0.0 {
        let by = 1.96 * mean.sqrt();
        return if above { mean + by } else { mean - by }.max(0.0).round();
    }
    let target = if above { 0.975 } else { 0.025 };
    while below < target {
        k += 1.0;
        term *= mean / k;
        below += term;
    }
    k
}
