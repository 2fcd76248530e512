//! What an image wants: looked at before anything is started, so that nothing is ever pulled unasked.
//!
//! Owns the reading of an image's entrypoint and command. Must not start anything.
use crate::cluster::ClusterError;
use bollard::Docker;
use bollard::errors::Error as EngineError;
use std::path::Path;

/// An image that is here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Image {
    /// As the workload names it.
    pub(super) name: String,
    /// Its content's id.
    pub(super) id: String,
    entrypoint: Vec<String>,
    command: Vec<String>,
}

impl Image {
    /// Look at an image of the engine's own store.
    ///
    /// # Errors
    /// [`ClusterError::Image`] when it is not there.
    pub(super) async fn look(docker: &Docker, name: &str) -> Result<Self, ClusterError> {
        let seen = docker.inspect_image(name).await.map_err(|e| match e {
            EngineError::DockerResponseServerError {
                status_code: 404, ..
            } => ClusterError::Image(name.to_owned()),
            e => ClusterError::Refused {
                what: format!("look at image {name}"),
                why: e.to_string(),
            },
        })?;
        let config = seen.config.unwrap_or_default();
        Ok(Self {
            name: name.to_owned(),
            id: seen.id.unwrap_or_default(),
            entrypoint: config.entrypoint.unwrap_or_default(),
            command: config.cmd.unwrap_or_default(),
        })
    }

    /// The program that ends up running: `redis-server`, `valkey-server`, `etcd`, `zookeeper`, `toxiproxy`.
    pub(super) fn program(&self) -> String {
        let named = [self.entrypoint.last(), self.command.first()];
        let server = named.into_iter().flatten().map(|word| base(word));
        server
            .into_iter()
            .find(|word| is_server(word))
            .unwrap_or_else(|| {
                let short = base(self.name.split([':', '@']).next().unwrap_or_default());
                let known = ["valkey", "toxiproxy"]
                    .into_iter()
                    .find(|k| short.contains(k));
                match known {
                    Some("toxiproxy") => "toxiproxy-server".to_owned(),
                    Some(name) => format!("{name}-server"),
                    None => "redis-server".to_owned(),
                }
            })
    }

    /// The words after the image's name in `docker run`, so that its entrypoint stays in charge: only `flags` where the
    /// entrypoint is the server itself, else the server's name before them (`docker-entrypoint.sh redis-server ...`).
    pub(super) fn arguments(&self, flags: impl IntoIterator<Item = String>) -> Vec<String> {
        let entry_is_server = self.entrypoint.last().is_some_and(|w| is_server(&base(w)));
        let own = self.command.first().filter(|w| is_server(&base(w)));
        let program = if entry_is_server {
            None
        } else {
            Some(own.cloned().unwrap_or_else(|| self.program()))
        };
        program.into_iter().chain(flags).collect()
    }
}

fn base(word: &str) -> String {
    let name = Path::new(word).file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn is_server(base: &str) -> bool {
    base.ends_with("-server") || matches!(base, "toxiproxy" | "etcd" | "zookeeper")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(name: &str, entrypoint: &[&str], command: &[&str]) -> Image {
        let words = |w: &[&str]| w.iter().map(|&s| s.to_owned()).collect();
        Image {
            name: name.to_owned(),
            id: String::new(),
            entrypoint: words(entrypoint),
            command: words(command),
        }
    }

    #[test]
    fn entrypoints_keep_their_conventions() {
        let wrapper = &["docker-entrypoint.sh"][..];
        for (name, entrypoint, command, first, program) in [
            (
                "redis:7",
                wrapper,
                &["redis-server"][..],
                "redis-server",
                "redis-server",
            ),
            (
                "valkey/valkey:8",
                wrapper,
                &["valkey-server"],
                "valkey-server",
                "valkey-server",
            ),
            (
                "ghcr.io/shopify/toxiproxy:2.12.0",
                &["/toxiproxy"],
                &["-host=0.0.0.0"],
                "--x",
                "toxiproxy",
            ),
            (
                "mine",
                &[],
                &["/opt/redis-server", "/etc/r.conf"],
                "/opt/redis-server",
                "redis-server",
            ),
            ("fencepost/etcd:3.4", &[], &["etcd"], "etcd", "etcd"),
            (
                "fencepost/zookeeper:3.8",
                &[],
                &["zookeeper"],
                "zookeeper",
                "zookeeper",
            ),
            (
                "mine",
                &["/usr/bin/valkey-server"],
                &[],
                "--x",
                "valkey-server",
            ),
            (
                "my/valkey@sha256:0",
                &[],
                &["sh"],
                "valkey-server",
                "valkey-server",
            ),
            (
                "localhost:5000/what",
                wrapper,
                &[],
                "redis-server",
                "redis-server",
            ),
        ] {
            let image = image(name, entrypoint, command);
            let words = image.arguments(["--x".to_owned()]);
            assert_eq!(words[0], first, "{name}");
            assert_eq!(words.last().map(String::as_str), Some("--x"), "{name}");
            assert_eq!(image.program(), program, "{name}");
        }
    }
}
