//! What the page draws of a history beyond its summary: who held when, whose value each server had, rates and
//! latencies over time, and the steps around each finding.
//!
//! Owns the second pass over history.jsonl; its memory is bounded whatever the history's length. Must not know a
//! picture, and judges nothing: a span is what the history says (granted, released, set, deleted). Goes to
//! `sequence`, `timeline` and `charts`.
use super::nodes::{Holding, Nodes};
use super::quantiles::Quantiles;
use crate::report::evidence::marks;
use crate::report::lines::each_event;
use crate::report::scan::OPERATIONS;
use crate::report::{ReportError, Summary, timeline};
use fencepost_checker::{Event, EventType, Finding, Process};
use std::collections::HashMap;

/// Lanes of workers at most; the rest share the last one.
pub const LANES_MAX: usize = 96;
/// Spans kept apart; a longer history is drawn with a coarser grain.
const SPANS_MAX: u64 = 260_000;
/// Columns of the charts over time: fewer where a column would hold hardly a grant.
const BINS: std::ops::RangeInclusive<u64> = 40..=150;
/// Steps kept around one finding.
const STEPS_MAX: usize = 120;
/// Stalls kept one by one.
const STALLS_MAX: usize = 2_000;

/// What a span of a worker's lane shows. The numbers are read by `timeline.js`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// An acquire that was refused.
    Refused = 0,
    /// An acquire or release without a definite answer.
    Unknown = 1,
    /// Held within the lease.
    Held = 2,
    /// Held past the lease that the library promised.
    Beyond = 3,
    /// An accepted write.
    Write = 4,
    /// A write that was refused or given up.
    NoWrite = 5,
    /// The client died.
    Death = 6,
    /// Other calls: the winning acquire, release, extend.
    Call = 7,
}

/// A span of a lane, ns since the start of the run.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    /// What.
    pub kind: Kind,
    /// Begin.
    pub from: u64,
    /// End.
    pub to: u64,
}

/// One worker.
#[derive(Debug, Default)]
pub struct Lane {
    /// `c1/0`.
    pub name: String,
    /// Its spans, in order of their end.
    pub spans: Vec<Span>,
    /// Grants.
    pub grants: u64,
    /// Acquires refused.
    pub refused: u64,
    /// Acquires without a definite answer.
    pub unknown: u64,
    /// Time held, ns.
    pub held: u64,
    /// Of that, past the lease.
    pub beyond: u64,
    /// Its place: clients by number, then workers.
    place: (usize, String, u32),
    holding: Option<(u64, Option<u64>)>,
    waiting: Option<u64>,
}

/// One column of the charts over time.
#[derive(Debug, Default)]
pub struct Bin {
    /// Service times of acquires that were granted or unanswered.
    pub acquire: Quantiles,
    /// From intended start or first try to the grant.
    pub wait: Quantiles,
    /// Grants.
    pub grants: u64,
    /// Refused acquires.
    pub refused: u64,
    /// Operations without a definite answer.
    pub unknown: u64,
}

/// One call or effect near a finding.
#[derive(Debug, Clone)]
pub struct Step {
    /// Position in the finding's sections.
    pub section: usize,
    /// When the call began; for an effect, its time.
    pub from: u64,
    /// When it ended.
    pub to: u64,
    /// The operation.
    pub f: String,
    /// How it ended.
    pub kind: EventType,
    /// Version read or written.
    pub version: Option<u64>,
    /// Token.
    pub token: Option<u64>,
    /// Error code.
    pub error: Option<String>,
}

/// All that happened around one finding.
#[derive(Debug, Default)]
pub struct Scene {
    /// The part of time that is drawn; none: there is nothing to draw.
    pub range: Option<(u64, u64)>,
    /// Steps of the clients in it.
    pub steps: Vec<Step>,
}

/// The whole pass.
#[derive(Debug)]
pub struct Track {
    /// Workers, by client and number.
    pub lanes: Vec<Lane>,
    /// Whose value was on which server.
    pub holdings: Vec<Holding>,
    /// Columns over time.
    pub bins: Vec<Bin>,
    /// Width of a column, ns.
    pub bin_ns: u64,
    /// Stalls of the machine: end in ns, length in ms.
    pub stalls: Vec<(u64, f64)>,
    /// One a finding, in the order of the verdict.
    pub scenes: Vec<Scene>,
}

/// All findings of a verdict, in the order of its checks.
pub fn findings(s: &Summary) -> impl Iterator<Item = &Finding> {
    s.verdict.checks.iter().flat_map(|c| &c.findings)
}

/// Read the history of a results folder once more.
///
/// # Errors
/// When it cannot be read.
pub fn track(s: &Summary) -> Result<Track, ReportError> {
    let mut pass = Pass::new(s);
    each_event(&s.dir.join("history.jsonl"), |e| pass.push(e))?;
    Ok(pass.finish(s.history.end))
}

struct Pass<'a> {
    track: Track,
    nodes: Nodes,
    by_worker: HashMap<(String, u32), usize>,
    open: HashMap<(u64, usize), u64>,
    findings: Vec<&'a Finding>,
    /// Lane's name → findings and sections that it takes part in.
    cast: HashMap<(String, u32), Vec<(usize, usize)>>,
    grain: u64,
    ttl: Option<u64>,
}

impl<'a> Pass<'a> {
    fn new(s: &'a Summary) -> Self {
        let findings: Vec<&Finding> = findings(s).collect();
        let mut cast: HashMap<_, Vec<_>> = HashMap::new();
        let mut scenes = Vec::new();
        for (n, f) in findings.iter().enumerate() {
            for (i, section) in f.sections.iter().enumerate() {
                cast.entry((section.client.clone(), section.worker))
                    .or_default()
                    .push((n, i));
            }
            scenes.push(Scene {
                range: timeline::range(f, &marks(f)).filter(|_| !f.sections.is_empty()),
                steps: Vec::new(),
            });
        }
        let total = s.total_operations();
        let bins = (s.grants / 4).clamp(*BINS.start(), *BINS.end());
        let lanes = (s.setup.clients * s.setup.workers).clamp(1, LANES_MAX as u64);
        // Beyond the limit, spans closer than this become one: the count is then bounded by time, not by operations.
        let grain = if total > SPANS_MAX {
            (s.history.end / (SPANS_MAX / 4 / lanes).max(1)).max(1)
        } else {
            0
        };
        Self {
            track: Track {
                lanes: Vec::new(),
                holdings: Vec::new(),
                bins: (0..bins).map(|_| Bin::default()).collect(),
                bin_ns: (s.history.end / bins + 1).max(1),
                stalls: Vec::new(),
                scenes,
            },
            nodes: Nodes::default(),
            by_worker: HashMap::new(),
            open: HashMap::new(),
            findings,
            cast,
            grain,
            ttl: super::ttl_ns(s),
        }
    }

    fn push(&mut self, e: &Event<'_>) {
        match &e.process {
            Process::Id(id) => self.operation(*id, e),
            Process::Named(name) if name == "observer" => self.nodes.push(e),
            Process::Named(name) if name == "driver" => self.driver(e),
            Process::Named(_) => {}
        }
    }

    fn driver(&mut self, e: &Event<'_>) {
        match &*e.f {
            "stall" if self.track.stalls.len() < STALLS_MAX => {
                let ms = e.value.ms.unwrap_or_default().clamp(0.0, 1e9);
                self.track.stalls.push((e.time, ms));
            }
            "death" | "thread-end" => {
                let client = e.client.as_deref().unwrap_or_default();
                // A client dies with all of its workers, a thread alone.
                let of = e.worker.filter(|_| e.f == "thread-end");
                let dead: Vec<usize> = self
                    .by_worker
                    .iter()
                    .filter(|((c, w), _)| c == client && of.is_none_or(|of| of == *w))
                    .map(|(_, lane)| *lane)
                    .collect();
                for lane in dead {
                    self.let_go(lane, e.time);
                    self.track.lanes[lane].waiting = None;
                    self.span(lane, Kind::Death, e.time, e.time);
                }
            }
            _ => {}
        }
    }

    fn operation(&mut self, id: u64, e: &Event<'_>) {
        let op = OPERATIONS
            .iter()
            .position(|o| *o == e.f)
            .unwrap_or(OPERATIONS.len() - 1);
        let lane = self.lane(id, e);
        if e.kind == EventType::Invoke {
            self.open.insert((id, op), e.time);
            match &*e.f {
                "acquire" => {
                    let intended = e.value.intended.unwrap_or(e.time);
                    self.track.lanes[lane].waiting.get_or_insert(intended);
                    self.let_go(lane, e.time);
                }
                "release" => self.let_go(lane, e.time),
                _ => {}
            }
            return;
        }
        let from = self.open.remove(&(id, op)).unwrap_or(e.time);
        self.step(from, e);
        let kind = match (&*e.f, e.kind) {
            ("acquire" | "release" | "extend", EventType::Info) => Kind::Unknown,
            ("acquire", EventType::Fail) => Kind::Refused,
            ("acquire" | "release" | "extend", _) => Kind::Call,
            ("write", EventType::Ok) => Kind::Write,
            ("write", _) => Kind::NoWrite,
            ("lost", _) => return self.let_go(lane, e.time),
            _ => return,
        };
        self.count(lane, from, e);
        self.span(lane, kind, from, e.time);
        if e.kind == EventType::Ok && matches!(&*e.f, "acquire" | "extend") {
            let said = e
                .value
                .validity_ms
                .map(|ms| e.time.saturating_add((ms.clamp(0.0, 1e12) * 1e6) as u64));
            let lease = said.or(self.ttl.map(|ttl| from.saturating_add(ttl)));
            let held = &mut self.track.lanes[lane].holding;
            let since = match held {
                Some((since, _)) if e.f == "extend" => *since,
                _ => e.time,
            };
            if e.f == "acquire" || held.is_some() {
                *held = Some((since, lease));
            }
            if let Some(owner) = e.value.owner.as_deref() {
                self.nodes.owned(owner, lane);
            }
        }
    }

    /// Counts of the lane and of the column in which an operation ended.
    fn count(&mut self, lane: usize, from: u64, e: &Event<'_>) {
        let lane = &mut self.track.lanes[lane];
        let n = (e.time / self.track.bin_ns) as usize;
        let last = self.track.bins.len() - 1;
        let bin = &mut self.track.bins[n.min(last)];
        bin.unknown += u64::from(e.kind == EventType::Info);
        if e.f != "acquire" {
            return;
        }
        let took = e.time.saturating_sub(from);
        match e.kind {
            EventType::Ok => {
                lane.grants += 1;
                bin.grants += 1;
                bin.acquire.record(took);
                if let Some(since) = lane.waiting.take() {
                    bin.wait.record(e.time.saturating_sub(since));
                }
            }
            EventType::Fail => {
                lane.refused += 1;
                bin.refused += 1;
            }
            _ => {
                lane.unknown += 1;
                bin.acquire.record(took);
            }
        }
    }

    /// A worker's belief that it holds ends.
    fn let_go(&mut self, lane: usize, at: u64) {
        let Some((since, lease)) = self.track.lanes[lane].holding.take() else {
            return;
        };
        let lease = lease.unwrap_or(u64::MAX).clamp(since, at.max(since));
        self.span(lane, Kind::Held, since, lease);
        self.track.lanes[lane].held += at.saturating_sub(since);
        if at > lease {
            self.span(lane, Kind::Beyond, lease, at);
            self.track.lanes[lane].beyond += at - lease;
        }
    }

    fn span(&mut self, lane: usize, kind: Kind, from: u64, to: u64) {
        let spans = &mut self.track.lanes[lane].spans;
        let grain = self.grain;
        if grain > 0
            && let Some(last) = spans.iter_mut().rev().take(8).find(|s| s.kind == kind)
            && from.saturating_sub(last.to) < grain
        {
            last.to = last.to.max(to);
            return;
        }
        spans.push(Span { kind, from, to });
    }

    /// Keep an event that ended a call of somebody in a finding, within its time and of its key.
    fn step(&mut self, from: u64, e: &Event<'_>) {
        let (Some(client), Some(worker)) = (e.client.as_deref(), e.worker) else {
            return;
        };
        let Some(parts) = self.cast.get(&(client.to_owned(), worker)) else {
            return;
        };
        for &(finding, section) in parts {
            let scene = &mut self.track.scenes[finding];
            let Some(range) = scene.range else { continue };
            let refused = e.f == "acquire" && e.kind == EventType::Fail;
            let same_key = self.findings[finding].key.as_deref() == e.key.as_deref();
            if e.time < range.0 || from > range.1 || !same_key || refused || e.f == "work" {
                continue;
            }
            if scene.steps.len() < STEPS_MAX {
                scene.steps.push(Step {
                    section,
                    from,
                    to: e.time,
                    f: e.f.clone().into_owned(),
                    kind: e.kind,
                    version: e.value.version,
                    token: e.value.token,
                    error: e.error.clone().map(std::borrow::Cow::into_owned),
                });
            }
        }
    }

    /// The lane of the worker that an event belongs to; in a history without clients, of its process.
    fn lane(&mut self, id: u64, e: &Event<'_>) -> usize {
        let client = e.client.as_deref().unwrap_or("process");
        let worker = e
            .worker
            .unwrap_or(if e.client.is_none() { id as u32 } else { 0 });
        let key = (client.to_owned(), worker);
        if let Some(lane) = self.by_worker.get(&key) {
            return *lane;
        }
        let lanes = &mut self.track.lanes;
        if lanes.len() == LANES_MAX {
            lanes[LANES_MAX - 1].name = String::from("others");
            lanes[LANES_MAX - 1].place.0 = usize::MAX;
            return LANES_MAX - 1;
        }
        lanes.push(Lane {
            name: format!("{client}/{worker}"),
            place: (client.len(), client.to_owned(), worker),
            ..Lane::default()
        });
        self.by_worker.insert(key, lanes.len() - 1);
        lanes.len() - 1
    }

    /// Put the lanes in the order of their places, whoever came first.
    fn sort(&mut self) {
        let mut lanes: Vec<(usize, Lane)> = self.track.lanes.drain(..).enumerate().collect();
        lanes.sort_by(|a, b| a.1.place.cmp(&b.1.place));
        let mut now = vec![0; lanes.len()];
        for (new, (old, _)) in lanes.iter().enumerate() {
            now[*old] = new;
        }
        for holding in &mut self.track.holdings {
            holding.lane = holding.lane.and_then(|lane| now.get(lane).copied());
        }
        self.track.lanes = lanes.into_iter().map(|(_, lane)| lane).collect();
    }

    fn finish(mut self, end: u64) -> Track {
        for lane in 0..self.track.lanes.len() {
            self.let_go(lane, end);
            self.track.lanes[lane].spans.sort_by_key(|s| s.from);
        }
        self.track.holdings = std::mem::take(&mut self.nodes).finish(end);
        self.sort();
        self.track
    }
}
