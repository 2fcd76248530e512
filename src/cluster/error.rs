//! What can go wrong with servers, each with what the user can do about it.
//!
//! Owns [`ClusterError`]. Must not know exit codes; `cli` turns [`ClusterError::is_missing`] into one.
use super::toxiproxy::ToxiproxyError;
use crate::reaper::engine::SweepError;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;

/// Why a cluster does not do what was asked.
#[derive(Debug, Error)]
pub enum ClusterError {
    /// The name of a backend is none.
    #[error("`{0}` is no backend; there are auto, docker and local")]
    Backend(String),
    /// No container engine answers.
    #[error("no container engine answers: {0}")]
    Engine(String),
    /// The engine answered, and refused.
    #[error("the engine could not {what}: {why}")]
    Refused {
        /// What was asked.
        what: String,
        /// The engine's words.
        why: String,
    },
    /// The engine went away, or would not, before all was removed.
    #[error("what run {run} started is left behind: {why}")]
    Left {
        /// The run's id.
        run: String,
        /// The engine's words, or those of its client.
        why: String,
    },
    /// The image is not on this machine; nothing is pulled unasked.
    #[error("image {0} is not here")]
    Image(String),
    /// A program of the local backend is not on this machine.
    #[error("{program} was not found: looked at {looked}")]
    Program {
        /// Its name.
        program: String,
        /// Where it was looked for.
        looked: String,
    },
    /// A program was found and does not start.
    #[error("{program} does not start: {source}")]
    Spawn {
        /// Its path.
        program: PathBuf,
        /// The system's words.
        source: io::Error,
    },
    /// No port is free, or one was taken in the moment between looking and listening, again and again.
    #[error("{what} found no free port: {why}")]
    Port {
        /// Which server.
        what: String,
        /// Its words.
        why: String,
    },
    /// A server started and did not answer in time, or ended.
    #[error("{node} is not ready after {:.1} s: {why}{log}", waited.as_secs_f64())]
    NotReady {
        /// Its name.
        node: String,
        /// For how long it was waited.
        waited: Duration,
        /// The last answer.
        why: String,
        /// Its last log lines, each on a line of its own; may be empty.
        log: String,
    },
    /// A server answers directly, but not through a client's link.
    #[error("link {link} at {address} does not answer: {why}")]
    Link {
        /// Client and node.
        link: String,
        /// The Toxiproxy listener.
        address: String,
        /// The last answer.
        why: String,
    },
    /// A node is not in the state that the action needs.
    #[error("{node} is {state}, so it cannot be {action}")]
    State {
        /// Its name.
        node: String,
        /// As found.
        state: String,
        /// As asked.
        action: &'static str,
    },
    /// No such node.
    #[error("there is no node {number}; the cluster has {nodes}")]
    NoNode {
        /// From 1.
        number: usize,
        /// How many there are.
        nodes: usize,
    },
    /// A node has no network namespace of its own that can be entered.
    #[error("{node}: its packets cannot be filtered: {why}")]
    NoNamespace {
        /// Its name.
        node: String,
        /// Why not.
        why: &'static str,
    },
    /// A fault of the plan cannot be made on this backend.
    #[error("`{fault}` on `{target}` cannot be made on the local backend: {why}")]
    Impossible {
        /// Its kind.
        fault: String,
        /// What it was to hit.
        target: String,
        /// Why not.
        why: &'static str,
    },
    /// The preload shim cannot be built.
    #[error("the preload shim, which clock faults and power loss need, cannot be built: {0}")]
    Shim(String),
    /// Servers of this topology run in containers only.
    #[error("topology `{0}` runs on Docker only")]
    DockerOnly(&'static str),
    /// A signal could not be sent.
    #[error("{node}: {signal} cannot be sent: {why}")]
    Signal {
        /// Its name.
        node: String,
        /// Which signal.
        signal: &'static str,
        /// The system's words.
        why: String,
    },
    /// A folder or file cannot be written: a full disk among other reasons.
    #[error("{path}: {source}")]
    Disk {
        /// The file.
        path: PathBuf,
        /// The system's words.
        source: io::Error,
    },
    /// A restart was to lose its data, and did not.
    #[error("{node} was to start empty, but {why}")]
    DataLeft {
        /// Its name.
        node: String,
        /// What was found.
        why: String,
    },
    /// Toxiproxy.
    #[error(transparent)]
    Toxiproxy(#[from] ToxiproxyError),
}

impl ClusterError {
    /// Something that this machine lacks (engine, image, program, port, disk), rather than a defect.
    pub fn is_missing(&self) -> bool {
        matches!(
            self,
            Self::Engine(_)
                | Self::Image(_)
                | Self::Program { .. }
                | Self::Spawn { .. }
                | Self::Port { .. }
                | Self::Disk { .. }
                | Self::NoNamespace { .. }
                | Self::Impossible { .. }
                | Self::Shim(_)
                | Self::DockerOnly(_)
        )
    }

    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Engine(_) => {
                Some("run `make setup`, start the engine, or use `--backend local`".to_owned())
            }
            Self::Refused { why, .. } if why.contains("address pool") => Some(
                "the engine has no network left; `fencepost clean` or `docker network prune` frees some"
                    .to_owned(),
            ),
            Self::Left { .. } => {
                Some("once the engine answers again, `fencepost clean` removes it".to_owned())
            }
            Self::Image(image) if image.starts_with("fencepost/") => {
                Some("run `make setup`, which builds it".to_owned())
            }
            Self::Image(image) => Some(format!("run `docker pull {image}`, or name another with --image")),
            Self::Program { program, .. } if program.starts_with("toxiproxy") => {
                Some("run `make setup`, or name the binary in FENCEPOST_TOXIPROXY".to_owned())
            }
            Self::Program { program, .. } => Some(format!(
                "install {program} (Debian, Ubuntu: apt-get install redis-server)"
            )),
            Self::Port { .. } => {
                Some("other programs listen on all ports that were tried; `ss -ltnp` shows which".to_owned())
            }
            Self::Shim(_) => Some("install a C compiler (Debian, Ubuntu: apt-get install gcc libc6-dev)".to_owned()),
            Self::NoNamespace { .. } => Some(
                "`packet-loss` needs --backend docker with an engine on this host, and root; `latency` and \
                 `partition` go through Toxiproxy and work anywhere"
                    .to_owned(),
            ),
            Self::Impossible { .. } => Some(
                "run it with --backend docker (`make setup` for an engine); `fencepost doctor` tells which fault goes \
                 where"
                    .to_owned(),
            ),
            Self::DockerOnly(_) => Some(
                "its servers need a network each; run `make setup` for an engine, and use `--backend docker`"
                    .to_owned(),
            ),
            Self::NotReady { why, .. } if why.contains("ended") => Some(
                "what it said last, if anything, stands above; is it the right program or image?".to_owned(),
            ),
            Self::NotReady { .. } => {
                Some("is the machine overloaded? `fencepost doctor` measures it".to_owned())
            }
            Self::Link { .. } => Some(
                "is the machine overloaded (`fencepost doctor`), or does a firewall stand between? Then try \
                 cluster.reach = \"published\""
                    .to_owned(),
            ),
            Self::Disk { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                Some("the disk is full; TMPDIR names another place for scratch folders".to_owned())
            }
            _ => None,
        }
    }

    pub(super) fn disk(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Disk { path, source }
    }
}

impl From<SweepError> for ClusterError {
    fn from(e: SweepError) -> Self {
        match e {
            SweepError::Unreachable(why) => Self::Engine(why),
            SweepError::Refused { what, why } => Self::Refused { what, why },
        }
    }
}
