//! A session: one cluster, and one or many runs on it.
//!
//! Owns set-up and tear-down of what runs share (servers, Toxiproxy, the reaper). Must not know what a run does.
//! `--repeat` makes many runs in one session, each with its own keys, clients and seed.
use crate::cluster::{Backend, Cluster, ClusterError, Spec};
use crate::fault;
use crate::own::Own;
use crate::plan::kinds::info;
use crate::plan::{FaultKind, Plan};
use crate::reaper::{self, Reaper};
use std::path::Path;
use std::rc::Rc;

/// What runs share.
pub struct Session {
    /// The run id in all labels.
    pub id: String,
    /// The servers and links.
    pub cluster: Rc<Cluster>,
    /// Removes what is left, however the harness ends.
    pub reaper: Reaper,
}

impl Session {
    /// Plans of the same key can share a session whose plan has the most clients of them. All that
    /// [`Session::start`] reads of a plan, but the number of clients, must be in here. A kind of fault that is not plain
    /// is only shared with plans that have it too, so that whatever it needs from [`Session::start`] is there.
    pub fn key(plan: &Plan) -> String {
        let needs: std::collections::BTreeSet<FaultKind> = plan
            .faults
            .iter()
            .map(|f| f.kind)
            .filter(|kind| !info(*kind).plain)
            .collect();
        format!("{:?} {needs:?}", plan.cluster)
    }

    /// Whether all that the plan asks for can be had on this backend, known before a server is started.
    ///
    /// # Errors
    /// [`ClusterError::Impossible`].
    pub fn possible(plan: &Plan, backend: Backend) -> Result<(), ClusterError> {
        fault::possible_on(plan, backend)
    }

    /// The reaper of a session that is to be: whoever gives up a start half way still has it, to remove what was started.
    ///
    /// # Errors
    /// No scratch folder can be made, or the process does not start.
    pub fn reaper(own: Own) -> Result<Reaper, ClusterError> {
        Reaper::start_as(own, &reaper::fresh_run()).map_err(|source| ClusterError::Disk {
            path: std::env::temp_dir(),
            source,
        })
    }

    /// Starts the cluster that the plan asks for.
    ///
    /// # Errors
    /// See [`ClusterError`]; what was started is removed again.
    pub async fn start(
        plan: &Plan,
        backend: Backend,
        reaper: Reaper,
    ) -> Result<Self, ClusterError> {
        let id = reaper.run().to_owned();
        let spec = Spec {
            backend,
            plan: plan.cluster.clone(),
            clients: (1..=plan.load.clients).map(|n| format!("c{n}")).collect(),
            run: id.clone(),
            dir: reaper.scratch().to_owned(),
            command: Vec::new(),
        };
        match Cluster::start(spec, &reaper).await {
            Ok(cluster) => Ok(Self {
                id,
                cluster: Rc::new(cluster),
                reaper,
            }),
            Err(error) => {
                reaper.finish().await;
                Err(error)
            }
        }
    }

    /// Copies the servers' logs into a results folder.
    pub async fn save_logs(&self, dir: &Path) {
        self.cluster.save_logs(&dir.join("nodes")).await;
    }

    /// Removes everything and waits until it is gone.
    ///
    /// # Errors
    /// Something could not be removed; the reaper has tried as well.
    pub async fn stop(self) -> Result<(), ClusterError> {
        let outcome = match Rc::try_unwrap(self.cluster) {
            Ok(cluster) => cluster.stop().await,
            // A run that was broken off still holds it: then the reaper removes the servers.
            Err(_) => Ok(()),
        };
        self.reaper.finish().await;
        outcome
    }
}
