//! Did the run show anything: faults bit and healed, the lock was contended, every kind of operation succeeded?
//!
//! Owns the judgement of the run itself, from events only. It finds nothing: it is valid or unknown.
use super::{Answer, CheckInfo};
use crate::analysis::Analysis;
use crate::facts::{Facts, seconds};
use crate::servers::{Seen, SeenKind};
use crate::verdict::Class;
use std::collections::BTreeMap;

pub(super) const INFO: CheckInfo = CheckInfo {
    name: "coverage",
    class: Class::Coverage,
    about: "the faults bit and healed, the lock was contended, and every kind of operation succeeded at least once",
    invariant: "",
    run,
};

fn run(a: &mut Analysis) -> Answer {
    let f = &a.facts;
    let mut lacks = Vec::new();
    if let Some(first) = &f.first_anomaly {
        lacks.push(format!(
            "{} of the events do not fit together, the first: {first}",
            f.anomalies
        ));
    }
    let (promises, beliefs) = a.possible;
    if promises + beliefs > 0 {
        lacks.push(format!(
            "within the clocks' uncertainty of {} ms, {promises} exclusions and {beliefs} overruns are possible, \
             but not certain",
            f.model().clock_uncertainty_ms
        ));
    }
    if !f.model().coverage {
        if f.tallies.values().all(|t| t.ok + t.fail == 0) {
            lacks.push("no operation was completed".to_owned());
        }
        return Answer {
            unknown: (!lacks.is_empty()).then(|| lacks.join("; ")),
            note: Some("not asked of this history".to_owned()),
            ..Answer::default()
        };
    }
    if !f.ended {
        lacks.push("the history was cut: it has no end phase".to_owned());
    }
    faults(f, &mut lacks);
    servers(f, &mut lacks);
    lacks.extend(f.ended_by_themselves.iter().cloned());
    lacks.extend(f.off_schedule.iter().cloned());
    if f.contended == 0 {
        lacks.push("the lock was never contended".to_owned());
    }
    let all = f.tallies.iter().filter(|(_, t)| t.invoked > 0 && t.ok == 0);
    for (op, tally) in all {
        lacks.push(format!("no {op} of {} succeeded", tally.invoked));
    }
    Answer {
        unknown: (!lacks.is_empty()).then(|| lacks.join("; ")),
        ..Answer::default()
    }
}

fn faults(f: &Facts, lacks: &mut Vec<String>) {
    /// What became of one fault of the plan, over all its windows.
    #[derive(Default)]
    struct Fault<'a> {
        kind: &'a str,
        bites: u64,
        injected: u64,
        unhealed: u64,
    }
    let mut all: BTreeMap<u32, Fault<'_>> = BTreeMap::new();
    for w in &f.faults.windows {
        let fault = all.entry(w.fault).or_default();
        fault.kind = &w.kind;
        if w.never_fired {
            continue;
        }
        fault.injected += 1;
        fault.bites += u64::from(w.bit.is_some());
        fault.unhealed += u64::from(w.not_healed || (w.healed.is_none() && !w.lasting()));
    }
    for (number, fault) in all {
        let name = format!("fault {number} ({})", fault.kind);
        if fault.injected == 0 {
            lacks.push(format!("{name} never fired"));
        } else if fault.bites == 0 {
            lacks.push(format!("{name} is not proved to have taken effect"));
        }
        if fault.unhealed > 0 {
            lacks.push(format!("{name} is not proved to be healed"));
        }
    }
    if f.faults.dropped > 0 {
        lacks.push(format!("{} fault windows were not kept", f.faults.dropped));
    }
}

/// A Sentinel that changes a server's role ends all of its connections.
fn reconfigured(f: &Facts, down: &Seen) -> bool {
    let from = down.not_before.saturating_sub(NOTICED_NS);
    let to = down.at.saturating_add(NOTICED_NS);
    let mut events = f.servers.of_nodes().iter().map(|i| f.servers.at(*i));
    let changed = events.any(|e| {
        let role = matches!(e.kind, SeenKind::Promoted | SeenKind::Demoted);
        role && e.at >= from && e.not_before <= to
    });
    changed && !f.servers.restarted(down.node, down.not_before, to)
}

/// How long after a fault of its own a server may still be found down: a connection notices late.
const NOTICED_NS: u64 = 3_000_000_000;

/// Servers that were lost by no fault of the run: then whatever was seen says nothing about the lock.
fn servers(f: &Facts, lacks: &mut Vec<String>) {
    let mut named = Vec::new();
    for seen in f.servers.seen.iter().filter(|s| s.kind == SeenKind::Down) {
        let node = seen.node;
        let name = f.names.text(node);
        let planned = f.faults.windows.iter().any(|w| {
            let (from, to) = w.span();
            w.kind.starts_with("node-")
                && w.target.split(',').any(|target| target == name)
                && from <= seen.at
                && seen.at <= to.saturating_add(NOTICED_NS)
        });
        if !planned && !reconfigured(f, seen) && !named.contains(&node) {
            named.push(node);
            lacks.push(format!(
                "{name} was down at {}, by no fault of the run",
                seconds(seen.at)
            ));
        }
    }
}
