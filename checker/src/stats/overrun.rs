//! How often will a critical section outlast its lease, given how long it works and how its process pauses?
//!
//! Owns the model. Must not know where the numbers come from. Pauses begin at random (a Poisson process of rate λ) while
//! the process runs, and may hit a section of work W. What the lock itself costs, from the stamped invoke to the grant, is
//! taken off the slack by whoever asks.
//!
//! Work that computes stands still in a pause: with N ~ Poisson(λW) pauses of lengths X it overruns if they and W together
//! outlast the slack, `P = E_W Σ P(N = n) · P(X₁ + … + Xₙ > slack − W)` ([`super::pauses`] has the sums).
//!
//! Work that waits (for a network, a disk, a timer) goes on: it overruns if a pause that began at u < W lasts beyond the
//! slack ([`super::waits`]).
//!
//! The interval. Samples are as they are. Observed work times, each with its own chance of an overrun, have Korn and
//! Graubard's ([`share_like`]: Clopper and Pearson's where each chance is 0 or 1). Observed pauses, each one arrival in the
//! time n/λ and worth what one more of its kind adds to the chance, have a gamma interval (Fay and Feuer, Statistics in
//! Medicine 16, 1997): Garwood's where all weights are equal, and its upper end counts one more of the largest weight, unseen.
//! So none seen still bounds the chance (3.7 of n). The two are joined as independent (MOVER: Zou and Donner, Statistics in
//! Medicine 27, 2008). Lengths given as a formula are known.
use super::interval::{Interval, gamma_spread, poisson_like, share_like};
use super::lengths::{Law, Lengths};
use super::pauses::{Sums, poisson_terms};
use super::waits::Waits;

/// Cells, by value, in which samples are gathered to see how much each weighs; only the interval rests on them.
const CELLS: usize = 300;
/// Confidence.
const LEVEL: f64 = 0.95;
/// Sections of which it is said how many will be seen to overrun.
const MILLION: f64 = 1e6;

/// What is known of a lock's user.
#[derive(Debug, Clone, PartialEq)]
pub struct Habits {
    /// Time in the critical section.
    pub work: Lengths,
    /// Lengths of pauses. Samples are taken as all that came in n/`rate` seconds.
    pub pauses: Lengths,
    /// Pauses a second of running.
    pub rate: f64,
    /// `rate` is the number of observed pauses over the time in which they came, so it is as unsure as that count; else it
    /// is known.
    pub counted: bool,
    /// The work waits and goes on while the process is paused; else it computes, and stands still.
    pub waits: bool,
}

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Overruns {
    /// Chance that a section overruns.
    pub chance: f64,
    /// 95 %: of the chance, as work times and pauses are but samples; the chance itself where both are formulas.
    pub known: Interval,
    /// 95 %: in how many of a million sections it will be seen.
    pub of_a_million: Interval,
}

/// The chance that a section outlasts `slack` (s), the time from its grant to the end of its lease.
pub fn overruns(habits: &Habits, slack: f64) -> Overruns {
    let (work, pauses) = (Law::of(&habits.work), Law::of(&habits.pauses));
    let works = work.points(slack);
    let at = |times: f64| Model::new(&pauses, &works, habits.rate * times, habits.waits, slack);
    let model = at(1.0);
    let each: Vec<f64> = works.iter().map(|&(w, _)| model.chance(w)).collect();
    let chance = weighted(&works, &each, |p| p);
    let (mut below, mut above) = (0.0_f64, 0.0_f64);
    let mut join = |i: Interval| {
        below = below.hypot((chance - i.low).max(0.0));
        above = above.hypot((i.high - chance).max(0.0));
    };
    if let Some(n) = work.samples() {
        let squares = weighted(&works, &each, |p| p * p);
        join(share_like(chance, squares, n, LEVEL));
    }
    if let Some(n) = pauses.samples() {
        let weights = Weights::of(
            &model,
            &work.gathered(slack),
            &pauses,
            habits.rate / n as f64,
        );
        let rate = if habits.counted {
            habits.rate * poisson_like(n as f64, LEVEL).high / n as f64
        } else {
            habits.rate
        };
        // As if each pause outlasted every lease: more than one that comes cannot do.
        let comes = |w: f64| {
            if w > slack {
                1.0
            } else {
                -(-rate * w).exp_m1()
            }
        };
        let most = works.iter().map(|&(w, share)| share * comes(w)).sum();
        let drawn = weights.interval(chance, |times| {
            let model = at(times);
            works
                .iter()
                .map(|&(w, share)| share * model.chance(w))
                .sum()
        });
        join(Interval {
            low: drawn.low,
            high: drawn.high.min(most),
        });
    }
    let known = Interval {
        low: (chance - below).max(0.0),
        high: (chance + above).min(1.0),
    };
    Overruns {
        chance,
        known,
        of_a_million: Interval {
            low: seen(known.low, false),
            high: seen(known.high, true),
        },
    }
}

fn weighted(works: &[(f64, f64)], each: &[f64], of: impl Fn(f64) -> f64) -> f64 {
    let sum: f64 = works.iter().zip(each).map(|(&(_, w), &p)| w * of(p)).sum();
    sum.min(1.0)
}

/// The chance of a section, given its work time.
struct Model<'a> {
    pauses: &'a Law,
    sums: Sums<'a>,
    rate: f64,
    waits: Option<Waits>,
    slack: f64,
}

impl<'a> Model<'a> {
    fn new(pauses: &'a Law, works: &[(f64, f64)], rate: f64, waits: bool, slack: f64) -> Self {
        let fits = works.iter().map(|&(w, _)| w).filter(|w| *w <= slack);
        let longest = fits.fold(0.0, f64::max);
        let terms = if waits {
            0
        } else {
            poisson_terms(rate * longest)
        };
        Self {
            pauses,
            sums: Sums::of(pauses, terms, slack),
            rate,
            waits: waits.then(|| Waits::new(pauses, rate, longest, slack)),
            slack,
        }
    }

    fn chance(&self, work: f64) -> f64 {
        let left = self.slack - work;
        if left < 0.0 {
            1.0
        } else if let Some(waits) = &self.waits {
            waits.chance(self.pauses, self.rate, work, self.slack)
        } else {
            self.sums.beyond(self.rate * work, left)
        }
    }

    /// What one more pause of length `x` for each second of running adds to the chance of a section of this work.
    fn adds(&self, work: f64, x: f64) -> f64 {
        let left = self.slack - work;
        if left < 0.0 {
            return 0.0;
        }
        let now = self.chance(work);
        if self.waits.is_some() {
            return (1.0 - now) * (x - left).clamp(0.0, work);
        }
        let then = if x > left {
            1.0
        } else {
            self.sums.beyond(self.rate * work, left - x)
        };
        work * (then - now).max(0.0)
    }
}

/// What the observed pauses weigh: sums of weights and of their squares, and the largest that one could have.
struct Weights {
    sum: f64,
    squares: f64,
    largest: f64,
}

impl Weights {
    /// `each` is the rate that one observed pause stands for.
    fn of(model: &Model, works: &[(f64, f64)], pauses: &Law, each: f64) -> Self {
        let weight = |x: f64| {
            let added = works.iter().map(|&(w, share)| share * model.adds(w, x));
            each * added.sum::<f64>()
        };
        let n = pauses.samples().unwrap_or_default() as f64;
        let (mut sum, mut squares) = (0.0, 0.0);
        for (x, share) in pauses.gathered(model.slack) {
            let one = weight(x);
            sum += share * n * one;
            squares += share * n * one * one;
        }
        Self {
            sum,
            squares,
            largest: weight(f64::INFINITY),
        }
    }

    /// Of a chance that is `at` another number of times the rate: as many pauses as matter are a count, and one that
    /// outlasts every lease may have been missed.
    fn interval(&self, chance: f64, at: impl Fn(f64) -> f64) -> Interval {
        let missed = gamma_spread(
            self.sum + self.largest,
            self.squares + self.largest * self.largest,
            LEVEL,
        );
        let more = (missed.high - self.sum).max(0.0);
        let with_missed = 1.0 - (1.0 - chance) * (-more).exp();
        if self.sum <= 0.0 || self.squares <= 0.0 {
            return Interval {
                low: 0.0_f64.max(chance),
                high: with_missed,
            };
        }
        let count = self.sum * self.sum / self.squares;
        let counted = poisson_like(count, LEVEL);
        Interval {
            low: at(counted.low / count),
            high: at(counted.high / count).max(with_missed),
        }
    }
}

impl Law {
    /// The samples gathered in cells by value up to `slack`, each with the share of all; what is longer is one cell.
    fn gathered(&self, slack: f64) -> Vec<(f64, f64)> {
        let mut cells = vec![(0.0, 0.0); CELLS + 1];
        for (value, share) in self.points(slack) {
            let at = if value > slack {
                CELLS
            } else {
                ((value / slack * CELLS as f64) as usize).min(CELLS - 1)
            };
            cells[at].0 += value * share;
            cells[at].1 += share;
        }
        cells.retain(|c| c.1 > 0.0);
        cells.into_iter().map(|(v, s)| (v / s, s)).collect()
    }
}

/// The count of a million, each with this chance, that is not passed with 97.5 %, upwards or downwards (binomial).
fn seen(chance: f64, above: bool) -> f64 {
    if chance > 0.5 {
        return MILLION - seen(1.0 - chance, !above);
    }
    let mean = chance * MILLION;
    // Large means: the first terms vanish, and the normal is as good.
    if mean > 700.0 {
        let by = 1.96 * (mean * (1.0 - chance)).sqrt();
        return if above { mean + by } else { mean - by }.round();
    }
    // Where so few are to be expected of so many, a Poisson.
    let (mut k, mut term) = (0.0, (-mean).exp());
    let mut below = term;
    let target = if above { 0.975 } else { 0.025 };
    while below < target {
        k += 1.0;
        term *= mean / k;
        below += term;
    }
    k
}
