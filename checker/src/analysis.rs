//! The sweeps over promises and beliefs, done once for all checks that need them.
//!
//! Owns exclusions by check, overruns, incidents, latent losses. Must not know expectations. Read by `checks`.
use crate::blame::{self, Cause};
use crate::facts::{Facts, seconds};
use crate::model::LockKind;
use crate::names::{NONE, Name};
use crate::parallel;
use crate::proof;
use crate::section::{Ended, NEVER, Ns, Piece};
use crate::servers::{How, SeenKind};
use crate::sweep::{PAIRS_MAX, Pair, Sweep};
use crate::unread;
use crate::verdict::{Blame, Finding, Verdict};
use std::collections::{BTreeMap, HashSet};

/// Server-side events in a finding, at most.
const EVIDENCE_MAX: usize = 24;
/// Pieces that are worth a thread.
const PIECES_MIN: usize = 50_000;
/// Faults in a finding, at most.
const FAULTS_MAX: usize = 10;

/// What was found under one check so far.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub count: u64,
    pub incidents: u64,
    /// Of `count`, those during which the machine stood still.
    pub excused: u64,
    pub findings: Vec<Finding>,
    last_cluster: Option<u32>,
}

impl Found {
    /// Counts one violation; its finding is made only if it is kept. Without a cluster it is an incident of its own.
    pub(crate) fn add(&mut self, cluster: Option<u32>, finding: impl FnOnce() -> Finding) {
        self.count += 1;
        if cluster.is_none() || self.last_cluster != cluster {
            self.incidents += 1;
        }
        self.last_cluster = cluster.or(self.last_cluster);
        if self.findings.len() < Verdict::FINDINGS_MAX {
            self.findings.push(finding());
        }
    }
}

/// The facts with all sweeps done.
#[derive(Debug)]
pub(crate) struct Analysis {
    pub facts: Facts,
    /// Exclusions, by the check under which they are reported.
    pub exclusions: BTreeMap<&'static str, Found>,
    pub overrun: Found,
    /// Overruns of clients that were neither stopped nor cut off, as (holder, next holder).
    pub unforced: Vec<Pair>,
    /// Holders of overruns that only a stall of the machine may have forced.
    pub stood_still: HashSet<u32>,
    /// Overlaps of promises, and of beliefs, that are possible within the clocks' uncertainty but not certain.
    pub possible: (u64, u64),
    /// Promises that the service broke with no second holder to profit.
    pub latent: u64,
    /// Sections in an exclusion.
    pub excluded: HashSet<u32>,
    /// Server-side events that an exclusion was explained by.
    pub explained: HashSet<u32>,
}

impl Analysis {
    /// Runs the sweeps.
    pub(crate) fn new(facts: Facts) -> Self {
        let mut a = Self {
            facts,
            exclusions: BTreeMap::new(),
            overrun: Found::default(),
            unforced: Vec::new(),
            stood_still: HashSet::new(),
            possible: (0, 0),
            latent: 0,
            excluded: HashSet::new(),
            explained: HashSet::new(),
        };
        let pieces = std::mem::take(&mut a.facts.promise);
        let (promise, possible_promise) = a.sweep_both(pieces);
        let (belief, possible_belief) = if a.facts.model().ttl_ms.is_some() {
            a.sweep_both(a.beliefs())
        } else {
            // Without a lease nothing but the holder ends a promise: the two are the same.
            (Sweep::default(), possible_promise)
        };
        a.possible = (
            possible_promise,
            possible_belief.saturating_sub(possible_promise),
        );
        let mut seen = HashSet::new();
        for pair in &promise.pairs {
            if seen.insert((pair.a.min(pair.b), pair.a.max(pair.b))) {
                a.exclusion(*pair);
            }
        }
        if promise.count > PAIRS_MAX {
            // Too many to look for the cause of each: the rest is like the most.
            let most = a.exclusions.values_mut().max_by_key(|found| found.count);
            if let Some(most) = most {
                most.count += promise.count - PAIRS_MAX;
            }
        }
        for pair in &belief.pairs {
            if !seen.contains(&(pair.a.min(pair.b), pair.a.max(pair.b))) {
                a.over(*pair);
            }
        }
        if belief.count > PAIRS_MAX {
            a.overrun.count = belief.count.saturating_sub(promise.count);
        }
        a.count_latent();
        a
    }

    /// The beliefs of all sections.
    fn beliefs(&self) -> Vec<Piece> {
        let all = self.facts.by_key.iter();
        let belief = all.map(|i| (*i, self.facts.section(*i)));
        let belief = belief.map(|(section, s)| Piece {
            key: s.key,
            start: s.ret,
            end: s.belief_end,
            section,
        });
        belief.collect()
    }

    /// What overlaps for certain: each piece made smaller by the clocks' uncertainty at both ends; and how many more
    /// pairs overlap possibly: each made larger.
    fn sweep_both(&self, mut pieces: Vec<Piece>) -> (Sweep, u64) {
        let u = self.facts.uncertainty();
        if u == 0 {
            return (self.sweep(pieces), 0);
        }
        let wide = pieces.iter().map(|p| Piece {
            start: p.start.saturating_sub(u),
            end: p.end.saturating_add(u),
            ..*p
        });
        // One worker's own stamps come from one clock.
        let different = |x, y| !self.facts.section(x).same_owner(self.facts.section(y));
        let wide = self.sweep_where(wide.collect(), different);
        for p in &mut pieces {
            p.start = p.start.saturating_add(u);
            if p.end != NEVER {
                p.end = p.end.saturating_sub(u);
            }
        }
        pieces.retain(|p| p.start < p.end);
        let certain = self.sweep(pieces);
        let more = wide.count.saturating_sub(certain.count);
        (certain, more)
    }

    fn sweep(&self, pieces: Vec<Piece>) -> Sweep {
        self.sweep_where(pieces, |_, _| true)
    }

    /// Sweeps over pieces key by key, groups of keys side by side.
    fn sweep_where(&self, pieces: Vec<Piece>, conflict: impl Fn(u32, u32) -> bool + Sync) -> Sweep {
        // To ask for the number of threads takes longer than a small sweep.
        let size = if pieces.len() <= PIECES_MIN {
            PIECES_MIN
        } else {
            pieces.len().div_ceil(parallel::threads()).max(PIECES_MIN)
        };
        self.sweep_groups(pieces, size, conflict)
    }

    /// As [`Self::sweep_where`], with a thread for each `size` pieces; the result is the same for any size.
    fn sweep_groups(
        &self,
        mut pieces: Vec<Piece>,
        size: usize,
        conflict: impl Fn(u32, u32) -> bool + Sync,
    ) -> Sweep {
        let f = &self.facts;
        pieces.sort_unstable_by_key(|p| (p.key, p.start, p.end, p.section));
        let mut groups: Vec<Vec<&[Piece]>> = Vec::new();
        let mut filled = size;
        for of_key in pieces.chunk_by(|x, y| x.key == y.key) {
            if filled >= size {
                groups.push(Vec::new());
                filled = 0;
            }
            filled += of_key.len();
            if let Some(group) = groups.last_mut() {
                group.push(of_key);
            }
        }
        let sweeps = parallel::map(groups, |group| {
            let mut all = Sweep::default();
            for of_key in group {
                let mut sweep = Sweep {
                    room: f.model().room(),
                    ..Sweep::default()
                };
                let readers = f.model().kind == LockKind::ReadWrite;
                let reads = |x: u32| readers && f.section(x).shared;
                sweep.run(of_key, reads, |x, y| f.conflict(x, y) && conflict(x, y));
                all.append(sweep);
            }
            all
        });
        let mut all = Sweep::default();
        for sweep in sweeps {
            all.append(sweep);
        }
        all
    }

    fn exclusion(&mut self, pair: Pair) {
        let f = &self.facts;
        let pair = in_order(f, pair);
        let cause = blame::cause(f, pair.a, pair.b);
        self.excluded.extend([pair.a, pair.b]);
        self.explained.extend(cause.seen);
        // No stall of the machine excuses this: two promises at once are proved by what was promised and kept.
        let found = self.exclusions.entry(cause.check).or_default();
        found.add(Some(pair.cluster), || exclusion_finding(f, pair, &cause));
    }

    fn over(&mut self, pair: Pair) {
        let f = &self.facts;
        let pair = in_order(f, pair);
        if f.faults.stalled_in(f.section(pair.a).inv, pair.from) {
            self.overrun.excused += 1;
        }
        let holder = f.names.text(f.section(pair.a).client);
        let latest = lease_may_last(f, pair);
        if latest.is_none() && f.model().promises_notice && self.unforced.len() < PAIRS_MAX as usize
        {
            let since = f.section(pair.a).inv;
            // One message lost or refused forces nobody to go on without a word.
            let mut active = f.faults.active(since, pair.from);
            let forced = active.any(|w| w.kind != "message");
            if !forced && f.faults.stalled_in(since, pair.from) {
                self.stood_still.insert(pair.a);
            } else if !forced {
                self.unforced.push(pair);
            }
        }
        let blame = match latest {
            None => Blame::Client(holder.to_owned()),
            Some(_) => Blame::Unknown,
        };
        self.overrun.add(Some(pair.cluster), || {
            overrun_finding(f, pair, blame, latest)
        });
    }

    /// Promises that a service's doing ended early, outside of every exclusion.
    fn count_latent(&mut self) {
        let f = &self.facts;
        if !f.model().observed {
            return;
        }
        let quorum = f.model().quorum as usize;
        let lost = (0u32..).zip(&f.sections).filter(|(i, s)| {
            if self.excluded.contains(i) || s.promise_end <= s.ret {
                return false;
            }
            let stays = f.servers.stays(s.key, s.owner, s.ret);
            let early = stays.iter().filter(|stay| {
                stay.loss.is_some_and(|l| {
                    let e = f.servers.at(l.seen);
                    let by_service = match l.how {
                        How::Restarted | How::Flushed | How::Evicted => true,
                        // An extension that was none may have stretched the promise.
                        How::Expired => f.extensions_of(*i).is_empty(),
                        How::Deleted | How::Removed | How::Overwritten | How::Unseen => false,
                    };
                    by_service && e.at < s.promise_end
                })
            });
            let early = early.count();
            early > 0 && stays.len() - early < quorum
        });
        self.latent = lost.count() as u64;
    }
}

/// The part of a lease that a call may take before it counts as one that waited.
const WAITED: Ns = 10;

/// The pair in the order of the grants.
fn in_order(f: &Facts, mut pair: Pair) -> Pair {
    if (f.section(pair.b).ret, pair.b) < (f.section(pair.a).ret, pair.a) {
        std::mem::swap(&mut pair.a, &mut pair.b);
    }
    pair
}

/// `A`, `B`, `C` … by position.
pub(crate) fn label(i: usize) -> String {
    char::from(b'A' + (i % 26) as u8).to_string()
}

/// The parts of a finding that all checks fill in alike: `sections` are labelled in order, evidence and faults
/// are those from the first invoke to `at`.
pub(crate) fn finding(
    f: &Facts,
    check: &str,
    blame: Blame,
    at: Ns,
    sections: &[u32],
    sentence: String,
) -> Finding {
    let from = sections.iter().map(|i| f.section(*i).inv).min();
    let from = from.unwrap_or(at);
    let key = sections.first().map_or(NONE, |i| f.section(*i).key);
    finding_on(f, check, blame, key, (from, at), sections, sentence)
}

/// As [`finding`], of a key and a time that no section may tell; a section that began earlier widens it.
pub(crate) fn finding_on(
    f: &Facts,
    check: &str,
    blame: Blame,
    key: Name,
    (from, at): (Ns, Ns),
    sections: &[u32],
    sentence: String,
) -> Finding {
    let from = sections
        .iter()
        .map(|i| f.section(*i).inv)
        .fold(from, Ns::min);
    let faults = f.faults.active(from, at).take(FAULTS_MAX);
    Finding {
        check: check.to_owned(),
        blame,
        kind: None,
        sentence,
        proof: Vec::new(),
        at,
        key: f.names.get(key).map(str::to_owned),
        sections: sections
            .iter()
            .enumerate()
            .map(|(n, i)| f.view(*i, &label(n)))
            .collect(),
        overlap_ns: None,
        evidence: evidence(f, key, sections, from, at),
        faults: faults
            .map(|w| {
                let end = w.healed.map_or("the end".to_owned(), seconds);
                format!("{} {} ({} to {end})", w.kind, w.target, seconds(w.inject))
            })
            .chain(stalls(f, from, at))
            .collect(),
    }
}

/// The machine's own stalls in `[from, at]`, beside the faults that were planned: none of them is the nemesis's doing.
fn stalls(f: &Facts, from: Ns, at: Ns) -> impl Iterator<Item = String> + '_ {
    let all = f.faults.stalls.iter();
    let within = all.filter(move |(begin, end)| *begin <= at && *end >= from);
    within.take(FAULTS_MAX).map(|(begin, end)| {
        let (begin, end) = (seconds(*begin), seconds(*end));
        format!("unplanned: the machine stood still ({begin} to {end})")
    })
}

/// What was seen on the servers of the key in `[from, at]`: what concerns the sections' values (without sections:
/// anybody's) or removes any.
fn evidence(f: &Facts, key: Name, sections: &[u32], from: Ns, at: Ns) -> Vec<serde_json::Value> {
    if key == NONE {
        return Vec::new();
    }
    let owners: Vec<_> = sections.iter().map(|i| f.section(*i).owner).collect();
    let unread = sections.iter().flat_map(|i| unread::sets(f, *i));
    let unread: Vec<u32> = unread.collect();
    let telling = |i: &u32| {
        let s = f.servers.at(*i);
        match s.kind {
            SeenKind::Set if unread.contains(i) => true,
            SeenKind::Set | SeenKind::Value | SeenKind::Expire => {
                owners.is_empty() || owners.contains(&s.owner)
            }
            _ => true,
        }
    };
    let of_key = f.servers.between(key, from, at);
    let of_nodes = f.servers.of_nodes().iter().copied();
    let of_nodes = of_nodes.filter(|i| {
        let s = f.servers.at(*i);
        s.at >= from && s.not_before <= at
    });
    let mut found: Vec<u32> = of_key.chain(of_nodes).filter(telling).collect();
    found.sort_unstable();
    if found.len() > EVIDENCE_MAX {
        // The grant at the beginning, and what is nearest to the end.
        let cut = found.len() - EVIDENCE_MAX + 4;
        found.drain(4..cut);
    }
    let events = found
        .into_iter()
        .map(|i| serde_json::to_value(f.servers.as_event(i, &f.names)));
    events.filter_map(Result::ok).collect()
}

fn exclusion_finding(f: &Facts, pair: Pair, cause: &Cause) -> Finding {
    let mut sections = vec![pair.a, pair.b];
    for c in &cause.culprits {
        if !sections.contains(c) && sections.len() < 5 {
            sections.push(*c);
        }
    }
    let name = |s: u32| {
        let at = sections.iter().position(|x| *x == s);
        let client = f.names.text(f.section(s).client);
        match at {
            Some(0 | 1) => label(at.unwrap_or_default()),
            Some(n) => format!("{} ({client})", label(n)),
            None => client.to_owned(),
        }
    };
    let (a, b) = (f.section(pair.a), f.section(pair.b));
    let others = match proof::service::others(f, pair).len() {
        0 => String::new(),
        n => format!(", and {n} more held, of {} permits", f.model().permits),
    };
    let sentence = format!(
        "B ({}) was granted {} at {} while A ({}) held a promise until {}{others}: {}",
        f.names.text(b.client),
        f.names.text(b.key),
        seconds(b.ret),
        f.names.text(a.client),
        seconds(a.promise_end),
        blame::because(f, cause, name)
    );
    let blame = cause.blame.clone();
    let unread = cause.unread(f).map(|(whose, set)| (name(whose), set));
    let proof = proof::service::exclusion(f, pair, &blame::because(f, cause, name), unread);
    let mut found = finding(f, cause.check, blame, pair.from, &sections, sentence).proved(proof);
    found.overlap_ns = overlap(pair);
    found
}

/// When the promise that stood before `at` ended; none if there was none.
fn promise_before(f: &Facts, section: u32, at: Ns) -> Option<Ns> {
    let mut pieces = Vec::new();
    let mut s = f.section(section).clone();
    s.settle(section, f.extensions_of(section), f.model(), &mut pieces);
    pieces.retain(|p| p.end <= at);
    pieces.last().map(|p| p.end)
}

/// When A's lease may have ended at the latest, if B may have been granted before: nobody looked at the servers, or A's call
/// took so long that it waited, and nobody saw when its lease began.
fn lease_may_last(f: &Facts, pair: Pair) -> Option<Ns> {
    let (a, b) = (f.section(pair.a), f.section(pair.b));
    if a.quoted {
        return None;
    }
    let waited = a.ret.saturating_sub(a.start) > a.lease / WAITED;
    let seen = a.owner != NONE && f.servers.sets_of(a.owner).next().is_some();
    if seen || (f.model().observed && !waited) {
        return None;
    }
    let granted = a.ret.saturating_add(a.lease);
    let extensions = f.extensions_of(pair.a).iter();
    let moved = extensions.filter(|e| e.ended == Ended::Ok && e.ret <= pair.from);
    let moved = moved.map(|e| e.ret.saturating_add(e.lease)).max();
    let latest = granted.max(moved.unwrap_or(0));
    (b.inv < latest).then_some(latest)
}

fn overrun_finding(f: &Facts, pair: Pair, blame: Blame, latest: Option<Ns>) -> Finding {
    let (a, b) = (f.section(pair.a), f.section(pair.b));
    let end = promise_before(f, pair.a, pair.from);
    let end = end.map_or("before it was answered".to_owned(), |end| {
        format!("at {}", seconds(end))
    });
    let or = latest.map_or(String::new(), |latest| {
        format!(" at the earliest and at {} at the latest", seconds(latest))
    });
    let sentence = format!(
        "A ({}) went on with {} past its lease, which ended {end}{or}: B ({}) was granted it at {}, and A believed until {}",
        f.names.text(a.client),
        f.names.text(a.key),
        f.names.text(b.client),
        seconds(b.ret),
        seconds(a.belief_end),
    );
    let mut found = finding(f, "overrun", blame, pair.from, &[pair.a, pair.b], sentence)
        .proved(proof::overrun::overrun(f, pair, latest));
    found.overlap_ns = overlap(pair);
    found
}

/// Length of the overlap; none without end.
fn overlap(pair: Pair) -> Option<Ns> {
    (pair.to != NEVER).then(|| pair.to - pair.from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::Collector;
    use crate::event::Event;
    use crate::model::Header;

    fn facts(keys: u64) -> Facts {
        let header: Header =
            serde_json::from_str(r#"{"fencepost":1,"workload":"x","seed":0,"model":{}}"#)
                .expect("a header");
        let mut collector = Collector::new(Facts::new(header));
        for time in 0..40 * keys {
            let (process, key) = (time % 7, time * time % keys);
            for (kind, at) in [("invoke", time), ("ok", time + process)] {
                let line = format!(
                    r#"{{"index":0,"time":{at},"process":{process},"type":"{kind}","f":"acquire","key":"{key}"}}"#
                );
                let event: Event<'_> = serde_json::from_str(&line).expect("an event");
                collector.push(&event);
            }
        }
        collector.finish()
    }

    #[test]
    fn the_number_of_threads_changes_nothing() {
        let a = Analysis::new(facts(23));
        let by = |size| {
            let s = a.sweep_groups(a.beliefs(), size, |_, _| true);
            (s.pairs, s.count, s.clusters)
        };
        let one = by(usize::MAX);
        assert!(one.1 > 100 && one.2 > 10, "{} pairs", one.1);
        for size in [1, 7, 100, 333] {
            assert_eq!(one, by(size), "{size} pieces a thread");
        }
    }
}
