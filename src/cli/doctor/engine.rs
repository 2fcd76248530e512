//! Probes of the Docker engine: does it answer, are the images there, which way to pause a container works.
//!
//! Owns one throw-away container, labelled as all of fencepost's are. Must not know clusters.
use super::host::{comes_to, signal};
use super::{Line, Route, Status};
use crate::words::chain;
use bollard::Docker;
use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::{CreateContainerOptionsBuilder, RemoveContainerOptionsBuilder};
use nix::sys::signal::Signal;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The default images; without the first two no workload runs as it stands.
const IMAGES: [&str; 7] = [
    "fencepost/redis:7",
    "fencepost/toxiproxy:2.12",
    "fencepost/redis:8",
    "fencepost/valkey:8",
    "fencepost/etcd:3.4",
    "fencepost/etcd:3.5",
    "fencepost/zookeeper:3.8",
];
const NEEDED: usize = 2;
/// An engine that lives answers a question in this time.
const DEADLINE: Duration = Duration::from_secs(3);
/// The whole life of the throw-away container.
const CONTAINER_DEADLINE: Duration = Duration::from_secs(15);

/// What the engine's probes found.
pub(super) struct Engine {
    pub(super) lines: Vec<Line>,
    /// Whether nodes can run in containers.
    pub(super) backend: Route,
    /// How a container is paused.
    pub(super) pause: Route,
}

pub(super) async fn probe() -> Engine {
    probe_at(Docker::connect_with_defaults()).await
}

async fn probe_at(docker: Result<Docker, bollard::errors::Error>) -> Engine {
    let (docker, line) = match answers(docker).await {
        Ok(found) => found,
        Err(why) => {
            let line =
                Line::new("engine", Status::Missing, &why).hint("make setup; or --backend local");
            let no = Route::Not(format!("no engine: {}", line.found));
            return Engine {
                lines: vec![line],
                backend: no.clone(),
                pause: no,
            };
        }
    };
    let mut lines = vec![line];
    let mut absent = None;
    for (n, image) in IMAGES.into_iter().enumerate() {
        let line = image_line(&docker, image, n < NEEDED).await;
        if line.status == Status::Missing {
            absent.get_or_insert(image);
        }
        lines.push(line);
    }
    if let Some(image) = absent {
        let no = Route::Not(format!("no image {image}"));
        return Engine {
            lines,
            backend: no.clone(),
            pause: no,
        };
    }
    let (line, pause) = pause(&docker).await;
    lines.push(line);
    Engine {
        lines,
        backend: Route::By("containers".into()),
        pause,
    }
}

/// The engine, and its line; or why it does not answer.
async fn answers(docker: Result<Docker, bollard::errors::Error>) -> Result<(Docker, Line), String> {
    let docker = docker.map_err(|e| chain(&e))?;
    let questions = async {
        docker.ping().await?;
        tokio::try_join!(docker.version(), docker.info())
    };
    let (version, info) = tokio::time::timeout(DEADLINE, questions)
        .await
        .map_err(|_| format!("no answer within {} s", DEADLINE.as_secs()))?
        .map_err(|e| chain(&e))?;
    let field = |text: Option<String>| text.unwrap_or_else(|| "?".into());
    let cgroup = info
        .cgroup_version
        .map_or_else(|| "?".into(), |v| v.to_string());
    let found = format!(
        "{}, API {}, cgroup v{cgroup}, kernel {}",
        field(version.version),
        field(version.api_version),
        field(info.kernel_version)
    );
    let rootless = info
        .security_options
        .iter()
        .flatten()
        .any(|o| o.contains("rootless"));
    let status = if rootless { Status::Warn } else { Status::Ok };
    let line = Line::new("engine", status, found)
        .hint("rootless: containers are reached by published ports only");
    Ok((docker, line))
}

async fn image_line(docker: &Docker, image: &str, needed: bool) -> Line {
    match tokio::time::timeout(DEADLINE, docker.inspect_image(image)).await {
        Ok(Ok(found)) => {
            let size = found.size.unwrap_or_default() / 1_000_000;
            let id = found.id.unwrap_or_default();
            let id = id.strip_prefix("sha256:").unwrap_or(&id);
            Line::new(
                image,
                Status::Ok,
                format!("{}, {size} MB", id.get(..12).unwrap_or(id)),
            )
        }
        other => {
            let why = match other {
                Ok(Err(error)) => chain(&error),
                _ => "no answer".into(),
            };
            let status = if needed {
                Status::Missing
            } else {
                Status::Warn
            };
            Line::new(image, status, why).hint("make setup; or name another image in the workload")
        }
    }
}

/// Starts a container, pauses it both ways, and removes it whatever came out.
async fn pause(docker: &Docker) -> (Line, Route) {
    let name = format!("fencepost-doctor-{}", std::process::id());
    let tried = tokio::time::timeout(CONTAINER_DEADLINE, pause_ways(docker, &name)).await;
    let force = RemoveContainerOptionsBuilder::new()
        .force(true)
        .v(true)
        .build();
    let removed = tokio::time::timeout(
        CONTAINER_DEADLINE,
        docker.remove_container(&name, Some(force)),
    )
    .await;
    let route = match tried {
        Ok(Ok(route)) => route,
        Ok(Err(why)) => Route::Not(why),
        Err(_) => Route::Not(format!(
            "no container within {} s",
            CONTAINER_DEADLINE.as_secs()
        )),
    };
    let line = match (&route, removed) {
        (Route::By(found), Ok(Ok(()))) => Line::new("container pause", Status::Ok, found),
        (Route::Not(why), _) => Line::new("container pause", Status::Warn, why),
        (Route::By(_), _) => Line::new(
            "container pause",
            Status::Warn,
            format!("container {name} could not be removed"),
        ),
    };
    (
        line.hint("fencepost clean removes what was left; node-pause needs one of the two ways"),
        route,
    )
}

async fn pause_ways(docker: &Docker, name: &str) -> Result<Route, String> {
    let text = |e: bollard::errors::Error| chain(&e);
    let body = ContainerCreateBody {
        image: Some(IMAGES[0].to_owned()),
        labels: Some(labels()),
        host_config: Some(HostConfig {
            network_mode: Some("none".into()),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    };
    let options = CreateContainerOptionsBuilder::new().name(name).build();
    let id = docker
        .create_container(Some(options), body)
        .await
        .map_err(text)?
        .id;
    docker.start_container(name, None).await.map_err(text)?;
    let pid = docker
        .inspect_container(name, None)
        .await
        .map_err(text)?
        .state
        .and_then(|s| s.pid);
    let pid = pid
        .and_then(|pid| i32::try_from(pid).ok())
        .filter(|&pid| pid > 1);

    let began = Instant::now();
    let api = docker.pause_container(name).await.map_err(|e| chain(&e));
    let api_took = began.elapsed();
    if api.is_ok() {
        docker.unpause_container(name).await.map_err(text)?;
    }
    let fast = match pid {
        Some(pid) => by_pid(pid, &id).await,
        None => Err("the engine gives no pid".into()),
    };
    let ms = |took: Duration| took.as_secs_f64() * 1e3;
    Ok(match (fast, api) {
        (Ok(took), _) => Route::By(format!(
            "SIGSTOP to its host pid ({:.1} ms; engine API {:.0} ms)",
            ms(took),
            ms(api_took)
        )),
        (Err(why), Ok(())) => Route::By(format!(
            "engine API ({:.0} ms); not by host pid: {why}",
            ms(api_took)
        )),
        (Err(fast), Err(api)) => Route::Not(format!("by host pid: {fast}; by the engine: {api}")),
    })
}

/// Stops and continues the container's process directly; how long the stop took.
async fn by_pid(pid: i32, id: &str) -> Result<Duration, String> {
    // A remote or virtual machine's pid is somebody else here: the container's id must stand in its cgroup.
    let cgroup = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    if !cgroup.contains(id) {
        return Err("the engine's pids are not this host's".into());
    }
    let began = Instant::now();
    signal(pid, Signal::SIGSTOP)?;
    let stopped = comes_to(pid, 'T').await;
    let took = began.elapsed();
    signal(pid, Signal::SIGCONT)?;
    if stopped {
        Ok(took)
    } else {
        Err("SIGSTOP showed no effect".into())
    }
}

/// As on all that fencepost starts, so that `fencepost clean` finds it should this process die here.
fn labels() -> HashMap<String, String> {
    let read = |path: &str| {
        std::fs::read_to_string(path)
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    let stat = read("/proc/self/stat");
    let start = stat
        .rsplit(')')
        .next()
        .and_then(|rest| rest.split_ascii_whitespace().nth(19))
        .unwrap_or("0");
    let (host, boot) = (
        read("/proc/sys/kernel/hostname"),
        read("/proc/sys/kernel/random/boot_id"),
    );
    let pid = std::process::id();
    HashMap::from([
        ("fencepost.run".to_owned(), format!("doctor-{pid}")),
        (
            "fencepost.owner".to_owned(),
            format!("{host}/{boot}/{pid}/{start}"),
        ),
    ])
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_engine_that_is_not_there_is_missing_with_the_reason_and_a_hint() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("docker.sock");
        drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
        let docker =
            Docker::connect_with_unix(socket.to_str().unwrap(), 2, bollard::API_DEFAULT_VERSION);
        let engine = probe_at(docker).await;
        assert_eq!(engine.lines.len(), 1);
        assert_eq!(engine.lines[0].status, Status::Missing);
        assert!(
            engine.lines[0].found.contains("refused"),
            "{:?}",
            engine.lines
        );
        assert!(engine.lines[0].hint.is_some());
        assert!(matches!(
            (engine.backend, engine.pause),
            (Route::Not(_), Route::Not(_))
        ));
    }
}
