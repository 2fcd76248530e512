//! The client protocol end to end: real client processes, a real redis-server.
mod support;
use fencepost::client::{Init, ProcState, Reply, Request};
use serde_json::json;
use std::time::Duration;
use support::{Client, LIMIT, Server, acquire, init, run, until};

fn owner(reply: &Reply) -> String {
    match reply {
        Reply::Granted {
            owner: Some(owner), ..
        } => owner.clone(),
        other => panic!("no owner in {other:?}"),
    }
}

fn validity(reply: &Reply) -> f64 {
    match reply {
        Reply::Granted {
            validity_ms: Some(v),
            ..
        }
        | Reply::Done {
            validity_ms: Some(v),
        } => *v,
        other => panic!("no validity in {other:?}"),
    }
}

fn fail(code: &str) -> (bool, String) {
    (true, code.to_owned())
}

const DONE: Reply = Reply::Done { validity_ms: None };

#[test]
fn locks_with_a_lease_on_one_server() {
    run(async {
        let server = Server::start();
        for lock in ["set-nx-del", "set-nx-get-del", "set-nx-lua"] {
            let c = Client::builtin(lock, init(&[&server], 5000)).await;
            let granted = c.acquire(0, "a").await.expect("free");
            assert!(
                (4000.0..=4948.0).contains(&validity(&granted)),
                "{granted:?}"
            );
            assert_eq!(server.ask("GET fp:a"), owner(&granted));
            assert_eq!(c.acquire(1, "a").await, Err(fail("held")));
            assert!(c.acquire(1, "b").await.is_ok(), "another key is free");
            let extended = c.extend(0, "a", 60_000).await.expect("mine");
            assert!(validity(&extended) > 50_000.0);
            let pttl: i64 = server
                .ask("PTTL fp:a")
                .trim_start_matches(':')
                .parse()
                .expect("a number");
            assert!(pttl > 50_000, "{pttl}");
            assert_eq!(c.release(2, "a").await, Err(fail("not-held")));
            assert_eq!(c.release(0, "a").await, Ok(DONE));
            assert_eq!(server.ask("EXISTS fp:a"), ":0");
            assert_eq!(c.release(0, "a").await, Err(fail("not-held")));
            assert_eq!(c.release(1, "b").await, Ok(DONE));
            let again = c.acquire(1, "a").await.expect("free");
            assert_ne!(owner(&again), owner(&granted), "a fresh value an attempt");
            server.ask("DEL fp:a");
            assert_eq!(c.release(1, "a").await, Err(fail("not-owner")), "{lock}");
            c.process.shutdown(LIMIT).await;
            assert_eq!(c.process.state(), ProcState::Dead);
        }
    });
}

#[test]
fn each_wrong_lock_makes_its_own_mistake() {
    run(async {
        let server = Server::start();
        // A's key is replaced by another's, as after an expiry.
        let mut deleted = Vec::new();
        for lock in ["set-nx-del", "set-nx-get-del", "set-nx-lua"] {
            let c = Client::builtin(lock, init(&[&server], 5000)).await;
            c.acquire(0, "x").await.expect("free");
            server.ask("SET fp:x another");
            let released = c.release(0, "x").await;
            deleted.push((lock, released.is_ok(), server.ask("EXISTS fp:x")));
            server.ask("DEL fp:x");
        }
        assert_eq!(
            deleted,
            [
                ("set-nx-del", true, ":0".into()),
                ("set-nx-get-del", false, ":1".into()),
                ("set-nx-lua", false, ":1".into()),
            ]
        );
        let c = Client::builtin("set-nx-no-ttl", init(&[&server], 5000)).await;
        c.acquire(0, "x").await.expect("free");
        assert_eq!(server.ask("PTTL fp:x"), ":-1");
        assert_eq!(c.extend(0, "x", 1).await, Err(fail("unsupported")));
        assert_eq!(c.release(0, "x").await, Ok(DONE));
    });
}

#[test]
fn controls_ask_no_server() {
    run(async {
        for lock in ["none", "perfect"] {
            let c = Client::builtin(
                lock,
                Init {
                    workers: 2,
                    ..Init::default()
                },
            )
            .await;
            let a = c.acquire(0, "x").await.expect("always");
            let b = c.acquire(1, "x").await.expect("always");
            assert_ne!(owner(&a), owner(&b));
            assert_eq!(c.release(0, "x").await, Ok(DONE));
            assert_eq!(c.release(1, "x").await, Ok(DONE));
        }
    });
}

#[test]
fn tokens_count_grants() {
    run(async {
        let server = Server::start();
        for lock in [
            "set-nx-lua",
            "set-nx-del",
            "set-nx-get-del",
            "set-nx-no-ttl",
        ] {
            server.ask("FLUSHALL");
            let mut init = init(&[&server], 5000);
            init.options.insert("fencing".into(), json!(true));
            let c = Client::builtin(lock, init.clone()).await;
            for n in 1..=3 {
                let granted = c.acquire(0, "x").await.expect("free");
                assert!(
                    matches!(granted, Reply::Granted { token: Some(t), .. } if t == n),
                    "{granted:?}"
                );
                assert_eq!(c.acquire(1, "x").await, Err(fail("held")));
                assert_eq!(c.release(0, "x").await, Ok(DONE));
            }
        }
        // The script is forgotten by the server: sent again as text.
        let c = Client::builtin("set-nx-lua", init(&[&server], 5000)).await;
        c.acquire(0, "y").await.expect("free");
        server.ask("SCRIPT FLUSH");
        assert_eq!(c.release(0, "y").await, Ok(DONE));
        // Redlock has no tokens and says why.
        let c = Client::spawn(&[env!("CARGO_BIN_EXE_fencepost"), "client"]);
        let mut init = init(&[&server], 5000);
        init.options.insert("fencing".into(), json!(true));
        init.lock = Some("redlock".into());
        let refused = c
            .process
            .init(&init, LIMIT)
            .await
            .expect_err("refused")
            .to_string();
        assert!(refused.contains("consensus"), "{refused}");
    });
}

#[test]
fn redlock_on_five_servers_without_two() {
    run(async {
        let mut servers: Vec<Server> = (0..5).map(|_| Server::start()).collect();
        let nodes: Vec<&Server> = servers.iter().collect();
        for connection in ["shared", "worker"] {
            let mut init = init(&nodes, 5000);
            init.options.insert("connection".into(), json!(connection));
            let c = Client::builtin("redlock", init).await;
            let granted = c.acquire(0, "x").await.expect("free");
            assert_eq!(c.acquire(1, "x").await, Err(fail("no-quorum")));
            let holding = nodes
                .iter()
                .filter(|s| s.ask("GET fp:x") == owner(&granted));
            assert_eq!(
                holding.count(),
                5,
                "the loser's clean-up touches nobody else's key"
            );
            assert!(validity(&c.extend(0, "x", 9000).await.expect("mine")) > 8000.0);
            assert_eq!(c.release(0, "x").await, Ok(DONE));
            assert_eq!(c.acquire(1, "x").await.map(|_| ()), Ok(()));
            assert_eq!(c.release(1, "x").await, Ok(DONE));
        }
        let mut init = init(&nodes, 5000);
        init.node_timeout_ms = 200;
        let c = Client::builtin("redlock", init).await;
        servers.truncate(3);
        let granted = c.acquire(0, "x").await.expect("three of five");
        assert!(validity(&granted) > 4000.0);
        assert!(c.extend(0, "x", 5000).await.is_ok());
        assert_eq!(c.release(0, "x").await, Ok(DONE));
        servers.truncate(2);
        // The third is gone for certain, so that nothing is left in doubt but how it went.
        until("refused", || {
            std::net::TcpStream::connect(servers[1].addr).is_ok()
        })
        .await;
        let refused = c.acquire(0, "x").await.expect_err("two of five");
        assert!(refused.1.starts_with("no-quorum"), "{refused:?}");
        for server in &servers {
            assert_eq!(server.ask("EXISTS fp:x"), ":0", "unlocked everywhere");
        }
    });
}

#[test]
fn a_stopped_client_answers_late_and_a_killed_one_never() {
    run(async {
        let server = Server::start();
        let mut c = Client::builtin("set-nx-lua", init(&[&server], 60_000)).await;
        let p = c.process.clone();
        assert_eq!(p.state(), ProcState::Running);
        p.stop().expect("SIGSTOP");
        until("state T", || p.state() == ProcState::Stopped).await;
        let late = p.request(acquire(0, "x"), Duration::from_millis(50)).await;
        let failure = late.result.expect_err("no answer");
        assert_eq!((failure.definite, &*failure.code), (false, "deadline"));
        // A stopped client takes what its pipe and the queue take; then a request is not sent, and nothing blocks.
        let long = "k".repeat(60_000);
        let mut codes = Vec::new();
        for _ in 0..8 {
            let answer = p.request(acquire(1, &long), Duration::from_millis(1)).await;
            codes.push(answer.result.expect_err("no answer"));
        }
        let last = codes.last().expect("eight");
        assert_eq!((last.definite, &*last.code), (true, "client-backlog"));
        p.cont().expect("SIGCONT");
        let mut after = Err((true, "client-backlog".to_owned()));
        while after == Err((true, "client-backlog".into())) {
            tokio::task::yield_now().await;
            after = c.acquire(2, "after").await;
        }
        assert!(after.is_ok(), "the queue is served: {after:?}");
        until("the late acquire took effect", || {
            server.ask("EXISTS fp:x") == ":1"
        })
        .await;
        assert_eq!(
            c.release(0, "x").await,
            Ok(DONE),
            "the doubtful one can be cleaned up"
        );
        let work = p.request(
            Request::Work {
                worker: 0,
                ms: 60_000,
            },
            LIMIT,
        );
        let kill = async {
            p.kill().expect("SIGKILL");
            p.ended().await;
        };
        let (answer, ()) = futures_util::future::join(work, kill).await;
        assert_eq!(answer.result.expect_err("killed").code, "client-died");
        assert!(c.died().await.contains("SIGKILL"));
        assert!(!p.alive());
        let gone = p
            .request(acquire(0, "x"), LIMIT)
            .await
            .result
            .expect_err("gone");
        assert_eq!((gone.definite, &*gone.code), (true, "client-gone"));
        assert!(p.kill().is_err(), "its number may be another's");
        assert!(
            c.notices.try_recv().is_err(),
            "late answers are no misbehaviour"
        );
    });
}

#[test]
fn a_stopped_client_can_be_shut_down() {
    run(async {
        let c = Client::builtin("none", Init::default()).await;
        c.process.stop().expect("SIGSTOP");
        until("state T", || c.process.state() == ProcState::Stopped).await;
        c.process.shutdown(LIMIT).await;
        assert_eq!(c.process.state(), ProcState::Dead);
    });
}

#[test]
fn workers_are_served_at_once_and_extend_comes_during_work() {
    run(async {
        let server = Server::start();
        let c = Client::builtin("set-nx-lua", init(&[&server], 5000)).await;
        c.acquire(0, "x").await.expect("free");
        let work = c.ask(Request::Work { worker: 0, ms: 300 });
        let others = async {
            let start = c.clock.now();
            c.extend(0, "x", 5000).await.expect("mine");
            c.acquire(1, "y").await.expect("free");
            assert_eq!(
                c.ask(Request::Held {
                    worker: 0,
                    key: "x".into()
                })
                .await,
                Ok(Reply::Held(true))
            );
            assert_eq!(
                c.ask(Request::Held {
                    worker: 1,
                    key: "x".into()
                })
                .await,
                Ok(Reply::Held(false))
            );
            assert_eq!(c.ask(Request::Tick { n: 7 }).await, Ok(DONE));
            c.clock.now() - start
        };
        let start = c.clock.now();
        let (work, took) = futures_util::future::join(work, others).await;
        assert_eq!(work, Ok(DONE));
        let whole = c.clock.now() - start;
        assert!(whole >= 300_000_000 && took < whole, "{took} {whole}");
    });
}

#[test]
fn a_server_that_is_gone_or_stopped() {
    run(async {
        let server = Server::start();
        let mut init = init(&[&server], 5000);
        init.node_timeout_ms = 150;
        let c = Client::builtin("set-nx-lua", init).await;
        c.acquire(0, "x").await.expect("free");
        let pid = nix::unistd::Pid::from_raw(server.pid());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGSTOP).expect("SIGSTOP");
        assert_eq!(c.acquire(1, "y").await, Err((false, "timeout".into())));
        assert_eq!(c.release(0, "x").await, Err((false, "timeout".into())));
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGCONT).expect("SIGCONT");
        until("the late commands ran", || {
            server.ask("EXISTS fp:y") == ":1" && server.ask("EXISTS fp:x") == ":0"
        })
        .await;
        // Late answers were dropped: the next ones still belong to their commands.
        assert_eq!(c.acquire(2, "y").await, Err(fail("held")));
        assert_eq!(
            c.release(1, "y").await,
            Ok(DONE),
            "the doubtful value was kept for the clean-up"
        );
        c.acquire(0, "z").await.expect("free");
        let addr = server.addr;
        drop(server);
        until("refused", || std::net::TcpStream::connect(addr).is_err()).await;
        assert_eq!(
            c.release(0, "z").await,
            Err((false, "connection-refused".into()))
        );
        assert_eq!(c.acquire(0, "z").await, Err(fail("connection-refused")));
    });
}
