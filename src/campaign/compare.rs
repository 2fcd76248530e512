//! Several systems under the same seeds, side by side in time.
//!
//! Owns who runs when: episode by episode, every system once in each, in an order that turns, so that whatever else the
//! machine does is shared by all. Must not know what a run shows; whoever asked is handed each as it ends.
use super::{Halt, Place, Setting, Stop};
use crate::plan::Plan;
use crate::report::Summary;
use crate::run::session::Session;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// One side of a comparison.
#[derive(Debug, Clone)]
pub struct System {
    /// How it is called.
    pub label: String,
    /// Its plan; the seed is each episode's.
    pub plan: Plan,
}

/// The order of `n` systems in an episode: each begins equally often, and is as often before as after each other.
pub fn order(n: usize, episode: u64) -> Vec<usize> {
    let turn = (episode / 2) as usize;
    let mut order: Vec<usize> = (0..n).map(|i| (i + turn) % n).collect();
    if episode % 2 == 1 {
        order.reverse();
    }
    order
}

/// How many episodes fit in a budget of time, by the expected durations alone; at least one.
pub fn episodes_within(budget: Duration, systems: &[System]) -> u64 {
    let jobs = |s: &System| super::Job {
        file: std::path::PathBuf::new(),
        plan: s.plan.clone(),
    };
    let jobs: Vec<super::Job> = systems.iter().map(jobs).collect();
    let round: Duration = jobs.iter().map(|j| super::run_duration(&j.plan)).sum();
    let set_up = super::expected_duration(&jobs).saturating_sub(round);
    let left = budget.saturating_sub(set_up).as_secs_f64();
    (left / round.as_secs_f64().max(1e-3)).floor().max(1.0) as u64
}

/// The servers that are up, by [`Session::key`], and those that could not be had.
struct Places<W> {
    open: BTreeMap<String, Place>,
    broken: BTreeMap<String, Rc<Stop<W>>>,
    clients: BTreeMap<String, u32>,
}

/// Makes every episode of every system and hands each to `took`, with the system's place in the list and the seed.
///
/// # Errors
/// The halt, a disk that takes no more, or servers that could not be removed.
pub async fn compare<H: Halt>(
    systems: &[System],
    seeds: &[u64],
    setting: &Setting<'_>,
    halt: &mut H,
    mut took: impl FnMut(usize, u64, Result<Summary, Rc<Stop<H::Why>>>),
) -> Result<(), Stop<H::Why>> {
    let mut places = Places::for_all(systems);
    let mut outcome = Ok(());
    'all: for (episode, &seed) in (0..).zip(seeds) {
        for system in order(systems.len(), episode) {
            let plan = Plan {
                seed,
                ..systems[system].plan.clone()
            };
            match places.run(plan, setting, halt).await {
                Err(stop) if stop.ends_all() => match Rc::try_unwrap(stop) {
                    Ok(stop) => {
                        outcome = Err(stop);
                        break 'all;
                    }
                    Err(stop) => took(system, seed, Err(stop)),
                },
                made => took(system, seed, made),
            }
        }
    }
    let mut closed = Ok(());
    for place in places.open.into_values() {
        closed = closed.and(place.close(setting).await);
    }
    outcome.and(closed)
}

impl<W> Places<W> {
    fn for_all(systems: &[System]) -> Self {
        let mut clients: BTreeMap<String, u32> = BTreeMap::new();
        for s in systems {
            let most = clients.entry(Session::key(&s.plan)).or_default();
            *most = (*most).max(s.plan.load.clients);
        }
        Self {
            open: BTreeMap::new(),
            broken: BTreeMap::new(),
            clients,
        }
    }

    async fn run<H: Halt<Why = W>>(
        &mut self,
        plan: Plan,
        setting: &Setting<'_>,
        halt: &mut H,
    ) -> Result<Summary, Rc<Stop<W>>> {
        Session::possible(&plan, setting.backend).map_err(|e| Rc::new(Stop::Cluster(e)))?;
        let key = Session::key(&plan);
        if let Some(stop) = self.broken.get(&key) {
            return Err(stop.clone());
        }
        if !self.open.contains_key(&key) {
            let mut widest = plan.clone();
            widest.load.clients = self.clients.get(&key).copied().unwrap_or(plan.load.clients);
            match Place::open(&widest, setting, halt).await {
                Ok(place) => {
                    self.open.insert(key.clone(), place);
                }
                Err(stop) if stop.ends_all() => return Err(Rc::new(stop)),
                Err(stop) => {
                    let stop = Rc::new(stop);
                    self.broken.insert(key, stop.clone());
                    return Err(stop);
                }
            }
        }
        let place = &self.open[&key];
        let made = place.run(plan, setting, halt).await;
        if place.spoiled()
            && let Some(place) = self.open.remove(&key)
            && let Err(stop) = place.close::<W>(setting).await
        {
            return Err(Rc::new(stop));
        }
        made.map_err(Rc::new)
    }
}

#[cfg(test)]
mod tests {
    use super::order;

    #[test]
    fn each_system_takes_each_turn_equally_often() {
        const SYSTEMS: usize = 3;
        let mut at = [[0; SYSTEMS]; SYSTEMS];
        let mut before = 0;
        for episode in 0..6 * 7 {
            let order = order(SYSTEMS, episode);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2]);
            for (turn, &system) in order.iter().enumerate() {
                at[system][turn] += 1;
            }
            let turn = |s| order.iter().position(|&x| x == s);
            before += i32::from(turn(0) < turn(1)) * 2 - 1;
        }
        assert_eq!(at, [[14; 3]; 3]);
        assert_eq!(before, 0);
    }
}
