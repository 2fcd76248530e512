//! Two systems under the same seeds: is the difference more than chance?
//!
//! Owns the paired tests and the correction for several of them. Must not know what a system is.
use super::random::SplitMix;
use statrs::function::beta::beta_reg;

/// Up to so many pairs that differ, every way of swapping them is looked at.
pub const EXHAUSTIVE: u32 = 15;
/// Beyond, so many are drawn. The p of draws counts the data itself among them, so that the test stays exact.
pub const DRAWS: u32 = 9_999;

/// What one system showed in one episode: an amount (findings, ms, …) over an exposure (grants, s, 1).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Episode {
    /// The amount.
    pub amount: f64,
    /// What it is counted over.
    pub exposure: f64,
}

/// Exact, two-sided, of paired yes-or-no outcomes: `only_a` episodes in which only A had a finding, `only_b` in which
/// only B had. Episodes in which both or neither had one say nothing of a difference.
pub fn mcnemar(only_a: u64, only_b: u64) -> f64 {
    let n = only_a + only_b;
    let k = only_a.min(only_b);
    if n == 0 || k * 2 >= n {
        return 1.0;
    }
    // P(Binomial(n, 1/2) ≤ k), twice.
    (2.0 * beta_reg((n - k) as f64, (k + 1) as f64, 0.5)).min(1.0)
}

/// Two-sided permutation test over the pairs: how often would the two overall rates differ as much as they do, were it a
/// matter of chance which system is called A in each episode? Each pair is one seed.
pub fn permutation(pairs: &[(Episode, Episode)]) -> f64 {
    let mut base = [Episode::default(); 2];
    let mut differing = Vec::new();
    for &(a, b) in pairs {
        if a == b {
            base = [sum(base[0], a), sum(base[1], b)];
        } else {
            differing.push((a, b));
        }
    }
    let gap = |swapped: &dyn Fn(usize) -> bool| {
        let mut totals = base;
        for (n, &(a, b)) in differing.iter().enumerate() {
            let (a, b) = if swapped(n) { (b, a) } else { (a, b) };
            totals = [sum(totals[0], a), sum(totals[1], b)];
        }
        (rate(totals[0]) - rate(totals[1])).abs()
    };
    let seen = gap(&|_| false);
    // Sums in another order differ in their last digits.
    let as_large = |other: f64| other >= seen * (1.0 - 1e-9);
    let n = differing.len() as u32;
    if n <= EXHAUSTIVE {
        let all = 1_u64 << n;
        let hits = (0..all)
            .filter(|mask| as_large(gap(&|i| mask >> i & 1 == 1)))
            .count();
        return hits as f64 / all as f64;
    }
    let mut random = SplitMix(u64::from(n));
    let mut bits = vec![false; differing.len()];
    let mut hits = 0;
    for _ in 0..DRAWS {
        for chunk in bits.chunks_mut(64) {
            let word = random.next();
            for (i, bit) in chunk.iter_mut().enumerate() {
                *bit = word >> i & 1 == 1;
            }
        }
        hits += u32::from(as_large(gap(&|i| bits[i])));
    }
    f64::from(hits + 1) / f64::from(DRAWS + 1)
}

pub(super) fn sum(a: Episode, b: Episode) -> Episode {
    Episode {
        amount: a.amount + b.amount,
        exposure: a.exposure + b.exposure,
    }
}

pub(super) fn rate(e: Episode) -> f64 {
    if e.exposure > 0.0 {
        e.amount / e.exposure
    } else {
        0.0
    }
}

/// The p-values of several tests, corrected so that the chance of even one false alarm among them stays at the level
/// that each is held against.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let mut corrected = vec![1.0; p.len()];
    let mut least: f64 = 0.0;
    for (rank, &i) in order.iter().enumerate() {
        least = least.max((p[i] * (p.len() - rank) as f64).min(1.0));
        corrected[i] = least;
    }
    corrected
}
