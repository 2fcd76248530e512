//! The checker against brute force, on small random histories of a lock with leases.
//!
//! The oracle is the theory's intervals, written out pair by pair. Without leases it is a search, in `src/oracle`.
use fencepost_checker::{Checker, Event, EventType, Header, Process, Value, Verdict};
use proptest::prelude::*;
use std::borrow::Cow;
use std::collections::HashSet;

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

fn count(verdict: &Verdict, check: &str) -> u64 {
    verdict.check(check).map_or(0, |c| c.count)
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

/// When a hold can have been granted at the earliest, if nobody was promised the lock then; its invoke, if there is no
/// such time before its answer.
fn earliest(inv: u64, ret: u64, before: &[Hold]) -> u64 {
    let taken = |t: &u64| before.iter().any(|h| h.promise.contains(t));
    (inv..=ret).find(|t| !taken(t)).unwrap_or(inv)
}

/// `before` are the holds that were answered earlier.
fn hold(process: u64, (inv, length, extensions, release): &Plan, before: &[Hold]) -> Hold {
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
    let mut confirmed: Vec<(u64, u64)> = vec![(ret, earliest(*inv, ret, before) + usable(TTL))];
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
        let mut in_order: Vec<(u64, &Plan)> = (0u64..).zip(&plans).collect();
        in_order.sort_by_key(|(_, plan)| plan.0 + plan.1);
        let mut holds: Vec<Hold> = Vec::new();
        for (process, plan) in in_order {
            holds.push(hold(process, plan, &holds));
        }
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
