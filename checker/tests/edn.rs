//! Histories in EDN, as Jepsen and Knossos write them, judged by what they hold; and written and read again.
mod histories;

use fencepost_checker::{HistoryError, LockKind, Options, Outcome, Verdict, check_with, history};
use histories::{clients, random};
use proptest::prelude::*;
use std::fmt::Write as _;
use std::path::Path;

fn with(text: &str, options: &Options) -> Result<Verdict, HistoryError> {
    check_with(text.as_bytes(), options)
}

fn outcome(text: &str) -> Outcome {
    match with(text, &Options::default()) {
        Ok(v) => v.outcome,
        Err(e) => panic!("{e}"),
    }
}

/// Operations from `process type f` words, a millisecond apart.
fn edn(ops: &str) -> String {
    let lines = ops.split(',').enumerate().map(|(i, op)| {
        let mut words = op.split_whitespace();
        let mut word = || words.next().expect("a word");
        let (process, kind, f) = (word(), word(), word());
        let rest = words.collect::<Vec<_>>().join(" ");
        format!(
            "{{:process {process}, :type :{kind}, :f :{f}, :time {i}000000, :index {i} {rest}}}\n"
        )
    });
    lines.collect()
}

#[test]
fn plain_acquires_and_releases_just_work() {
    let good = edn(
        "0 invoke acquire, 0 ok acquire, 1 invoke acquire, 0 invoke release, 1 ok acquire, 0 ok release",
    );
    assert_eq!(outcome(&good), Outcome::Valid);
    assert_eq!(outcome(&format!("[{good}]")), Outcome::Valid);
    assert_eq!(outcome(&format!("; a comment\n(\n{good})")), Outcome::Valid);
    let tagged = good.replace("{:process", "#jepsen.history.Op{:process");
    assert_eq!(outcome(&tagged), Outcome::Valid);
    let words = good
        .replace(":acquire", "\"lock\"")
        .replace(":release", "unlock");
    assert_eq!(outcome(&words), Outcome::Valid);
    let bad = edn("0 invoke acquire, 0 ok acquire, 1 invoke acquire, 1 ok acquire");
    assert_eq!(outcome(&bad), Outcome::Violated);
    // What others put around it and between.
    for strange in [
        format!("\u{feff}{bad}"),
        format!("\u{feff}[{bad}]"),
        bad.replace('\n', "\r\n"),
        format!("{{:process nil, :type :info, :f :start-partition}}\n{bad}"),
        format!("{{:type :log, :f :note, :value \"x\"}}\n{bad}"),
        bad.replace(":f ", ":via #'jepsen.core/run :f "),
    ] {
        assert_eq!(outcome(&strange), Outcome::Violated, "{strange}");
    }
    // Without times the order counts.
    let timeless = bad.replace(":time", ":when");
    assert_eq!(outcome(&timeless), Outcome::Violated);
    assert_eq!(outcome(&good.replace(":time", ":when")), Outcome::Valid);
}

#[test]
fn what_a_foreign_history_means() {
    for (ops, expected) in [
        // An ok release by a process that holds nothing.
        ("0 invoke release, 0 ok release", Outcome::Violated),
        // A failed release did not happen: the hold goes on.
        (
            "0 invoke acquire, 0 ok acquire, 0 invoke release, 0 fail release, 1 invoke acquire, 1 ok acquire",
            Outcome::Violated,
        ),
        (
            "0 invoke acquire, 0 ok acquire, 0 invoke release, 0 fail release, 0 invoke release, 0 ok release, 1 invoke acquire, 1 ok acquire",
            Outcome::Valid,
        ),
        // A failed acquire is no hold.
        (
            "0 invoke acquire, 0 fail acquire, 1 invoke acquire, 1 ok acquire",
            Outcome::Valid,
        ),
        // A release after an acquire without a definite answer is clean-up.
        (
            "0 invoke acquire, 0 info acquire, 0 invoke release, 0 ok release, 1 invoke acquire, 1 ok acquire",
            Outcome::Valid,
        ),
        // So it is by the thread's next process.
        (
            "0 invoke acquire, 1 invoke acquire, 0 info acquire, 2 invoke release, 2 ok release, 1 ok acquire",
            Outcome::Valid,
        ),
        // A pending release may have happened.
        (
            "0 invoke acquire, 0 ok acquire, 0 invoke release, 1 invoke acquire, 1 ok acquire",
            Outcome::Valid,
        ),
        // A holder that is granted again.
        (
            "0 invoke acquire, 0 ok acquire, 0 invoke acquire, 0 ok acquire",
            Outcome::Violated,
        ),
        // A try that was told that the free lock is held.
        (
            "0 invoke acquire, 0 fail acquire :error :held",
            Outcome::Violated,
        ),
        (
            "0 invoke acquire, 0 fail acquire :error [:held \"x\"]",
            Outcome::Violated,
        ),
        (
            "0 invoke acquire, 0 fail acquire :error :timeout",
            Outcome::Valid,
        ),
        // The nemesis, and what else a test does, is skipped.
        (
            ":nemesis info start, 0 invoke acquire, 0 ok acquire, 1 invoke read, 1 ok read, :nemesis info stop",
            Outcome::Valid,
        ),
    ] {
        assert_eq!(outcome(&edn(ops)), expected, "{ops}");
    }
}

/// Numbers of many digits, which some readers take for their neighbours.
#[test]
fn numbers_are_the_same_in_both_formats() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/validity.jsonl");
    let text = std::fs::read_to_string(golden).expect("a text");
    let (before, after) = text.split_once("\"validity_ms\":").expect("a claim");
    let rest = after.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    for claim in [
        "15555555555555555555977.0",
        "1977.123456789012345678",
        "0.3e-5",
        "9007199254740993",
        "123456789.123456789e3",
    ] {
        let claim = format!("{before}\"validity_ms\":{claim}{rest}");
        let claim = claim.replacen(
            "\"drift\":0.01",
            "\"drift\":0.010000000000000000123456789",
            1,
        );
        let edn = history::to_edn(claim.as_bytes(), &Options::default()).expect("it is read");
        let through = with(&edn, &Options::default()).expect("it is read");
        assert_eq!(
            with(&claim, &Options::default()).expect("it is read"),
            through
        );
        let again = history::to_edn(edn.as_bytes(), &Options::default()).expect("it is read");
        assert_eq!(edn, again);
    }
}

/// The files in `tests/foreign`, each with what it means written down: the first line of each says it in words.
#[test]
fn foreign_histories() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/foreign");
    let files = std::fs::read_dir(dir).expect("the folder is there");
    let mut files: Vec<_> = files.map(|f| f.expect("readable").path()).collect();
    files.sort();
    let mut said = String::new();
    for path in files {
        let v = fencepost_checker::check_path(&path).expect("judged");
        let name = path.file_stem().expect("a file").to_string_lossy();
        let _ = writeln!(said, "{name}: {:?}", v.outcome);
        for f in v.checks.iter().flat_map(|c| &c.findings) {
            let _ = writeln!(said, "    {}: {}", f.check, f.sentence);
            for step in &f.proof {
                let _ = writeln!(said, "        {step}");
            }
        }
    }
    insta::assert_snapshot!(said);
}

/// Shapes in which locks' histories were found in public, each with one holder at a time, and with two.
#[test]
fn shapes_from_elsewhere() {
    let good = "0 invoke acquire, 0 ok acquire, 0 invoke release, 0 ok release, 1 invoke acquire, 1 ok acquire";
    let bad = "0 invoke acquire, 0 ok acquire, 1 invoke acquire, 1 ok acquire";
    let each = |shape: &dyn Fn(String) -> String| {
        let (good, bad) = (shape(edn(good)), shape(edn(bad)));
        assert_eq!(outcome(&good), Outcome::Valid, "{good}");
        assert_eq!(outcome(&bad), Outcome::Violated, "{bad}");
    };
    let with = |from: &'static str, to: &'static str| {
        each(&move |text| text.replace(from, to));
    };
    with("acquire", "try-lock");
    with("acquire", "try-acquire");
    // A record, a vector of records, no index, no times, times that are nil.
    with("{:process", "#jepsen.history.Op{:process");
    each(&|text| format!("[{}]", text.replace("{:pro", "#jepsen.history.Op{:pro")));
    each(&|text| text.replace(":index", ":note").replace(":time", ":then"));
    each(&|text| {
        text.replace("000000,", "")
            .replace(":time ", ":time nil #_")
    });
    // Values: none, a pair of a key and a value (of jepsen.independent, too), a map in the answer.
    with(":index", ":value nil :index");
    with(":index", ":value [7 nil] :index");
    with(":index", ":value #jepsen.independent/tuple [:k nil] :index");
    with(":type :ok,", ":type :ok, :value {:client \"x\" :uid 4}");
    // What stands between the operations.
    each(&|text| {
        format!(
            "{{:type :info, :process :nemesis, :f :start, :value {{:n1 #{{\"n2\"}}}}, :error [:a #error {{:cause \"x\"}}]}}\n\
             {{:type :sleep, :value 5}}\n{{:type :log, :value \"begin\"}}\n\
             {{:process 0, :type :invoke, :f :read, :value nil}}\n{text}\
             {{:process :nemesis, :type :info, :f :lock}}\n"
        )
    });
    // Processes with names, as texts and as keywords.
    each(&|text| {
        text.replace(":process 0", ":process \"a\"")
            .replace(":process 1", ":process \"b\"")
    });
    each(&|text| text.replace(":process 0", ":process :worker/a"));
    // What is known of a grant beside its value.
    with(":index", ":owner \"o\" :already? false :ttl 2 :index");
    let with_tokens = |token: u32| {
        let mut lines: Vec<String> = edn(good).lines().map(str::to_owned).collect();
        for (line, token) in [(1, 5), (5, token)] {
            lines[line] = lines[line].replace(":index", &format!(":token {token} :index"));
        }
        lines.join("\n")
    };
    assert_eq!(outcome(&with_tokens(6)), Outcome::Valid);
    assert_eq!(outcome(&with_tokens(4)), Outcome::Violated);
    // All locks have a name, the same.
    with(":index", ":value \"jobs\" :index");
    with(":index", ":value 5 :index");
}

#[test]
fn a_plain_value_names_the_lock_where_several_use_it() {
    let ops = |values: [&str; 3]| {
        let [a, b, c] = values;
        edn(&format!(
            "0 invoke acquire :value {a}, 0 ok acquire, 1 invoke acquire :value {b}, 1 ok acquire, \
             1 invoke release :value {b}, 1 ok release, 1 invoke acquire :value {c}, 1 ok acquire"
        ))
    };
    // Two hold :x in the end; and where no value is that of two, all are the same lock's.
    assert_eq!(outcome(&ops([":x", ":y", ":x"])), Outcome::Violated);
    assert_eq!(outcome(&ops([":x", ":y", ":z"])), Outcome::Violated);
    let apart = edn(
        "0 invoke lock :value :x, 0 ok lock, 1 invoke lock :value :y, 1 ok lock, \
         0 invoke unlock :value :x, 0 ok unlock, 1 invoke lock :value :x, 1 ok lock",
    );
    assert_eq!(outcome(&apart), Outcome::Valid);
    // Where one operation has no value, values are no names.
    let unsure = apart.replacen(":value :y", "", 1);
    assert_eq!(outcome(&unsure), Outcome::Violated);
}

#[test]
fn keys_are_apart() {
    for field in [":key :a", ":value [:a nil]", ":value {:lock :a}"] {
        let ops = format!(
            "0 invoke acquire {field}, 0 ok acquire {field}, 1 invoke acquire {field}, 1 ok acquire {field}"
        );
        assert_eq!(outcome(&edn(&ops)), Outcome::Violated, "{field}");
        let (first, second) = ops.split_at(ops.find("1 invoke").expect("it is there"));
        let other = second.replace(":a", ":b");
        assert_eq!(
            outcome(&edn(&format!("{first}{other}"))),
            Outcome::Valid,
            "{field}"
        );
    }
}

#[test]
fn names_kinds_and_leases_by_options() {
    let odd = edn("0 invoke grab, 0 ok grab, 1 invoke grab, 1 ok grab, 0 invoke drop, 0 ok drop");
    let error = with(&odd, &Options::default()).expect_err("no lock");
    assert!(
        matches!(&error, HistoryError::NoLock { seen } if seen == ":grab, :drop"),
        "{error}"
    );
    let mut options = Options {
        acquire: vec![":grab".to_owned()],
        release: vec!["drop".to_owned()],
        ..Options::default()
    };
    let judged = |o: &Options| with(&odd, o).expect("judged");
    assert_eq!(judged(&options).outcome, Outcome::Violated);
    // With a lease of 2 ms nobody can count on anything.
    options.ttl_ms = Some(2);
    let v = judged(&options);
    assert_eq!(v.check("service").map(|c| c.count), Some(0));
    assert_eq!(v.check("overrun").map(|c| c.count), Some(1));
    options.ttl_ms = None;
    (options.kind, options.permits) = (Some(LockKind::Semaphore), Some(2));
    assert_eq!(judged(&options).outcome, Outcome::Valid);
    options.permits = Some(1);
    assert_eq!(judged(&options).outcome, Outcome::Violated);
}

#[test]
fn reentrant_and_read_write_locks() {
    let kind = |kind| Options {
        kind: Some(kind),
        ..Options::default()
    };
    let judge = |ops: &str, k| with(&edn(ops), &kind(k)).expect("judged").outcome;
    let twice = "0 invoke acquire, 0 ok acquire, 0 invoke acquire, 0 ok acquire, 0 invoke release, 0 ok release";
    let next = "1 invoke acquire, 1 ok acquire";
    let r = LockKind::Reentrant;
    assert_eq!(judge(twice, r), Outcome::Valid);
    assert_eq!(judge(&format!("{twice}, {next}"), r), Outcome::Violated);
    assert_eq!(
        judge(
            &format!("{twice}, 0 invoke release, 0 ok release, {next}"),
            r
        ),
        Outcome::Valid
    );
    let more = "0 invoke release, 0 ok release, 0 invoke release, 0 ok release";
    assert_eq!(judge(&format!("{twice}, {more}"), r), Outcome::Violated);
    let shared = ":value {:shared true}";
    let readers =
        format!("0 invoke acquire {shared}, 0 ok acquire, 1 invoke acquire {shared}, 1 ok acquire");
    assert_eq!(judge(&readers, LockKind::ReadWrite), Outcome::Valid);
    assert_eq!(judge(&readers, LockKind::Mutex), Outcome::Violated);
    let writer = format!("{readers}, 2 invoke acquire, 2 ok acquire");
    assert_eq!(judge(&writer, LockKind::ReadWrite), Outcome::Violated);
}

#[test]
fn clocks_leave_some_overlaps_open() {
    let close = edn(
        "0 invoke acquire, 0 ok acquire, 1 invoke acquire, 1 ok acquire, 0 invoke release, 0 ok release",
    );
    let by = |ms| Options {
        clock_uncertainty_ms: Some(ms),
        ..Options::default()
    };
    let judge = |ms| with(&close, &by(ms)).expect("judged").outcome;
    assert_eq!(judge(0.0), Outcome::Violated);
    assert_eq!(judge(0.4), Outcome::Violated);
    assert_eq!(judge(0.6), Outcome::Unknown);
    let apart = edn(
        "0 invoke acquire, 0 ok acquire, 0 invoke release, 0 ok release, 1 invoke acquire, 1 ok acquire",
    );
    let judge = |ms| with(&apart, &by(ms)).expect("judged").outcome;
    assert_eq!(judge(1.0), Outcome::Valid);
    assert_eq!(judge(2.0), Outcome::Unknown);
}

#[test]
fn jepsens_times() {
    // They count, not the order of the text: an answer stamped before its invoke is told.
    let ops = edn(
        "0 invoke acquire, 0 ok acquire, 0 invoke release, 1 invoke acquire, 1 ok acquire, 0 ok release",
    );
    let early = ops
        .replace(":time 4000000", ":time 1500000")
        .replace(":time 0000000", ":time -77");
    assert_eq!(outcome(&early), Outcome::Unknown);
    let crossed = ops
        .replace(":time 4000000", ":time 3500000")
        .replace(":time 3000000", ":time 1500000");
    assert_eq!(outcome(&crossed), Outcome::Valid);
    let big = ops.replace(":time 4000000", ":time 18446744073709551616");
    let error = with(&big, &Options::default()).expect_err("too big");
    assert!(
        matches!(&error, HistoryError::BadEdn { line: 5, .. }),
        "{error}"
    );
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    for (text, line) in [
        (
            "{:type :invoke, :process 0, :f :acquire}\n{:type :done, :process 0, :f :acquire}",
            2,
        ),
        ("{:type :invoke, :process 0\n", 1),
        ("[{:type :invoke, :process 0, :f :acquire}\n 7]", 2),
        ("{:type :invoke, :f :acquire}", 1),
        (
            "{:type :invoke, :process 99999999999999999999, :f :acquire}",
            1,
        ),
    ] {
        match with(text, &Options::default()) {
            Err(e @ HistoryError::BadEdn { .. }) => {
                let HistoryError::BadEdn { line: at, .. } = &e else {
                    continue;
                };
                assert_eq!(*at, line, "{text}: {e}");
                assert!(!e.hint().is_empty());
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    // An answer without an invoke is told, and makes the verdict unknown.
    assert_eq!(
        outcome(&edn("0 ok acquire, 1 invoke acquire, 1 ok acquire")),
        Outcome::Unknown
    );
    // So is a process that overlaps itself.
    assert_eq!(
        outcome(&edn("0 invoke acquire, 0 invoke acquire, 0 ok acquire")),
        Outcome::Unknown
    );
}

/// Every golden history in EDN and back: the same verdict, byte by byte.
#[test]
fn written_and_read_again_it_is_the_same() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    for file in std::fs::read_dir(dir).expect("the folder is there") {
        let path = file.expect("readable").path();
        let options = Options::default();
        let reader = || history::open(&path).expect("opens");
        let edn = history::to_edn(reader(), &options).expect("writes");
        let judged = |v: Result<Verdict, HistoryError>| {
            serde_json::to_string(&v.expect("judged")).expect("writes")
        };
        let before = judged(check_with(reader(), &options));
        assert_eq!(before, judged(with(&edn, &options)), "{}", path.display());
        assert_eq!(
            edn,
            history::to_edn(edn.as_bytes(), &options).expect("writes")
        );
    }
}

#[test]
fn a_compressed_history_is_read_directly() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/zst/mutex-twice.jsonl.zst");
    let v = fencepost_checker::check_path(&path).expect("judged");
    assert_eq!(v.check("service").map(|c| c.count), Some(1));
}

/// What is judged of a history, without what only JSON lines can have.
fn said(text: &str) -> String {
    let mut v = with(text, &Options::default()).unwrap_or_else(|e| panic!("{e}\n{text}"));
    v.counts.remove("torn_bytes");
    serde_json::to_string(&v).expect("writes")
}

proptest! {
    /// JSON lines to EDN to JSON lines: judged alike each time, and the lines are the same.
    #[test]
    fn a_round_trip_changes_nothing(
        clients in clients(),
        leased in any::<bool>(),
        name in "\\PC{0,12}|[\u{0}-\u{20}\"\\\\:;#]{1,6}",
        // Of more digits the parser of JSON may miss the last bit.
        number in any::<i32>().prop_map(|n| f64::from(n) / 64.0),
        big in any::<u64>(),
    ) {
        // Names, numbers and errors of all kinds.
        let quoted = serde_json::to_string(&name).expect("writes");
        let value = format!(",\"value\":{{\"owner\":{quoted},\"token\":{big},\"validity_ms\":{number:?}}}}}");
        let text = random(&clients, leased)
            .replace("\"key\":\"b\"", &format!("\"key\":{quoted}"))
            .replace("\"error\":\"timeout\"", &format!("\"error\":{quoted}"));
        let lines = text.lines().map(|l| {
            let plain = l.contains("\"type\":\"ok\"") && l.contains("acquire") && !l.contains("value");
            if plain { format!("{}{value}", &l[..l.len() - 1]) } else { l.to_owned() }
        });
        let text = lines.collect::<Vec<_>>().join("\n");
        let edn = history::to_edn(text.as_bytes(), &Options::default()).expect("readable");
        let first = said(&text);
        prop_assert_eq!(&first, &said(&edn), "{}", edn);
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), &edn).expect("writes");
        let mut back = String::new();
        let mut lines = history::open_lines(file.path(), &Options::default()).expect("readable");
        std::io::Read::read_to_string(&mut lines, &mut back).expect("readable");
        prop_assert_eq!(&first, &said(&back), "{}", back);
        let parsed = |text: &str| -> Vec<serde_json::Value> {
            let events = text.lines().skip(1).filter(|l| !l.is_empty());
            let parse = |l: &str| -> serde_json::Value {
                let event: fencepost_checker::Event<'_> = serde_json::from_str(l).expect("an event");
                serde_json::to_value(event).expect("writes")
            };
            events.map(parse).collect()
        };
        prop_assert_eq!(parsed(&text), parsed(&back));
    }

    #[test]
    fn any_text_is_answered(text in "[\\[\\](){}:#_;^\"\\\\a-z0-9 \n.,/-]{0,200}") {
        let _ = with(&text, &Options::default());
        let _ = with(&format!("{{:type :invoke, :process 0, :f :acquire, :value {text}}}"), &Options::default());
    }
}
