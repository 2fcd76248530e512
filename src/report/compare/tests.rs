//! The paired tests: every other system against the first, episode by episode of the same seed.
//!
//! Owns which tests are made and their correction. The formulas are the checker's.
use super::figures::{FIGURES, checks_found};
use super::{Comparison, Episode, System};
use fencepost_checker::stats;
use serde::Serialize;

/// One test.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Test {
    /// Which system against the first.
    pub system: String,
    /// What is compared.
    pub measure: String,
    /// `McNemar`, or `permutation`.
    pub kind: &'static str,
    /// Pairs of episodes.
    pub pairs: u64,
    /// `McNemar`: pairs in which only the first system had a finding.
    pub only_first: Option<u64>,
    /// `McNemar`: pairs in which only this one had.
    pub only_this: Option<u64>,
    /// Of one test by itself.
    pub p: f64,
    /// Corrected for the number of tests (Holm).
    pub corrected: f64,
}

/// All tests of a comparison, in the order of systems and measures.
pub fn tests(c: &Comparison) -> Vec<Test> {
    let Some((first, others)) = c.systems.split_first() else {
        return Vec::new();
    };
    let checks = checks_found(c);
    let mut all = Vec::new();
    for other in others {
        let pairs = pairs(first, other);
        for check in &checks {
            all.extend(of_check(other, check, &pairs));
        }
        for figure in FIGURES.iter().filter(|f| f.tested) {
            let values: Vec<_> = pairs
                .iter()
                .map(|(a, b)| ((figure.of)(a), (figure.of)(b)))
                .collect();
            if values.iter().any(|(a, b)| a.amount > 0.0 || b.amount > 0.0) {
                all.push(Test {
                    system: other.label.clone(),
                    measure: figure.name.to_owned(),
                    kind: "permutation",
                    pairs: values.len() as u64,
                    only_first: None,
                    only_this: None,
                    p: stats::permutation(&values),
                    corrected: 1.0,
                });
            }
        }
    }
    let p: Vec<f64> = all.iter().map(|t| t.p).collect();
    for (test, corrected) in all.iter_mut().zip(stats::holm(&p)) {
        test.corrected = corrected;
    }
    all
}

fn pairs<'a>(first: &'a System, other: &'a System) -> Vec<(&'a Episode, &'a Episode)> {
    let of = |seed| other.episodes.iter().find(|e| e.seed == seed);
    first
        .episodes
        .iter()
        .filter_map(|e| Some((e, of(e.seed)?)))
        .collect()
}

/// The two tests of one check: in how many episodes, and at what rate a grant.
fn of_check(other: &System, check: &str, pairs: &[(&Episode, &Episode)]) -> Vec<Test> {
    let judged: Vec<_> = pairs
        .iter()
        .filter_map(|(a, b)| {
            let (x, y) = (a.checks.get(check)?, b.checks.get(check)?);
            Some((
                (*a, x.judged()?, x.incidents),
                (*b, y.judged()?, y.incidents),
            ))
        })
        .collect();
    let only = |first: bool| {
        let only = judged.iter().filter(|(a, b)| a.1 == first && b.1 != first);
        only.count() as u64
    };
    let rate = |(e, _, incidents): (&Episode, bool, u64)| stats::Episode {
        amount: incidents as f64,
        exposure: e.grants as f64,
    };
    let rates: Vec<_> = judged.iter().map(|&(a, b)| (rate(a), rate(b))).collect();
    // What neither of them ever had is no question.
    if rates.iter().all(|(a, b)| a.amount + b.amount == 0.0) {
        return Vec::new();
    }
    let test = |measure: String, kind, only: Option<(u64, u64)>, p| Test {
        system: other.label.clone(),
        measure,
        kind,
        pairs: judged.len() as u64,
        only_first: only.map(|o| o.0),
        only_this: only.map(|o| o.1),
        p,
        corrected: 1.0,
    };
    let (a, b) = (only(true), only(false));
    vec![
        test(
            format!("{check}, episodes"),
            "McNemar",
            Some((a, b)),
            stats::mcnemar(a, b),
        ),
        test(
            format!("{check}, incidents a grant"),
            "permutation",
            None,
            stats::permutation(&rates),
        ),
    ]
}
