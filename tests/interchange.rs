//! Histories from elsewhere on the command line: each flag of `check`, what it refuses, and what it writes.
//!
//! Owns the contract of the command. What a history means is tested in the checker.
mod harness;

use harness::{Said, say};
use std::io::Write as _;
use std::process::Stdio;

/// A folder with histories.
struct Desk(tempfile::TempDir);

impl Desk {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).expect("written");
        path
    }
}

/// EDN from `process type f` words, a millisecond apart.
fn edn(ops: &str) -> String {
    let lines = ops.split(',').enumerate().map(|(i, op)| {
        let mut words = op.split_whitespace();
        let mut word = || words.next().expect("a word");
        let (process, kind, f) = (word(), word(), word());
        let rest = words.collect::<Vec<_>>().join(" ");
        format!("{{:process {process}, :type :{kind}, :f :{f}, :time {i}000000 {rest}}}\n")
    });
    lines.collect()
}

const GOOD: &str = "0 invoke acquire, 0 ok acquire, 1 invoke acquire, 0 invoke release, 1 ok acquire, 0 ok release";
const BAD: &str = "0 invoke acquire, 0 ok acquire, 1 invoke acquire, 1 ok acquire";

fn count(said: &Said, check: &str) -> u64 {
    let verdict: fencepost_checker::Verdict =
        serde_json::from_str(&said.stdout).unwrap_or_else(|e| panic!("{e}: {}", said.stderr));
    verdict.check(check).map_or(0, |c| c.count)
}

#[test]
fn plain_acquires_and_releases_just_work() {
    let desk = Desk::new();
    let good = desk.file("good.edn", &edn(GOOD));
    let bad = desk.file("bad.edn", &format!("[{}]", edn(BAD)));
    assert_eq!(say(&["check", &good]).code, 0);
    let said = say(&["check", &bad]);
    assert_eq!((said.code, said.stderr.as_str()), (1, ""));
    assert!(
        said.stdout.contains("was granted lock at 0.003 s"),
        "{}",
        said.stdout
    );
    assert_eq!(said, say(&["check", &bad]), "the same bytes again");
}

#[test]
fn names_by_flags() {
    let desk = Desk::new();
    let odd = edn(&BAD.replace("acquire", "grab"));
    let file = desk.file("odd.edn", &odd);
    say(&["check", &file]).refused(64, &["there are: :grab", "--acquire :lock"]);
    assert_eq!(say(&["check", "--acquire", ":grab", &file]).code, 1);
    assert_eq!(
        say(&["check", "--acquire", "take", "--acquire", "grab", &file]).code,
        1
    );
    let let_go = "0 invoke grab, 0 ok grab, 0 invoke drop, 0 ok drop, 1 invoke grab, 1 ok grab";
    let file = desk.file("dropped.edn", &edn(let_go));
    assert_eq!(say(&["check", "--acquire", "grab", &file]).code, 1);
    let both = say(&["check", "--acquire", "grab", "--release", ":drop", &file]);
    assert_eq!(both.code, 0, "{}", both.stdout);
    say(&["check", "--acquire", "grab", "--release", ":grab", &file])
        .refused(64, &["`grab` is both", "hint: "]);
    say(&["check", "--acquire", ":", &file]).refused_by_flags("--acquire");
}

#[test]
fn a_lease_and_its_extensions_by_flags() {
    let desk = Desk::new();
    let ops = "0 invoke acquire, 0 ok acquire, 2 invoke read, 0 invoke prolong, 0 ok prolong, 2 ok read, \
               2 invoke read, 2 ok read, 2 invoke read, 1 invoke acquire, 1 ok acquire";
    let file = desk.file("leased.edn", &edn(ops));
    let judge = |words: &[&str]| {
        let mut all = vec!["check", "--json", "--ttl", "10ms"];
        all.extend(words);
        all.push(&file);
        say(&all)
    };
    // Without the extension the lease was over (ℓ(10 ms) = 7.9 ms): an overrun. With it, two promises.
    let said = judge(&[]);
    assert_eq!((count(&said, "service"), count(&said, "overrun")), (0, 1));
    let said = judge(&["--extend", ":prolong"]);
    assert_eq!((count(&said, "service"), count(&said, "overrun")), (1, 0));
    assert_eq!(said.code, 1);
    for (ttl, why) in [
        ("10", "without a unit"),
        ("0s", "no time"),
        ("-3s", "negative"),
        ("x", "not a duration"),
    ] {
        let said = say(&["check", &format!("--ttl={ttl}"), &file]);
        said.refused_by_flags("--ttl");
        assert!(said.stderr.contains(why), "{}", said.stderr);
    }
}

#[test]
fn clocks_kinds_and_threads_by_flags() {
    let desk = Desk::new();
    let bad = desk.file(
        "bad.edn",
        &edn(&format!("{BAD}, 0 invoke release, 0 ok release")),
    );
    let judge = |flag: &str, value: &str| say(&["check", flag, value, &bad]).code;
    assert_eq!(judge("--clock-uncertainty", "0ms"), 1);
    assert_eq!(judge("--clock-uncertainty", "400us"), 1);
    assert_eq!(judge("--clock-uncertainty", "600us"), 2);
    assert_eq!(judge("--kind", "mutex"), 1);
    assert_eq!(judge("--kind", "semaphore:1"), 1);
    assert_eq!(judge("--kind", "semaphore:2"), 0);
    assert_eq!(judge("--kind", "read-write"), 1);
    assert_eq!(judge("--kind", "reentrant"), 1);
    let readers = edn(BAD).replace('}', ", :value {:shared true}}");
    let readers = desk.file("readers.edn", &readers);
    assert_eq!(say(&["check", "--kind", "read-write", &readers]).code, 0);
    let twice = "0 invoke acquire, 0 ok acquire, 0 invoke acquire, 0 ok acquire";
    let twice = desk.file("twice.edn", &edn(twice));
    assert_eq!(say(&["check", &twice]).code, 1);
    assert_eq!(say(&["check", "--kind", "reentrant", &twice]).code, 0);
    for kind in ["semaphore", "semaphore:0", "semaphore:x", "rwlock"] {
        say(&["check", "--kind", kind, &bad]).refused_by_flags("--kind");
    }
    // Process 2 follows 0 where there are two threads: its release is clean-up. With five it is a stranger's.
    let renewed = "0 invoke acquire, 1 invoke acquire, 0 info acquire, 2 invoke release, 2 ok release, 1 ok acquire";
    let renewed = desk.file("renewed.edn", &edn(renewed));
    assert_eq!(say(&["check", &renewed]).code, 0, "found out");
    assert_eq!(say(&["check", "--threads", "2", &renewed]).code, 0);
    assert_eq!(say(&["check", "--threads", "5", &renewed]).code, 1);
    say(&["check", "--threads", "0", &renewed]).refused_by_flags("--threads");
}

#[test]
fn to_edn_and_back_it_is_judged_alike() {
    let desk = Desk::new();
    for name in ["plain-del", "mutex-twice", "redlock-thin"] {
        let file = format!("checker/tests/golden/{name}.jsonl");
        let edn = desk.file(
            &format!("{name}.edn"),
            &say(&["check", "--to-edn", &file]).good(),
        );
        let verdict = |f: &str| {
            let said = say(&["check", "--json", f]);
            let mut json: serde_json::Value = serde_json::from_str(&said.stdout).expect("JSON");
            let file = json.as_object_mut().and_then(|o| o.remove("file"));
            assert_eq!(file, Some(f.into()));
            (said.code, json)
        };
        assert_eq!(verdict(&file), verdict(&edn), "{name}");
        assert_eq!(
            say(&["check", "--to-edn", &edn]).good(),
            std::fs::read_to_string(&edn).expect("readable"),
            "{name}"
        );
    }
    let good = desk.file("good.edn", &edn(GOOD));
    for with in ["--json", "--junit=x.xml", "--shrink=x", "--expect=x.toml"] {
        say(&["check", "--to-edn", with, &good]).refused_by_flags("--to-edn");
    }
}

#[test]
fn shrink_writes_parts_that_are_judged_alike() {
    let desk = Desk::new();
    let mut ops: Vec<String> = Vec::new();
    for turn in 0..40 {
        let p = turn % 4;
        ops.push(format!("{p} invoke acquire, {p} ok acquire"));
        if turn == 20 {
            ops.push("7 invoke acquire, 7 ok acquire, 7 invoke release, 7 ok release".to_owned());
        }
        ops.push(format!("{p} invoke release, {p} ok release"));
    }
    let file = desk.file("long.edn", &edn(&ops.join(", ")));
    let parts = desk.path("parts");
    let said = say(&["check", "--shrink", &parts, &file]);
    assert_eq!(said.code, 1);
    assert!(
        said.stderr.contains("6 events show service"),
        "{}",
        said.stderr
    );
    let part = format!("{parts}/long-service.jsonl");
    let text = std::fs::read_to_string(&part).expect("it was written");
    assert_eq!(text.lines().count(), 7, "{text}");
    let alone = say(&["check", "--json", &part]);
    assert_eq!((alone.code, count(&alone, "service")), (1, 1));
    let sentence = |said: &Said| {
        let v: fencepost_checker::Verdict = serde_json::from_str(&said.stdout).expect("JSON");
        v.check("service").expect("it is in the table").findings[0]
            .sentence
            .clone()
    };
    assert_eq!(
        sentence(&alone),
        sentence(&say(&["check", "--json", &file]))
    );
    // Nothing was found, so nothing is written.
    let good = desk.file("good.edn", &edn(GOOD));
    let none = desk.path("none");
    assert_eq!(say(&["check", "--shrink", &none, &good]).code, 0);
    let written = std::fs::read_dir(&none).is_ok_and(|mut d| d.next().is_some());
    assert!(!written, "nothing was found");
    // A folder that cannot be.
    say(&["check", "--shrink", &format!("{file}/x"), &file]).refused_after_all(69);
    // Files of the same name, as every run's is.
    std::fs::create_dir_all(desk.path("other")).expect("a folder");
    let same = desk.file("other/long.jsonl", &text);
    let parts = desk.path("both");
    assert_eq!(say(&["check", "--shrink", &parts, &file, &same]).code, 1);
    for name in ["long-service.jsonl", "long-2-service.jsonl"] {
        let part = std::fs::read_to_string(format!("{parts}/{name}")).expect("it was written");
        assert_eq!(part.lines().count(), 7, "{part}");
    }
}

/// The command with these words, and these bytes on its standard input, a byte at a time to begin with.
fn say_to(words: &[&str], bytes: &[u8]) -> Said {
    say_to_with(words, bytes, &[])
}

/// As [`say_to`], with more in the environment.
fn say_to_with(words: &[&str], bytes: &[u8], env: &[(&str, &str)]) -> Said {
    let mut child = harness::fencepost()
        .args(words)
        .envs(env.iter().copied())
        .env("COLUMNS", "100")
        .env("NO_COLOR", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let bytes = bytes.to_vec();
    let writer = std::thread::spawn(move || {
        let (first, rest) = bytes.split_at(bytes.len().min(6));
        // Whoever does not want it all may close the pipe.
        let _ = first.iter().try_for_each(|b| stdin.write_all(&[*b]));
        let _ = stdin.write_all(rest);
    });
    let out = child.wait_with_output().expect("it ends");
    writer.join().expect("it was written");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Said {
        code: out.status.code().expect("a code"),
        stdout: text(&out.stdout),
        stderr: text(&out.stderr),
    }
}

#[test]
fn a_pipe_is_read_once() {
    let desk = Desk::new();
    let jsonl = std::fs::read("checker/tests/golden/mutex-twice.jsonl").expect("a golden");
    let zst = std::fs::read("checker/tests/zst/mutex-twice.jsonl.zst").expect("a golden");
    for (n, bytes) in [jsonl, zst, edn(BAD).into_bytes()].iter().enumerate() {
        let file = desk.path(&format!("{n}"));
        std::fs::write(&file, bytes).expect("written");
        let whole = say(&["check", &file]);
        for name in ["-", "/dev/stdin"] {
            let said = say_to(&["check", name], bytes);
            assert_eq!(
                (said.code, said.stderr.as_str()),
                (1, ""),
                "{}",
                said.stdout
            );
            // But for where the history is.
            let lines = |text: &str| text.lines().count();
            assert_eq!(lines(&said.stdout), lines(&whole.stdout), "{}", said.stdout);
            let said = say_to(&["check", "--json", name], bytes);
            assert_eq!((said.code, count(&said, "service")), (1, 1));
            let (parts, junit) = (desk.path("parts"), desk.path("junit.xml"));
            let words = [
                "check", "--json", "--shrink", &parts, "--junit", &junit, name,
            ];
            let said = say_to(&words, bytes);
            assert!(
                said.stderr.contains("stdin-service.jsonl: "),
                "{}",
                said.stderr
            );
            assert_eq!((said.code, count(&said, "service")), (1, 1));
            let part = format!("{parts}/stdin-service.jsonl");
            assert_eq!(say(&["check", &part]).code, 1);
            std::fs::remove_dir_all(&parts).expect("removed");
            let said = say_to(&["check", "--to-edn", name], bytes);
            assert!(said.stdout.contains(":f :acquire"), "{}", said.stderr);
        }
    }
    let said = say_to(&["check", "-"], b"");
    said.refused(64, &["error: -: the file is empty"]);
    say_to(&["check", "-", "/dev/stdin"], edn(BAD).as_bytes()).refused(64, &["given twice"]);
    // There is no room to keep it; where it need not be kept, that is no matter.
    let nowhere = [("TMPDIR", "/proc/none")];
    let judge = |words: &[&str]| say_to_with(words, edn(BAD).as_bytes(), &nowhere);
    judge(&["check", "-"]).refused(69, &["cannot be kept"]);
    assert_eq!(judge(&["check", "--json", "-"]).code, 1);
    // What has no end is no history, however it is given.
    say(&["check", "/dev/zero"]).refused(64, &["NUL bytes"]);
}

#[test]
fn a_named_pipe_is_read_once() {
    let desk = Desk::new();
    let fifo = desk.path("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.expect("mkfifo runs").success());
    let writer = {
        let fifo = fifo.clone();
        std::thread::spawn(move || std::fs::write(fifo, edn(BAD)))
    };
    let said = say(&["check", &fifo]);
    writer.join().expect("ends").expect("was written");
    assert_eq!((said.code, said.stderr.as_str()), (1, ""));
    assert!(said.stdout.contains("was granted lock"), "{}", said.stdout);
}

#[test]
fn each_line_of_json_says_of_which_file_it_is() {
    let desk = Desk::new();
    let good = desk.file("good.edn", &edn(GOOD));
    let bad = desk.file("bad.edn", &edn(BAD));
    let torn = desk.file("torn.edn", &format!("[{}", edn(GOOD)));
    let said = say(&["check", "--json", &good, "gone.edn", &bad, &torn]);
    assert_eq!(said.code, 64);
    let lines = said.stdout.lines().map(serde_json::from_str);
    let lines: Vec<serde_json::Value> = lines.collect::<Result<_, _>>().expect("JSON");
    let files: Vec<_> = lines.iter().map(|l| l["file"].as_str()).collect();
    let expected = [good.as_str(), "gone.edn", &bad, &torn].map(Some);
    assert_eq!(files, expected);
    assert_eq!(
        [&lines[0]["outcome"], &lines[2]["outcome"]],
        ["valid", "violated"]
    );
    for line in [&lines[1], &lines[3]] {
        assert_eq!(line["exit"], 64, "{line}");
        assert!(line["hint"].is_string() && line.get("outcome").is_none());
    }
    let error = lines[3]["error"].as_str().expect("a text");
    assert!(error.contains("never closed"), "{error}");
}

#[test]
fn what_was_assumed_is_said() {
    let desk = Desk::new();
    let two = "0 invoke acquire :value :a, 0 ok acquire, 1 invoke acquire :value :b, 1 ok acquire";
    let two = desk.file("two.edn", &edn(two));
    let said = say(&["check", &two]);
    assert_eq!(said.code, 1, "{}", said.stdout);
    let flat = said.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("assumed: there is one lock"), "{flat}");
    let junit = desk.path("junit.xml");
    let said = say(&["check", "--json", "--junit", &junit, &two]);
    let line: serde_json::Value = serde_json::from_str(&said.stdout).expect("JSON");
    let reading = line["reading"][0].as_str().expect("a text");
    assert!(reading.contains("--key value"), "{reading}");
    let text = std::fs::read_to_string(&junit).expect("it was written");
    assert!(text.contains("\"reading\""), "{text}");
    for key in ["value", ":value"] {
        let said = say(&["check", "--key", key, &two]);
        assert_eq!(said.code, 0, "{}", said.stdout);
        assert!(!said.stdout.contains("assumed"), "{}", said.stdout);
    }
    assert_eq!(say(&["check", "--key", "none", &two]).code, 1);
    let named = std::fs::read_to_string(&two).expect("readable");
    let named = desk.file("named.edn", &named.replace(":value", ":name"));
    assert_eq!(say(&["check", "--key", ":name", &named]).code, 0);
    say(&["check", "--key", ":other", &named]).refused(64, &["line 1, column 1", "--key"]);
    for key in ["", ":", "name"] {
        say(&["check", &format!("--key={key}"), &two]).refused_by_flags("--key");
    }
    // A lease needs times.
    let timeless = edn(BAD).replace(":time", ":when");
    let timeless = desk.file("timeless.edn", &timeless);
    say(&["check", "--ttl", "2s", &timeless]).refused(64, &["line 1, column 1", "without :time"]);
    assert_eq!(say(&["check", &timeless]).code, 1);
}

#[test]
fn junit_over_several_files() {
    let desk = Desk::new();
    let good = desk.file("good.edn", &edn(GOOD));
    let bad = desk.file("bad.edn", &edn(BAD));
    let file = desk.path("junit.xml");
    let said = say(&["check", "--junit", &file, &good, &bad]);
    assert_eq!(said.code, 1);
    assert_eq!(counted(&file), (2, 1, 0));
    // What could not be read is an error, in its place.
    let said = say(&["check", "--junit", &file, &good, "gone.edn", &bad]);
    assert_eq!(said.code, 64);
    assert_eq!(counted(&file), (3, 1, 1));
    let text = std::fs::read_to_string(&file).expect("it was written");
    let places =
        [&good, "gone.edn", &bad].map(|name| text.find(&format!("<testsuite name=\"{name}")));
    assert!(
        places.iter().all(Option::is_some) && places.is_sorted(),
        "{text}"
    );
    for to in [&desk.path("no/such/x.xml"), "/dev/full"] {
        say(&["check", "--junit", to, &good]).refused_after_all(69);
    }
}

#[test]
fn a_report_that_cannot_be_written_is_missing_room_not_a_mistake() {
    let desk = Desk::new();
    std::fs::create_dir_all(desk.path("run")).expect("a folder");
    let golden = "checker/tests/golden/mutex-twice.jsonl";
    let text = std::fs::read_to_string(golden).expect("a golden");
    desk.file("run/history.jsonl", &text);
    desk.file(
        "run/verdict.json",
        &say(&["check", "--json", golden]).stdout,
    );
    let (run, file) = (desk.path("run"), desk.file("file", ""));
    let into = format!("{file}/x.html");
    for flag in ["--html", "--picture"] {
        say(&["report", flag, &into, &run]).refused_after_all(69);
        say(&["report", flag, &desk.path("y"), &desk.path("gone")]).refused_after_all(64);
    }
}

/// Suites, failures and errors of a file.
fn counted(file: &str) -> (usize, usize, usize) {
    let text = std::fs::read_to_string(file).expect("it was written");
    let (mut suites, mut failures, mut errors) = (0, 0, 0);
    let mut reader = quick_xml::Reader::from_str(&text);
    loop {
        match reader.read_event().expect("XML") {
            quick_xml::events::Event::Start(e) if e.name().as_ref() == b"testsuite" => suites += 1,
            quick_xml::events::Event::Start(e) if e.name().as_ref() == b"failure" => failures += 1,
            quick_xml::events::Event::Start(e) | quick_xml::events::Event::Empty(e)
                if e.name().as_ref() == b"error" =>
            {
                errors += 1;
            }
            quick_xml::events::Event::Eof => return (suites, failures, errors),
            _ => {}
        }
    }
}

#[test]
fn over_several_files_failure_beats_unknown_beats_pass() {
    let desk = Desk::new();
    let good = desk.file("good.edn", &edn(GOOD));
    let bad = desk.file("bad.edn", &edn(BAD));
    let unknown = desk.file(
        "unknown.edn",
        &edn("0 ok acquire, 1 invoke acquire, 1 ok acquire"),
    );
    let code = |files: &[&str]| {
        let mut words = vec!["check"];
        words.extend(files);
        say(&words).code
    };
    assert_eq!(code(&[&good, &good]), 0);
    assert_eq!(code(&[&good, &unknown]), 2);
    assert_eq!(code(&[&unknown, &bad, &good]), 1);
    assert_eq!(code(&[&bad, "gone.edn", &good]), 64);
}
