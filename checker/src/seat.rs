//! Who may hold what: a worker of a client and a key are a *seat*, which has a number.
//!
//! Owns the way from an event to its seat, and what is remembered of each: its hold, its wait. Must not know checks.
//! Used by `collect`. Most events are of a process that was seen shortly before with the same key, so the last seat of
//! each of some processes is kept, and its texts are compared before anything is hashed.
use crate::event::Event;
use crate::hash::Map;
use crate::names::{Name, Names};
use crate::operation::Hold;
use crate::section::{NEVER, Ns};

/// Processes whose last seat is kept: a power of two.
const RECENT: usize = 256;
/// The key of an event that names none.
const LOCK: &str = "lock";

/// A worker that never got what it tried for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Waiting {
    pub key: Name,
    pub client: Name,
    pub worker: u32,
    /// Its first try.
    pub since: Ns,
}

/// A worker of a client, with a key. About 50 bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seat {
    pub client: Name,
    pub worker: u32,
    pub key: Name,
    /// The number of all that try for this key, in `crowd`.
    pub crowd: u32,
    pub hold: Hold,
    /// The first try since it last held the key; [`NEVER`] where it does not wait.
    waits_since: Ns,
    /// It ever tried in vain.
    in_vain: bool,
}

/// The last seat of a process.
#[derive(Debug, Clone, Copy)]
struct Recent {
    process: u64,
    seat: u32,
    /// Its events name no client.
    nameless: bool,
}

/// All seats, by number.
#[derive(Debug)]
pub(crate) struct Seats {
    all: Vec<Seat>,
    by: Map<(Name, u32, Name), u32>,
    recent: Vec<Recent>,
}

impl Default for Seats {
    fn default() -> Self {
        let none = Recent {
            process: 0,
            seat: u32::MAX,
            nameless: false,
        };
        Self {
            all: Vec::new(),
            by: Map::default(),
            recent: vec![none; RECENT],
        }
    }
}

impl Seats {
    /// The seat of an operation's event, if one of its process, client, worker and key was seen lately.
    pub(crate) fn recent(&self, process: u64, event: &Event<'_>, names: &Names) -> Option<u32> {
        let recent = self.recent[process as usize % RECENT];
        let seat = self.all.get(recent.seat as usize)?;
        let client = match event.client.as_deref() {
            Some(client) => names.text(seat.client) == client,
            None => recent.nameless,
        };
        let same = client
            && recent.process == process
            && seat.worker == event.worker.unwrap_or(0)
            && names.text(seat.key) == event.key.as_deref().unwrap_or(LOCK);
        same.then_some(recent.seat)
    }

    /// The seat of an operation's event; a new one gets its `crowd` from the key.
    pub(crate) fn find(
        &mut self,
        process: u64,
        event: &Event<'_>,
        names: &mut Names,
        crowd: impl FnOnce(Name) -> u32,
    ) -> u32 {
        let client = match event.client.as_deref() {
            Some(c) => names.number(c),
            None => names.number(&format!("p{process}")),
        };
        let worker = event.worker.unwrap_or(0);
        let key = names.number(event.key.as_deref().unwrap_or(LOCK));
        let all = &mut self.all;
        let seat = *self.by.entry((client, worker, key)).or_insert_with(|| {
            all.push(Seat {
                client,
                worker,
                key,
                crowd: crowd(key),
                hold: Hold::NONE,
                waits_since: NEVER,
                in_vain: false,
            });
            (all.len() - 1) as u32
        });
        self.recent[process as usize % RECENT] = Recent {
            process,
            seat,
            nameless: event.client.is_none(),
        };
        seat
    }

    pub(crate) fn get(&self, seat: u32) -> &Seat {
        &self.all[seat as usize]
    }

    pub(crate) fn hold(&mut self, seat: u32) -> &mut Hold {
        &mut self.all[seat as usize].hold
    }

    /// All seats, in the order in which they were first seen.
    pub(crate) fn all(&self) -> &[Seat] {
        &self.all
    }

    /// It tries for its key.
    pub(crate) fn tries(&mut self, seat: u32, at: Ns) {
        let s = &mut self.all[seat as usize];
        if s.waits_since == NEVER {
            s.waits_since = at;
        }
    }

    /// It holds its key from now on: since when it had waited, and whether it ever tried in vain.
    pub(crate) fn granted(&mut self, seat: u32, at: Ns) -> (Ns, bool) {
        let s = &mut self.all[seat as usize];
        // Stamps of different processes need not rise: what was tried later than this is no earlier try.
        let since = s.waits_since.min(at);
        s.waits_since = NEVER;
        (since, s.in_vain)
    }

    /// It was granted once more what it holds already.
    pub(crate) fn waits_no_more(&mut self, seat: u32) {
        self.all[seat as usize].waits_since = NEVER;
    }

    /// It tried in vain.
    pub(crate) fn denied(&mut self, seat: u32) {
        self.all[seat as usize].in_vain = true;
    }

    /// A client is gone, and waits no more.
    pub(crate) fn died(&mut self, client: Name) {
        for s in self.all.iter_mut().filter(|s| s.client == client) {
            s.waits_since = NEVER;
        }
    }

    /// Who still waits, by key.
    pub(crate) fn waiting(&self) -> Vec<Waiting> {
        let waits = self.all.iter().filter(|s| s.waits_since != NEVER);
        let waiting = waits.map(|s| Waiting {
            key: s.key,
            client: s.client,
            worker: s.worker,
            since: s.waits_since,
        });
        let mut waiting: Vec<Waiting> = waiting.collect();
        waiting.sort_unstable();
        waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seat of an event, and whether it was found without hashing.
    fn seat(seats: &mut Seats, names: &mut Names, event: &str) -> (u32, bool) {
        let event: Event<'_> = serde_json::from_str(event).expect("an event");
        let crate::Process::Id(process) = event.process else {
            panic!("no operation")
        };
        let recent = seats.recent(process, &event, names);
        let found = seats.find(process, &event, names, |key| key);
        assert!(recent.is_none_or(|seat| seat == found));
        (found, recent.is_some())
    }

    #[test]
    fn a_seat_is_a_worker_of_a_client_and_a_key() {
        let (mut seats, mut names) = (Seats::default(), Names::default());
        let mut of = |what: &str| {
            let event = format!(r#"{{"index":0,"time":0,"type":"ok","f":"acquire",{what}}}"#);
            seat(&mut seats, &mut names, &event)
        };
        assert_eq!(of(r#""process":1,"client":"c""#), (0, false));
        assert_eq!(of(r#""process":1,"client":"c""#), (0, true));
        // Another process of the same worker, in the same place of the memory.
        assert_eq!(of(r#""process":257,"client":"c""#), (0, false));
        assert_eq!(of(r#""process":1,"client":"c","key":"lock""#), (0, false));
        // Another worker, another key, another client, none.
        assert_eq!(of(r#""process":1,"client":"c","worker":1"#), (1, false));
        assert_eq!(of(r#""process":1,"client":"c","key":"k""#), (2, false));
        assert_eq!(of(r#""process":1,"client":"d""#), (3, false));
        assert_eq!(of(r#""process":1"#), (4, false));
        assert_eq!(of(r#""process":1"#), (4, true));
        assert_eq!(of(r#""process":1,"client":"p1""#), (4, true));
        assert_eq!(of(r#""process":1,"client":"c""#), (0, false));
        assert_eq!(of(r#""process":1"#), (4, false));
    }
}
