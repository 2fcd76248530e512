//! Statistics of many runs: how sure is a share, a rate, a difference?
//!
//! Owns the formulas and nothing else: numbers in, numbers out. Must not know runs, checks or words; `report` says what
//! they are of. The unit is the *episode*, one run with a seed of its own: operations inside of one are not independent
//! (a test on their totals calls 44 % of differences between equals significant at five findings a bad episode).
//!
//! | question | function | source |
//! |---|---|---|
//! | share of episodes with a finding | [`share`] | Clopper and Pearson, Biometrika 26 (1934) |
//! | rate over an exposure | [`poisson`] | Garwood, Biometrika 28 (1936) |
//! | a measure over an exposure | [`ratio`] | Efron and Tibshirani (1993), percentile bootstrap |
//! | two systems, the same seeds: in how many episodes? | [`mcnemar`] | `McNemar`, Psychometrika 12 (1947), exact |
//! | two systems, the same seeds: at what rate? | [`permutation`] | Fisher, The Design of Experiments (1935) |
//! | how often will a section outlast its lease? | [`overruns`] | pauses as a Poisson process; Fay and Feuer, Statistics in Medicine 16 (1997) |
//! | several such tests at once | [`holm`] | Holm, Scandinavian Journal of Statistics 6 (1979) |
//!
//! Exact tests are conservative: between equals the share with p ≤ α is at most α.
mod interval;
mod lengths;
mod overrun;
mod paired;
mod pauses;
mod random;
mod waits;

pub use interval::{Interval, poisson, ratio, share, share_one_sided};
pub use lengths::Lengths;
pub use overrun::{Habits, Overruns, overruns};
pub use paired::{DRAWS, EXHAUSTIVE, Episode, holm, mcnemar, permutation};

#[cfg(test)]
mod overrun_tests;
#[cfg(test)]
mod tests;
