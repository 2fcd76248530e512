//! The built-in locks as a client: the hidden command `fencepost client`.
//!
//! Owns what each worker holds, and turns lock errors into codes of the published table. Must not know the algorithms
//! (`lock`) or the lines (`serve`).
use super::env::{Shared, WorkerEnv};
use super::errors::{Op, definite, server_code};
use super::members::Tongue;
use super::route::Route;
use super::serve::{Granted, Info, Notifier, Refusal, UserLock, spawned};
use super::wire::About;
use crate::lock::{
    CallError, Cut, Env, Held, Lock, LockError, Settings, build, lock_info, owner_value,
};
use async_trait::async_trait;
use std::cell::RefCell;
use std::collections::HashMap;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;
use tokio::runtime::LocalOptions;

/// The driver of locks on Redis.
const REDIS: &str = "fencepost's own connection; parser of redis-rs";

/// A built-in lock; which one, the command line or `init` says.
pub struct Builtin {
    name: Option<String>,
    open: Option<Open>,
}

/// After `init`.
struct Open {
    lock: Box<dyn Lock<WorkerEnv>>,
    prefix: String,
    shared: Rc<Shared>,
    workers: RefCell<HashMap<u32, Worker>>,
    /// Set where the lock lives in a session, whose loss is told.
    session: Option<Notifier>,
    /// Requests that made connections ready: no part of what a lock costs.
    sent_before: u64,
}

struct Worker {
    env: WorkerEnv,
    /// By lock key, without the prefix.
    held: HashMap<String, Record>,
}

/// What a worker knows of a lock: after an attempt in doubt, only the value that may be on the servers.
#[derive(Debug, Clone)]
struct Record {
    owner: String,
    until: Option<Duration>,
    sure: bool,
}

impl Builtin {
    /// The lock `name`, or the one that `init` names.
    pub fn new(name: Option<String>) -> Self {
        Self { name, open: None }
    }

    fn open(&self) -> Result<&Open, Refusal> {
        self.open
            .as_ref()
            .ok_or_else(|| Refusal::new("not-initialised"))
    }
}

impl Open {
    fn env(&self, worker: u32) -> WorkerEnv {
        let mut workers = self.workers.borrow_mut();
        let worker = workers.entry(worker).or_insert_with(|| Worker {
            env: self.shared.worker(),
            held: HashMap::new(),
        });
        worker.env.clone()
    }

    fn record(&self, worker: u32, key: &str) -> Option<Record> {
        self.workers.borrow().get(&worker)?.held.get(key).cloned()
    }

    fn put(&self, worker: u32, key: &str, record: Record) {
        if let Some(worker) = self.workers.borrow_mut().get_mut(&worker) {
            worker.held.insert(key.to_owned(), record);
        }
    }

    fn forget(&self, worker: u32, key: &str) {
        if let Some(worker) = self.workers.borrow_mut().get_mut(&worker) {
            worker.held.remove(key);
        }
    }

    fn name(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }
}

#[async_trait(?Send)]
impl UserLock for Builtin {
    async fn init(&mut self, info: Info) -> Result<About, Refusal> {
        let init = info.init;
        let bad = |why: String| Refusal::new("bad-request").because(why);
        let name = self
            .name
            .clone()
            .or_else(|| init.lock.clone())
            .ok_or_else(|| bad("which built-in lock?".into()))?;
        let fencing = match init.options.get("fencing") {
            None => false,
            Some(value) => value
                .as_bool()
                .ok_or_else(|| bad("option `fencing` is true or false".into()))?,
        };
        let per_worker = match init
            .options
            .get("connection")
            .map(serde_json::Value::as_str)
        {
            None | Some(Some("shared")) => false,
            Some(Some("worker")) => true,
            Some(_) => return Err(bad("option `connection` is `shared` or `worker`".into())),
        };
        let node_timeout = Duration::from_millis(init.node_timeout_ms.max(1));
        let wait = replicas(&init.options)?;
        let route = Route::from_options(&init.options)?;
        let settings = Settings {
            ttl: Duration::from_millis(init.ttl_ms),
            node_timeout,
            fencing,
            wait,
        };
        let lock = build(&name, settings)
            .map_err(|e| Refusal::new("unsupported").because(e.to_string()))?;
        let control = matches!(&*name, "none" | "perfect");
        if init.nodes.is_empty() && !control {
            return Err(bad("no nodes".into()));
        }
        let single = route.is_none() && init.nodes.len() > 1;
        if lock_info(&name).is_some_and(|l| l.nodes == "1") && single {
            let why = format!(
                "lock `{name}` is for one server; {} given",
                init.nodes.len()
            );
            return Err(Refusal::new("unsupported").because(why));
        }
        let nodes = if control { Vec::new() } else { init.nodes };
        let tongue = Tongue::of(&name);
        let mut open = Open {
            lock,
            prefix: init.prefix,
            shared: Rc::new(Shared::new(nodes, node_timeout, per_worker, route, tongue)),
            workers: RefCell::default(),
            session: tongue.map(|_| info.notifier),
            sent_before: 0,
        };
        let workers = init.workers.clamp(1, 4096);
        let envs: Vec<WorkerEnv> = (0..workers).map(|w| open.env(w)).collect();
        let warm = if per_worker { &envs[..] } else { &envs[..1] };
        let limit = node_timeout.max(Duration::from_secs(1));
        futures_util::future::join_all(warm.iter().map(|env| env.warm_up(limit))).await;
        if let Some(route) = &open.shared.route {
            route.ask().await;
        }
        Route::follow(&open.shared);
        open.sent_before = crate::sent::so_far();
        self.open = Some(open);
        Ok(About {
            library: format!("fencepost/{name}"),
            version: env!("CARGO_PKG_VERSION").into(),
            driver: Some(tongue.map_or(REDIS, Tongue::driver).into()),
            retries: Some(0),
            ..About::default()
        })
    }

    async fn acquire(&self, worker: u32, key: &str, _wait: Duration) -> Result<Granted, Refusal> {
        let open = self.open()?;
        let env = open.env(worker);
        let owner = owner_value(&env);
        // Written down first: the attempt may be cut short, and its value must still be known for the clean-up.
        let doubt = Record {
            owner: owner.clone(),
            until: None,
            sure: false,
        };
        open.put(worker, key, doubt);
        match open.lock.acquire(&env, &open.name(key), &owner).await {
            Ok(grant) => {
                let record = Record {
                    owner: owner.clone(),
                    until: grant.validity.map(|v| env.now() + v),
                    sure: true,
                };
                open.put(worker, key, record);
                Ok(Granted {
                    owner: Some(owner),
                    validity: grant.validity,
                    token: grant.token,
                })
            }
            Err(error) => {
                let refusal = refusal(&error);
                if definite(&refusal.code, Op::Acquire) {
                    open.forget(worker, key);
                }
                Err(refusal)
            }
        }
    }

    async fn release(&self, worker: u32, key: &str) -> Result<(), Refusal> {
        let open = self.open()?;
        let record = open
            .record(worker, key)
            .ok_or_else(|| Refusal::new("not-held"))?;
        let held = Held {
            owner: &record.owner,
            until: record.until,
        };
        let env = open.env(worker);
        let done = open.lock.release(&env, &open.name(key), held).await;
        let done = done.map_err(|error| refusal(&error));
        if done.is_ok() || done.as_ref().is_err_and(|r| definite(&r.code, Op::Release)) {
            open.forget(worker, key);
        }
        done
    }

    async fn extend(
        &self,
        worker: u32,
        key: &str,
        ttl: Duration,
    ) -> Result<Option<Duration>, Refusal> {
        let open = self.open()?;
        let record = open
            .record(worker, key)
            .filter(|r| r.sure)
            .ok_or_else(|| Refusal::new("not-held"))?;
        let held = Held {
            owner: &record.owner,
            until: record.until,
        };
        let env = open.env(worker);
        let extended = open.lock.extend(&env, &open.name(key), held, ttl).await;
        if matches!(extended, Err(LockError::NotOwner))
            && let Some(session) = &open.session
        {
            session.lost(worker, key);
            open.forget(worker, key);
        }
        let validity = extended.map_err(|error| refusal(&error))?;
        // Released or acquired anew in the meantime: then there is nothing to write down.
        if open
            .record(worker, key)
            .is_some_and(|r| r.owner == record.owner)
        {
            let until = validity.map(|v| env.now() + v);
            open.put(worker, key, Record { until, ..record });
        }
        Ok(validity)
    }

    async fn held(&self, worker: u32, key: &str) -> Result<bool, Refusal> {
        let open = self.open()?;
        let now = open.env(worker).now();
        Ok(open
            .record(worker, key)
            .is_some_and(|r| r.sure && r.until.is_none_or(|until| now < until)))
    }

    fn messages(&self) -> Option<u64> {
        let open = self.open.as_ref()?;
        Some(crate::sent::so_far() - open.sent_before)
    }
}

/// The option `wait`: how many replicas a grant waits for.
fn replicas(options: &serde_json::Map<String, serde_json::Value>) -> Result<u32, Refusal> {
    let Some(value) = options.get("wait") else {
        return Ok(0);
    };
    let number = value.as_u64().and_then(|n| u32::try_from(n).ok());
    number.ok_or_else(|| {
        Refusal::new("bad-request").because("option `wait` is a number of replicas".to_owned())
    })
}

/// The published code of a lock's error.
fn refusal(error: &LockError) -> Refusal {
    let code = match error {
        LockError::Held => "held",
        LockError::NotOwner => "not-owner",
        LockError::LeaseOver => "lease-over",
        LockError::TooLate { clean: true } => "too-late",
        LockError::TooLate { clean: false } => "too-late-unclean",
        LockError::NoQuorum { clean: true } => "no-quorum",
        LockError::NoQuorum { clean: false } => "no-quorum-unclean",
        LockError::Call(CallError::NotSent(Cut::Refused)) => "connection-refused",
        LockError::Call(CallError::NotSent(_)) => "not-sent",
        LockError::Call(CallError::Unknown(Cut::Timeout)) => "timeout",
        LockError::Call(CallError::Unknown(Cut::Garbled)) => "garbled",
        LockError::Call(CallError::Unknown(_)) => "connection-reset",
        LockError::Call(CallError::Server(word)) => {
            let code = server_code(word);
            return match code {
                "server-error" => Refusal::new(code).because(word.clone()),
                code => Refusal::new(code),
            };
        }
        LockError::Unsupported(why) => return Refusal::new("unsupported").because(*why),
    };
    Refusal::new(code)
}

/// The hidden command `fencepost client [--lock NAME]`: serve a built-in lock on standard input and output.
///
/// `args` are what follows the command's name. Exit codes: 0 after `close` or the end of the input, 64 for bad
/// arguments, 70 when standard input or output broke.
pub fn main(args: impl IntoIterator<Item = String>) -> ExitCode {
    let mut args = args.into_iter();
    let mut name = None;
    while let Some(arg) = args.next() {
        match (arg.split_once('='), &*arg) {
            (Some(("--lock", value)), _) => name = Some(value.to_owned()),
            (None, "--lock") => name = args.next(),
            _ => {
                anstream::eprintln!("error: `{arg}` is no argument of `fencepost client`");
                anstream::eprintln!("hint: fencepost client [--lock NAME]");
                return ExitCode::from(64);
            }
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default());
    let served = runtime.and_then(|runtime| {
        let served = runtime.block_on(spawned(Builtin::new(name)));
        runtime.shutdown_background();
        served
    });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            anstream::eprintln!("error: standard input or output: {error}");
            ExitCode::from(70)
        }
    }
}
