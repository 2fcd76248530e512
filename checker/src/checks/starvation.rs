//! How fairly a lock is shared: how often a waiter is passed over, how long it waits, who holds for how much of the time.
//!
//! Owns the counting of grants to others during a wait. The bound is what the lock itself states (the model's
//! `bypass_max`, for locks that queue); a lock that states none is measured, and not judged. A wait with a fault or a
//! stall of the machine in it does not count. Shares are those of the time held, not of the number of grants (a worker
//! with short sections is not favoured for having many), and Jain's index of them is (Σx)² / (n·Σx²): 1 if all workers
//! of a key held it equally long, 1/n if one held it all the time.
use super::{Answer, CheckInfo};
use crate::analysis::{Analysis, Found, finding_on};
use crate::facts::{Facts, length, seconds};
use crate::hash::Map;
use crate::proof;
use crate::section::Ns;
use crate::verdict::{Blame, Class};

pub(super) const INFO: CheckInfo = CheckInfo {
    name: "starvation",
    class: Class::Liveness,
    about: "a waiter was passed over more often than the lock allows",
    invariant: "I8",
    run,
};

/// One wait: who, for which key, since when, until when, and the section that ended it.
struct Wait {
    key: u32,
    client: u32,
    worker: u32,
    since: Ns,
    until: Ns,
    section: Option<u32>,
}

fn run(a: &mut Analysis) -> Answer {
    let f = &a.facts;
    let mut found = Found::default();
    let mut most = (0u64, 0 as Ns);
    let stated = f.model().bypass_max;
    let order = Order::new(f);
    for wait in waits(f) {
        // Most waits pass this with one comparison; what it counts rises no further than the most grants of any.
        while order.grants_exceed(f, &wait, most.0) {
            most.0 += 1;
        }
        most.1 = most.1.max(wait.until - wait.since);
        let exceeds =
            |max| order.grants_exceed(f, &wait, max) && passed(f, &wait).count() as u64 > max;
        let over = stated.is_some_and(exceeds);
        if over && undisturbed(f, wait.since, wait.until) {
            let passed: Vec<u32> = passed(f, &wait).collect();
            report(f, &wait, &passed, &mut found);
        }
    }
    let index = jain(f).map_or(String::new(), |j| {
        format!("Jain's index of the time held is {j:.2}, ")
    });
    let measured = format!(
        "{index}the longest wait was {}, with at most {} grants to others",
        length(most.1),
        most.0
    );
    let unstated = format!("not asked: the lock states no bound on bypass; {measured}");
    Answer {
        found,
        unknown: stated.is_none().then_some(unstated),
        note: Some(measured),
    }
}

/// When the lock was granted, by key, and where each section is among these.
struct Order {
    rets: Vec<Ns>,
    places: Vec<u32>,
}

impl Order {
    fn new(f: &Facts) -> Self {
        let mut places = vec![0; f.sections.len()];
        for (place, i) in (0u32..).zip(&f.by_key) {
            places[*i as usize] = place;
        }
        let rets = f.by_key.iter().map(|i| f.section(*i).ret);
        Self {
            rets: rets.collect(),
            places,
        }
    }

    /// Whether more than so many other grants were made during a wait: the most that can have passed it over.
    fn grants_exceed(&self, f: &Facts, wait: &Wait, max: u64) -> bool {
        let Some(own) = wait.section else {
            return f.granted_in(wait.key, wait.since, wait.until).len() as u64 > max;
        };
        let of_key = |place: usize| f.section(f.by_key[place]).key == wait.key;
        let mut last = self.places[own as usize] as usize;
        if self.rets.get(last + 1) == Some(&wait.until) && of_key(last + 1) {
            let at = |i: &u32| (f.section(*i).key, f.section(*i).ret);
            let until = (wait.key, wait.until);
            last = f.by_key.partition_point(|i| at(i) <= until) - 1;
        }
        let earlier = usize::try_from(max)
            .ok()
            .and_then(|max| last.checked_sub(max)?.checked_sub(1));
        earlier.is_some_and(|place| self.rets[place] >= wait.since && of_key(place))
    }
}

/// All waits that ended, and those that had not when the load was over.
fn waits(f: &Facts) -> impl Iterator<Item = Wait> + '_ {
    let granted = (0u32..).zip(&f.sections).map(|(i, s)| Wait {
        key: s.key,
        client: s.client,
        worker: s.worker,
        since: s.wanted,
        until: s.ret,
        section: Some(i),
    });
    let waiting = f.waiting.iter().map(|w| Wait {
        key: w.key,
        client: w.client,
        worker: w.worker,
        since: w.since,
        until: f.tail_from.unwrap_or(f.last).max(w.since),
        section: None,
    });
    granted.chain(waiting)
}

/// Grants to others that began to wait later, and were served before: whoever asked before may come before.
fn passed<'a>(f: &'a Facts, wait: &'a Wait) -> impl Iterator<Item = u32> + 'a {
    let others = f.granted_in(wait.key, wait.since, wait.until);
    others.iter().copied().filter(|i| {
        let s = f.section(*i);
        s.wanted > wait.since && (s.client, s.worker) != (wait.client, wait.worker)
    })
}

fn undisturbed(f: &Facts, from: Ns, to: Ns) -> bool {
    f.faults.active(from, to).next().is_none() && !f.faults.stalled_in(from, to)
}

/// Jain's index of the time held, of the key on which it is least; none where no key has two workers.
fn jain(f: &Facts) -> Option<f64> {
    let least = f.keys().filter_map(|sections| {
        let mut held: Map<(u32, u32), f64> = Map::default();
        let key = f.section(*sections.first()?).key;
        let first = f.waiting.partition_point(|w| w.key < key);
        for w in f.waiting[first..].iter().take_while(|w| w.key == key) {
            held.entry((w.client, w.worker)).or_default();
        }
        for s in sections.iter().map(|i| f.section(*i)) {
            let end = s.belief_end.min(f.last).max(s.ret);
            *held.entry((s.client, s.worker)).or_default() += (end - s.ret) as f64;
        }
        let mut held: Vec<((u32, u32), f64)> = held.into_iter().collect();
        held.sort_unstable_by_key(|of| of.0);
        let sum: f64 = held.iter().map(|of| of.1).sum();
        let squares: f64 = held.iter().map(|of| of.1 * of.1).sum();
        (held.len() > 1 && squares > 0.0).then(|| sum * sum / (held.len() as f64 * squares))
    });
    least.min_by(f64::total_cmp)
}

fn report(f: &Facts, wait: &Wait, passed: &[u32], found: &mut Found) {
    found.add(None, || {
        let client = f.names.text(wait.client);
        let key = f.names.text(wait.key);
        let end = if wait.section.is_some() {
            format!("until it was granted it at {}", seconds(wait.until))
        } else {
            format!("and had not got it by {}", seconds(wait.until))
        };
        let sentence = format!(
            "{client} (worker {}) tried for {key} from {} on, {end}: {} others asked later and were granted it \
             before, though the lock states {} at most",
            wait.worker,
            seconds(wait.since),
            passed.len(),
            f.model().bypass_max.unwrap_or_default(),
        );
        let sections: Vec<u32> = wait.section.into_iter().collect();
        let span = (wait.since, wait.until);
        let waiter = format!("{client} (worker {})", wait.worker);
        let proof = proof::starvation::starvation(
            f,
            (&waiter, key),
            span,
            wait.section.is_some(),
            passed,
        );
        finding_on(
            f,
            "starvation",
            Blame::Unknown,
            wait.key,
            span,
            &sections,
            sentence,
        )
        .proved(proof)
    });
}
