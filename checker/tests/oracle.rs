//! The checker against brute force, on small random histories.
//!
//! Without leases the oracle is a search over all linearizations of an owner-aware mutex. With leases it is the
//! theory's intervals, written out pair by pair.
use fencepost_checker::{Checker, Event, EventType, Header, Model, Process, Value, Verdict};
use proptest::prelude::*;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

const MS: u64 = 1_000_000;

/// One operation of a history; `ret` is none for one that is never answered.
#[derive(Debug, Clone, Copy)]
struct Op {
    process: u64,
    f: &'static str,
    inv: u64,
    ret: Option<u64>,
    kind: EventType,
    lease_ms: u64,
}

fn event(op: &Op, kind: EventType, time: u64) -> Event<'static> {
    Event {
        index: 0,
        time,
        process: Process::Id(op.process),
        client: None,
        worker: None,
        kind,
        f: Cow::Borrowed(op.f),
        key: Some(Cow::Borrowed("k")),
        value: Value {
            ttl_ms: (op.f == "extend" && kind == EventType::Invoke).then_some(op.lease_ms),
            ..Value::default()
        },
        error: None,
    }
}

fn judge(ops: &[Op], ttl_ms: Option<u64>) -> Verdict {
    let header = Header {
        fencepost: 1,
        workload: "random".to_owned(),
        seed: 0,
        model: Model {
            ttl_ms,
            ..Model::default()
        },
        expect: BTreeMap::new(),
        versions: BTreeMap::new(),
    };
    let mut events: Vec<Event<'_>> = Vec::new();
    for op in ops {
        events.push(event(op, EventType::Invoke, op.inv));
        if let Some(ret) = op.ret {
            events.push(event(op, op.kind, ret));
        }
    }
    events.sort_by_key(|e| e.time);
    let mut checker = Checker::new(header);
    for e in &events {
        checker.push(e);
    }
    checker.finish()
}

fn count(verdict: &Verdict, check: &str) -> u64 {
    verdict.check(check).map_or(0, |c| c.count)
}

/// Steps of one process: (gap before, length, what becomes of it).
type Steps = Vec<(u64, u64, u8)>;

/// Processes that acquire and release in turn, until one of their operations is not answered.
fn sequences(processes: &[Steps], stranger: bool) -> Vec<Op> {
    let mut ops = Vec::new();
    for (process, steps) in (0u64..).zip(processes) {
        let (mut now, mut holds) = (process, stranger && process == 0);
        for (gap, length, fate) in steps {
            // Distinct times: all of one process have its number as a remainder.
            let inv = now + gap * 16;
            let ret = inv + length * 16;
            now = ret + 16;
            let kind = match fate {
                0..=6 => EventType::Ok,
                7 => EventType::Fail,
                _ => EventType::Info,
            };
            ops.push(Op {
                process,
                f: if holds { "release" } else { "acquire" },
                inv,
                ret: (*fate != 9).then_some(ret),
                kind,
                lease_ms: 0,
            });
            if kind == EventType::Info {
                break;
            }
            holds ^= kind == EventType::Ok;
        }
    }
    ops
}

/// Whether some order of the operations, each inside its interval, is that of an owner-aware mutex.
fn linearizable(ops: &[Op]) -> bool {
    let ops: Vec<&Op> = ops.iter().filter(|o| o.kind != EventType::Fail).collect();
    let certain = |o: &Op| o.kind == EventType::Ok && o.ret.is_some();
    let end = |o: &Op| {
        if certain(o) {
            o.ret.unwrap_or(u64::MAX)
        } else {
            u64::MAX
        }
    };
    let mut seen = HashSet::new();
    let mut stack = vec![(0u32, None)];
    while let Some((done, owner)) = stack.pop() {
        if !seen.insert((done, owner)) {
            continue;
        }
        let open = |i: &usize| done & (1 << i) == 0;
        let left: Vec<usize> = (0..ops.len()).filter(open).collect();
        if left.iter().all(|i| !certain(ops[*i])) {
            return true;
        }
        let first_end = left.iter().map(|i| end(ops[*i])).min().unwrap_or(u64::MAX);
        for i in left {
            let o = ops[i];
            if o.inv > first_end {
                continue;
            }
            let next = match (o.f, owner) {
                ("acquire", None) => Some(o.process),
                ("release", Some(p)) if p == o.process => None,
                _ => continue,
            };
            stack.push((done | 1 << i, next));
        }
    }
    false
}

fn steps() -> impl Strategy<Value = Vec<Steps>> {
    let step = (0u64..6, 1u64..6, 0u8..10);
    prop::collection::vec(prop::collection::vec(step, 1..5), 1..5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn without_leases_it_agrees_with_a_search(processes in steps(), stranger in prop::bool::weighted(0.1)) {
        let ops = sequences(&processes, stranger);
        prop_assume!(ops.len() <= 14);
        let found = count(&judge(&ops, None), "service");
        prop_assert_eq!(found == 0, linearizable(&ops), "{:?}", ops);
    }
}

/// A process's one section with its extensions: the promise as a set of milliseconds, and the belief.
#[derive(Debug, Clone)]
struct Hold {
    ops: Vec<Op>,
    promise: HashSet<u64>,
    belief: (u64, u64),
}

const TTL: u64 = 40;
const UNTIL: u64 = 400;

/// ℓ(L), in whole ms: the model below has no drift and a floor of 2 ms.
fn usable(lease: u64) -> u64 {
    lease.saturating_sub(2)
}

/// Extensions of a hold: (gap, length, lease, fate); a release (gap) or none.
type Plan = (u64, u64, Vec<(u64, u64, u64, u8)>, Option<u64>);

fn hold(process: u64, (inv, length, extensions, release): &Plan) -> Hold {
    let op = |f, inv: u64, ret: Option<u64>, kind, lease_ms| Op {
        process,
        f,
        inv: inv * MS,
        ret: ret.map(|r| r * MS),
        kind,
        lease_ms,
    };
    let ret = inv + length;
    let mut ops = vec![op("acquire", *inv, Some(ret), EventType::Ok, TTL)];
    let mut now = ret;
    let mut confirmed: Vec<(u64, u64)> = vec![(ret, inv + usable(TTL))];
    for (gap, length, lease, fate) in extensions {
        let (e_inv, e_ret) = (now + gap, now + gap + length);
        now = e_ret;
        let end = e_inv + usable(*lease);
        let left = confirmed.iter().map(|c| c.1).max().unwrap_or(0);
        let kind = match fate {
            0..=4 => EventType::Ok,
            5 => EventType::Fail,
            _ => EventType::Info,
        };
        ops.push(op("extend", e_inv, Some(e_ret), kind, *lease));
        if end < left && kind != EventType::Fail {
            for c in &mut confirmed {
                c.1 = c.1.min(end);
            }
        } else if kind == EventType::Ok && end >= left {
            confirmed.push((e_ret, end));
        }
    }
    let over = release.map_or(UNTIL, |gap| now + gap);
    if release.is_some() {
        ops.push(op("release", over, Some(over + 1), EventType::Ok, TTL));
    }
    let promise = confirmed
        .iter()
        .flat_map(|(from, to)| *from..(*to).min(over));
    Hold {
        ops,
        promise: promise.collect(),
        belief: (ret, over),
    }
}

fn plans() -> impl Strategy<Value = Vec<Plan>> {
    let extension = (0u64..25, 0u64..25, 5u64..60, 0u8..8);
    let plan = (
        0u64..100,
        0u64..45,
        prop::collection::vec(extension, 0..4),
        prop::option::of(0u64..60),
    );
    prop::collection::vec(plan, 1..6)
}

fn with_leases(ops: &[Op]) -> Verdict {
    let header = r#"{"fencepost":1,"workload":"w","seed":0,"model":{"ttl_ms":40,"drift":0.0,"floor_ms":2.0}}"#;
    let header: Header = serde_json::from_str(header).expect("a good header");
    let mut events: Vec<Event<'_>> = Vec::new();
    for op in ops {
        events.push(event(op, EventType::Invoke, op.inv));
        events.extend(op.ret.map(|ret| event(op, op.kind, ret)));
    }
    events.sort_by_key(|e| e.time);
    let mut checker = Checker::new(header);
    for e in &events {
        checker.push(e);
    }
    checker.finish()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn with_leases_it_agrees_with_all_pairs(plans in plans()) {
        let holds: Vec<Hold> = (0u64..).zip(&plans).map(|(p, plan)| hold(p, plan)).collect();
        let (mut exclusions, mut overruns) = (0, 0);
        for (i, a) in holds.iter().enumerate() {
            for b in &holds[i + 1..] {
                let believe = a.belief.0 < b.belief.1 && b.belief.0 < a.belief.1;
                if !a.promise.is_disjoint(&b.promise) {
                    exclusions += 1;
                } else if believe {
                    overruns += 1;
                }
            }
        }
        let ops: Vec<Op> = holds.iter().flat_map(|h| h.ops.clone()).collect();
        let v = with_leases(&ops);
        let said = v.checks.iter().filter(|c| c.name != "overrun" && c.name != "continuity");
        prop_assert_eq!(said.map(|c| c.count).sum::<u64>(), exclusions, "{:#?}", holds);
        prop_assert_eq!(count(&v, "overrun"), overruns, "{:#?}", holds);
    }
}
