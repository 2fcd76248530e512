//! The harness's side: one client process, started, asked and watched.
//!
//! Owns [`ClientProcess`]: requests with deadlines, the table of those without answer, signals, shutting down. Must not
//! know faults or checking. Answers go to the caller, all that comes unasked is a [`Notice`]; its pipes are served by
//! `supervise`.
//!
//! Nothing that a client does hangs or crashes the harness: a request has a deadline; writing never blocks, and once
//! too much waits to be written a request fails as `client-backlog`; lines are bounded; whatever breaks the protocol
//! is a notice. All on one thread: needs a `LocalSet`.
use super::errors::{Op, definite};
use super::signals::{self, ProcState};
use super::supervise;
use super::wire::{self, About, Expects, Init, Reply, Request};
use crate::reaper::{self, Reaper};
use crate::record::Clock;
use nix::sys::signal::Signal;
use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc, oneshot, watch};

/// Most bytes that wait to be written to a client beside what its pipe takes (64 KiB).
const UNWRITTEN_MAX: usize = 256 << 10;
/// Most requests whose answer was given up and is remembered as late when it comes.
const GIVEN_UP_MAX: usize = 1 << 16;
/// Most notices of misbehaviour from one client.
const MISBEHAVED_MAX: u32 = 100;
/// How long a killed client may take to be gone.
const KILL_LIMIT: Duration = Duration::from_secs(5);

/// How to start a client.
#[derive(Debug, Clone)]
pub struct ClientSpec {
    /// `c1`.
    pub name: String,
    /// Program and arguments; no shell.
    pub argv: Vec<String>,
    /// Environment variables let through beside PATH, HOME and LANG.
    pub env: Vec<String>,
    /// Environment variables given beside these, name and value.
    pub variables: Vec<(String, String)>,
    /// Where its standard error is kept (the first 4 MiB).
    pub log: PathBuf,
    /// Its working directory.
    pub dir: PathBuf,
}

/// Why a client could not be started or initialised.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// An empty argv.
    #[error("client {0}: no command")]
    NoCommand(String),
    /// The program could not be started.
    #[error("client {client}: cannot start `{program}`")]
    Start {
        /// Client.
        client: String,
        /// `argv[0]`.
        program: String,
        /// Why.
        source: std::io::Error,
    },
    /// The log could not be made.
    #[error("client {client}: cannot write its log {}", log.display())]
    Log {
        /// Client.
        client: String,
        /// The file.
        log: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// `init` was refused.
    #[error("client {client} refused `init`: {code}{}{message}", if message.is_empty() { "" } else { ": " })]
    Refused {
        /// Client.
        client: String,
        /// Code of the published table.
        code: String,
        /// What it said for people.
        message: String,
    },
    /// No good answer to `init`.
    #[error("client {client}: no good answer to `init`: {why}; its standard error, in {}, {said}", log.display())]
    NoHandshake {
        /// Client.
        client: String,
        /// `deadline`, `client-died`, `bad-answer` or `client-gone`, and what is known of it.
        why: String,
        /// `is empty`, or `ends:` with its last lines.
        said: String,
        /// Its standard error.
        log: PathBuf,
    },
}

/// What came of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// When the whole answer was read, or when it was given up: ns of the run's clock.
    pub ret: u64,
    /// How long the library's call took by the client's own clock, in ms, where it tells: without the pipes between it and
    /// the harness.
    pub took_ms: Option<f64>,
    /// The answer.
    pub result: Result<Reply, Failure>,
}

/// An operation that is not `ok`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// It certainly had no effect (`fail`); else `info`.
    pub definite: bool,
    /// Code of the published table, or the adapter's own (then never definite).
    pub code: String,
}

/// What a client did unasked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// The library told its holder that the lock is gone.
    Lost {
        /// Client.
        client: String,
        /// Worker.
        worker: u32,
        /// Lock key.
        key: String,
        /// When it was read, ns of the run's clock.
        at: u64,
    },
    /// It broke the protocol; at most 100 of these a client.
    Misbehaved {
        /// Client.
        client: String,
        /// When.
        at: u64,
        /// What it did, control characters escaped.
        what: String,
    },
    /// It ended.
    Died {
        /// Client.
        client: String,
        /// When the harness knew.
        at: u64,
        /// `exit status: 3`, `signal: 9 (SIGKILL)`.
        status: String,
    },
}

/// One client process. Clones are the same client; when the last is gone, its process group is killed.
#[derive(Clone)]
pub struct ClientProcess(Rc<Handle>);

struct Handle(Rc<Inner>);

impl std::fmt::Debug for ClientProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ClientProcess({}, pid {})", self.name(), self.pid())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.kill();
        self.0.close_input();
    }
}

/// A request without answer.
#[derive(Debug)]
pub(super) enum Waiting {
    Init(oneshot::Sender<Result<About, Failure>>),
    Op {
        op: Op,
        expects: Expects,
        answer: oneshot::Sender<Answer>,
    },
}

/// What the tasks of one client share.
pub(super) struct Inner {
    pub(super) name: String,
    pub(super) pid: i32,
    pub(super) clock: Clock,
    notices: mpsc::UnboundedSender<Notice>,
    next_id: Cell<u64>,
    waiting: RefCell<HashMap<u64, Waiting>>,
    given_up: RefCell<BTreeSet<u64>>,
    pub(super) out: RefCell<Vec<u8>>,
    /// Bytes of the buffer that the writer took and has not written yet.
    pub(super) writing: Cell<usize>,
    pub(super) out_more: Notify,
    /// Its pipes are of no more use: nothing can be asked.
    pub(super) closed: Cell<bool>,
    /// [`ClientProcess::kill`] was called.
    pub(super) killed: Cell<bool>,
    /// The harness killed it for what it sent, which no fault asked for.
    pub(super) put_down: Cell<bool>,
    /// It was asked to end: that its pipes close is no misbehaviour.
    pub(super) leaving: Cell<bool>,
    /// Its end; the text is the status.
    pub(super) ended: watch::Sender<Option<String>>,
    /// All of its standard error is in the log.
    pub(super) logged: watch::Sender<bool>,
    misbehaved: Cell<u32>,
    first_misdeed: RefCell<Option<String>>,
    log: PathBuf,
    pub(super) reaper: Reaper,
}

impl ClientProcess {
    /// Start a client in a process group of its own and tell the reaper. It must be given [`Self::init`] next.
    pub fn spawn(
        spec: ClientSpec,
        clock: Clock,
        reaper: &Reaper,
        notices: mpsc::UnboundedSender<Notice>,
    ) -> Result<Self, ClientError> {
        let started = supervise::start(&spec)?;
        let pid = started.pid;
        reaper.watch_group(pid, reaper::start_time(pid).unwrap_or_default());
        let inner = Rc::new(Inner {
            name: spec.name,
            pid,
            clock,
            notices,
            next_id: Cell::new(1),
            waiting: RefCell::default(),
            given_up: RefCell::default(),
            out: RefCell::default(),
            writing: Cell::new(0),
            out_more: Notify::new(),
            closed: Cell::new(false),
            killed: Cell::new(false),
            put_down: Cell::new(false),
            leaving: Cell::new(false),
            ended: watch::Sender::new(None),
            logged: watch::Sender::new(false),
            misbehaved: Cell::new(0),
            first_misdeed: RefCell::default(),
            log: spec.log,
            reaper: reaper.clone(),
        });
        supervise::serve(&inner, started);
        Ok(Self(Rc::new(Handle(inner))))
    }

    /// The handshake.
    pub async fn init(&self, init: &Init, deadline: Duration) -> Result<About, ClientError> {
        let inner = self.inner();
        if let Some(code) = inner.cannot_write() {
            return Err(inner.no_handshake(code.to_owned()).await);
        }
        let (sender, receiver) = oneshot::channel();
        let id = inner.ask(Waiting::Init(sender));
        inner.write(|out| wire::write_init(id, init, out));
        match tokio::time::timeout(deadline, receiver).await {
            Ok(Ok(Ok(about))) => Ok(about),
            Ok(Ok(Err(failure))) if failure.definite => {
                let (code, message) = failure
                    .code
                    .split_once(": ")
                    .map_or((&*failure.code, ""), |parts| parts);
                Err(ClientError::Refused {
                    client: inner.name.clone(),
                    code: code.to_owned(),
                    message: message.to_owned(),
                })
            }
            Ok(Ok(Err(failure))) => Err(inner.no_handshake(failure.code).await),
            Ok(Err(_)) => Err(inner.no_handshake("client-died".into()).await),
            Err(_) => {
                inner.give_up(id);
                let why = format!("deadline of {deadline:?}");
                Err(inner.no_handshake(why).await)
            }
        }
    }

    /// Ask, and wait for the answer until `deadline` from now. Stamp the invoke before calling this.
    ///
    /// Dropping the future gives up the answer; the request stays sent.
    pub async fn request(&self, request: Request, deadline: Duration) -> Answer {
        let (op, expects) = (request.op(), Expects::from(&request));
        let write = |id, out: &mut Vec<u8>| request.write(id, out);
        self.send(op, expects, write, deadline).await
    }

    /// A request that no [`Request`] is, such as one that the protocol does not know; `line` is made with its id.
    pub(super) async fn request_line(
        &self,
        op: Op,
        line: impl FnOnce(u64) -> serde_json::Value,
        deadline: Duration,
    ) -> Answer {
        let expects = if op == Op::Acquire {
            Expects::Grant
        } else {
            Expects::Done
        };
        let write = |id, out: &mut Vec<u8>| out.extend(format!("{}\n", line(id)).into_bytes());
        self.send(op, expects, write, deadline).await
    }

    async fn send(
        &self,
        op: Op,
        expects: Expects,
        write: impl FnOnce(u64, &mut Vec<u8>),
        deadline: Duration,
    ) -> Answer {
        let inner = self.inner();
        if let Some(code) = inner.cannot_write() {
            return inner.failed(op, code);
        }
        let (answer, receiver) = oneshot::channel();
        let id = inner.ask(Waiting::Op {
            op,
            expects,
            answer,
        });
        inner.write(|out| write(id, out));
        match tokio::time::timeout(deadline, receiver).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => inner.failed(op, "client-died"),
            Err(_) => {
                inner.give_up(id);
                inner.failed(op, "deadline")
            }
        }
    }

    /// Close its standard input and send nothing more: it should exit by itself.
    pub(super) fn end_input(&self) {
        self.inner().leaving.set(true);
        self.inner().close_input();
    }

    /// `c1`.
    pub fn name(&self) -> &str {
        &self.inner().name
    }

    /// Its process id, which is its process group's too.
    pub fn pid(&self) -> i32 {
        self.inner().pid
    }

    /// SIGSTOP to the group.
    pub fn stop(&self) -> std::io::Result<()> {
        self.inner().signal(Signal::SIGSTOP)
    }

    /// SIGCONT to the group.
    pub fn cont(&self) -> std::io::Result<()> {
        self.inner().signal(Signal::SIGCONT)
    }

    /// SIGKILL to the group, stopped or not. From now on it counts as dead.
    pub fn kill(&self) -> std::io::Result<()> {
        self.inner().killed.set(true);
        self.inner().signal(Signal::SIGKILL)
    }

    /// What /proc says of it.
    pub fn state(&self) -> ProcState {
        if self.inner().has_ended() {
            return ProcState::Dead;
        }
        signals::state(self.inner().pid)
    }

    /// As far as the harness knows it has not ended, and can still be asked. This reads no file, for it is asked several
    /// times a cycle; that a client ended by itself is known a moment later, once it was reaped or its pipe closed.
    pub fn alive(&self) -> bool {
        let inner = self.inner();
        !inner.closed.get() && !inner.killed.get() && !inner.has_ended()
    }

    /// The first thing by which it broke the protocol, if it did.
    pub fn misdeed(&self) -> Option<String> {
        self.inner().first_misdeed.borrow().clone()
    }

    /// Wait until it has ended and was reaped.
    pub async fn ended(&self) {
        let mut ended = self.inner().ended.subscribe();
        let _ = ended.wait_for(Option::is_some).await;
    }

    /// `close`, then, after `grace` in all, SIGKILL to the group; returns once it was reaped. A stopped client is killed
    /// at once. Returns how many commands it says that it sent to servers.
    pub async fn shutdown(&self, grace: Duration) -> Option<u64> {
        let inner = self.inner();
        let mut said = None;
        inner.leaving.set(true);
        if self.alive() && self.state() == ProcState::Running {
            let _ = tokio::time::timeout(grace, async {
                if let Ok(Reply::Closed { messages }) =
                    self.request(Request::Close, grace).await.result
                {
                    said = messages;
                }
                inner.close_input();
                self.ended().await;
            })
            .await;
        }
        inner.kill();
        inner.close_input();
        let _ = tokio::time::timeout(KILL_LIMIT, self.ended()).await;
        said
    }

    fn inner(&self) -> &Rc<Inner> {
        &self.0.0
    }
}

impl Inner {
    /// Why nothing can be asked, if so.
    fn cannot_write(&self) -> Option<&'static str> {
        if self.closed.get() {
            Some("client-gone")
        } else if self.out.borrow().len() + self.writing.get() > UNWRITTEN_MAX {
            Some("client-backlog")
        } else {
            None
        }
    }

    fn ask(&self, waiting: Waiting) -> u64 {
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        self.waiting.borrow_mut().insert(id, waiting);
        id
    }

    fn write(&self, line: impl FnOnce(&mut Vec<u8>)) {
        let mut out = self.out.borrow_mut();
        if out.is_empty() {
            self.out_more.notify_one();
        }
        line(&mut out);
    }

    fn give_up(&self, id: u64) {
        self.waiting.borrow_mut().remove(&id);
        let mut given_up = self.given_up.borrow_mut();
        given_up.insert(id);
        if given_up.len() > GIVEN_UP_MAX {
            given_up.pop_first();
        }
    }

    /// The request that `id` answers.
    pub(super) fn take(&self, id: u64) -> Option<Waiting> {
        self.waiting.borrow_mut().remove(&id)
    }

    /// Whether `id` is a request whose answer was given up; it is forgotten by this.
    pub(super) fn take_late(&self, id: u64) -> bool {
        self.given_up.borrow_mut().remove(&id)
    }

    /// Why there was no handshake, with all that the client said.
    async fn no_handshake(&self, mut why: String) -> ClientError {
        if self.closed.get() {
            // What it wrote last is still on its way, and so is its status.
            supervise::last_words(self).await;
        }
        if let Some(status) = &*self.ended.borrow() {
            why = format!("{why} ({status})");
        }
        // Where no answer came, something else may have come; a bad one is a misdeed itself; a refusal says why.
        let misdeeds = ["deadline", "client-died", "bad-answer"];
        if let Some(first) = &*self.first_misdeed.borrow()
            && misdeeds.iter().any(|code| why.starts_with(code))
        {
            why = format!("{why}; it {first}");
        }
        ClientError::NoHandshake {
            client: self.name.clone(),
            why,
            said: supervise::tail(&self.log),
            log: self.log.clone(),
        }
    }

    fn failed(&self, op: Op, code: &str) -> Answer {
        Answer {
            ret: self.clock.now(),
            took_ms: None,
            result: Err(Failure {
                definite: definite(code, op),
                code: code.to_owned(),
            }),
        }
    }

    /// Nothing will be answered any more.
    pub(super) fn fail_all(&self) {
        self.closed.set(true);
        let waiting = std::mem::take(&mut *self.waiting.borrow_mut());
        for waiting in waiting.into_values() {
            match waiting {
                Waiting::Init(answer) => {
                    let code = "client-died".to_owned();
                    let definite = false;
                    let _ = answer.send(Err(Failure { definite, code }));
                }
                Waiting::Op { op, answer, .. } => {
                    let _ = answer.send(self.failed(op, "client-died"));
                }
            }
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.borrow().is_some()
    }

    /// Let the writer end, which closes the client's standard input.
    pub(super) fn close_input(&self) {
        self.closed.set(true);
        self.out_more.notify_one();
    }

    fn signal(&self, signal: Signal) -> std::io::Result<()> {
        if self.has_ended() {
            // Its number may be another's by now.
            return Err(std::io::Error::from(std::io::ErrorKind::NotFound));
        }
        signals::group(self.pid, signal)
    }

    pub(super) fn kill(&self) {
        let _ = self.signal(Signal::SIGKILL);
    }

    pub(super) fn notice(&self, notice: Notice) {
        // Nobody listens any more: then nobody wants to know.
        let _ = self.notices.send(notice);
    }

    /// Tell of a misbehaviour; after [`MISBEHAVED_MAX`] of them nothing more is told,
    /// nor put in words.
    pub(super) fn misbehaved(&self, at: u64, what: impl FnOnce() -> String) {
        let count = self.misbehaved.get();
        self.misbehaved.set(count.saturating_add(1));
        match count.cmp(&MISBEHAVED_MAX) {
            Ordering::Less => self.tell(at, &what()),
            Ordering::Equal => self.tell(at, "misbehaves on; not reported any more"),
            Ordering::Greater => {}
        }
    }

    /// Tell of a misbehaviour that ends the client, however many there were.
    pub(super) fn tell(&self, at: u64, what: &str) {
        let (client, what) = (self.name.clone(), what.to_owned());
        self.first_misdeed
            .borrow_mut()
            .get_or_insert_with(|| what.clone());
        self.notice(Notice::Misbehaved { client, at, what });
    }
}
