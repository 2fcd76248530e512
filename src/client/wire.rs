//! The lines of the client protocol, written and read on both sides.
//!
//! Owns their shape. Must not know who reads or writes them. Reading borrows from the line; writing appends to a
//! buffer that goes out in one write.
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use super::errors::Op;

/// Longest line, in bytes, that either side accepts.
pub(crate) const LINE_MAX: usize = 1 << 20;

/// What a client is told before anything else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Init {
    /// The servers, as this client reaches them.
    pub nodes: Vec<SocketAddr>,
    /// The lease to ask for, in ms.
    pub ttl_ms: u64,
    /// Every lock key on a server begins with it.
    pub prefix: String,
    /// Longest pause between two tries, in ms, for a library that retries by itself.
    pub retry_ms: u64,
    /// Bound on one command to one server, in ms.
    pub node_timeout_ms: u64,
    /// Workers are numbered from 0 to this, exclusive.
    pub workers: u32,
    /// A built-in lock's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock: Option<String>,
    /// The workload's options, as they are. Built-in locks know `fencing` (bool), `wait`
    /// (number of replicas) and `connection` (`shared`, `worker`). Where there are Sentinels: `sentinels` (their
    /// addresses), `announced` (each node's address as Sentinels tell it) and `service`.
    pub options: Map<String, Value>,
}

impl Default for Init {
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            ttl_ms: 10_000,
            prefix: String::new(),
            retry_ms: 20,
            node_timeout_ms: 1000,
            workers: 1,
            lock: None,
            options: Map::new(),
        }
    }
}

/// What a client says of itself in answer to `init`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct About {
    /// The lock library's name.
    pub library: String,
    /// Its version.
    pub version: String,
    /// The server driver beneath it, with its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// How often the driver may send a command again by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<u64>,
    /// The library renews leases by itself, or tells the holder of a loss.
    pub promises_notice: bool,
    /// Whatever else it says.
    #[serde(flatten)]
    pub fields: Map<String, Value>,
}

/// What a client is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Get the lock; with `wait_ms` 0, in one try.
    Acquire {
        /// Worker.
        worker: u32,
        /// Lock key, without the prefix.
        key: String,
        /// How long the library may wait for a held lock, in ms.
        wait_ms: u64,
        /// When the client should give up on its own, in ms; 0: never.
        timeout_ms: u64,
    },
    /// Give the lock back.
    Release {
        /// Worker.
        worker: u32,
        /// Lock key.
        key: String,
    },
    /// Let the lease end `ttl_ms` from now.
    Extend {
        /// Worker.
        worker: u32,
        /// Lock key.
        key: String,
        /// New lease, in ms.
        ttl_ms: u64,
    },
    /// Spend time, then answer.
    Work {
        /// Worker.
        worker: u32,
        /// How long, in ms.
        ms: u64,
    },
    /// Does the library still believe that it holds the lock?
    Held {
        /// Worker.
        worker: u32,
        /// Lock key.
        key: String,
    },
    /// A number that a session lock quotes before each keep-alive.
    Tick {
        /// The number.
        n: u64,
    },
    /// Something that befalls a worker, also while a request of it is open.
    Disturb {
        /// What.
        what: Disturb,
        /// Worker.
        worker: u32,
        /// Lock key.
        key: String,
    },
    /// End: let go of everything and exit.
    Close,
}

/// What can befall a worker. Each is answered for itself; a call that it ends is answered as `interrupted`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disturb {
    /// Its call is cancelled, in the way that the library's language has.
    Cancel,
    /// Its thread is interrupted.
    Interrupt,
    /// Its handle of the lock is let go without a release, and collected.
    Drop,
    /// Its thread ends at once, without clean-up.
    KillThread,
}

impl Disturb {
    /// As the protocol calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Interrupt => "interrupt",
            Self::Drop => "drop",
            Self::KillThread => "kill-thread",
        }
    }

    /// By that name; none: it is another operation.
    pub fn of(name: &str) -> Option<Self> {
        let all = [Self::Cancel, Self::Interrupt, Self::Drop, Self::KillThread];
        all.into_iter().find(|d| d.name() == name)
    }
}

impl Request {
    /// Which column of the error table applies.
    pub fn op(&self) -> Op {
        match self {
            Request::Acquire { .. } => Op::Acquire,
            Request::Release { .. } => Op::Release,
            Request::Extend { .. } => Op::Extend,
            _ => Op::Other,
        }
    }

    /// Append its line.
    pub(crate) fn write(&self, id: u64, out: &mut Vec<u8>) {
        // Writing to a Vec cannot fail.
        let _ = match self {
            Request::Acquire {
                worker,
                key,
                wait_ms,
                timeout_ms,
            } => {
                head(out, id, "acquire", *worker, key);
                write!(out, ",\"wait_ms\":{wait_ms},\"timeout_ms\":{timeout_ms}")
            }
            Request::Release { worker, key } => {
                head(out, id, "release", *worker, key);
                Ok(())
            }
            Request::Extend {
                worker,
                key,
                ttl_ms,
            } => {
                head(out, id, "extend", *worker, key);
                write!(out, ",\"ttl_ms\":{ttl_ms}")
            }
            Request::Work { worker, ms } => write!(
                out,
                "{{\"id\":{id},\"op\":\"work\",\"worker\":{worker},\"ms\":{ms}"
            ),
            Request::Held { worker, key } => {
                head(out, id, "held", *worker, key);
                Ok(())
            }
            Request::Disturb { what, worker, key } => {
                head(out, id, what.name(), *worker, key);
                Ok(())
            }
            Request::Tick { n } => write!(out, "{{\"id\":{id},\"op\":\"tick\",\"n\":{n}"),
            Request::Close => write!(out, "{{\"id\":{id},\"op\":\"close\""),
        };
        out.extend_from_slice(b"}\n");
    }
}

fn head(out: &mut Vec<u8>, id: u64, op: &str, worker: u32, key: &str) {
    let _ = write!(
        out,
        "{{\"id\":{id},\"op\":\"{op}\",\"worker\":{worker},\"key\":"
    );
    string(out, key);
}

/// Append a JSON string.
fn string(out: &mut Vec<u8>, text: &str) {
    let _ = serde_json::to_writer(&mut *out, text);
}

/// Append the line of `init`.
pub(crate) fn write_init(id: u64, init: &Init, out: &mut Vec<u8>) {
    #[derive(Serialize)]
    struct Line<'a> {
        id: u64,
        op: &'static str,
        #[serde(flatten)]
        init: &'a Init,
    }
    let line = Line {
        id,
        op: "init",
        init,
    };
    let _ = serde_json::to_writer(&mut *out, &line);
    out.push(b'\n');
}

/// A request as a client reads it; fields that an operation does not have are zero.
#[derive(Debug, Deserialize)]
pub(crate) struct RequestLine<'a> {
    pub id: u64,
    #[serde(borrow)]
    pub op: Cow<'a, str>,
    #[serde(default)]
    pub worker: u32,
    #[serde(borrow, default)]
    pub key: Cow<'a, str>,
    #[serde(default)]
    pub wait_ms: u64,
    #[serde(default)]
    pub timeout_ms: u64,
    #[serde(default)]
    pub ttl_ms: u64,
    #[serde(default)]
    pub ms: u64,
}

/// What a client answers when all went well.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// To `acquire`.
    Granted {
        /// The random string in the lock key.
        owner: Option<String>,
        /// How long the library says that the lock is valid, in ms.
        validity_ms: Option<f64>,
        /// Fencing token.
        token: Option<u64>,
    },
    /// To `release`, `extend` (with the new validity), `work`, `tick`.
    Done {
        /// How long the library says that the lock is valid, in ms.
        validity_ms: Option<f64>,
    },
    /// To `held`.
    Held(bool),
    /// To `close`.
    Closed {
        /// How many commands it sent to servers since `init`.
        messages: Option<u64>,
    },
}

/// Append an answer; `took`: how long the library's call took.
pub(crate) fn write_ok(id: u64, reply: &Reply, took: Option<Duration>, out: &mut Vec<u8>) {
    let _ = write!(out, "{{\"id\":{id},\"type\":\"ok\"");
    write_took(took, out);
    let validity = |out: &mut Vec<u8>, first: bool, ms: Option<f64>| {
        if let Some(ms) = ms {
            let comma = if first { "" } else { "," };
            let _ = write!(out, "{comma}\"validity_ms\":{ms:.3}");
        }
    };
    match reply {
        Reply::Granted {
            owner,
            validity_ms,
            token,
        } => {
            out.extend_from_slice(b",\"value\":{");
            if let Some(owner) = owner {
                out.extend_from_slice(b"\"owner\":");
                string(out, owner);
            }
            validity(out, owner.is_none(), *validity_ms);
            if let Some(token) = token {
                let comma = if owner.is_none() && validity_ms.is_none() {
                    ""
                } else {
                    ","
                };
                let _ = write!(out, "{comma}\"token\":{token}");
            }
            out.push(b'}');
        }
        Reply::Done { validity_ms: None } | Reply::Closed { messages: None } => {}
        Reply::Done { validity_ms } => {
            out.extend_from_slice(b",\"value\":{");
            validity(out, true, *validity_ms);
            out.push(b'}');
        }
        Reply::Held(held) => {
            let _ = write!(out, ",\"value\":{{\"held\":{held}}}");
        }
        Reply::Closed { messages: Some(n) } => {
            let _ = write!(out, ",\"value\":{{\"messages\":{n}}}");
        }
    }
    out.extend_from_slice(b"}\n");
}

fn write_took(took: Option<Duration>, out: &mut Vec<u8>) {
    if let Some(took) = took {
        // Whole µs: to format a float costs more than all the rest of the line.
        let us = took.as_micros();
        let _ = write!(out, ",\"took_ms\":{}.{:03}", us / 1000, us % 1000);
    }
}

/// Append the answer to `init`.
pub(crate) fn write_about(id: u64, about: &About, out: &mut Vec<u8>) {
    let _ = write!(out, "{{\"id\":{id},\"type\":\"ok\",\"value\":");
    let _ = serde_json::to_writer(&mut *out, about);
    out.extend_from_slice(b"}\n");
}

/// Append a refusal. Without an id it belongs to no request.
pub(crate) fn write_error(
    id: Option<u64>,
    definite: bool,
    code: &str,
    message: Option<&str>,
    took: Option<Duration>,
    out: &mut Vec<u8>,
) {
    out.push(b'{');
    if let Some(id) = id {
        let _ = write!(out, "\"id\":{id},");
    }
    let kind = if definite { "fail" } else { "info" };
    let _ = write!(out, "\"type\":\"{kind}\",\"error\":");
    string(out, code);
    if let Some(message) = message {
        out.extend_from_slice(b",\"message\":");
        string(out, message);
    }
    write_took(took, out);
    out.extend_from_slice(b"}\n");
}

/// Append the notice that a lock was lost.
pub(crate) fn write_lost(worker: u32, key: &str, out: &mut Vec<u8>) {
    let _ = write!(out, "{{\"type\":\"lost\",\"worker\":{worker},\"key\":");
    string(out, key);
    out.extend_from_slice(b"}\n");
}

/// A line of a client, as the harness reads it.
#[derive(Debug, Deserialize)]
pub(crate) struct AnswerLine<'a> {
    pub id: Option<u64>,
    #[serde(rename = "type", borrow)]
    pub kind: Cow<'a, str>,
    #[serde(borrow, default)]
    pub value: Option<&'a RawValue>,
    pub took_ms: Option<f64>,
    #[serde(borrow, default)]
    pub error: Cow<'a, str>,
    #[serde(borrow, default)]
    pub message: Cow<'a, str>,
    pub worker: Option<u32>,
    #[serde(borrow, default)]
    pub key: Cow<'a, str>,
}

/// The `value` of an answer to anything but `init`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AnswerValue {
    owner: Option<String>,
    validity_ms: Option<f64>,
    token: Option<u64>,
    held: Option<bool>,
    messages: Option<u64>,
}

/// What kind of answer a request expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expects {
    Grant,
    Done,
    Held,
    Closed,
}

impl From<&Request> for Expects {
    fn from(request: &Request) -> Self {
        match request {
            Request::Acquire { .. } => Expects::Grant,
            Request::Held { .. } => Expects::Held,
            Request::Close => Expects::Closed,
            _ => Expects::Done,
        }
    }
}

/// Bytes of an owner value: it stands in each event of its lock.
const OWNER_MAX: usize = 4 << 10;

fn bounded(owner: String) -> Result<String, String> {
    if owner.len() > OWNER_MAX {
        return Err(format!(
            "an `owner` of {} bytes, of {OWNER_MAX} at most",
            owner.len()
        ));
    }
    Ok(owner)
}

/// Read the `value` of an ok answer.
pub(crate) fn read_value(expects: Expects, value: Option<&RawValue>) -> Result<Reply, String> {
    let value: AnswerValue = match value {
        None => AnswerValue::default(),
        Some(raw) => serde_json::from_str(raw.get()).map_err(|e| e.to_string())?,
    };
    Ok(match expects {
        Expects::Grant => Reply::Granted {
            owner: value.owner.map(bounded).transpose()?,
            validity_ms: value.validity_ms,
            token: value.token,
        },
        Expects::Done => Reply::Done {
            validity_ms: value.validity_ms,
        },
        Expects::Closed => Reply::Closed {
            messages: value.messages,
        },
        Expects::Held => Reply::Held(value.held.ok_or("`held` needs {\"held\":true or false}")?),
    })
}
