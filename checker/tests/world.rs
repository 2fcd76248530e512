//! A simulated world with a perfect view: clients, messages, servers and an observer in virtual time.
//!
//! Correct locks under everything that networks, schedulers and crashes with data do must give no `service`, no
//! `library`, no `fencing` and no liveness finding; planted faults must be found, and blamed on who did it. What truly
//! happened is counted beside (`world/truth.rs`), so that what is missed is known, too.
#[path = "world/sim.rs"]
mod sim;

use fencepost_checker::{Blame, Class, Finding, Outcome, Verdict};
use sim::{Config, Lock, Plant, With, run};
use std::collections::BTreeMap;

/// Seeds a configuration. More by `WORLD_SEEDS=10000 cargo test --test world`.
fn seeds() -> u64 {
    let seeds = std::env::var("WORLD_SEEDS").ok();
    seeds.and_then(|s| s.parse().ok()).unwrap_or(300)
}

/// The first seed: `WORLD_FIRST=143 WORLD_SEEDS=1`.
fn first() -> u64 {
    let first = std::env::var("WORLD_FIRST").ok();
    first.and_then(|s| s.parse().ok()).unwrap_or(0)
}

use With::{
    Blind, Closes, Crashes, Deaths, Lossy, NoClaim, Pauses, Races, Reads, Renewal, Session, Stops,
    Thin, Unobserved, Waits, Watchdog,
};

/// Locks that are right: the number of servers, and what happens to them. All clocks drift, by up to 1 %.
const CORRECT: &[(usize, &[With])] = &[
    (1, &[]),
    (1, &[Pauses]),
    (1, &[Lossy, NoClaim]),
    (1, &[Crashes, Deaths]),
    (1, &[Stops, Pauses, NoClaim]),
    (1, &[Renewal, Pauses, Lossy]),
    (1, &[Races, Pauses, Lossy]),
    (1, &[Races, Stops, Crashes, NoClaim]),
    (1, &[Watchdog, Pauses, Lossy]),
    (1, &[Watchdog, Stops, Crashes, Deaths]),
    (1, &[Session, Pauses, Lossy]),
    (1, &[Session, Stops, Crashes, Deaths]),
    (1, &[Closes, Pauses, Lossy]),
    (1, &[Blind, Pauses, Stops]),
    (1, &[Unobserved, Pauses, Lossy, NoClaim]),
    (1, &[Waits, Pauses, Lossy]),
    (1, &[Waits, NoClaim, Crashes, Deaths, Stops]),
    (5, &[]),
    (5, &[Pauses, Thin]),
    (5, &[Lossy]),
    (5, &[Crashes, Lossy]),
    (5, &[Stops, Pauses, Deaths]),
    (5, &[Renewal, Pauses, Lossy, Crashes]),
    (5, &[Races, Stops, Lossy]),
    (5, &[Watchdog, Pauses, Lossy, Stops]),
    (5, &[Closes, Crashes]),
    (5, &[Waits, Pauses, Lossy, Stops]),
    (5, &[Blind, Lossy, Pauses, Crashes]),
];

fn name(nodes: usize, with: &[With]) -> String {
    let lock = if nodes == 1 { "single" } else { "redlock" };
    format!("{lock} {with:?}")
}

/// Runs `each` on every seed, some on each core, and gathers what it says in the order of the seeds.
fn over_seeds<T: Send>(each: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let all: Vec<u64> = (first()..first() + seeds()).collect();
    let share = all.len().div_ceil(cores).max(1);
    std::thread::scope(|scope| {
        let shares = all.chunks(share).map(|seeds| {
            let each = &each;
            scope.spawn(move || seeds.iter().map(|seed| each(*seed)).collect::<Vec<T>>())
        });
        let running: Vec<_> = shares.collect();
        let done = running.into_iter().map(std::thread::ScopedJoinHandle::join);
        let done = done.map(|d| d.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        done.flatten().collect()
    })
}

fn violated(v: &Verdict, classes: &[Class]) -> Vec<String> {
    let checks = v.checks.iter().filter(|c| classes.contains(&c.class));
    let checks = checks.filter(|c| c.outcome == Outcome::Violated);
    let line = |f: &Finding| format!("{}: {:?} {}", f.check, f.blame, f.sentence);
    checks.flat_map(|c| c.findings.iter().map(line)).collect()
}

#[test]
fn correct_locks_are_never_blamed() {
    let blamed = [
        Class::Service,
        Class::Library,
        Class::Liveness,
        Class::Fencing,
    ];
    let mut total = [0; 4];
    for (nodes, with) in CORRECT {
        let name = name(*nodes, with);
        let config = Config::correct(*nodes, with);
        let counts = over_seeds(|seed| {
            let history = run(config, seed);
            let v = history.check();
            let found = violated(&v, &blamed);
            assert!(
                found.is_empty(),
                "{name}, seed {seed}: {found:#?}\n{}",
                history.text()
            );
            assert_eq!(v.counts["anomalies"], 0, "{name}, seed {seed}");
            assert!(
                history.double_grants.is_empty(),
                "{name}, seed {seed}: the world itself is wrong: {:?}\n{}",
                history.double_grants,
                history.text()
            );
            let overruns = v.check("overrun").map_or(0, |c| c.count);
            let judged = v.checks.iter().filter(|c| c.outcome == Outcome::Valid);
            [
                v.counts["events"],
                v.counts["grants"],
                overruns,
                judged.count() as u64,
            ]
        });
        let sum = counts
            .iter()
            .fold([0; 4], |a, b| [0, 1, 2, 3].map(|i| a[i] + b[i]));
        total = [0, 1, 2, 3].map(|i| total[i] + sum[i]);
        let [events, grants, overruns, valid] = sum;
        println!(
            "{name}: {} runs, {events} events, {grants} grants, {overruns} overruns, {valid} checks valid",
            counts.len()
        );
        assert!(grants > 10 * seeds(), "{name}: {grants} grants");
    }
    let [events, grants, overruns, valid] = total;
    let runs = CORRECT.len() as u64 * seeds();
    println!(
        "{runs} runs, {events} events, {grants} grants, {overruns} overruns, {valid} checks valid"
    );
    assert!(overruns > 0 && valid > runs);
}

/// What became of the true double grants of one run.
#[derive(Default, Clone, Copy)]
struct Caught {
    truly: u64,
    found: u64,
    overrun: u64,
    /// Exclusions that the servers' own times do not bear out.
    beside: u64,
}

fn pair(f: &Finding) -> Option<(String, String)> {
    let owner = |i: usize| f.sections.get(i).and_then(|s| s.owner.clone());
    let (a, b) = (owner(0)?, owner(1)?);
    Some(if a < b { (a, b) } else { (b, a) })
}

fn catch(config: Config, name: &str, seed: u64) -> Caught {
    let history = run(config, seed);
    let v = history.check();
    let pairs = |name: &str| -> Vec<(String, String)> {
        let check = v.check(name).expect("it is in the table");
        let findings = check.findings.iter();
        // Where a lease may have lasted until the next grant, an overrun is said to have no known cause.
        let said = findings.filter(|f| name != "overrun" || f.blame != Blame::Unknown);
        said.filter_map(pair).collect()
    };
    for library in LIBRARY {
        let check = v.check(library).expect("it is in the table");
        // Where the observer could not read whose value it was, an exclusion has no known cause.
        let blamed = check.findings.iter().any(|f| f.blame != Blame::Unknown);
        assert!(
            !blamed,
            "{name}, seed {seed}: {:#?}\n{}",
            check.findings,
            history.text()
        );
    }
    // More overruns than are kept are possible, but not more exclusions.
    let (service, overrun) = (pairs("service"), pairs("overrun"));
    let count = v.check("service").map_or(0, |c| c.count);
    assert!(count <= Verdict::FINDINGS_MAX as u64, "{count} to compare");
    let truly = history.double_grants.iter().cloned();
    let truly: Vec<(String, String)> = truly
        .map(|(a, b)| if a < b { (a, b) } else { (b, a) })
        .collect();
    let among = |of: &[(String, String)]| truly.iter().filter(|p| of.contains(p)).count() as u64;
    Caught {
        truly: truly.len() as u64,
        found: among(&service),
        overrun: among(&overrun),
        beside: service.iter().filter(|p| !truly.contains(p)).count() as u64,
    }
}

const LIBRARY: [&str; 5] = ["validity", "continuity", "ownership", "truthful", "notice"];

/// Faults of servers under one-try calls.
const PLANTED: &[(usize, Plant, &[With])] = &[
    (1, Plant::Flush, &[]),
    (1, Plant::Flush, &[Lossy, NoClaim]),
    (1, Plant::Flush, &[Pauses, Lossy, NoClaim, Unobserved]),
    (1, Plant::RestartEmpty, &[Lossy]),
    (1, Plant::RestartEmpty, &[Stops, NoClaim]),
    (1, Plant::ClockForward, &[]),
    (1, Plant::ClockForward, &[Lossy, NoClaim]),
    (5, Plant::Flush, &[]),
    (5, Plant::RestartEmpty, &[]),
    (5, Plant::RestartEmpty, &[Thin]),
    (5, Plant::RestartEmpty, &[Thin, Pauses]),
    (5, Plant::ClockForward, &[NoClaim]),
    (5, Plant::ClockForward, &[Thin]),
];

#[test]
fn what_servers_do_is_found_and_blamed_on_the_service() {
    let mut total = Caught::default();
    for (nodes, plant, with) in PLANTED {
        let name = format!("{plant:?} on {}", name(*nodes, with));
        let config = Config::planted(*nodes, *plant, with);
        let mut sum = Caught::default();
        for c in over_seeds(|seed| catch(config, &name, seed)) {
            sum.truly += c.truly;
            sum.found += c.found;
            sum.overrun += c.overrun;
            sum.beside += c.beside;
        }
        let Caught {
            truly,
            found,
            overrun,
            beside,
        } = sum;
        println!(
            "{name}: {found} of {truly} double grants found, {overrun} called overrun, {beside} more exclusions"
        );
        assert!(truly * 4 > seeds(), "{name}: the plant hardly ever bites");
        assert!(overrun == 0, "{name}: {overrun} called overrun");
        total.truly += truly;
        total.found += found;
        total.beside += beside;
    }
    println!(
        "{} of {} true double grants found, {} more exclusions",
        total.found, total.truly, total.beside
    );
    assert!(
        total.found * 100 >= total.truly * 99,
        "{} of {} found",
        total.found,
        total.truly
    );
}

/// Locks that are wrong, the check that says so, and in how many of a hundred runs at least.
const WRONG: &[(Lock, &str, u64, &[With])] = &[
    (Lock::PlainDel, "ownership", 66, &[Pauses]),
    (Lock::PlainDel, "ownership", 66, &[Pauses, Reads]),
    (Lock::GetThenDel, "ownership", 66, &[Pauses]),
    (Lock::GetThenDel, "ownership", 66, &[Pauses, Reads]),
    (Lock::Never, "truthful", 90, &[Pauses]),
    (Lock::Never, "truthful", 90, &[Pauses, Reads]),
    (Lock::LongClaim, "validity", 90, &[Pauses]),
    (
        Lock::ExtendAlwaysOk,
        "continuity",
        66,
        &[Pauses, Lossy, Renewal],
    ),
    (
        Lock::ExtendAlwaysOk,
        "continuity",
        66,
        &[Pauses, Lossy, Renewal, Reads],
    ),
    (Lock::UnlockAfterExtend, "continuity", 25, &[Lossy, Renewal]),
    (
        Lock::UnlockAfterExtend,
        "continuity",
        25,
        &[Lossy, Renewal, Reads],
    ),
    (Lock::OneValue, "ownership", 25, &[Lossy]),
];

#[test]
fn what_libraries_do_is_blamed_on_the_library() {
    for (lock, check, percent, with) in WRONG {
        let config = Config::wrong(*lock, with);
        let runs = over_seeds(|seed| {
            let history = run(config, seed);
            let v = history.check();
            let service = v.check("service").expect("it is in the table");
            // Where the observer could not read whose value it was, an exclusion has no known cause.
            let blamed = service.findings.iter().any(|f| f.blame != Blame::Unknown);
            assert!(
                !blamed,
                "{lock:?}, seed {seed}: {:#?}\n{}",
                service.findings,
                history.text()
            );
            // Where it could read them all, every exclusion has one.
            assert!(
                service.findings.is_empty() || !with.contains(&Reads),
                "{lock:?}, seed {seed}: {:#?}\n{}",
                service.findings,
                history.text()
            );
            let checks = v.checks.iter().filter(|c| c.outcome == Outcome::Violated);
            let found: Vec<(String, u64)> = checks.map(|c| (c.name.clone(), c.count)).collect();
            (found, service.count)
        });
        let mut by_check: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for (name, count) in runs.iter().flat_map(|r| &r.0) {
            let sum = by_check.entry(name.clone()).or_default();
            *sum = (sum.0 + 1, sum.1 + count);
        }
        let unknown: u64 = runs.iter().map(|r| r.1).sum();
        println!(
            "{lock:?} {with:?}: (runs, findings) by check {by_check:?}, {unknown} without blame"
        );
        let (found, blamed) = by_check.get(*check).copied().unwrap_or_default();
        assert!(
            unknown * 10 <= blamed,
            "{lock:?}: {unknown} without blame, {blamed} with one"
        );
        assert!(
            found * 100 >= percent * seeds(),
            "{lock:?}: {found} of {}",
            seeds()
        );
    }
}

/// Wrong locks and numbers of servers, all seen.
const READ: &[(Lock, usize, &[With])] = &[
    (Lock::PlainDel, 1, &[Pauses, Reads]),
    (Lock::PlainDel, 1, &[Pauses, Lossy, Reads]),
    (Lock::PlainDel, 3, &[Pauses, Lossy, Reads]),
    (Lock::GetThenDel, 1, &[Pauses, Reads]),
];

/// The exclusions that are listed, by the values of the two: check, and the clients that may be to blame.
fn exclusions(v: &Verdict) -> BTreeMap<(String, String), (String, Vec<String>)> {
    let all = v.checks.iter().flat_map(|c| &c.findings);
    let pairs = all.filter_map(|f| {
        let [a, b, ..] = f.sections.as_slice() else {
            return None;
        };
        let clients = match &f.blame {
            Blame::Library(who) => who.split(" or ").map(str::to_owned).collect(),
            _ => Vec::new(),
        };
        let pair = (a.owner.clone()?, b.owner.clone()?);
        let told = matches!(f.check.as_str(), "service" | "ownership" | "truthful");
        let told = told && f.sentence.starts_with("B (") && pair.0 != pair.1;
        told.then(|| (pair, (f.check.clone(), clients)))
    });
    pairs.collect()
}

#[test]
fn who_is_blamed_without_reading_is_blamed_with_reading_too() {
    for (lock, nodes, with) in READ {
        let config = Config {
            nodes: *nodes,
            ..Config::wrong(*lock, with)
        };
        let counts = over_seeds(|seed| {
            let all = run(config, seed);
            let less = all.less_read(5);
            let (guess, known) = (exclusions(&less.check()), exclusions(&all.check()));
            let (mut same, mut other, mut unknown) = (0, 0, 0);
            for (pair, (check, clients)) in &guess {
                let Some((truth, guilty)) = known.get(pair) else {
                    continue;
                };
                if clients.is_empty() {
                    unknown += 1;
                    continue;
                }
                if check == truth && guilty.iter().all(|g| clients.contains(g)) {
                    same += 1;
                    continue;
                }
                // On several servers several may have removed the key, and one is named.
                assert!(
                    *nodes > 1,
                    "{lock:?}, seed {seed}: {check} of {clients:?}, not {truth} of {guilty:?}: {pair:?}\n{}",
                    less.text()
                );
                other += 1;
            }
            [same, other, unknown]
        });
        let sum = counts
            .iter()
            .fold([0; 3], |a, b| [0, 1, 2].map(|i| a[i] + b[i]));
        println!("{lock:?} on {nodes} {with:?}: [same, another, no] blame {sum:?}");
        let [same, other, unknown] = sum;
        assert!(
            other * 50 <= same && unknown * 10 <= same && same > 0,
            "{lock:?} on {nodes}: {sum:?}"
        );
    }
}
