//! Server-side evidence: one direct connection to each node, beside Toxiproxy and beside the load.
//!
//! Owns the [`Observer`] (what happened to lock keys on each server, and when at the earliest) and the
//! [`Hiccups`] meter (when the machine itself stood still). Must not know locks, faults or checking. Its events go
//! to the run's [`Sink`], its probes to whoever injects faults.
//!
//! # Why the times are sound
//! A server executes commands one by one and answers a connection in the order of execution; keyspace events are
//! written into the same stream as answers (RESP3 pushes). So an event that stands behind the answer to ping *k*
//! was produced after ping *k* was executed, hence after it was sent: `not_before` is the time of sending of the
//! last ping answered ahead of the event. A ping goes out every [`PING_EVERY`], so the interval
//! \[`not_before`, `time`] is a little wider than that, whatever the server's clock says and however late the
//! harness reads. (One connection has this order; a second one for reads would not.) While a node does more than
//! owners may be read for, it is read every 4 ms, not at each event: `time` is then that much later.
//!
//! # Whose value
//! Behind a `set` or `expire` the observer sends `GET` and `PTTL` on that same connection. Their answers come in
//! the same order as the events: where no other event of the key stands between a `set` and the answer, the value
//! read is the one that this very SET wrote, and the event carries it as `owner`. Otherwise, or beyond
//! [`READS_PER_SECOND`], or when the answer took longer than [`HOLD`], the event comes without `owner`: an owner
//! in an event is never a guess.
//!
//! # Completeness
//! * `expire` standing directly behind the `set` of the same key is the PX of that SET and is left out.
//! * A flush gives no keyspace events, but sends an invalidation to every connection that tracks; the observer
//!   tracks (and tracks no key, so this costs the server nothing): `flushed`, then each key is read again.
//! * Between `down` and `up` events are missed; what is there then is read again: `value` or `absent`.
//! * Where nodes change roles each ping is a `ROLE`: `promoted` and `demoted` carry the time of sending of the last
//!   question that was answered otherwise as `not_before`. A replica removes what its primary removed, so a `del` is
//!   one only where the node said that it was primary before and after; elsewhere it is `removed`, which tells
//!   nothing of whose command it was.
//! * The members of an etcd cluster are followed as one node, by revisions: see `revisions`; those of a ZooKeeper ensemble
//!   by watches on all of them: see `queues`.
//! * A server that is stopped (SIGSTOP) loses nothing: its events come when it goes on.
mod conn;
mod frame;
mod held;
mod hiccup;
mod line;
mod queues;
mod revisions;
mod view;
mod watch;

pub use conn::ConnError;
pub use hiccup::{Hiccups, level as hiccup_level};

use crate::record::{Clock, Sink};
use fencepost_checker::{Event, EventType, Process, Value};
use futures_util::future::join_all;
use std::borrow::Cow;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use watch::{Request, Shared};

/// Time between two pings to a node that answers; the longer it is silent, the rarer they get.
pub const PING_EVERY: Duration = Duration::from_millis(20);

/// `GET` and `PTTL` pairs a second and node that are spent on events; events beyond that carry no `owner`.
pub const READS_PER_SECOND: u32 = 500;

/// The longest time that an event waits for its owner to be read. Later events of the node wait behind it, so that
/// the history keeps the server's order; their `time` is then that much later, which is still sound.
pub const HOLD: Duration = Duration::from_millis(30);

/// Time in which every node must have been subscribed at the start.
pub const START_DEADLINE: Duration = Duration::from_secs(5);

/// Time that a node has to answer the final reads of [`Observer::sample`].
pub const SAMPLE_DEADLINE: Duration = Duration::from_secs(1);

/// What the observer must know of a cluster. Addresses may change over a restart, so they are asked for again.
pub trait Nodes {
    /// Number of nodes.
    fn count(&self) -> usize;
    /// Name of a node, such as `n1` for 0.
    fn name(&self, node: usize) -> String;
    /// Its address, beside Toxiproxy.
    fn direct(&self, node: usize) -> SocketAddr;
    /// Nodes may be primaries or replicas, and change.
    fn roles(&self) -> bool {
        false
    }
    /// Where the nodes are members that answer as one: of what, and the lease of locks.
    fn members(&self) -> Option<(Members, Duration)> {
        None
    }
}

/// What nodes are members of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Members {
    /// An etcd cluster.
    Etcd,
    /// A ZooKeeper ensemble.
    ZooKeeper,
}

/// Why observing could not begin.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// A node could not be subscribed to within [`START_DEADLINE`].
    #[error("cannot observe node {node}")]
    Node {
        /// Its name.
        node: String,
        /// The last error.
        #[source]
        source: ConnError,
    },
    /// No quorum of etcd's members answered within [`START_DEADLINE`].
    #[error("cannot observe the cluster")]
    Cluster(#[from] crate::etcd::EtcdError),
    /// No quorum of ZooKeeper's servers could be watched within [`START_DEADLINE`].
    #[error("cannot observe the ensemble")]
    Ensemble(#[from] crate::zookeeper::ZkError),
}

/// The observer of all nodes. Lives in a `LocalSet`; ends with [`Observer::stop`] or when dropped.
pub struct Observer {
    watchers: Vec<Watcher>,
    /// In the place of watchers, where the nodes are members that answer as one.
    follower: Option<Follower>,
    clock: Clock,
    sink: Rc<dyn Sink>,
}

enum Follower {
    Revisions(revisions::Follower),
    Queues(queues::Follower),
}

struct Watcher {
    shared: Rc<Shared>,
    requests: mpsc::UnboundedSender<Request>,
    task: JoinHandle<()>,
}

impl Observer {
    /// Connects to every node, subscribes, and returns when every subscription is known to stand (so that nothing
    /// that happens from now on is missed). Keys that begin with `prefix` are lock keys; events and methods name
    /// them without it. Where a node's `notify-keyspace-events` does not cover what is needed it is set: nodes
    /// are servers that this run started.
    ///
    /// # Errors
    /// [`ObserveError::Node`] if a node does not answer, or does not speak RESP3 (Redis 6 or later, Valkey).
    ///
    /// # Panics
    /// Outside a `tokio::task::LocalSet`.
    pub async fn start(
        nodes: Rc<dyn Nodes>,
        prefix: String,
        clock: Clock,
        sink: Rc<dyn Sink>,
    ) -> Result<Self, ObserveError> {
        if let Some((members, lease)) = nodes.members() {
            let addresses = move || -> Vec<SocketAddr> {
                (0..nodes.count()).map(|n| nodes.direct(n)).collect()
            };
            let all: revisions::Addresses = Rc::new(addresses);
            let out = (clock, sink.clone());
            let follower = match members {
                Members::Etcd => {
                    let start = revisions::Follower::start(all, prefix, lease, out, START_DEADLINE);
                    Follower::Revisions(start.await?)
                }
                Members::ZooKeeper => {
                    let start = queues::Follower::start(all, prefix, lease, out, START_DEADLINE);
                    Follower::Queues(start.await?)
                }
            };
            return Ok(Self {
                watchers: Vec::new(),
                follower: Some(follower),
                clock,
                sink,
            });
        }
        let until = tokio::time::Instant::now() + START_DEADLINE;
        let first =
            join_all((0..nodes.count()).map(|n| watch::connect_until(&*nodes, n, clock, until)));
        let mut watchers = Vec::new();
        for (n, conn) in first.await.into_iter().enumerate() {
            let node = nodes.name(n);
            let conn = conn.map_err(|source| ObserveError::Node {
                node: node.clone(),
                source,
            })?;
            let shared = Rc::new(Shared::new(node, prefix.clone()));
            let (requests, inbox) = mpsc::unbounded_channel();
            let watch = watch::Watch::new(n, nodes.clone(), shared.clone(), clock, sink.clone());
            let task = tokio::task::spawn_local(watch.run(conn, inbox));
            watchers.push(Watcher {
                shared,
                requests,
                task,
            });
        }
        Ok(Self {
            watchers,
            follower: None,
            clock,
            sink,
        })
    }

    /// Final reads: one `value` or `absent` for each lock key known on each node. A node that does not answer
    /// within [`SAMPLE_DEADLINE`] gives a `down` with the reason.
    pub async fn sample(&self) {
        join_all(self.watchers.iter().map(|w| self.sample_node(w))).await;
        match &self.follower {
            Some(Follower::Revisions(follower)) => follower.sample().await,
            Some(Follower::Queues(follower)) => follower.sample().await,
            None => {}
        }
    }

    async fn sample_node(&self, watcher: &Watcher) {
        let (done, answer) = oneshot::channel();
        let _ = watcher.requests.send(Request::Sample { done });
        if let Ok(Ok(())) = tokio::time::timeout(SAMPLE_DEADLINE, answer).await {
            return;
        }
        let node = &watcher.shared.node;
        let proof = format!(
            "no answer to the final reads within {} ms",
            SAMPLE_DEADLINE.as_millis()
        );
        let value = Value {
            not_before: Some(watcher.shared.alive_at.get()),
            proof: Some(Cow::Owned(proof)),
            ..Value::default()
        };
        emit(&*self.sink, self.clock, node, "down", None, value);
    }

    /// Reads a key on the direct connection: its value (none: no such key, or not a string) and its `PTTL` in ms
    /// (-1 no TTL, -2 no key). None if the node is down or did not answer in time.
    pub async fn get(
        &self,
        node: usize,
        key: &str,
        deadline: Duration,
    ) -> Option<(Option<String>, i64)> {
        let (reply, answer) = oneshot::channel();
        let request = Request::Get {
            key: key.to_owned(),
            reply,
        };
        self.watchers.get(node)?.requests.send(request).ok()?;
        tokio::time::timeout(deadline, answer).await.ok()?.ok()
    }

    /// A direct round trip. None if the node is down or did not answer in time.
    pub async fn ping(&self, node: usize, deadline: Duration) -> Option<Duration> {
        let (reply, answer) = oneshot::channel();
        let sent = self.clock.now();
        self.watchers
            .get(node)?
            .requests
            .send(Request::Ping { reply })
            .ok()?;
        tokio::time::timeout(deadline, answer).await.ok()?.ok()?;
        Some(Duration::from_nanos(self.clock.now().saturating_sub(sent)))
    }

    /// The value that the key has on the node by all that was seen, for targets such as `quorum-edge`. None: the
    /// key is gone, or its last `set` was not read (see [`READS_PER_SECOND`]; then ask [`Observer::get`]).
    pub fn owner(&self, node: usize, key: &str) -> Option<String> {
        self.watchers.get(node)?.shared.owner(key)
    }

    /// Ends all connections. Events that wait for an owner are emitted without.
    pub async fn stop(mut self) {
        for watcher in std::mem::take(&mut self.watchers) {
            drop(watcher.requests);
            let _ = watcher.task.await;
        }
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        for watcher in &self.watchers {
            watcher.task.abort();
        }
    }
}

/// Stamps and emits one observer event about `node`, in one go, so that the history stays in order of time.
fn emit(sink: &dyn Sink, clock: Clock, node: &str, f: &str, key: Option<&str>, value: Value<'_>) {
    sink.emit(Event {
        index: 0,
        time: clock.now(),
        process: Process::Named(Cow::Borrowed("observer")),
        client: None,
        worker: None,
        kind: EventType::Info,
        f: Cow::Borrowed(f),
        key: key.map(Cow::Borrowed),
        value: Value {
            node: Some(Cow::Borrowed(node)),
            ..value
        },
        error: None,
    });
}
