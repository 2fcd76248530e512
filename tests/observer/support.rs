//! Servers that a test may stop and kill, and an observer with all that it said.
//!
//! Owns the processes; each ends with its test. Must not know what a test asserts.
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
pub const PATIENCE: Duration = Duration::from_secs(20);

pub struct Server {
    pub child: Child,
    pub port: u16,
    pub dir: tempfile::TempDir,
    pub flags: Vec<&'static str>,
}

impl Server {
    pub async fn start(flags: &[&'static str]) -> Self {
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

    pub async fn ready(&mut self) -> bool {
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

    pub async fn try_connect(&self) -> redis::RedisResult<MultiplexedConnection> {
        let url = format!("redis://127.0.0.1:{}/", self.port);
        // Servers are stopped here for longer than the crate's own deadline.
        let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
        let client = redis::Client::open(url)?;
        client
            .get_multiplexed_async_connection_with_config(&config)
            .await
    }

    pub async fn connect(&self) -> MultiplexedConnection {
        self.try_connect().await.unwrap()
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    /// SIGSTOP, and the kernel's word that it took effect.
    pub async fn stop(&self) {
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

    pub fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        self.child.wait().unwrap();
    }

    pub async fn start_again(&mut self) {
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

pub fn spawn(port: u16, dir: &tempfile::TempDir, flags: &[&str]) -> Child {
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

pub struct Ports(pub Vec<Cell<u16>>);

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
pub struct Seen {
    pub f: String,
    pub key: Option<String>,
    pub node: String,
    pub owner: Option<String>,
    pub pttl: Option<i64>,
    pub not_before: u64,
    pub time: u64,
    pub proof: Option<String>,
}

#[derive(Default)]
pub struct Kept {
    pub events: RefCell<Vec<Seen>>,
    pub more: Notify,
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

pub struct Bench {
    pub servers: Vec<Server>,
    pub ports: Rc<Ports>,
    pub seen: Rc<Kept>,
    pub clock: Clock,
    pub observer: Observer,
}

impl Bench {
    pub async fn start(servers: Vec<Server>) -> Self {
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
    pub async fn until(&self, what: &str, wanted: impl Fn(&Seen) -> bool) -> Vec<Seen> {
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

    pub async fn first(&self, f: &str, key: &str) -> Seen {
        self.until(&format!("{f} {key}"), |e| {
            e.f == f && e.key.as_deref() == Some(key)
        })
        .await
        .pop()
        .unwrap()
    }

    /// Runs a command and says between which two moments the server executed it.
    pub async fn run(&self, connection: &mut MultiplexedConnection, command: &str) -> (u64, u64) {
        let mut words = command.split(' ');
        let mut cmd = redis::cmd(words.next().unwrap());
        for word in words {
            cmd.arg(word);
        }
        let before = self.clock.now();
        cmd.query_async::<redis::Value>(connection).await.unwrap();
        (before, self.clock.now())
    }

    pub fn sets(&self, key: &str) -> usize {
        let events = self.seen.events.borrow();
        events
            .iter()
            .filter(|e| e.f == "set" && e.key.as_deref() == Some(key))
            .count()
    }

    /// Sets a key until the observer had time to read it: at once, unless the machine stands still just then.
    pub async fn set_and_read(
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
    pub async fn pinged(&self) {
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

pub const EVENTS: [&str; 2] = ["--notify-keyspace-events", "AKE"];

pub fn local(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, test);
}

/// An event may lie anywhere in [`not_before`, `time`]; the command was executed within `bounds`.
pub fn assert_sound(event: &Seen, bounds: (u64, u64)) {
    assert!(
        event.not_before <= bounds.1 && event.time >= bounds.0,
        "{event:?} but {bounds:?}"
    );
}
