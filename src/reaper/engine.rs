//! The way to the container engine, and removal by label.
//!
//! Owns the connection (the same engine that testcontainers uses) and the sweep. Must not know topologies or servers.
//! The cluster starts containers through it; the reaper and `clean` remove them.
use super::owner::{LABEL_OWNER, LABEL_RUN};
use bollard::Docker;
use bollard::errors::Error as EngineError;
use bollard::query_parameters::{
    ListContainersOptionsBuilder, ListNetworksOptionsBuilder, RemoveContainerOptionsBuilder,
};
use futures_util::future::join_all;
use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};
use thiserror::Error;

/// Bound on the first answer of the engine.
const ANSWER: Duration = Duration::from_secs(5);
/// Bound on any later answer; the slowest asked for is a container's start on a loaded machine.
const CALL: Duration = Duration::from_secs(30);
/// Bound on the removal of one container or network.
const REMOVE: Duration = Duration::from_secs(10);

/// What can go wrong between here and the engine.
#[derive(Debug, Error)]
pub enum SweepError {
    /// No engine answers.
    #[error("no container engine answers: {0}")]
    Unreachable(String),
    /// The engine answered, and refused.
    #[error("the engine could not {what}: {why}")]
    Refused {
        /// What was asked.
        what: String,
        /// The engine's words.
        why: String,
    },
}

/// A container or network that carries our labels.
#[derive(Debug, Clone)]
pub struct Found {
    /// The engine's id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Label [`LABEL_RUN`].
    pub run: String,
    /// Label [`LABEL_OWNER`], as text.
    pub owner: String,
    /// When it was made, as far as the engine says.
    pub created: Option<SystemTime>,
    /// A network, not a container.
    pub network: bool,
}

/// Reach the engine that `DOCKER_HOST` or the usual sockets name, and see that it answers.
///
/// # Errors
/// [`SweepError::Unreachable`] with the reason, at the latest after five seconds.
pub async fn connect() -> Result<Docker, SweepError> {
    let docker = testcontainers::core::client::docker_client_instance()
        .await
        .map_err(|e| SweepError::Unreachable(root_cause(&e)))?;
    match tokio::time::timeout(ANSWER, docker.negotiate_version()).await {
        Ok(Ok(docker)) => Ok(docker.with_timeout(CALL)),
        Ok(Err(e)) => Err(SweepError::Unreachable(at_host(&root_cause(&e)))),
        Err(_) => Err(SweepError::Unreachable(at_host(&format!(
            "silent for {ANSWER:?}"
        )))),
    }
}

/// The innermost words of an error: what the system said, not through which layers it came.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

/// With the address, where the user named one.
fn at_host(why: &str) -> String {
    match std::env::var("DOCKER_HOST") {
        Ok(host) if !host.is_empty() => format!("{host}: {why}"),
        _ => why.to_owned(),
    }
}

/// All containers and networks of one run, or (none) of any run.
pub async fn find(docker: &Docker, run: Option<&str>) -> Result<Vec<Found>, SweepError> {
    let label = run.map_or_else(|| LABEL_RUN.to_owned(), |run| format!("{LABEL_RUN}={run}"));
    let filters = HashMap::from([("label".to_owned(), vec![label])]);
    let containers = ListContainersOptionsBuilder::new()
        .all(true)
        .filters(&filters)
        .build();
    let networks = ListNetworksOptionsBuilder::new().filters(&filters).build();
    let containers = docker
        .list_containers(Some(containers))
        .await
        .map_err(|e| refused("list containers", &e))?;
    let networks = docker
        .list_networks(Some(networks))
        .await
        .map_err(|e| refused("list networks", &e))?;
    let found = |id: Option<String>, name: Option<String>, labels: Option<HashMap<_, _>>| {
        let mut labels: HashMap<String, String> = labels.unwrap_or_default();
        Some(Found {
            name: name.or_else(|| id.clone()).unwrap_or_default(),
            id: id?,
            run: labels.remove(LABEL_RUN)?,
            owner: labels.remove(LABEL_OWNER).unwrap_or_default(),
            created: None,
            network: false,
        })
    };
    let containers = containers.into_iter().filter_map(|c| {
        let name = c.names.and_then(|n| n.into_iter().next());
        let name = name.map(|n| n.trim_start_matches('/').to_owned());
        let seconds = c.created.and_then(|s| u64::try_from(s).ok());
        Some(Found {
            created: seconds.map(|s| SystemTime::UNIX_EPOCH + Duration::from_secs(s)),
            ..found(c.id, name, c.labels)?
        })
    });
    let networks = networks.into_iter().filter_map(|n| {
        Some(Found {
            created: n.created.map(SystemTime::from),
            network: true,
            ..found(n.id, n.name, n.labels)?
        })
    });
    Ok(containers.chain(networks).collect())
}

/// Remove these: containers first and at once, with their anonymous volumes, paused ones included; then networks.
///
/// # Errors
/// The first refusal; the rest was removed all the same. What was gone already is no error.
pub async fn remove(docker: &Docker, found: &[Found]) -> Result<(), SweepError> {
    let mut errors = Vec::new();
    for network in [false, true] {
        let each = found.iter().filter(|f| f.network == network);
        let results = join_all(each.map(|f| remove_one(docker, f))).await;
        errors.extend(results.into_iter().filter_map(Result::err));
    }
    errors.into_iter().next().map_or(Ok(()), Err)
}

async fn remove_one(docker: &Docker, found: &Found) -> Result<(), SweepError> {
    let what = format!("remove {}", found.name);
    let call = async {
        if found.network {
            remove_network(docker, &found.id).await
        } else {
            remove_container(docker, &found.id).await
        }
    };
    match tokio::time::timeout(REMOVE, call).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(e)) if is_gone(&e) => Ok(()),
        Ok(Err(e)) => Err(refused(&what, &e)),
        Err(_) => Err(SweepError::Refused {
            what,
            why: format!("no answer for {REMOVE:?}"),
        }),
    }
}

/// A network that still has endpoints (403) is tried again: its containers may be on their way out by another's hand.
async fn remove_network(docker: &Docker, id: &str) -> Result<(), EngineError> {
    let end = Instant::now() + REMOVE / 2;
    loop {
        match docker.remove_network(id).await {
            Err(EngineError::DockerResponseServerError {
                status_code: 403, ..
            }) if Instant::now() < end => tokio::time::sleep(Duration::from_millis(20)).await,
            other => return other,
        }
    }
}

/// `docker rm -f -v`.
pub(crate) async fn remove_container(docker: &Docker, id: &str) -> Result<(), EngineError> {
    let options = RemoveContainerOptionsBuilder::new()
        .force(true)
        .v(true)
        .build();
    docker.remove_container(id, Some(options)).await
}

/// The thing is gone (404), or another removal of it is under way (409).
pub(crate) fn is_gone(e: &EngineError) -> bool {
    match e {
        EngineError::DockerResponseServerError {
            status_code,
            message,
        } => {
            *status_code == 404 || (*status_code == 409 && message.contains("already in progress"))
        }
        _ => false,
    }
}

/// The engine said yes or no; else it may still be at it.
pub(crate) fn answered<T>(outcome: &Result<T, EngineError>) -> bool {
    matches!(
        outcome,
        Ok(_) | Err(EngineError::DockerResponseServerError { .. })
    )
}

fn refused(what: &str, e: &EngineError) -> SweepError {
    SweepError::Refused {
        what: what.to_owned(),
        why: e.to_string(),
    }
}

/// Find and remove all of one run; returns the names of what there was.
pub async fn sweep(docker: &Docker, run: &str) -> Result<Vec<String>, SweepError> {
    let found = find(docker, Some(run)).await?;
    remove(docker, &found).await?;
    Ok(found.into_iter().map(|f| f.name).collect())
}

/// [`sweep`] for a thread that runs no runtime.
pub(crate) fn sweep_blocking(run: &str) -> Result<Vec<String>, SweepError> {
    block_on(async { sweep(&connect().await?, run).await })?
}

/// Run a future on a runtime of its own.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> Result<T, SweepError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| SweepError::Unreachable(e.to_string()))?;
    Ok(runtime.block_on(future))
}
