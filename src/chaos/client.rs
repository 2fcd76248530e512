//! Which program holds the lock under test, and how a program becomes it.
//!
//! Owns [`Client`] and [`client()`]. Must not know workloads. `own` has the words by which a process is asked.
use super::{ChaosError, Why};
use crate::client::builtin;
use crate::client::serve::{UserLock, serve};
use crate::own::{Own, asked};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The program that holds the lock under test; each client is a process of it.
#[derive(Debug, Clone)]
pub struct Client(pub(super) Kind);

#[derive(Debug, Clone)]
pub(super) enum Kind {
    /// Whatever the workload says.
    OfWorkload,
    /// A program, and (where it can be) the program that becomes the reaper.
    Program {
        argv: Vec<String>,
        own: Option<Own>,
        /// What to look at when it does not become what it should.
        hint: String,
    },
}

impl Client {
    pub(super) fn of_workload() -> Self {
        Self(Kind::OfWorkload)
    }

    /// This test executable, started again: the test of that name, as `cargo test -- --list` shows it (with its
    /// modules, `locks::client`), calls [`client()`].
    pub fn test(name: &str) -> Self {
        let exe = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("/proc/self/exe"));
        let hint = format!(
            "is there a test `{name}` in this executable (its path with modules), and does it begin with \
             `fencepost::chaos::client(…)`?"
        );
        Self::own(Own::test(&exe, name), hint)
    }

    /// An example of the package, built by `cargo test` beside this test executable; its `main` begins with [`client()`].
    pub fn example(name: &str) -> Self {
        let exe = std::env::current_exe().unwrap_or_default();
        // target/<profile>/deps/<this>, target/<profile>/examples/<name>
        let profile = exe.ancestors().nth(2).unwrap_or(Path::new("."));
        let path = profile.join("examples").join(name);
        let hint = format!(
            "`cargo build --example {name}` makes {}, and its `main` must begin with `fencepost::chaos::client(…)`",
            path.display()
        );
        Self::own(Own::program(&path), hint)
    }

    /// The program at this path, such as `env!("CARGO_BIN_EXE_mine")`; its `main` begins with [`client()`].
    pub fn program(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        let hint = format!(
            "{} must be there, and its `main` must begin with `fencepost::chaos::client(…)`",
            path.display()
        );
        Self::own(Own::program(path), hint)
    }

    /// Any program that speaks the client protocol, as its words; no shell. The run then needs the `fencepost`
    /// executable beside it ([`super::Chaos::fencepost`]).
    pub fn command<W: Into<String>>(words: impl IntoIterator<Item = W>) -> Self {
        Self(Kind::Program {
            argv: words.into_iter().map(Into::into).collect(),
            own: None,
            hint: String::new(),
        })
    }

    fn own(own: Own, hint: String) -> Self {
        Self(Kind::Program {
            argv: own.argv(&["client"]),
            own: Some(own),
            hint,
        })
    }

    /// The words by which a process of it is started; none: the workload says.
    pub fn argv(&self) -> Option<&[String]> {
        match &self.0 {
            Kind::OfWorkload => None,
            Kind::Program { argv, .. } => Some(argv),
        }
    }

    /// The program that becomes the reaper, and a hint for when it does not.
    pub(super) fn reaper(&self, named: Option<&Path>) -> Result<(Own, String), ChaosError> {
        if let Kind::Program {
            own: Some(own),
            hint,
            ..
        } = &self.0
        {
            return Ok((own.clone(), hint.clone()));
        }
        let variable = std::env::var_os("FENCEPOST").map(PathBuf::from);
        let named = named.map(Path::to_owned).or(variable);
        let path = named.or_else(on_path).or_else(above).ok_or_else(|| {
            ChaosError::new(
                Why::Missing,
                "there is no `fencepost` executable to clean up after the run".to_owned(),
                Some("name it with `Chaos::fencepost` or the variable FENCEPOST".to_owned()),
            )
        })?;
        let hint = format!("{} must be the fencepost executable", path.display());
        Ok((Own::fencepost(&path), hint))
    }
}

fn on_path() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path).map(|dir| dir.join("fencepost"));
    found.into_iter().find(|p| p.is_file())
}

fn above() -> Option<PathBuf> {
    let exe = std::env::current_exe().ok()?;
    let found = exe.ancestors().map(|dir| dir.join("fencepost"));
    found.into_iter().find(|p| p.is_file())
}

/// Becomes a client of the run that started this process, serves `lock`, and ends the process; returns at once in a
/// process that nobody started for that, such as a test that is run as one.
///
/// The same process may be asked to be the run's *reaper*, which removes what was started when the test is gone, however
/// it ends; `lock` is not called then.
///
/// # Panics
/// When `lock` does, or when it panics in `init` or `close`.
#[expect(
    clippy::disallowed_methods,
    reason = "a test cannot end its process otherwise; all that was served is dropped by then"
)]
pub fn client<L: UserLock>(lock: impl FnOnce() -> L) {
    let Some(words) = asked() else { return };
    let mut words = words.into_iter();
    let word = words.next().unwrap_or_default();
    let rest: Vec<String> = words.collect();
    let code = match word.as_str() {
        "reaper" => crate::reaper::main(rest),
        "client" if !rest.is_empty() => builtin::main(rest),
        "client" => own_lock(lock()),
        _ => unknown(&word),
    };
    // `ExitCode` cannot leave a function that is no `main`; success is all that anybody reads of it here.
    std::process::exit(i32::from(code != ExitCode::SUCCESS));
}

fn own_lock<L: UserLock>(lock: L) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let served = runtime.and_then(|runtime| {
        let served = runtime.block_on(serve(lock));
        runtime.shutdown_background();
        served
    });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            anstream::eprintln!("error: standard input or output: {error}");
            ExitCode::FAILURE
        }
    }
}

fn unknown(word: &str) -> ExitCode {
    anstream::eprintln!("error: `{word}` is nothing that this program can become");
    ExitCode::FAILURE
}
