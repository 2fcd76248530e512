//! The client's side of the protocol: [`serve`] makes any binary that has a lock a client of the harness.
//!
//! Owns reading requests, spending work time, deadlines of acquires and writing answers. Must not know any lock. The
//! lock is a [`UserLock`]; built-in locks are one too (`builtin`).
//!
//! ```no_run
//! use fencepost::client::serve::{Granted, Info, Refusal, UserLock, serve};
//! use std::time::Duration;
//!
//! struct MyLock;
//!
//! #[async_trait::async_trait(?Send)]
//! impl UserLock for MyLock {
//!     async fn init(&mut self, info: Info) -> Result<fencepost::client::About, Refusal> {
//!         // connect to info.init.nodes
//!         Ok(fencepost::client::About { library: "my-lock".into(), version: "0.1.0".into(), ..Default::default() })
//!     }
//!     async fn acquire(&self, _worker: u32, _key: &str, _wait: Duration) -> Result<Granted, Refusal> {
//!         Err(Refusal::new("held"))
//!     }
//!     async fn release(&self, _worker: u32, _key: &str) -> Result<(), Refusal> {
//!         Err(Refusal::new("not-held"))
//!     }
//! }
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> std::io::Result<()> {
//!     serve(MyLock).await
//! }
//! ```
use super::errors::{Op, definite};
use super::stdio::{Out, stdio};
use super::wire::{self, About, Init, LINE_MAX, Reply, RequestLine};
use async_trait::async_trait;
use futures_util::FutureExt;
use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::task::LocalSet;

/// Shorter than most deadlines, and rare enough to cost nothing.
const BEAT: Duration = Duration::from_millis(20);

/// Why an operation did not succeed: a code of the published table (`errors`), and a word for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The code; one that is not in the table counts as indefinite.
    pub code: Cow<'static, str>,
    /// More, for people.
    pub message: Option<String>,
}

impl Refusal {
    /// A refusal with this code of the published table.
    pub fn new(code: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code: code.into(),
            message: None,
        }
    }

    /// The same, with a word for people.
    #[must_use]
    pub fn because(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }
}

/// A granted lock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Granted {
    /// The random string in the lock key, where the library tells.
    pub owner: Option<String>,
    /// How long the lock may be used from now on, where the library tells.
    pub validity: Option<Duration>,
    /// Fencing token, where the library has one.
    pub token: Option<u64>,
}

/// What a lock gets at the start.
#[derive(Debug, Clone)]
pub struct Info {
    /// Servers, lease, options.
    pub init: Init,
    /// For telling that a lock was lost.
    pub notifier: Notifier,
}

/// Tells the harness, at any time, that a worker lost a lock.
#[derive(Debug, Clone)]
pub struct Notifier(Rc<Out>);

impl Notifier {
    /// The library found out that `worker` does not hold `key` any more.
    pub fn lost(&self, worker: u32, key: &str) {
        self.0.push(|out| wire::write_lost(worker, key, out));
    }
}

/// A lock to test. Several workers' calls run at once; one worker's calls come one after the other, but for `extend`
/// while it works.
#[async_trait(?Send)]
pub trait UserLock: 'static {
    /// Connect. Called once, before anything else.
    async fn init(&mut self, info: Info) -> Result<About, Refusal>;

    /// Get `key` for `worker`; with `wait` zero, try once.
    async fn acquire(&self, worker: u32, key: &str, wait: Duration) -> Result<Granted, Refusal>;

    /// Give `key` back. After an acquire that ended in doubt this is called to clean up.
    async fn release(&self, worker: u32, key: &str) -> Result<(), Refusal>;

    /// Let the lease end `ttl` from now; returns the new validity, where the library tells.
    async fn extend(
        &self,
        _worker: u32,
        _key: &str,
        _ttl: Duration,
    ) -> Result<Option<Duration>, Refusal> {
        Err(Refusal::new("unsupported"))
    }

    /// Does the library still believe that `worker` holds `key`?
    async fn held(&self, _worker: u32, _key: &str) -> Result<bool, Refusal> {
        Err(Refusal::new("unsupported"))
    }

    /// Let go of everything; the process ends after it.
    async fn close(&self) {}

    /// How many commands were sent to servers since `init`, where that is counted: what a grant costs in messages.
    fn messages(&self) -> Option<u64> {
        None
    }
}

/// Serve `lock` on standard input and output until `close`, or until the harness closes the pipe.
///
/// Needs a tokio runtime with time and I/O enabled; a current-thread one is fastest.
///
/// # Panics
/// When `lock` panics in `init` or `close`.
pub async fn serve<L: UserLock>(lock: L) -> std::io::Result<()> {
    // A task, not the set's main future: each task that the main future spawns costs a write to wake the runtime.
    LocalSet::new().run_until(spawned(lock)).await
}

/// As [`serve`], where tasks can be spawned locally already.
pub(super) async fn spawned<L: UserLock>(lock: L) -> std::io::Result<()> {
    match tokio::task::spawn_local(run(lock)).await {
        Ok(served) => served,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(error) => Err(std::io::Error::other(error)),
    }
}

async fn run<L: UserLock>(mut lock: L) -> std::io::Result<()> {
    let (mut source, mut sink) = stdio()?;
    let out = Rc::new(Out::default());
    let ended = {
        let talk = async {
            let mut lines = Lines::default();
            let Some(()) = handshake(&mut lock, &mut lines, &mut source, &out).await? else {
                return Ok(());
            };
            let lock = Rc::new(lock);
            while let Some(line) = lines.next(&mut source).await? {
                if let Some(end) = start(&lock, line, &out) {
                    lock.close().await;
                    let messages = lock.messages();
                    out.push(|o| wire::write_ok(end, &Reply::Closed { messages }, None, o));
                    break;
                }
            }
            Ok(())
        };
        tokio::select! {
            ended = talk => ended,
            ended = out.pump(&mut sink) => ended,
            () = beat() => Ok(()),
        }
    };
    let flush = out.write_all(&mut sink);
    let _ = tokio::time::timeout(Duration::from_secs(1), flush).await;
    ended
}

/// Never ends. tokio wakes itself by a write(2) for each timer that is due before all others; as this one is always due
/// soon, the deadline of a call never is, and a call costs no such write.
async fn beat() {
    loop {
        tokio::time::sleep(BEAT).await;
    }
}

/// Answer lines until an `init` succeeds; none when the input ended before.
async fn handshake<L: UserLock>(
    lock: &mut L,
    lines: &mut Lines,
    source: &mut super::stdio::Source,
    out: &Rc<Out>,
) -> std::io::Result<Option<()>> {
    while let Some(line) = lines.next(source).await? {
        let Some(request) = parse(line, out) else {
            continue;
        };
        let id = request.id;
        if request.op != "init" {
            out.push(|o| wire::write_error(Some(id), true, "not-initialised", None, None, o));
            continue;
        }
        let init: Init = match serde_json::from_slice(line) {
            Ok(init) => init,
            Err(e) => {
                let why = e.to_string();
                out.push(|o| wire::write_error(Some(id), true, "bad-request", Some(&why), None, o));
                continue;
            }
        };
        let notifier = Notifier(out.clone());
        match lock.init(Info { init, notifier }).await {
            Ok(about) => {
                out.push(|o| wire::write_about(id, &about, o));
                return Ok(Some(()));
            }
            Err(refusal) => refuse(out, id, Op::Other, None, &refusal),
        }
    }
    Ok(None)
}

/// Begin to serve one line; returns the id of a `close`.
fn start<L: UserLock>(lock: &Rc<L>, line: &[u8], out: &Rc<Out>) -> Option<u64> {
    let request = parse(line, out)?;
    let (id, worker) = (request.id, request.worker);
    let millis = Duration::from_millis;
    let done = |validity: Option<Duration>| Reply::Done {
        validity_ms: validity.map(in_ms),
    };
    let key = request.key.clone().into_owned();
    let (lock, out) = (lock.clone(), out.clone());
    match &*request.op {
        "acquire" => {
            let (wait, limit) = (millis(request.wait_ms), millis(request.timeout_ms));
            spawn(out, id, Op::Acquire, async move {
                let acquire = lock.acquire(worker, &key, wait);
                let granted = if limit.is_zero() {
                    acquire.await?
                } else {
                    tokio::time::timeout(limit, acquire)
                        .await
                        .map_err(|_| Refusal::new("timeout"))??
                };
                Ok(Reply::Granted {
                    owner: granted.owner,
                    validity_ms: granted.validity.map(in_ms),
                    token: granted.token,
                })
            });
        }
        "release" => spawn(out, id, Op::Release, async move {
            lock.release(worker, &key).await.map(|()| done(None))
        }),
        "extend" => {
            let ttl = millis(request.ttl_ms);
            spawn(out, id, Op::Extend, async move {
                lock.extend(worker, &key, ttl).await.map(done)
            });
        }
        "held" => spawn(out, id, Op::Other, async move {
            lock.held(worker, &key).await.map(Reply::Held)
        }),
        "work" if request.ms > 0 => {
            let length = millis(request.ms);
            spawn(out, id, Op::Other, async move {
                tokio::time::sleep(length).await;
                Ok(done(None))
            });
        }
        "work" | "tick" => answer(&out, id, Op::Other, None, Ok(done(None))),
        "close" => return Some(id),
        "init" => {
            let refusal = Refusal::new("bad-request").because("`init` comes once");
            refuse(&out, id, Op::Other, None, &refusal);
        }
        other => {
            let refusal = Refusal::new("unsupported").because(format!("no operation `{other}`"));
            refuse(&out, id, Op::Other, None, &refusal);
        }
    }
    None
}

/// Serve a request beside the others. A panic of the lock is an answer too: nobody knows what it had done.
fn spawn(
    out: Rc<Out>,
    id: u64,
    op: Op,
    task: impl Future<Output = Result<Reply, Refusal>> + 'static,
) {
    tokio::task::spawn_local(async move {
        let called = Instant::now();
        let reply = AssertUnwindSafe(task).catch_unwind().await;
        let took = called.elapsed();
        let reply = reply.unwrap_or_else(|_| Err(Refusal::new("crash")));
        answer(&out, id, op, Some(took), reply);
    });
}

fn in_ms(d: Duration) -> f64 {
    d.as_secs_f64() * 1e3
}

fn parse<'a>(line: &'a [u8], out: &Out) -> Option<RequestLine<'a>> {
    match serde_json::from_slice(line) {
        Ok(request) => Some(request),
        Err(e) => {
            let shown: String = String::from_utf8_lossy(line).chars().take(200).collect();
            let why = format!("{e} in `{shown}`; see PROTOCOL.md");
            out.push(|o| wire::write_error(None, true, "bad-request", Some(&why), None, o));
            None
        }
    }
}

fn answer(out: &Out, id: u64, op: Op, took: Option<Duration>, reply: Result<Reply, Refusal>) {
    match reply {
        Ok(reply) => out.push(|o| wire::write_ok(id, &reply, took, o)),
        Err(refusal) => refuse(out, id, op, took, &refusal),
    }
}

fn refuse(out: &Out, id: u64, op: Op, took: Option<Duration>, refusal: &Refusal) {
    let definite = definite(&refusal.code, op);
    let message = refusal.message.as_deref();
    out.push(|o| wire::write_error(Some(id), definite, &refusal.code, message, took, o));
}

/// Lines out of chunks; the line lent is gone at the next call.
#[derive(Debug, Default)]
struct Lines {
    bytes: Vec<u8>,
    from: usize,
    /// Up to here there is no newline.
    seen: usize,
}

impl Lines {
    /// The next line, without its newline; none at the end of the input. Cancel-safe.
    async fn next(&mut self, source: &mut super::stdio::Source) -> std::io::Result<Option<&[u8]>> {
        loop {
            if let Some(len) = memchr(&self.bytes[self.seen..]) {
                let (from, end) = (self.from, self.seen + len);
                (self.from, self.seen) = (end + 1, end + 1);
                if self.bytes[from..end].trim_ascii().is_empty() {
                    continue;
                }
                return Ok(Some(&self.bytes[from..end]));
            }
            self.bytes.drain(..self.from);
            (self.from, self.seen) = (0, self.bytes.len());
            if self.bytes.len() > LINE_MAX {
                return Err(std::io::Error::other("a request longer than 1 MiB"));
            }
            if source.read(&mut self.bytes).await? == 0 {
                return Ok(None);
            }
        }
    }
}

fn memchr(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|b| *b == b'\n')
}
