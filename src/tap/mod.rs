//! The tap: a proxy in front of a link that reads RESP, records each command and reply, and acts on single messages.
//!
//! Owns what passes between a client and Toxiproxy where a workload asks for it. Must not know locks, faults or
//! checking. `run` puts one in front of each link, `fault` adds [`Rule`]s, and the wire's events go to the history.
//!
//! ```text
//! client c1 --> tap c1>n1 --> Toxiproxy c1>n1 --> n1
//! ```
//! It is transparent: bytes come out as they went in, in their order, and what is no RESP passes unread. It lives in the
//! harness's own thread, so that its stamps are in the history's order and a rule can stop a message while a fault is
//! made; what that costs is measured by `make bench`.
//!
//! | file | owns |
//! |---|---|
//! | [`scan`] | where a message ends |
//! | [`stream`] | a direction as messages |
//! | [`command`] | a command's words and its text on record |
//! | [`pair`] | which reply answers which command |
//! | [`rules`] | what is done to which message |
//! | `wire` | the events |
//! | `conn` | one connection |
//! | `ends` | its sockets |
mod command;
mod conn;
mod ends;
mod pair;
pub mod rules;
mod scan;
mod stream;
#[cfg(test)]
mod tests;
mod wire;

pub use command::Command;
pub use rules::{Action, After, Edge, Hits, Message, Pattern, Rule, Rules};
pub use wire::state;

/// How it went with a message to which nothing was done.
pub const LET_PASS: &str = "let pass";

use crate::record::{Clock, Sink};
use conn::Conn;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use wire::{Line, Wire};

/// Errors that a server puts in place of an answer, by their first word.
pub const ERRORS: &[(&str, &str)] = &[
    ("LOADING", "LOADING Redis is loading the dataset in memory"),
    (
        "BUSY",
        "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
    ),
    (
        "READONLY",
        "READONLY You can't write against a read only replica.",
    ),
    (
        "MISCONF",
        "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
    ),
    (
        "OOM",
        "OOM command not allowed when used memory > 'maxmemory'.",
    ),
    ("NOSCRIPT", "NOSCRIPT No matching script. Please use EVAL."),
    ("CLUSTERDOWN", "CLUSTERDOWN The cluster is down"),
    ("MOVED", "MOVED 0 127.0.0.1:1"),
    (
        "TRYAGAIN",
        "TRYAGAIN Multiple keys request during rehashing of slot",
    ),
    (
        "MASTERDOWN",
        "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    ),
    (
        "NOREPLICAS",
        "NOREPLICAS Not enough good replicas to write.",
    ),
];

/// The bytes of an error by its first word; none if the table has no such error.
pub fn error(word: &str) -> Option<bytes::Bytes> {
    let text = ERRORS.iter().find(|(name, _)| *name == word)?.1;
    Some(format!("-{text}\r\n").into())
}

/// One link to be tapped.
#[derive(Debug, Clone)]
pub struct TapLink {
    /// The client.
    pub client: String,
    /// The node, from 0.
    pub node: usize,
    /// Its name, such as `n1`.
    pub name: String,
    /// Where the link itself listens.
    pub upstream: SocketAddr,
}

/// The taps of a run. They end when this is dropped.
pub struct Taps {
    rules: Rc<Rules>,
    addresses: BTreeMap<(String, usize), SocketAddr>,
    listeners: Vec<JoinHandle<()>>,
    connections: Rc<RefCell<Vec<JoinHandle<()>>>>,
}

impl Taps {
    /// Listens in front of each link, on 127.0.0.1. Lock keys begin with `prefix` on the servers.
    ///
    /// # Errors
    /// No port can be had.
    pub async fn start(
        links: Vec<TapLink>,
        prefix: &str,
        clock: Clock,
        sink: Rc<dyn Sink>,
    ) -> std::io::Result<Self> {
        let rules = Rc::new(Rules::new(prefix));
        let wire = Rc::new(Wire::new(clock, sink, rules.clone()));
        let numbers = Rc::new(Cell::new(0));
        let connections = Rc::new(RefCell::new(Vec::new()));
        let mut taps = Self {
            rules,
            addresses: BTreeMap::new(),
            listeners: Vec::new(),
            connections: connections.clone(),
        };
        for link in links {
            let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await?;
            let address = listener.local_addr()?;
            taps.addresses
                .insert((link.client.clone(), link.node), address);
            let front = Front {
                link,
                wire: wire.clone(),
                numbers: numbers.clone(),
                connections: connections.clone(),
            };
            taps.listeners
                .push(tokio::task::spawn_local(front.listen(listener)));
        }
        Ok(taps)
    }

    /// Where a client finds a node; none if that link has no tap.
    pub fn address(&self, client: &str, node: usize) -> Option<SocketAddr> {
        self.addresses.get(&(client.to_owned(), node)).copied()
    }

    /// The rules, to add to.
    pub fn rules(&self) -> &Rc<Rules> {
        &self.rules
    }
}

impl Drop for Taps {
    fn drop(&mut self) {
        for task in self
            .listeners
            .iter()
            .chain(self.connections.borrow().iter())
        {
            task.abort();
        }
    }
}

/// One listener.
struct Front {
    link: TapLink,
    wire: Rc<Wire>,
    numbers: Rc<Cell<u64>>,
    connections: Rc<RefCell<Vec<JoinHandle<()>>>>,
}

impl Front {
    async fn listen(self, listener: TcpListener) {
        let (client, name): (Rc<str>, Rc<str>) = (
            self.link.client.as_str().into(),
            self.link.name.as_str().into(),
        );
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                // Too many open files, say: the client's next try may find room.
                tokio::task::yield_now().await;
                continue;
            };
            self.numbers.set(self.numbers.get() + 1);
            let line = Line {
                client: client.clone(),
                node: self.link.node,
                name: name.clone(),
                conn: self.numbers.get(),
            };
            self.carry(stream, line);
        }
    }

    fn carry(&self, stream: TcpStream, line: Line) {
        let conn = Conn::new(self.wire.clone(), line);
        let task = tokio::task::spawn_local(conn.serve(stream, self.link.upstream));
        let mut connections = self.connections.borrow_mut();
        connections.retain(|task| !task.is_finished());
        connections.push(task);
    }
}
