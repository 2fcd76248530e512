//! What a history in EDN does not say, and what is assumed of it then: its times, its locks, Jepsen's threads.
//!
//! Owns what is assumed and what is refused. What an operation means is in `edn.rs`.
use fencepost_checker::{HistoryError, KeyFrom, Options, Outcome, Verdict, check_with};

fn with(text: &str, options: &Options) -> Result<Verdict, HistoryError> {
    check_with(text.as_bytes(), options)
}

fn judged(text: &str) -> Verdict {
    with(text, &Options::default()).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Operations from `process type f` words, one a line, with what follows as it is.
fn edn(ops: &[&str]) -> String {
    let lines = ops.iter().map(|op| {
        let words: Vec<&str> = op.splitn(4, ' ').collect();
        let rest = words.get(3).unwrap_or(&"");
        format!(
            "{{:process {}, :type :{}, :f :{} {rest}}}\n",
            words[0], words[1], words[2]
        )
    });
    lines.collect()
}

fn leased() -> Options {
    Options {
        ttl_ms: Some(2000),
        ..Options::default()
    }
}

fn by(key: KeyFrom) -> Options {
    Options {
        key,
        ..Options::default()
    }
}

/// Whether some line of what was assumed has these words.
fn says(v: &Verdict, words: &str) -> bool {
    v.reading.iter().any(|line| line.contains(words))
}

#[test]
fn a_lease_needs_times() {
    let apart = [
        "0 invoke acquire :time 0",
        "0 ok acquire :time 1000000",
        "1 invoke acquire :time 50000000000",
        "1 ok acquire :time 50001000000",
        "1 invoke release",
        "1 ok release :time 50003000000",
    ];
    let text = edn(&apart);
    let uncertain = Options {
        clock_uncertainty_ms: Some(1.0),
        ..Options::default()
    };
    for options in [leased(), uncertain] {
        match with(&text, &options) {
            Err(e @ HistoryError::NoTime { line: 5, column: 1 }) => {
                assert!(e.hint().contains(":time"), "{}", e.hint());
            }
            other => panic!("{other:?}"),
        }
        let none = text.replace(":time", ":when");
        let e = with(&none, &options).expect_err("it has no time");
        assert!(matches!(e, HistoryError::NoTime { line: 1, .. }), "{e}");
        let nil = text.replacen(":f :release", ":f :release :time nil", 1);
        assert!(with(&nil, &options).is_err());
    }
    // What is none of the lock's needs none.
    let full = text.replace(":f :release }", ":f :release :time 50002000000}");
    let more = format!("{full}{{:process :nemesis, :type :info, :f :kill}}\n");
    let v = with(&more, &leased()).expect("all have times");
    assert_eq!(v.check("service").map(|c| c.count), Some(0));
    assert!(v.reading.is_empty(), "{:?}", v.reading);
    // Without a lease the order is enough, and is told.
    let v = judged(&text);
    assert_eq!(v.outcome, Outcome::Violated);
    assert!(says(&v, "since some have no :time"), "{:?}", v.reading);
    let v = judged(&text.replace(":time", ":when"));
    assert!(says(&v, "since none has a :time"), "{:?}", v.reading);
    // A time that is none is no missing one.
    let words = text.replace(":time 1000000", ":time \"1 ms\"");
    let e = with(&words, &Options::default()).expect_err("no time");
    assert!(matches!(e, HistoryError::BadEdn { line: 2, .. }), "{e}");
}

#[test]
fn times_that_fall_are_judged_as_in_json_lines() {
    // Two logs, one after the other; 8 s of both holding.
    let blocks = [
        "0 invoke acquire :time 0",
        "0 ok acquire :time 1000000",
        "0 invoke release :time 10000000000",
        "0 ok release :time 10000000000",
        "1 invoke acquire :time 1000000000",
        "1 ok acquire :time 2000000000",
        "1 invoke release :time 12000000000",
        "1 ok release :time 12000000000",
    ];
    let text = edn(&blocks);
    let v = judged(&text);
    assert_eq!(v.outcome, Outcome::Violated);
    assert_eq!(v.counts["anomalies"], 0);
    let clocks = Options {
        clock_uncertainty_ms: Some(100.0),
        ..Options::default()
    };
    let v = with(&text, &clocks).expect("judged");
    assert_eq!(v.outcome, Outcome::Violated);
    // The same with stamps below 0, and at the ends of what there is.
    let early = text
        .replace(":time ", ":time -1")
        .replace(":time -10}", ":time -100}");
    assert_eq!(judged(&early).counts["events"], 8);
    let wide = edn(&[
        "0 invoke acquire :time -9223372036854775808",
        "0 ok acquire :time 9223372036854775807",
    ]);
    assert_eq!(judged(&wide).outcome, Outcome::Valid);
    // An answer before its own invoke is counted.
    let before = text.replace(":time 2000000000", ":time 1");
    let v = judged(&before);
    assert_eq!((v.outcome, v.counts["anomalies"]), (Outcome::Unknown, 1));
}

#[test]
fn a_value_is_no_name_of_a_lock_where_it_may_be_its_holders() {
    let owners = [
        "0 invoke acquire :value \"client-0\"",
        "0 ok acquire :value \"client-0\"",
        "1 invoke acquire :value \"client-1\"",
        "1 ok acquire :value \"client-1\"",
        "0 invoke release :value \"client-0\"",
        "0 info release :value \"client-0\"",
        "2 invoke acquire :value \"client-0\"",
        "2 fail acquire :value \"client-0\" :error :timeout",
    ];
    for n in [4, 6, 8] {
        let v = judged(&edn(&owners[..n]));
        assert_eq!((v.outcome, v.counts["keys"]), (Outcome::Violated, 1), "{n}");
        assert!(says(&v, "there is one lock"), "{:?}", v.reading);
        assert!(says(&v, "--key value"), "{:?}", v.reading);
    }
    // Names of nodes, on which several work; an owner and its try; tries that each counts for itself.
    let pair = |a: &str, b: &str, again: &str| {
        edn(&[
            &format!("0 invoke acquire :value {a}"),
            "0 ok acquire",
            &format!("1 invoke acquire :value {b}"),
            "1 ok acquire",
            &format!("2 invoke acquire :value {a}"),
            "2 fail acquire :error :timeout",
            &format!("2 invoke acquire :value {again}"),
            "2 fail acquire :error :timeout",
            "0 invoke read",
            "0 ok read",
        ])
    };
    for text in [
        pair(":n1", ":n2", ":n1"),
        pair("[\"a\" 1]", "[\"b\" 2]", "[\"a\" 2]"),
        pair("1", "2", "2"),
    ] {
        let v = judged(&text);
        assert_eq!(v.counts["keys"], 1, "{text}");
        assert_eq!(v.outcome, Outcome::Violated, "{text}");
        // The user knows better.
        let v = with(&text, &by(KeyFrom::Value)).expect("judged");
        assert_eq!((v.outcome, v.counts["keys"]), (Outcome::Valid, 2), "{text}");
        assert!(
            v.reading.iter().all(|n| !n.contains("--key")),
            "{:?}",
            v.reading
        );
    }
}

#[test]
fn a_value_names_the_lock_where_that_is_certain_enough() {
    let turns = [
        "0 invoke lock :value :x",
        "0 ok lock",
        "1 invoke lock :value :y",
        "1 ok lock",
        "1 invoke unlock :value :y",
        "1 ok unlock",
        "0 invoke unlock :value :x",
        "0 ok unlock",
        "1 invoke lock :value :x",
        "1 ok lock",
    ];
    let v = judged(&edn(&turns));
    assert_eq!((v.outcome, v.counts["keys"]), (Outcome::Valid, 2));
    assert!(says(&v, "--key none"), "{:?}", v.reading);
    let one = with(&edn(&turns), &by(KeyFrom::Nothing)).expect("judged");
    assert_eq!((one.outcome, one.counts["keys"]), (Outcome::Violated, 1));
    // A release need not say it again.
    let short = edn(&turns).replace(":unlock :value :y", ":unlock");
    let short = short.replace(":unlock :value :x", ":unlock :value nil");
    let v = judged(&short);
    assert_eq!((v.outcome, v.counts["keys"]), (Outcome::Valid, 2));
    // As jepsen.independent writes them.
    for [a, b] in [["[1 nil]", "[2 nil]"], ["[:a nil]", "[:b nil]"]] {
        let two = edn(&[
            &format!("0 invoke acquire :value {a}"),
            &format!("0 ok acquire :value {a}"),
            &format!("1 invoke acquire :value {b}"),
            &format!("1 ok acquire :value {b}"),
        ]);
        assert_eq!(judged(&two).counts["keys"], 2);
    }
}

#[test]
fn the_lock_is_where_the_user_says() {
    let two = [
        "0 invoke acquire :value :a",
        "0 ok acquire :value :a",
        "1 invoke acquire :value :b",
        "1 ok acquire :value :b",
        "0 invoke release",
        "0 ok release",
        "2 invoke acquire :value :a",
        "2 ok acquire :value :a",
    ];
    let v = with(&edn(&two), &by(KeyFrom::Value)).expect("judged");
    assert_eq!((v.outcome, v.counts["keys"]), (Outcome::Valid, 2));
    let field = |name: &str| by(KeyFrom::Field(name.to_owned()));
    let named = edn(&two).replace(":value", ":name");
    let v = with(&named, &field("name")).expect("judged");
    assert_eq!((v.outcome, v.counts["keys"]), (Outcome::Valid, 2));
    let inside = named.replace(":name :a", ":value {:name :a}");
    let inside = inside.replace(":name :b", ":value {:name :b}");
    let v = with(&inside, &field("name")).expect("judged");
    assert_eq!((v.outcome, v.counts["keys"]), (Outcome::Valid, 2));
    // Which lock an acquire is of cannot be guessed.
    for (text, line) in [
        (edn(&two).replacen(":value :b", "", 1), 3),
        (edn(&two[4..]), 1),
    ] {
        match with(&text, &by(KeyFrom::Value)) {
            Err(HistoryError::BadEdn { line: at, .. }) => assert_eq!(at, line, "{text}"),
            other => panic!("{other:?}"),
        }
    }
    // A release without :key is of the lock that its worker holds.
    let keyed = edn(&two).replace(":value", ":key");
    let v = judged(&keyed);
    assert_eq!((v.outcome, v.counts["keys"]), (Outcome::Valid, 2));
    assert!(!says(&v, "--key"), "{:?}", v.reading);
}

#[test]
fn a_process_goes_on_only_after_its_end() {
    // 0 and 2 work side by side; the :info of 0 is the last of it.
    let live = [
        "0 invoke acquire",
        "0 ok acquire",
        "2 invoke release",
        "0 invoke release",
        "2 fail release :error :not-held",
        "2 invoke acquire",
        "0 ok release",
        "2 ok acquire",
        "0 invoke acquire",
        "0 info acquire :error :timeout",
    ];
    let v = judged(&edn(&live));
    assert_eq!(v.outcome, Outcome::Valid, "{:?}", v.reasons);
    assert!(!says(&v, "--threads"), "{:?}", v.reading);
    // It crashed, and did something again: no process follows it.
    let again = [
        "0 invoke acquire",
        "0 info acquire",
        "2 invoke release",
        "2 ok release",
        "0 invoke acquire",
        "0 info acquire",
    ];
    let v = judged(&edn(&again));
    assert_eq!(v.outcome, Outcome::Violated);
    assert!(says(&v, "no number of threads fits"), "{:?}", v.reading);
    assert_eq!(judged(&edn(&again[..4])).outcome, Outcome::Valid);
    // One thread alone would never meet another.
    let one = [
        "0 invoke acquire",
        "0 info acquire",
        "1 invoke release",
        "1 ok release",
    ];
    let v = judged(&edn(&one));
    assert_eq!(v.outcome, Outcome::Violated);
    assert!(says(&v, "no number of threads fits"), "{:?}", v.reading);
}

/// As `jepsen.independent` writes keys, where releases and answers give tokens.
#[test]
fn pairs_of_acquires_name_their_locks() {
    for (asked, told) in [
        ("[{} nil]", "[{} 17]"),
        ("[{} {:owner \"a\"}]", "[{} {:owner \"a\"}]"),
    ] {
        let operations = [
            (0, "acquire", "invoke", asked),
            (0, "acquire", "ok", told),
            (1, "acquire", "invoke", asked),
            (1, "acquire", "ok", told),
            (0, "release", "invoke", told),
            (0, "release", "ok", told),
        ];
        let forms = operations.map(|(process, f, kind, value)| {
            let value = value.replacen("{}", &process.to_string(), 1);
            format!("{{:process {process} :type :{kind} :f :{f} :value {value}}}")
        });
        let text = forms.join("\n");
        let v = judged(&text);
        assert_eq!(
            (v.counts["keys"], v.outcome),
            (2, Outcome::Valid),
            "{text}{:?}",
            v.reasons
        );
    }
}

/// A clock that stands still shows no order; the text does.
#[test]
fn operations_of_one_time_follow_each_other_as_they_stand() {
    let at = |times: [u64; 4]| {
        let ops = [
            "0 :type :invoke",
            "0 :type :ok",
            "1 :type :invoke",
            "1 :type :ok",
        ];
        let each = ops.iter().zip(times);
        let forms = each.map(|(op, t)| format!("{{:process {op} :f :acquire :time {t}}}"));
        forms.collect::<Vec<_>>().join("\n")
    };
    for times in [[0, 0, 0, 0], [7, 7, 8, 8]] {
        let v = judged(&at(times));
        assert_eq!(v.outcome, Outcome::Violated, "{times:?}");
        assert!(says(&v, "of the same :time"), "{:?}", v.reading);
    }
    let v = judged(&at([5, 9, 4, 6]));
    assert!(says(&v, "before the one above it"), "{:?}", v.reading);
}

#[test]
fn what_else_a_process_does_tells_of_its_threads() {
    let hidden = [
        "0 invoke acquire",
        "0 info acquire",
        "5 invoke read",
        "5 info read",
        "2 invoke read",
        "2 info read",
        "7 invoke read",
        "7 info read",
        "12 invoke acquire",
        "12 fail acquire :error :timeout",
        "10 invoke release",
        "10 ok release",
    ];
    let v = judged(&edn(&hidden));
    assert_eq!(v.outcome, Outcome::Valid, "{:?}", v.reasons);
    assert!(says(&v, "as p + 5 after an :info"), "{:?}", v.reading);
    let said = Options {
        threads: Some(4),
        ..Options::default()
    };
    let v = with(&edn(&hidden), &said).expect("judged");
    assert_eq!(v.outcome, Outcome::Violated);
    assert!(!says(&v, "--threads"), "{:?}", v.reading);
}

#[test]
fn what_is_cut_or_doubled_is_told_with_its_place() {
    let ops = edn(&["0 invoke acquire", "0 ok acquire"]);
    let twice = ops.replace(":type :ok", ":type :ok, :type :info");
    let inner = ops.replace(":f :acquire }", ":f :acquire :value {:a {:b 1 :b 2}}}");
    for (text, line, column, what) in [
        (format!("[{ops}"), 1, 1, "never closed"),
        (format!("\n ({ops}"), 2, 2, "never closed"),
        (format!("[{ops} ; ]"), 1, 1, "never closed"),
        (format!("[{ops})"), 3, 1, "closes that was not opened"),
        (format!("{ops}]"), 3, 1, "closes that was not opened"),
        (twice, 2, 1, "has :type twice"),
        (inner, 1, 52, "has :b twice"),
        (
            ops.replace(":process 0, :type :ok", ":process -1, :type :ok"),
            2,
            1,
            ":process is negative",
        ),
        (
            "{:type :info,\n\n:process :nemesis, :f :a} {:type :done,\n :process 0, :f :lock}"
                .to_owned(),
            3,
            27,
            ":type is none of",
        ),
    ] {
        match with(&text, &Options::default()) {
            Err(HistoryError::BadEdn {
                line: l,
                column: c,
                message,
            }) => {
                assert_eq!((l, c), (line, column), "{text}: {message}");
                assert!(message.contains(what), "{text}: {message}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    // A name in a namespace is another.
    let spaced = ops.replace(":type :ok", ":other/type 7, :type :ok");
    assert_eq!(judged(&spaced).outcome, Outcome::Valid);
}

#[test]
fn two_histories_in_one_file_are_told() {
    let header = r#"{"fencepost":1,"workload":"w","seed":0,"model":{}}"#;
    let event = r#"{"index":0,"time":0,"process":0,"type":"invoke","f":"acquire"}"#;
    let lines = format!("{header}\n{event}\n");
    for text in [
        format!("{lines}{lines}"),
        format!("{lines}{header}"),
        format!("{lines}\n \n{lines}"),
    ] {
        let e = with(&text, &Options::default()).expect_err("two histories");
        assert!(
            matches!(e, HistoryError::SecondHeader { line: 3..=5 }),
            "{e}"
        );
    }
    let edn = fencepost_checker::to_edn(lines.as_bytes(), &Options::default()).expect("reads");
    for (text, line) in [(format!("{edn}{edn}"), 3), (format!("; a note\n{edn}"), 2)] {
        match with(&text, &Options::default()) {
            Err(HistoryError::SecondHeader { line: at }) => assert_eq!(at, line),
            other => panic!("{other:?}"),
        }
    }
    assert!(with(&format!("\n{edn}"), &Options::default()).is_ok());
}

#[test]
fn options_that_nothing_can_have_are_refused() {
    let ops = edn(&["0 invoke acquire", "0 ok acquire"]);
    for (options, name) in [
        (
            Options {
                ttl_ms: Some(0),
                ..Options::default()
            },
            "ttl_ms",
        ),
        (
            Options {
                permits: Some(0),
                ..Options::default()
            },
            "permits",
        ),
        (
            Options {
                clock_uncertainty_ms: Some(f64::NAN),
                ..Options::default()
            },
            "clock_uncertainty_ms",
        ),
        (
            Options {
                threads: Some(0),
                ..Options::default()
            },
            "threads",
        ),
    ] {
        let e = with(&ops, &options).expect_err(name);
        assert!(
            matches!(&e, HistoryError::BadOption { name: n, .. } if *n == name),
            "{e}"
        );
        assert!(!e.hint().is_empty());
    }
}
