//! The checker against a plain WGL search, on at least a million small random histories of a lock without lease.
//!
//! Owns the comparison and the count. Must not know how either side works. `wgl` searches, `random` invents.
//!
//! The two must agree, with one exception that theory knows: an acquire without a definite answer that its worker
//! cleaned up later may have held in one of several gaps, and which failed tries it excuses is then a matching
//! problem. There the checker excuses all of them: it may miss, and it must not accuse.
mod random;
mod several;
mod wgl;

use crate::mutant::{Mutant, WRONG};
use crate::{Checker, Event, EventType, Header, LockKind, Model, Process, Value};
use random::{Fate, Op, Random};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Histories compared by `cargo test`; `ORACLE_HISTORIES` says otherwise.
const HISTORIES: u64 = 1_000_000;

/// And of each kind of which a worker may hold several.
const SEVERAL: u64 = 100_000;

const CLIENTS: [&str; 5] = ["c0", "c1", "c2", "c3", "c4"];

fn event(op: &Op, kind: EventType, time: u64) -> Event<'static> {
    let told = kind == EventType::Fail && op.fate == Fate::Held;
    Event {
        index: 0,
        time,
        process: Process::Id(op.process),
        client: Some(Cow::Borrowed(CLIENTS[usize::from(op.worker)])),
        worker: None,
        kind,
        f: Cow::Borrowed(if op.release { "release" } else { "acquire" }),
        key: Some(Cow::Borrowed("k")),
        value: Value {
            shared: op.shared.then_some(true),
            ..Value::default()
        },
        error: told.then_some(Cow::Borrowed("held")),
    }
}

/// What the checker says: whether it found anything.
fn accused(ops: &[Op], kind: LockKind) -> bool {
    let mut checker = Checker::new(Header {
        fencepost: 1,
        workload: String::new(),
        seed: 0,
        model: Model {
            kind,
            permits: if kind == LockKind::Semaphore { 2 } else { 1 },
            ..Model::default()
        },
        expect: BTreeMap::new(),
        versions: BTreeMap::new(),
    });
    let mut events: Vec<Event<'_>> = Vec::with_capacity(2 * ops.len());
    for op in ops {
        events.push(event(op, EventType::Invoke, op.inv));
        let kind = match op.fate {
            Fate::Ok => EventType::Ok,
            Fate::Held | Fate::Fail => EventType::Fail,
            Fate::Info => EventType::Info,
            Fate::Never => continue,
        };
        events.push(event(op, kind, op.ret));
    }
    // The ops of a worker stand in their order, so those of one time stay in it.
    events.sort_by_key(|e| e.time);
    for e in &events {
        checker.push(e);
    }
    let v = checker.finish();
    assert_eq!(v.counts["anomalies"], 0, "{ops:#?}");
    v.check("service").is_some_and(|c| c.count > 0)
}

/// How the two sides compare.
#[derive(Debug, Default, Clone, Copy)]
struct Count {
    compared: u64,
    violated: u64,
    /// Those in which the checker may miss what the search finds.
    one_sided: u64,
    missed: u64,
}

enum Compared {
    Agree(bool),
    Missed,
    Disagree,
}

fn compare(ops: &[Op]) -> Compared {
    let found = accused(ops, LockKind::Mutex);
    if found != wgl::linearizable(ops) {
        Compared::Agree(found)
    } else if !found && wgl::one_sided(ops) {
        Compared::Missed
    } else {
        Compared::Disagree
    }
}

/// The smallest part of a history on which the two sides still disagree.
fn smallest(mut ops: Vec<Op>) -> Vec<Op> {
    let mut i = 0;
    while i < ops.len() {
        let mut fewer = ops.clone();
        fewer.remove(i);
        if matches!(compare(&fewer), Compared::Disagree) {
            (ops, i) = (fewer, 0);
        } else {
            i += 1;
        }
    }
    ops
}

/// Compares histories from one stream of random numbers; ends at the first disagreement.
fn run(seed: u64, histories: u64) -> Result<Count, Vec<Op>> {
    let mut random = Random::new(seed);
    let mut count = Count::default();
    for _ in 0..histories {
        let ops = random.history(LockKind::Mutex);
        count.compared += 1;
        count.one_sided += u64::from(wgl::one_sided(&ops));
        match compare(&ops) {
            Compared::Agree(found) => count.violated += u64::from(found),
            Compared::Missed => count.missed += 1,
            Compared::Disagree => return Err(ops),
        }
    }
    Ok(count)
}

#[test]
fn agrees_with_a_search_on_a_million_histories() {
    const STREAMS: u64 = 2;
    let wanted = std::env::var("ORACLE_HISTORIES").ok();
    let wanted: u64 = wanted.and_then(|n| n.parse().ok()).unwrap_or(HISTORIES);
    let streams: Vec<_> = (0..STREAMS)
        .map(|seed| std::thread::spawn(move || run(seed, wanted.div_ceil(STREAMS))))
        .collect();
    let mut sum = Count::default();
    for stream in streams {
        match stream.join().expect("the stream ends") {
            Ok(c) => {
                sum.compared += c.compared;
                sum.violated += c.violated;
                sum.one_sided += c.one_sided;
                sum.missed += c.missed;
            }
            Err(ops) => panic!(
                "disagree, the search says {}: {:#?}",
                wgl::linearizable(&ops),
                smallest(ops)
            ),
        }
    }
    println!("{sum:?}");
    assert!(sum.compared >= wanted);
    // Both outcomes occur often, or the comparison shows little.
    assert!(
        sum.violated * 5 > sum.compared && sum.violated * 5 < 4 * sum.compared,
        "{sum:?}"
    );
    assert!(sum.missed * 1000 < sum.compared, "{sum:?}");
}

/// The smallest part of a history on which the checker and the search of a kind disagree.
fn least(mut ops: Vec<Op>, kind: LockKind) -> Vec<Op> {
    let mut i = 0;
    while i < ops.len() {
        let mut fewer = ops.clone();
        fewer.remove(i);
        if accused(&fewer, kind) == several::possible(&fewer, kind) {
            (ops, i) = (fewer, 0);
        } else {
            i += 1;
        }
    }
    ops
}

#[test]
fn agrees_with_a_search_on_locks_that_a_worker_may_hold_several_times() {
    for kind in [
        LockKind::Reentrant,
        LockKind::Semaphore,
        LockKind::ReadWrite,
    ] {
        let mut random = Random::new(kind as u64);
        let mut violated = 0;
        for _ in 0..SEVERAL {
            let ops = random.history(kind);
            let found = accused(&ops, kind);
            violated += u64::from(found);
            let possible = several::possible(&ops, kind);
            assert!(
                found != possible,
                "{kind:?}, the search says {possible}: {:#?}",
                least(ops, kind)
            );
        }
        assert!(violated * 20 > SEVERAL && violated * 20 < 19 * SEVERAL);
    }
}

#[test]
fn a_wrong_comparison_is_noticed() {
    for mutant in [
        Mutant::Ended,
        Mutant::TryEnd,
        Mutant::TryStart,
        Mutant::Reach,
        Mutant::Again,
        Mutant::CleanUp,
        Mutant::GhostCore,
        Mutant::GhostGap,
    ] {
        WRONG.set(Some(mutant));
        let found = run(7, 200_000);
        WRONG.set(None);
        assert!(found.is_err(), "{mutant:?} was not noticed");
    }
}
