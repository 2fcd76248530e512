//! The task of one node: reads, writes, wakes, and connects again.
//!
//! Owns the life of the connection. Must not know what frames mean: that is `view`. Probes come in as [`Request`]s
//! and are answered through their channels; a dropped channel is "no answer".
use super::conn::{self, Conn, ConnError};
use super::line::Line;
use super::view::View;
use super::{Nodes, frame};
use crate::record::{Clock, Sink};
use futures_util::future::{FutureExt, LocalBoxFuture};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

/// Pauses between two tries to connect double from the first to the second.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));
/// Least time between two reads from a server on which more happens than owners may be read for: it would wake the
/// harness for each event, and the load that does this to it would be the less.
const BUSY_READ_EVERY: Duration = Duration::from_millis(4);
/// After this much silence a second connection is tried beside the first.
const SUSPECT_AFTER: Duration = Duration::from_secs(1);
/// Where that one is answered, the first one has this long to be answered too; then it counts as lost.
const LAST_CHANCE: Duration = Duration::from_millis(250);

/// What others ask of a node.
pub(super) enum Request {
    Ping {
        reply: oneshot::Sender<()>,
    },
    Get {
        key: String,
        reply: oneshot::Sender<(Option<String>, i64)>,
    },
    Sample {
        done: oneshot::Sender<()>,
    },
}

/// What is known of a key's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Last {
    Absent,
    /// It was set and not read, or may have changed unseen.
    Unread,
    Is(String),
}

/// What the task and the observer's methods share.
pub(super) struct Shared {
    pub(super) node: String,
    pub(super) prefix: String,
    /// When the last ping that was answered was sent: the server lived then or later.
    pub(super) alive_at: Cell<u64>,
    /// All lock keys seen so far, without the prefix.
    pub(super) keys: RefCell<HashMap<Rc<str>, Last>>,
}

impl Shared {
    pub(super) fn new(node: String, prefix: String) -> Self {
        Self {
            node,
            prefix,
            alive_at: Cell::new(0),
            keys: RefCell::default(),
        }
    }

    /// The one copy of a key's name; it is known from then on.
    pub(super) fn intern(&self, key: &str) -> Rc<str> {
        let mut keys = self.keys.borrow_mut();
        if let Some((known, _)) = keys.get_key_value(key) {
            return known.clone();
        }
        let key: Rc<str> = Rc::from(key);
        keys.insert(key.clone(), Last::Unread);
        key
    }

    pub(super) fn owner(&self, key: &str) -> Option<String> {
        match self.keys.borrow().get(key) {
            Some(Last::Is(value)) => Some(value.clone()),
            _ => None,
        }
    }
}

/// Tries until it is connected or the time is up.
pub(super) async fn connect_until(
    nodes: &dyn Nodes,
    n: usize,
    clock: Clock,
    until: Instant,
) -> Result<Conn, ConnError> {
    let mut pause = BACKOFF.0;
    loop {
        match conn::connect(nodes.direct(n), clock).await {
            Err(_) if Instant::now() + pause < until => tokio::time::sleep(pause).await,
            done => return done,
        }
        pause = (pause * 2).min(BACKOFF.1);
    }
}

enum End {
    /// The observer was stopped.
    Stopped,
    Lost(ConnError),
}

pub(super) struct Watch {
    n: usize,
    nodes: Rc<dyn Nodes>,
    shared: Rc<Shared>,
    clock: Clock,
    view: View,
}

impl Watch {
    pub(super) fn new(
        n: usize,
        nodes: Rc<dyn Nodes>,
        shared: Rc<Shared>,
        clock: Clock,
        sink: Rc<dyn Sink>,
    ) -> Self {
        let view = View::new(shared.clone(), clock, sink, nodes.roles());
        Self {
            n,
            nodes,
            shared,
            clock,
            view,
        }
    }

    pub(super) async fn run(mut self, mut conn: Conn, mut inbox: mpsc::UnboundedReceiver<Request>) {
        loop {
            match self.serve(conn, &mut inbox).await {
                End::Stopped => return self.view.give_up(),
                End::Lost(why) => self.view.end(&why),
            }
            match self.reconnect(&mut inbox).await {
                Some(next) => conn = next,
                None => return,
            }
        }
    }

    /// Runs one connection to its end.
    async fn serve(&mut self, mut conn: Conn, inbox: &mut mpsc::UnboundedReceiver<Request>) -> End {
        if let Err(why) = self.view.begin(&mut conn) {
            return End::Lost(why);
        }
        let mut line = Line::new(conn.stream);
        let input = &mut conn.input;
        let addr = self.nodes.direct(self.n);
        let io = move |source| ConnError::Io { addr, source };
        let mut suspicion = Suspicion::default();
        let mut last_read = Instant::now();
        loop {
            if let Err(why) = self.take_all(input) {
                return End::Lost(why);
            }
            if suspicion.confirmed(self.silence()) {
                return End::Lost(ConnError::Silent(self.silence().as_millis()));
            }
            if let Err(source) = line.doze(self.view.is_busy()) {
                return End::Lost(io(source));
            }
            let mut wake = Instant::from_std(self.clock.at(self.view.wake_at()));
            if line.dozes() {
                wake = wake.min(last_read + BUSY_READ_EVERY);
            }
            let lost = tokio::select! {
                read = line.read(input) => match read {
                    Ok(0) => Some(ConnError::Closed),
                    Ok(_) => { last_read = Instant::now(); None }
                    Err(source) => Some(io(source)),
                },
                sent = line.write(&mut self.view.out), if !self.view.out.is_empty() => sent.err().map(io),
                request = inbox.recv() => match request {
                    Some(request) => { self.view.request(request); None }
                    None => return End::Stopped,
                },
                () = tokio::time::sleep_until(wake) => {
                    // After a stall of the harness the answers that events wait for are there, only late.
                    let read = line.read_now(input);
                    last_read = Instant::now();
                    if let Err(why) = self.take_all(input) {
                        return End::Lost(why);
                    }
                    self.view.wake();
                    if self.silence() > SUSPECT_AFTER {
                        suspicion.begin(|| conn::connect(self.nodes.direct(self.n), self.clock).boxed_local());
                    }
                    match read {
                        Ok(None) => Some(ConnError::Closed),
                        Ok(Some(_)) => None,
                        Err(source) => Some(io(source)),
                    }
                }
                () = suspicion.ask() => None,
            };
            if let Some(why) = lost {
                // What came before the end is still evidence.
                let _ = self.take_all(input);
                return End::Lost(why);
            }
        }
    }

    fn take_all(&mut self, input: &mut bytes::BytesMut) -> Result<(), ConnError> {
        while let Some(frame) = frame::take(input)? {
            self.view.frame(frame)?;
        }
        self.view.drain();
        Ok(())
    }

    fn silence(&self) -> Duration {
        Duration::from_nanos(self.clock.now().saturating_sub(self.shared.alive_at.get()))
    }

    /// Connects again; meanwhile whoever asks gets no answer, at once. None: the observer was stopped.
    async fn reconnect(&mut self, inbox: &mut mpsc::UnboundedReceiver<Request>) -> Option<Conn> {
        let forever = Instant::now() + Duration::from_secs(86_400 * 365);
        let connected = connect_until(&*self.nodes, self.n, self.clock, forever);
        tokio::pin!(connected);
        loop {
            tokio::select! {
                conn = &mut connected => return conn.ok(),
                request = inbox.recv() => drop(request?),
            }
        }
    }
}

/// A connection that is silent although TCP says nothing: the server is stopped, or it is gone without a word and
/// perhaps another one stands in its place. A second connection tells the two apart: a stopped server does not
/// answer that one either.
#[derive(Default)]
struct Suspicion<'a> {
    second: Option<LocalBoxFuture<'a, Result<Conn, ConnError>>>,
    answered: Option<Instant>,
}

impl<'a> Suspicion<'a> {
    fn begin(&mut self, connect: impl FnOnce() -> LocalBoxFuture<'a, Result<Conn, ConnError>>) {
        if self.second.is_none() && self.answered.is_none() {
            self.second = Some(connect());
        }
    }

    /// Goes on with the second connection; pending while there is none.
    async fn ask(&mut self) {
        match &mut self.second {
            None => std::future::pending().await,
            Some(second) => {
                let result = second.await;
                self.second = None;
                self.answered = result.is_ok().then(Instant::now);
            }
        }
    }

    /// Whether the first connection is lost: the second one was answered, and the first one is silent still.
    fn confirmed(&mut self, silence: Duration) -> bool {
        if silence < SUSPECT_AFTER {
            *self = Self::default();
        }
        self.answered.is_some_and(|at| at.elapsed() > LAST_CHANCE)
    }
}
