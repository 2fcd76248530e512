//! One pass over a history: counts and histograms, nothing that grows with its length.
//!
//! Owns what is read off the events themselves. Must not judge: findings come from the verdict. `summary` takes the
//! [`Scan`]. Memory holds one entry an open call and worker, the fault windows and the histograms, so that a history
//! of a million events takes a few MiB.
//!
//! Anybody's file may come here: unknown operations are counted together, a torn last line is told, and a line that is no
//! event is counted and skipped (the checker has already refused what it cannot read).
use super::ReportError;
use super::intervals::Intervals;
use super::latency::{Latencies, Measure, Phase};
use super::lines::{body, head, open};
use super::windows::{FaultSummary, Nemesis, Windows};
use fencepost_checker::{Event, EventType, Header, Process};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::io::BufRead;
use std::path::Path;

/// Error codes and misbehaviours kept apart.
const KINDS_MAX: usize = 64;

/// Operations by name; any other is counted as `other`.
pub const OPERATIONS: [&str; 8] = [
    "acquire", "extend", "release", "work", "read", "write", "lost", "other",
];

/// How often an operation ended how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Results {
    /// Took effect.
    pub ok: u64,
    /// Certainly did not.
    pub fail: u64,
    /// May have, at any time.
    pub info: u64,
    /// Never answered until the history ended.
    pub open: u64,
}

impl Results {
    /// All that began.
    pub fn total(self) -> u64 {
        self.ok + self.fail + self.info + self.open
    }
}

/// Times in which the whole machine stood still. Stalls are told with a little of what follows, so that they may overlap;
/// what does is one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Stalls {
    /// Number.
    pub count: u64,
    /// Sum in ms.
    pub total_ms: f64,
    /// Longest in ms.
    pub longest_ms: f64,
    /// Of the number, those that overlapped a fault: what is seen then may be the machine's doing as well.
    #[serde(default)]
    pub during_faults: u64,
}

/// What one pass over a history gives.
#[derive(Debug)]
pub struct Scan {
    /// The history's first line.
    pub header: Header,
    /// Number of events.
    pub events: u64,
    /// Lines that are no event.
    pub bad_lines: u64,
    /// Bytes of a torn last line.
    pub torn_bytes: u64,
    /// Time of the last event, ns.
    pub end: u64,
    /// The history has its end: the run was not cut.
    pub ended: bool,
    /// Phases of the run with their beginnings, ns.
    pub phases: Vec<(String, u64)>,
    /// Operations by name.
    pub operations: BTreeMap<String, Results>,
    /// Error codes: operation and code, number.
    pub errors: BTreeMap<String, u64>,
    /// Releases that were answered ok during the load.
    pub cycles: u64,
    /// Latencies since the load began.
    pub latencies: Latencies,
    /// The same second by second.
    pub intervals: Intervals,
    /// The faults.
    pub faults: Vec<FaultSummary>,
    /// Stalls of the machine.
    pub stalls: Stalls,
    /// Clients that died.
    pub deaths: u64,
    /// Misbehaviours of clients, with their number.
    pub misbehaved: BTreeMap<String, u64>,
}

impl Stalls {
    /// Of stalls in any order: from, to, in ns, and whether beside a fault.
    fn of(mut all: Vec<(u64, u64, bool)>) -> Self {
        all.sort_unstable();
        let mut apart: Vec<(u64, u64, bool)> = Vec::new();
        for (from, to, during) in all {
            match apart.last_mut() {
                Some(last) if from <= last.1 => {
                    last.1 = last.1.max(to);
                    last.2 |= during;
                }
                _ => apart.push((from, to, during)),
            }
        }
        let mut sum = Self::default();
        for (from, to, during) in apart {
            let ms = (to - from) as f64 / 1e6;
            sum.count += 1;
            sum.total_ms += ms;
            sum.longest_ms = sum.longest_ms.max(ms);
            sum.during_faults += u64::from(during);
        }
        sum
    }
}

impl Scan {
    /// Length of the load phase in ns, from its beginning to the next phase (or the end of the history).
    pub fn load(&self) -> (u64, u64) {
        let Some(n) = self.phases.iter().position(|(p, _)| p == "load") else {
            return (0, self.end);
        };
        let to = self.phases.get(n + 1).map_or(self.end, |p| p.1);
        (self.phases[n].1, to.max(self.phases[n].1))
    }
}

/// Read a history once.
///
/// # Errors
/// When the file cannot be read or its first line is no header.
pub fn scan(path: &Path) -> Result<Scan, ReportError> {
    read(open(path)?, path)
}

/// [`scan`] over any reader; `path` is for errors.
///
/// # Errors
/// As [`scan`].
pub fn read(mut from: impl BufRead, path: &Path) -> Result<Scan, ReportError> {
    let header = head(&mut from, path)?;
    let mut pass = Pass::new(header);
    let (bad, torn) = body(&mut from, path, |event| pass.push(event))?;
    (pass.scan.bad_lines, pass.scan.torn_bytes) = (bad, torn);
    Ok(pass.finish())
}

/// A worker's wait for the lock, over all of its tries.
#[derive(Debug, Default, Clone, Copy)]
struct Wait {
    from: Option<u64>,
    last: u64,
}

/// An open call.
#[derive(Debug, Clone, Copy)]
struct Call {
    at: u64,
    measured: bool,
}

/// The state of the pass.
struct Pass {
    scan: Scan,
    windows: Windows,
    open: HashMap<(u64, usize), Call>,
    waits: HashMap<String, HashMap<u32, Wait>>,
    /// Each stall: from, to, whether beside a fault.
    stalls: Vec<(u64, u64, bool)>,
    measuring: bool,
    loading: bool,
}

impl Pass {
    fn new(header: Header) -> Self {
        Self {
            scan: Scan {
                header,
                events: 0,
                bad_lines: 0,
                torn_bytes: 0,
                end: 0,
                ended: false,
                phases: Vec::new(),
                operations: BTreeMap::new(),
                errors: BTreeMap::new(),
                cycles: 0,
                latencies: Latencies::default(),
                intervals: Intervals::default(),
                faults: Vec::new(),
                stalls: Stalls::default(),
                deaths: 0,
                misbehaved: BTreeMap::new(),
            },
            windows: Windows::default(),
            open: HashMap::new(),
            waits: HashMap::new(),
            stalls: Vec::new(),
            // A history without phases is all load.
            measuring: true,
            loading: true,
        }
    }

    fn push(&mut self, e: &Event<'_>) {
        self.scan.events += 1;
        self.scan.end = self.scan.end.max(e.time);
        match &e.process {
            Process::Id(id) => self.operation(*id, e),
            Process::Named(name) if name == "nemesis" => self.nemesis(e),
            Process::Named(name) if name == "driver" => self.driver(e),
            Process::Named(_) => {}
        }
    }

    fn nemesis(&mut self, e: &Event<'_>) {
        self.windows.push(&Nemesis {
            time: e.time,
            fault: e.value.fault.unwrap_or_default(),
            kind: &e.f,
            phase: e.value.phase.as_deref().unwrap_or_default(),
            target: e
                .value
                .target
                .as_deref()
                .or(e.client.as_deref())
                .unwrap_or_default(),
            proof: e.value.proof.as_deref().unwrap_or_default(),
        });
    }

    fn driver(&mut self, e: &Event<'_>) {
        match &*e.f {
            "phase" => self.phase(e.value.phase.as_deref().unwrap_or_default(), e.time),
            "stall" => {
                // A history from elsewhere may say anything.
                let ms = e.value.ms.unwrap_or_default().clamp(0.0, 1e9);
                let began = e.time.saturating_sub((ms * 1e6) as u64);
                let during = self.windows.phase(began) == Phase::During;
                self.stalls.push((began, e.time, during));
            }
            "death" => {
                self.scan.deaths += 1;
                // Its workers wait no longer; how long they would have is not known.
                if let Some(mut waits) = e.client.as_deref().and_then(|c| self.waits.remove(c)) {
                    for wait in waits.values_mut() {
                        self.end_wait(*wait, e.time);
                    }
                }
            }
            "adapter" => {
                let what = e.value.proof.as_deref().or(e.error.as_deref());
                count(&mut self.scan.misbehaved, what.unwrap_or("misbehaved"));
            }
            _ => {}
        }
    }

    fn phase(&mut self, name: &str, time: u64) {
        if self.scan.phases.len() < KINDS_MAX {
            self.scan.phases.push((name.to_owned(), time));
        }
        match name {
            "warm-up" => self.measuring = false,
            "load" => {
                self.measuring = true;
                self.scan.cycles = 0;
                self.waits.clear();
            }
            "tail" => self.windows.tail(time),
            "end" => self.scan.ended = true,
            _ => {}
        }
        self.loading = name == "load";
    }

    fn operation(&mut self, id: u64, e: &Event<'_>) {
        let op = OPERATIONS
            .iter()
            .position(|o| *o == e.f)
            .unwrap_or(OPERATIONS.len() - 1);
        if e.kind == EventType::Invoke {
            let call = Call {
                at: e.time,
                measured: self.measuring,
            };
            self.open.insert((id, op), call);
            if e.f == "acquire" {
                let wait = self.wait(id, e);
                wait.from.get_or_insert(e.value.intended.unwrap_or(e.time));
                wait.last = e.time;
            }
            return;
        }
        let results = self
            .scan
            .operations
            .entry(OPERATIONS[op].to_owned())
            .or_default();
        match e.kind {
            EventType::Ok => results.ok += 1,
            EventType::Fail => results.fail += 1,
            EventType::Info | EventType::Invoke => results.info += 1,
        }
        if let Some(code) = &e.error {
            count(&mut self.scan.errors, &format!("{} {code}", OPERATIONS[op]));
        }
        if e.f == "release" && e.kind == EventType::Ok && self.loading {
            self.scan.cycles += 1;
        }
        let call = self.open.remove(&(id, op));
        self.measure(id, e, call);
    }

    /// Record the latency of an operation that has just ended.
    fn measure(&mut self, id: u64, e: &Event<'_>, call: Option<Call>) {
        let censored = e.kind == EventType::Info;
        let measure = match (&*e.f, e.kind) {
            ("acquire", EventType::Fail) => Measure::AcquireRefused,
            ("acquire", _) => Measure::Acquire,
            ("release", EventType::Fail) => Measure::ReleaseRefused,
            ("release", _) => Measure::Release,
            ("extend", _) => Measure::Extend,
            _ => return,
        };
        if let Some(call) = call.filter(|c| c.measured) {
            let phase = self.windows.phase(call.at);
            self.record(e.time, (measure, phase), took(e, call.at), censored);
        }
        if e.f == "acquire" {
            let measuring = self.measuring;
            let wait = self.wait(id, e);
            wait.last = e.time;
            if e.kind == EventType::Ok
                && let Some(from) = wait.from.take()
                && measuring
            {
                let phase = self.windows.phase(from);
                let took = e.time.saturating_sub(from);
                self.record(e.time, (Measure::AcquireWait, phase), took, false);
            }
        }
    }

    /// The wait of the worker that an event belongs to; in a history without clients, of its process.
    fn wait(&mut self, id: u64, e: &Event<'_>) -> &mut Wait {
        let client = e.client.as_deref().unwrap_or_default();
        let worker = e
            .worker
            .unwrap_or(if client.is_empty() { id as u32 } else { 0 });
        let client = client.to_owned();
        self.waits
            .entry(client)
            .or_default()
            .entry(worker)
            .or_default()
    }

    /// A wait that never came to its grant.
    fn end_wait(&mut self, wait: Wait, at: u64) {
        if let Some(from) = wait.from
            && self.measuring
        {
            let phase = self.windows.phase(from);
            let took = at.saturating_sub(from);
            self.record(at, (Measure::AcquireWait, phase), took, true);
        }
    }

    /// A duration that ended at `at`, in ns.
    fn record(&mut self, at: u64, (measure, phase): (Measure, Phase), took: u64, censored: bool) {
        self.scan.latencies.record(measure, phase, took, censored);
        self.scan.intervals.record(at, measure, took);
    }

    fn finish(mut self) -> Scan {
        let end = self.scan.end;
        self.scan.stalls = Stalls::of(std::mem::take(&mut self.stalls));
        for wait in std::mem::take(&mut self.waits)
            .into_values()
            .flat_map(HashMap::into_values)
        {
            self.end_wait(wait, wait.last);
        }
        for ((_, op), call) in std::mem::take(&mut self.open) {
            let name = OPERATIONS[op];
            self.scan
                .operations
                .entry(name.to_owned())
                .or_default()
                .open += 1;
            let measure = match name {
                "acquire" => Measure::Acquire,
                "release" => Measure::Release,
                "extend" => Measure::Extend,
                _ => continue,
            };
            if call.measured {
                let phase = self.windows.phase(call.at);
                let took = end.saturating_sub(call.at);
                self.record(end, (measure, phase), took, true);
            }
        }
        self.scan.intervals.flush();
        self.scan.faults = self.windows.finish();
        self.scan
    }
}

/// How long a call that began at `from` took, in ns: as its client tells, unless that is more than passed here meanwhile
/// (its clock may be wrong); else as seen here, with the pipes between the two.
fn took(e: &Event<'_>, from: u64) -> u64 {
    let seen = e.time.saturating_sub(from);
    let told = e
        .value
        .ms
        .filter(|ms| *ms >= 0.0)
        .map(|ms| (ms * 1e6) as u64);
    told.filter(|told| *told <= seen).unwrap_or(seen)
}

/// Count one of a bounded number of kinds; the rest is `other`.
fn count(kinds: &mut BTreeMap<String, u64>, kind: &str) {
    let kind: String = kind.chars().take(200).collect();
    let kind = if kinds.len() < KINDS_MAX || kinds.contains_key(&kind) {
        kind
    } else {
        String::from("other")
    };
    *kinds.entry(kind).or_default() += 1;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn an_overlong_line_is_skipped_and_the_rest_is_read() -> Result<(), ReportError> {
        let mut text = fixture::plain_del().text();
        text.push_str(&"x".repeat(3 << 20));
        text.push('\n');
        text.push_str(r#"{"index":99,"time":9000000000,"process":1,"type":"ok","f":"acquire"}"#);
        text.push('\n');
        let scan = read(text.as_bytes(), Path::new("h"))?;
        assert_eq!(
            (scan.bad_lines, scan.torn_bytes, scan.end),
            (1, 0, 9_000_000_000)
        );
        Ok(())
    }

    #[test]
    fn stalls_that_overlap_are_one() {
        let (ms, calm, faulty) = (1_000_000, false, true);
        let told = vec![
            (900 * ms, 960 * ms, calm),
            (100 * ms, 200 * ms, calm),
            (150 * ms, 250 * ms, faulty),
        ];
        let want = Stalls {
            count: 2,
            total_ms: 210.0,
            longest_ms: 150.0,
            during_faults: 1,
        };
        assert_eq!(Stalls::of(told), want);
        assert_eq!(Stalls::of(Vec::new()), Stalls::default());
    }

    #[test]
    fn a_call_took_what_its_client_tells_but_never_more_than_was_seen() {
        let line = |ms: &str| {
            format!(
                r#"{{"index":1,"time":9000000,"process":1,"type":"ok","f":"acquire","value":{{{ms}}}}}"#
            )
        };
        for (ms, want) in [
            ("", 5_000_000),
            (r#""ms":0.25"#, 250_000),
            (r#""ms":0"#, 0),
            (r#""ms":5.1"#, 5_000_000),
            (r#""ms":-1"#, 5_000_000),
            (r#""ms":1e300"#, 5_000_000),
        ] {
            let text = line(ms);
            let event: Event<'_> = serde_json::from_str(&text).expect("an event");
            assert_eq!(took(&event, 4_000_000), want, "{ms}");
        }
    }

    #[test]
    fn a_refused_release_is_measured_apart() -> Result<(), ReportError> {
        let mut h = fixture::History::new("releases", &[]);
        h.phase(0, "load");
        h.call(10, 12, "c1", EventType::Ok, "release");
        h.call(20, 29, "c1", EventType::Fail, "release");
        h.call(30, 33, "c1", EventType::Info, "release");
        h.phase(100, "end");
        let scan = read(h.text().as_bytes(), Path::new("h"))?;
        let figures = |m| {
            let f = scan.latencies.all_phases(m).map(|d| d.figures());
            f.map(|f| (f.count, f.censored, f.max.ms.round()))
        };
        assert_eq!(figures(Measure::Release), Some((2, 1, 3.0)));
        assert_eq!(figures(Measure::ReleaseRefused), Some((1, 0, 9.0)));
        Ok(())
    }

    #[test]
    fn kinds_are_bounded() {
        let mut kinds = BTreeMap::new();
        for n in 0..1_000 {
            count(&mut kinds, &format!("{n}"));
        }
        assert_eq!(kinds.len(), KINDS_MAX + 1);
        assert_eq!(kinds.values().sum::<u64>(), 1_000);
    }

    proptest::proptest! {
        #[test]
        fn any_lines_can_be_read(lines in proptest::collection::vec(line(), 0..40), cut in 0..40_usize) {
            let mut text = fixture::History::new("w", &[]).text();
            text.push_str(&lines.join("\n"));
            let whole = read(text.as_bytes(), Path::new("h"));
            proptest::prop_assert!(whole.is_ok());
            let end = text.len() - cut.min(text.len());
            // Cut anywhere: an answer or an error, never a panic.
            drop(read(&text.as_bytes()[..end], Path::new("h")));
        }
    }

    /// An event, or nearly one.
    fn line() -> impl proptest::strategy::Strategy<Value = String> {
        use proptest::prelude::*;
        let process = prop_oneof![
            "[0-3]",
            Just(String::from("\"nemesis\"")),
            Just(String::from("\"driver\""))
        ];
        let kind = prop_oneof!["invoke", "ok", "fail", "info"];
        let f = prop_oneof![
            "acquire",
            "release",
            "extend",
            "phase",
            "stall",
            "death",
            "thread-end",
            "client-pause",
            "\\PC*"
        ];
        let phase = prop_oneof![
            "load",
            "warm-up",
            "tail",
            "end",
            "inject",
            "bit",
            "heal",
            "healed",
            "not-healed"
        ];
        let times = any::<u64>().prop_map(|t| if t % 3 == 0 { t } else { t % 100 });
        (process, kind, f, phase, times.clone(), times, "[ -~]{0,30}").prop_map(
            |(process, kind, f, phase, time, intended, junk)| {
                if junk.len() > 25 {
                    return junk;
                }
                let f = serde_json::Value::from(f);
                format!(
                    r#"{{"index":1,"time":{time},"process":{process},"client":"c1","worker":0,"type":"{kind}","f":{f},"value":{{"intended":{intended},"phase":"{phase}","fault":{},"target":"c1","ms":-1e300}}}}"#,
                    time % 3
                )
            },
        )
    }
}
