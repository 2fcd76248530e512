//! One set of servers, and the runs that are made on it one after the other.
//!
//! Owns a [`Session`] from its start to its removal, and the way of one run from its plan to its reports. Must not
//! know which runs are made. A place on which a fault was not proved healed, whose Sentinels have failed over, or that lost
//! a server, is *spoiled*: whoever holds it makes no other run there.
use super::{Halt, Stop};
use crate::cluster::Backend;
use crate::own::Own;
use crate::plan::Plan;
use crate::report::progress::Progress;
use crate::report::{self, Summary};
use crate::run::session::Session;
use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

/// What all runs of a campaign share.
#[derive(Debug, Clone, Copy)]
pub struct Setting<'a> {
    /// Where servers run.
    pub backend: Backend,
    /// The folder for results.
    pub results: &'a Path,
    /// Is told how far things are.
    pub progress: &'a Progress,
    /// The program that becomes the reaper, and the clients of built-in locks.
    pub own: &'a Own,
}

/// See the module's page.
pub struct Place {
    session: Session,
    runs: Cell<u64>,
    spoiled: Cell<bool>,
}

impl Place {
    /// Starts the servers that the plan asks for.
    ///
    /// # Errors
    /// They cannot be had, or the halt is heard first; what was started is removed.
    pub async fn open<H: Halt>(
        plan: &Plan,
        setting: &Setting<'_>,
        halt: &mut H,
    ) -> Result<Self, Stop<H::Why>> {
        let progress = setting.progress;
        progress.phase("set-up", None);
        let began = Instant::now();
        let reaper = Session::reaper(setting.own.clone()).map_err(Stop::Cluster)?;
        let session = tokio::select! {
            started = Session::start(plan, setting.backend, reaper.clone()) => started.map_err(Stop::Cluster)?,
            why = halt.heard() => {
                reaper.finish().await;
                return Err(Stop::Halted(why));
            }
        };
        progress.line(&format!(
            "{} ready in {:.1} s: {}, {}",
            report::tables::plural(session.cluster.node_count() as u64, "node"),
            began.elapsed().as_secs_f64(),
            versions(&session),
            session.cluster.reach(),
        ));
        Ok(Self {
            session,
            runs: Cell::new(0),
            spoiled: Cell::new(false),
        })
    }

    /// Makes one run, with keys of its own, and its reports.
    ///
    /// # Errors
    /// See [`Stop`]; the place is then spoiled.
    pub async fn run<H: Halt>(
        &self,
        plan: Plan,
        setting: &Setting<'_>,
        halt: &mut H,
    ) -> Result<Summary, Stop<H::Why>> {
        let number = self.runs.replace(self.runs.get() + 1);
        let prefix = format!("fp:{}:{number}:", self.session.id);
        let made = async {
            let run = crate::run::run(
                &self.session,
                Rc::new(plan),
                &prefix,
                setting.results,
                setting.progress,
            );
            let done = run.await.map_err(Stop::Run)?;
            if !done.intact {
                self.spoiled.set(true);
            }
            summarise(&done.dir, setting.progress)
        };
        let outcome = tokio::select! {
            outcome = made => outcome,
            never = self.session.reaper.guard(|what| setting.progress.line(&format!("warning: {what}"))) => match never {},
            why = halt.heard() => Err(Stop::Halted(why)),
        };
        let healed = |s: &Summary| s.faults.iter().all(|f| f.unproved == 0);
        if !outcome.as_ref().is_ok_and(healed) || self.session.cluster.failed_over().await {
            self.spoiled.set(true);
        }
        outcome
    }

    /// Whether a run ended badly here, left something that was not proved healed, made Sentinels fail over, or lost a
    /// server.
    pub fn spoiled(&self) -> bool {
        self.spoiled.get()
    }

    /// Removes the servers and waits until they are gone.
    ///
    /// # Errors
    /// Something could not be removed.
    pub async fn close<W>(self, setting: &Setting<'_>) -> Result<(), Stop<W>> {
        setting.progress.phase("tear-down", None);
        let began = Instant::now();
        self.session.stop().await.map_err(Stop::Cluster)?;
        let took = began.elapsed().as_secs_f64();
        setting
            .progress
            .line(&format!("all removed in {took:.1} s"));
        Ok(())
    }
}

/// The summary of a run's folder, and its reports beside it. Where these find no room, what it came to is told at least.
fn summarise<W>(dir: &Path, progress: &Progress) -> Result<Summary, Stop<W>> {
    let summary = report::summarise(dir).map_err(|e| Stop::unwritten(dir, &e))?;
    report::render_all(&summary, dir).map_err(|e| {
        progress.line(&report::tables::one_line(&summary));
        Stop::unwritten(dir, &e)
    })?;
    Ok(summary)
}

/// `redis 7.0.15, toxiproxy 2.12.0`.
fn versions(session: &Session) -> String {
    let versions = session.cluster.versions();
    let server = versions.get("server").map(String::as_str);
    let toxiproxy = versions.get("toxiproxy").map(|v| format!("toxiproxy {v}"));
    server
        .into_iter()
        .chain(toxiproxy.as_deref())
        .collect::<Vec<_>>()
        .join(", ")
}
