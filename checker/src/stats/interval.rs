//! Two-sided intervals: exact ones of a share and of a rate, and of a ratio by the bootstrap.
//!
//! Owns the inversion of the tests, and the drawing. Must not know what is counted.
use super::paired::{Episode, rate, sum};
use super::random::SplitMix;
use statrs::distribution::{ContinuousCDF, Normal};
use statrs::function::beta::beta_reg;
use statrs::function::gamma::gamma_lr;

/// An interval of confidence.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// The value in [low, high] at which a rising function reaches `target`.
fn solve(mut low: f64, mut high: f64, target: f64, rising: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high {
            break;
        }
        if rising(middle) < target {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// P(X ≥ `least`) of a binomial: the tail from `least` on.
fn binomial_tail(least: u64, n: u64, p: f64) -> f64 {
    match (least, p) {
        (0, _) => 1.0,
        (k, _) if k > n => 0.0,
        (_, p) if p <= 0.0 => 0.0,
        (_, p) if p >= 1.0 => 1.0,
        (k, p) => beta_reg(k as f64, (n - k + 1) as f64, p),
    }
}

/// The share behind `k` of `n`, by Clopper and Pearson, at a two-sided `level` such as 0.95. Of nothing, nothing is known:
/// [0, 1].
///
/// # Panics
/// When `k` is more than `n`.
pub fn share(k: u64, n: u64, level: f64) -> Interval {
    assert!(k <= n, "{k} of {n}");
    let rest = (1.0 - level) / 2.0;
    Interval {
        low: if k == 0 {
            0.0
        } else {
            solve(0.0, 1.0, rest, |p| binomial_tail(k, n, p))
        },
        high: if k == n {
            1.0
        } else {
            solve(0.0, 1.0, 1.0 - rest, |p| binomial_tail(k + 1, n, p))
        },
    }
}

/// A mean of chances that is this near to 0 or 1 is that.
const NO_SPREAD: f64 = 1e-12;
/// Above this count the normal is as good.
const NORMAL: f64 = 1e5;

/// As [`share`], for `mean` of chances between 0 and 1 that were drawn `n` times, whose squares have the mean `squares`: a
/// sample of chances is worth as many of 0 and 1 as have its variance (Korn and Graubard, Survey Methodology 24, 1998). The
/// upper end counts no more than were drawn: those that were not may all be certain. A mean of 0 and 1 alone is [`share`].
pub(super) fn share_like(mean: f64, squares: f64, n: usize, level: f64) -> Interval {
    let rest = (1.0 - level) / 2.0;
    let drawn = n as f64;
    let variance = (squares - mean * mean).max(0.0) / drawn;
    let apart = mean * (1.0 - mean);
    // One sample, or none but 0 or 1, has no spread to go by.
    let worth = if n == 1 || apart < NO_SPREAD {
        drawn
    } else {
        (apart / variance).max(drawn)
    };
    let solved = |q: f64, a: f64, b: f64| solve(0.0, 1.0, q, |p| beta_reg(a, b, p.clamp(0.0, 1.0)));
    let (low, high) = (mean * worth, mean * drawn);
    Interval {
        low: if low <= 0.0 {
            0.0
        } else if low > NORMAL {
            let z = Normal::standard().inverse_cdf(1.0 - rest);
            (mean - z * variance.sqrt()).max(0.0)
        } else {
            solved(rest, low, worth - low + 1.0)
        },
        high: if drawn - high < NO_SPREAD * drawn {
            1.0
        } else {
            solved(1.0 - rest, high + 1.0, drawn - high)
        },
    }
}

/// The largest share that is consistent with 0 of `n`, one-sided: what "none seen" rules out.
pub fn share_one_sided(n: u64, level: f64) -> f64 {
    if n == 0 {
        return 1.0;
    }
    1.0 - (1.0 - level).powf(1.0 / n as f64)
}

/// From this count on the closed form is as good as the sums, which take ever longer.
const LARGE: u64 = 1_000_000;

/// The mean behind a count of `k`, by Garwood, at a two-sided `level`. Divide by the exposure for a rate. From a million on
/// by Wilson and Hilferty's approximation of the same (PNAS 17, 1931), which is right to six digits there.
pub fn poisson(k: u64, level: f64) -> Interval {
    let rest = (1.0 - level) / 2.0;
    if k >= LARGE {
        let z = Normal::standard().inverse_cdf(1.0 - rest);
        let cube = |k: f64, z: f64| k * (1.0 - 1.0 / (9.0 * k) + z / (3.0 * k.sqrt())).powi(3);
        return Interval {
            low: cube(k as f64, -z),
            high: cube(k as f64 + 1.0, z),
        };
    }
    // P(Poisson(m) ≥ k) is the regularised lower incomplete gamma function of k at m.
    let at_least = |k: u64, m: f64| if k == 0 { 1.0 } else { gamma_lr(k as f64, m) };
    let far = 40.0 + 3.0 * k as f64 + 20.0 * (k as f64).sqrt();
    Interval {
        low: if k == 0 {
            0.0
        } else {
            solve(1e-12, far, rest, |m| at_least(k, m))
        },
        high: solve(1e-12, far, 1.0 - rest, |m| at_least(k + 1, m)),
    }
}

/// As [`poisson`], for the whole of a weighted count: `k` is what it would be with equal weights, and no whole number.
pub(super) fn poisson_like(k: f64, level: f64) -> Interval {
    Interval {
        low: gamma_spread(k, k, level).low,
        high: gamma_spread(k + 1.0, k + 1.0, level).high,
    }
}

/// The middle of a gamma distribution of this mean and variance.
pub(super) fn gamma_spread(mean: f64, variance: f64, level: f64) -> Interval {
    let rest = (1.0 - level) / 2.0;
    let shape = mean * mean / variance;
    if mean <= 0.0 || !shape.is_finite() {
        return Interval {
            low: mean,
            high: mean,
        };
    }
    let at = |q: f64| {
        if shape >= LARGE as f64 {
            let z = Normal::standard().inverse_cdf(q);
            return mean * (1.0 - 1.0 / (9.0 * shape) + z / (3.0 * shape.sqrt())).powi(3);
        }
        let far = 40.0 + 3.0 * shape + 20.0 * shape.sqrt();
        solve(1e-12, far, q, |x| gamma_lr(shape, x)) * variance / mean
    };
    Interval {
        low: at(rest),
        high: at(1.0 - rest),
    }
}

/// Fewer episodes than this say too little of their own spread.
const EPISODES_MIN: usize = 6;
/// Times that the episodes are drawn anew.
const DRAWS: usize = 9_999;

/// An interval of all amounts over all exposures, by the percentile bootstrap over episodes (Efron and Tibshirani, An
/// Introduction to the Bootstrap, 1993, chapter 13), at a two-sided `level`: no shape is assumed of a measure, only that
/// episodes are independent. With twenty of them it is somewhat too short, by a tenth. None for fewer than six episodes.
///
/// The draws are the same for the same number of episodes, so equal data have equal intervals.
pub fn ratio(episodes: &[Episode], level: f64) -> Option<Interval> {
    if episodes.len() < EPISODES_MIN {
        return None;
    }
    let n = episodes.len() as u64;
    let mut random = SplitMix(n);
    let mut ratios: Vec<f64> = (0..DRAWS)
        .map(|_| {
            // By the high half of a product, as unbiased as any need here (Lemire, 2019).
            let mut draw = || ((u128::from(random.next()) * u128::from(n)) >> 64) as usize;
            let drawn = episodes.iter().map(|_| episodes[draw()]);
            rate(drawn.fold(Episode::default(), sum))
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    let rest = (1.0 - level) / 2.0;
    let at = |q: f64| ratios[((q * DRAWS as f64) as usize).min(DRAWS - 1)];
    Some(Interval {
        low: at(rest),
        high: at(1.0 - rest),
    })
}
