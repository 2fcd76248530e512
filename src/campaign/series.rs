//! Runs one after the other, those that can share servers on the same ones.
//!
//! Owns the order of the runs, the life of the places, and what an error means for the rest. Must not know what is
//! made of a run: whoever asked is handed each as it ends, so that what is done stays readable however it goes on.
use super::{Halt, Place, Setting, Stop};
use crate::plan::Plan;
use crate::report::Summary;
use crate::run::session::Session;
use futures_util::FutureExt;
use std::path::PathBuf;
use std::rc::Rc;

/// One run that is to be made.
#[derive(Debug, Clone)]
pub struct Job {
    /// The workload file.
    pub file: PathBuf,
    /// The plan, with the seed of this very run.
    pub plan: Plan,
}

/// Whether there is to be another run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Go on.
    Next,
    /// Enough.
    Enough,
}

/// The jobs in groups that share a place, in the order of each group's first job.
fn groups<'a>(jobs: impl IntoIterator<Item = &'a Job>) -> Vec<Vec<&'a Job>> {
    let mut groups: Vec<(String, Vec<&Job>)> = Vec::new();
    for job in jobs {
        let key = Session::key(&job.plan);
        match groups.iter_mut().find(|(k, _)| *k == key) {
            Some((_, group)) => group.push(job),
            None => groups.push((key, vec![job])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// How many sets of servers the jobs need.
pub fn places(jobs: &[Job]) -> usize {
    groups(jobs).len()
}

/// Makes the runs, and hands each with what became of it to `took`, which says whether to go on. First come those that
/// are impossible on this backend, before a server is started. What one run meets
/// (servers that cannot be had, a client that does not speak) is handed over and the next is made; what all would meet
/// ends the series.
///
/// # Errors
/// The halt, a disk that takes no more, or servers that could not be removed. Runs that were done were handed over.
pub async fn series<H: Halt>(
    jobs: &[Job],
    setting: &Setting<'_>,
    halt: &mut H,
    mut took: impl FnMut(&Job, Result<Summary, Rc<Stop<H::Why>>>) -> Flow,
) -> Result<(), Stop<H::Why>> {
    let mut possible = Vec::new();
    for job in jobs {
        match Session::possible(&job.plan, setting.backend) {
            Ok(()) => possible.push(job),
            Err(error) => {
                if let Flow::Enough = took(job, Err(Rc::new(Stop::Cluster(error)))) {
                    return Ok(());
                }
            }
        }
    }
    for group in groups(possible) {
        if let Flow::Enough = one_group(&group, setting, halt, &mut took).await? {
            return Ok(());
        }
    }
    Ok(())
}

async fn one_group<H: Halt>(
    group: &[&Job],
    setting: &Setting<'_>,
    halt: &mut H,
    took: &mut impl FnMut(&Job, Result<Summary, Rc<Stop<H::Why>>>) -> Flow,
) -> Result<Flow, Stop<H::Why>> {
    let mut rest = group;
    while !rest.is_empty() {
        let place = match Place::open(&widest(rest), setting, halt).await {
            Ok(place) => place,
            Err(stop) if stop.ends_all() => return Err(stop),
            Err(stop) => {
                // No job of this group can have servers.
                let stop = Rc::new(stop);
                let mut enough = false;
                for job in rest {
                    enough |= took(job, Err(stop.clone())) == Flow::Enough;
                }
                return Ok(if enough { Flow::Enough } else { Flow::Next });
            }
        };
        let (made, outcome) = on_place(&place, rest, setting, halt, took).await;
        let closed = place.close(setting).await;
        let flow = outcome?;
        closed?;
        // Said while the servers were removed: nobody listened.
        if let Some(why) = halt.heard().now_or_never() {
            return Err(Stop::Halted(why));
        }
        if flow == Flow::Enough {
            return Ok(flow);
        }
        rest = &rest[made..];
    }
    Ok(Flow::Next)
}

/// As many of the jobs as the place is good for; gives their number.
async fn on_place<H: Halt>(
    place: &Place,
    jobs: &[&Job],
    setting: &Setting<'_>,
    halt: &mut H,
    took: &mut impl FnMut(&Job, Result<Summary, Rc<Stop<H::Why>>>) -> Flow,
) -> (usize, Result<Flow, Stop<H::Why>>) {
    for (n, job) in jobs.iter().enumerate() {
        let outcome = match place.run(job.plan.clone(), setting, halt).await {
            Err(stop) if stop.ends_all() => return (n, Err(stop)),
            outcome => outcome.map_err(Rc::new),
        };
        let flow = took(job, outcome);
        if flow == Flow::Enough || place.spoiled() {
            return (n + 1, Ok(flow));
        }
    }
    (jobs.len(), Ok(Flow::Next))
}

/// A plan whose servers serve all of these: each has a link from each client of each.
fn widest(jobs: &[&Job]) -> Plan {
    let mut plan = jobs[0].plan.clone();
    let clients = jobs.iter().map(|j| j.plan.load.clients).max();
    plan.load.clients = clients.unwrap_or(plan.load.clients);
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Overrides, parse};

    fn job(name: &str, text: &str) -> Job {
        let plan = parse(name, name, text, &Overrides::default()).expect("a plan");
        Job {
            file: name.into(),
            plan: plan.into_iter().next().expect("one plan"),
        }
    }

    #[test]
    fn jobs_share_servers_where_the_cluster_is_the_same() {
        let single = "lock = { name = \"set-nx-lua\" }\nload = { clients = 5 }\n";
        let five =
            "cluster = { topology = \"independent\", nodes = 5 }\nlock = { name = \"redlock\" }\n";
        let jobs = [
            job("a", single),
            job("b", five),
            job("c", &single.replace('5', "2")),
            job("d", &five.replace("nodes = 5", "nodes = 3")),
        ];
        let names = |group: &Vec<&Job>| -> Vec<String> {
            group.iter().map(|j| j.plan.name.clone()).collect()
        };
        let groups = groups(&jobs);
        assert_eq!(
            groups.iter().map(names).collect::<Vec<_>>(),
            [vec!["a", "c"], vec!["b"], vec!["d"]]
        );
        assert_eq!(widest(&groups[0]).load.clients, 5);
        assert_eq!(places(&jobs), 3);
    }
}
