//! Results folders for the tests of this room, written by hand: a lock that deletes another's key under a pause, a
//! lock that holds, and one whose every text is hostile.
use fencepost_checker::{
    Blame, CheckResult, Class, Event, EventType, Expect, Finding, Header, Model, Outcome, Process,
    SectionView, Value, Verdict,
};
use std::borrow::Cow;
use std::io::Write as _;
use std::path::Path;

pub const MS: u64 = 1_000_000;

/// What an adapter or a server could say, at its worst.
pub const HOSTILE: &str = "\u{1b}]0;x\u{7}\u{1b}[2J\n::error::z\r\n##[error]|`</code><script>alert(1)</script>\
    [l](javascript:a) @everyone #1 https://evil.example =cmd() \u{202e}x\u{0}\u{fffe}]]>";

/// A history that is written event by event.
pub struct History {
    lines: Vec<String>,
    index: u64,
}

impl History {
    pub fn new(workload: &str, expect: &[(&str, Expect)]) -> Self {
        let header = Header {
            fencepost: 1,
            workload: workload.to_owned(),
            seed: 7,
            model: Model {
                ttl_ms: Some(2_000),
                observed: true,
                ..Model::default()
            },
            expect: expect.iter().map(|(n, e)| ((*n).to_owned(), *e)).collect(),
            versions: [("fencepost", "0.1.0"), ("server", "redis 7.0.15")]
                .map(|(a, b)| (a.to_owned(), b.to_owned()))
                .into(),
        };
        let lines = vec![serde_json::to_string(&header).expect("a header is JSON")];
        Self { lines, index: 0 }
    }

    pub fn push(&mut self, event: Event<'_>) -> &mut Self {
        let event = Event {
            index: self.index,
            ..event
        };
        self.lines
            .push(serde_json::to_string(&event).expect("an event is JSON"));
        self.index += 1;
        self
    }

    /// An operation of worker 0 of a client; the process is the client's number.
    pub fn op(
        &mut self,
        ms: u64,
        client: &str,
        kind: EventType,
        f: &str,
        value: Value<'_>,
    ) -> &mut Self {
        let id = client.trim_start_matches('c').parse().unwrap_or(9);
        self.push(Event {
            index: 0,
            time: ms * MS,
            process: Process::Id(id),
            client: Some(Cow::Borrowed(client)),
            worker: Some(0),
            kind,
            f: Cow::Borrowed(f),
            key: Some(Cow::Borrowed("lock:0")),
            value,
            error: match kind {
                EventType::Info => Some("deadline".into()),
                EventType::Fail if f == "acquire" => Some("held".into()),
                _ => None,
            },
        })
    }

    /// An operation from invoke to its end.
    pub fn call(
        &mut self,
        from: u64,
        to: u64,
        client: &str,
        kind: EventType,
        f: &str,
    ) -> &mut Self {
        self.op(from, client, EventType::Invoke, f, Value::default())
            .op(to, client, kind, f, Value::default())
    }

    pub fn named(
        &mut self,
        ms: u64,
        process: &'static str,
        f: &str,
        value: Value<'_>,
    ) -> &mut Self {
        self.push(Event {
            index: 0,
            time: ms * MS,
            process: Process::Named(process.into()),
            client: None,
            worker: None,
            kind: EventType::Info,
            f: Cow::Borrowed(f),
            key: None,
            value,
            error: None,
        })
    }

    pub fn phase(&mut self, ms: u64, phase: &str) -> &mut Self {
        let value = Value {
            phase: Some(Cow::Borrowed(phase)),
            ..Value::default()
        };
        self.named(ms, "driver", "phase", value)
    }

    pub fn fault(
        &mut self,
        ms: u64,
        kind: &str,
        phase: &str,
        target: &str,
        proof: &str,
    ) -> &mut Self {
        let value = Value {
            fault: Some(0),
            phase: Some(Cow::Borrowed(phase)),
            target: Some(Cow::Borrowed(target)),
            proof: (!proof.is_empty()).then_some(Cow::Borrowed(proof)),
            ..Value::default()
        };
        self.named(ms, "nemesis", kind, value)
    }

    pub fn text(&self) -> String {
        let mut text = self.lines.join("\n");
        text.push('\n');
        text
    }
}

pub fn check(name: &str, class: Class, outcome: Outcome) -> CheckResult {
    // By way of JSON, so that a check may grow a field that has a default.
    let check = serde_json::json!({"name": name, "class": class, "outcome": outcome, "count": 0, "incidents": 0,
        "note": null, "findings": []});
    serde_json::from_value(check).expect("a check's result")
}

pub fn section(label: &str, client: &str, times: [u64; 4]) -> SectionView {
    SectionView {
        label: label.to_owned(),
        client: client.to_owned(),
        worker: 0,
        process: 0,
        owner: Some(format!("{client}-owner")),
        token: None,
        acquire_invoke: times[0] * MS,
        acquire_return: times[1] * MS,
        promise_end: (times[2] > 0).then_some(times[2] * MS),
        belief_end: (times[3] > 0).then_some(times[3] * MS),
    }
}

fn seen(ms: u64, f: &str, node: &str) -> serde_json::Value {
    serde_json::json!({"index": 9, "time": ms * MS, "process": "observer", "type": "info", "f": f, "key": "lock:0",
        "value": {"node": node, "not_before": (ms - 3) * MS}})
}

/// The overrun of the paused holder, and its DEL of the next one's key.
pub fn findings() -> [Finding; 2] {
    let a = section("A", "c1", [1_200, 1_202, 3_178, 4_210]);
    let b = section("B", "c2", [3_230, 3_231, 4_213, 4_540]);
    let overrun = Finding {
        check: String::from("overrun"),
        blame: Blame::Client(String::from("c1")),
        kind: None,
        sentence: String::from(
            "A (c1) went on until 4.210 s although its lease ended at 3.178 s; B (c2) was granted at 3.231 s.",
        ),
        proof: Vec::new(),
        at: 3_231 * MS,
        key: Some(String::from("lock:0")),
        sections: vec![a.clone(), b.clone()],
        overlap_ns: Some(979 * MS),
        evidence: vec![seen(3_202, "expired", "n1"), seen(3_232, "set", "n1")],
        faults: vec![String::from("client-pause c1 (1.203 s to 4.204 s)")],
    };
    let ownership = Finding {
        check: String::from("ownership"),
        blame: Blame::Library(String::from("c1")),
        kind: None,
        sentence: String::from(
            "A (c1) deleted the key that carries B's grant (c2) at 4.213 s on n1.",
        ),
        proof: Vec::new(),
        at: 4_213 * MS,
        overlap_ns: None,
        evidence: vec![
            seen(3_202, "expired", "n1"),
            seen(3_232, "set", "n1"),
            serde_json::json!({"index": 12, "time": 4_210 * MS, "process": 1, "client": "c1", "worker": 0,
                "type": "invoke", "f": "release", "key": "lock:0"}),
            seen(4_213, "del", "n1"),
        ],
        ..overrun.clone()
    };
    [overrun, ownership]
}

pub fn verdict(violated: bool) -> Verdict {
    let mut checks = vec![
        check("service", Class::Service, Outcome::Valid),
        check("overrun", Class::Overrun, Outcome::Valid),
        check("ownership", Class::Library, Outcome::Valid),
        check("truthful", Class::Library, Outcome::Unknown),
        check("effects", Class::Damage, Outcome::Valid),
        check("coverage", Class::Coverage, Outcome::Valid),
    ];
    checks[3].note = Some(String::from("the library gives no owner value"));
    if violated {
        let [overrun, ownership] = findings();
        for (n, finding, count) in [(1, overrun, 2), (2, ownership, 1)] {
            checks[n].outcome = Outcome::Violated;
            checks[n].count = count;
            checks[n].incidents = 1;
            checks[n].findings = vec![finding];
        }
    }
    Verdict {
        outcome: Outcome::Valid,
        damaged: None,
        reading: Vec::new(),
        reasons: Vec::new(),
        checks,
        counts: [
            ("keys", 1),
            ("lost_updates", u64::from(violated)),
            ("sections", 12),
        ]
        .map(|(n, c)| (n.to_owned(), c))
        .into(),
    }
}

pub const PLAN: &str = r#"
name = "plain-del"
about = "A holder that was paused past its lease deletes another's lock."
seed = 7
[cluster]
topology = "single"
nodes = 1
persistence = "none"
[lock]
name = "set-nx-del"
command = []
ttl = "2s"
[load]
clients = 3
workers = 1
keys = 1
[resource]
fence = "none"
[[fault]]
id = "pause"
kind = "client-pause"
"#;

/// A load of a few sections around one pause of c1.
pub fn plain_del() -> History {
    use EventType::{Fail, Info, Invoke, Ok};
    let any = [("overrun", Expect::Any), ("ownership", Expect::Violated)];
    let mut h = History::new("plain-del", &any);
    h.phase(0, "warm-up")
        .call(10, 90, "c1", Ok, "acquire")
        .call(95, 99, "c1", Ok, "release");
    h.phase(1_000, "load");
    for n in 0..10 {
        let at = 1_000 + n * 20;
        h.call(at, at + 1, "c2", Ok, "acquire")
            .call(at + 10, at + 12, "c2", Ok, "release");
    }
    h.call(1_200, 1_202, "c1", Ok, "acquire");
    h.fault(1_203, "client-pause", "inject", "c1", "").fault(
        1_204,
        "client-pause",
        "bit",
        "c1",
        "state T",
    );
    for n in 0..5 {
        h.call(1_300 + n * 300, 1_301 + n * 300, "c2", Fail, "acquire");
    }
    h.call(3_230, 3_231, "c2", Ok, "acquire")
        .call(3_240, 3_540, "c3", Info, "acquire");
    h.fault(4_203, "client-pause", "heal", "c1", "").fault(
        4_204,
        "client-pause",
        "healed",
        "c1",
        "state S",
    );
    h.call(4_210, 4_214, "c1", Ok, "release")
        .call(4_540, 4_541, "c2", Ok, "release");
    h.named(
        4_600,
        "driver",
        "stall",
        Value {
            ms: Some(75.0),
            ..Value::default()
        },
    );
    h.phase(5_000, "heal").phase(5_100, "tail");
    h.call(5_200, 5_201, "c1", Ok, "acquire")
        .op(5_300, "c3", Invoke, "acquire", Value::default());
    h.phase(6_000, "final").phase(6_100, "end");
    h
}

/// Write a results folder.
pub fn folder(dir: &Path, plan: &str, history: &str, verdict: &Verdict) {
    std::fs::create_dir_all(dir).expect("a folder");
    let json = serde_json::to_string_pretty(verdict).expect("a verdict is JSON");
    for (name, text) in [
        ("plan.toml", plan),
        ("history.jsonl", history),
        ("verdict.json", &json),
    ] {
        let mut file = std::fs::File::create(dir.join(name)).expect("a file");
        file.write_all(text.as_bytes()).expect("room on the disk");
    }
}
