//! How often a section outlasts its lease: by hand, by published tails, and against a simulation that draws each section.
use super::random::SplitMix;
use super::{Habits, Lengths, Overruns, overruns};

fn per_million(habits: &Habits, slack: f64) -> f64 {
    overruns(habits, slack).chance * 1e6
}

fn computing(work: Lengths, pauses: Lengths, every: f64) -> Habits {
    Habits {
        work,
        pauses,
        rate: 1.0 / every,
        counted: true,
        waits: false,
    }
}

fn uniform(random: &mut SplitMix) -> f64 {
    (random.next() >> 11) as f64 / (1_u64 << 53) as f64
}

fn draw(lengths: &Lengths, random: &mut SplitMix) -> f64 {
    let u = uniform(random);
    match lengths {
        Lengths::Fixed(d) => *d,
        Lengths::Uniform(low, high) => low + (high - low) * u,
        Lengths::Exponential(mean) => -mean * (1.0 - u).ln(),
        Lengths::Observed(all) => all[(u * all.len() as f64) as usize],
    }
}

/// Sections of `n` that outlast the slack, each walked from pause to pause.
fn simulated(habits: &Habits, slack: f64, n: u32, seed: u64) -> f64 {
    let mut random = SplitMix(seed);
    let gap = Lengths::Exponential(1.0 / habits.rate);
    let overrun = (0..n).filter(|_| {
        let work = draw(&habits.work, &mut random);
        let (mut worked, mut end, mut late) = (draw(&gap, &mut random), work, work > slack);
        while worked < work && !late {
            let pause = draw(&habits.pauses, &mut random);
            if habits.waits {
                // Nothing begins in it.
                worked += pause;
                late = worked > slack;
            } else {
                end += pause;
                late = end > slack;
            }
            worked += draw(&gap, &mut random);
        }
        late
    });
    overrun.count() as f64 / f64::from(n)
}

#[test]
fn a_simulation_agrees() {
    let observed = || Lengths::Observed(vec![0.05, 0.1, 0.1, 0.4, 0.9, 2.0]);
    let (fixed, exponential) = (Lengths::Fixed, Lengths::Exponential);
    for (work, pauses, every, slack, waits) in [
        // README's example, with pauses often enough that a simulation sees them.
        (fixed(0.3), exponential(0.4), 1.0, 1.978, false),
        (fixed(0.3), exponential(0.4), 1.0, 1.978, true),
        (fixed(1.0), Lengths::Uniform(0.1, 0.5), 0.3, 3.0, false),
        (exponential(0.3), exponential(0.3), 0.5, 2.0, false),
        (exponential(0.3), observed(), 1.0, 2.0, false),
        (observed(), observed(), 1.0, 1.95, true),
        (fixed(0.1), exponential(1.0), 0.1, 0.988, true),
        (
            Lengths::Uniform(0.1, 0.95),
            exponential(0.1),
            0.3,
            0.988,
            true,
        ),
        (fixed(0.9), fixed(0.3), 0.05, 1.0, true),
        (exponential(0.3), Lengths::Uniform(0.2, 1.5), 0.2, 1.5, true),
        (Lengths::Uniform(0.0, 2.0), observed(), 0.7, 4.0, false),
        (fixed(5.0), fixed(1.0), 1.0, 11.878, false),
        (fixed(1.0), Lengths::Uniform(0.0, 0.01), 0.002, 3.55, false),
    ] {
        let habits = Habits {
            work,
            pauses,
            rate: 1.0 / every,
            counted: false,
            waits,
        };
        let n = 100_000;
        let seen = simulated(&habits, slack, n, 7);
        let said = overruns(&habits, slack).chance;
        let error = (said.max(seen) / f64::from(n)).sqrt();
        assert!(
            (said - seen).abs() < 4.0 * error + 0.01 * said,
            "{habits:?}, {slack} s: {said} said, {seen} seen"
        );
    }
}

#[test]
fn every_sample_of_work_counts() {
    let of = |short: usize, long: usize| {
        let work = [vec![0.01; short], vec![5.0; long]].concat();
        per_million(
            &computing(Lengths::Observed(work), Lengths::Fixed(1e-3), 86_400.0),
            0.988,
        )
    };
    for (short, long, want) in [
        (99_900, 100, 1_000.0),
        (998, 2, 2_000.0),
        (997, 3, 3_000.0),
        (995, 5, 5_000.0),
        (994, 6, 6_000.0),
    ] {
        let said = of(short, long);
        assert!((said - want).abs() < 1e-6, "{long} long ones: {said}");
    }
}

#[test]
fn as_many_pauses_as_come_are_counted() {
    let fixed = |work, pause, every| computing(Lengths::Fixed(work), Lengths::Fixed(pause), every);
    let none = |habits: &Habits, slack: f64| {
        let said = per_million(habits, slack);
        assert!(said < 1e-6, "{habits:?}: {said}");
    };
    none(&fixed(2.0, 0.02, 1.0), 9.898);
    none(&fixed(1.0, 0.05, 0.2), 2.968);
    none(&fixed(5.0, 1.0, 1.0), 47.518);
    // More than seven of a Poisson of 5.
    let said = per_million(&fixed(5.0, 1.0, 1.0), 12.0);
    assert!((said - 133_371.678).abs() < 0.01, "{said}");
    // The same where the pauses are samples, or far too many for a sum.
    let samples = computing(
        Lengths::Fixed(1.0),
        Lengths::Observed(vec![0.04, 0.06]),
        0.2,
    );
    none(&samples, 2.968);
    none(&fixed(10.0, 1e-4, 1e-3), 12.0);
    assert!(per_million(&fixed(10.0, 1e-3, 1e-3), 12.0) > 999_999.0);
}

#[test]
fn exponential_pauses_are_the_closed_form() {
    // Poisson(λw) sums of exponential ones, by hand for one and two pauses: README's example, with and without the part of
    // the lease that drift may take.
    let habits = computing(Lengths::Fixed(0.3), Lengths::Exponential(0.4), 60.0);
    for (slack, want) in [(2.0, 71.9), (1.978, 76.0)] {
        let left: f64 = (slack - 0.3) / 0.4;
        let by_hand = (-0.005_f64).exp() * (-left).exp() * (0.005 + 1.25e-5 * (1.0 + left));
        let said = per_million(&habits, slack);
        assert!((said - want).abs() < 0.05, "{said}");
        assert!((said / by_hand / 1e6 - 1.0).abs() < 1e-3, "{said}");
    }
    // Far out the tail is still the law's, no noise: one pause of 39.3 s.
    let far = per_million(&habits, 16.0);
    assert!(far > 0.0 && far < 1e-9, "{far}");
}

/// How often the interval of the chance holds what is true, if `work` and `pauses` are known by so many samples.
fn coverage(true_of: &Habits, works: usize, pauses: usize, slack: f64) -> u32 {
    let mut random = SplitMix(11);
    let truth = overruns(true_of, slack).chance;
    let held = (0..60).filter(|_| {
        let seconds = pauses as f64 / true_of.rate;
        // As many as come in that time.
        let mut seen = Vec::new();
        let gap = Lengths::Exponential(1.0 / true_of.rate);
        let mut at = draw(&gap, &mut random);
        while at < seconds {
            seen.push(draw(&true_of.pauses, &mut random));
            at += draw(&gap, &mut random);
        }
        let drawn = (0..works).map(|_| draw(&true_of.work, &mut random));
        let habits = Habits {
            work: Lengths::Observed(drawn.collect()),
            rate: seen.len() as f64 / seconds,
            counted: true,
            pauses: Lengths::Observed(seen),
            waits: true_of.waits,
        };
        let known = overruns(&habits, slack).known;
        known.low <= truth && truth <= known.high
    });
    held.count() as u32
}

#[test]
fn the_interval_holds_the_truth() {
    let exponential = Lengths::Exponential;
    // Work alone overruns; pauses do; several pauses must come together.
    for (work, pause, every, works, pauses, slack) in [
        (0.2, 0.4, 288.0, 1_000, 300, 0.988),
        (0.02, 0.4, 30.0, 500, 100, 0.988),
        (0.1, 0.2, 0.5, 300, 60, 0.988),
    ] {
        let habits = computing(exponential(work), exponential(pause), every);
        let held = coverage(&habits, works, pauses, slack);
        assert!(held >= 54, "{held} of 60: {habits:?}");
    }
}

#[test]
fn lengths_of_nothing_are_answered() {
    let laws = || {
        let observed = Lengths::Observed(vec![0.0, 0.0]);
        [
            Lengths::Fixed(0.0),
            Lengths::Uniform(0.0, 0.0),
            Lengths::Exponential(0.0),
            observed,
        ]
    };
    for (work, pauses) in laws()
        .into_iter()
        .flat_map(|w| laws().map(|p| (w.clone(), p)))
    {
        for (slack, waits) in [(0.0, false), (0.0, true), (1.0, false), (1.0, true)] {
            let habits = Habits {
                waits,
                ..computing(work.clone(), pauses.clone(), 1.0)
            };
            let o = overruns(&habits, slack);
            let right = o.chance == 0.0 && o.known.low == 0.0 && o.known.high <= 1.0;
            assert!(right, "{habits:?}, {slack} s: {o:?}");
        }
    }
}

#[test]
fn one_sample_says_little() {
    let one = |work, pause| overruns(&computing(work, pause, 60.0), 1.0).known;
    let work = one(Lengths::Observed(vec![0.01]), Lengths::Fixed(0.1));
    assert!(work.low <= 0.0 && work.high > 0.97, "{work:?}");
    let late = one(Lengths::Observed(vec![3.0]), Lengths::Fixed(0.1));
    assert!(late.low < 0.03 && late.high >= 1.0, "{late:?}");
    let pause = one(Lengths::Fixed(0.1), Lengths::Observed(vec![0.1]));
    let three = 1.0 - (-3.689 * 0.1 / 60.0_f64).exp();
    assert!(
        pause.low <= 0.0 && (pause.high - three).abs() < 1e-5,
        "{pause:?}"
    );
    let both = one(Lengths::Fixed(0.1), Lengths::Fixed(3.0));
    assert!((both.low - both.high).abs() < 1e-15, "formulas: {both:?}");
    // None of a thousand is too long: at most 3.7 of a thousand.
    let none = one(Lengths::Observed(vec![0.01; 1_000]), Lengths::Fixed(0.1));
    assert!((none.high - 3.689e-3).abs() < 1e-5, "{none:?}");
}

#[test]
fn work_that_is_too_long_or_not_is_a_share() {
    // k of ten outlast the lease: as Clopper and Pearson have it, so more of them never lower an end.
    let mut before = (0.0, 0.0);
    for k in 0..=10 {
        let work = [vec![0.01; 10 - k], vec![60.0; k]].concat();
        let habits = computing(Lengths::Observed(work), Lengths::Fixed(1e-9), 1e9);
        let known = overruns(&habits, 1.0).known;
        let exact = super::interval::share(k as u64, 10, 0.95);
        assert!(
            (known.low - exact.low).abs() < 1e-6 && (known.high - exact.high).abs() < 1e-6,
            "{k}: {known:?}, {exact:?}"
        );
        assert!(
            known.low >= before.0 && known.high >= before.1,
            "{k}: {known:?}"
        );
        before = (known.low, known.high);
    }
}

#[test]
fn no_more_overrun_than_pauses_come() {
    // Where the rate is known, not each section meets a pause, however long these may be.
    let habits = |counted| Habits {
        counted,
        ..computing(Lengths::Fixed(0.1), Lengths::Observed(vec![0.1]), 60.0)
    };
    let comes = 1.0 - (-0.1 / 60.0_f64).exp();
    let (known, counted) = (overruns(&habits(false), 1.0), overruns(&habits(true), 1.0));
    assert!((known.known.high - comes).abs() < 1e-12, "{known:?}");
    assert!(counted.known.high > 3.0 * comes, "{counted:?}");
}

#[test]
fn what_always_or_never_comes_is_counted_so() {
    let million = |work| {
        overruns(
            &computing(Lengths::Fixed(work), Lengths::Fixed(0.1), 1e9),
            1.0,
        )
        .of_a_million
    };
    let (never, always) = (million(0.1), million(2.0));
    assert!(never.low.abs() + never.high.abs() < 1e-9, "{never:?}");
    assert!(always.low >= 1e6 && always.high <= 1e6, "{always:?}");
    // Half of a million is 500,000 ± 980, as a coin has it.
    let coin = Lengths::Uniform(0.0, 2.0);
    let half = overruns(&computing(coin, Lengths::Fixed(0.1), 1e9), 1.0).of_a_million;
    assert!(
        (half.low - 499_020.0).abs() < 300.0 && (half.high - 500_980.0).abs() < 300.0,
        "{half:?}"
    );
}

#[test]
fn overruns_of_one_pause_are_the_formula() {
    // A pause of 1 s every 100 s hits a section of 0.1 s once in 1,000; the lease of 0.5 s does not outlast it.
    let habits = Habits {
        work: Lengths::Fixed(0.1),
        pauses: Lengths::Fixed(1.0),
        rate: 0.01,
        counted: false,
        waits: false,
    };
    let o = overruns(&habits, 0.5);
    assert!(
        (o.chance - (1.0 - (-0.001_f64).exp())).abs() < 1e-12,
        "{o:?}"
    );
    assert!(
        o.of_a_million.low > 930.0 && o.of_a_million.high < 1_070.0,
        "{o:?}"
    );
    // A lease of 1.2 s outlasts one pause; two in one section come once in two million.
    let o = overruns(&habits, 1.2);
    assert!((o.chance - 0.001_f64.powi(2) / 2.0).abs() < 1e-8, "{o:?}");
    // Work that outlasts the lease by itself always overruns.
    assert!((overruns(&habits, 0.05).chance - 1.0).abs() < 1e-12);
}

#[test]
fn overruns_of_spread_pauses_are_their_tail() {
    let habits = Habits {
        work: Lengths::Exponential(0.05),
        pauses: Lengths::Exponential(0.3),
        rate: 0.1,
        counted: false,
        waits: false,
    };
    // By hand: ∫ w-density · (1 − e^(−λ w S(slack − w))) over w, which is near λ E[w · e^(−(slack − w)/0.3)].
    let (slack, n) = (1.0, 200_000);
    let mut random = SplitMix(3);
    let mut uniform = || (random.next() >> 11) as f64 / (1_u64 << 53) as f64;
    let mut hits = 0.0;
    for _ in 0..n {
        let work = -0.05 * (1.0 - uniform()).ln();
        let left: f64 = slack - work;
        hits += if left < 0.0 {
            1.0
        } else {
            1.0 - (-0.1 * work * (-left / 0.3).exp()).exp()
        };
    }
    let by_hand = hits / f64::from(n);
    let o = overruns(&habits, slack);
    assert!((o.chance / by_hand - 1.0).abs() < 0.05, "{o:?} {by_hand}");
}

#[test]
fn what_was_observed_seldom_is_known_little() {
    let habits = |long: usize| Habits {
        work: Lengths::Fixed(0.1),
        pauses: Lengths::Observed([vec![0.01; 1_000 - long], vec![2.0; long]].concat()),
        rate: 1_000.0 / 86_400.0,
        counted: true,
        waits: false,
    };
    let (few, many) = (overruns(&habits(3), 1.0), overruns(&habits(300), 1.0));
    let wide = |o: Overruns| o.known.high / o.known.low;
    assert!(
        (wide(few) - 8.77 / 0.619).abs() < 0.1,
        "Garwood's interval of 3: {few:?}"
    );
    assert!(wide(many) < 1.3, "{many:?}");
    assert!((few.chance - 3.0 * 0.1 / 86_400.0).abs() < 1e-8, "{few:?}");
    let none = overruns(&habits(0), 1.0);
    assert!(
        none.chance < 1e-12 && none.known.high > 4e-6,
        "none seen is an upper bound: {none:?}"
    );
}

#[test]
fn work_that_waits_goes_on_in_a_pause() {
    let habits = |waits| Habits {
        work: Lengths::Fixed(0.1),
        pauses: Lengths::Fixed(0.45),
        rate: 0.01,
        counted: false,
        waits,
    };
    // Computing: 0.1 and 0.45 outlast 0.5. Waiting: only a pause in the second half does.
    assert!((overruns(&habits(false), 0.5).chance - 1e-3).abs() < 1e-6);
    assert!((overruns(&habits(true), 0.5).chance - 5e-4).abs() < 5e-6);
}
