//! The vocabulary of Toxiproxy: toxics, what a proxy looks like, why a change does not count.
//!
//! Owns the types. Must not know HTTP. `toxiproxy` puts them on the wire; `fault` chooses them.
use super::toxiproxy::CHANGE;
use std::net::SocketAddr;
use std::time::Duration;
use thiserror::Error;

/// Why a change does not count.
#[derive(Debug, Error)]
pub enum ToxiproxyError {
    /// Nothing answers at the API's address.
    #[error("Toxiproxy at {api} does not answer: {why}")]
    Unreachable {
        /// Address of the API.
        api: SocketAddr,
        /// The system's words.
        why: String,
    },
    /// No proxy of this name.
    #[error("Toxiproxy has no proxy `{0}`")]
    NoProxy(String),
    /// No toxic of this name on that proxy.
    #[error("proxy `{proxy}` has no toxic `{toxic}`")]
    NoToxic {
        /// The proxy.
        proxy: String,
        /// The toxic.
        toxic: String,
    },
    /// The name is taken.
    #[error("Toxiproxy already has {0}")]
    Exists(String),
    /// Refused, with Toxiproxy's status and words.
    #[error("Toxiproxy refused to {what}: {why}")]
    Refused {
        /// What was asked.
        what: String,
        /// Status and words.
        why: String,
    },
    /// The call went well, and reading back showed that nothing had changed.
    #[error("Toxiproxy did not {what}: read back {found}")]
    NotChanged {
        /// What was asked.
        what: String,
        /// What a GET showed.
        found: String,
    },
    /// A name or an amount that the API cannot carry.
    #[error("{0}")]
    Invalid(String),
    /// Time ran out; the change was abandoned and will not be made later.
    #[error("Toxiproxy did not {what} within {CHANGE:?}")]
    Deadline {
        /// What was asked.
        what: String,
    },
    /// The worker thread is gone.
    #[error("the Toxiproxy worker is gone")]
    Worker,
}

impl ToxiproxyError {
    /// Whether somebody else listens where the proxy was to.
    pub(super) fn is_port_in_use(&self) -> bool {
        matches!(self, Self::Refused { why, .. } if why.contains("address already in use"))
    }
}

/// A toxic: what is done to the bytes of one direction of one proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toxic {
    /// Its name, unique on its proxy.
    pub name: String,
    /// What it does.
    pub kind: ToxicKind,
    /// On requests (client to server); false: on replies.
    pub upstream: bool,
}

/// What a toxic does. Milliseconds are Toxiproxy's grain; shorter times count as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToxicKind {
    /// Each chunk is delayed by `latency` ± `jitter`, drawn uniformly; order is kept.
    Latency {
        /// The middle of the delay.
        latency: Duration,
        /// Half of its width.
        jitter: Duration,
    },
    /// Bytes vanish, and the connection is closed `after` that; zero: it stays open until the toxic goes.
    Timeout {
        /// When the connection is closed.
        after: Duration,
    },
    /// At most so many KB/s; zero: bytes wait until the toxic goes, and are then delivered.
    Bandwidth {
        /// Kilobytes a second.
        kb_per_s: u64,
    },
    /// The connection is reset (RST) `after` its first byte.
    ResetPeer {
        /// When.
        after: Duration,
    },
    /// Closing is delayed.
    SlowClose {
        /// By how long.
        delay: Duration,
    },
    /// Chunks are cut into pieces of `average` ± `variation` bytes with `delay` between them.
    Slicer {
        /// Mean size in bytes.
        average: u64,
        /// Largest difference from it in bytes.
        variation: u64,
        /// Time between two pieces; microseconds are its grain.
        delay: Duration,
    },
    /// The connection is closed after so many bytes.
    LimitData {
        /// Bytes let through.
        bytes: u64,
    },
}

impl ToxicKind {
    /// Its name and attributes as the API has them.
    pub(super) fn wire(self) -> (&'static str, Vec<(&'static str, u128)>) {
        let ms = |d: Duration| d.as_nanos().div_ceil(1_000_000);
        match self {
            Self::Latency { latency, jitter } => (
                "latency",
                vec![("latency", ms(latency)), ("jitter", ms(jitter))],
            ),
            Self::Timeout { after } => ("timeout", vec![("timeout", ms(after))]),
            Self::Bandwidth { kb_per_s } => ("bandwidth", vec![("rate", kb_per_s.into())]),
            Self::ResetPeer { after } => ("reset_peer", vec![("timeout", ms(after))]),
            Self::SlowClose { delay } => ("slow_close", vec![("delay", ms(delay))]),
            Self::Slicer {
                average,
                variation,
                delay,
            } => (
                "slicer",
                vec![
                    ("average_size", average.into()),
                    ("size_variation", variation.into()),
                    ("delay", delay.as_micros()),
                ],
            ),
            Self::LimitData { bytes } => ("limit_data", vec![("bytes", bytes.into())]),
        }
    }
}

/// A proxy as a GET shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyState {
    /// It accepts connections.
    pub enabled: bool,
    /// Names of its toxics, in the order in which bytes meet them.
    pub toxics: Vec<String>,
    /// Where it listens, as Toxiproxy says it: `[::]:26001` for any address.
    pub listen: String,
    /// Where it connects to.
    pub upstream: String,
}
