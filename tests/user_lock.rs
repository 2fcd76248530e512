//! A test executable as a client: this one, started again, serves the lock below.
//!
//! What a lock of one's own does under faults is shown by `examples/user_lock`.
mod support;
use async_trait::async_trait;
use fencepost::client::serve::{Granted, Info, Refusal, UserLock};
use fencepost::client::{About, Init, Notice, Reply};
use serde_json::json;
use std::cell::RefCell;
use std::time::Duration;
use support::{Client, LIMIT, run};

/// A lock in the memory of one process; its keys tell what else it should do.
#[derive(Default)]
struct MyLock {
    holder: RefCell<Option<u32>>,
    info: Option<Info>,
}

#[async_trait(?Send)]
impl UserLock for MyLock {
    async fn init(&mut self, info: Info) -> Result<About, Refusal> {
        if info.init.options.contains_key("bad") {
            return Err(Refusal::new("unsupported").because("no `bad` here"));
        }
        self.info = Some(info);
        Ok(About {
            library: "my-lock".into(),
            version: "0.1".into(),
            promises_notice: true,
            ..About::default()
        })
    }

    async fn acquire(&self, worker: u32, key: &str, _: Duration) -> Result<Granted, Refusal> {
        match key {
            "hang" => std::future::pending().await,
            "panic" => panic!("as asked"),
            "own" => return Err(Refusal::new("my-own-code")),
            _ => {}
        }
        if self.holder.borrow().is_some() {
            return Err(Refusal::new("held"));
        }
        self.holder.replace(Some(worker));
        if key == "lose"
            && let Some(info) = &self.info
        {
            info.notifier.lost(worker, key);
        }
        let validity = Some(Duration::from_micros(1500));
        Ok(Granted {
            owner: None,
            validity,
            token: Some(7),
        })
    }

    async fn release(&self, worker: u32, _: &str) -> Result<(), Refusal> {
        if *self.holder.borrow() != Some(worker) {
            return Err(Refusal::new("not-owner"));
        }
        self.holder.replace(None);
        Ok(())
    }
}

/// Not a test of its own: with this the executable becomes the client of the tests below.
#[test]
fn client() {
    fencepost::chaos::client(MyLock::default);
}

fn started() -> Client {
    let client = fencepost::chaos::Client::test("client");
    let argv: Vec<&str> = client
        .argv()
        .expect("a command")
        .iter()
        .map(String::as_str)
        .collect();
    Client::spawn(&argv)
}

#[test]
fn a_lock_of_ones_own_is_served() {
    run(serves());
}

#[test]
fn init_may_be_refused_and_asked_again() {
    run(refuses_init());
}

#[test]
fn the_test_runners_own_words_stay_out_of_the_answers() {
    run(async {
        let mut c = started();
        let about = c.process.init(&Init::default(), LIMIT).await;
        assert!(about.is_ok(), "{about:?}");
        c.process.shutdown(LIMIT).await;
        let first = c.find(|n| match n {
            Notice::Died { status, .. } => Some(status),
            Notice::Misbehaved { what, .. } => Some(what),
            Notice::Lost { .. } => None,
        });
        assert!(first.await.contains("exit status: 0"), "nothing else came");
        let log = std::fs::read_to_string(c.log()).expect("its log");
        assert!(log.contains("running 1 test"), "they are kept: {log}");
    });
}

async fn serves() {
    let mut c = started();
    let not_yet = c.acquire(0, "k").await;
    assert_eq!(not_yet, Err((true, "not-initialised".into())));
    let about = c
        .process
        .init(&Init::default(), LIMIT)
        .await
        .expect("a handshake");
    assert_eq!((&*about.library, about.promises_notice), ("my-lock", true));
    let granted = Reply::Granted {
        owner: None,
        validity_ms: Some(1.5),
        token: Some(7),
    };
    assert_eq!(c.acquire(0, "k").await, Ok(granted.clone()));
    assert_eq!(c.acquire(1, "k").await, Err((true, "held".into())));
    assert_eq!(c.release(1, "k").await, Err((true, "not-owner".into())));
    assert_eq!(c.extend(0, "k", 5).await, Err((true, "unsupported".into())));
    assert_eq!(
        c.release(0, "k").await,
        Ok(Reply::Done { validity_ms: None })
    );
    assert_eq!(
        c.acquire(0, "panic").await,
        Err((false, "crash".into())),
        "and it lives on"
    );
    assert_eq!(
        c.acquire(0, "own").await,
        Err((false, "my-own-code".into()))
    );
    let hang = fencepost::client::Request::Acquire {
        worker: 0,
        key: "hang".into(),
        wait_ms: 0,
        timeout_ms: 20,
    };
    assert_eq!(
        c.ask(hang).await,
        Err((false, "timeout".into())),
        "its own limit"
    );
    assert_eq!(c.acquire(2, "lose").await, Ok(granted));
    let lost = c
        .find(|n| match n {
            Notice::Lost { worker, key, .. } => Some((worker, key)),
            _ => None,
        })
        .await;
    assert_eq!(lost, (2, "lose".into()));
    let again = c
        .process
        .init(&Init::default(), LIMIT)
        .await
        .expect_err("once");
    assert!(again.to_string().contains("comes once"), "{again}");
    c.process.shutdown(LIMIT).await;
    assert!(c.died().await.contains("exit status: 0"));
}

async fn refuses_init() {
    let c = started();
    let mut init = Init::default();
    init.options.insert("bad".into(), json!(1));
    let refused = c
        .process
        .init(&init, LIMIT)
        .await
        .expect_err("refused")
        .to_string();
    assert_eq!(
        refused,
        "client c1 refused `init`: unsupported: no `bad` here"
    );
    assert!(
        c.process.init(&Init::default(), LIMIT).await.is_ok(),
        "it may be asked again"
    );
}
