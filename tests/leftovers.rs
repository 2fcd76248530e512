//! However `fencepost run` ends, nothing of it is left: containers, networks, processes, the scratch folder.
//!
//! Owns the ends (success, failure, Ctrl-C, a closed terminal, `kill -9`, a killed reaper, most of them while a client is
//! stopped) on both backends, and looking for remains from outside: labels, `/proc`. It looks only at what its own run made, told by the run's id.
mod harness;

use harness::{alone, docker_answers};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Everything is gone this long after the end.
const PROMISED: Duration = Duration::from_secs(3);
/// What a machine that also compiles is granted: a slow engine is no leftover.
const SLACK: u32 = 3;
/// Bound on a whole run.
const RUN: Duration = Duration::from_secs(120);

/// A run under way, and what it has started.
struct Run {
    child: Child,
    id: String,
    /// Pid and start time of every process seen below it or in its containers.
    processes: BTreeMap<i32, u64>,
    containers: Vec<String>,
    results: tempfile::TempDir,
}

/// One process, as /proc/<pid>/stat has it.
struct Stat {
    parent: i32,
    state: char,
    start: u64,
}

impl Run {
    fn start(workload: &str, backend: &str) -> Self {
        let results = tempfile::tempdir().expect("temp folder");
        // Also where the tests run under nohup, which a program inherits: a hang-up counts.
        let child = Command::new("env")
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .args(["--default-signal=HUP", env!("CARGO_BIN_EXE_fencepost")])
            .args(["run", workload, "--backend", backend, "--results"])
            .arg(results.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(results.path().join("stderr")).expect("a file"))
            // A group of its own, as a shell makes one for each job.
            .process_group(0)
            .spawn()
            .expect("fencepost starts");
        let mut run = Self {
            child,
            id: String::new(),
            processes: BTreeMap::new(),
            containers: Vec::new(),
            results,
        };
        // The reaper is the first that it starts, and has the run's id on its command line.
        run.until("a reaper", |run| {
            run.look();
            run.processes
                .keys()
                .find_map(|&pid| reaper_of(pid))
                .map(|id| run.id = id)
        });
        run
    }

    /// The reaper that lives.
    fn reaper(&mut self) -> Option<i32> {
        self.look();
        let all = every_process();
        let lives = |pid: &&i32| all.get(pid).is_some_and(|stat| stat.state != 'Z');
        let mut pids = self.processes.keys().filter(lives);
        pids.find(|pid| reaper_of(**pid).is_some()).copied()
    }

    fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Notes every process below this run.
    fn look(&mut self) {
        let all = every_process();
        let mut ours = vec![self.pid()];
        while let Some(parent) = ours.pop() {
            let below = all.iter().filter(|(_, stat)| stat.parent == parent);
            for (&pid, stat) in below {
                self.processes.insert(pid, stat.start);
                ours.push(pid);
            }
        }
    }

    /// Notes the containers, and the processes in them.
    fn look_at_containers(&mut self) {
        self.containers = labelled(&["ps", "-q", "--no-trunc", "-a"], &self.id);
        for (pid, stat) in every_process() {
            let group = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
            if self.containers.iter().any(|id| group.contains(id)) {
                self.processes.insert(pid, stat.start);
            }
        }
    }

    /// Waits until a client stands still in the middle of its pause.
    fn until_a_client_is_stopped(&mut self) {
        self.until("a stopped client", |run| {
            run.look();
            let all = every_process();
            let stopped = |pid: &&i32| all.get(pid).is_some_and(|stat| stat.state == 'T');
            run.processes.keys().find(stopped).map(|_| ())
        });
    }

    fn until(&mut self, what: &str, mut there: impl FnMut(&mut Self) -> Option<()>) {
        let end = Instant::now() + RUN;
        while there(self).is_none() {
            let ended = self.child.try_wait().expect("it can be waited for");
            assert!(ended.is_none(), "the run ended before {what} was there");
            assert!(Instant::now() < end, "{what} never came");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for the end of the harness itself, and gives its exit code.
    fn code(&mut self) -> Option<i32> {
        let end = Instant::now() + RUN;
        loop {
            if let Some(status) = self.child.try_wait().expect("it can be waited for") {
                return status.code();
            }
            self.look();
            assert!(Instant::now() < end, "the run does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// What is still there.
    fn left(&self) -> Vec<String> {
        let all = every_process();
        let lives = |(pid, start): &(&i32, &u64)| {
            all.get(*pid)
                .is_some_and(|stat| stat.start == **start && stat.state != 'Z')
        };
        let named = all.keys().filter(|pid| speaks_of(**pid, &self.id));
        let mut left: Vec<String> = self
            .processes
            .iter()
            .filter(lives)
            .map(|(pid, _)| pid)
            .chain(named)
            .map(|pid| format!("process {pid}: {}", words(*pid).join(" ")))
            .collect();
        if docker_answers() {
            left.extend(labelled(&["ps", "-q", "-a"], &self.id));
            left.extend(labelled(&["network", "ls", "-q"], &self.id));
        }
        let scratch = std::env::temp_dir().join(format!("fencepost-run-{}", self.id));
        if scratch.exists() {
            left.push(scratch.display().to_string());
        }
        left
    }

    /// Nothing is left within what was promised of `since`.
    fn nothing_is_left(&self, what: &str, since: Instant) {
        loop {
            let left = self.left();
            let took = since.elapsed();
            if left.is_empty() {
                #[expect(clippy::print_stderr, reason = "a test says what it measured")]
                {
                    eprintln!("{what}: nothing left after {:.2} s", took.as_secs_f64());
                }
                return;
            }
            assert!(
                took < PROMISED * SLACK,
                "{what}: after {took:?} there is still {left:#?}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // A test that failed half way: the harness ends, and its reaper removes the rest.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn every_process() -> BTreeMap<i32, Stat> {
    let entries = std::fs::read_dir("/proc").expect("/proc");
    let pids = entries
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| Some((pid, stat(pid)?))).collect()
}

fn stat(pid: i32) -> Option<Stat> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything: the rest follows the last one. Then 0 state, 1 parent, 19 start.
    let fields: Vec<&str> = text.rsplit_once(") ")?.1.split(' ').collect();
    Some(Stat {
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        start: fields.get(19)?.parse().ok()?,
    })
}

fn words(pid: i32) -> Vec<String> {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = bytes.split(|b| *b == 0).filter(|word| !word.is_empty());
    words
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect()
}

/// The run's id, where `pid` is a reaper.
fn reaper_of(pid: i32) -> Option<String> {
    let words = words(pid);
    let at = words.iter().position(|word| word == "--run")?;
    (words.get(1)? == "reaper").then(|| words.get(at + 1).cloned())?
}

/// The run's id stands on its command line, or it works in the run's scratch folder.
fn speaks_of(pid: i32, id: &str) -> bool {
    let at = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
    at.to_string_lossy().contains(id) || words(pid).iter().any(|word| word.contains(id))
}

/// What `docker ps` or `docker network ls` lists of this run.
fn labelled(command: &[&str], id: &str) -> Vec<String> {
    let label = format!("label=fencepost.run={id}");
    let out = Command::new("docker")
        .args(command)
        .args(["--filter", &label])
        .output();
    let out = out.map_or_else(|_| Vec::new(), |out| out.stdout);
    String::from_utf8_lossy(&out)
        .lines()
        .map(str::to_owned)
        .collect()
}

const WORKLOAD: &str = "workloads/plain-del.toml";

fn after_success(backend: &str) {
    let _alone = alone();
    let mut run = Run::start(WORKLOAD, backend);
    run.until_a_client_is_stopped();
    run.look_at_containers();
    let code = run.code();
    run.nothing_is_left(&format!("{backend}, success"), Instant::now());
    assert!(matches!(code, Some(0..=2)), "it ran to its end: {code:?}");
}

/// A client that does not answer the handshake, on a cluster that stands.
fn after_failure(backend: &str) {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("temp folder");
    let file = folder.path().join("no-handshake.toml");
    let text =
        "lock = { command = [\"false\"], ttl = \"1s\" }\nload = { clients = 2, for = \"1s\" }\n";
    std::fs::write(&file, text).expect("written");
    let mut run = Run::start(file.to_str().expect("a tame path"), backend);
    let code = run.code();
    run.nothing_is_left(&format!("{backend}, failure"), Instant::now());
    assert_eq!(
        code,
        Some(64),
        "a handshake that failed is the user's to mend"
    );
}

fn after_a_signal(backend: &str, signal: Signal) {
    let _alone = alone();
    let mut run = Run::start(WORKLOAD, backend);
    run.until_a_client_is_stopped();
    run.look_at_containers();
    assert_eq!(run.containers.is_empty(), backend == "local");
    let since = Instant::now();
    if signal == Signal::SIGINT {
        // As a terminal does it: to the whole group.
        kill(Pid::from_raw(-run.pid()), signal).expect("signalled");
        assert_eq!(run.code(), Some(130));
    } else {
        kill(Pid::from_raw(run.pid()), signal).expect("signalled");
        let code = (signal == Signal::SIGHUP).then_some(129);
        assert_eq!(run.code(), code, "none: killed");
    }
    run.nothing_is_left(&format!("{backend}, {signal}"), since);
}

/// Somebody kills the reaper, and later the harness: another reaper has taken the first one's place.
fn after_the_reaper_was_killed(backend: &str) {
    let _alone = alone();
    let mut run = Run::start(WORKLOAD, backend);
    run.until_a_client_is_stopped();
    run.look_at_containers();
    let first = run.reaper().expect("a reaper lives");
    kill(Pid::from_raw(first), Signal::SIGKILL).expect("signalled");
    run.until("another reaper", |run| {
        run.reaper().filter(|pid| *pid != first).map(|_| ())
    });
    let said = run.results.path().join("stderr");
    run.until("a word about it", |_| {
        let said = std::fs::read_to_string(&said).ok()?;
        (said.matches("another one has taken its place").count() == 1).then_some(())
    });
    let since = Instant::now();
    kill(Pid::from_raw(run.pid()), Signal::SIGKILL).expect("signalled");
    assert_eq!(run.code(), None, "killed");
    run.nothing_is_left(&format!("{backend}, both killed"), since);
}

macro_rules! ends {
    ($($test:ident: $end:expr;)*) => {
        mod on_containers {
            use super::*;
            $(#[test] fn $test() {
                if harness::backend(concat!("leftovers ", stringify!($test))) == "docker" {
                    $end("docker");
                }
            })*
        }
        mod on_processes {
            use super::*;
            $(#[test] fn $test() { $end("local"); })*
        }
    };
}

ends! {
    nothing_is_left_after_success: after_success;
    nothing_is_left_after_failure: after_failure;
    nothing_is_left_after_ctrl_c_in_a_pause: |b| after_a_signal(b, Signal::SIGINT);
    nothing_is_left_after_kill_9_in_a_pause: |b| after_a_signal(b, Signal::SIGKILL);
    nothing_is_left_after_a_hang_up_in_a_pause: |b| after_a_signal(b, Signal::SIGHUP);
    nothing_is_left_after_the_reaper_was_killed_too: after_the_reaper_was_killed;
}
