//! No adapter hangs or crashes the harness: each breaks the protocol in one way, and what it did is told.
mod support;
use fencepost::client::{ClientError, Init, Notice, ProcState, Reply, Request};
use std::time::{Duration, Instant};
use support::{Client, LIMIT, acquire, root, run, until};

fn hostile(mode: &str) -> Client {
    let path = root().join("tests/hostile/adapter.py");
    Client::spawn(&["python3", path.to_str().expect("UTF-8"), mode])
}

async fn ready(mode: &str) -> Client {
    let client = hostile(mode);
    let about = client
        .process
        .init(&Init::default(), LIMIT)
        .await
        .expect("a handshake");
    assert_eq!(about.library, "hostile");
    client
}

async fn code(client: &Client) -> (bool, String) {
    client.acquire(0, "k").await.expect_err("not ok")
}

fn doubt(code: &str) -> (bool, String) {
    (false, code.to_owned())
}

#[test]
fn handshakes_that_fail() {
    run(async {
        let init = async |mode: &str, deadline| {
            let mut client = hostile(mode);
            let error = client
                .process
                .init(&Init::default(), deadline)
                .await
                .expect_err(mode);
            client.process.shutdown(Duration::ZERO).await;
            assert_eq!(client.process.state(), ProcState::Dead);
            client.died().await;
            error
        };
        let refused = init("refuse", LIMIT).await;
        assert_eq!(
            refused.to_string(),
            r"client c1 refused `init`: unsupported: no\nservers\u{7}"
        );
        let silent = init("no-handshake", Duration::from_millis(100))
            .await
            .to_string();
        assert!(
            silent.contains("deadline") && silent.contains("c1.log"),
            "{silent}"
        );
        assert!(
            init("bad-handshake", LIMIT)
                .await
                .to_string()
                .contains("bad-answer")
        );
        assert!(
            init("die-early", LIMIT)
                .await
                .to_string()
                .contains("client-died")
        );
    });
}

#[test]
fn programs_that_do_not_start() {
    let dir = tempfile::tempdir().expect("a folder");
    let spawn = |argv: Vec<String>, log: &str| {
        let spec = fencepost::client::ClientSpec {
            name: "c1".into(),
            argv,
            env: Vec::new(),
            variables: Vec::new(),
            log: dir.path().join(log),
            dir: root(),
        };
        let (sender, _) = tokio::sync::mpsc::unbounded_channel();
        let clock = fencepost::record::Clock::start();
        fencepost::client::ClientProcess::spawn(spec, clock, support::reaper(), sender)
            .expect_err("no start")
    };
    run(async {
        assert!(matches!(spawn(vec![], "log"), ClientError::NoCommand(_)));
        let missing = spawn(vec!["/no/such/program".into()], "log");
        assert!(matches!(missing, ClientError::Start { .. }), "{missing}");
        let no_log = spawn(vec!["true".into()], "no/such/log");
        assert!(matches!(no_log, ClientError::Log { .. }), "{no_log}");
    });
}

#[test]
fn bad_lines_beside_a_good_answer() {
    run(async {
        let mut c = ready("not-json").await;
        assert!(c.acquire(0, "k").await.is_ok());
        let what = c.misbehaves("Connected to server").await;
        assert!(
            !what.contains('\x1b'),
            "control characters are escaped: {what}"
        );
        c.misbehaves("[1,2,3]").await;
        c.misbehaves("one").await;

        let mut c = ready("wrong-id").await;
        assert!(c.acquire(0, "k").await.is_ok());
        c.misbehaves("answered request 1002, which is not open")
            .await;
        c.misbehaves("answered request 2, which is not open").await;

        let mut c = ready("long-line").await;
        assert!(c.acquire(0, "k").await.is_ok());
        c.misbehaves("longer than 1 MiB").await;

        let mut c = ready("lost").await;
        assert!(c.acquire(3, "k").await.is_ok());
        let lost = c
            .find(|n| match n {
                Notice::Lost { worker, key, .. } => Some((worker, key)),
                _ => None,
            })
            .await;
        assert_eq!(lost, (3, "k".to_owned()));
        c.misbehaves("`lost` without worker or key").await;
    });
}

#[test]
fn bad_answers_leave_the_operation_in_doubt() {
    run(async {
        for mode in ["wrong-shape", "wrong-type", "deep", "huge-number"] {
            let mut c = ready(mode).await;
            assert_eq!(code(&c).await, doubt("bad-answer"), "{mode}");
            c.misbehaves("sent a bad answer").await;
        }
        let mut c = ready("false-fail").await;
        assert_eq!(code(&c).await, doubt("timeout"));
        c.misbehaves("not definite here").await;
        let mut c = ready("own-code").await;
        let (definite, code) = code(&c).await;
        assert!(
            !definite && code.starts_with("x?yx?y") && code.len() == 48,
            "{code}"
        );
        c.misbehaves("not definite here").await;
    });
}

#[test]
fn slow_and_silent() {
    run(async {
        let mut c = ready("slow").await;
        let answer = c
            .process
            .request(acquire(0, "k"), Duration::from_millis(20))
            .await;
        assert_eq!(answer.result.expect_err("late").code, "deadline");
        assert!(
            c.acquire(0, "k").await.is_ok(),
            "its own answer, not the late one"
        );
        assert!(c.notices.try_recv().is_err(), "late is no misbehaviour");

        let c = ready("silent").await;
        let start = Instant::now();
        let answer = c
            .process
            .request(acquire(0, "k"), Duration::from_millis(20))
            .await;
        assert_eq!(answer.result.expect_err("silent").code, "deadline");
        assert!(start.elapsed() < LIMIT);
        assert!(
            c.ask(Request::Tick { n: 1 }).await.is_ok(),
            "it still serves"
        );
    });
}

#[test]
fn dying() {
    run(async {
        let mut c = ready("die").await;
        assert_eq!(code(&c).await, doubt("client-died"));
        assert!(c.died().await.contains("exit status: 3"));
        let mut c = ready("half-a-line").await;
        assert_eq!(code(&c).await, doubt("client-died"));
        c.died().await;
        let mut c = ready("last-words").await;
        let answer = c.acquire(0, "k").await;
        assert!(
            answer.is_ok(),
            "what a dead client left in its pipe is read: {answer:?}"
        );
        assert!(c.died().await.contains("SIGKILL"));
        until("no zombie", || c.process.state() == ProcState::Dead).await;
    });
}

#[test]
fn babbling_is_bounded_and_ends_in_a_kill() {
    run(async {
        for mode in ["babble", "babble-lines"] {
            let before = resident_kib();
            let mut c = ready(mode).await;
            assert_eq!(code(&c).await, doubt("client-died"));
            c.misbehaves("babbled 16 MiB").await;
            let died = c.died().await;
            assert!(
                died.contains("killed by the harness for its babble"),
                "{died}"
            );
            assert!(died.contains("SIGKILL"), "{died}");
            let grown = resident_kib().saturating_sub(before);
            assert!(grown < 16 << 10, "{mode}: {grown} KiB more memory");
        }
    });
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc");
    let line = status
        .lines()
        .find(|l| l.starts_with("VmRSS:"))
        .expect("VmRSS");
    line.split_whitespace()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .expect("a number")
}

#[test]
fn a_flooded_standard_error_is_read_and_cut() {
    run(async {
        let mut c = ready("stderr").await;
        assert!(c.acquire(0, "k").await.is_ok(), "10 MB did not hold it up");
        c.misbehaves("more than 4 MiB").await;
        let kept = std::fs::read(c.log()).expect("the log");
        assert!(kept.len() < (4 << 20) + 200 && kept.ends_with(b"are kept]\n"));
    });
}

#[test]
fn closed_pipes() {
    run(async {
        let mut c = ready("close-stdout").await;
        assert_eq!(code(&c).await, doubt("client-died"));
        c.misbehaves("closed its standard output").await;
        assert!(!c.process.alive());
        assert_eq!(code(&c).await, (true, "client-gone".into()));
        c.process.shutdown(LIMIT).await;
        assert_eq!(c.process.state(), ProcState::Dead);

        let mut c = ready("close-stdin").await;
        assert!(c.acquire(0, "k").await.is_ok());
        // Written into a pipe that nobody reads: gone for certain, but not known to be.
        let short = Duration::from_millis(20);
        let next = c.process.request(acquire(0, "k"), short).await;
        assert_eq!(next.result.expect_err("unread").code, "deadline");
        c.misbehaves("closed its standard input").await;
        assert_eq!(code(&c).await, (true, "client-gone".into()));
    });
}

#[test]
fn never_reading_blocks_nobody() {
    run(async {
        let c = hostile("deaf");
        c.process
            .init(&Init::default(), LIMIT)
            .await
            .expect("a handshake");
        let long = "k".repeat(50_000);
        let start = Instant::now();
        let mut last = None;
        for _ in 0..12 {
            let request = acquire(0, &long);
            last = c
                .process
                .request(request, Duration::from_millis(1))
                .await
                .result
                .err();
        }
        assert_eq!(last.expect("no answer").code, "client-backlog");
        assert!(start.elapsed() < Duration::from_secs(2), "nothing blocked");
        c.process.shutdown(Duration::from_millis(50)).await;
        assert_eq!(c.process.state(), ProcState::Dead);
    });
}

#[test]
fn lines_that_answer_nothing_are_told_once_there_are_many() {
    run(async {
        for mode in ["blank-lines", "lost-flood"] {
            let mut c = ready(mode).await;
            c.acquire(0, "k").await.expect("granted all the same");
            c.misbehaves("sent 1000 lines in a row that answer nothing")
                .await;
        }
    });
}

#[test]
fn forks_die_with_their_group() {
    run(async {
        let mut c = ready("fork").await;
        let granted = c.acquire(0, "k").await.expect("granted");
        let Reply::Granted {
            token: Some(pid), ..
        } = granted
        else {
            panic!("no pid: {granted:?}");
        };
        c.misbehaves("left a process of its own behind").await;
        c.died().await;
        until("the grandchild is gone", || {
            let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            state.is_empty() || state.contains(") Z")
        })
        .await;
    });
}

#[test]
fn the_environment_is_cleared() {
    run(async {
        let c = ready("environment").await;
        let granted = c.acquire(0, "k").await.expect("granted");
        let Reply::Granted {
            owner: Some(names), ..
        } = granted
        else {
            panic!("{granted:?}");
        };
        // cargo sets plenty of these for a test; a wrapper around python3 may add its own.
        assert!(
            names.contains("PATH") && !names.contains("CARGO"),
            "{names}"
        );
    });
}

#[test]
fn shutdown_does_not_wait_for_ever() {
    run(async {
        let c = ready("ignore-term").await;
        assert!(c.acquire(0, "k").await.is_ok());
        let start = Instant::now();
        c.process.shutdown(Duration::from_millis(100)).await;
        assert!(start.elapsed() < Duration::from_secs(5));
        assert_eq!(c.process.state(), ProcState::Dead);
        let pid = c.process.pid();
        drop(c);
        assert!(
            !std::path::Path::new(&format!("/proc/{pid}")).exists(),
            "reaped, no zombie"
        );
    });
}
