//! Whatever a stranger does wrong or lacks: one clear message with its place, one hint, the documented exit code,
//! nothing on stdout. The last tests start servers on local processes.
mod harness;

use harness::{Said, alone, docker_answers, fencepost, say, say_with};
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const WORKLOAD: &str = "cluster = { topology = \"single\" }
lock = { name = \"set-nx-lua\", ttl = \"1s\" }
load = { clients = 2, work = { fixed = \"50ms\" }, for = \"500ms\", tail = \"0ms\" }
";

/// A folder with workload files and results.
struct Desk(tempfile::TempDir);

impl Desk {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::write(&path, bytes).expect("written");
        path
    }

    /// `run` with these words, results here, on local processes unless the words say otherwise.
    fn run(&self, words: &[&str]) -> Said {
        let results = self.path("results");
        let mut all = vec!["run", "--results", &results, "--seed", "3"];
        if !words.contains(&"--backend") {
            all.extend(["--backend", "local"]);
        }
        all.extend(words);
        say(&all)
    }

    /// The message with this folder's own path taken out.
    fn told(&self, said: &Said) -> String {
        let here = self.0.path().display().to_string();
        format!(
            "exit {}\n{}\n",
            said.code,
            said.stderr.replace(&here, "DIR")
        )
    }
}

/// The only history under `results`.
fn history(results: &str) -> PathBuf {
    let runs = Path::new(results).join("w");
    let mut found: Vec<PathBuf> = std::fs::read_dir(&runs)
        .into_iter()
        .flatten()
        .flatten()
        .map(|run| run.path().join("history.jsonl"))
        .filter(|h| h.exists())
        .collect();
    found
        .pop()
        .unwrap_or_else(|| panic!("no history in {}", runs.display()))
}

#[test]
fn a_workload_that_is_none() {
    let desk = Desk::new();
    let fault = |keys: &str| format!("{WORKLOAD}[[fault]]\n{keys}\n");
    let files = [
        (
            "unknown-key.toml",
            format!("{WORKLOAD}lead = {{ for = \"1s\" }}\n"),
        ),
        ("wrong-unit.toml", WORKLOAD.replace("1s", "1 fortnight")),
        (
            "no-such-node.toml",
            fault("kind = \"node-kill\"\ntarget = \"node:7\"\nat = \"100ms\""),
        ),
        (
            "no-such-kind.toml",
            fault("kind = \"node-melt\"\ntarget = \"node:1\"\nat = \"100ms\""),
        ),
        ("no-toml.toml", "lock = { name = ".to_owned()),
        ("empty.toml", String::new()),
    ];
    let mut told = String::new();
    for (name, text) in files {
        let said = desk.run(&[&desk.file(name, text)]);
        said.refused(64, &[name]);
        told += &desk.told(&said);
    }
    let binary = desk.file("binary.toml", b"\x7fELF\x02\x01\x01\x00\xff\xfe");
    let ok = desk.file("w.toml", WORKLOAD);
    let folder = desk.path("");
    let gone = desk.path("gone.toml");
    for words in [
        vec![binary.as_str()],
        vec![&gone],
        vec![&folder],
        vec![&ok, "--variant", "redlock"],
        vec![&ok, "--set", "lock.ttl"],
        vec![&ok, "--set", "lock.tll=1s"],
        vec![&ok, "--set", "lock.ttl=one second"],
        vec![&ok, "--image", "two words"],
        vec![&ok, "--backend", "podman"],
        vec![&ok, "--repeat", "0"],
        vec![&ok, "--sed", "7"],
    ] {
        let said = desk.run(&words);
        said.refused(64, &[]);
        told += &desk.told(&said);
    }
    insta::assert_snapshot!(told);
    let words = ["run", &desk.path("unknown-key.toml")];
    let ascii = say_with(&words, &[("LC_ALL", "C")]);
    ascii.refused(64, &["unknown key `lead`"]);
    assert!(ascii.stderr.is_ascii(), "{}", ascii.stderr);
    assert!(
        !Path::new(&desk.path("results")).exists(),
        "nothing was begun"
    );
}

/// A line longer than the renderer can count columns, and more mistakes than anybody reads.
#[test]
fn two_steps_of_one_name_in_the_background() {
    let desk = Desk::new();
    let step =
        "[[step]]\nid = \"x\"\nclient = \"c1\"\ndo = \"work\"\nfor = \"10ms\"\nbackground = true\n";
    let file = desk.file("w.toml", format!("{WORKLOAD}{step}{step}"));
    let said = desk.run(&[&file]);
    assert_eq!(said.code, 64, "{}", said.stderr);
    let told = "two steps in the background are called `x`";
    assert!(said.stderr.contains(told), "{}", said.stderr);
}

#[test]
fn a_step_that_the_adapter_cannot_do_makes_another_schedule() {
    let desk = Desk::new();
    let step = "[[step]]\nclient = \"c1\"\ndo = \"kill-thread\"\n";
    let file = desk.file("w.toml", format!("{WORKLOAD}{step}"));
    let said = desk.run(&[&file]);
    assert_eq!(said.code, 2, "{}", said.stderr);
    let told = format!("{}{}", said.stdout, said.stderr);
    let cannot = "kill-thread lock:0: fail (unsupported), which this adapter cannot";
    assert!(told.contains(cannot), "{told}");
}

#[test]
fn a_workload_without_measure() {
    let desk = Desk::new();
    let many = |n: usize, one: &dyn Fn(usize) -> String, between: &str| {
        (0..n).map(one).collect::<Vec<_>>().join(between)
    };
    let key = |i: usize| format!("k{i} = 1");
    let about = "x".repeat(70_000);
    for (name, text, told) in [
        (
            "deep.toml",
            format!("a = {}", "[".repeat(100_000)),
            "not TOML",
        ),
        (
            "late.toml",
            format!("about = \"{about}\"; bad"),
            "late.toml:1:70011]",
        ),
        (
            "wide.toml",
            format!(
                "lock = {{ name = \"none\", options = {{ {} }}, tl = 3 }}",
                many(9000, &key, ", ")
            ),
            "wide.toml:1:",
        ),
        (
            "many.toml",
            many(50_000, &key, "\n"),
            "and 49981 more problems",
        ),
        (
            "keys.toml",
            format!("lock = {{ {} }}", many(3000, &key, ", ")),
            "more problems",
        ),
        (
            "long-before.toml",
            format!("about = \"{about}\"\nlock = {{ name = \"nono\" }}"),
            "long-before.toml:2:17]",
        ),
    ] {
        let begun = std::time::Instant::now();
        let said = desk.run(&[&desk.file(name, text)]);
        said.refused(64, &[told]);
        assert!(said.stderr.len() < 40_000, "{name}: {}", said.stderr.len());
        let took = begun.elapsed();
        assert!(took.as_secs() < 20, "{name} took {took:?}");
    }
}

#[test]
fn a_variable_that_is_empty_is_not_set() {
    let desk = Desk::new();
    let empty = [("FENCEPOST_BACKEND", ""), ("FENCEPOST_SEED", "")];
    for command in ["run", "suite"] {
        let said = say_with(&[command, &desk.path("gone.toml")], &empty);
        said.refused(64, &["o such file"]);
    }
}

#[test]
fn a_history_behind_a_byte_order_mark() {
    let desk = Desk::new();
    let plain = std::fs::read("checker/tests/golden/coverage-good.jsonl").expect("a golden");
    let marked = [b"\xef\xbb\xbf".as_slice(), &plain].concat();
    let judged = |dir: &str, bytes: &[u8]| {
        std::fs::create_dir_all(desk.path(dir)).expect("a folder");
        let said = say(&["check", &desk.file(&format!("{dir}/h.jsonl"), bytes)]);
        (said.code, said.stderr, said.stdout.replace(dir, "DIR"))
    };
    assert_eq!(judged("marked", &marked), judged("simple", &plain));
}

/// Where a folder was named in place of what is in it, that is told.
#[test]
fn a_folder_in_place_of_what_is_in_it() {
    let desk = Desk::new();
    let run = desk.path("w/latest");
    std::fs::create_dir_all(&run).expect("a folder");
    for file in ["history.jsonl", "verdict.json"] {
        desk.file(&format!("w/latest/{file}"), "");
    }
    let meant = format!("did you mean {run}/history.jsonl?");
    say(&["check", &run]).refused(64, &[&meant]);
    let meant = format!("did you mean {run}?");
    say(&["report", &desk.path("w")]).refused(64, &[&meant]);
}

/// `ulimit -f`: the signal that comes with it must not kill.
#[test]
fn a_file_that_may_not_grow() {
    let _alone = alone();
    let desk = Desk::new();
    let file = desk.file("w.toml", WORKLOAD.replace("500ms", "20s"));
    let mut command = Command::new("bash");
    let words = "ulimit -f 100; exec \"$0\" run \"$1\" --backend local --results \"$2\"";
    let out = command
        .args(["-c", words])
        .arg(fencepost().get_program())
        .args([&file, &desk.path("results")])
        .output()
        .expect("fencepost runs");
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(69), "{said}");
    assert!(said.contains("cannot write results in"), "{said}");
    assert!(said.contains("all removed in"), "{said}");
}

#[test]
fn a_history_that_is_none() {
    let desk = Desk::new();
    let header = "{\"fencepost\":1,\"workload\":\"w\",\"seed\":0,\"model\":{}}\n";
    let mut told = String::new();
    for (name, bytes) in [
        ("empty.jsonl", Vec::new()),
        ("header-only.jsonl", header.into()),
        (
            "foreign.jsonl",
            b"{\"level\":\"info\",\"msg\":\"hello\"}\n{\"level\":\"warn\"}\n".to_vec(),
        ),
        ("binary.jsonl", b"\x1f\x8b\x08\x00\x00\x00\x00\x00".to_vec()),
        ("future.jsonl", header.replace(":1,", ":99,").into()),
        (
            "damaged.jsonl",
            format!("{header}{{\"index\":0,\"ti\n{{}}\n").into(),
        ),
    ] {
        let said = say(&["check", &desk.file(name, bytes)]);
        said.refused(64, &[name]);
        told += &desk.told(&said);
    }
    for path in [desk.path("gone.jsonl"), desk.path("")] {
        let said = say(&["check", &path]);
        said.refused(64, &[]);
        told += &desk.told(&said);
    }
    insta::assert_snapshot!(told);
}

#[test]
fn a_torn_history_is_read_to_its_tear_and_never_valid() {
    let desk = Desk::new();
    let whole =
        std::fs::read("checker/tests/golden/coverage-good.jsonl").expect("a golden history");
    let at = whole.len() * 2 / 3;
    assert_ne!(whole[at - 1], b'\n');
    let said = say(&["check", &desk.file("torn.jsonl", &whole[..at])]);
    assert_eq!(
        (said.code, said.stderr.as_str()),
        (2, ""),
        "{}",
        said.stdout
    );
    assert!(
        said.stdout.contains("the history was cut"),
        "{}",
        said.stdout
    );
    assert!(said.stdout.contains("torn"), "{}", said.stdout);
}

#[test]
fn an_engine_that_does_not_answer() {
    let desk = Desk::new();
    let file = desk.file("w.toml", WORKLOAD);
    let results = desk.path("results");
    for (host, why) in [
        (format!("unix://{}", desk.path("dead.sock")), "dead.sock"),
        (
            "tcp://127.0.0.1:1".to_owned(),
            "tcp://127.0.0.1:1: Connection refused",
        ),
    ] {
        let words = ["run", &file, "--backend", "docker", "--results", &results];
        let said = say_with(&words, &[("DOCKER_HOST", &host)]);
        said.refused(
            69,
            &["no container engine answers", why, "`--backend local`"],
        );
        let said = say_with(&["clean"], &[("DOCKER_HOST", &host)]);
        assert_eq!(said.code, 0, "{}", said.stderr);
        assert!(
            said.stderr.contains("containers were not looked at"),
            "{}",
            said.stderr
        );
    }
}

/// A Toxiproxy that finds each port taken in the moment between looking and listening: a program that was faster
/// listens there, and the real one is then started beside it.
#[test]
fn a_port_that_is_in_use() {
    let _alone = alone();
    let desk = Desk::new();
    let real = fencepost::cluster::find_toxiproxy().expect("toxiproxy-server is here");
    let faster = format!(
        "#!/usr/bin/env python3\n\
         import os, socket, sys\n\
         s = socket.create_server((\"127.0.0.1\", int(sys.argv[sys.argv.index(\"-port\") + 1])))\n\
         s.set_inheritable(True)\n\
         os.execv({real:?}, [{real:?}, *sys.argv[1:]])\n",
        real = real.display().to_string()
    );
    let faster = desk.file("toxiproxy-server", faster);
    let program = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&faster, program).expect("it can be run");
    let (file, results) = (desk.file("w.toml", WORKLOAD), desk.path("results"));
    let words = ["run", &file, "--backend", "local", "--results", &results];
    let said = say_with(&words, &[("FENCEPOST_TOXIPROXY", &faster)]);
    said.refused(69, &["toxiproxy found no free port", "in use", "ss -ltnp"]);
}

#[test]
fn a_stdout_that_takes_nothing() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
    let out = fencepost()
        .args(["check", "checker/tests/golden/clean.jsonl"])
        .stdout(full.expect("/dev/full is there"))
        .output()
        .expect("fencepost runs");
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(69), "{said}");
    assert_eq!(
        said.matches("error: cannot write to stdout").count(),
        1,
        "{said}"
    );
    assert!(said.contains("hint: is the disk full?"), "{said}");
}

#[test]
fn an_image_that_is_not_here_is_not_pulled() {
    if !docker_answers() {
        harness::skipped("an_image_that_is_not_here_is_not_pulled");
        return;
    }
    let desk = Desk::new();
    let text = WORKLOAD.replace("{ topology", "{ image = \"nosuch/image:1\", topology");
    let file = desk.file("w.toml", text);
    let said = desk.run(&[&file, "--backend", "docker"]);
    said.refused(
        69,
        &[
            "image nosuch/image:1 is not here",
            "`docker pull nosuch/image:1`",
        ],
    );
    let good = desk.file("v.toml", WORKLOAD);
    let said = desk.run(&[
        &good,
        "--backend",
        "docker",
        "--toxiproxy-image",
        "nosuch/proxy:1",
    ]);
    said.refused(69, &["image nosuch/proxy:1 is not here"]);
}

#[test]
fn a_results_folder_that_is_a_file() {
    let desk = Desk::new();
    let file = desk.file("w.toml", WORKLOAD);
    let results = desk.file("results", "in the way");
    desk.run(&[&file])
        .refused(69, &["cannot write results in", &results, "--results"]);
}

/// A small file system below the desk.
struct Tiny(PathBuf);

impl Tiny {
    /// With its path; none where this user may not mount one.
    fn mount(desk: &Desk, size: &str) -> Option<(Self, String)> {
        let at = desk.path("tiny");
        std::fs::create_dir(&at).expect("a folder");
        let size = format!("size={size}");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "tmpfs", &at]);
        let done = mount.stderr(Stdio::null()).status();
        let mounted = done.is_ok_and(|s| s.success());
        if !mounted {
            harness::remark("a disk without room: no right to mount a small one");
        }
        mounted.then(|| (Self(PathBuf::from(&at)), at))
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_disk_without_room_for_the_page_loses_no_verdict() {
    let _alone = alone();
    let desk = Desk::new();
    let Some((_tiny, results)) = Tiny::mount(&desk, "128k") else {
        return;
    };
    let file = desk.file("w.toml", WORKLOAD);
    let run = ["run", &file, "--backend", "local", "--seed", "7"];
    let said = say(&[&run[..], &["--results", &results]].concat());
    said.refused(69, &["No space left on device", "w, seed 7: as expected"]);
}

#[test]
fn a_disk_that_fills_up_during_the_run() {
    let _alone = alone();
    let desk = Desk::new();
    let Some((tiny, results)) = Tiny::mount(&desk, "64k") else {
        return;
    };
    let file = desk.file("w.toml", WORKLOAD.replace("500ms", "60s"));
    let said = say(&["run", &file, "--backend", "local", "--results", &results]);
    said.refused(
        69,
        &[
            "cannot write results in",
            "No space left on device",
            "free some space",
        ],
    );
    assert!(said.stderr.contains("all removed in"), "{}", said.stderr);
    let said = say(&["check", &history(&results).display().to_string()]);
    assert_eq!(said.code, 2, "{}{}", said.stdout, said.stderr);
    assert!(
        said.stdout.contains("the history was cut"),
        "{}",
        said.stdout
    );
    // And before the run: nothing is started where nothing can be kept.
    let said = say(&["run", &file, "--backend", "local", "--results", &results]);
    said.refused(69, &["No space left on device", "free some space"]);
    assert!(!said.stderr.contains("ready in"), "{}", said.stderr);
    drop(tiny);
}

#[test]
fn an_adapter_that_does_not_speak() {
    let _alone = alone();
    let desk = Desk::new();
    let adapter = |name: &str, argv: &[&str]| {
        let command = serde_json::to_string(argv).expect("JSON");
        let text = WORKLOAD.replace("name = \"set-nx-lua\"", &format!("command = {command}"));
        desk.run(&[&desk.file(name, text)])
    };
    adapter("gone.toml", &["/no/such/adapter"]).refused(
        64,
        &[
            "cannot start `/no/such/adapter`",
            "No such file or directory",
            "`lock.command`",
        ],
    );
    adapter(
        "dies.toml",
        &["sh", "-c", "echo no module named redis >&2; exit 3"],
    )
    .refused(
        64,
        &[
            "client-died",
            "exit status: 3",
            "clients/c",
            "\n  no module named redis\n",
            "PROTOCOL.md",
        ],
    );
    adapter("babbles.toml", &["sh", "-c", "echo Welcome!; read line"]).refused(
        64,
        &["sent a line that is no answer", "`Welcome!`", "PROTOCOL.md"],
    );
    let yes = "read line; echo '{\"id\":1,\"type\":\"yes\"}'; read line";
    adapter("nonsense.toml", &["sh", "-c", yes]).refused(64, &["bad-answer", "PROTOCOL.md"]);
}

#[test]
fn a_run_that_was_killed_leaves_a_history_that_is_not_valid() {
    let _alone = alone();
    let desk = Desk::new();
    let file = desk.file("w.toml", WORKLOAD.replace("500ms", "60s"));
    let results = desk.path("results");
    let mut run = fencepost()
        .args(["run", &file, "--backend", "local", "--results", &results])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let stderr = run.stderr.take().expect("a pipe");
    // The first line of progress comes when the load has gone on for some seconds. On a pipe nothing moves: each word
    // is a line, without control characters.
    let told = std::io::BufReader::new(stderr)
        .lines()
        .map_while(Result::ok)
        .inspect(|l| assert!(!l.contains(char::is_control), "{l:?}"))
        .find(|l| l.starts_with("load: "));
    run.kill().expect("SIGKILL");
    run.wait().expect("it ended");
    assert!(told.is_some(), "no progress");
    let said = say(&["check", &history(&results).display().to_string()]);
    assert_eq!(
        (said.code, said.stderr.as_str()),
        (2, ""),
        "{}",
        said.stdout
    );
    assert!(
        said.stdout.contains("the history was cut"),
        "{}",
        said.stdout
    );
}

#[test]
fn several_runs_are_also_shown_together() {
    let _alone = alone();
    let desk = Desk::new();
    let file = desk.file("w.toml", WORKLOAD);
    let said = desk.run(&[&file, "--repeat", "2", "--json"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let json: serde_json::Value =
        serde_json::from_str(&said.stdout).expect("nothing but JSON on stdout");
    assert_eq!(json["runs"].as_array().map(Vec::len), Some(2));
    let first = said.stderr.lines().next().expect("words");
    assert!(
        first.contains("2 runs, about 2 s") && first.contains("seed 3"),
        "{first}"
    );
    assert!(said.stderr.lines().count() <= 4, "{}", said.stderr);
    for name in ["summary.md", "junit.xml"] {
        let path = Path::new(&desk.path("results")).join("w").join(name);
        let text = std::fs::read_to_string(&path).expect("written");
        assert!(text.contains("seed 3") && text.contains("seed 4"), "{text}");
        assert!(
            said.stderr.contains(&path.display().to_string()),
            "{}",
            said.stderr
        );
    }
}
