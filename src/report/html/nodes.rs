//! Whose value stood on which server, from what the observer saw there.
//!
//! Owns [`Holding`]. Must not judge: the time between "not before" and "seen" is kept as it is. `track` feeds it the
//! observer's events; `sequence` and `timeline` draw it.
use fencepost_checker::Event;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// Holdings kept; the rest is not drawn.
const HOLDINGS_MAX: usize = 200_000;
/// Pairs of server and key followed at most.
const PLACES_MAX: usize = 512;

/// One value on one server, from when it was seen to come to when it was seen to go.
#[derive(Debug, Clone)]
pub struct Holding {
    /// The server.
    pub node: String,
    /// The key.
    pub key: String,
    /// It came after this, ns since the start of the run.
    pub not_before: u64,
    /// It was there at this time.
    pub from: u64,
    /// It went after this.
    pub gone_not_before: u64,
    /// It was gone at this time.
    pub to: u64,
    /// When its lease was to end, as the server gave it.
    pub lease: Option<u64>,
    /// The worker's lane whose grant carries this value; none: nobody's, or not read.
    pub lane: Option<usize>,
    /// How it went: `del`, `expired`, `overwritten`, `restarted` …; empty: it was there at the end.
    pub how: String,
    owner: Option<u64>,
}

/// The observer's events, one after the other.
#[derive(Debug, Default)]
pub struct Nodes {
    open: HashMap<(String, String), Holding>,
    done: Vec<Holding>,
    owners: HashMap<u64, usize>,
}

impl Nodes {
    /// A grant carried this owner value.
    pub fn owned(&mut self, owner: &str, lane: usize) {
        if self.owners.len() < HOLDINGS_MAX {
            self.owners.insert(hash(owner), lane);
        }
    }

    /// Take the observer's next event.
    pub fn push(&mut self, e: &Event<'_>) {
        let Some(node) = e.value.node.as_deref() else {
            return;
        };
        let key = e.key.as_deref().unwrap_or_default();
        match &*e.f {
            "set" => {
                self.close(node, key, e, "overwritten");
                self.begin(node, key, e);
            }
            "value" => {
                let same = e.value.owner.as_deref().map(hash);
                let known = self.open.get(&(node.to_owned(), key.to_owned()));
                if known.is_none_or(|h| h.owner != same) {
                    self.close(node, key, e, "replaced unseen");
                    self.begin(node, key, e);
                }
            }
            "expire" => {
                if let Some(h) = self.open.get_mut(&(node.to_owned(), key.to_owned())) {
                    h.lease = lease(e);
                }
            }
            "del" | "removed" | "expired" | "evicted" | "absent" => self.close(node, key, e, &e.f),
            "flushed" | "restarted" => {
                let keys: Vec<String> = self
                    .open
                    .keys()
                    .filter(|(n, _)| n == node)
                    .map(|(_, k)| k.clone())
                    .collect();
                for key in keys {
                    self.close(node, &key, e, &e.f);
                }
            }
            _ => {}
        }
    }

    fn begin(&mut self, node: &str, key: &str, e: &Event<'_>) {
        if self.open.len() >= PLACES_MAX {
            return;
        }
        let holding = Holding {
            node: node.to_owned(),
            key: key.to_owned(),
            not_before: e.value.not_before.unwrap_or(e.time).min(e.time),
            from: e.time,
            gone_not_before: e.time,
            to: e.time,
            lease: lease(e),
            lane: None,
            how: String::new(),
            owner: e.value.owner.as_deref().map(hash),
        };
        self.open.insert((node.to_owned(), key.to_owned()), holding);
    }

    fn close(&mut self, node: &str, key: &str, e: &Event<'_>, how: &str) {
        let Some(mut h) = self.open.remove(&(node.to_owned(), key.to_owned())) else {
            return;
        };
        h.to = e.time;
        h.gone_not_before = e.value.not_before.unwrap_or(e.time).clamp(h.from, e.time);
        how.clone_into(&mut h.how);
        if self.done.len() < HOLDINGS_MAX {
            self.done.push(h);
        }
    }

    /// All holdings, by server, key and time.
    pub fn finish(mut self, end: u64) -> Vec<Holding> {
        for (_, mut h) in self.open.drain() {
            h.to = end.max(h.from);
            h.gone_not_before = h.to;
            self.done.push(h);
        }
        for h in &mut self.done {
            h.lane = h.owner.and_then(|o| self.owners.get(&o).copied());
        }
        self.done
            .sort_by(|a, b| (&a.node, &a.key, a.from).cmp(&(&b.node, &b.key, b.from)));
        self.done
    }
}

fn lease(e: &Event<'_>) -> Option<u64> {
    let ms = u64::try_from(e.value.pttl_ms?).ok()?;
    Some(e.time.saturating_add(ms.saturating_mul(1_000_000)))
}

fn hash(owner: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    owner.hash(&mut hasher);
    hasher.finish()
}
