//! The formulas against published values, and the tests against many comparisons of equals.
use super::random::SplitMix;
use super::{
    Episode, Interval, holm, mcnemar, permutation, poisson, ratio, share, share_one_sided,
};

fn near(i: Interval, low: f64, high: f64, by: f64) {
    assert!(
        (i.low - low).abs() <= by && (i.high - high).abs() <= by,
        "{i:?} is not [{low}, {high}]"
    );
}

#[test]
fn poisson_intervals_are_the_published_ones() {
    // Garwood's table, as reprinted in most textbooks.
    near(poisson(0, 0.95), 0.0, 3.689, 0.001);
    near(poisson(1, 0.95), 0.0253, 5.572, 0.001);
    near(poisson(3, 0.95), 0.6187, 8.767, 0.001);
    near(poisson(10, 0.95), 4.795, 18.39, 0.005);
    near(poisson(100, 0.95), 81.36, 121.63, 0.01);
    near(poisson(100_000, 0.95), 99_381.0, 100_622.0, 2.0);
}

#[test]
fn shares_are_clopper_and_pearsons() {
    near(share(0, 20, 0.95), 0.0, 0.1684, 1e-4);
    near(share(1, 20, 0.95), 0.00127, 0.2487, 1e-4);
    near(share(10, 20, 0.95), 0.2720, 0.7280, 1e-4);
    near(share(20, 20, 0.95), 0.8316, 1.0, 1e-4);
    near(share(3, 3, 0.95), 0.2924, 1.0, 1e-4);
    near(share(0, 0, 0.95), 0.0, 1.0, 0.0);
    // None in 2,995,732: below one a million, one-sided.
    assert!((share_one_sided(2_995_732, 0.95) - 1e-6).abs() < 1e-12);
}

#[test]
fn a_large_count_has_the_same_interval_at_once() {
    let (below, from) = (poisson(999_999, 0.95), poisson(1_000_000, 0.95));
    near(from, below.low + 1.0, below.high + 1.0, 0.01);
    let all = poisson(u64::MAX, 0.95);
    assert!(all.low < 1.845e19 && all.high > 1.844e19 && all.low < all.high);
}

#[test]
fn a_ratio_lies_in_its_interval_and_few_episodes_have_none() {
    let episode = |amount: f64| Episode {
        amount,
        exposure: 1.0,
    };
    // One long outage among twenty episodes.
    let mut all = vec![episode(0.0); 19];
    all.push(episode(20.0));
    let i = ratio(&all, 0.95).expect("twenty");
    assert!(i.low == 0.0 && (2.0..=5.0).contains(&i.high), "{i:?}");
    assert_eq!(
        ratio(&all, 0.95),
        Some(i),
        "the same data, the same interval"
    );
    assert_eq!(ratio(&all[..5], 0.95), None);
    // How often it holds the mean of the values that it is drawn from: exponential ones, twenty at a time.
    let mut random = SplitMix(3);
    let mut exponential = || -((random.next() >> 11) as f64 / (1u64 << 53) as f64 + 1e-18).ln();
    let rounds = 300;
    let held = (0..rounds).filter(|_| {
        let drawn: Vec<Episode> = (0..20).map(|_| episode(exponential())).collect();
        ratio(&drawn, 0.95).is_some_and(|i| i.low <= 1.0 && 1.0 <= i.high)
    });
    let share = held.count() as f64 / f64::from(rounds);
    assert!((0.84..=0.97).contains(&share), "{share}");
}

#[test]
fn mcnemar_is_twice_the_binomial_tail() {
    for (a, b, p) in [
        (0, 0, 1.0),
        (5, 5, 1.0),
        (0, 5, 0.0625),
        (0, 6, 0.031_25),
        (1, 9, 0.021_484_375),
        (12, 2, 0.012_939_453_125),
        (3, 2, 1.0),
    ] {
        assert!(
            (mcnemar(a, b) - p).abs() < 1e-9,
            "{a} {b}: {}",
            mcnemar(a, b)
        );
        assert!((mcnemar(b, a) - p).abs() < 1e-9);
    }
}

#[test]
fn a_permutation_test_of_few_pairs_is_exact() {
    let e = |amount| Episode {
        amount,
        exposure: 1.0,
    };
    // Fisher's way with five pairs that all point one way: 2 of 32.
    let pairs: Vec<_> = (1..=5).map(|n| (e(f64::from(n)), e(0.0))).collect();
    assert!((permutation(&pairs) - 2.0 / 32.0).abs() < 1e-12);
    // Darwin's maize, in eighths of an inch (Fisher 1935, section 21): 1,726 of 32,768 sign changes are as large.
    let darwin = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48];
    let pairs: Vec<_> = darwin.iter().map(|&d| (e(f64::from(d)), e(0.0))).collect();
    let p = permutation(&pairs);
    assert!((p - 1_726.0 / 32_768.0).abs() < 1e-12, "{p}");
    assert!((permutation(&[]) - 1.0).abs() < 1e-12);
    assert!((permutation(&[(e(2.0), e(2.0))]) - 1.0).abs() < 1e-12);
}

#[test]
fn holm_is_holms() {
    let p = holm(&[0.01, 0.04, 0.03, 0.005]);
    for (got, want) in p.iter().zip([0.03, 0.06, 0.06, 0.02]) {
        assert!((got - want).abs() < 1e-12, "{p:?}");
    }
    assert_eq!(holm(&[0.6, 0.9]), [1.0, 1.0]);
    assert!(holm(&[]).is_empty());
}

/// Two systems that are the same: each episode is bad with one chance in five, and a bad one has about five findings.
fn equals(random: &mut SplitMix, episodes: usize) -> Vec<(Episode, Episode)> {
    let mut one = || {
        let uniform = |r: u64| (r >> 11) as f64 / (1_u64 << 53) as f64;
        let bad = uniform(random.next()) < 0.2;
        let findings = if bad {
            1.0 + (uniform(random.next()) * 9.0).floor()
        } else {
            0.0
        };
        Episode {
            amount: findings,
            exposure: 300.0 + (uniform(random.next()) * 100.0).floor(),
        }
    };
    (0..episodes).map(|_| (one(), one())).collect()
}

#[test]
fn equals_seldom_differ() {
    const COMPARISONS: u32 = 2_000;
    let mut random = SplitMix(1);
    let (mut by_episodes, mut by_rates) = (0, 0);
    for _ in 0..COMPARISONS {
        let pairs = equals(&mut random, 20);
        let only =
            |f: fn(&(Episode, Episode)) -> bool| pairs.iter().filter(|p| f(p)).count() as u64;
        let a = only(|(a, b)| a.amount > 0.0 && b.amount == 0.0);
        let b = only(|(a, b)| b.amount > 0.0 && a.amount == 0.0);
        by_episodes += u32::from(mcnemar(a, b) <= 0.05);
        // Only the pairs in which one is bad decide; the others differ by their exposure alone.
        by_rates += u32::from(permutation(&pairs[..12]) <= 0.05);
    }
    let share = |n: u32| f64::from(n) / f64::from(COMPARISONS);
    println!(
        "p <= 0.05 in {COMPARISONS} simulated A/A's: McNemar {}, permutation {} (at most 0.065)",
        share(by_episodes),
        share(by_rates)
    );
    assert!(
        share(by_episodes) <= 0.065,
        "McNemar: {}",
        share(by_episodes)
    );
    assert!(share(by_rates) <= 0.065, "permutation: {}", share(by_rates));
    // A test that never speaks would pass the above.
    assert!(by_rates > 0 && by_episodes > 0);
}

#[test]
fn a_difference_is_found() {
    let mut random = SplitMix(2);
    let pairs: Vec<_> = equals(&mut random, 20)
        .into_iter()
        .map(|(a, b)| {
            (
                Episode {
                    amount: a.amount + 3.0,
                    ..a
                },
                b,
            )
        })
        .collect();
    assert!(permutation(&pairs) < 0.01);
}
