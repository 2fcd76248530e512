//! The head of a history: all that the checker needs to know beside the events, and what the workload expects.
//!
//! Owns the header's shape. Must not know how a run is made. Goes to the history file's first line.
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

/// First line of a history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Header {
    /// Version of the format: 1.
    pub fencepost: u32,
    /// The workload's name, with its variant after a slash.
    pub workload: String,
    /// The seed of every random stream.
    pub seed: u64,
    /// What the checker needs.
    pub model: Model,
    /// Expected outcome by check or class.
    #[serde(default, deserialize_with = "once")]
    pub expect: BTreeMap<String, Expect>,
    /// Versions of all that took part: fencepost, server, toxiproxy, library.
    #[serde(default, deserialize_with = "once")]
    pub versions: BTreeMap<String, String>,
}

/// A map that names nothing twice, as no object with fields does.
fn once<'de, D, V>(d: D) -> Result<BTreeMap<String, V>, D::Error>
where
    D: Deserializer<'de>,
    V: Deserialize<'de>,
{
    struct Entries<V>(PhantomData<V>);
    impl<'de, V: Deserialize<'de>> Visitor<'de> for Entries<V> {
        type Value = BTreeMap<String, V>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
            let mut map = BTreeMap::new();
            while let Some((name, value)) = from.next_entry::<String, V>()? {
                if map.contains_key(&name) {
                    return Err(de::Error::custom(format!("duplicate entry `{name}`")));
                }
                map.insert(name, value);
            }
            Ok(map)
        }
    }
    d.deserialize_map(Entries(PhantomData))
}

/// What the checker knows of the system under test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Model {
    /// The lease asked for, in ms; none: a lock without lease.
    #[schemars(range(min = 1))]
    pub ttl_ms: Option<u64>,
    /// Clock drift allowed for, as a share of the lease (0.01).
    #[serde(deserialize_with = "crate::exact::number")]
    #[schemars(extend("minimum" = 0, "exclusiveMaximum" = 1))]
    pub drift: f64,
    /// Fixed part of the allowance, in ms (2).
    #[serde(deserialize_with = "crate::exact::number")]
    #[schemars(range(min = 0))]
    pub floor_ms: f64,
    /// Number of servers.
    pub nodes: u32,
    /// Servers that must grant.
    pub quorum: u32,
    /// Members of a system that answers as one node (etcd, `ZooKeeper`), of which a majority must be there; 0 where each
    /// node is a server of its own. Faults name the members.
    pub members: u32,
    /// How the protected resource checks tokens.
    pub fence: Fence,
    /// The lock gives out fencing tokens.
    pub tokens: bool,
    /// The library promises to renew the lease, or to tell its holder of the loss.
    pub promises_notice: bool,
    /// The client checks its lease before each effect.
    pub respects_validity: bool,
    /// Calls may wait or retry inside (their `invoke` is then earlier than the winning attempt).
    pub waits: bool,
    /// Longest pause between two tries of a worker, in ms.
    pub retry_ms: u64,
    /// The bound that its caller states on every call, in ms; an acquire may take its `wait_ms` longer. None: no bound
    /// is stated, and the check `progress` does not judge how long calls take.
    pub call_ms: Option<u64>,
    /// How many commands a second and server all workers together may send, by their pauses between tries. None: no such
    /// bound is stated, and the check `load` does not judge.
    #[serde(deserialize_with = "crate::exact::optional")]
    #[schemars(range(min = 0))]
    pub load_max: Option<f64>,
    /// For a lock that queues: how many others may be granted the key while a worker waits. None: the lock states no
    /// such bound, and the check `starvation` only measures.
    pub bypass_max: Option<u64>,
    /// An observer was there: server-side events are complete but for what it says it missed.
    pub observed: bool,
    /// The servers show no event when a lease is renewed, so that nothing follows from its absence.
    pub silent_renewals: bool,
    /// Ask for coverage: faults bit and healed, the lock was contended, each kind of operation succeeded.
    pub coverage: bool,
    /// Granularity of a session's keep-alive, in ms (0 where there is none).
    pub grain_ms: u64,
    /// How many may hold at once, and whether a holder may acquire again.
    pub kind: LockKind,
    /// For a semaphore: how many may hold at once.
    #[schemars(range(min = 1))]
    pub permits: u32,
    /// How far the clocks that stamped the events may be from true time, in ms; 0 for one clock.
    #[serde(deserialize_with = "crate::exact::number")]
    #[schemars(range(min = 0))]
    pub clock_uncertainty_ms: f64,
}

impl Model {
    /// The servers are copies of one: what one of them shows may come late from another.
    pub(crate) fn copies(&self) -> bool {
        self.nodes > 1 && self.quorum == 1
    }

    /// Times matter, not only the order.
    pub(crate) fn needs_times(&self) -> bool {
        self.ttl_ms.is_some() || self.clock_uncertainty_ms > 0.0
    }

    /// A field whose value no system can have, and why.
    pub(crate) fn wrong(&self) -> Option<(&'static str, String)> {
        let not_below = |name, number: f64| {
            // Not a number is none of them.
            let good = number >= 0.0 && number.is_finite();
            (!good).then(|| (name, format!("{number} is less than 0")))
        };
        let share = (0.0..1.0).contains(&self.drift);
        let drift = || format!("{} is no share from 0 to below 1", self.drift);
        if self.ttl_ms == Some(0) {
            return Some(("ttl_ms", "a lease of no time".to_owned()));
        }
        if !share {
            return Some(("drift", drift()));
        }
        if self.permits == 0 {
            return Some(("permits", "nobody could ever hold".to_owned()));
        }
        if self.quorum > self.nodes.max(1) {
            let (quorum, nodes) = (self.quorum, self.nodes);
            return Some(("quorum", format!("{quorum} of {nodes} nodes")));
        }
        not_below("floor_ms", self.floor_ms)
            .or_else(|| not_below("clock_uncertainty_ms", self.clock_uncertainty_ms))
            .or_else(|| not_below("load_max", self.load_max.unwrap_or(0.0)))
    }

    /// How many others may hold beside a holder.
    pub(crate) fn room(&self) -> usize {
        match self.kind {
            LockKind::Semaphore => self.permits.saturating_sub(1) as usize,
            _ => 0,
        }
    }
}

/// What kind of lock it is.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum LockKind {
    /// One holder; one that holds cannot acquire again.
    #[default]
    Mutex,
    /// One holder, which may acquire again and holds until it released as often.
    Reentrant,
    /// At most `permits` holders; a worker may hold several.
    Semaphore,
    /// Many holders whose acquire was `shared`, or one whose was not.
    ReadWrite,
}

impl Default for Model {
    fn default() -> Self {
        Self {
            ttl_ms: None,
            drift: 0.01,
            floor_ms: 2.0,
            nodes: 1,
            quorum: 1,
            members: 0,
            fence: Fence::None,
            tokens: false,
            promises_notice: false,
            respects_validity: false,
            waits: false,
            retry_ms: 0,
            call_ms: None,
            load_max: None,
            bypass_max: None,
            observed: false,
            silent_renewals: false,
            coverage: false,
            grain_ms: 0,
            kind: LockKind::Mutex,
            permits: 1,
            clock_uncertainty_ms: 0.0,
        }
    }
}

/// How the protected resource checks fencing tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Fence {
    /// Not at all.
    None,
    /// On writes: a write with a token less than the highest written is refused.
    Write,
    /// On the first access: reads register their token too.
    FirstAccess,
}

/// What a workload expects of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Expect {
    /// Nothing found, and enough seen to say so.
    Valid,
    /// Found at least once.
    Violated,
    /// Either.
    Any,
}
