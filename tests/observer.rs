//! The observer against real servers: what it says, and that its times are sound.
//!
//! Needs `redis-server` on the PATH. Each test has servers of its own, in process groups of their own.
#![allow(clippy::unwrap_used, missing_docs)]

use fencepost::observe::{Nodes, Observer};
use fencepost::record::{Clock, Sink};
use fencepost_checker::Event;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use redis::aio::MultiplexedConnection;
use std::cell::{Cell, RefCell};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;

/// Nothing here takes nearly as long on a machine that is merely busy.
const PATIENCE: Duration = Duration::from_secs(20);

struct Server {
    child: Child,
    port: u16,
    dir: tempfile::TempDir,
    flags: Vec<&'static str>,
}

impl Server {
    async fn start(flags: &[&'static str]) -> Self {
        let mut dir = tempfile::tempdir().unwrap();
        loop {
            let port = TcpListener::bind("127.0.0.1:0")
                .unwrap()
                .local_addr()
                .unwrap()
                .port();
            let mut server = Self {
                child: spawn(port, &dir, flags),
                port,
                dir,
                flags: flags.to_vec(),
            };
            if server.ready().await {
                return server;
            }
            // Somebody else took the port between the two lines above.
            dir = tempfile::tempdir().unwrap();
        }
    }

    async fn ready(&mut self) -> bool {
        loop {
            if let Ok(mut c) = self.try_connect().await
                && redis::cmd("CONFIG")
                    .arg(&["GET", "dir"])
                    .query_async::<Vec<String>>(&mut c)
                    .await
                    .is_ok_and(|v| {
                        v.get(1).is_some_and(|dir| {
                            std::path::Path::new(dir) == self.dir.path().canonicalize().unwrap()
                        })
                    })
            {
                return true;
            }
            if self.child.try_wait().unwrap().is_some() {
                return false;
            }
            tokio::task::yield_now().await;
        }
    }

    async fn try_connect(&self) -> redis::RedisResult<MultiplexedConnection> {
        let url = format!("redis://127.0.0.1:{}/", self.port);
        // Servers are stopped here for longer than the crate's own deadline.
        let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
        let client = redis::Client::open(url)?;
        client
            .get_multiplexed_async_connection_with_config(&config)
            .await
    }

    async fn connect(&self) -> MultiplexedConnection {
        self.try_connect().await.unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    /// SIGSTOP, and the kernel's word that it took effect.
    async fn stop(&self) {
        self.signal(Signal::SIGSTOP);
        loop {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
            if stat
                .rsplit(')')
                .next()
                .unwrap()
                .trim_start()
                .starts_with('T')
            {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        self.child.wait().unwrap();
    }

    async fn start_again(&mut self) {
        self.child = spawn(self.port, &self.dir, &self.flags);
        assert!(self.ready().await);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.kill();
        }
    }
}

fn spawn(port: u16, dir: &tempfile::TempDir, flags: &[&str]) -> Child {
    Command::new("redis-server")
        .args([
            "--port",
            &port.to_string(),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--dir",
        ])
        .arg(dir.path())
        .args(flags)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap()
}

struct Ports(Vec<Cell<u16>>);

impl Nodes for Ports {
    fn count(&self) -> usize {
        self.0.len()
    }
    fn name(&self, node: usize) -> String {
        format!("n{}", node + 1)
    }
    fn direct(&self, node: usize) -> SocketAddr {
        ([127, 0, 0, 1], self.0[node].get()).into()
    }
}

/// An event, owned.
#[derive(Debug, Clone)]
struct Seen {
    f: String,
    key: Option<String>,
    node: String,
    owner: Option<String>,
    pttl: Option<i64>,
    not_before: u64,
    time: u64,
    proof: Option<String>,
}

#[derive(Default)]
struct Kept {
    events: RefCell<Vec<Seen>>,
    more: Notify,
}

impl Sink for Kept {
    fn emit(&self, e: Event<'_>) {
        let last = self.events.borrow().last().map_or(0, |last| last.time);
        assert!(e.time >= last, "the history must be in order of time");
        self.events.borrow_mut().push(Seen {
            f: e.f.into_owned(),
            key: e.key.map(Into::into),
            node: e.value.node.map(Into::into).unwrap(),
            owner: e.value.owner.map(Into::into),
            pttl: e.value.pttl_ms,
            not_before: e.value.not_before.unwrap(),
            time: e.time,
            proof: e.value.proof.map(Into::into),
        });
        self.more.notify_one();
    }
}

struct Bench {
    servers: Vec<Server>,
    ports: Rc<Ports>,
    seen: Rc<Kept>,
    clock: Clock,
    observer: Observer,
}

impl Bench {
    async fn start(servers: Vec<Server>) -> Self {
        let ports = Rc::new(Ports(servers.iter().map(|s| Cell::new(s.port)).collect()));
        let (seen, clock) = (Rc::new(Kept::default()), Clock::start());
        let observer = Observer::start(ports.clone(), "fp:".into(), clock, seen.clone())
            .await
            .unwrap();
        Self {
            servers,
            ports,
            seen,
            clock,
            observer,
        }
    }

    /// Waits until an event is there and gives all events up to it.
    async fn until(&self, what: &str, wanted: impl Fn(&Seen) -> bool) -> Vec<Seen> {
        let wait = async {
            loop {
                if let Some(at) = self.seen.events.borrow().iter().position(&wanted) {
                    return self.seen.events.borrow()[..=at].to_vec();
                }
                self.seen.more.notified().await;
            }
        };
        match tokio::time::timeout(PATIENCE, wait).await {
            Ok(events) => events,
            Err(late) => panic!("no {what} in {:#?}: {late}", self.seen.events.borrow()),
        }
    }

    async fn first(&self, f: &str, key: &str) -> Seen {
        self.until(&format!("{f} {key}"), |e| {
            e.f == f && e.key.as_deref() == Some(key)
        })
        .await
        .pop()
        .unwrap()
    }

    /// Runs a command and says between which two moments the server executed it.
    async fn run(&self, connection: &mut MultiplexedConnection, command: &str) -> (u64, u64) {
        let mut words = command.split(' ');
        let mut cmd = redis::cmd(words.next().unwrap());
        for word in words {
            cmd.arg(word);
        }
        let before = self.clock.now();
        cmd.query_async::<redis::Value>(connection).await.unwrap();
        (before, self.clock.now())
    }

    fn sets(&self, key: &str) -> usize {
        let events = self.seen.events.borrow();
        events
            .iter()
            .filter(|e| e.f == "set" && e.key.as_deref() == Some(key))
            .count()
    }

    /// Sets a key until the observer had time to read it: at once, unless the machine stands still just then.
    async fn set_and_read(
        &self,
        c: &mut MultiplexedConnection,
        command: &str,
        key: &str,
    ) -> (Seen, (u64, u64)) {
        loop {
            let before = self.sets(key);
            let bounds = self.run(c, command).await;
            self.until("set", |_| self.sets(key) > before).await;
            let set = |e: &&Seen| e.f == "set" && e.key.as_deref() == Some(key);
            let event = self.seen.events.borrow().iter().rfind(set).cloned();
            match event {
                Some(event) if event.owner.is_some() => return (event, bounds),
                _ => {}
            }
        }
    }

    /// Until a ping sent after now was answered.
    async fn pinged(&self) {
        let now = self.clock.now();
        let mut c = self.servers[0].connect().await;
        loop {
            self.run(&mut c, "SET fp:mark 1").await;
            tokio::task::yield_now().await;
            if self
                .seen
                .events
                .borrow()
                .last()
                .is_some_and(|e| e.not_before > now)
            {
                return;
            }
        }
    }
}

const EVENTS: [&str; 2] = ["--notify-keyspace-events", "AKE"];

fn local(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, test);
}

/// An event may lie anywhere in [`not_before`, `time`]; the command was executed within `bounds`.
fn assert_sound(event: &Seen, bounds: (u64, u64)) {
    assert!(
        event.not_before <= bounds.1 && event.time >= bounds.0,
        "{event:?} but {bounds:?}"
    );
}

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
