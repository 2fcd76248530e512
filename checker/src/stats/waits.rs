//! Work that waits for a network, a disk or a timer and goes on in a pause: the chance that a pause outlasts the slack.
//!
//! Owns its computation. Must not know where the numbers come from. No pause begins in another, so pauses and running take
//! turns: with h(τ) the chance of an overrun for a process that runs with τ of its work to go, and the slack τ + l,
//! `h'(τ) = λ (G(τ) − h(τ))` with `G(τ) = P(X > l + τ) + ∫₀^τ h(τ − x) dF(x)`, from h(0) = 0 (a renewal argument: Feller,
//! An Introduction to Probability Theory II, ch. XI). It is solved in steps, in which G is constant, for a row of work times;
//! between them the factor counts by which it is less than if pauses overlapped, `1 − exp(−λ ∫₀^W P(X > l + τ) dτ)`.
use super::lengths::Law;

/// Work times in the row, and steps of each.
const ROW: usize = 160;
const STEPS: usize = 200;
/// Fewer pauses than this in a section are as good as none that could overlap.
const RARE: f64 = 1e-6;

/// The factors by work time.
pub(super) struct Waits {
    step: f64,
    factors: Vec<f64>,
}

impl Waits {
    /// For work of up to `longest` (s), at most the slack.
    pub(super) fn new(pauses: &Law, rate: f64, longest: f64, slack: f64) -> Self {
        let step = longest / ROW as f64;
        let mut factors = vec![1.0; ROW + 1];
        if rate * longest > RARE {
            for (n, factor) in factors.iter_mut().enumerate().skip(1) {
                let work = step * n as f64;
                let apart = overlapping(pauses, rate, work, slack);
                if apart > 0.0 {
                    let turns = by_turns(pauses, rate, work, slack);
                    *factor = (turns / apart).clamp(0.0, 1.0);
                }
            }
        }
        Self { step, factors }
    }

    /// The chance of a section of this work.
    pub(super) fn chance(&self, pauses: &Law, rate: f64, work: f64, slack: f64) -> f64 {
        let at = if self.step > 0.0 {
            (work / self.step).min(ROW as f64)
        } else {
            0.0
        };
        let (below, part) = (at as usize, at.fract());
        let high = self.factors[(below + 1).min(ROW)];
        let factor = self.factors[below] * (1.0 - part) + high * part;
        factor * overlapping(pauses, rate, work, slack)
    }
}

/// If a pause could begin in another.
fn overlapping(pauses: &Law, rate: f64, work: f64, slack: f64) -> f64 {
    -(-rate * pauses.between(slack - work, slack)).exp_m1()
}

fn by_turns(pauses: &Law, rate: f64, work: f64, slack: f64) -> f64 {
    let (left, step) = (slack - work, work / STEPS as f64);
    let at = |n: usize| step * n as f64;
    let shares: Vec<f64> = (0..STEPS)
        .map(|n| pauses.beyond(at(n)) - pauses.beyond(at(n + 1)))
        .collect();
    let stays = (-rate * step).exp();
    let mut h = vec![0.0; STEPS + 1];
    for n in 0..STEPS {
        let outlasts = pauses.between(left + at(n), left + at(n + 1)) / step;
        let again: f64 = shares[..n]
            .iter()
            .zip(h[1..=n].iter().rev())
            .map(|(s, h)| s * h)
            .sum();
        h[n + 1] = h[n] * stays + (1.0 - stays) * (outlasts + again).min(1.0);
    }
    h[STEPS]
}
