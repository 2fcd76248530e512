//! The checker itself: events in, a verdict out.
//!
//! Owns the order of the stages: collect, sweep, check, judge. Must not know files.
use crate::analysis::Analysis;
use crate::checks;
use crate::collect::Collector;
use crate::event::Event;
use crate::facts::Facts;
use crate::model::Header;
use crate::verdict::{Outcome, Verdict};
use std::collections::BTreeMap;

/// Checks one history, event by event.
///
/// ```
/// use fencepost_checker::{Checker, Event, Header, Outcome};
///
/// let header: Header = serde_json::from_str(r#"{"fencepost":1,"workload":"x","seed":0,"model":{}}"#)?;
/// let mut checker = Checker::new(header);
/// for line in [
///     r#"{"index":0,"time":1,"process":0,"type":"invoke","f":"acquire"}"#,
///     r#"{"index":1,"time":2,"process":0,"type":"ok","f":"acquire"}"#,
/// ] {
///     let event: Event<'_> = serde_json::from_str(line)?;
///     checker.push(&event);
/// }
/// let verdict = checker.finish();
/// assert_eq!(verdict.outcome, Outcome::Valid);
/// assert_eq!(verdict.counts["grants"], 1);
/// # Ok::<(), serde_json::Error>(())
/// ```
///
/// It keeps about 150 bytes a grant, 60 an observed server event and 30 an effect, and nothing of all other events.
#[derive(Debug)]
pub struct Checker {
    collector: Collector,
}

impl Checker {
    /// A checker for a history with this header.
    pub fn new(header: Header) -> Self {
        Self {
            collector: Collector::new(Facts::new(header)),
        }
    }

    /// Takes the next event, in the order of the history. What does not fit together (an answer without an invoke)
    /// is counted, and makes the verdict unknown.
    pub fn push(&mut self, event: &Event<'_>) {
        self.collector.push(event);
    }

    /// So many events are not there any more, the first of them before this index: counted as what does not fit together.
    pub(crate) fn missed(&mut self, index: u64, count: u64) {
        self.collector.missed(index, count);
    }

    /// Runs all checks, and judges them against the header's `expect`.
    pub fn finish(self) -> Verdict {
        let facts = self.collector.finish();
        let mut counts = counts(&facts);
        let mut analysis = Analysis::new(facts);
        counts.insert("latent".to_owned(), analysis.latent);
        let checks = checks::run_all(&mut analysis);
        let verdict = Verdict {
            outcome: Outcome::Unknown,
            reasons: Vec::new(),
            checks,
            damaged: analysis.facts.damaged.take(),
            reading: Vec::new(),
            counts,
        };
        verdict.judged(&analysis.facts.header.expect)
    }
}

fn counts(f: &Facts) -> BTreeMap<String, u64> {
    let invoked = |op| f.tallies.get(op).map_or(0, |t| t.invoked);
    let counts = [
        ("events", f.events),
        ("acquires", invoked("acquire")),
        ("grants", f.sections.len() as u64),
        ("keys", f.keys().count() as u64),
        ("clients", f.clients),
        ("observed", f.servers.seen.len() as u64),
        ("faults", f.faults.windows.len() as u64),
        ("stalls", f.faults.stalls.len() as u64),
        ("anomalies", f.anomalies),
        ("torn_bytes", 0),
    ];
    counts.map(|(n, c)| (n.to_owned(), c)).into()
}
