//! Runs from a Rust test: a workload, the user's own lock, and an assertion on what came of it.
//!
//! Owns the builder [`Chaos`] and how a test's own code becomes the processes that a run needs ([`client()`]). Must not
//! know what happens inside of a run: it makes a campaign, as the commands do, on a thread of its own, and hands the
//! summaries to [`Report`].
//!
//! | file | owns |
//! |---|---|
//! | `client` | which program holds the lock under test |
//! | `error` | why there is no report |
//! | `report` | what the runs showed, and the assertion |
//! | `thread` | the thread on which the runs are made |
//!
//! # A lock of one's own in `cargo test`
//! The clients are real processes, so that a pause is a SIGSTOP and a crash a SIGKILL. They are this very test
//! executable, started again: one more test hands the lock over, and does nothing when it is run as a test.
//!
//! ```no_run
//! use fencepost::chaos::{Chaos, Client};
//! # use fencepost::client::serve::{Granted, Info, Refusal, UserLock};
//! # use std::time::Duration;
//! # struct MyLock;
//! # impl MyLock { fn new() -> Self { MyLock } }
//! # #[async_trait::async_trait(?Send)]
//! # impl UserLock for MyLock {
//! #     async fn init(&mut self, _: Info) -> Result<fencepost::client::About, Refusal> { Ok(Default::default()) }
//! #     async fn acquire(&self, _: u32, _: &str, _: Duration) -> Result<Granted, Refusal> { Err(Refusal::new("held")) }
//! #     async fn release(&self, _: u32, _: &str) -> Result<(), Refusal> { Err(Refusal::new("not-held")) }
//! # }
//!
//! # fn hidden() {
//! #[test]
//! fn client() {
//!     fencepost::chaos::client(|| MyLock::new());
//! }
//!
//! #[tokio::test]
//! async fn a_paused_holder_deletes_nobody_elses_key() -> Result<(), fencepost::chaos::ChaosError> {
//!     Chaos::workload("workloads/plain-del.toml")
//!         .client(Client::test("client"))
//!         .seed(7)
//!         .run()
//!         .await?
//!         .assert_expected();
//!     Ok(())
//! }
//! # }
//! ```
//! `run_blocking` is the same without an async runtime. In an executable without the usual test runner (`harness =
//! false`, an example, a binary), `main` begins with [`client()`], and the run names it by [`Client::example`] or
//! [`Client::program`].
//!
//! A workload is a file as `fencepost run` takes it, or a text:
//! ```
//! use fencepost::chaos::Chaos;
//!
//! let error = Chaos::text("mine", "lock = { name = \"redlok\" }").run_blocking().unwrap_err();
//! assert!(error.to_string().contains("did you mean `redlock`?"), "{error}");
//! ```
mod client;
mod error;
mod report;
mod thread;

pub use client::{Client, client};
pub use error::{ChaosError, Why};
pub use report::Report;

use crate::plan::{self, Overrides, Plan};
use client::Kind;
use std::path::PathBuf;

pub use crate::cluster::Backend;

/// Runs to be made: see the [module's page](self).
///
/// Nothing is done before [`Chaos::run`] or [`Chaos::run_blocking`].
#[derive(Debug, Clone)]
#[must_use = "nothing is run before `run` or `run_blocking`"]
pub struct Chaos {
    source: Source,
    client: Client,
    over: Overrides,
    backend: Option<Backend>,
    results: PathBuf,
    repeat: u64,
    fencepost: Option<PathBuf>,
}

#[derive(Debug, Clone)]
enum Source {
    File(PathBuf),
    Text { name: String, text: String },
}

impl Chaos {
    /// The workload file at this path; relative to the working folder, which under `cargo test` is that of the package.
    ///
    /// Without [`Chaos::seed`] or a seed in the file, the seed is 1: a test is the same each time.
    pub fn workload(file: impl Into<PathBuf>) -> Self {
        Self::of(Source::File(file.into()))
    }

    /// A workload as a TOML text; its name is that of the results' folder.
    pub fn text(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self::of(Source::Text {
            name: name.into(),
            text: text.into(),
        })
    }

    fn of(source: Source) -> Self {
        Self {
            source,
            client: Client::of_workload(),
            over: Overrides::default(),
            backend: None,
            results: PathBuf::from("results"),
            repeat: 1,
            fencepost: None,
        }
    }

    /// The program that holds the lock under test, in place of the lock that the workload names.
    pub fn client(mut self, client: Client) -> Self {
        self.client = client;
        self
    }

    /// The seed of every random stream.
    pub fn seed(mut self, seed: u64) -> Self {
        self.over.seed = Some(seed);
        self
    }

    /// Where servers run. Without it: in Docker where an engine answers, else as processes.
    pub fn backend(mut self, backend: Backend) -> Self {
        self.backend = Some(backend);
        self
    }

    /// The folder for results, instead of `results` in the working folder.
    pub fn results(mut self, folder: impl Into<PathBuf>) -> Self {
        self.results = folder.into();
        self
    }

    /// Make this many runs of each variant, with seeds that count up; 0 is as 1.
    pub fn repeat(mut self, times: u64) -> Self {
        self.repeat = times.max(1);
        self
    }

    /// Only this variant of the workload.
    pub fn variant(mut self, name: impl Into<String>) -> Self {
        self.over.variant = Some(name.into());
        self
    }

    /// Override a key of the workload, such as `lock.ttl=500ms`; may be called more than once, the last one counts.
    pub fn set(mut self, key_and_value: impl Into<String>) -> Self {
        self.over.set.push(key_and_value.into());
        self
    }

    /// The `fencepost` executable, for runs whose client is none of the test's own programs. Without it: the
    /// environment variable `FENCEPOST`, else PATH, else one in a folder above this executable (`target/debug`).
    pub fn fencepost(mut self, path: impl Into<PathBuf>) -> Self {
        self.fencepost = Some(path.into());
        self
    }

    /// Makes the runs and returns what they showed. Needs no runtime of a certain kind, nor tokio at all: the work is done
    /// on a thread of its own, and this future waits for it. One that is dropped ends the run in order.
    ///
    /// Runs of one process are made one after the other, since two clusters on one machine would stall each other.
    /// Under a runner that starts a process a test (`cargo nextest`), put such tests into a group of one thread.
    ///
    /// # Errors
    /// See [`ChaosError`]. That the lock broke is none: the [`Report`] says so.
    ///
    /// # Panics
    /// When fencepost itself does: that is a defect of it.
    pub async fn run(self) -> Result<Report, ChaosError> {
        thread::start(self)?.wait().await
    }

    /// As [`Chaos::run`], for a test without an async runtime; also inside of one, whose thread it then blocks.
    ///
    /// # Errors
    /// As [`Chaos::run`].
    ///
    /// # Panics
    /// As [`Chaos::run`].
    pub fn run_blocking(self) -> Result<Report, ChaosError> {
        thread::start(self)?.wait_blocking()
    }

    /// The plans, one a variant.
    fn plans(&self) -> Result<Vec<Plan>, ChaosError> {
        let mut over = self.over.clone();
        if let Kind::Program { argv, .. } = &self.client.0 {
            let argv = argv.iter().cloned().map(toml::Value::String).collect();
            let command = toml::Value::Array(argv);
            over.set.insert(0, format!("lock.command={command}"));
        }
        let plans = match &self.source {
            Source::File(file) => plan::load(file, &over),
            Source::Text { name, text } => plan::parse(name, name, text, &over),
        };
        plans.map_err(|error| ChaosError::of_plan(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "lock = { name = \"set-nx-lua\", ttl = \"1s\" }\n[variant.a]\n[variant.b]\n";

    #[test]
    fn a_client_takes_the_place_of_the_workloads_lock() {
        let chaos = Chaos::text("mine", TEXT).client(Client::command(["./it", "a \"word\""]));
        let plans = chaos.seed(9).set("lock.ttl=2s").plans().expect("plans");
        assert_eq!(plans.len(), 2);
        for plan in plans {
            assert_eq!(plan.lock.name, None);
            assert_eq!(plan.lock.command, ["./it", "a \"word\""]);
            assert_eq!((plan.seed, plan.lock.ttl.as_secs()), (9, 2));
        }
    }

    #[test]
    fn a_test_is_the_same_each_time() {
        let plans = Chaos::text("mine", TEXT).variant("b").plans();
        let plans = plans.expect("plans");
        let seen: Vec<_> = plans
            .iter()
            .map(|p| (p.variant.as_deref(), p.seed))
            .collect();
        assert_eq!(seen, [(Some("b"), 1)]);
    }

    #[test]
    fn mistakes_are_told_at_their_place() {
        let error = Chaos::text("mine", "lokc = 1\n").plans().expect_err("no");
        assert_eq!(error.why(), Why::Workload);
        let debug = format!("{error:?}");
        assert!(debug.contains("lokc") && debug.contains("hint"), "{debug}");
        let gone = Chaos::workload("no/such.toml").plans().expect_err("no");
        assert!(gone.to_string().contains("no/such.toml"), "{gone}");
    }
}
