//! How this program is started again: the reaper, and the clients of built-in locks, are processes of its own.
//!
//! Owns the words by which a program is asked to become one of them, and the way in which a test executable, which
//! reads its arguments itself, is asked the same. Must not know what a reaper or a client does. [`Own`] goes to
//! whoever starts a process; [`asked`] and [`output`] are for the process that was started.
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// The flag after which a program that is not `fencepost` finds the words ([`Own::program`]).
const FLAG: &str = "--fencepost";
/// The environment variable in which a test executable finds the words, one a line ([`Own::test`]).
const VARIABLE: &str = "FENCEPOST_AS";
/// Where a test executable's answers go: its standard output belongs to the test runner.
const ANSWERS: &str = "/proc/self/fd/3";
/// Starts one test of a test executable: `$1` the executable, `$2` the test's name, then the words. What the runner
/// prints goes where the log is.
const SCRIPT: &str = "exec 3>&1 1>&2; exe=$1; name=$2; shift 2; IFS='\n'; FENCEPOST_AS=\"$*\"; export FENCEPOST_AS; \
                      exec \"$exe\" \"$name\" --exact --nocapture --test-threads=1";

/// A program that becomes a reaper, or the client of a lock, when it is asked to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Own {
    argv: Vec<String>,
    name: String,
}

impl Own {
    /// This executable, which is `fencepost`.
    pub fn this() -> Self {
        let exe = std::env::current_exe();
        Self::fencepost(&exe.unwrap_or_else(|_| "fencepost".into()))
    }

    /// The `fencepost` executable at this path.
    pub fn fencepost(path: &Path) -> Self {
        let name = path.to_string_lossy().into_owned();
        Self {
            argv: vec![name.clone()],
            name,
        }
    }

    /// A program whose `main` calls [`crate::chaos::client`].
    pub fn program(path: &Path) -> Self {
        let mut own = Self::fencepost(path);
        own.argv.push(FLAG.to_owned());
        own
    }

    /// A test executable, of which the test of that name calls [`crate::chaos::client`].
    pub fn test(executable: &Path, name: &str) -> Self {
        let exe = executable.to_string_lossy();
        let argv = ["/bin/sh", "-c", SCRIPT, "fencepost", &exe, name];
        Self {
            argv: argv.map(str::to_owned).to_vec(),
            name: format!("test `{name}` of {exe}"),
        }
    }

    /// The whole command line by which it is asked, to be started without a shell.
    pub fn argv(&self, words: &[&str]) -> Vec<String> {
        let words = words.iter().map(|word| (*word).to_owned());
        self.argv.iter().cloned().chain(words).collect()
    }
}

impl std::fmt::Display for Own {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

/// What this process was started to become; none: nothing but itself.
pub fn asked() -> Option<Vec<String>> {
    if let Ok(words) = std::env::var(VARIABLE) {
        return Some(words.lines().map(str::to_owned).collect());
    }
    let mut words = std::env::args_os().skip(1);
    let asked = words.next().is_some_and(|word| word == FLAG);
    asked.then(|| {
        words
            .map(|word| word.to_string_lossy().into_owned())
            .collect()
    })
}

/// Where this process answers whoever started it: standard output, but for a test executable.
///
/// # Errors
/// The descriptor cannot be had.
pub fn output() -> io::Result<OwnedFd> {
    if std::env::var_os(VARIABLE).is_some() {
        return Ok(OpenOptions::new().write(true).open(ANSWERS)?.into());
    }
    io::stdout().as_fd().try_clone_to_owned()
}
