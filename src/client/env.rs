//! The locks' seam on tokio's clock and real connections.
//!
//! Owns [`WorkerEnv`], one a worker. Must not know any lock. Commands go to `resp`.
use super::members::{Members, Tongue};
use super::route::Route;
use crate::lock::{CallError, Cmd, Cut, Env, Reply, Script, ScriptId, ms};
use crate::resp::{Break, Resp, RespError};
use futures_util::future::{Either, LocalBoxFuture};
use rand::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use redis::Value;
use std::cell::{OnceCell, RefCell};
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// One connection to every node.
type Links = Rc<[Resp]>;

/// What the workers of a client share.
#[derive(Debug)]
pub(super) struct Shared {
    nodes: Vec<SocketAddr>,
    connect_limit: Duration,
    /// Set where all workers share one connection a node.
    links: Option<Links>,
    /// Set where the lock talks to one node, the primary, which may change.
    pub(super) route: Option<Route>,
    start: Instant,
    random: RefCell<Xoshiro256PlusPlus>,
    /// Set where the servers are members of one cluster.
    members: Option<Members>,
    /// SHA-1 of each script, as a server computed it.
    hashes: [OnceCell<String>; ScriptId::ALL.len()],
}

impl Shared {
    /// Connections are made at first use; `per_worker`: one a worker and node, else one a node; `tongue`: to members of a
    /// cluster that speaks it.
    pub(super) fn new(
        nodes: Vec<SocketAddr>,
        connect_limit: Duration,
        per_worker: bool,
        route: Option<Route>,
        tongue: Option<Tongue>,
    ) -> Self {
        let mut shared = Self {
            members: tongue.map(|t| Members::new(t, &nodes, connect_limit)),
            nodes,
            connect_limit,
            links: None,
            route,
            start: Instant::now(),
            random: RefCell::new(Xoshiro256PlusPlus::from_os_rng()),
            hashes: [const { OnceCell::new() }; ScriptId::ALL.len()],
        };
        shared.links = (!per_worker).then(|| shared.connect());
        shared
    }

    fn connect(&self) -> Links {
        let link = |addr: &SocketAddr| Resp::new(*addr, self.connect_limit);
        self.nodes.iter().map(link).collect()
    }

    /// The environment of one more worker.
    pub(super) fn worker(self: &Rc<Self>) -> WorkerEnv {
        WorkerEnv {
            links: self.links.clone().unwrap_or_else(|| self.connect()),
            shared: self.clone(),
        }
    }
}

/// The world as one worker's lock sees it.
#[derive(Debug, Clone)]
pub(super) struct WorkerEnv {
    shared: Rc<Shared>,
    links: Links,
}

impl WorkerEnv {
    /// Make every connection and load every script, so that neither costs the first operation. Nodes that do not answer
    /// within `limit` are left for later.
    pub(super) async fn warm_up(&self, limit: Duration) {
        if let Some(members) = &self.shared.members {
            let _ = tokio::time::timeout(limit, members.warm_up()).await;
            return;
        }
        let calls = self.links.iter().map(|link| async move {
            for id in ScriptId::ALL {
                let mut load = redis::cmd("SCRIPT");
                load.arg("LOAD").arg(id.text());
                match link.call(&load).await {
                    Ok(Value::BulkString(hash)) => {
                        let hash = String::from_utf8_lossy(&hash).into_owned();
                        let _ = self.shared.hashes[id as usize].set(hash);
                    }
                    _ => return,
                }
            }
        });
        let _ = tokio::time::timeout(limit, futures_util::future::join_all(calls)).await;
    }

    /// `EVALSHA`, where the hash is known; else `EVAL`.
    fn script(&self, script: Script<'_>) -> redis::Cmd {
        let id = script.id();
        let hash = self.shared.hashes[id as usize].get();
        let mut cmd = redis::cmd(if hash.is_some() { "EVALSHA" } else { "EVAL" });
        cmd.arg(hash.map_or(id.text(), String::as_str));
        let (key, second) = script.keys();
        cmd.arg(1 + usize::from(second.is_some()))
            .arg(key)
            .arg(second);
        let (owner, ttl) = script.args();
        cmd.arg(owner).arg(ttl);
        cmd
    }

    /// Runs a script by its hash and, where the server does not know it (it was restarted), by its text. That goes on
    /// when the caller gives up: an unlock that nobody waits for must still arrive, or the key stays for its whole TTL.
    fn run(&self, node: usize, script: Script<'_>) -> GoesOn {
        let link = self.links[node].clone();
        let (id, cmd) = (script.id(), self.script(script));
        let answer = link.call(&cmd);
        let work = async move {
            match reply(answer.await) {
                // A definite refusal: nothing was executed, so the text may follow.
                Err(CallError::Server(word)) if word == "NOSCRIPT" => {
                    reply(link.call(&by_text(id, &cmd)).await)
                }
                answer => answer,
            }
        };
        GoesOn(Some(Box::pin(work)))
    }
}

/// The command that runs by its text what `by_hash` asks for.
fn by_text(id: ScriptId, by_hash: &redis::Cmd) -> redis::Cmd {
    let mut cmd = redis::cmd("EVAL");
    cmd.arg(id.text());
    for arg in by_hash.args_iter().skip(2) {
        if let redis::Arg::Simple(bytes) = arg {
            cmd.arg(bytes);
        }
    }
    cmd
}

/// Work that is done to its end, in a task of its own where it is given up.
struct GoesOn(Option<LocalBoxFuture<'static, Result<Reply, CallError>>>);

impl Future for GoesOn {
    type Output = Result<Reply, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(work) = &mut self.0 else {
            return Poll::Pending;
        };
        let answer = std::task::ready!(work.as_mut().poll(cx));
        self.0 = None;
        Poll::Ready(answer)
    }
}

impl Drop for GoesOn {
    fn drop(&mut self) {
        if let Some(work) = self.0.take()
            && !std::thread::panicking()
        {
            tokio::task::spawn_local(work);
        }
    }
}

impl Env for WorkerEnv {
    fn now(&self) -> Duration {
        self.shared.start.elapsed()
    }

    fn wall(&self) -> Duration {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.unwrap_or_default()
    }

    fn sleep(&self, length: Duration) -> impl Future<Output = ()> {
        tokio::time::sleep(length)
    }

    fn call(&self, node: usize, cmd: Cmd<'_>) -> impl Future<Output = Result<Reply, CallError>> {
        let node = self.shared.route.as_ref().map_or(node, Route::node);
        let packed = match cmd {
            Cmd::SetNxPx { key, value, ttl } => {
                let mut c = redis::cmd("SET");
                c.arg(key).arg(value).arg("NX").arg("PX").arg(ms(ttl));
                c
            }
            Cmd::SetNx { key, value } => {
                let mut c = redis::cmd("SET");
                c.arg(key).arg(value).arg("NX");
                c
            }
            Cmd::Get { key } => one("GET", key),
            Cmd::Del { key } => one("DEL", key),
            Cmd::PExpire { key, ttl } => {
                let mut c = one("PEXPIRE", key);
                c.arg(ms(ttl));
                c
            }
            Cmd::Wait { replicas, timeout } => {
                let mut c = redis::cmd("WAIT");
                c.arg(replicas).arg(ms(timeout));
                c
            }
            Cmd::Run(script) => return Either::Left(Either::Left(self.run(node, script))),
            Cmd::Kv(kv) => {
                let members = self.shared.members.as_ref();
                return Either::Left(Either::Right(async move {
                    match members {
                        Some(members) => members.ask(node, kv).await,
                        None => Err(CallError::NotSent(Cut::Refused)),
                    }
                }));
            }
        };
        let answer = self.links[node].call(&packed);
        Either::Right(async move { reply(answer.await) })
    }

    fn random(&self) -> u64 {
        self.shared.random.borrow_mut().next_u64()
    }

    fn nodes(&self) -> usize {
        if self.shared.route.is_some() {
            return 1;
        }
        if let Some(members) = &self.shared.members {
            return members.count();
        }
        self.links.len()
    }
}

fn one(name: &str, key: &str) -> redis::Cmd {
    let mut cmd = redis::cmd(name);
    cmd.arg(key);
    cmd
}

fn reply(answer: Result<Value, RespError>) -> Result<Reply, CallError> {
    match answer {
        Ok(Value::Okay) => Ok(Reply::Ok),
        Ok(Value::Nil) => Ok(Reply::Nil),
        Ok(Value::Int(n)) => Ok(Reply::Int(n)),
        Ok(Value::BulkString(bytes)) => {
            Ok(Reply::Text(String::from_utf8_lossy(&bytes).into_owned()))
        }
        Ok(Value::SimpleString(text)) => Ok(Reply::Text(text)),
        Ok(Value::ServerError(error)) => Err(CallError::Server(error.code().to_owned())),
        Ok(_) => Err(CallError::Unknown(Cut::Garbled)),
        Err(RespError::NotSent(why)) => Err(CallError::NotSent(cut(why))),
        Err(RespError::Unknown(why)) => Err(CallError::Unknown(cut(why))),
    }
}

pub(super) fn cut(why: Break) -> Cut {
    match why {
        Break::Refused => Cut::Refused,
        Break::Reset => Cut::Reset,
        Break::Backlog => Cut::Backlog,
        Break::Garbled => Cut::Garbled,
    }
}
