//! Sums of as many pauses as chance has it: P(X₁ + … + Xₙ > x) with n from a Poisson.
//!
//! Owns their computation: in closed form for pauses of one length and for exponential ones, exact for a single pause,
//! else by convolution on a grid, which rounds a sum of several by about 0.2 % of the lease. Where more than 300 pauses are
//! to be expected in one section, their sum is taken as normal. Nothing is drawn.
use super::lengths::{Law, Lengths};
use statrs::function::erf::erfc;

/// Cells of the grid.
const GRID: usize = 600;
/// Above this mean number of pauses in one section their sum is taken as normal.
const MANY: f64 = 300.0;
/// A term of less weight says nothing in double precision.
const NOTHING: f64 = 1e-18;

/// How many pauses in one section are looked at, if this many are to be expected: what more come is below [`NOTHING`].
pub(super) fn poisson_terms(mean: f64) -> usize {
    if mean > MANY {
        return 0;
    }
    (mean + 10.0 * mean.sqrt() + 20.0) as usize
}

pub(super) struct Sums<'a> {
    pauses: &'a Law,
    step: f64,
    /// For two pauses, three, …: the share of sums below the edge of each cell. Where it ends, no sum fits the grid.
    below: Vec<Vec<f64>>,
}

impl<'a> Sums<'a> {
    /// Of up to `terms` pauses, as far as they fit `slack`.
    pub(super) fn of(pauses: &'a Law, terms: usize, slack: f64) -> Self {
        let step = slack / GRID as f64;
        let mut below = Vec::new();
        let closed = matches!(pauses.lengths, Lengths::Fixed(_) | Lengths::Exponential(_));
        if terms > 1 && step > 0.0 && !closed {
            let one = on_grid(pauses, step);
            let used: Vec<(usize, f64)> = (0..)
                .zip(one.iter().copied())
                .filter(|c| c.1 > 0.0)
                .collect();
            let mut sum = one.clone();
            for _ in 1..terms {
                let mut next = vec![0.0; GRID + 1];
                for &(by, share) in &used {
                    for (to, from) in next[by..].iter_mut().zip(&sum) {
                        *to += share * from;
                    }
                }
                sum = next;
                let mut total = 0.0;
                let edges = std::iter::once(0.0).chain(sum.iter().map(|share| {
                    total += share;
                    total
                }));
                below.push(edges.collect());
                if total < NOTHING {
                    break;
                }
            }
        }
        Self {
            pauses,
            step,
            below,
        }
    }

    /// The chance that a number of pauses with this mean sum up to more than `x`, which is not below 0.
    pub(super) fn beyond(&self, mean: f64, x: f64) -> f64 {
        if mean > MANY {
            let (one, square) = self.pauses.moments();
            let far = (x - mean * one) / (2.0 * mean * square).sqrt().max(f64::MIN_POSITIVE);
            return erfc(far) / 2.0;
        }
        let mut weight = (-mean).exp();
        let mut sum = 0.0;
        // Of exponential pauses: the sum of n is above x where fewer than n would have ended by then.
        let (mut term, mut fewer) = (1.0, 0.0);
        for n in 1.. {
            weight *= mean / f64::from(n);
            let beyond = if let Lengths::Exponential(one) = self.pauses.lengths {
                if n == 1 {
                    term = (-x / one).exp();
                } else {
                    term *= x / one / f64::from(n - 1);
                }
                fewer += term;
                fewer
            } else {
                self.of_number(n, x)
            };
            sum += weight * beyond;
            if f64::from(n) > mean && weight < NOTHING {
                break;
            }
        }
        sum.min(1.0)
    }

    fn of_number(&self, n: u32, x: f64) -> f64 {
        if let Lengths::Fixed(d) = self.pauses.lengths {
            return f64::from(u8::from(f64::from(n) * d > x));
        }
        if n == 1 {
            return self.pauses.beyond(x);
        }
        let Some(below) = self.below.get(n as usize - 2) else {
            return 1.0;
        };
        // A cell's share lies spread around its middle.
        let at = x / self.step + 0.5;
        let cell = (at as usize).min(GRID);
        let part = (at - cell as f64).clamp(0.0, 1.0);
        let fit = below[cell] + (below[cell + 1] - below[cell]) * part;
        (1.0 - fit).max(0.0)
    }
}

/// Shares at 0, `step`, 2 `step`, …: each value is divided between its two neighbours so that the mean stays.
fn on_grid(pauses: &Law, step: f64) -> Vec<f64> {
    let mut cells = vec![0.0; GRID + 1];
    for (value, share) in pauses.points(step * GRID as f64) {
        let at = value / step;
        let cell = at as usize;
        for (cell, part) in [(cell, 1.0 - at.fract()), (cell + 1, at.fract())] {
            if let Some(c) = cells.get_mut(cell) {
                *c += share * part;
            }
        }
    }
    cells
}
