//! The observer against real servers: what it says, and that its times are sound.
//!
//! Needs `redis-server` on the PATH. Each test has servers of its own, in process groups of their own.
#![allow(clippy::unwrap_used, missing_docs)]

mod support;

use fencepost::observe::Observer;
use fencepost::record::Clock;
use nix::sys::signal::Signal;
use std::cell::Cell;
use std::net::TcpListener;
use std::rc::Rc;
use std::time::Duration;
use support::{Bench, EVENTS, Kept, PATIENCE, Ports, Server, assert_sound, local};

#[test]
fn each_kind_of_event_comes_with_a_sound_interval() {
    local(async {
        let b = Bench::start(vec![Server::start(&EVENTS).await]).await;
        let mut c = b.servers[0].connect().await;
        let (event, set) = b.set_and_read(&mut c, "SET fp:a v1 PX 60000", "a").await;
        assert_sound(&event, set);
        assert_eq!(
            (event.node.as_str(), event.owner.as_deref()),
            ("n1", Some("v1"))
        );
        assert!((1..=60_000).contains(&event.pttl.unwrap()), "{event:?}");
        assert_eq!(b.observer.owner(0, "a").as_deref(), Some("v1"));

        let expire = b.run(&mut c, "PEXPIRE fp:a 90000").await;
        let event = b.first("expire", "a").await;
        assert_sound(&event, expire);
        assert!(event.pttl.is_none_or(|ms| ms > 60_000), "{event:?}");

        b.pinged().await;
        let del = b.run(&mut c, "DEL fp:a").await;
        let event = b.first("del", "a").await;
        assert_sound(&event, del);
        assert!(
            event.not_before > set.0,
            "pings must move not_before on: {event:?}"
        );
        assert_eq!(b.observer.owner(0, "a"), None);

        let (before, _) = b.run(&mut c, "SET fp:b v PX 30").await;
        let event = b.first("expired", "b").await;
        assert!(event.time >= before + 30_000_000, "{event:?}");

        b.run(&mut c, "SET fp:c v").await;
        b.run(&mut c, "CONFIG SET maxmemory-policy allkeys-random")
            .await;
        let evict = b.run(&mut c, "CONFIG SET maxmemory 1").await;
        let event = b.first("evicted", "c").await;
        assert!(event.time >= evict.0, "{event:?}");
        b.observer.stop().await;
    });
}

#[test]
fn the_px_of_a_set_is_not_told_twice_and_other_keys_are_not_told() {
    local(async {
        let b = Bench::start(vec![Server::start(&EVENTS).await]).await;
        let mut c = b.servers[0].connect().await;
        b.run(&mut c, "SET other v PX 60000").await;
        b.run(&mut c, "SET fp:a v PX 60000").await;
        b.run(&mut c, "INCR fp:a:count").await;
        b.run(&mut c, "DEL other").await;
        b.run(&mut c, "DEL fp:a").await;
        b.first("del", "a").await;
        let events = b.seen.events.borrow();
        let names: Vec<_> = events
            .iter()
            .map(|e| (e.f.as_str(), e.key.as_deref()))
            .collect();
        assert_eq!(names, [("set", Some("a")), ("del", Some("a"))]);
    });
}

#[test]
fn an_owner_in_an_event_is_never_another_sets() {
    local(async {
        let b = Bench::start(vec![Server::start(&EVENTS).await]).await;
        let mut c = b.servers[0].connect().await;
        let mut sent = Vec::new();
        for round in 0..40 {
            let mut pipe = redis::pipe();
            for i in 0..10 {
                sent.push(format!("{round}-{i}"));
                pipe.cmd("SET").arg("fp:a").arg(sent.last());
                if i % 3 == 0 {
                    pipe.cmd("DEL").arg("fp:a");
                }
            }
            pipe.query_async::<redis::Value>(&mut c).await.unwrap();
        }
        // Alone, a set is read in time, unless the machine stands still just then.
        loop {
            sent.push(format!("alone-{}", sent.len()));
            b.run(&mut c, &format!("SET fp:a {}", sent[sent.len() - 1]))
                .await;
            b.run(&mut c, "GET fp:a").await;
            b.until("all", |_| b.sets("a") == sent.len()).await;
            if b.seen
                .events
                .borrow()
                .iter()
                .any(|e| e.f == "set" && e.owner.is_some())
            {
                break;
            }
        }
        let events = b.seen.events.borrow();
        let sets: Vec<_> = events
            .iter()
            .filter(|e| e.f == "set" && e.key.as_deref() == Some("a"))
            .collect();
        assert_eq!(sets.len(), sent.len());
        for (event, value) in sets.iter().zip(&sent) {
            assert!(
                event.owner.as_ref().is_none_or(|owner| owner == value),
                "{event:?} but {value}"
            );
        }
        assert!(sets.iter().any(|e| e.owner.is_some()));
    });
}

#[test]
fn a_restart_is_told_with_what_is_there_afterwards() {
    local(async {
        let kept = Server::start(&[
            "--notify-keyspace-events",
            "AKE",
            "--appendonly",
            "yes",
            "--appendfsync",
            "always",
        ]);
        let mut b = Bench::start(vec![kept.await, Server::start(&EVENTS).await]).await;
        for (n, owner) in [(0, Some("v")), (1, None)] {
            let node = b.servers[n].port;
            let mut c = b.servers[n].connect().await;
            b.run(&mut c, "SET fp:a v").await;
            let name = format!("n{}", n + 1);
            b.until("set", |e| e.f == "set" && e.node == name).await;
            let before = b.clock.now();
            b.servers[n].kill();
            let killed = b.clock.now();
            b.until("down", |e| e.f == "down" && e.node == name).await;
            assert_eq!(
                b.observer.ping(n, PATIENCE).await,
                None,
                "a node that is down is no reason to wait"
            );
            b.servers[n].start_again().await;
            let events = b.until("up", |e| e.f == "up" && e.node == name).await;
            let tail: Vec<_> = events
                .iter()
                .skip_while(|e| e.node != name || e.f != "down")
                .collect();
            let names: Vec<_> = tail.iter().map(|e| e.f.as_str()).collect();
            let found = if owner.is_some() { "value" } else { "absent" };
            assert_eq!(names, ["down", "restarted", found, "up"], "node {node}");
            assert!(tail[1].not_before <= killed && tail[1].time >= killed);
            assert_eq!(
                (tail[2].key.as_deref(), tail[2].owner.as_deref()),
                (Some("a"), owner)
            );
            assert!(tail[2].not_before >= before);
            assert_eq!(b.observer.owner(n, "a").as_deref(), owner);
        }
    });
}

#[test]
fn a_connection_cut_without_a_restart_is_told_as_such() {
    local(async {
        let b = Bench::start(vec![Server::start(&EVENTS).await]).await;
        let mut c = b.servers[0].connect().await;
        b.run(&mut c, "SET fp:a v").await;
        b.first("set", "a").await;
        b.run(&mut c, "CLIENT KILL TYPE pubsub").await;
        let events = b.until("up", |e| e.f == "up").await;
        let names: Vec<_> = events.iter().map(|e| e.f.as_str()).collect();
        assert_eq!(names, ["set", "down", "value", "up"]);
    });
}

#[test]
fn a_stopped_server_loses_no_event_and_blocks_nobody() {
    local(async {
        let b = Bench::start(vec![
            Server::start(&EVENTS).await,
            Server::start(&EVENTS).await,
        ])
        .await;
        let mut c = b.servers[0].connect().await;
        b.run(&mut c, "SET fp:a v").await;
        b.servers[0].stop().await;
        let stopped = b.clock.now();
        let deadline = Duration::from_millis(30);
        let mut pipe = redis::pipe();
        for i in 0..50 {
            pipe.cmd("SET").arg(format!("fp:late{i}")).arg(i);
        }
        let late =
            tokio::task::spawn_local(async move { pipe.query_async::<redis::Value>(&mut c).await });
        // Longer than the time after which the observer suspects that the server is gone.
        let pause = Duration::from_millis(1500);
        let until = std::time::Instant::now() + pause;
        while std::time::Instant::now() < until {
            assert_eq!(b.observer.ping(0, deadline).await, None);
            assert_eq!(b.observer.get(0, "a", deadline).await, None);
            assert!(
                b.observer.ping(1, PATIENCE).await.is_some(),
                "the other node is not concerned"
            );
        }
        let going_on = b.clock.now();
        b.servers[0].signal(Signal::SIGCONT);
        late.await.unwrap().unwrap();
        for i in 0..50 {
            let event = b.first("set", &format!("late{i}")).await;
            assert!(
                event.not_before <= b.clock.now() && event.time >= going_on,
                "{event:?}"
            );
            assert!(
                event.not_before + 1_000_000_000 > stopped,
                "{event:?} is older than the pause"
            );
        }
        assert!(b.observer.ping(0, PATIENCE).await.is_some());
        assert!(
            b.seen.events.borrow().iter().all(|e| e.f == "set"),
            "{:?}",
            b.seen.events.borrow()
        );
    });
}

#[test]
fn a_server_that_vanished_without_a_word_is_found_out() {
    local(async {
        let b = Bench::start(vec![Server::start(&EVENTS).await]).await;
        let other = Server::start(&EVENTS).await;
        b.servers[0].stop().await;
        b.ports.0[0].set(other.port);
        let events = b.until("up", |e| e.f == "up").await;
        let names: Vec<_> = events.iter().map(|e| e.f.as_str()).collect();
        assert_eq!(names, ["down", "restarted", "up"]);
    });
}

#[test]
fn a_flush_is_told_and_what_is_gone_with_it() {
    local(async {
        let b = Bench::start(vec![Server::start(&EVENTS).await]).await;
        let mut c = b.servers[0].connect().await;
        b.run(&mut c, "SET fp:a v").await;
        b.run(&mut c, "SET fp:b v").await;
        b.run(&mut c, "DEL fp:b").await;
        b.pinged().await;
        let flush = b.run(&mut c, "FLUSHALL").await;
        let absent = b.first("absent", "a").await;
        assert!(
            absent.not_before >= flush.0.saturating_sub(1_000_000_000) && absent.time >= flush.0
        );
        let events = b.seen.events.borrow();
        let flushed = events.iter().find(|e| e.f == "flushed").unwrap();
        assert_sound(flushed, flush);
        assert!(
            events
                .iter()
                .all(|e| e.f != "absent" || e.key.as_deref() != Some("b")),
            "b was gone before"
        );
    });
}

#[test]
fn final_reads_name_each_key_and_each_node_that_is_silent() {
    local(async {
        let first = Server::start(&EVENTS).await;
        let mut c = first.connect().await;
        redis::cmd("SET")
            .arg("fp:old")
            .arg("v0")
            .query_async::<redis::Value>(&mut c)
            .await
            .unwrap();
        let b = Bench::start(vec![first, Server::start(&EVENTS).await]).await;
        // What was there before is read at the start.
        assert_eq!(b.first("value", "old").await.owner.as_deref(), Some("v0"));
        b.run(&mut c, "SET fp:a v PX 60000").await;
        b.run(&mut c, "SET fp:b v").await;
        b.run(&mut c, "DEL fp:b").await;
        b.first("del", "b").await;
        assert_eq!(
            b.observer.get(0, "old", PATIENCE).await,
            Some((Some("v0".into()), -1))
        );
        assert_eq!(b.observer.get(0, "none", PATIENCE).await, Some((None, -2)));
        b.servers[1].stop().await;
        let before = b.seen.events.borrow().len();
        b.observer.sample().await;
        let events = b.seen.events.borrow()[before..].to_vec();
        let names: Vec<_> = events
            .iter()
            .map(|e| (e.node.as_str(), e.f.as_str(), e.key.as_deref()))
            .collect();
        let n1 = [
            ("n1", "value", Some("a")),
            ("n1", "absent", Some("b")),
            ("n1", "value", Some("old")),
        ];
        assert_eq!(names, [n1[0], n1[1], n1[2], ("n2", "down", None)]);
        assert!(events[3].proof.is_some());
        b.observer.stop().await;
    });
}

#[test]
fn a_server_without_the_needed_flags_gets_them() {
    local(async {
        let b = Bench::start(vec![Server::start(&[]).await]).await;
        let mut c = b.servers[0].connect().await;
        b.run(&mut c, "SET fp:a v").await;
        b.first("set", "a").await;
    });
}

#[test]
fn a_node_that_is_not_there_is_an_error_that_names_it() {
    local(async {
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let ports = Rc::new(Ports(vec![Cell::new(port)]));
        let error = Observer::start(
            ports,
            "fp:".into(),
            Clock::start(),
            Rc::new(Kept::default()),
        )
        .await
        .err()
        .unwrap();
        assert_eq!(error.to_string(), "cannot observe node n1");
        assert!(
            std::error::Error::source(&error)
                .unwrap()
                .to_string()
                .contains("refused")
        );
    });
}
