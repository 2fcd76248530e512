//! What a run loses by no fault of its own must not pass for valid: a client that goes silent, a server or Toxiproxy that
//! is gone.
mod harness;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const WORKLOAD: &str = r#"
cluster = { topology = "single" }
lock = { LOCK, ttl = "1s", retry = "20ms", timeout = "1s" }
load = { clients = 3, work = { fixed = "50ms" }, think = "30ms", for = "3s" }
[expect]
service = "valid"
"#;

/// Writes a workload with this lock and gives its path.
fn workload(dir: &tempfile::TempDir, lock: &str) -> String {
    let path = dir.path().join("lost.toml");
    std::fs::write(&path, WORKLOAD.replace("LOCK", lock)).expect("written");
    path.to_string_lossy().into_owned()
}

#[test]
fn a_client_that_goes_silent_makes_the_run_unknown() {
    let dir = tempfile::tempdir().expect("a folder");
    let flag = dir.path().join("flag");
    let lock = format!(
        r#"command = ["python3", "tests/hostile/goes_silent.py", "adapters/example.py", "{}"]"#,
        flag.display()
    );
    // Who goes silent as a holder went on past its lease, as far as anybody can tell.
    let path = workload(&dir, &lock);
    let text = std::fs::read_to_string(&path).expect("a workload") + "overrun = \"any\"\n";
    std::fs::write(&path, text).expect("written");
    let out = harness::fencepost()
        .args(["run", &path, "--backend", "local", "--results"])
        .arg(dir.path().join("results"))
        .output()
        .expect("fencepost runs");
    let text = String::from_utf8_lossy(&out.stdout);
    assert_eq!(out.status.code(), Some(2), "{text}");
    assert!(text.contains("gave no sign of life"), "{text}");
    // In a table the sentence is broken into lines.
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        flat.contains("the first thing that was wrong: it"),
        "{text}"
    );
}

#[test]
fn a_server_that_is_killed_from_outside_makes_the_run_unknown() {
    let (code, text, said) = killed_from_outside("redis-server");
    assert!(text.contains("n1 was down at"), "{text}\n{said}");
    assert_ne!(code, Some(0), "{text}");
}

#[test]
fn a_toxiproxy_that_is_killed_from_outside_is_named_and_the_run_is_unknown() {
    // The kernel keeps 15 characters of a name.
    let (code, text, said) = killed_from_outside("toxiproxy-serve");
    let lost = "Toxiproxy gave no answer when the faults had ended";
    assert!(text.contains(lost), "{text}\n{said}");
    assert_eq!(code, Some(2), "{text}\n{said}");
}

const ETCD: [&str; 2] = [r#"topology = "etcd""#, r#"name = "etcd""#];
const SENTINEL: [&str; 2] = [r#"topology = "sentinel""#, r#"name = "set-nx-lua""#];
const SINGLE: [&str; 2] = [r#"topology = "single""#, r#"name = "set-nx-lua""#];

/// The others stand in for it, so that the load does not notice.
#[test]
fn a_member_that_is_paused_from_outside_makes_the_run_unknown() {
    let test = "a_member_that_is_paused_from_outside_makes_the_run_unknown";
    let lost = "a server was lost by no fault of the run (n3: engine: paused)";
    meddled_with(test, ETCD, ("n3", &["pause"]), lost);
}

#[test]
fn a_sentinel_that_is_removed_from_outside_makes_the_run_unknown() {
    let test = "a_sentinel_that_is_removed_from_outside_makes_the_run_unknown";
    let lost = "a server was lost by no fault of the run (s3: ";
    meddled_with(test, SENTINEL, ("s3", &["rm", "-f"]), lost);
}

/// Nobody is granted the lock any more, which is no deadlock of the lock's.
#[test]
fn the_one_server_that_is_removed_from_outside_makes_the_run_unknown() {
    let test = "the_one_server_that_is_removed_from_outside_makes_the_run_unknown";
    let lost = "a server was lost by no fault of the run (n1: ";
    meddled_with(test, SINGLE, ("n1", &["rm", "-f"]), lost);
}

/// It answers again, and has forgotten every link.
#[test]
fn a_toxiproxy_that_is_restarted_from_outside_makes_the_run_unknown() {
    let test = "a_toxiproxy_that_is_restarted_from_outside_makes_the_run_unknown";
    let lost = "Toxiproxy had lost a link when the faults had ended";
    meddled_with(test, SINGLE, ("toxiproxy", &["restart", "-t", "0"]), lost);
}

/// Does this to a container of a run once a client holds the lock, and demands what is then said of it.
fn meddled_with(test: &str, [topology, lock]: [&str; 2], (who, what): (&str, &[&str]), lost: &str) {
    if !harness::docker_answers() {
        return harness::skipped(test);
    }
    let dir = tempfile::tempdir().expect("a folder");
    let file = workload(&dir, lock);
    let text = std::fs::read_to_string(&file).expect("a workload");
    let text = text.replace(r#"topology = "single""#, topology);
    std::fs::write(&file, text).expect("written");
    let driver = driver(&dir, &file, "docker");
    wait(|| granted(&dir.path().join("results/lost")));
    let mut list = Command::new("docker");
    list.args(["ps", "--format", "{{.ID}} {{.Names}}", "--filter"]);
    list.arg(format!("name=-{who}$"));
    let all = list_of(&mut list).expect("the engine answers");
    let ours = all.iter().find(|(id, _)| owner_of(id) == driver.id());
    let (id, _) = ours.expect("a container of this run");
    let done = Command::new("docker").args(what).arg(id).output();
    assert!(done.expect("docker runs").status.success());
    let out = driver.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&out.stdout);
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains(lost), "{text}");
    assert_eq!(out.status.code(), Some(2), "{text}");
}

/// A run of this file whose results go into the folder.
fn driver(dir: &tempfile::TempDir, file: &str, backend: &str) -> Child {
    harness::fencepost()
        .args(["run", file, "--backend", backend, "--results"])
        .arg(dir.path().join("results"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("fencepost runs")
}

/// The pid of the driver that a container's label names.
fn owner_of(container: &str) -> u32 {
    let format = r#"{{index .Config.Labels "fencepost.owner"}}"#;
    let out = Command::new("docker")
        .args(["inspect", "--format", format, container])
        .output()
        .expect("docker runs");
    let label = String::from_utf8_lossy(&out.stdout).into_owned();
    let pid = label.split('/').nth(2);
    pid.and_then(|pid| pid.parse().ok()).unwrap_or(0)
}

/// Kills the driver's child of that name once a client holds the lock: exit code, what was printed, what was said.
fn killed_from_outside(name: &str) -> (Option<i32>, String, String) {
    let dir = tempfile::tempdir().expect("a folder");
    let file = workload(&dir, r#"name = "set-nx-lua""#);
    let driver = driver(&dir, &file, "local");
    let child = child_of(driver.id(), name);
    wait(|| granted(&dir.path().join("results/lost")));
    let killed = Command::new("kill").args(["-9", &child]).status();
    assert!(killed.expect("kill runs").success());
    let out = driver.wait_with_output().expect("it ends");
    let words = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (out.status.code(), words(&out.stdout), words(&out.stderr))
}

/// Says that some run below `results` is well inside its load: a client was granted the lock.
fn granted(results: &Path) -> Option<()> {
    results.read_dir().ok()?.flatten().find_map(|run| {
        let history = std::fs::read_to_string(run.path().join("history.jsonl")).ok()?;
        history
            .contains(r#""type":"ok","f":"acquire""#)
            .then_some(())
    })
}

/// The process of that name which `parent` started.
fn child_of(parent: u32, name: &str) -> String {
    wait(|| {
        let mut list = Command::new("ps");
        list.args(["-o", "pid=,comm=", "--ppid", &parent.to_string()]);
        let mut list = list_of(&mut list)?;
        list.retain(|(_, comm)| comm == name);
        list.pop().map(|(pid, _)| pid)
    })
}

fn list_of(command: &mut Command) -> Option<Vec<(String, String)>> {
    let out = command.output().ok()?;
    let pair = |line: &str| {
        let (pid, comm) = line.trim().split_once(' ')?;
        Some((pid.to_owned(), comm.trim().to_owned()))
    };
    Some(
        String::from_utf8_lossy(&out.stdout)
            .lines()
            .filter_map(pair)
            .collect(),
    )
}

/// Asks again until there is an answer.
fn wait<T>(ask: impl Fn() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "it did not come");
        std::thread::yield_now();
    }
}
