//! One container: started through testcontainers, looked at, listened to.
//!
//! Owns the request to the engine and what is known of the answer. Must not know nodes' roles.
use crate::cluster::{ClusterError, Speaks, shim, tools};
use crate::reaper::procs;
use bollard::Docker;
use bollard::errors::Error as EngineError;
use bollard::models::{ContainerInspectResponse, HostConfig, PortBinding};
use bollard::query_parameters::{InspectContainerOptions, LogsOptionsBuilder};
use futures_util::StreamExt;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use testcontainers::core::{IntoContainerPort, Mount};
use testcontainers::runners::AsyncRunner;
use testcontainers::{GenericImage, ImageExt};

/// Set to anything: nodes are paused and killed by the engine's API even where a signal from here would reach them.
const ENGINE_ROUTE: &str = "FENCEPOST_ENGINE_ROUTE";
/// Bound on a container's memory: a run-away server shall not take the machine along.
const MEMORY: i64 = 512 << 20;

/// How to start a container, again and again.
#[derive(Debug, Clone)]
pub(super) struct Recipe {
    /// Unique on the engine; resolved by Docker's name server inside the network.
    pub(super) name: String,
    pub(super) image: String,
    /// The words after the image's name.
    pub(super) arguments: Vec<String>,
    /// Name of the process, as `/proc/<pid>/comm` shows it.
    pub(super) program: String,
    pub(super) network: String,
    pub(super) labels: [(String, String); 2],
    /// Ports inside the container.
    pub(super) ports: Vec<u16>,
    /// Publish them on 127.0.0.1, each at a port that the engine chooses.
    pub(super) publish: bool,
    /// A folder with shim and page, to be mounted.
    pub(super) shim: Option<PathBuf>,
    /// What its server speaks.
    pub(super) speaks: Speaks,
}

/// A started container.
#[derive(Debug, Clone)]
pub(super) struct Live {
    pub(super) id: String,
    /// Address in the run's network.
    pub(super) ip: Option<IpAddr>,
    /// Published ports: inside, outside.
    pub(super) ports: BTreeMap<u16, u16>,
    pub(super) running: bool,
    /// The server's pid on this host and its start time, where signals from here reach it.
    pub(super) process: Option<(i32, u64)>,
}

impl Recipe {
    /// Create and start a container; returns its id. It is in nobody's hands then but ours: testcontainers' guard is
    /// given up, because its `Drop` would block this runtime's only thread, once a container. Removal is by the
    /// engine's API, all at once, or by the reaper.
    pub(super) async fn run(&self) -> Result<String, ClusterError> {
        let (name, tag) = split_name(&self.image);
        let mut image = GenericImage::new(name, tag);
        if self.publish {
            for port in &self.ports {
                image = image.with_exposed_port(port.tcp());
            }
        }
        let bindings = self.bindings();
        let request = image
            .with_container_name(&self.name)
            .with_network(&self.network)
            .with_labels(self.labels.clone())
            .with_env_var("LOG_LEVEL", "error")
            .with_cmd(self.arguments.clone())
            .with_host_config_modifier(move |host: &mut HostConfig| {
                // Not testcontainers' default, which is to publish every port on every address of this machine.
                host.publish_all_ports = Some(false);
                host.port_bindings = Some(bindings.clone());
                host.memory = Some(MEMORY);
            });
        let request = match &self.shim {
            None => request,
            Some(folder) => {
                let mount = Mount::bind_mount(folder.to_string_lossy(), shim::MOUNTED);
                let request = request.with_mount(mount);
                let variables = shim::variables(Path::new(shim::MOUNTED)).into_iter();
                variables.fold(request, |r, (name, value)| r.with_env_var(name, value))
            }
        };
        let container = request.start().await.map_err(|e| ClusterError::Refused {
            what: format!("start {}", self.name),
            why: e.to_string(),
        })?;
        let id = container.id().to_owned();
        std::mem::forget(container);
        Ok(id)
    }

    fn bindings(&self) -> HashMap<String, Option<Vec<PortBinding>>> {
        let ports = self.ports.iter().filter(|_| self.publish);
        let loopback = || PortBinding {
            host_ip: Some("127.0.0.1".to_owned()),
            host_port: Some("0".to_owned()),
        };
        ports
            .map(|p| (format!("{p}/tcp"), Some(vec![loopback()])))
            .collect()
    }

    /// Look at a container of this recipe.
    pub(super) async fn look(&self, docker: &Docker, id: &str) -> Result<Live, ClusterError> {
        let seen = inspect(docker, id)
            .await
            .map_err(|e| ClusterError::Refused {
                what: format!("look at {}", self.name),
                why: e.to_string(),
            })?;
        let state = seen.state.unwrap_or_default();
        let settings = seen.network_settings.unwrap_or_default();
        let network = settings.networks.unwrap_or_default().remove(&self.network);
        let ip = network.and_then(|n| n.ip_address?.parse().ok());
        let ports = settings.ports.unwrap_or_default().into_iter();
        let ports = ports.filter_map(|(inside, outside)| {
            let inside = inside.split('/').next()?.parse().ok()?;
            let outside = outside?.into_iter().next()?.host_port?.parse().ok()?;
            Some((inside, outside))
        });
        let pid = state.pid.and_then(|p| i32::try_from(p).ok());
        Ok(Live {
            id: id.to_owned(),
            ip,
            ports: ports.collect(),
            running: state.running.unwrap_or(false),
            process: pid.and_then(|pid| self.host_process(pid, id)),
        })
    }

    /// The pid that the engine names is this container's server in this host's own numbering, and may be signalled.
    /// Wherever that is not certain (engine in a virtual machine, harness in a container, no rights, an init process
    /// before the server), the engine's API is the way.
    fn host_process(&self, pid: i32, id: &str) -> Option<(i32, u64)> {
        if std::env::var_os(ENGINE_ROUTE).is_some() {
            return None;
        }
        let start = procs::start_time(pid)?;
        let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        let named: String = self.program.chars().take(15).collect();
        let ours = comm.trim_end() == named && belongs(pid, start, id);
        (ours && kill(Pid::from_raw(pid), None).is_ok()).then_some((pid, start))
    }
}

/// The process that started at `start` runs in the control group of container `id`.
pub(super) fn belongs(pid: i32, start: u64, id: &str) -> bool {
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    groups.contains(id) && procs::start_time(pid) == Some(start)
}

pub(super) async fn inspect(
    docker: &Docker,
    id: &str,
) -> Result<ContainerInspectResponse, EngineError> {
    docker
        .inspect_container(id, None::<InspectContainerOptions>)
        .await
}

/// All that a container has said.
pub(super) async fn log(docker: &Docker, id: &str) -> String {
    let options = LogsOptionsBuilder::new()
        .stdout(true)
        .stderr(true)
        .tail("all")
        .build();
    let mut lines = docker.logs(id, Some(options));
    let mut text = String::new();
    while let Some(Ok(part)) = lines.next().await {
        text.push_str(&String::from_utf8_lossy(&part.into_bytes()));
    }
    text
}

/// The end of [`log`] for an error.
pub(super) async fn log_tail(docker: &Docker, id: &str) -> String {
    tools::tail(&log(docker, id).await, 8)
}

/// `host:5000/name:tag`, `name@sha256:…` and `name` (then `latest`), in the two halves that testcontainers joins by `:`.
fn split_name(image: &str) -> (&str, &str) {
    match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, tag),
        _ => (image, "latest"),
    }
}

#[cfg(test)]
mod tests {
    use super::split_name;

    #[test]
    fn names_split_where_the_tag_begins() {
        assert_eq!(split_name("redis:7"), ("redis", "7"));
        assert_eq!(split_name("redis"), ("redis", "latest"));
        assert_eq!(split_name("h:5000/r"), ("h:5000/r", "latest"));
        assert_eq!(split_name("h:5000/r:7"), ("h:5000/r", "7"));
        assert_eq!(split_name("r@sha256:ab"), ("r@sha256", "ab"));
    }
}
