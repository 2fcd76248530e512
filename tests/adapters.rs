//! `fencepost adapter check` on the adapter of PROTOCOL.md, on the adapters that are set up, and on hostile ones.
//!
//! An adapter whose library is not in the cache says so and is skipped; where `FENCEPOST_REQUIRE_ADAPTERS` names its
//! language, that fails.
mod harness;

use harness::{adapters, docker_answers, fencepost, remark, skipped};
use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

/// What the check said: exit code, rule → (grade, what was seen), and the words on stderr.
struct Checked {
    code: i32,
    rules: BTreeMap<String, (String, String)>,
    words: String,
}

impl Checked {
    fn grade(&self, rule: &str) -> &str {
        &self.rules[rule].0
    }

    fn seen(&self, rule: &str) -> &str {
        &self.rules[rule].1
    }

    fn bad(&self) -> Vec<String> {
        let bad = |grade: &str| grade == "wrong" || grade == "not tried";
        let all = self.rules.iter().filter(|(_, (grade, _))| bad(grade));
        all.map(|(rule, (grade, seen))| format!("{rule}: {grade}: {seen}"))
            .collect()
    }
}

fn check(flags: &[&str], adapter: &[&str]) -> Checked {
    let mut command: Command = fencepost();
    // Only Redis runs as local processes, too.
    let members = flags.contains(&"--topology");
    let backend = if members { "docker" } else { "local" };
    command.args(["adapter", "check", "--json", "--backend", backend]);
    command.args(flags).arg("--").args(adapter);
    let out = command.output().expect("fencepost runs");
    let text = String::from_utf8(out.stdout).expect("stdout is text");
    let rules = text.lines().map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).expect("a JSON object a line");
        let field = |name: &str| line[name].as_str().expect("a text").to_owned();
        assert!(!field("page").is_empty(), "each rule has its place");
        (field("rule"), (field("grade"), field("seen")))
    });
    Checked {
        code: out.status.code().unwrap_or(-1),
        rules: rules.collect(),
        words: String::from_utf8_lossy(&out.stderr).into_owned(),
    }
}

#[test]
fn the_adapter_of_the_protocol_page_passes() {
    let checked = check(&[], &["python3", "adapters/example.py"]);
    assert_eq!(checked.bad(), [""; 0], "{}", checked.words);
    assert_eq!(checked.code, 0, "{}", checked.words);
    let rules = fencepost::client::conformance::RULES;
    assert_eq!(checked.rules.len(), rules.len(), "each rule has its line");
    // It serves one request at a time and cannot extend: told, and not held against it.
    assert_eq!(checked.grade("concurrency"), "note");
    assert_eq!(checked.grade("extend"), "note");
    assert_eq!(checked.grade("owner"), "ok");
    assert_eq!(checked.grade("server-hangs"), "ok");
}

/// Each way to break the protocol, the rule that tells it, and a part of what is said.
const HOSTILE: &[(&str, &str, &str)] = &[
    ("refuse", "handshake", "no\\nservers"),
    ("no-handshake", "handshake", "deadline"),
    ("bad-handshake", "handshake", "bad-answer"),
    ("die-early", "handshake", "client-died"),
    ("silent", "acquire", "no answer to `acquire`"),
    ("not-json", "output", "no answer ("),
    ("wrong-id", "output", "which is not open"),
    ("wrong-shape", "acquire", "bad-answer"),
    ("wrong-type", "acquire", "bad-answer"),
    ("huge-number", "acquire", "bad-answer"),
    ("false-fail", "acquire", "timeout"),
    ("own-code", "acquire", "x?yx?y"),
    ("die", "acquire", "exit status: 3"),
    ("babble", "acquire", "SIGKILL"),
    ("long-line", "output", "longer than 1 MiB"),
    ("stderr", "output", "more than 4 MiB"),
    ("close-stdout", "acquire", "ended at `acquire`"),
    ("close-stdin", "output", "closed its standard input"),
    ("fork", "workers", "ended at"),
    ("lost", "output", "`lost` without worker"),
];

#[test]
fn a_hostile_adapter_never_hangs_the_check_and_is_named() {
    // Four at a time: most of it is waiting for limits.
    for four in HOSTILE.chunks(4) {
        std::thread::scope(|scope| {
            for &(mode, rule, part) in four {
                scope.spawn(move || hostile(mode, rule, part));
            }
        });
    }
}

fn hostile(mode: &str, rule: &str, part: &str) {
    let began = Instant::now();
    let adapter = ["python3", "tests/hostile/adapter.py", mode];
    // An interpreter may take its time to start; only the one that never answers is waited for.
    let limit = if mode == "no-handshake" { "2s" } else { "20s" };
    let checked = check(&["--start-limit", limit], &adapter);
    let took = began.elapsed();
    assert!(took < Duration::from_secs(90), "{mode} took {took:?}");
    let told = checked.seen(rule);
    let all = checked.bad();
    assert!(
        told.contains(part),
        "{mode}: {told:?} lacks {part:?}: {all:?}"
    );
    assert_ne!(checked.grade(rule), "ok", "{mode}: {told}");
    if told.contains("no answer to") || told.contains("ended at") {
        // Under whatever rule it fell silent, that is what is wrong with it.
        assert_eq!(checked.grade("answers"), "wrong", "{mode}: {told}");
    }
    let code = if rule == "handshake" { 64 } else { 1 };
    assert_eq!(checked.code, code, "{mode}: {}", checked.words);
}

#[test]
fn keys_that_are_elsewhere_prove_nothing_about_the_rest() {
    let adapter = ["python3", "tests/hostile/variant.py", "elsewhere"];
    let checked = check(&[], &adapter);
    assert_eq!(checked.code, 1, "{}", checked.words);
    assert_eq!(checked.grade("key"), "wrong");
    assert!(checked.seen("key").contains("there are \"mine:"));
    for rule in ["owner", "lease", "not-mine"] {
        assert_eq!(checked.grade(rule), "not tried", "{rule}");
        assert!(checked.seen(rule).contains("not where it should be"));
    }
    assert_eq!(checked.grade("release"), "note");
    assert_eq!(checked.bad().len(), 4, "{:?}", checked.bad());
}

#[test]
fn an_adapter_that_ignores_close_is_wrong_in_that_alone() {
    let adapter = ["python3", "tests/hostile/variant.py", "ignores-close"];
    let checked = check(&[], &adapter);
    assert_eq!(checked.code, 1, "{}", checked.words);
    let bad = checked.bad();
    assert!(
        bad.len() == 1 && bad[0].starts_with("close: wrong: "),
        "{bad:?}"
    );
}

#[test]
fn a_lease_shorter_than_was_asked_for_is_wrong_in_that_alone() {
    let adapter = ["python3", "tests/hostile/variant.py", "short-lease"];
    let bad = check(&[], &adapter).bad();
    assert!(
        bad.len() == 1
            && bad[0].starts_with("lease: wrong: ")
            && bad[0].contains("a shorter lease"),
        "{bad:?}"
    );
}

#[test]
fn wrong_flags_are_the_users() {
    for words in [
        &["adapter"][..],
        &["adapter", "check"],
        &["adapter", "check", "--option", "novalue", "--", "true"],
        &["adapter", "check", "--nodes", "0", "--", "true"],
        &["adapter", "check", "--ttl", "0s", "--", "true"],
    ] {
        let said = harness::say(words);
        assert_eq!((said.code, &*said.stdout), (64, ""), "{words:?}");
    }
    let missing = check(&[], &["/no/such/program"]);
    assert_eq!(missing.code, 64, "{}", missing.words);
    assert!(missing.seen("handshake").contains("cannot start"));
}

/// Language, the folder or file in the cache that shows that it is set up, servers, command.
const SET_UP: &[(&str, &str, [&str; 2], &[&str])] = &[
    (
        "python",
        "redis_py-8.1.0",
        ["--nodes", "1"],
        &["python3", "adapters/python/redis_py.py"],
    ),
    (
        "python",
        "redlock_py-1.0.8",
        ["--nodes", "3"],
        &["python3", "adapters/python/redlock_py.py"],
    ),
    (
        "node",
        "redlock-5.0.0-beta.2",
        ["--nodes", "3"],
        &["node", "adapters/node/redlock.js"],
    ),
    (
        "go",
        "redsync-4.13.0",
        ["--nodes", "3"],
        &["adapters/go/run", "redsync"],
    ),
    (
        "java",
        "redisson-3.50.0",
        ["--nodes", "1"],
        &["adapters/java/run", "redisson"],
    ),
    (
        "rust",
        "rslock-0.10.0",
        ["--nodes", "3"],
        &["adapters/rust/run", "rslock"],
    ),
];

/// The same, of locks that are not on Redis.
const SET_UP_MEMBERS: &[(&str, &str, [&str; 2], &[&str])] = &[
    (
        "go",
        "etcd_mutex-3.5.21",
        ["--topology", "etcd"],
        &["adapters/go/run", "etcd_mutex"],
    ),
    (
        "java",
        "curator-5.8.0",
        ["--topology", "zookeeper"],
        &["adapters/java/run", "curator"],
    ),
];

#[test]
fn an_adapter_of_each_language_passes_where_it_is_set_up() {
    pass(SET_UP);
}

#[test]
fn an_adapter_of_each_cluster_of_members_passes_where_it_is_set_up() {
    if docker_answers() {
        pass(SET_UP_MEMBERS);
    } else {
        skipped("an_adapter_of_each_cluster_of_members_passes_where_it_is_set_up");
    }
}

fn pass(set_up: &[(&str, &str, [&str; 2], &[&str])]) {
    for (language, folder, servers, command) in set_up {
        if !adapters().join(language).join(folder).exists() {
            let required = std::env::var("FENCEPOST_REQUIRE_ADAPTERS").unwrap_or_default();
            let skipped = format!("{language}: skipped, adapters/setup {language} was not run");
            assert!(!required.split(' ').any(|l| l == *language), "{skipped}");
            remark(&skipped);
            continue;
        }
        let env = ["--env", "XDG_CACHE_HOME", "--env", "FENCEPOST_ADAPTERS"];
        let flags = [&servers[..], &env].concat();
        let checked = check(&flags, command);
        assert_eq!(checked.bad(), [""; 0], "{command:?}\n{}", checked.words);
        assert_eq!(checked.code, 0, "{command:?}");
    }
}

#[test]
fn a_library_that_is_not_set_up_says_so() {
    let command = ["python3", "adapters/python/redis_py.py", "--version", "0.0"];
    let checked = check(&[], &command);
    assert_eq!(checked.code, 64);
    assert!(
        checked.seen("handshake").contains("adapters/setup python"),
        "{}",
        checked.seen("handshake")
    );
}
