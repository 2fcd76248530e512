//! The client protocol (PROTOCOL.md) for adapters in Rust: lines in, lines out, and the published error codes.
//!
//! Owns standard input and output, threads and codes; must not know any lock library. Each worker has one thread that
//! makes all of its lock calls; `work` is slept beside it, so that `extend` can come, and `cancel` comes beside both.
use serde_json::{json, Map, Value};
use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::mpsc::{channel, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// How often it is looked for acquires that take too long.
const LOOK: Duration = Duration::from_millis(20);
/// Codes that say, by operation, that it certainly had no effect (the error table of PROTOCOL.md). All others are doubt.
const NOTHING_SENT: [&str; 3] = ["unsupported", "bad-request", "not-initialised"];
const NOT_GRANTED: [&str; 16] = [
    "held",
    "too-late",
    "no-quorum",
    "connection-refused",
    "not-sent",
    "moved",
    "readonly",
    "noreplicas",
    "oom",
    "misconf",
    "loading",
    "clusterdown",
    "masterdown",
    "noscript",
    "busy",
    "noauth",
];
const NOT_MINE: [&str; 2] = ["not-owner", "not-held"];

/// What an adapter is told before anything else.
pub struct Init {
    pub nodes: Vec<String>,
    pub ttl: Duration,
    pub prefix: String,
    pub retry: Duration,
}

/// Whose lock.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Place {
    pub worker: u64,
    pub key: String,
}

/// An operation that is not ok: a code of the error table, and words for people.
pub struct Refused(pub &'static str, pub String);

/// What an operation has to say.
pub type Answer = Result<Map<String, Value>, Refused>;

/// A lock library behind the protocol. What it has not, it refuses.
pub trait Adapter: Send + Sync + Sized + 'static {
    /// The adapter, and what it says of itself.
    fn init(init: Init) -> Result<(Self, Map<String, Value>), Refused>;
    fn acquire(&self, at: &Place) -> Answer;
    fn release(&self, at: &Place) -> Answer;
    fn extend(&self, _at: &Place, _ttl: Duration) -> Answer {
        Err(unsupported("extend"))
    }
    fn cancel(&self, _at: &Place) -> Answer {
        Err(unsupported("cancel"))
    }
}

/// The library has no such operation.
pub fn unsupported(what: &str) -> Refused {
    Refused("unsupported", format!("this library has no `{what}`"))
}

/// A lock that the worker does not have.
pub fn not_held() -> Refused {
    Refused("not-held", "no lock of this worker".to_owned())
}

/// The fields of a value: `fields(json!({"owner": x}))`.
pub fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// What a library says of a grant: the value that it wrote, and for how long the lock may be used.
pub fn grant(value: &[u8], validity_ms: usize) -> Map<String, Value> {
    fields(json!({ "owner": String::from_utf8_lossy(value), "validity_ms": validity_ms }))
}

/// A crate's version, from the lock file that the adapter was built with.
pub fn version_of(name: &str) -> &'static str {
    let lock = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.lock"));
    let after = lock.split_once(&format!("name = \"{name}\"\nversion = \""));
    after
        .and_then(|(_, rest)| rest.split('"').next())
        .unwrap_or("unknown")
}

/// Requests that are not answered yet.
#[derive(Default)]
struct Open(Mutex<HashMap<u64, Asked>>);

struct Asked {
    op: &'static str,
    at: Instant,
    /// When it is given up.
    end: Option<Instant>,
}

impl Open {
    fn begin(&self, id: u64, op: &'static str, limit: Option<Duration>) {
        let at = Instant::now();
        let end = limit.map(|limit| at + limit);
        self.0.lock().unwrap().insert(id, Asked { op, at, end });
    }

    /// Answer a request, unless it was given up.
    fn answer(&self, id: u64, answer: Answer) {
        let Some(asked) = self.0.lock().unwrap().remove(&id) else {
            return;
        };
        let (op, took) = (asked.op, asked.at.elapsed().as_secs_f64() * 1e3);
        let mut line = json!({ "id": id, "type": "ok", "took_ms": took });
        match answer {
            Ok(value) if value.is_empty() => {}
            Ok(value) => line["value"] = Value::Object(value),
            Err(Refused(code, message)) => {
                line["type"] = if definite(op, code) { "fail" } else { "info" }.into();
                line["error"] = code.into();
                line["message"] = message.into();
            }
        }
        say(&line);
    }

    /// Libraries without a limit of their own: their thread goes on, its caller does not wait for it.
    fn give_up(&self) {
        let now = Instant::now();
        let open = self.0.lock().unwrap();
        let late = open
            .iter()
            .filter(|(_, asked)| asked.end.is_some_and(|end| end <= now));
        let late: Vec<u64> = late.map(|(id, _)| *id).collect();
        drop(open);
        for id in late {
            self.answer(
                id,
                Err(Refused("timeout", "the library did not return".to_owned())),
            );
        }
    }
}

fn definite(op: &str, code: &str) -> bool {
    NOTHING_SENT.contains(&code)
        || match op {
            "acquire" => NOT_GRANTED.contains(&code),
            "release" => NOT_MINE.contains(&code),
            "extend" => code == "lease-over" || NOT_MINE.contains(&code),
            _ => true,
        }
}

fn say(line: &Value) {
    let mut out = std::io::stdout().lock();
    let written = writeln!(out, "{line}").and_then(|()| out.flush());
    if written.is_err() {
        std::process::exit(0);
    }
}

struct Request {
    id: u64,
    op: &'static str,
    at: Place,
    ttl: Duration,
}

/// Serve until `close` or the end of standard input.
pub fn serve<A: Adapter>() {
    let open = Arc::new(Open::default());
    let watched = open.clone();
    thread::spawn(move || loop {
        thread::sleep(LOOK);
        watched.give_up();
    });
    let mut adapter: Option<Arc<A>> = None;
    let mut workers: HashMap<u64, Sender<Request>> = HashMap::new();
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let Ok(r) = serde_json::from_str::<Value>(&line) else {
            say(&json!({ "type": "fail", "error": "bad-request", "message": "no JSON" }));
            continue;
        };
        let id = r["id"].as_u64().unwrap_or(0);
        let millis = |name: &str| {
            r[name]
                .as_f64()
                .map(|ms| Duration::from_secs_f64(ms.max(0.0) / 1000.0))
        };
        let op = [
            "init", "acquire", "release", "extend", "cancel", "work", "tick", "close",
        ];
        let op = op.into_iter().find(|op| r["op"] == *op).unwrap_or("");
        // Well before the harness stops waiting for it.
        let limit = millis("timeout_ms").filter(|t| op == "acquire" && !t.is_zero());
        open.begin(id, op, limit.map(|t| t * 4 / 5));
        let at = Place {
            worker: r["worker"].as_u64().unwrap_or(0),
            key: r["key"].as_str().unwrap_or("").to_owned(),
        };
        match (op, &adapter) {
            ("tick", _) => open.answer(id, Ok(Map::new())),
            ("close", _) => {
                open.answer(id, Ok(Map::new()));
                break;
            }
            ("init", _) => {
                let made = A::init(read_init(&r)).map(|(made, about)| {
                    adapter = Some(Arc::new(made));
                    about
                });
                open.answer(id, made);
            }
            (_, None) => open.answer(
                id,
                Err(Refused("not-initialised", "init comes first".to_owned())),
            ),
            ("work", _) => {
                let (open, time) = (open.clone(), millis("ms").unwrap_or_default());
                thread::spawn(move || {
                    thread::sleep(time);
                    open.answer(id, Ok(Map::new()));
                });
            }
            ("cancel", Some(adapter)) => open.answer(id, adapter.cancel(&at)),
            ("acquire", _) if r["wait_ms"].as_u64() > Some(0) => {
                open.answer(
                    id,
                    Err(Refused(
                        "unsupported",
                        "it counts its tries, not its time".to_owned(),
                    )),
                );
            }
            ("acquire" | "release" | "extend", Some(adapter)) => {
                let worker = workers
                    .entry(at.worker)
                    .or_insert_with(|| worker(adapter.clone(), open.clone()));
                let ttl = millis("ttl_ms").unwrap_or_default();
                // A worker ends only with the process.
                let _ = worker.send(Request { id, op, at, ttl });
            }
            _ => open.answer(
                id,
                Err(Refused("unsupported", "no such operation".to_owned())),
            ),
        }
    }
    // Calls that hang keep no process.
    std::process::exit(0);
}

fn read_init(r: &Value) -> Init {
    let nodes = r["nodes"].as_array().into_iter().flatten();
    Init {
        nodes: nodes
            .filter_map(|node| node.as_str().map(str::to_owned))
            .collect(),
        ttl: Duration::from_millis(r["ttl_ms"].as_u64().unwrap_or(0)),
        prefix: r["prefix"].as_str().unwrap_or("").to_owned(),
        retry: Duration::from_millis(r["retry_ms"].as_u64().unwrap_or(0)),
    }
}

fn worker<A: Adapter>(adapter: Arc<A>, open: Arc<Open>) -> Sender<Request> {
    let (sender, requests) = channel::<Request>();
    thread::spawn(move || {
        for r in requests {
            let call = || match r.op {
                "acquire" => adapter.acquire(&r.at),
                "release" => adapter.release(&r.at),
                _ => adapter.extend(&r.at, r.ttl),
            };
            let crash = |_| Err(Refused("crash", "the library panicked".to_owned()));
            open.answer(
                r.id,
                catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(crash),
            );
        }
    });
    sender
}
