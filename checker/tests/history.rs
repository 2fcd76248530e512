//! Files that are no good history: each a clear error with its place, or a documented tolerance; never a panic.
use fencepost_checker::{HistoryError, Outcome, Verdict, check_path, check_reader};
use proptest::prelude::*;
use std::fmt::Write as _;
use std::path::Path;

const HEADER: &str = r#"{"fencepost":1,"workload":"w","seed":0,"model":{"ttl_ms":1000}}"#;
const INVOKE: &str = r#"{"index":0,"time":0,"process":0,"type":"invoke","f":"acquire","key":"k"}"#;
const OK: &str = r#"{"index":1,"time":9,"process":0,"type":"ok","f":"acquire","key":"k"}"#;

fn check(bytes: impl AsRef<[u8]>) -> Result<Verdict, HistoryError> {
    check_reader(bytes.as_ref())
}

fn error(bytes: impl AsRef<[u8]>) -> HistoryError {
    match check(bytes) {
        Ok(v) => panic!("it was judged: {:?}", v.outcome),
        Err(e) => {
            assert!(!e.hint().is_empty());
            e
        }
    }
}

#[test]
fn nothing_to_judge() {
    assert!(matches!(error(""), HistoryError::Empty));
    assert!(matches!(error("\n \n\n"), HistoryError::Empty));
    assert!(matches!(error(HEADER), HistoryError::NoEvents));
    assert!(matches!(
        error(format!("{HEADER}\n\n")),
        HistoryError::NoEvents
    ));
    let missing = check_path(Path::new("there/is/no/such.jsonl"));
    assert!(matches!(missing, Err(HistoryError::Io(_))));
}

#[test]
fn not_a_history() {
    let gzip = error([0x1f, 0x8b, 8, 0, 0, 1, 2, 3]);
    assert_eq!(
        gzip.to_string(),
        "line 1 is not text: it is compressed with gzip"
    );
    assert!(matches!(
        error([0x28, 0xb5, 0x2f, 0xfd, 9]),
        HistoryError::Binary { line: 1, .. }
    ));
    assert!(matches!(
        error([0, 1, 2, 3]),
        HistoryError::Binary { line: 1, .. }
    ));
    assert!(matches!(
        error([0xff, 0xfe, b'a']),
        HistoryError::Binary { line: 1, .. }
    ));
    assert!(matches!(
        error(vec![0; 3 << 20]),
        HistoryError::Binary { line: 1, .. }
    ));
    for foreign in ["hello", "[1,2]", "{\"a\":1}", "# a comment", "<html>", "7"] {
        assert!(
            matches!(error(foreign), HistoryError::Foreign { .. }),
            "{foreign}"
        );
    }
}

#[test]
fn bad_headers() {
    assert!(matches!(error(INVOKE), HistoryError::MissingHeader));
    let newer = error(HEADER.replace(":1,", ":2,"));
    assert!(matches!(
        newer,
        HistoryError::UnsupportedVersion { found: 2 }
    ));
    for twice in [
        "\"seed\":0,\"seed\":0",
        "\"seed\":0,\"model\":{}",
        "\"seed\":0,\"expect\":{\"service\":\"valid\",\"service\":\"any\"}",
    ] {
        let e = error(HEADER.replace("\"seed\":0", twice));
        assert!(e.to_string().contains("duplicate"), "{twice}: {e}");
    }
    let text = HEADER.replace("\"seed\":0", "\"seed\":\"x\"");
    let HistoryError::BadHeader {
        line,
        column,
        message,
    } = error(format!("\n{text}\n{OK}"))
    else {
        panic!("no bad header");
    };
    assert_eq!(
        (line, column),
        (2, text.find("\"x\"").expect("it is there") + 3)
    );
    assert!(message.contains("expected u64"), "{message}");
    assert!(matches!(
        error(HEADER.replace(":1,", ":\"1\",")),
        HistoryError::BadHeader { .. }
    ));
    assert!(matches!(
        error(&HEADER[..40]),
        HistoryError::BadHeader { .. }
    ));
}

#[test]
fn a_header_says_what_can_be() {
    for (model, name) in [
        ("{\"ttl_ms\":0}", "ttl_ms"),
        ("{\"ttl_ms\":1000,\"drift\":5}", "drift"),
        ("{\"drift\":1}", "drift"),
        ("{\"drift\":-0.01}", "drift"),
        ("{\"floor_ms\":-1}", "floor_ms"),
        ("{\"kind\":\"semaphore\",\"permits\":0}", "permits"),
        ("{\"clock_uncertainty_ms\":-5}", "clock_uncertainty_ms"),
        ("{\"nodes\":0,\"quorum\":9}", "quorum"),
        ("{\"nodes\":3,\"quorum\":4}", "quorum"),
        ("{\"load_max\":-1}", "load_max"),
    ] {
        let text = HEADER.replace("{\"ttl_ms\":1000}", model);
        match error(format!("{text}\n{INVOKE}\n{OK}\n")) {
            HistoryError::BadHeader {
                line,
                column,
                message,
            } => {
                let place = text.find(&format!("\"{name}\"")).expect("it is there") + 1;
                assert_eq!((line, column), (1, place), "{model}: {message}");
                assert!(message.starts_with(name), "{message}");
            }
            e => panic!("{model}: {e}"),
        }
    }
    for model in [
        "{\"drift\":0,\"floor_ms\":0}",
        "{\"drift\":0.999,\"permits\":4294967295}",
        "{\"nodes\":0}",
        "{\"nodes\":0,\"quorum\":0}",
        "{\"nodes\":5,\"quorum\":5}",
    ] {
        let text = HEADER.replace("{\"ttl_ms\":1000}", model);
        assert!(
            check(format!("{text}\n{INVOKE}\n{OK}\n")).is_ok(),
            "{model}"
        );
    }
}

#[test]
fn bad_lines_have_their_place() {
    let bad = INVOKE.replace("\"time\":0", "\"time\":-4");
    let e = error(format!("{HEADER}\n{INVOKE}\n\n{bad}\n{OK}\n"));
    let HistoryError::BadLine { line, column, .. } = &e else {
        panic!("{e}");
    };
    assert_eq!(
        (*line, *column),
        (4, bad.find("-4").expect("it is there") + 2)
    );
    for (what, with) in [
        ("\"process\":0", "\"process\":[]"),
        ("\"process\":0", "\"process\":18446744073709551616"),
        ("\"type\":\"invoke\"", "\"type\":\"started\""),
        ("\"key\":\"k\"", "\"value\":{\"token\":1.5}"),
        ("\"type\"", "\"type\":\"ok\",\"type\""),
        ("{", "{{"),
    ] {
        let e = error(format!(
            "{HEADER}\n{}\n{OK}\n",
            INVOKE.replacen(what, with, 1)
        ));
        assert!(matches!(e, HistoryError::BadLine { line: 2, .. }), "{e}");
    }
    let e = error(
        [
            format!("{HEADER}\n").as_bytes(),
            b"{\"\x80\"}\n",
            OK.as_bytes(),
        ]
        .concat(),
    );
    assert!(matches!(e, HistoryError::Binary { line: 2, .. }), "{e}");
}

#[test]
fn a_line_is_bounded() {
    let long = format!("{HEADER}\n{INVOKE}\n\"{}\"\n", "x".repeat(3 << 20));
    assert!(matches!(error(long), HistoryError::LineTooLong { line: 3 }));
    let deep = format!("{HEADER}\n{}\n{OK}\n", "[".repeat(1 << 19));
    assert!(matches!(error(deep), HistoryError::BadLine { line: 2, .. }));
}

#[test]
fn a_torn_last_line_is_tolerated_and_counted() {
    let whole = format!("{HEADER}\n{INVOKE}\n{OK}");
    assert_eq!(check(&whole).expect("judged").counts["torn_bytes"], 0);
    for cut in 1..OK.len() {
        let v = check(&whole[..whole.len() - cut]).expect("judged");
        assert_eq!(v.counts["torn_bytes"], (OK.len() - cut) as u64);
        assert_eq!(v.counts["grants"], 0);
    }
    // The same line with a newline behind it was written as it is.
    assert!(matches!(
        error(format!("{}\n", &whole[..whole.len() - 5])),
        HistoryError::BadLine { line: 3, .. }
    ));
}

#[test]
fn a_gap_in_the_numbers_makes_the_verdict_unknown() {
    let second = |from: u64| {
        let later = |line: &str, index| {
            line.replace("\"index\":0", &format!("\"index\":{index}"))
                .replace("\"index\":1", &format!("\"index\":{index}"))
                .replace("\"key\":\"k\"", "\"key\":\"l\"")
        };
        format!("{}\n{}\n", later(INVOKE, from), later(OK, from + 1))
    };
    let whole = check(format!("{HEADER}\n{INVOKE}\n{OK}\n{}", second(2))).expect("judged");
    assert_eq!((whole.outcome, whole.counts["grants"]), (Outcome::Valid, 2));
    let gap = check(format!("{HEADER}\n{INVOKE}\n{OK}\n{}", second(30))).expect("judged");
    assert_eq!(
        (gap.outcome, gap.counts["anomalies"]),
        (Outcome::Unknown, 1)
    );
    let told = "event 30: missing by their index before it: 28";
    assert!(gap.reasons[0].contains(told), "{:?}", gap.reasons);
    let beheaded = check(format!("{HEADER}\n{}", second(5))).expect("judged");
    assert_eq!(beheaded.outcome, Outcome::Unknown);
}

#[test]
fn unknown_fields_are_tolerated() {
    let more = INVOKE.replacen('{', "{\"new\":{\"a\":[1]},", 1);
    let v = check(format!("{HEADER}\r\n{more}\r\n{OK}\r\n")).expect("judged");
    assert_eq!((v.outcome, v.counts["grants"]), (Outcome::Valid, 1));
}

#[test]
fn what_does_not_fit_together_makes_the_verdict_unknown() {
    for odd in [
        OK.replace("\"process\":0", "\"process\":5"),
        INVOKE.replace("\"index\":0", "\"index\":1"),
        OK.replace("\"process\":0", "\"process\":\"somebody\""),
        OK.replace("\"process\":0", "\"process\":\"observer\""),
        r#"{"index":1,"time":3,"process":"nemesis","type":"info","f":"x"}"#.to_owned(),
    ] {
        let v = check(format!("{HEADER}\n{INVOKE}\n{odd}\n{OK}\n")).expect("judged");
        assert_eq!(v.outcome, Outcome::Unknown, "{odd}");
        assert_eq!(v.counts["anomalies"], 1);
        assert!(v.reasons[0].contains("event 1 "), "{:?}", v.reasons);
    }
    let backwards = format!(
        "{HEADER}\n{}\n{OK}\n",
        INVOKE.replace("\"time\":0", "\"time\":99")
    );
    let v = check(backwards).expect("judged");
    assert_eq!((v.outcome, v.counts["grants"]), (Outcome::Unknown, 0));
}

#[test]
fn extreme_numbers_do_not_overflow() {
    let big = u64::MAX;
    let mut text = format!("{HEADER}\n");
    for (p, t) in [(0, 0), (1, big - 1), (2, big)] {
        for kind in ["invoke", "ok"] {
            for f in ["acquire", "extend", "read", "write", "release"] {
                let _ = writeln!(
                    text,
                    r#"{{"index":{big},"time":{t},"process":{p},"type":"{kind}","f":"{f}","key":"k","value":{{"token":{big},"validity_ms":1e300,"ttl_ms":{big},"version":{big},"owner":"o"}}}}"#
                );
            }
        }
        let _ = writeln!(
            text,
            r#"{{"index":0,"time":{t},"process":"observer","type":"info","f":"set","key":"k","value":{{"node":"n","owner":"o","not_before":{big},"pttl_ms":-9223372036854775808}}}}"#
        );
        let _ = writeln!(
            text,
            r#"{{"index":0,"time":{t},"process":"driver","type":"info","f":"stall","value":{{"ms":1e300}}}}"#
        );
    }
    for model in [
        "{\"ttl_ms\":1000}",
        "{\"ttl_ms\":18446744073709551615,\"observed\":true,\"drift\":0.999999,\"floor_ms\":1e300}",
        "{\"ttl_ms\":null,\"tokens\":true,\"nodes\":4294967295,\"quorum\":0,\"grain_ms\":18446744073709551615,\"retry_ms\":18446744073709551615}",
    ] {
        let text = text.replace("{\"ttl_ms\":1000}", model);
        check(text).expect("judged");
    }
}

#[test]
fn the_schemas_name_every_field() {
    let history = fencepost_checker::schema::history();
    let event = &history["event"]["properties"];
    let line: serde_json::Value = serde_json::from_str(OK).expect("JSON");
    for field in line.as_object().expect("an object").keys() {
        assert!(event.get(field).is_some(), "{field}");
    }
    assert!(history["header"]["properties"].get("model").is_some());
    let verdict = fencepost_checker::schema::verdict();
    assert!(verdict["properties"].get("checks").is_some());
}

proptest! {
    #[test]
    fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = check(&bytes);
        let _ = check([HEADER.as_bytes(), b"\n", &bytes].concat());
    }

    /// A golden history with some bytes changed, cut out or doubled.
    #[test]
    fn damaged_histories_are_answered(
        at in 0usize..20_000,
        length in 0usize..80,
        put in prop::collection::vec(any::<u8>(), 0..8),
    ) {
        let whole = include_bytes!("golden/plain-del-third.jsonl");
        let at = at % whole.len();
        let end = (at + length).min(whole.len());
        let _ = check([&whole[..at], &put, &whole[end..]].concat());
        let _ = check([&whole[..end], &whole[at..]].concat());
    }
}
