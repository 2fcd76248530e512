//! The application's lock under faults, from `cargo test`: real processes, a real pause, a judged record.
//!
//! Owns what the lock says through fencepost's seam. The processes that hold it are this executable, started again
//! ([`client`]).
use async_trait::async_trait;
use fencepost::chaos::{Backend, Chaos, ChaosError, Client, Why};
use fencepost::client::About;
use fencepost::client::serve::{Granted, Info, Refusal, UserLock};
use fencepost_checker::Outcome;
use redis::RedisError;
use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;
use user_lock::RedisLock;

/// The lock, and what each worker holds.
#[derive(Default)]
struct UnderTest {
    lock: Option<RedisLock>,
    prefix: String,
    /// Releases with a plain DEL, where the workload's options say so.
    blindly: bool,
    held: RefCell<HashMap<(u32, String), String>>,
}

impl UnderTest {
    fn lock(&self) -> Result<&RedisLock, Refusal> {
        self.lock
            .as_ref()
            .ok_or_else(|| Refusal::new("not-initialised"))
    }

    fn owner(&self, worker: u32, key: &str) -> Result<String, Refusal> {
        let held = self.held.borrow();
        let owner = held.get(&(worker, key.to_owned())).cloned();
        owner.ok_or_else(|| Refusal::new("not-held"))
    }
}

/// Only what certainly never reached the server is certain.
fn refusal(error: &RedisError) -> Refusal {
    let code = if error.is_connection_refusal() {
        "connection-refused"
    } else if error.is_timeout() {
        "timeout"
    } else {
        "connection-reset"
    };
    Refusal::new(code).because(error.to_string())
}

#[async_trait(?Send)]
impl UserLock for UnderTest {
    async fn init(&mut self, info: Info) -> Result<About, Refusal> {
        let init = info.init;
        let node = init
            .nodes
            .first()
            .ok_or_else(|| Refusal::new("bad-request"))?;
        let lease = Duration::from_millis(init.ttl_ms);
        let limit = Duration::from_millis(init.node_timeout_ms);
        let lock = RedisLock::new(&format!("redis://{node}"), lease, limit);
        self.lock = Some(lock.map_err(|e| refusal(&e))?);
        self.blindly = init.options.get("release").is_some_and(|r| r == "del");
        self.prefix = init.prefix;
        Ok(About {
            library: "user-lock".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            driver: Some("redis-rs".into()),
            ..About::default()
        })
    }

    async fn acquire(&self, worker: u32, key: &str, _: Duration) -> Result<Granted, Refusal> {
        let lock = self.lock()?;
        let name = format!("{}{key}", self.prefix);
        let owner = lock.acquire(&name).await.map_err(|e| refusal(&e))?;
        let owner = owner.ok_or_else(|| Refusal::new("held"))?;
        let mut held = self.held.borrow_mut();
        held.insert((worker, key.to_owned()), owner.clone());
        Ok(Granted {
            owner: Some(owner),
            ..Granted::default()
        })
    }

    async fn release(&self, worker: u32, key: &str) -> Result<(), Refusal> {
        let lock = self.lock()?;
        let owner = self.owner(worker, key)?;
        let name = format!("{}{key}", self.prefix);
        let released = if self.blindly {
            lock.release_blindly(&name).await
        } else {
            lock.release(&name, &owner).await
        };
        if !released.map_err(|e| refusal(&e))? {
            return Err(Refusal::new("not-owner"));
        }
        self.held.borrow_mut().remove(&(worker, key.to_owned()));
        Ok(())
    }
}

/// Not a test of its own: with this the executable becomes a client, when a run starts it again.
#[test]
fn client() {
    fencepost::chaos::client(UnderTest::default);
}

fn paused_holder(results: &tempfile::TempDir) -> Chaos {
    Chaos::workload("workloads/paused-holder.toml")
        .client(Client::test("client"))
        .backend(Backend::Local)
        .results(results.path())
        .seed(7)
}

#[tokio::test]
async fn a_paused_holder_deletes_nobody_elses_lock() -> Result<(), ChaosError> {
    let results = tempfile::tempdir().expect("a folder");
    let report = paused_holder(&results).run().await?;
    report.assert_expected();
    assert_eq!(report.check("ownership").map(|c| c.count), Some(0));
    assert!(report.dir().join("report.html").is_file());
    Ok(())
}

#[test]
fn a_blind_release_is_caught() {
    let results = tempfile::tempdir().expect("a folder");
    let chaos = paused_holder(&results).set("lock.options.release=\"del\"");
    let report = chaos.run_blocking().expect("a report");
    assert_eq!(report.outcome(), Outcome::Violated, "{}", report.terminal());
    let ownership = report.check("ownership").expect("it is checked");
    assert!(ownership.count > 0, "{}", report.terminal());
    let sentence = &ownership.findings[0].sentence;
    assert!(sentence.contains("deleted"), "{sentence}");
    let panic = std::panic::catch_unwind(|| {
        report.assert_expected();
    });
    let text = panic.expect_err("the assertion fails");
    let text = text.downcast_ref::<String>().expect("a text");
    assert!(
        text.contains("NOT AS EXPECTED")
            && text.contains(sentence.split(':').next().unwrap_or_default()),
        "{text}"
    );
}

#[test]
fn a_test_that_is_not_there_is_named() {
    let results = tempfile::tempdir().expect("a folder");
    let chaos = paused_holder(&results).client(Client::test("clinet"));
    let error = chaos.run_blocking().expect_err("there is none");
    assert_eq!(error.why(), Why::Missing);
    assert!(
        error.to_string().contains("is there a test `clinet`"),
        "{error}"
    );
}
