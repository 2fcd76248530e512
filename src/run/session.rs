//! A session: one cluster, and one or many runs on it.
//!
//! Owns set-up and tear-down of what runs share (servers, Toxiproxy, the reaper, the scratch folder). Must not know
//! what a run does. `--repeat` makes many runs in one session, each with its own keys, clients and seed.
use crate::cluster::{Backend, Cluster, ClusterError, Spec};
use crate::plan::Plan;
use crate::reaper::Reaper;
use std::path::Path;
use std::rc::Rc;
use tempfile::TempDir;

/// What runs share.
pub struct Session {
    /// The run id in all labels.
    pub id: String,
    /// The servers and links.
    pub cluster: Rc<Cluster>,
    /// Removes what is left, however the harness ends.
    pub reaper: Rc<Reaper>,
    scratch: TempDir,
}

impl Session {
    /// Starts the cluster that the plan asks for.
    ///
    /// # Errors
    /// See [`ClusterError`]; what was started is removed again.
    pub async fn start(plan: &Plan, backend: Backend) -> Result<Self, ClusterError> {
        let id = format!("{:012x}", rand::random::<u64>() >> 16);
        let scratch = tempfile::Builder::new().prefix("fencepost-").tempdir().map_err(ClusterError::Scratch)?;
        let reaper = Rc::new(Reaper::start(&id).map_err(ClusterError::Scratch)?);
        reaper.watch_dir(scratch.path());
        let spec = Spec {
            backend,
            plan: plan.cluster.clone(),
            clients: (1..=plan.load.clients).map(|n| format!("c{n}")).collect(),
            run: id.clone(),
            dir: scratch.path().to_owned(),
        };
        let cluster = Rc::new(Cluster::start(spec, &reaper).await?);
        Ok(Self { id, cluster, reaper, scratch })
    }

    /// Copies the servers' logs into a results folder.
    pub async fn save_logs(&self, dir: &Path) {
        self.cluster.save_logs(&dir.join("nodes")).await;
    }

    /// Removes everything and waits until it is gone.
    ///
    /// # Errors
    /// Something could not be removed; the reaper is left to try again.
    pub async fn stop(self) -> Result<(), ClusterError> {
        let Self { cluster, reaper, scratch, .. } = self;
        if let Ok(cluster) = Rc::try_unwrap(cluster) {
            cluster.stop().await?;
        }
        // A scratch folder that resists is the reaper's business, too.
        drop(scratch);
        if let Ok(reaper) = Rc::try_unwrap(reaper) {
            reaper.finish().await;
        }
        Ok(())
    }
}
