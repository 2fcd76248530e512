//! A client's pipes and its end: starts the process, writes its requests, reads its answers, keeps its standard error,
//! reaps it.
//!
//! Owns the bounds on what a client may send. Must not know what the answers mean to the driver. Answers go to whoever
//! asked, through `process`.
use super::errors::{Op, definite};
use super::process::{Answer, ClientError, ClientSpec, Failure, Inner, Notice, Waiting};
use super::signals;
use super::wire::{self, About, AnswerLine, LINE_MAX};
use crate::reaper::procs::members;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::Stdio;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};

/// Bytes read at a time.
const CHUNK: usize = 64 << 10;
/// Reads in a row before others have their turn.
const TURNS_MAX: u32 = 4;
/// Reads of what a dead client left in its pipe: more than a pipe holds, but not for ever, since a fork may babble on.
const LAST_READS: u32 = 16;
/// Bytes kept of a client's standard error.
const LOG_MAX: usize = 4 << 20;
/// Bytes that answer nothing, in a row, after which a client is killed.
const BABBLE_MAX: usize = 16 << 20;
/// What a line that answers nothing costs beside its bytes, so that empty lines are no way out.
const LINE_COST: usize = 64;
/// Lines in a row that answer nothing, after which that is told.
const IDLE_LINES: u32 = 1000;
/// Characters shown of what a client sent.
const SHOWN_MAX: usize = 160;
/// Characters shown of a message meant for people.
const MESSAGE_MAX: usize = 1000;

/// A process that was just started.
pub(super) struct Started {
    pub(super) pid: i32,
    child: Child,
    stdin: pipe::Sender,
    stdout: pipe::Receiver,
    stderr: pipe::Receiver,
    log: File,
}

/// Start the process: own group, cleared environment, three pipes.
pub(super) fn start(spec: &ClientSpec) -> Result<Started, ClientError> {
    let [program, arguments @ ..] = &spec.argv[..] else {
        return Err(ClientError::NoCommand(spec.name.clone()));
    };
    let log = File::create(&spec.log).map_err(|source| ClientError::Log {
        client: spec.name.clone(),
        log: spec.log.clone(),
        source,
    })?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(&spec.dir)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let named = spec.env.iter().map(String::as_str);
    for name in ["PATH", "HOME", "LANG"].into_iter().chain(named) {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.envs(spec.variables.iter().map(|(name, value)| (name, value)));
    let failed = |source| ClientError::Start {
        client: spec.name.clone(),
        program: program.clone(),
        source,
    };
    let mut child = command.spawn().map_err(failed)?;
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
    let gone = || failed(std::io::Error::from(ErrorKind::BrokenPipe));
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let input = |pipe: std::io::Result<_>| pipe.and_then(pipe::Receiver::from_owned_fd);
    Ok(Started {
        pid: pid.ok_or_else(gone)?,
        stdin: stdin
            .ok_or_else(gone)?
            .into_owned_fd()
            .and_then(pipe::Sender::from_owned_fd)
            .map_err(failed)?,
        stdout: input(stdout.ok_or_else(gone)?.into_owned_fd()).map_err(failed)?,
        stderr: input(stderr.ok_or_else(gone)?.into_owned_fd()).map_err(failed)?,
        child,
        log,
    })
}

/// Serve the process until it ends: four tasks.
pub(super) fn serve(inner: &Rc<Inner>, started: Started) {
    let Started {
        child,
        stdin,
        stdout,
        stderr,
        log,
        ..
    } = started;
    tokio::task::spawn_local(write(inner.clone(), stdin));
    tokio::task::spawn_local(read(inner.clone(), stdout));
    tokio::task::spawn_local(keep_log(inner.clone(), stderr, log));
    tokio::task::spawn_local(reap(inner.clone(), child));
}

/// Wait for the end, and end what it left behind in its group.
async fn reap(inner: Rc<Inner>, mut child: Child) {
    let status = match child.wait().await {
        Ok(status) if inner.put_down.get() => {
            format!("killed by the harness for its babble, {status}")
        }
        Ok(status) => status.to_string(),
        Err(e) => format!("unknown: {e}"),
    };
    let at = inner.clock.now();
    // A fork of it may live on; the group keeps its number until all of it is gone.
    if !inner.killed.get() && !inner.put_down.get() && !members(inner.pid).is_empty() {
        inner.tell(at, "ended and left a process of its own behind; killed");
    }
    let _ = signals::group(inner.pid, nix::sys::signal::Signal::SIGKILL);
    inner.reaper.forget_group(inner.pid);
    inner.close_input();
    inner.ended.send_replace(Some(status.clone()));
    let client = inner.name.clone();
    inner.notice(Notice::Died { client, at, status });
}

/// Write whole buffers, as they come; never blocks, and a stopped client only lets its queue grow.
async fn write(inner: Rc<Inner>, pipe: pipe::Sender) {
    let mut buffer = Vec::new();
    loop {
        inner.out_more.notified().await;
        std::mem::swap(&mut buffer, &mut inner.out.borrow_mut());
        let mut written = 0;
        while written < buffer.len() {
            inner.writing.set(buffer.len() - written);
            match pipe.try_write(&buffer[written..]) {
                Ok(n) => written += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => tokio::select! {
                    _ = pipe.writable() => {}
                    () = ended(&inner) => return,
                },
                Err(_) => return input_closed(&inner).await,
            }
        }
        inner.writing.set(0);
        buffer.clear();
        if inner.closed.get() && inner.out.borrow().is_empty() {
            return;
        }
        if !inner.out.borrow().is_empty() {
            inner.out_more.notify_one();
        }
    }
}

async fn ended(inner: &Inner) {
    let mut ended = inner.ended.subscribe();
    let _ = ended.wait_for(Option::is_some).await;
}

/// Whether the client ends within a moment: a closed pipe is then no misbehaviour of its own.
async fn ends_soon(inner: &Inner) -> bool {
    let moment = Duration::from_secs(1);
    tokio::time::timeout(moment, ended(inner)).await.is_ok()
}

async fn input_closed(inner: &Inner) {
    let expected = inner.closed.replace(true) || inner.leaving.get();
    let at = inner.clock.now();
    if !ends_soon(inner).await && !expected {
        inner.tell(at, "closed its standard input and lives on");
    }
}

/// Read answers until the pipe or the process ends; what a dead client left in the pipe is still read.
async fn read(inner: Rc<Inner>, mut pipe: pipe::Receiver) {
    let mut chunk = vec![0; CHUNK];
    let mut lines = Lines::default();
    let mut left = LAST_READS;
    let mut turns = 0;
    let mut end = inner.ended.subscribe();
    loop {
        let dead = inner.has_ended();
        let read = if dead {
            pipe.try_read(&mut chunk)
        } else {
            tokio::select! {
                biased;
                read = pipe.read(&mut chunk) => read,
                _ = end.wait_for(Option::is_some) => continue,
            }
        };
        let n = match read {
            Ok(0) | Err(_) => break,
            Ok(n) => n,
        };
        lines.push(&inner, &chunk[..n]);
        if lines.babble > BABBLE_MAX && !dead {
            let at = inner.clock.now();
            inner.tell(at, "babbled 16 MiB that answer nothing; killed");
            inner.put_down.set(true);
            inner.kill();
            ended(&inner).await;
        }
        if dead {
            left -= 1;
            if left == 0 {
                break;
            }
        }
        // After less than a whole chunk nothing is left, and the next read waits by itself.
        turns = if n == CHUNK { turns + 1 } else { 0 };
        if turns == TURNS_MAX {
            turns = 0;
            tokio::task::yield_now().await;
        }
    }
    let at = inner.clock.now();
    let expected = inner.closed.get() || inner.leaving.get();
    inner.fail_all();
    if !ends_soon(&inner).await && !expected {
        inner.tell(at, "closed its standard output and lives on");
    }
}

/// Lines out of chunks, none longer than [`LINE_MAX`].
#[derive(Debug, Default)]
struct Lines {
    /// The beginning of a line whose end has not come.
    carry: Vec<u8>,
    /// In a line that is too long: everything up to its end is dropped.
    skipping: bool,
    /// Bytes since the last line that answered something, and lines.
    babble: usize,
    idle: u32,
}

impl Lines {
    fn push(&mut self, inner: &Inner, mut chunk: &[u8]) {
        let at = inner.clock.now();
        self.babble += chunk.len();
        while let Some(end) = chunk.iter().position(|b| *b == b'\n') {
            let line = &chunk[..end];
            chunk = &chunk[end + 1..];
            let answered = if std::mem::take(&mut self.skipping) {
                false
            } else if self.carry.is_empty() {
                take_line(inner, line, at)
            } else {
                self.keep(inner, line, at);
                let whole = std::mem::take(&mut self.carry);
                !std::mem::take(&mut self.skipping) && take_line(inner, &whole, at)
            };
            if answered {
                (self.babble, self.idle) = (0, 0);
                continue;
            }
            self.babble += LINE_COST;
            self.idle = self.idle.saturating_add(1);
            if self.idle == IDLE_LINES {
                let shown = shown(line);
                inner.misbehaved(at, || {
                    format!(
                        "sent {IDLE_LINES} lines in a row that answer nothing, the last one {shown}"
                    )
                });
            }
        }
        self.keep(inner, chunk, at);
    }

    fn keep(&mut self, inner: &Inner, part: &[u8], at: u64) {
        if self.skipping {
            return;
        }
        if self.carry.len() + part.len() > LINE_MAX {
            inner.misbehaved(at, || {
                format!(
                    "sent a line longer than 1 MiB, beginning {}",
                    shown(&self.carry)
                )
            });
            self.carry = Vec::new();
            self.skipping = true;
        } else {
            self.carry.extend_from_slice(part);
        }
    }
}

/// Take one line; true iff it answered a request.
fn take_line(inner: &Inner, line: &[u8], at: u64) -> bool {
    if line.trim_ascii().is_empty() {
        return false;
    }
    let answer: AnswerLine<'_> = match serde_json::from_slice(line) {
        Ok(answer) => answer,
        Err(e) => {
            inner.misbehaved(at, || {
                format!("sent a line that is no answer ({e}): {}", shown(line))
            });
            return false;
        }
    };
    match (answer.id, &*answer.kind) {
        (None, "lost") => lost(inner, &answer, line, at),
        (None, _) => {
            inner.misbehaved(at, || format!("sent a line without id: {}", shown(line)));
            false
        }
        (Some(id), _) => match inner.take(id) {
            Some(waiting) => {
                answered(inner, waiting, &answer, line, at);
                true
            }
            None if inner.take_late(id) => true,
            None => {
                inner.misbehaved(at, || format!(
                    "answered request {id}, which is not open (never sent, or answered before): {}",
                    shown(line)
                ));
                false
            }
        },
    }
}

fn lost(inner: &Inner, answer: &AnswerLine<'_>, line: &[u8], at: u64) -> bool {
    if let Some(worker) = answer.worker
        && !answer.key.is_empty()
    {
        inner.notice(Notice::Lost {
            client: inner.name.clone(),
            worker,
            key: answer.key.clone().into_owned(),
            at,
        });
    } else {
        inner.misbehaved(at, || {
            format!("sent `lost` without worker or key: {}", shown(line))
        });
    }
    false
}

fn answered(inner: &Inner, waiting: Waiting, line: &AnswerLine<'_>, raw: &[u8], at: u64) {
    let bad = |why: &str| {
        inner.misbehaved(at, || format!("sent a bad answer ({why}): {}", shown(raw)));
        Failure {
            definite: false,
            code: "bad-answer".to_owned(),
        }
    };
    let refused = |op| match &*line.kind {
        "fail" | "info" => refusal(inner, op, line, at),
        other => bad(&format!("type {}", shown(other.as_bytes()))),
    };
    match waiting {
        Waiting::Op {
            op,
            expects,
            answer,
        } => {
            let result = match &*line.kind {
                "ok" => wire::read_value(expects, line.value).map_err(|e| bad(&e)),
                _ => Err(refused(op)),
            };
            let _ = answer.send(Answer {
                ret: at,
                took_ms: line.took_ms,
                result,
            });
        }
        Waiting::Init(answer) => {
            let about = match (&*line.kind, line.value) {
                ("ok", None) => Ok(About::default()),
                ("ok", Some(value)) => {
                    serde_json::from_str(value.get()).map_err(|e| bad(&e.to_string()))
                }
                _ => Err(refused(Op::Other)).map_err(|mut failure: Failure| {
                    if !line.message.is_empty() {
                        failure.code += ": ";
                        failure.code += &escaped(line.message.as_bytes(), MESSAGE_MAX);
                    }
                    failure
                }),
            };
            let _ = answer.send(about);
        }
    }
}

/// A `fail` is believed only where the table agrees.
fn refusal(inner: &Inner, op: Op, line: &AnswerLine<'_>, at: u64) -> Failure {
    let code: String = match &*line.error {
        "" => "server-error".to_owned(),
        code => code
            .chars()
            .take(48)
            .map(|c| if c.is_ascii_graphic() { c } else { '?' })
            .collect(),
    };
    let said = line.kind == "fail";
    let definite = said && definite(&code, op);
    if said && !definite {
        inner.misbehaved(at, || {
            format!("said `fail` with `{code}`, which is not definite here; taken as `info`")
        });
    }
    Failure { definite, code }
}

/// What a client sent, for people.
fn shown(bytes: &[u8]) -> String {
    format!("`{}`", escaped(bytes, SHOWN_MAX))
}

/// At most `max` characters, control characters escaped.
fn escaped(bytes: &[u8], max: usize) -> String {
    let head = &bytes[..bytes.len().min(4 * max)];
    let text = String::from_utf8_lossy(head);
    let mut shown = String::new();
    for c in text.chars().take(max) {
        match c {
            '"' | '\'' => shown.push(c),
            c => shown.extend(c.escape_debug()),
        }
    }
    if text.chars().nth(max).is_some() || head.len() < bytes.len() {
        shown.push('…');
    }
    shown
}

/// Wait, for a moment at most, until a client that is ending has a status and all of its standard error is kept.
pub(super) async fn last_words(inner: &Inner) {
    let mut logged = inner.logged.subscribe();
    let all = async {
        ended(inner).await;
        let _ = logged.wait_for(|all| *all).await;
    };
    let _ = tokio::time::timeout(Duration::from_secs(1), all).await;
}

/// What a log says last, for people: `is empty`, or `ends:` and at most five lines, each on a line of its own.
pub(super) fn tail(log: &Path) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    let lines = bytes.split(|b| *b == b'\n').rev();
    let mut last: Vec<String> = lines
        .filter(|line| !line.trim_ascii().is_empty())
        .take(5)
        .map(|line| format!("\n  {}", escaped(line.trim_ascii_end(), SHOWN_MAX)))
        .collect();
    if last.is_empty() {
        return "is empty".to_owned();
    }
    last.reverse();
    format!("ends:{}", last.concat())
}

/// Keep the beginning of standard error, and read on so that the client is never held up by it.
async fn keep_log(inner: Rc<Inner>, pipe: pipe::Receiver, log: File) {
    copy_log(&inner, pipe, log).await;
    inner.logged.send_replace(true);
}

async fn copy_log(inner: &Inner, pipe: pipe::Receiver, mut log: File) {
    let mut chunk = vec![0; CHUNK];
    let mut kept = 0;
    loop {
        let dead = inner.has_ended();
        if !dead {
            tokio::select! {
                _ = pipe.readable() => {}
                () = ended(inner) => continue,
            }
        }
        let n = match pipe.try_read(&mut chunk) {
            Ok(0) => return,
            Ok(n) => n,
            Err(e) if e.kind() == ErrorKind::WouldBlock && !dead => continue,
            Err(_) => return,
        };
        let keep = n.min(LOG_MAX - kept);
        // A full disk costs the log, not the run.
        let _ = log.write_all(&chunk[..keep]);
        if keep > 0 && kept + keep == LOG_MAX {
            let _ = log.write_all(b"\n[the rest was dropped: only the first 4 MiB are kept]\n");
            inner.tell(
                inner.clock.now(),
                "wrote more than 4 MiB to its standard error",
            );
        }
        kept += keep;
        if dead && kept == LOG_MAX {
            return;
        }
        tokio::task::yield_now().await;
    }
}
