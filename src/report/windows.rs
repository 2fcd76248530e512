//! The fault windows of a run, from its nemesis events: what was injected where, whether it bit, whether it healed.
//!
//! Owns [`FaultSummary`] and the question "is this operation before, during or after a fault?". Must not know what
//! a fault does. `scan` feeds it one nemesis event after the other; `summary` takes the result.
use super::latency::Phase;
use fencepost_checker::event::phase;
use serde::{Deserialize, Serialize};

/// Injections kept one by one for each fault; their number goes on.
const INJECTIONS_MAX: usize = 64;

/// Faults kept apart; a history from elsewhere may claim any number.
const FAULTS_MAX: usize = 256;

/// Windows open at once; more are not followed.
const OPEN_MAX: usize = 1_024;

/// One fault of the plan over a whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FaultSummary {
    /// Its number in the plan.
    pub fault: u32,
    /// Its kind.
    pub kind: String,
    /// How often it was injected (each target counts).
    pub injected: u64,
    /// How often another path proved that it bit.
    pub bit: u64,
    /// How often another path proved that it was gone.
    pub healed: u64,
    /// How often its effect, or its end, could not be proved.
    pub unproved: u64,
    /// Its trigger never matched.
    pub never_fired: bool,
    /// The first injections.
    pub injections: Vec<Injection>,
}

/// One fault at one target, once.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Injection {
    /// What was hit: `c1`, `n2`, `c1>n2`.
    pub target: String,
    /// When the injecting call was made, ns since the start of the run.
    pub at: u64,
    /// When it was proved to bite.
    pub bit: Option<u64>,
    /// When the healing call was made.
    pub heal: Option<u64>,
    /// When it was proved to be gone; the window ends here.
    pub healed: Option<u64>,
    /// How the bite is known.
    pub proof: String,
    /// How the end is known, or why it is not.
    pub end_proof: String,
}

/// All fault windows so far.
#[derive(Debug, Default)]
pub struct Windows {
    faults: Vec<FaultSummary>,
    /// Open windows: (fault, target, position in that fault's `injections` if it was kept).
    open: Vec<(u32, String, Option<usize>)>,
    any: bool,
    last_closed: u64,
}

/// A nemesis event, taken apart.
#[derive(Debug, Clone, Copy)]
pub struct Nemesis<'a> {
    /// Time, ns since the start of the run.
    pub time: u64,
    /// The fault's number.
    pub fault: u32,
    /// The fault's kind.
    pub kind: &'a str,
    /// The fault's phase.
    pub phase: &'a str,
    /// What is hit.
    pub target: &'a str,
    /// How it is known.
    pub proof: &'a str,
}

impl Windows {
    /// Take the next nemesis event.
    pub fn push(&mut self, e: &Nemesis<'_>) {
        let Some(f) = self.fault(e) else { return };
        match e.phase {
            phase::INJECT => self.inject(f, e),
            phase::BIT => {
                self.faults[f].bit += 1;
                // A fault that reports its bite only began no later than this.
                if self.find(e).is_none() {
                    self.inject(f, e);
                }
                if let Some(i) = self.injection(f, e) {
                    i.bit = Some(e.time);
                    e.proof.clone_into(&mut i.proof);
                }
            }
            phase::NO_BITE => {
                self.faults[f].unproved += 1;
                if let Some(i) = self.injection(f, e) {
                    e.proof.clone_into(&mut i.proof);
                }
            }
            phase::HEAL => {
                if let Some(i) = self.injection(f, e) {
                    i.heal = Some(e.time);
                }
            }
            phase::HEALED | phase::NOT_HEALED => self.end(f, e),
            phase::NEVER_FIRED => self.faults[f].never_fired = true,
            _ => {}
        }
    }

    /// The quiet tail begins: what has no healing of its own (a client killed for good) stands behind us.
    pub fn tail(&mut self, time: u64) {
        let faults = &self.faults;
        let before = self.open.len();
        self.open.retain(|(fault, _, kept)| {
            kept.is_some_and(|i| {
                faults
                    .iter()
                    .find(|f| f.fault == *fault)
                    .and_then(|f| f.injections.get(i))
                    .is_some_and(|i| i.heal.is_some())
            })
        });
        if self.open.len() < before {
            self.last_closed = self.last_closed.max(time);
        }
    }

    /// Where an operation from `from` to `to` lies, asked when `to` is the newest time.
    pub fn phase(&self, from: u64) -> Phase {
        if !self.open.is_empty() || (self.any && self.last_closed > from) {
            Phase::During
        } else if self.any {
            Phase::After
        } else {
            Phase::Before
        }
    }

    /// The faults, in the order of the plan.
    pub fn finish(mut self) -> Vec<FaultSummary> {
        self.faults.sort_by_key(|f| f.fault);
        self.faults
    }

    fn fault(&mut self, e: &Nemesis<'_>) -> Option<usize> {
        if let Some(f) = self.faults.iter().position(|f| f.fault == e.fault) {
            return Some(f);
        }
        if self.faults.len() == FAULTS_MAX {
            return None;
        }
        self.faults.push(FaultSummary {
            fault: e.fault,
            kind: e.kind.to_owned(),
            injected: 0,
            bit: 0,
            healed: 0,
            unproved: 0,
            never_fired: false,
            injections: Vec::new(),
        });
        Some(self.faults.len() - 1)
    }

    fn inject(&mut self, f: usize, e: &Nemesis<'_>) {
        self.any = true;
        let fault = &mut self.faults[f];
        fault.injected += 1;
        let kept = (fault.injections.len() < INJECTIONS_MAX).then(|| {
            fault.injections.push(Injection {
                target: e.target.to_owned(),
                at: e.time,
                ..Injection::default()
            });
            fault.injections.len() - 1
        });
        if self.open.len() == OPEN_MAX {
            return;
        }
        self.open.push((e.fault, e.target.to_owned(), kept));
    }

    /// Position of the open window that an event is about: same fault and target, else the only one of that fault
    /// (a fault may name its target only once it is resolved).
    fn find(&self, e: &Nemesis<'_>) -> Option<usize> {
        let of = |(fault, target, _): &(u32, String, Option<usize>)| {
            *fault == e.fault && target == e.target
        };
        self.open.iter().position(of).or_else(|| {
            let mut same = self.open.iter().enumerate().filter(|(_, o)| o.0 == e.fault);
            let first = same.next()?.0;
            same.next().is_none().then_some(first)
        })
    }

    fn injection(&mut self, f: usize, e: &Nemesis<'_>) -> Option<&mut Injection> {
        let kept = self.open[self.find(e)?].2?;
        self.faults[f].injections.get_mut(kept)
    }

    fn end(&mut self, f: usize, e: &Nemesis<'_>) {
        let healed = e.phase == phase::HEALED;
        if healed {
            self.faults[f].healed += 1;
        } else {
            self.faults[f].unproved += 1;
        }
        if let Some(i) = self.injection(f, e) {
            e.proof.clone_into(&mut i.end_proof);
            if healed {
                i.healed = Some(e.time);
            }
        }
        // What could not be shown to be gone still slows operations: its window stays open.
        if healed && let Some(o) = self.find(e) {
            self.open.remove(o);
            self.last_closed = self.last_closed.max(e.time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: u64, fault: u32, phase: &'static str, target: &'static str) -> Nemesis<'static> {
        Nemesis {
            time,
            fault,
            kind: "client-pause",
            phase,
            target,
            proof: "state T",
        }
    }

    #[test]
    fn an_operation_is_before_during_or_after() {
        let mut w = Windows::default();
        assert_eq!(w.phase(5), Phase::Before);
        w.push(&at(10, 0, phase::INJECT, "c1"));
        assert_eq!(w.phase(5), Phase::During, "began before, ends inside");
        w.push(&at(11, 0, phase::BIT, "c1"));
        w.push(&at(20, 0, phase::HEAL, "c1"));
        w.push(&at(21, 0, phase::HEALED, "c1"));
        assert_eq!(w.phase(5), Phase::During, "spans the window");
        assert_eq!(w.phase(15), Phase::During, "began inside");
        assert_eq!(w.phase(21), Phase::After);
        let f = &w.finish()[0];
        assert_eq!((f.injected, f.bit, f.healed, f.unproved), (1, 1, 1, 0));
        assert_eq!(f.injections[0].bit, Some(11));
        assert_eq!(f.injections[0].healed, Some(21));
    }

    #[test]
    fn each_target_and_each_fault_has_its_own_window() {
        let mut w = Windows::default();
        w.push(&at(10, 0, phase::INJECT, "c1>n1"));
        w.push(&at(10, 0, phase::INJECT, "c1>n2"));
        w.push(&at(20, 0, phase::HEALED, "c1>n1"));
        assert_eq!(w.phase(25), Phase::During);
        w.push(&at(30, 0, phase::HEALED, "c1>n2"));
        assert_eq!(w.phase(31), Phase::After);
        assert_eq!(w.finish()[0].healed, 2);
    }

    #[test]
    fn what_is_not_healed_stays_and_what_has_no_end_closes_at_the_tail() {
        let mut w = Windows::default();
        w.push(&at(10, 0, phase::INJECT, "c1"));
        w.push(&at(11, 0, phase::BIT, "c1"));
        w.tail(50);
        assert_eq!(w.phase(60), Phase::After);
        w.push(&at(70, 1, phase::INJECT, "n1"));
        w.push(&at(75, 1, phase::HEAL, "n1"));
        w.push(&at(80, 1, phase::NOT_HEALED, "n1"));
        w.tail(90);
        assert_eq!(w.phase(95), Phase::During);
        assert_eq!(w.finish()[1].unproved, 1);
    }

    #[test]
    fn a_fault_that_never_fired_opens_nothing() {
        let mut w = Windows::default();
        w.push(&at(10, 3, phase::NEVER_FIRED, ""));
        assert_eq!(w.phase(11), Phase::Before);
        assert!(w.finish()[0].never_fired);
    }

    #[test]
    fn many_injections_are_counted_but_not_all_kept() {
        let mut w = Windows::default();
        for n in 0..1_000 {
            w.push(&at(10 * n, 0, phase::INJECT, "c1"));
            w.push(&at(10 * n + 1, 0, phase::BIT, "c1"));
            w.push(&at(10 * n + 5, 0, phase::HEALED, "c1"));
        }
        let f = &w.finish()[0];
        assert_eq!((f.injected, f.bit, f.healed), (1_000, 1_000, 1_000));
        assert_eq!(f.injections.len(), INJECTIONS_MAX);
    }
}
