//! Histories of a good lock as long as one likes, with all of its unlock replies lost if one likes.
//!
//! Owns the histories. Must not know what is measured on them.
use fencepost_checker::{Event, EventType, Header, Model, Process, Value};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Clients of the lock, most of which wait for it at any time.
const CLIENTS: u64 = 32;
const NAMES: [&str; 32] = [
    "c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9", "c10", "c11", "c12", "c13", "c14",
    "c15", "c16", "c17", "c18", "c19", "c20", "c21", "c22", "c23", "c24", "c25", "c26", "c27",
    "c28", "c29", "c30", "c31",
];

/// How long an acquire waits: for some twenty turns.
const WAIT: u64 = 1200;

/// One operation: client, process, whether it releases, invoke, return (none: no definite answer).
pub type Op = (u64, u64, bool, u64, Option<u64>);

/// Turn `i` of a good lock: asked for while others hold, granted after the one before let go.
pub fn turn(i: u64, lost: bool) -> [Op; 2] {
    let (client, at) = (i % CLIENTS, 1000 + i * 55);
    let process = if lost { i } else { client };
    let acquire = (
        client,
        process,
        false,
        at.saturating_sub(WAIT),
        Some(at + 10),
    );
    let release = (client, process, true, at + 50, (!lost).then_some(at + 60));
    [acquire, release]
}

/// The events of `turns` turns in order. With `lost`, no release is answered, and each turn is a new process.
pub fn each_event(turns: u64, lost: bool, mut each: impl FnMut(Event<'static>)) {
    let mut soon: BTreeMap<(u64, u64), (Op, EventType)> = BTreeMap::new();
    let mut order = 0;
    let mut index = 0;
    let mut emit = |soon: &mut BTreeMap<(u64, u64), (Op, EventType)>, until: u64| {
        while let Some(entry) = soon.first_entry().filter(|e| e.key().0 < until) {
            let ((time, _), ((client, process, release, ..), kind)) = entry.remove_entry();
            each(Event {
                index,
                time,
                process: Process::Id(process),
                client: Some(Cow::Borrowed(NAMES[client as usize])),
                worker: None,
                kind,
                f: Cow::Borrowed(if release { "release" } else { "acquire" }),
                key: Some(Cow::Borrowed("lock:0")),
                value: Value::default(),
                error: None,
            });
            index += 1;
        }
    };
    for i in 0..turns {
        emit(&mut soon, (1000 + i * 55).saturating_sub(WAIT));
        for op in turn(i, lost) {
            soon.insert((op.3, order), (op, EventType::Invoke));
            let answer = match op.4 {
                Some(ret) => (ret, EventType::Ok),
                None => (op.3 + 10, EventType::Info),
            };
            soon.insert((answer.0, order + 1), (op, answer.1));
            order += 2;
        }
    }
    emit(&mut soon, u64::MAX);
}

pub fn header() -> Header {
    Header {
        fencepost: 1,
        workload: "speed".to_owned(),
        seed: 0,
        model: Model::default(),
        expect: BTreeMap::new(),
        versions: BTreeMap::new(),
    }
}
