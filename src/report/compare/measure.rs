//! What a comparison needs of a history beyond a summary: gaps in service, damage, refusals, fairness.
//!
//! Owns one pass over the load phase. Must not judge; memory grows with clients and keys alone. Goes to `Episode`.
use crate::report::ReportError;
use crate::report::lines::each_event;
use fencepost_checker::{Event, EventType, Process};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A gap counts as unavailable from this length on, ns: shorter ones are the hand-over from one holder to the next.
pub const OUTAGE_NS: u64 = 250_000_000;
/// Keys and workers kept apart; a history from elsewhere may claim any number.
const KEPT_MAX: usize = 10_000;

/// See the module's page.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Measured {
    /// Grants in the whole run, to which findings, damage and commands belong.
    pub grants: u64,
    /// Releases answered ok in the load.
    pub cycles: u64,
    /// Time in which somebody wanted a key and nobody held it, in gaps of at least [`OUTAGE_NS`]; the mean over keys, ns.
    pub outage_ns: u64,
    /// The longest such time, of any length, ns.
    pub longest_gap_ns: u64,
    /// Accepted writes of which the resource has nothing at the end, as another one overwrote them unread; whole run.
    pub lost_updates: u64,
    /// Reads and writes that the resource refused because of an old token; whole run.
    pub refused: u64,
    /// Commands that the clients sent to servers in all; none if one of them did not say.
    pub messages: Option<u64>,
    /// Jain's index over the workers' numbers of grants: 1 is even, 1/n is one worker alone.
    pub fairness: f64,
}

type Worker = (String, u32);

/// One lock key.
#[derive(Default)]
struct Key {
    holders: BTreeSet<Worker>,
    wanting: BTreeSet<Worker>,
    /// Wanted and not held since.
    free_since: Option<u64>,
    accepted: u64,
    last: u64,
}

#[derive(Default)]
struct Pass {
    loading: bool,
    keys: BTreeMap<String, Key>,
    grants: BTreeMap<Worker, u64>,
    granted: u64,
    refused: u64,
    /// What each client said that it sent.
    sent: BTreeMap<String, u64>,
    /// Clients that a request was made to, and those that died: what these sent is not known.
    clients: BTreeSet<String>,
    died: bool,
    found: Measured,
}

/// Measures a run's folder.
///
/// # Errors
/// When its history cannot be read.
pub fn measure(dir: &Path) -> Result<Measured, ReportError> {
    let mut pass = Pass::default();
    let mut end = 0;
    each_event(&dir.join("history.jsonl"), |e| {
        end = e.time;
        pass.push(e);
    })?;
    Ok(pass.finish(end))
}

impl Pass {
    fn push(&mut self, e: &Event<'_>) {
        match &e.process {
            Process::Named(name) if name == "driver" => self.driver(e),
            Process::Named(_) => {}
            Process::Id(_) => self.operation(e),
        }
    }

    fn driver(&mut self, e: &Event<'_>) {
        match (&*e.f, e.value.phase.as_deref()) {
            ("phase", Some("load")) => {
                self.loading = true;
                self.found = Measured::default();
                self.grants.clear();
                for key in self.keys.values_mut() {
                    key.free_since = key.free_since.map(|_| e.time);
                }
            }
            ("phase", _) if self.loading => self.end(e.time),
            ("messages", _) => {
                let client = e.client.as_deref().unwrap_or_default().to_owned();
                if let Some(messages) = e.value.messages
                    && self.sent.len() < KEPT_MAX
                {
                    self.sent.insert(client, messages);
                }
            }
            ("death" | "thread-end", _) => {
                self.died |= e.f == "death";
                let client = e.client.as_deref().unwrap_or_default();
                let of = e.worker.filter(|_| e.f == "thread-end");
                let lives = |(c, w): &(String, u32)| c != client || of.is_some_and(|of| of != *w);
                for key in self.keys.values_mut() {
                    key.holders.retain(lives);
                    key.wanting.retain(lives);
                    key.look(e.time, self.loading, &mut self.found);
                }
            }
            _ => {}
        }
    }

    fn operation(&mut self, e: &Event<'_>) {
        let (Some(client), Some(name)) = (e.client.as_deref(), e.key.as_deref()) else {
            return;
        };
        if !self.keys.contains_key(name) {
            if self.keys.len() == KEPT_MAX {
                return;
            }
            self.keys.insert(name.to_owned(), Key::default());
        }
        let Some(key) = self.keys.get_mut(name) else {
            return;
        };
        let worker = (client.to_owned(), e.worker.unwrap_or_default());
        if !self.clients.contains(client) && self.clients.len() < KEPT_MAX {
            self.clients.insert(client.to_owned());
        }
        match (&*e.f, e.kind) {
            ("acquire", EventType::Invoke) if key.wanting.len() < KEPT_MAX => {
                key.wanting.insert(worker);
            }
            ("acquire", EventType::Ok) => {
                key.wanting.remove(&worker);
                if self.grants.len() < KEPT_MAX || self.grants.contains_key(&worker) {
                    *self.grants.entry(worker.clone()).or_default() += u64::from(self.loading);
                }
                self.granted += 1;
                key.holders.insert(worker);
            }
            ("release", EventType::Invoke) => {
                key.holders.remove(&worker);
            }
            ("release", EventType::Ok) => self.found.cycles += u64::from(self.loading),
            ("write", EventType::Ok) => {
                key.accepted += 1;
                key.last = e.value.version.unwrap_or_default();
            }
            ("read" | "write", EventType::Fail) if e.error.as_deref() == Some("stale-token") => {
                self.refused += 1;
            }
            _ => {}
        }
        key.look(e.time, self.loading, &mut self.found);
    }

    /// The load is over.
    fn end(&mut self, now: u64) {
        for key in self.keys.values_mut() {
            key.close(now, true, &mut self.found);
        }
        self.loading = false;
    }

    fn finish(mut self, end: u64) -> Measured {
        if self.loading {
            self.end(end);
        }
        let keys = self.keys.len().max(1) as u64;
        self.found.outage_ns /= keys;
        // A write makes the version that follows the one it read: as many as the last one says stand in a row.
        let lost = |k: &Key| k.accepted.saturating_sub(k.last);
        self.found.lost_updates = self.keys.values().map(lost).sum();
        self.found.fairness = jain(self.grants.values().copied());
        (self.found.grants, self.found.refused) = (self.granted, self.refused);
        let all_said = !self.died && self.clients.iter().all(|c| self.sent.contains_key(c));
        self.found.messages = all_said.then(|| self.sent.values().sum());
        self.found
    }
}

impl Key {
    fn look(&mut self, now: u64, loading: bool, found: &mut Measured) {
        if !self.wanting.is_empty() && self.holders.is_empty() {
            self.free_since.get_or_insert(now);
        } else {
            self.close(now, loading, found);
        }
    }

    fn close(&mut self, now: u64, loading: bool, found: &mut Measured) {
        let Some(since) = self.free_since.take() else {
            return;
        };
        let gap = now.saturating_sub(since);
        if loading {
            found.longest_gap_ns = found.longest_gap_ns.max(gap);
            if gap >= OUTAGE_NS {
                found.outage_ns += gap;
            }
        }
    }
}

/// Jain, Chiu and Hawe (1984): (Σx)² / (n·Σx²).
fn jain(shares: impl Iterator<Item = u64>) -> f64 {
    let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for x in shares {
        let x = x as f64;
        n += 1.0;
        sum += x;
        squares += x * x;
    }
    if squares > 0.0 {
        sum * sum / (n * squares)
    } else {
        1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::{History, MS};
    use fencepost_checker::Value;

    fn measured(h: &History) -> Measured {
        let dir = tempfile::tempdir().expect("temp");
        std::fs::write(dir.path().join("history.jsonl"), h.text()).expect("a history");
        measure(dir.path()).expect("it is read")
    }

    #[test]
    fn gaps_count_while_somebody_wants_the_lock() {
        let mut h = History::new("gaps", &[]);
        h.phase(0, "warm-up").phase(1_000, "load");
        h.call(1_000, 1_010, "c1", EventType::Ok, "acquire");
        h.op(1_020, "c2", EventType::Invoke, "acquire", Value::default());
        // A hand-over of 100 ms, then 500 ms in which nobody wants anything, then an outage of 400 ms.
        h.call(1_100, 1_105, "c1", EventType::Ok, "release");
        h.op(1_200, "c2", EventType::Ok, "acquire", Value::default());
        h.call(1_300, 1_305, "c2", EventType::Ok, "release");
        h.op(1_800, "c1", EventType::Invoke, "acquire", Value::default());
        h.op(2_200, "c1", EventType::Ok, "acquire", Value::default());
        h.phase(2_500, "heal");
        h.call(2_600, 2_605, "c1", EventType::Ok, "release");
        h.op(2_700, "c2", EventType::Invoke, "acquire", Value::default());
        h.phase(9_000, "end");
        let m = measured(&h);
        assert_eq!((m.grants, m.cycles), (3, 2));
        assert_eq!((m.outage_ns, m.longest_gap_ns), (400 * MS, 400 * MS));
        assert!(
            (m.fairness - 0.9).abs() < 1e-9,
            "two and one: {}",
            m.fairness
        );
    }

    #[test]
    fn a_dead_holder_leaves_a_gap_and_a_dead_waiter_none() {
        let mut h = History::new("death", &[]);
        h.phase(0, "load");
        h.call(0, 10, "c1", EventType::Ok, "acquire");
        h.op(20, "c2", EventType::Invoke, "acquire", Value::default());
        let death = |h: &mut History, ms: u64, client: &'static str| {
            h.push(Event {
                index: 0,
                time: ms * MS,
                process: Process::Named("driver".into()),
                client: Some(client.into()),
                worker: None,
                kind: EventType::Info,
                f: "death".into(),
                key: None,
                value: Value::default(),
                error: None,
            });
        };
        death(&mut h, 100, "c1");
        h.op(1_100, "c2", EventType::Ok, "acquire", Value::default());
        h.call(1_200, 1_210, "c2", EventType::Ok, "release");
        h.op(1_300, "c2", EventType::Invoke, "acquire", Value::default());
        death(&mut h, 1_310, "c2");
        h.phase(5_000, "end");
        let m = measured(&h);
        assert_eq!((m.outage_ns, m.longest_gap_ns), (1_000 * MS, 1_000 * MS));
    }

    #[test]
    fn messages_count_where_every_client_told_them() {
        let history = |told: &[(&'static str, u64)]| {
            let mut h = History::new("messages", &[]);
            h.phase(0, "warm-up");
            h.call(0, 10, "c1", EventType::Ok, "acquire");
            h.phase(20, "load");
            h.call(30, 40, "c2", EventType::Ok, "acquire");
            for (client, messages) in told {
                h.push(Event {
                    index: 0,
                    time: 50 * MS,
                    process: Process::Named("driver".into()),
                    client: Some((*client).into()),
                    worker: None,
                    kind: EventType::Info,
                    f: "messages".into(),
                    key: None,
                    value: Value {
                        messages: Some(*messages),
                        ..Value::default()
                    },
                    error: None,
                });
            }
            let m = measured(&h);
            (m.messages, m.grants)
        };
        assert_eq!(history(&[("c1", 3), ("c2", 4)]), (Some(7), 2));
        assert_eq!(history(&[("c1", 3)]), (None, 2));
    }

    #[test]
    fn an_update_that_was_overwritten_unread_is_lost() {
        let mut h = History::new("lost", &[]);
        h.phase(0, "load");
        let version = |version| Value {
            version: Some(version),
            ..Value::default()
        };
        for (ms, v) in [(10, 1), (20, 2), (30, 2), (40, 3)] {
            h.op(ms, "c1", EventType::Ok, "write", version(v));
        }
        h.phase(100, "end");
        assert_eq!(measured(&h).lost_updates, 1);
        // The last of all may be the oldest: what stood before it is gone as well.
        h.op(110, "c1", EventType::Ok, "write", version(2));
        assert_eq!(measured(&h).lost_updates, 3);
    }

    #[test]
    fn what_is_counted_over_grants_is_counted_as_long_as_these() {
        let mut h = History::new("window", &[]);
        h.phase(0, "warm-up").phase(10, "load");
        h.call(20, 25, "c1", EventType::Ok, "acquire");
        h.phase(100, "heal");
        h.call(120, 125, "c2", EventType::Ok, "acquire");
        h.push(Event {
            index: 0,
            time: 130 * MS,
            process: Process::Id(7),
            client: Some("c1".into()),
            worker: Some(0),
            kind: EventType::Fail,
            f: "write".into(),
            key: Some("lock:0".into()),
            value: Value::default(),
            error: Some("stale-token".into()),
        });
        h.phase(200, "end");
        let m = measured(&h);
        assert_eq!((m.grants, m.refused), (2, 1));
    }
}
