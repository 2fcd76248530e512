//! A conformance run: does an adapter keep to PROTOCOL.md? Plain answers, one a rule.
//!
//! Owns what is asked, in which order, and how an answer is graded. Must not know where the servers come from: it sees
//! them through [`Servers`]. Findings go to `fencepost adapter check`. Judges the adapter, not the lock: what a lock
//! does under faults is found by runs.
//!
//! | file | owns |
//! |---|---|
//! | `subject` | one adapter process, asked with deadlines, and what it did unasked |
//! | `locking` | the operations of one lock |
//! | `traffic` | many requests at once, and what the protocol does not know |
//! | `trouble` | servers that hang; a process that is stopped |
//! | `ending` | the three ways in which an adapter should end, and what comes before `init` |
mod ending;
mod locking;
mod subject;
mod traffic;
mod trouble;

use super::process::ClientSpec;
use super::wire::Init;
use crate::reaper::Reaper;
use async_trait::async_trait;
use std::time::Duration;

/// Longest that an adapter may take to answer anything; far more than any rule asks for.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// How one rule was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grade {
    /// Kept.
    Ok,
    /// No mistake of the adapter, but worth knowing: what cannot be judged, or what the library itself does.
    Note,
    /// Broken.
    Wrong,
    /// Something earlier stood in the way.
    NotTried,
}

impl Grade {
    /// `ok`, `note`, `wrong`, `not tried`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Wrong => "wrong",
            Self::NotTried => "not tried",
        }
    }
}

/// One rule and what was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Name of the rule, from [`RULES`].
    pub rule: &'static str,
    /// How it was kept.
    pub grade: Grade,
    /// What was seen; text of an adapter in it is escaped.
    pub seen: String,
    /// Where in PROTOCOL.md the rule stands.
    pub page: &'static str,
}

/// The rules in the order of the report: name, and the place in PROTOCOL.md.
pub const RULES: &[(&str, &str)] = &[
    ("handshake", "Requests, init"),
    ("acquire", "Requests, acquire"),
    ("key", "Requests, init: `prefix`"),
    ("owner", "Requests, acquire: `owner`"),
    ("lease", "Requests, init: `ttl_ms`"),
    ("validity", "Requests, acquire: `validity_ms`"),
    ("one-try", "Requests, acquire: `wait_ms` 0"),
    ("workers", "Rules, 3"),
    ("second-key", "Requests, acquire"),
    ("held", "Requests, held"),
    ("work", "Requests, work"),
    ("extend", "Requests, extend"),
    ("extend-in-work", "Rules, 3"),
    ("release", "Requests, release"),
    ("release-twice", "Errors: `not-held`, `not-owner`"),
    ("not-mine", "Errors: `not-owner`"),
    ("tick", "Requests, tick"),
    ("unknown-op", "Rules, 6"),
    ("unknown-field", "Rules, 6"),
    ("concurrency", "Rules, 3"),
    ("flood", "Rules, 2"),
    ("disturb", "Requests, cancel, interrupt, drop, kill-thread"),
    ("stopped", "Rules: stopped and continued at any moment"),
    (
        "server-hangs",
        "Requests, init: `node_timeout_ms`; Rules, 4",
    ),
    ("server-back", "Rules, 4"),
    ("before-init", "Errors: `not-initialised`"),
    ("close", "Requests, close"),
    ("end-of-input", "Rules, 7"),
    ("sigterm", "Rules: killed at any moment"),
    ("answers", "Rules, 2: every request is answered, once"),
    ("output", "Rules, 1"),
];

/// A lock key as one server holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held {
    /// No such key.
    Nothing,
    /// A string, and the time left, in ms (-1: none).
    Text(String, i64),
    /// Another type (such as `hash`), whether `owner` is a field or member of it, and the time left.
    Other(String, bool, i64),
    /// What goes with a session or a lease, by its owner; how much time is left is not told.
    Session(String),
}

impl Held {
    /// The time left, in ms (-1: none), where it is told.
    fn left(&self) -> Option<i64> {
        match self {
            Self::Text(_, left) | Self::Other(_, _, left) => Some(*left),
            Self::Nothing | Self::Session(_) => None,
        }
    }
}

/// The servers, beside the adapter's own connections.
#[async_trait(?Send)]
pub trait Servers {
    /// Addresses as client `c1` or `c2` reaches them.
    fn nodes(&self, client: &str) -> Vec<std::net::SocketAddr>;
    /// What each server holds under this full key; `owner` is looked for in hashes.
    async fn read(&self, key: &str, owner: &str) -> Result<Vec<Held>, String>;
    /// Full keys on all servers that hold `part` somewhere in their name.
    async fn keys_with(&self, part: &str) -> Result<Vec<String>, String>;
    /// Delete the key on every server.
    async fn delete(&self, key: &str) -> Result<(), String>;
    /// Every server hangs: it accepts connections and answers nothing.
    async fn hang(&self) -> Result<(), String>;
    /// They go on, with all that came meanwhile.
    async fn go_on(&self) -> Result<(), String>;
}

/// What is tested, and with what.
pub struct Setup<'a> {
    /// How to start the adapter; name and log are set for each process.
    pub spec: ClientSpec,
    /// Folder for the logs.
    pub logs: std::path::PathBuf,
    /// The handshake; nodes are set for each process.
    pub init: Init,
    /// Longest that it may take to start and give its first answer.
    pub start_limit: Duration,
    /// Ends what is left.
    pub reaper: &'a Reaper,
    /// The servers.
    pub servers: &'a dyn Servers,
}

/// Why the rest of a part cannot be tried.
struct Stop {
    why: String,
    /// The adapter gave no answer, or is gone.
    silent: bool,
}

impl Stop {
    /// The adapter gave no answer, or is gone.
    fn silent(why: String) -> Self {
        Self { why, silent: true }
    }
}

impl From<String> for Stop {
    fn from(why: String) -> Self {
        Self { why, silent: false }
    }
}

/// A part of the run: rules that share processes.
type Part = Result<(), Stop>;

/// What was found so far.
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, rule: &'static str, grade: Grade, seen: impl Into<String>) {
        let page = RULES.iter().find(|(name, _)| *name == rule).map(|r| r.1);
        debug_assert!(page.is_some(), "{rule} is no rule");
        let seen = seen.into();
        let page = page.unwrap_or_default();
        self.0.push(Finding {
            rule,
            grade,
            seen,
            page,
        });
    }

    fn ok(&mut self, rule: &'static str, seen: impl Into<String>) {
        self.add(rule, Grade::Ok, seen);
    }

    fn note(&mut self, rule: &'static str, seen: impl Into<String>) {
        self.add(rule, Grade::Note, seen);
    }

    fn wrong(&mut self, rule: &'static str, seen: impl Into<String>) {
        self.add(rule, Grade::Wrong, seen);
    }

    fn not_tried(&mut self, rule: &'static str, why: impl Into<String>) {
        self.add(rule, Grade::NotTried, why);
    }

    /// The lock key is not where the servers were asked for it: what they hold says nothing.
    fn astray(&self) -> bool {
        self.0
            .iter()
            .any(|f| f.rule == "key" && f.grade == Grade::Wrong)
    }

    /// The rules in their order; one that was never reached says why.
    fn complete(mut self, why: &str) -> Vec<Finding> {
        for (rule, _) in RULES {
            if !self.0.iter().any(|f| f.rule == *rule) {
                self.add(rule, Grade::NotTried, why);
            }
        }
        let place = |f: &Finding| RULES.iter().position(|(name, _)| *name == f.rule);
        self.0.sort_by_key(place);
        self.0
    }
}

/// The whole run. `progress` is told each part's name.
pub async fn check(setup: &Setup<'_>, progress: impl Fn(&str)) -> Vec<Finding> {
    let mut findings = Findings(Vec::new());
    let mut first_stop: Option<Stop> = None;
    let mut keep = |part: Part| {
        if let Err(stop) = part {
            first_stop.get_or_insert(stop);
        }
    };
    progress("two processes and one lock");
    let mut unasked = Vec::new();
    let first = locking::part(setup, &mut findings, &mut unasked).await;
    // One that does not answer the simplest requests is not kept waiting for at every other.
    let lives = first.is_ok();
    keep(first);
    if lives {
        progress("many requests at once");
        keep(traffic::part(setup, &mut findings, &mut unasked).await);
        progress("servers that hang, a process that is stopped");
        keep(trouble::part(setup, &mut findings, &mut unasked).await);
        progress("the ways to end");
        keep(ending::part(setup, &mut findings, &mut unasked).await);
    }
    match &unasked[..] {
        [] if lives => findings.ok("output", "answers and nothing else"),
        [] => {}
        [one] => findings.wrong("output", one.clone()),
        [one, rest @ ..] => findings.wrong("output", format!("{one}; and {} more", rest.len())),
    }
    // What ended a part may stand under no rule of it.
    match &first_stop {
        Some(stop) if stop.silent => findings.wrong("answers", stop.why.clone()),
        None => findings.ok("answers", "to all that it was asked"),
        Some(_) => {}
    }
    findings.complete(first_stop.as_ref().map_or("", |stop| &stop.why))
}
