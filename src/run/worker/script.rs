//! The schedule of steps: played in order, beside the load loops of the clients that it does not name.
//!
//! Owns the order of steps and what is waited for between them. Must not know how a step is done (`worker::step`).
use super::Worker;
use super::step::{Actor, Outcome, aside, is_aside, record};
use crate::client::Disturb;
use crate::fault::{World, watch};
use crate::plan::{Doing, StepPlan};
use crate::run::board::{Hit, Scope};
use crate::run::shared::Shared;
use crate::run::{Stage, streams};
use std::collections::BTreeMap;
use std::rc::Rc;
use tokio::sync::{Mutex, oneshot};
use tokio::task::JoinHandle;

/// A schedule under way.
pub struct Script {
    play: JoinHandle<()>,
    at: Rc<std::cell::Cell<usize>>,
}

impl Script {
    /// Begins to play the plan's steps; none where it has none.
    pub fn start(stage: &Stage) -> Option<Self> {
        let shared = stage.shared.clone();
        if shared.plan.steps.is_empty() {
            return None;
        }
        let at = Rc::new(std::cell::Cell::new(0));
        let player = Player {
            world: stage.world.clone(),
            shared,
            actors: BTreeMap::new(),
            background: BTreeMap::new(),
            at: at.clone(),
        };
        let play = tokio::task::spawn_local(player.play());
        Some(Self { play, at })
    }

    /// Waits until the last step is done and all that goes on in the background was answered.
    pub async fn done(&mut self) {
        if let Err(error) = (&mut self.play).await
            && error.is_panic()
        {
            std::panic::resume_unwind(error.into_panic());
        }
    }

    /// The load is over; true if the schedule was played to its end, else that goes on record.
    pub fn end(self, shared: &Shared) -> bool {
        if self.play.is_finished() {
            return true;
        }
        self.play.abort();
        let text = format!("the load ended in step {}", self.at.get() + 1);
        record(shared, &text, Some("not-over"));
        false
    }
}

/// Waits for the end of the schedule; for ever where there is none.
pub async fn finished(script: Option<&mut Script>) {
    match script {
        Some(script) => script.done().await,
        None => std::future::pending().await,
    }
}

type Place = (String, u32);

struct Player {
    world: Rc<World>,
    shared: Rc<Shared>,
    actors: BTreeMap<Place, Rc<Mutex<Actor>>>,
    background: BTreeMap<String, JoinHandle<()>>,
    at: Rc<std::cell::Cell<usize>>,
}

impl Player {
    async fn play(mut self) {
        let shared = self.shared.clone();
        let steps = &shared.plan.steps;
        let mut watched: BTreeMap<usize, oneshot::Receiver<Hit>> = BTreeMap::new();
        for (n, step) in steps.iter().enumerate() {
            self.at.set(n);
            // What is waited for next may be seen while this step is under way.
            for (later, next) in steps.iter().enumerate().skip(n) {
                match next {
                    StepPlan::Until(trigger) => {
                        let world = &self.world;
                        watched
                            .entry(later)
                            .or_insert_with(|| watch(world, trigger, Scope::default()));
                    }
                    _ if later > n => break,
                    _ => {}
                }
            }
            let board = &self.world.board;
            match step {
                StepPlan::Pause(length) => tokio::time::sleep(*length).await,
                StepPlan::After(fault) => board.until_bitten(fault).await,
                StepPlan::Healed(fault) => board.until_over(fault).await,
                StepPlan::Answered(id) => {
                    if let Some(task) = self.background.remove(id) {
                        join(task).await;
                    }
                }
                StepPlan::Until(_) => {
                    if let Some(watched) = watched.remove(&n) {
                        // Dropping the hit opens its gate.
                        drop(watched.await);
                    }
                }
                StepPlan::Do(doing) => self.step(n, doing).await,
            }
        }
        for (_, task) in std::mem::take(&mut self.background) {
            join(task).await;
        }
    }

    async fn step(&mut self, n: usize, doing: &Doing) {
        let shared = self.shared.clone();
        let Some(slot) = self.world.clients.slot(&doing.client).cloned() else {
            return;
        };
        if is_aside(&doing.op) {
            let outcome = match slot.alive() {
                Some(client) => aside(&shared, &client, doing).await,
                None => ("info", "client-gone".to_owned()),
            };
            return say(&shared, n, doing, &outcome);
        }
        let place = (doing.client.clone(), doing.worker);
        let actor = self.actors.entry(place).or_insert_with(|| {
            let name = format!("worker {}/{}", doing.client, doing.worker);
            let random = streams::stream(shared.plan.seed, &name);
            let key = doing.key.clone();
            let worker = Worker::new(shared.clone(), slot, doing.worker, key, random);
            Rc::new(Mutex::new(Actor::new(worker)))
        });
        let (actor, doing) = (actor.clone(), doing.clone());
        let id = doing.id.clone();
        let background = doing.background;
        let act = async move {
            let outcome = actor.lock().await.act(&doing).await;
            say(&shared, n, &doing, &outcome);
        };
        if background {
            self.background.insert(id, tokio::task::spawn_local(act));
            // It begins now, not when the next step happens to wait.
            tokio::task::yield_now().await;
        } else {
            act.await;
        }
    }
}

async fn join(task: JoinHandle<()>) {
    if let Err(error) = task.await
        && error.is_panic()
    {
        std::panic::resume_unwind(error.into_panic());
    }
}

fn say(shared: &Shared, n: usize, doing: &Doing, (kind, code): &Outcome) {
    let Doing {
        client, op, key, ..
    } = doing;
    let more = if code.is_empty() {
        String::new()
    } else {
        format!(" ({code})")
    };
    let text = format!("step {}: {client} {op} {key}: {kind}{more}", n + 1);
    // Nobody writes what is to happen to a step that disturbs: without it the schedule is another one.
    if doing.then.is_empty() && Disturb::of(op).is_some() && code == "unsupported" {
        let text = format!("{text}, which this adapter cannot");
        return record(shared, &text, Some("off-schedule"));
    }
    let expected = doing.then.is_empty() || doing.then.iter().any(|t| t == kind);
    if expected {
        return record(shared, &text, None);
    }
    let text = format!("{text}, {} was to be", doing.then.join(" or "));
    record(shared, &text, Some("off-schedule"));
}
