//! One line of a history: an operation of a client, a fault, or something seen on a server, in Jepsen's terms.
//!
//! Owns the vocabulary of events. Must not know how an event came about. Events go to `history` (files) and to
//! the checks.
//!
//! | process | `f` | types | value fields |
//! |---|---|---|---|
//! | number | `acquire` | invoke; ok, fail, info | invoke: `wait_ms`, `shared`, `ttl_ms` if not the model's; ok: `owner`, `validity_ms`, `token`, `since`; `ms` (how long the call took, where the client tells) |
//! | number | `release` | invoke; ok, fail, info | `ms` |
//! | number | `extend` | invoke; ok, fail, info | invoke: `ttl_ms`; ok: `validity_ms`; `ms` |
//! | number | `work` | invoke; ok, info | invoke: `ms` |
//! | number | `read`, `write` | ok, fail | an effect at the protected resource, in order of acceptance: `version`, `token`; fail: refused by the fence or given up by the client |
//! | number | `renewed` | info | a keep-alive that the library sent by itself was confirmed: `since`, `ttl_ms` if not the model's |
//! | number | `lost` | info | the library told its holder that the lock is gone |
//! | `driver` | `death` | info | `client` was killed or ended; stamped before kill(2) is called; `proof`; with `error` `unplanned` where nobody killed it |
//! | `driver` | `thread-end` | info | the thread of `client`'s `worker` was ended by a step, and with it what it held: `not_before` |
//! | `driver` | `birth` | info | `client` answers (again); `library`-like facts in `proof` |
//! | `driver` | `library` | info | what the clients' library says of itself, as JSON in `proof` |
//! | `driver` | `messages` | info | what `client` said at its end: it sent so many commands to servers (`messages`) |
//! | `driver` | `step` | info | a step of a schedule and its answer, in `text`; with an `error` it was not as written |
//! | `driver` | `phase` | info | `phase`: `warm-up`, `load`, `heal`, `tail`, `final`, `end` |
//! | `driver` | `stall` | info | the machine stood still: `ms` (ended at `time`) |
//! | `driver` | `adapter` | info | a misbehaving client: `proof` says what it did; with an `error`, the client is lost to the run |
//! | `driver` | `proxy` | info | with an `error`: Toxiproxy, which all links go through, is lost to the run; `proof` says how that is known |
//! | `nemesis` | a fault's kind | info | `fault` (its number), `phase` ([`phase`]), `target`, `proof`; `client` where one client is hit |
//! | `tap` | `request`, `reply`, `push` | info | a command before it is forwarded, its reply after it was read, or what the server sent unasked: `node`, `conn`, `message`, `text`; `phase` where it did not simply pass: `held`, `passed`, `lost`, `answered`, `made`, `doubled`, `discarded` |
//! | `tap` | `open`, `close`, `unread`, `refused`, `script`, `full` | info | a connection, with the reason in `text`; a script's text under its sha1 as `key`; the end of what is recorded |
//! | `observer` | `set`, `del`, `expired`, `evicted`, `expire`, `value`, `absent`, `flushed`, `down`, `restarted`, `up` | info | `node`, `not_before`, `owner` and `pttl_ms` as read just after |
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::borrow::Cow;
use std::fmt;

/// The phases of a fault, as they stand in a nemesis event's `value.phase`.
pub mod phase {
    /// The injecting call is about to be made.
    pub const INJECT: &str = "inject";
    /// Another path than the injection proved that the fault took effect.
    pub const BIT: &str = "bit";
    /// The fault was injected but no proof of its effect was had.
    pub const NO_BITE: &str = "no-bite";
    /// The healing call is about to be made.
    pub const HEAL: &str = "heal";
    /// Another path than the healing call proved that the fault is gone.
    pub const HEALED: &str = "healed";
    /// The fault could not be shown to be gone.
    pub const NOT_HEALED: &str = "not-healed";
    /// The trigger of the fault never matched during the load.
    pub const NEVER_FIRED: &str = "never-fired";
}

/// Who an event belongs to: Jepsen's logical process (renewed after an `info`), or one of the harness's parts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum Process<'a> {
    /// A logical process of a client's worker.
    Id(u64),
    /// `nemesis`, `observer` or `driver`.
    Named(Cow<'a, str>),
}

/// Jepsen's four types of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EventType {
    /// An operation begins; stamped before its first byte leaves the harness.
    Invoke,
    /// It took effect; stamped after its whole answer was read.
    Ok,
    /// It certainly did not take effect.
    Fail,
    /// It may or may not have taken effect, at any later time; also every event that is no operation.
    Info,
}

/// One event. Times are nanoseconds on the harness's monotonic clock since the start of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Event<'a> {
    /// Position in the history, from 0, without gaps.
    pub index: u64,
    /// Nanoseconds since the start of the run.
    pub time: u64,
    /// Who it belongs to.
    #[serde(borrow)]
    pub process: Process<'a>,
    /// The client (one operating-system process) concerned.
    #[serde(
        borrow,
        default,
        deserialize_with = "borrowed",
        skip_serializing_if = "Option::is_none"
    )]
    pub client: Option<Cow<'a, str>>,
    /// The worker (one logical thread of operations) in that client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<u32>,
    /// invoke, ok, fail or info.
    #[serde(rename = "type")]
    pub kind: EventType,
    /// What: an operation, a fault's kind, or what the observer saw.
    #[serde(borrow)]
    pub f: Cow<'a, str>,
    /// The lock key (for `read` and `write`, the lock that protects the resource).
    #[serde(
        borrow,
        default,
        deserialize_with = "borrowed",
        skip_serializing_if = "Option::is_none"
    )]
    pub key: Option<Cow<'a, str>>,
    /// Arguments and results.
    #[serde(borrow, default, skip_serializing_if = "Value::is_empty")]
    pub value: Value<'a>,
    /// A code of the published error table, with `fail` and `info`.
    #[serde(
        borrow,
        default,
        deserialize_with = "borrowed",
        skip_serializing_if = "Option::is_none"
    )]
    pub error: Option<Cow<'a, str>>,
}

/// The arguments and results of an event: one flat record, each field where it applies.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Value<'a> {
    /// The random string in the lock key.
    #[serde(
        borrow,
        deserialize_with = "borrowed",
        skip_serializing_if = "Option::is_none"
    )]
    pub owner: Option<Cow<'a, str>>,
    /// The fencing number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<u64>,
    /// How long the library says that the lock is valid from the answer on, in ms.
    #[serde(
        deserialize_with = "crate::exact::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub validity_ms: Option<f64>,
    /// The lease asked for, in ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// With `acquire` of a read-write lock: for reading, together with other readers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared: Option<bool>,
    /// How long the call may wait for a held lock, in ms; 0 is one try.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
    /// A duration in ms: work to be done, a stall, how long a call took by its client's own clock.
    #[serde(
        deserialize_with = "crate::exact::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub ms: Option<f64>,
    /// The version read from or written to the protected resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// When the operation was meant to start (open loop), ns since the start of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intended: Option<u64>,
    /// The earliest time at which the lease can have begun, by the harness's clock, ns since the start of the run: for
    /// a lock on a session, the stamp of the last numbered tick that was read before the last confirmed keep-alive (or
    /// the session's grant) was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    /// The server concerned, such as `n1`.
    #[serde(
        borrow,
        deserialize_with = "borrowed",
        skip_serializing_if = "Option::is_none"
    )]
    pub node: Option<Cow<'a, str>>,
    /// Earliest time at which what is reported can have happened, ns since the start of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_before: Option<u64>,
    /// Remaining time to live in ms as the server gave it; -1 no TTL, -2 no key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pttl_ms: Option<i64>,
    /// The fault's number in the plan, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<u32>,
    /// The phase of a fault or of the run.
    #[serde(
        borrow,
        deserialize_with = "borrowed",
        skip_serializing_if = "Option::is_none"
    )]
    pub phase: Option<Cow<'a, str>>,
    /// What a fault hit: `c1`, `n2`, `c1>n2`.
    #[serde(
        borrow,
        deserialize_with = "borrowed",
        skip_serializing_if = "Option::is_none"
    )]
    pub target: Option<Cow<'a, str>>,
    /// A connection through the tap, numbered from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conn: Option<u64>,
    /// A command on that connection, numbered from 1; a reply has its command's number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<u64>,
    /// How many commands a client sent to servers in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<u64>,
    /// A command or reply in words, cut.
    #[serde(
        borrow,
        deserialize_with = "borrowed",
        skip_serializing_if = "Option::is_none"
    )]
    pub text: Option<Cow<'a, str>>,
    /// How it is known.
    #[serde(
        borrow,
        deserialize_with = "borrowed",
        skip_serializing_if = "Option::is_none"
    )]
    pub proof: Option<Cow<'a, str>>,
}

/// Serde borrows a `Cow` only where it stands alone, so an optional one is read through this.
fn borrowed<'de: 'a, 'a, D: Deserializer<'de>>(d: D) -> Result<Option<Cow<'a, str>>, D::Error> {
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    Ok(Option::<Text<'a>>::deserialize(d)?.map(|t| t.0))
}

impl<'de: 'a, 'a> Deserialize<'de> for Process<'a> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Process<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a process number, or `nemesis`, `observer` or `driver`")
            }

            fn visit_u64<E: de::Error>(self, id: u64) -> Result<Self::Value, E> {
                Ok(Process::Id(id))
            }

            fn visit_borrowed_str<E: de::Error>(self, name: &'de str) -> Result<Self::Value, E> {
                Ok(Process::Named(Cow::Borrowed(name)))
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<Self::Value, E> {
                Ok(Process::Named(Cow::Owned(name.to_owned())))
            }
        }
        d.deserialize_any(Either)
    }
}

impl Event<'_> {
    /// Appends its line of a history, newline included. It is here so that it is compiled with this crate, which the
    /// build optimises more than the harness.
    ///
    /// # Errors
    /// None that a `Vec` or these fields can give; `out` is then as it was.
    pub fn write_line(&self, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        let before = out.len();
        if let Err(error) = serde_json::to_writer(&mut *out, self) {
            out.truncate(before);
            return Err(error);
        }
        out.push(b'\n');
        Ok(())
    }
}

impl Value<'_> {
    /// Whether no field is set.
    pub fn is_empty(&self) -> bool {
        *self == Value::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_borrowed_from_the_line() {
        let line = r#"{"index":1,"time":2,"process":3,"client":"c1","type":"ok","f":"acquire","key":"lock:0","value":{"owner":"9f3a","validity_ms":1978.5}}"#;
        let event: Event<'_> = serde_json::from_str(line).expect("a good line");
        assert!(matches!(event.f, Cow::Borrowed(_)));
        assert!(matches!(event.client, Some(Cow::Borrowed("c1"))));
        assert!(matches!(event.value.owner, Some(Cow::Borrowed("9f3a"))));
        assert_eq!(serde_json::to_string(&event).expect("writes"), line);
    }

    #[test]
    fn a_process_is_a_number_or_a_name() {
        let parse = |s: &'static str| serde_json::from_str::<Process<'_>>(s);
        assert_eq!(parse("7").ok(), Some(Process::Id(7)));
        assert_eq!(
            parse("\"driver\"").ok(),
            Some(Process::Named(Cow::Borrowed("driver")))
        );
        assert!(parse("-1").is_err() && parse("1.5").is_err() && parse("[]").is_err());
    }
}
