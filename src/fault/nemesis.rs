//! The schedule of the faults and the life of each: wait, resolve, inject, prove, wait, heal, prove.
//!
//! Owns when a fault happens. Must not know how. One task a planned fault, all on the run's own thread.
use super::world::Step;
use super::{Fault, World, cripple, message, resolve};
use crate::plan::{FaultKind, When, each};
use crate::run::board::{Hit, Hold, Scope};
use crate::run::streams;
use fencepost_checker::event::phase;
use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// All faults of a run.
pub struct Nemesis {
    tasks: Vec<JoinHandle<()>>,
    over: watch::Sender<bool>,
}

/// One planned fault with what it waits for.
struct Planned {
    world: Rc<World>,
    number: u32,
    /// The first match of its trigger, watched from before the first operation on.
    trigger: Option<oneshot::Receiver<Hit>>,
    /// Says when the fault that it stands after has bitten.
    after: Option<watch::Receiver<bool>>,
    /// Says that it has bitten.
    bitten: watch::Sender<bool>,
    /// Whether it, or a fault that stands beside it in one entry on each node or client, has happened.
    fired: Rc<Cell<bool>>,
    /// The load is over.
    over: watch::Receiver<bool>,
    load_began: Instant,
    /// Gaps between one's own windows, from a stream of its own: another fault's draws do not move them.
    gaps: Xoshiro256PlusPlus,
    /// When the next of them begins by plan, however long the last took to heal.
    due: Instant,
}

impl Nemesis {
    /// Arms every trigger and starts every timer; the load begins now.
    pub fn arm(world: &Rc<World>) -> Self {
        let over = watch::Sender::new(false);
        let bitten: BTreeMap<&str, watch::Sender<bool>> = world
            .plan
            .faults
            .iter()
            .map(|f| (f.id.as_str(), watch::Sender::new(false)))
            .collect();
        let mut families: BTreeMap<&str, Rc<Cell<bool>>> = BTreeMap::new();
        let load_began = Instant::now();
        let tasks = world.plan.faults.iter().zip(0..).map(|(fault, number)| {
            let planned = Planned {
                world: world.clone(),
                number,
                trigger: match &fault.when {
                    When::On(_) if fault.kind == FaultKind::Message => {
                        message::arm(world, number, fault)
                    }
                    When::On(trigger) => Some(message::watch(world, trigger, Scope::default())),
                    _ => None,
                },
                after: match &fault.when {
                    When::After(id, _) => bitten.get(id.as_str()).map(watch::Sender::subscribe),
                    _ => None,
                },
                bitten: bitten[fault.id.as_str()].clone(),
                fired: families.entry(each::family(fault)).or_default().clone(),
                over: over.subscribe(),
                load_began,
                gaps: streams::stream(world.plan.seed, &format!("fault {}", fault.id)),
                due: load_began,
            };
            tokio::task::spawn_local(planned.live())
        });
        Self {
            tasks: tasks.collect(),
            over,
        }
    }

    /// The load is over: ends every open window, heals, and waits until all is proved healed.
    pub async fn end(self) {
        self.over.send_replace(true);
        for task in self.tasks {
            // A panic in a fault is a defect of ours; it must not pass for a healed run.
            if let Err(error) = task.await
                && error.is_panic()
            {
                std::panic::resume_unwind(error.into_panic());
            }
        }
    }
}

/// Until when the worker that pulled the trigger is held up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    /// Not at all: the fault takes its time, and a worker that waited for it would be another fault.
    No,
    /// Until the fault is made. Its proof waits for what clients do, or takes as long as an answer that stays away.
    Made,
    /// Until it is proved: a signal takes effect a moment after it was sent, and nothing may slip through before.
    Proved,
}

fn held(kind: FaultKind) -> Held {
    match kind {
        FaultKind::ClientPause | FaultKind::ClientKill | FaultKind::ClientRestart => Held::Proved,
        FaultKind::SlowWork
        | FaultKind::Message
        | FaultKind::ResourceDelay
        | FaultKind::QuorumThin => Held::Made,
        FaultKind::NodePause
        | FaultKind::Failover
        | FaultKind::LeaderChange
        | FaultKind::SessionExpiry
        | FaultKind::NodeKill
        | FaultKind::NodeRestart
        | FaultKind::Partition
        | FaultKind::Latency
        | FaultKind::NodeDropClients
        | FaultKind::NodeScriptFlush
        | FaultKind::NodeFlush
        | FaultKind::NodeDelete
        | FaultKind::NodeEvict
        | FaultKind::NodeFull
        | FaultKind::NodeSlow
        | FaultKind::NodeReadonly
        | FaultKind::Bandwidth
        | FaultKind::SlowClose
        | FaultKind::Slicer
        | FaultKind::LimitData
        | FaultKind::PacketLoss
        | FaultKind::Swizzle
        | FaultKind::NodeClock
        | FaultKind::ClientClock
        | FaultKind::NodePowerLoss => Held::No,
    }
}

impl Planned {
    async fn live(mut self) {
        let repeats = matches!(
            self.world.plan.faults[self.number as usize].when,
            When::Every(_)
        );
        while let Some(hit) = self.moment().await {
            self.fired.set(true);
            self.happen(hit).await;
            if !repeats {
                return;
            }
            let plan = &self.world.plan.faults[self.number as usize];
            self.due += plan.length.or(plan.down).unwrap_or_default();
        }
        // A random schedule may leave one node or client out; the file's fault has happened all the same.
        if !self.fired.get() {
            self.step(
                phase::NEVER_FIRED,
                None,
                Some("the load ended before its moment came"),
            );
        }
    }

    /// Waits for the fault's moment; none when the load ends first.
    async fn moment(&mut self) -> Option<Option<Hit>> {
        let world = self.world.clone();
        let mut over = self.over.clone();
        let ends = over.wait_for(|over| *over);
        let when = &world.plan.faults[self.number as usize].when;
        if let When::Every(mean) = when {
            let uniform: f64 = self.gaps.random();
            self.due += mean.mul_f64(-(1.0 - uniform).ln());
        }
        let due = self.due;
        let comes = async {
            match when {
                When::At(at) => tokio::time::sleep_until(self.load_began + *at).await,
                When::Every(_) => tokio::time::sleep_until(due).await,
                When::On(_) => {
                    let Some(trigger) = &mut self.trigger else {
                        return std::future::pending().await;
                    };
                    return match trigger.await {
                        Ok(hit) => Some(hit),
                        Err(_) => std::future::pending().await,
                    };
                }
                When::After(_, delay) => {
                    let Some(after) = &mut self.after else {
                        return std::future::pending().await;
                    };
                    if after.wait_for(|bitten| *bitten).await.is_err() {
                        return std::future::pending().await;
                    }
                    tokio::time::sleep(*delay).await;
                }
            }
            None
        };
        tokio::select! { biased; _ = ends => None, hit = comes => Some(hit) }
    }

    async fn happen(&mut self, hit: Option<Hit>) {
        let world = self.world.clone();
        let (hold, mut gate) = hit.map_or((None, None), |hit| (Some(hit.hold), Some(hit.gate)));
        let plan = &world.plan.faults[self.number as usize];
        let mut fault = match self.resolved(hold.as_ref(), &mut gate).await {
            Ok(fault) => fault,
            Err(why) => return self.step(phase::NO_BITE, None, Some(&why)),
        };
        // A message waits for every fault but a server's restart, which would be a pause of its own.
        let on_message = matches!(&plan.when, When::On(trigger) if trigger.message.is_some());
        let held = match held(plan.kind) {
            Held::No if on_message && plan.kind != FaultKind::NodeRestart => Held::Made,
            held => held,
        };
        if held == Held::No {
            drop(gate.take());
        }
        if let Err(why) = fault.prepare(&world).await {
            return self.step(phase::NO_BITE, Some(&*fault), Some(&why));
        }
        self.step(phase::INJECT, Some(&*fault), None);
        let done = if cripple::is_crippled(plan.kind) {
            Ok(())
        } else {
            fault.inject(&world).await
        };
        if let Err(why) = done {
            self.step(phase::NO_BITE, Some(&*fault), Some(&why));
            return self.undo(fault).await;
        }
        let injected = Instant::now();
        let until = plan.until.as_ref().map(|t| {
            message::watch(
                &world,
                t,
                Scope(
                    fault
                        .client()
                        .map(str::to_owned)
                        .or(hold.as_ref().map(|h| h.client.clone())),
                ),
            )
        });
        if held == Held::Made {
            drop(gate.take());
        }
        let bit = fault.bit(&world).await;
        drop(gate);
        match bit {
            Ok(proof) => {
                self.step(phase::BIT, Some(&*fault), Some(&proof));
                world.board.bit(&plan.id);
                self.bitten.send_replace(true);
            }
            Err(why) => self.step(phase::NO_BITE, Some(&*fault), Some(&why)),
        }
        if !fault.momentary() {
            tokio::select! {
                () = self.window(injected, plan.length, until) => {}
                () = fault.spent() => {}
            }
        }
        self.undo(fault).await;
    }

    /// A role may be empty for a moment (nobody holds just now): waits for it as long as the load goes on, but lets
    /// the worker that pulled the trigger go on then.
    async fn resolved(
        &mut self,
        hold: Option<&Hold>,
        gate: &mut Option<oneshot::Sender<()>>,
    ) -> Result<Box<dyn Fault>, String> {
        let plan = &self.world.plan.faults[self.number as usize];
        loop {
            match resolve(plan, self.number, hold, &self.world).await {
                Ok(fault) => return Ok(fault),
                Err(why) if *self.over.borrow() => return Err(why),
                Err(_) => {
                    drop(gate.take());
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            }
        }
    }

    /// Waits for the end of the fault's window: its length, its `until`, or the end of the load.
    async fn window(
        &mut self,
        injected: Instant,
        length: Option<Duration>,
        until: Option<oneshot::Receiver<Hit>>,
    ) {
        let timer = async {
            match length {
                Some(length) => tokio::time::sleep_until(injected + length).await,
                None => std::future::pending().await,
            }
        };
        let told = async {
            match until {
                Some(told) => {
                    if told.await.is_err() {
                        std::future::pending::<()>().await;
                    }
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! { () = timer => {}, () = told => {}, _ = self.over.wait_for(|over| *over) => {} }
    }

    async fn undo(&self, mut fault: Box<dyn Fault>) {
        if !fault.heals() {
            return;
        }
        self.step(phase::HEAL, Some(&*fault), None);
        let outcome = match fault.heal(&self.world).await {
            Ok(()) => fault.healed(&self.world).await,
            Err(why) => Err(why),
        };
        match outcome {
            Ok(proof) => {
                self.step(phase::HEALED, Some(&*fault), Some(&proof));
                self.world
                    .board
                    .over(&self.world.plan.faults[self.number as usize].id);
            }
            Err(why) => self.step(phase::NOT_HEALED, Some(&*fault), Some(&why)),
        }
    }

    fn step(&self, phase: &str, fault: Option<&dyn Fault>, proof: Option<&str>) {
        let target = fault.map(Fault::target);
        let client = fault.and_then(Fault::client);
        self.world.record(&Step {
            fault: self.number,
            phase,
            target: target.as_deref(),
            client,
            proof,
        });
    }
}
