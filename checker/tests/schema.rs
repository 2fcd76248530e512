//! The published schema of a history against histories: what is recorded fits, what the reader refuses does not.
//!
//! Owns the comparison, by a validator that knows nothing of this crate. `FENCEPOST_HISTORIES=DIR cargo test --test
//! schema` also validates every `history.jsonl` below a folder of results.
mod histories;

use boon::{Compiler, SchemaIndex, Schemas};
use fencepost_checker::{EventType, Fence, Header, Model, Options, check_with, schema, to_edn};
use histories::{clients, random};
use proptest::prelude::*;
use serde::Deserialize as _;
use serde_json::{Value, json};
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Validates the lines of histories.
struct Validator {
    schemas: Schemas,
    header: SchemaIndex,
    event: SchemaIndex,
}

impl Validator {
    fn new() -> Self {
        let published = schema::history();
        let mut schemas = Schemas::new();
        let mut compiler = Compiler::new();
        let mut compile = |name: &str| {
            let url = format!("https://fencepost.invalid/{name}.json");
            let resource = published[name].clone();
            compiler.add_resource(&url, resource).expect("a resource");
            compiler.compile(&url, &mut schemas).expect("a good schema")
        };
        let (header, event) = (compile("header"), compile("event"));
        Self {
            schemas,
            header,
            event,
        }
    }

    /// What is wrong with a line; the first line of a history is its header.
    fn wrong(&self, first: bool, line: &Value) -> Option<String> {
        let schema = if first { self.header } else { self.event };
        let said = self.schemas.validate(line, schema);
        said.err().map(|e| format!("{e:#}"))
    }

    /// Every line of a text fits; their number.
    fn fits(&self, name: &str, text: &str) -> usize {
        for (i, line) in text.lines().enumerate() {
            let json: Value = serde_json::from_str(line).expect("JSON");
            if let Some(wrong) = self.wrong(i == 0, &json) {
                panic!("{name}, line {}: {wrong}\n{line}", i + 1);
            }
        }
        text.lines().count()
    }
}

/// All files of this name or end below a folder.
fn below(dir: &Path, end: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).expect("a folder") {
        let path = entry.expect("readable").path();
        if path.is_dir() && !path.is_symlink() {
            files.extend(below(&path, end));
        } else if path.to_string_lossy().ends_with(end) {
            files.push(path);
        }
    }
    files.sort();
    files
}

#[test]
fn histories_fit_the_schema() {
    let v = Validator::new();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut files = below(&golden, ".jsonl");
    assert!(files.len() > 50);
    if let Some(dir) = std::env::var_os("FENCEPOST_HISTORIES") {
        files.extend(below(Path::new(&dir), "history.jsonl"));
    }
    let mut lines = 0;
    for path in &files {
        let text = std::fs::read_to_string(path).expect("a text");
        lines += v.fits(&path.display().to_string(), &text);
    }
    println!("{lines} lines of {} histories fit", files.len());
}

/// Every field that this version writes, in both formats.
#[test]
fn what_is_written_fits_the_schema() {
    let v = Validator::new();
    let header = Header {
        fencepost: 1,
        workload: "w".to_owned(),
        seed: u64::MAX,
        model: Model {
            ttl_ms: Some(1),
            fence: Fence::FirstAccess,
            ..Model::default()
        },
        expect: [("service".to_owned(), fencepost_checker::Expect::Any)].into(),
        versions: [("a".to_owned(), "b".to_owned())].into(),
    };
    let header = serde_json::to_value(header).expect("writes");
    assert_eq!(v.wrong(true, &header), None);
    let all = json!({
        "owner": "o", "token": 1, "validity_ms": 1.5, "ttl_ms": 2, "wait_ms": 0, "shared": true, "ms": 3.5,
        "version": 4, "intended": 5, "since": 6, "node": "n1", "not_before": 7, "pttl_ms": -1, "fault": 0,
        "phase": "load", "target": "c1", "conn": 1, "message": 2, "messages": 3, "text": "SET", "proof": "p"
    });
    let value = fencepost_checker::Value::deserialize(&all).expect("every field is known");
    let written = serde_json::to_value(&value).expect("writes");
    let known = schema::history()["event"]["$defs"]["Value"]["properties"].clone();
    for field in known.as_object().expect("fields").keys() {
        assert!(written.get(field).is_some(), "{field} is not tried here");
    }
    for kind in [
        EventType::Invoke,
        EventType::Ok,
        EventType::Fail,
        EventType::Info,
    ] {
        let event = json!({
            "index": 0, "time": u64::MAX, "process": "observer", "client": "c1", "worker": 0, "type": kind, "f": "set",
            "key": "k", "value": written, "error": "held"
        });
        let event = fencepost_checker::Event::deserialize(&event).expect("an event");
        let event = serde_json::to_value(event).expect("writes");
        assert_eq!(v.wrong(false, &event), None);
    }
}

/// The reader and the schema agree on what is no header and no event.
#[test]
fn what_is_refused_does_not_fit() {
    let v = Validator::new();
    let header = json!({"fencepost": 1, "workload": "w", "seed": 0, "model": {}});
    let event = json!({"index": 0, "time": 0, "process": 0, "type": "ok", "f": "acquire", "key": "k", "value": {}});
    let read = |header: &Value, event: &Value| {
        let text = format!("{header}\n{event}\n");
        check_with(text.as_bytes(), &Options::default()).is_ok()
    };
    assert_eq!(
        (v.wrong(true, &header), v.wrong(false, &event)),
        (None, None)
    );
    assert!(read(&header, &event));
    let wrong = |line: &Value, path: &str, put: Value| {
        let mut line = line.clone();
        *line.pointer_mut(path).expect("is there") = put;
        line
    };
    for (path, put) in [
        ("/fencepost", json!("1")),
        ("/fencepost", json!(-1)),
        ("/workload", json!(7)),
        ("/seed", json!(1.5)),
        ("/model", json!("x")),
        ("/model", json!({"kind": "spinlock"})),
        ("/model", json!({"ttl_ms": "2s"})),
        ("/model", json!({"nodes": -1})),
        ("/model", json!({"ttl_ms": 0})),
        ("/model", json!({"drift": 1})),
        ("/model", json!({"drift": -0.5})),
        ("/model", json!({"floor_ms": -1})),
        ("/model", json!({"permits": 0})),
        ("/model", json!({"clock_uncertainty_ms": -5})),
        ("/model", json!({"load_max": -1})),
    ] {
        let line = wrong(&header, path, put);
        assert!(
            v.wrong(true, &line).is_some() && !read(&line, &event),
            "{line}"
        );
    }
    for (path, put) in [
        ("/index", json!(-1)),
        ("/time", json!("0")),
        ("/time", json!(0.5)),
        ("/process", json!(-1)),
        ("/process", json!([])),
        ("/type", json!("done")),
        ("/f", json!(null)),
        ("/key", json!(1)),
        ("/value", json!("x")),
        ("/value", json!({"token": -1})),
        ("/value", json!({"shared": "yes"})),
        ("/value", json!({"pttl_ms": 0.5})),
    ] {
        let line = wrong(&event, path, put);
        assert!(
            v.wrong(false, &line).is_some() && !read(&header, &line),
            "{line}"
        );
    }
    for (line, first) in [(&header, true), (&event, false)] {
        for field in line.as_object().expect("an object").keys() {
            let mut less = line.clone();
            less.as_object_mut().expect("an object").remove(field);
            let reads = if first {
                read(&less, &event)
            } else {
                read(&header, &less)
            };
            assert_eq!(v.wrong(first, &less).is_none(), reads, "without {field}");
        }
    }
}

proptest! {
    /// Whatever was read, and written as EDN and as lines again, fits.
    #[test]
    fn any_history_fits(steps in clients(), leased in any::<bool>()) {
        let v = Validator::new();
        let text = random(&steps, leased);
        v.fits("random", &text);
        let edn = to_edn(text.as_bytes(), &Options::default()).expect("it is read");
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), edn).expect("writes");
        let mut lines = fencepost_checker::history::open_lines(file.path(), &Options::default()).expect("it is read");
        let mut again = String::new();
        lines.read_to_string(&mut again).expect("a text");
        v.fits("its EDN", &again);
    }
}
