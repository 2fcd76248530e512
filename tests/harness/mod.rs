//! What the tests on real servers share: the backend, one run at a time, and the words of a run.
#![allow(dead_code, reason = "each test binary uses its own part")]
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The binary under test.
pub fn fencepost() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fencepost"));
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    command
}

/// One run at a time: two clusters on two cores would stall each other, and a stall is no fault of the lock.
pub fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether an engine answers.
pub fn docker_answers() -> bool {
    let version = Command::new("docker")
        .args(["version", "--format", "{{.Server.Version}}"])
        .output();
    version.is_ok_and(|out| out.status.success())
}

/// `docker` where an engine answers. Without one the test says so on stderr and in `target/skipped-container-tests`,
/// runs on `local`, and fails where `FENCEPOST_REQUIRE_DOCKER` is set.
pub fn backend(test: &str) -> &'static str {
    if docker_answers() {
        return "docker";
    }
    skipped(test);
    "local"
}

/// Says that no engine answered this test; fails where `FENCEPOST_REQUIRE_DOCKER` is set.
pub fn skipped(test: &str) {
    assert!(
        std::env::var_os("FENCEPOST_REQUIRE_DOCKER").is_none(),
        "{test}: no engine answers"
    );
    remark(&format!("{test}: skipped on containers, no engine answers"));
    let note = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/skipped-container-tests");
    let mut file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(note)
        .expect("target/ is writable");
    std::io::Write::write_all(&mut file, format!("{test}\n").as_bytes())
        .expect("target/ is writable");
}

/// Says that a program which a test needs is not here; fails where CI demands everything.
pub fn lacking(test: &str, what: &str) {
    assert!(
        std::env::var_os("FENCEPOST_REQUIRE_DOCKER").is_none(),
        "{test}: no {what}"
    );
    remark(&format!("{test}: skipped, no {what}"));
}

/// The libraries' cache, as adapters/setup finds it.
pub fn adapters() -> PathBuf {
    let var = |name| std::env::var_os(name).filter(|v| !v.is_empty());
    var("FENCEPOST_ADAPTERS").map_or_else(
        || {
            let home = || PathBuf::from(var("HOME").unwrap_or_default()).join(".cache");
            let base = var("XDG_CACHE_HOME").map_or_else(home, PathBuf::from);
            base.join("fencepost/adapters")
        },
        PathBuf::from,
    )
}

/// What a test did not do, on stderr.
pub fn remark(text: &str) {
    #[expect(clippy::print_stderr, reason = "a test says what it did not do")]
    {
        eprintln!("{text}");
    }
}

/// What the command said, and how it ended.
#[derive(Debug, PartialEq, Eq)]
pub struct Said {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Said {
    /// Its stdout, after exit 0 and without a word on stderr.
    pub fn good(self) -> String {
        assert_eq!((self.code, self.stderr.as_str()), (0, ""));
        self.stdout
    }

    /// Demands this exit code, these parts on stderr with one hint a problem, and nothing on stdout.
    pub fn refused(&self, code: i32, parts: &[&str]) {
        assert_eq!(
            (self.code, self.stdout.as_str()),
            (code, ""),
            "{}",
            self.stderr
        );
        let starting = |words: &[&str]| {
            let lines = self.stderr.lines().map(str::trim_start);
            lines
                .filter(|l| words.iter().any(|w| l.starts_with(w)))
                .count()
        };
        let problems = starting(&["error: ", "× ", "x "]);
        assert!(problems >= 1, "no problem told: {}", self.stderr);
        assert_eq!(
            starting(&["hint: "]),
            problems,
            "a hint each: {}",
            self.stderr
        );
        for part in parts {
            assert!(
                self.stderr.contains(part),
                "`{part}` is not in\n{}",
                self.stderr
            );
        }
    }
}

impl Said {
    /// Demands that the command line was refused for this flag, before anything was done.
    pub fn refused_by_flags(&self, flag: &str) {
        let said = (self.code, self.stdout.as_str());
        assert_eq!(said, (64, ""), "{}", self.stderr);
        assert!(self.stderr.contains(flag), "{flag}: {}", self.stderr);
    }

    /// Demands this exit code and a problem with its hint, after something was printed.
    pub fn refused_after_all(&self, code: i32) {
        assert_eq!(self.code, code, "{}", self.stderr);
        assert!(
            self.stderr.contains("error: ") && self.stderr.contains("hint: "),
            "{}",
            self.stderr
        );
    }
}

/// The command with these words, as in a terminal of 100 columns without colour.
pub fn say(words: &[&str]) -> Said {
    say_with(words, &[])
}

/// As [`say`], with more in the environment.
pub fn say_with(words: &[&str], env: &[(&str, &str)]) -> Said {
    let mut command = fencepost();
    command
        .env_remove("FENCEPOST_BACKEND")
        .envs([("NO_COLOR", "1"), ("COLUMNS", "100"), ("LC_ALL", "C.UTF-8")])
        .envs(env.iter().copied())
        .stdin(std::process::Stdio::null())
        .args(words);
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().expect("fencepost runs");
    Said {
        code: status.code().unwrap_or(-1),
        stdout: String::from_utf8(stdout).expect("stdout is text"),
        stderr: String::from_utf8(stderr).expect("stderr is text"),
    }
}

/// A finished `run`.
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
    pub results: tempfile::TempDir,
}

impl Ran {
    /// The results folders of this run, in the order of their names.
    pub fn folders(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for workload in std::fs::read_dir(self.results.path())
            .expect("results")
            .flatten()
        {
            for run in std::fs::read_dir(workload.path())
                .expect("workload folder")
                .flatten()
            {
                // Beside the runs: a link to the latest, and what several runs have together.
                if run.file_type().expect("type").is_dir() {
                    found.push(run.path());
                }
            }
        }
        found.sort();
        found
    }

    /// Whether every run that is not as expected lacks a finding, and no run has one that was not expected.
    fn only_missed(&self) -> bool {
        let folders = self.folders();
        let reasons = folders.iter().flat_map(|f| Self::verdict(f).reasons);
        !folders.is_empty() && reasons.into_iter().all(|r| r.contains("expected violated"))
    }

    /// The verdict in a results folder.
    pub fn verdict(folder: &Path) -> fencepost_checker::Verdict {
        let text = std::fs::read_to_string(folder.join("verdict.json")).expect("verdict.json");
        serde_json::from_str(&text).expect("a verdict")
    }
}

/// Runs a workload file of the repository.
pub fn run(workload: &str, backend: &str, more: &[&str]) -> Ran {
    let results = tempfile::tempdir().expect("temp folder");
    let mut command = fencepost();
    command.args([
        "run",
        &format!("workloads/{workload}.toml"),
        "--backend",
        backend,
        "--results",
    ]);
    command.arg(results.path()).args(more);
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().expect("fencepost runs");
    Ran {
        code: status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&stdout).into_owned(),
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
        results,
    }
}

/// Runs a workload and demands that it came out as it states.
///
/// What a workload promises to break breaks in 19 of 20 runs (`make soak`), and a machine may stand still. So a run
/// that is unknown, or in which nothing but a promised finding is missing, is made once more with another seed. A
/// finding that was not promised is never tried again.
pub fn as_stated(workload: &str, backend: &str) -> Ran {
    as_stated_with(workload, backend, &[])
}

/// The same, with more flags.
pub fn as_stated_with(workload: &str, backend: &str, more: &[&str]) -> Ran {
    let _alone = alone();
    let mut ran = run(workload, backend, &[more, &["--seed", "11"]].concat());
    if ran.code == 2 || (ran.code == 1 && ran.only_missed()) {
        remark(&format!("{workload}: once more\n{}", ran.stdout));
        ran = run(workload, backend, &[more, &["--seed", "12"]].concat());
    }
    assert_eq!(ran.code, 0, "{workload}\n{}\n{}", ran.stdout, ran.stderr);
    ran
}

/// Runs this text as a workload, alone: exit code, and both outputs with single spaces. `cripple`: a kind of fault whose
/// injecting call is left out.
pub fn ran(text: &str, backend: &str, cripple: Option<&str>) -> (Option<i32>, String) {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("temp folder");
    let file = folder.path().join("own.toml");
    std::fs::write(&file, text).expect("written");
    let mut command = fencepost();
    command.arg("run").arg(&file);
    command.args(["--seed", "3", "--backend", backend, "--results"]);
    command.arg(folder.path().join("results"));
    if let Some(kinds) = cripple {
        command.env("FENCEPOST_CRIPPLE", kinds);
    }
    let std::process::Output {
        status,
        stdout,
        stderr,
    } = command.output().expect("fencepost runs");
    let said = [stdout, stderr].map(|s| String::from_utf8_lossy(&s).into_owned());
    let said = said.join("\n");
    let said: Vec<&str> = said.split_whitespace().collect();
    (status.code(), said.join(" "))
}
