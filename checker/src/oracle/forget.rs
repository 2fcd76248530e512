//! A checker that forgets all it may at every event, against one that forgets nothing: the same verdict, byte by byte.
//!
//! Owns the histories: several keys and workers, every kind of lock, with and without leases, extensions, effects,
//! notices, deaths and claims, right and wrong. Must not know what is right.
use super::random::Random;
use crate::{Checker, Event, EventType, Header, LockKind, Model, Process, Value, Verdict};
use std::borrow::Cow;
use std::collections::BTreeMap;

const CLIENTS: [&str; 4] = ["c0", "c1", "c2", "c3"];
const KEYS: [&str; 3] = ["a", "b", "c"];
const MS: u64 = 1_000_000;

fn header(random: &mut Random) -> Header {
    let kinds = [
        LockKind::Mutex,
        LockKind::Mutex,
        LockKind::Mutex,
        LockKind::Reentrant,
        LockKind::Semaphore,
        LockKind::ReadWrite,
    ];
    Header {
        fencepost: 1,
        workload: "random".to_owned(),
        seed: 0,
        model: Model {
            ttl_ms: (random.below(2) == 0).then(|| 5 + random.below(20)),
            floor_ms: 1.0,
            kind: kinds[random.below(6) as usize],
            permits: 1 + random.below(3) as u32,
            respects_validity: random.below(4) == 0,
            promises_notice: random.below(4) == 0,
            clock_uncertainty_ms: if random.below(6) == 0 { 1.0 } else { 0.0 },
            ..Model::default()
        },
        expect: BTreeMap::new(),
        versions: BTreeMap::new(),
    }
}

/// An operation of a worker that waits for its answer.
#[derive(Clone, Copy)]
struct Waits {
    f: &'static str,
    key: usize,
}

fn history(random: &mut Random) -> Vec<Event<'static>> {
    let length = 10 + random.below(60);
    let keys = 1 + random.below(3) as usize;
    let workers = 2 + random.below(3) as usize;
    // Some are tidy: a lock's holder at most, so that much can be forgotten.
    let tidy = random.below(3) != 0;
    let mut owner: [Option<usize>; 3] = [None; 3];
    let mut waits: [Option<Waits>; 4] = [None; 4];
    let mut process = [0u64, 1, 2, 3];
    let (mut now, mut events) = (1u64, Vec::new());
    for index in 0..length {
        now += random.below(4);
        let w = random.below(workers as u64) as usize;
        let mut event = Event {
            index,
            time: now * MS,
            process: Process::Id(process[w]),
            client: Some(Cow::Borrowed(CLIENTS[w])),
            worker: None,
            kind: EventType::Invoke,
            f: Cow::Borrowed(""),
            key: None,
            value: Value::default(),
            error: None,
        };
        if random.below(60) == 0 {
            event.process = Process::Named(Cow::Borrowed("driver"));
            event.kind = EventType::Info;
            event.f = Cow::Borrowed("death");
            events.push(event);
            continue;
        }
        if let Some(op) = waits[w].take() {
            event.f = Cow::Borrowed(op.f);
            event.key = Some(Cow::Borrowed(KEYS[op.key]));
            let mine = owner[op.key] == Some(w);
            let free = owner[op.key].is_none();
            let luck = random.below(12);
            event.kind = match (op.f, tidy) {
                _ if luck == 0 => EventType::Info,
                ("acquire", true) if !free => EventType::Fail,
                ("release" | "extend", true) if !mine => EventType::Fail,
                _ if luck == 1 && !tidy => EventType::Fail,
                _ => EventType::Ok,
            };
            match (op.f, event.kind) {
                ("acquire", EventType::Ok) => {
                    owner[op.key] = Some(w);
                    event.value.validity_ms =
                        (random.below(3) == 0).then(|| random.below(20) as f64);
                    event.value.owner = Some(Cow::Owned(format!("v{index}")));
                }
                ("release", EventType::Ok) if mine => owner[op.key] = None,
                _ => {}
            }
            if event.kind == EventType::Fail {
                event.error = Some(Cow::Borrowed(if op.f == "acquire" {
                    "held"
                } else {
                    "lost"
                }));
            }
            if event.kind == EventType::Info {
                process[w] += 10;
            }
            events.push(event);
            continue;
        }
        let key = random.below(keys as u64) as usize;
        event.key = Some(Cow::Borrowed(KEYS[key]));
        let holds = owner[key] == Some(w);
        match random.below(12) {
            0 => {
                event.f = Cow::Borrowed(if random.below(2) == 0 {
                    "read"
                } else {
                    "write"
                });
                event.kind = EventType::Ok;
                event.value.version = Some(index);
            }
            1 if !tidy => {
                event.f = Cow::Borrowed("lost");
                event.kind = EventType::Info;
            }
            n => {
                let f = match n {
                    2 | 3 if holds || !tidy => "extend",
                    4.. if holds == (n != 4) => "release",
                    _ => "acquire",
                };
                event.value.shared = (f == "acquire" && random.below(3) == 0).then_some(true);
                waits[w] = Some(Waits { f, key });
                event.f = Cow::Borrowed(f);
            }
        }
        events.push(event);
    }
    events
}

/// The verdict, and how many sections were forgotten.
fn judge(header: &Header, events: &[Event<'_>], forget: bool) -> (Verdict, u64) {
    let mut checker = Checker::new(header.clone());
    if forget {
        checker.forget_after(1);
    }
    for e in events {
        checker.push(e);
    }
    let dropped = checker.dropped();
    (checker.finish(), dropped)
}

#[test]
fn what_is_forgotten_changes_nothing() {
    const HISTORIES: u64 = 60_000;
    let mut random = Random::new(11);
    let (mut dropped, mut violated) = (0, 0);
    for n in 0..HISTORIES {
        let header = header(&mut random);
        let events = history(&mut random);
        let (whole, _) = judge(&header, &events, false);
        let (short, gone) = judge(&header, &events, true);
        dropped += gone;
        violated += u64::from(whole.checks.iter().any(|c| c.count > 0));
        if whole != short {
            let lines = events.iter().filter_map(|e| serde_json::to_string(e).ok());
            let lines: Vec<String> = lines.collect();
            let head = serde_json::to_string(&header).expect("writes");
            panic!(
                "history {n}:\n{head}\n{}\n{}\n{}",
                lines.join("\n"),
                serde_json::to_string(&whole).expect("writes"),
                serde_json::to_string(&short).expect("writes")
            );
        }
    }
    assert!(
        dropped > HISTORIES,
        "only {dropped} sections were forgotten"
    );
    assert!(
        violated > HISTORIES / 10 && violated < HISTORIES,
        "{violated}"
    );
}
