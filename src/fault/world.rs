//! What a fault can touch and ask.
//!
//! Owns nothing: it is the set of handles that the run hands to the nemesis.
use super::message::Messages;
use crate::cluster::Cluster;
use crate::observe::Observer;
use crate::plan::Plan;
use crate::record::{Clock, Sink};
use crate::run::board::Board;
use crate::run::clients::Clients;
use crate::run::recorder::Recorder;
use crate::tap::Taps;
use fencepost_checker::{Event, EventType, Process, Value, event::phase};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::cell::RefCell;
use std::rc::Rc;

/// See the module's page.
pub struct World {
    /// The plan.
    pub plan: Rc<Plan>,
    /// What all keys of this run begin with.
    pub prefix: String,
    /// The run's clock.
    pub clock: Clock,
    /// The history.
    pub recorder: Recorder,
    /// The servers and the links to them.
    pub cluster: Rc<Cluster>,
    /// The client processes.
    pub clients: Rc<Clients>,
    /// The direct view of the servers.
    pub observer: Rc<Observer>,
    /// Who holds, who waits.
    pub board: Rc<Board>,
    /// The proxies in front of the links, where the plan asks for them.
    pub taps: Option<Taps>,
    /// Rules on messages, by the number of their fault.
    pub messages: Messages,
    /// The stream `faults` of the seed.
    pub random: RefCell<Xoshiro256PlusPlus>,
}

/// One step in the life of a fault, as it goes on record.
pub(super) struct Step<'a> {
    /// The fault's number in the plan.
    pub fault: u32,
    /// One of [`phase`].
    pub phase: &'a str,
    /// What is hit.
    pub target: Option<&'a str>,
    /// The client that is hit, if it is one.
    pub client: Option<&'a str>,
    /// How it is known.
    pub proof: Option<&'a str>,
}

impl World {
    /// Servers that must grant.
    pub fn quorum(&self) -> usize {
        self.cluster.node_count() / 2 + 1
    }

    /// A number that no toxic and no probe on these servers has had.
    pub(super) fn fresh(&self) -> u64 {
        self.cluster.fresh()
    }

    /// Puts a step on record; before an injection all that was emitted so far is written out.
    pub(super) fn record(&self, step: &Step<'_>) {
        let kind = serde_json::to_value(self.plan.faults[step.fault as usize].kind);
        let kind = kind
            .ok()
            .and_then(|k| k.as_str().map(str::to_owned))
            .unwrap_or_default();
        self.recorder.emit(Event {
            index: 0,
            time: self.clock.now(),
            process: Process::Named("nemesis".into()),
            client: step.client.map(Into::into),
            worker: None,
            kind: EventType::Info,
            f: kind.into(),
            key: None,
            value: Value {
                fault: Some(step.fault),
                phase: Some(step.phase.into()),
                target: step.target.map(Into::into),
                proof: step.proof.map(Into::into),
                ..Value::default()
            },
            error: None,
        });
        if step.phase == phase::INJECT {
            self.recorder.flush();
        }
    }
}
