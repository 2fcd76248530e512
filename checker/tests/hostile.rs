//! Histories that were made to harm: each a located error or a documented tolerance, in bounded memory.
//!
//! Owns the list, in JSON lines and EDN. What is merely broken is in `history.rs` and `edn.rs`.
use fencepost_checker::history::{self, LINE_MAX};
use fencepost_checker::{HistoryError, Options, Outcome, Verdict, check_with};
use std::cell::Cell;
use std::fmt::Write as _;
use std::io::{BufReader, Read};
use std::rc::Rc;

const HEADER: &str = r#"{"fencepost":1,"workload":"w","seed":0,"model":{}}"#;

fn judge(text: &str) -> Result<Verdict, HistoryError> {
    check_with(text.as_bytes(), &Options::default())
}

fn judged(text: &str) -> Verdict {
    judge(text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Both formats of the same operations: `index time process type f`, one a word group.
fn both(ops: &[(u64, u64, u64, &str, &str)]) -> [String; 2] {
    let mut json = HEADER.to_owned();
    let mut edn = String::new();
    for (index, time, process, kind, f) in ops {
        let _ = write!(
            json,
            "\n{{\"index\":{index},\"time\":{time},\"process\":{process},\"type\":\"{kind}\",\"f\":\"{f}\",\"key\":\"k\"}}"
        );
        let _ = writeln!(
            edn,
            "{{:index {index}, :time {time}, :process {process}, :type :{kind}, :f :{f}, :key \"k\"}}"
        );
    }
    [json, edn]
}

const TURNS: [(u64, u64, u64, &str, &str); 8] = [
    (0, 10, 0, "invoke", "acquire"),
    (1, 20, 0, "ok", "acquire"),
    (2, 30, 0, "invoke", "release"),
    (3, 40, 0, "ok", "release"),
    (4, 50, 1, "invoke", "acquire"),
    (5, 60, 1, "ok", "acquire"),
    (6, 70, 1, "invoke", "release"),
    (7, 80, 1, "ok", "release"),
];

#[test]
fn duplicate_indexes_are_only_names() {
    let mut same = TURNS;
    for op in &mut same {
        op.0 = 7;
    }
    for (text, twice) in both(&TURNS).iter().zip(both(&same)) {
        assert_eq!(judged(text), judged(&twice));
        assert_eq!(judged(&twice).outcome, Outcome::Valid);
    }
}

#[test]
fn time_that_goes_backwards() {
    // Between processes it may: their stamps were taken at once and written one after the other.
    let mut crossed = TURNS;
    crossed.swap(3, 4);
    let [json, edn] = both(&crossed);
    assert_eq!(judged(&json).outcome, Outcome::Valid);
    assert_eq!(judged(&edn).outcome, Outcome::Valid);
    // Before its own invoke no answer can be; the place is told.
    let mut before = TURNS;
    before[5].1 = 45;
    for text in both(&before) {
        let v = judged(&text);
        assert_eq!(v.outcome, Outcome::Unknown);
        assert!(
            v.reasons[0].contains("event 5 (`acquire`): answered before it was invoked"),
            "{:?}",
            v.reasons
        );
    }
}

#[test]
fn what_does_not_fit_together_is_told_with_its_place() {
    // It held, however that is written: its release is not that of a stranger.
    let refused = [
        TURNS[1],
        TURNS[4],
        (5, 60, 1, "fail", "acquire"),
        (6, 70, 0, "invoke", "release"),
        (7, 80, 0, "ok", "release"),
    ];
    let without_invoke = [TURNS[1], TURNS[4], TURNS[5]];
    let overlaps_itself = [TURNS[0], TURNS[0], TURNS[1]];
    for (ops, why) in [
        (
            &without_invoke[..],
            "event 1 (`acquire`): an answer without an invoke",
        ),
        (
            &refused[..],
            "event 1 (`acquire`): an answer without an invoke",
        ),
        (
            &overlaps_itself[..],
            "event 0 (`acquire`): invoked again before its answer",
        ),
    ] {
        for text in both(ops) {
            let v = judged(&text);
            assert_eq!(v.outcome, Outcome::Unknown, "{text}");
            // Where events are numbered anew, as in EDN, the number is that of the operation.
            let why = why.split_once(": ").expect("a reason").1;
            assert!(v.reasons[0].contains(why), "{:?}", v.reasons);
        }
    }
}

#[test]
fn numbers_beyond_64_bits_are_refused_at_their_place() {
    let [json, edn] = both(&TURNS);
    for field in ["index", "time", "process"] {
        for big in [
            "18446744073709551616",
            "-1",
            "1e99",
            "99999999999999999999999999999999999",
        ] {
            let bad = json.replacen(
                &format!("\"{field}\":{}", if field == "index" { 3 } else { 40 }),
                &format!("\"{field}\":{big}"),
                1,
            );
            let bad = if field == "process" {
                json.replacen("\"process\":0", &format!("\"process\":{big}"), 1)
            } else {
                bad
            };
            assert_ne!(bad, json);
            match judge(&bad) {
                Err(HistoryError::BadLine { line, column, .. }) => {
                    assert_eq!(
                        line,
                        if field == "process" { 2 } else { 5 },
                        "{field} {big}"
                    );
                    assert!(column > 1);
                }
                other => panic!("{field} {big}: {other:?}"),
            }
        }
    }
    for (old, new, line) in [
        (":time 40", ":time 18446744073709551616", 4),
        (":process 1", ":process 18446744073709551616", 5),
    ] {
        match judge(&edn.replacen(old, new, 1)) {
            Err(HistoryError::BadEdn { line: at, .. }) => assert_eq!(at, line, "{new}"),
            other => panic!("{new}: {other:?}"),
        }
    }
    // A token that fits into no number is an error in JSON lines; in EDN it stays a text, and is no token.
    let token = edn.replacen(
        ":key \"k\"}",
        ":key \"k\", :value {:token 99999999999999999999}}",
        2,
    );
    assert_eq!(judged(&token).outcome, Outcome::Valid);
}

/// A start, and then one byte for ever (a gigabyte), which counts what was read of it.
struct Endless {
    start: Vec<u8>,
    fill: u8,
    left: u64,
    read: Rc<Cell<u64>>,
}

impl Read for Endless {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let n = if self.start.is_empty() {
            let n = out.len().min(self.left as usize);
            out[..n].fill(self.fill);
            self.left -= n as u64;
            n
        } else {
            let n = out.len().min(self.start.len());
            let rest = self.start.split_off(n);
            out[..n].copy_from_slice(&self.start);
            self.start = rest;
            n
        };
        self.read.set(self.read.get() + n as u64);
        Ok(n)
    }
}

#[test]
fn a_line_of_a_gigabyte_is_refused_after_a_megabyte() {
    let [json, edn] = both(&TURNS);
    for (start, fill, line) in [
        (String::new(), b'x', 1),
        (String::new(), b'{', 1),
        (String::new(), b'[', 1),
        (String::new(), b' ', 1),
        (format!("{json}\n"), b'x', 10),
        (format!("{json}\n{{\"index\":\""), b'9', 10),
        (format!("{json}\n"), b' ', 10),
        (format!("{edn}{{:a \""), b'x', 9),
        (format!("[{edn}{{:a {{"), b'[', 9),
        (format!("[{edn} :"), b'k', 9),
        ("{:type :ok, :value ".to_owned(), b'7', 1),
    ] {
        let read = Rc::new(Cell::new(0));
        let endless = Endless {
            start: start.clone().into_bytes(),
            fill,
            left: 1 << 30,
            read: Rc::clone(&read),
        };
        let reader = BufReader::with_capacity(1 << 16, endless);
        let what = format!(
            "{:?} and {:?}",
            start.chars().rev().take(9).collect::<String>(),
            fill as char
        );
        match check_with(reader, &Options::default()) {
            Err(
                HistoryError::LineTooLong { line: at } | HistoryError::FormTooLong { line: at },
            ) => {
                assert_eq!(at, line, "{what}");
            }
            other => panic!("{what}: {other:?}"),
        }
        // What was read is all that can have been kept.
        assert!(
            read.get() <= (LINE_MAX + (1 << 17)) as u64 + start.len() as u64,
            "{what}: {} bytes were read",
            read.get()
        );
    }
}

/// A compressed file that grows a thousandfold is read through the same bounds.
#[test]
fn a_compressed_gigabyte_is_no_way_around() {
    // Frame header, then run-length blocks: four bytes make 128 KiB of `x` each.
    let mut zst = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58];
    for _ in 0..8192 {
        let block: u32 = (128 << 10) << 3 | 0b010;
        zst.extend(&block.to_le_bytes()[..3]);
        zst.push(b'x');
    }
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), &zst).expect("writes");
    assert!(zst.len() < 40_000);
    match fencepost_checker::check_path(file.path()) {
        Err(HistoryError::LineTooLong { line: 1 }) => {}
        other => panic!("{other:?}"),
    }
    assert!(history::open(file.path()).is_ok());
}

/// Numbers that are near to nothing else, or to the end of what there is.
const ODD: [u64; 8] = [
    0,
    1,
    999_999_999,
    1_000_200_000,
    1 << 53,
    u64::MAX - 1_000_000_000,
    u64::MAX - 1,
    u64::MAX,
];

/// Any stamp and any number of a model: whoever wrote the file, it is judged, twice the same.
#[test]
fn no_number_stops_the_checker() {
    let golden = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut judged = 0;
    let mut random = 7u64;
    let mut below = |n: usize| {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (random >> 33) as usize % n
    };
    let mut files: Vec<_> = std::fs::read_dir(golden).expect("is there").collect();
    files.sort_by_key(|f| f.as_ref().expect("readable").path());
    for file in files {
        let text = std::fs::read_to_string(file.expect("readable").path()).expect("a text");
        for _ in 0..20 {
            // Now and then a stamp, or many; now and then a number of the model.
            let (stamps, models) = ([1, 4, 30][below(3)], [1, 9][below(2)]);
            let lines = text.lines().map(|line| {
                let mut json: serde_json::Value = serde_json::from_str(line).expect("JSON");
                let mut places: Vec<&mut serde_json::Value> = Vec::new();
                let odds = if json.get("model").is_some() {
                    let model = json["model"].as_object_mut().expect("an object");
                    places.extend(model.values_mut().filter(|v| v.is_number()));
                    models
                } else {
                    let event = json.as_object_mut().expect("an object");
                    for (name, value) in event {
                        match value {
                            serde_json::Value::Object(inner) => {
                                places.extend(inner.values_mut().filter(|v| v.is_number()));
                            }
                            _ if name == "time" => places.push(value),
                            _ => {}
                        }
                    }
                    stamps
                };
                for place in places {
                    if below(30) < odds {
                        *place = ODD[below(ODD.len())].into();
                    }
                }
                json.to_string()
            });
            let odd = lines.collect::<Vec<_>>().join("\n");
            // A number may be too large for its place, which is an error.
            let Ok(verdict) = judge(&odd) else { continue };
            assert_eq!(verdict, judge(&odd).expect("it was judged before"));
            judged += 1;
        }
    }
    assert!(judged > 400, "{judged} histories");
}
