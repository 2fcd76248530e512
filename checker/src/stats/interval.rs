//! Exact two-sided intervals: of a share, of a rate, of a quantile.
//!
//! Owns the inversion of the tests. Must not know what is counted.
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

/// The largest share that is consistent with 0 of `n`, one-sided: what "none seen" rules out.
pub fn share_one_sided(n: u64, level: f64) -> f64 {
    if n == 0 {
        return 1.0;
    }
    1.0 - (1.0 - level).powf(1.0 / n as f64)
}

/// The mean behind a count of `k`, by Garwood, at a two-sided `level`. Divide by the exposure for a rate.
pub fn poisson(k: u64, level: f64) -> Interval {
    let rest = (1.0 - level) / 2.0;
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

/// An interval of a quantile of any distribution, from sorted independent values, by the order statistics that hold it
/// with at least this level; an end that no value gives is the value at the edge.
pub fn quantile_interval(sorted: &[f64], q: f64, level: f64) -> Option<Interval> {
    let (first, last) = (sorted.first()?, sorted.last()?);
    let n = sorted.len() as u64;
    let rest = (1.0 - level) / 2.0;
    // The number of values below the quantile is binomial(n, q).
    let low = (1..=n)
        .take_while(|&i| 1.0 - binomial_tail(i, n, q) <= rest)
        .last();
    let high = (1..=n).find(|&i| binomial_tail(i, n, q) <= rest);
    let at = |i: u64| sorted[(i - 1) as usize];
    Some(Interval {
        low: low.map_or(*first, at),
        high: high.map_or(*last, at),
    })
}
