//! One adapter process under test: asked with deadlines, and what it did unasked.
//!
//! Owns the process and its words. Must not know the rules. Whatever goes wrong here stops a part, never the harness.
use super::{ANSWER_LIMIT, Setup, Stop};
use crate::client::errors::{self, Op};
use crate::client::process::{ClientProcess, ClientSpec, Failure, Notice};
use crate::client::wire::{About, Init, Reply, Request};
use crate::record::Clock;
use crate::words::chain;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// How long after the end of its output a process may take to be gone; one that only closed its output stays.
const REAPED: Duration = Duration::from_secs(1);

/// What came of a request, and how long it took.
pub(super) struct Said {
    pub(super) result: Result<Reply, Failure>,
    pub(super) took: Duration,
}

impl Said {
    /// In words: `ok`, `fail held`, `info timeout`.
    pub(super) fn words(&self) -> String {
        match &self.result {
            Ok(_) => "`ok`".to_owned(),
            Err(f) if f.definite => format!("`fail`, `{}`", f.code),
            Err(f) => format!("`info`, `{}`", f.code),
        }
    }

    pub(super) fn code(&self) -> &str {
        self.result.as_ref().err().map_or("", |f| &f.code)
    }

    pub(super) fn definite(&self) -> bool {
        self.result.as_ref().is_err_and(|f| f.definite)
    }

    pub(super) fn unsupported(&self) -> bool {
        self.code() == "unsupported"
    }

    /// Why the adapter's code is none of the table, or means nothing here.
    pub(super) fn unknown_code(&self, op: Op) -> Option<String> {
        let code = self.code();
        if code.is_empty() {
            return None;
        }
        let Some(row) = errors::error_info(code) else {
            return Some(format!("`{code}` is no code of the table"));
        };
        let says = match op {
            Op::Acquire => row.acquire,
            Op::Release => row.release,
            Op::Extend => row.extend,
            Op::Other => return None,
        };
        (says == errors::Says::Never).then(|| format!("`{code}` means nothing for this operation"))
    }
}

/// An adapter process.
pub(super) struct Subject {
    pub(super) process: ClientProcess,
    notices: UnboundedReceiver<Notice>,
    /// Notices that a lock was lost.
    pub(super) lost: u32,
    /// How it ended, once it did.
    pub(super) ended: Option<String>,
    misdeeds: Vec<String>,
}

impl Subject {
    /// Start a process as client `name`; `init` is not sent yet.
    pub(super) fn start(setup: &Setup<'_>, name: &str) -> Result<Self, Stop> {
        let spec = ClientSpec {
            name: name.to_owned(),
            log: setup.logs.join(format!("{name}.log")),
            ..setup.spec.clone()
        };
        let (sender, notices) = unbounded_channel();
        let process = ClientProcess::spawn(spec, Clock::start(), setup.reaper, sender)
            .map_err(|e| Stop::from(chain(&e)))?;
        Ok(Self {
            process,
            notices,
            lost: 0,
            ended: None,
            misdeeds: Vec::new(),
        })
    }

    /// Start a process and shake hands.
    pub(super) async fn ready(setup: &Setup<'_>, name: &str) -> Result<(Self, About), Stop> {
        let subject = Self::start(setup, name)?;
        let link = if name.ends_with('2') { "c2" } else { "c1" };
        let init = Init {
            nodes: setup.servers.nodes(link),
            ..setup.init.clone()
        };
        match subject.process.init(&init, setup.start_limit).await {
            Ok(about) => Ok((subject, about)),
            Err(error) => Err(Stop::from(chain(&error))),
        }
    }

    /// Ask; no answer in time, or no process, stops the part.
    pub(super) async fn ask(&mut self, request: Request) -> Result<Said, Stop> {
        let what = name_of(&request);
        let began = Instant::now();
        let answer = self.process.request(request, ANSWER_LIMIT).await;
        let took = began.elapsed();
        self.said(what, answer.result, took).await
    }

    /// Ask what no [`Request`] is.
    pub(super) async fn ask_line(
        &mut self,
        op: Op,
        what: &str,
        line: impl FnOnce(u64) -> serde_json::Value,
    ) -> Result<Said, Stop> {
        let began = Instant::now();
        let answer = self.process.request_line(op, line, ANSWER_LIMIT).await;
        let took = began.elapsed();
        self.said(what, answer.result, took).await
    }

    async fn said(
        &mut self,
        what: &str,
        result: Result<Reply, Failure>,
        took: Duration,
    ) -> Result<Said, Stop> {
        if matches!(&result, Err(f) if f.code == "client-died") {
            // Its output ends before it does: how it ended is known a moment later.
            let _ = self.ends_within(REAPED).await;
        }
        self.listen();
        let name = self.process.name();
        match result.as_ref().err().map(|f| &*f.code) {
            Some("deadline") => Err(Stop::silent(format!(
                "{name} gave no answer to `{what}` within {} s",
                ANSWER_LIMIT.as_secs()
            ))),
            Some("client-died" | "client-gone") => {
                let how = self.ended.as_deref().unwrap_or("it closed its output");
                Err(Stop::silent(format!("{name} ended at `{what}`: {how}")))
            }
            Some("client-backlog") => {
                Err(Stop::silent(format!("{name} does not read its requests")))
            }
            _ => Ok(Said { result, took }),
        }
    }

    pub(super) async fn acquire(&mut self, worker: u32, key: &str) -> Result<Said, Stop> {
        self.ask(acquire(worker, key)).await
    }

    pub(super) async fn release(&mut self, worker: u32, key: &str) -> Result<Said, Stop> {
        let key = key.to_owned();
        self.ask(Request::Release { worker, key }).await
    }

    /// Take in what came unasked.
    fn listen(&mut self) {
        while let Ok(notice) = self.notices.try_recv() {
            match notice {
                Notice::Lost { .. } => self.lost += 1,
                Notice::Misbehaved { client, what, .. } => {
                    self.misdeeds.push(format!("{client} {what}"));
                }
                Notice::Died { status, .. } => self.ended = Some(status),
            }
        }
    }

    /// Wait until it has ended by itself; how.
    pub(super) async fn ends_within(&mut self, limit: Duration) -> Option<String> {
        let ended = tokio::time::timeout(limit, self.process.ended()).await;
        self.listen();
        ended.ok()?;
        Some(self.ended.clone().unwrap_or_else(|| "ended".to_owned()))
    }

    /// End it, and hand over what it did against the rules.
    pub(super) async fn finish(mut self, unasked: &mut Vec<String>) {
        self.process.shutdown(Duration::from_secs(2)).await;
        self.listen();
        unasked.append(&mut self.misdeeds);
    }
}

/// One try.
pub(super) fn acquire(worker: u32, key: &str) -> Request {
    Request::Acquire {
        worker,
        key: key.to_owned(),
        wait_ms: 0,
        timeout_ms: u64::try_from(ANSWER_LIMIT.as_millis()).unwrap_or(u64::MAX),
    }
}

fn name_of(request: &Request) -> &'static str {
    match request {
        Request::Acquire { .. } => "acquire",
        Request::Release { .. } => "release",
        Request::Extend { .. } => "extend",
        Request::Work { .. } => "work",
        Request::Held { .. } => "held",
        Request::Tick { .. } => "tick",
        Request::Disturb { what, .. } => what.name(),
        Request::Close => "close",
    }
}
