//! One container: started, looked at, listened to.
//!
//! Owns the request to the engine and what is known of the answer. Must not know nodes' roles.
use crate::cluster::{ClusterError, Speaks, shim, tools};
use crate::reaper::engine::answered;
use crate::reaper::{Reaper, procs};
use bollard::Docker;
use bollard::errors::Error as EngineError;
use bollard::models::{
    ContainerCreateBody, ContainerInspectResponse, EndpointIpamConfig, EndpointSettings,
    HostConfig, NetworkingConfig, PortBinding,
};
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, InspectContainerOptions, LogsOptionsBuilder,
    StartContainerOptions,
};
use futures_util::StreamExt;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// Set to anything: nodes are paused and killed by the engine's API even where a signal from here would reach them.
const ENGINE_ROUTE: &str = "FENCEPOST_ENGINE_ROUTE";
/// Bound on a container's memory: a run-away server shall not take the machine along.
const MEMORY: i64 = 512 << 20;

/// How to start a container, again and again.
#[derive(Clone)]
pub(super) struct Recipe {
    /// Unique on the engine; resolved by Docker's name server inside the network.
    pub(super) name: String,
    pub(super) image: String,
    /// The words after the image's name.
    pub(super) arguments: Vec<String>,
    /// Name of the process, as `/proc/<pid>/comm` shows it.
    pub(super) program: String,
    pub(super) network: String,
    /// Its address there, where it must not change at a restart.
    pub(super) ip: Option<IpAddr>,
    /// It is told before the engine is asked; its labels are the container's.
    pub(super) reaper: Reaper,
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
    /// Create and start a container; returns its id. Removal is by its labels, all at once, here or by the reaper.
    pub(super) async fn run(&self, engine: &Docker) -> Result<String, ClusterError> {
        let refused = |e: EngineError| ClusterError::Refused {
            what: format!("start {}", self.name),
            why: e.to_string(),
        };
        let named = CreateContainerOptionsBuilder::new().name(&self.name);
        self.reaper.making(&self.name);
        let made = engine.create_container(Some(named.build()), self.body());
        let made = made.await;
        if answered(&made) {
            self.reaper.made(&self.name);
        }
        let id = made.map_err(refused)?.id;
        let options = None::<StartContainerOptions>;
        engine
            .start_container(&id, options)
            .await
            .map_err(refused)?;
        Ok(id)
    }

    fn body(&self) -> ContainerCreateBody {
        let shim = self.shim.as_deref();
        let variables = shim.map(|_| shim::variables(Path::new(shim::MOUNTED)));
        let variables = variables.into_iter().flatten();
        let variables = variables.map(|(name, value)| format!("{name}={value}"));
        // Toxiproxy tells each connection otherwise.
        let quiet = std::iter::once("LOG_LEVEL=error".to_owned());
        let ports = self.ports.iter().filter(|_| self.publish);
        let fixed = self.ip.map(|ip| EndpointIpamConfig {
            ipv4_address: Some(ip.to_string()),
            ..EndpointIpamConfig::default()
        });
        let endpoint = EndpointSettings {
            ipam_config: fixed,
            ..EndpointSettings::default()
        };
        ContainerCreateBody {
            image: Some(self.image.clone()),
            cmd: Some(self.arguments.clone()),
            env: Some(quiet.chain(variables).collect()),
            labels: Some(HashMap::from(self.reaper.labels())),
            exposed_ports: Some(ports.map(|p| format!("{p}/tcp")).collect()),
            host_config: Some(HostConfig {
                network_mode: Some(self.network.clone()),
                port_bindings: Some(self.bindings()),
                memory: Some(MEMORY),
                binds: shim.map(|folder| vec![format!("{}:{}", folder.display(), shim::MOUNTED)]),
                ..HostConfig::default()
            }),
            networking_config: Some(NetworkingConfig {
                endpoints_config: Some(HashMap::from([(self.network.clone(), endpoint)])),
            }),
            ..ContainerCreateBody::default()
        }
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
