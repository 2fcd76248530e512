//! A primary, its replicas and three Sentinels: who is told what, and when they have found each other.
//!
//! Owns the settings of such servers, the addresses under which they know each other, and which links lie between
//! them. Must not know how servers are started. `cluster` makes the links and hands the settings to a backend.
//!
//! A Sentinel knows a server by one address for everything: its own probes, the replicas' links, and what clients are
//! told. So that each source still has a link of its own, that address must mean another listener for each source. On
//! Docker each server is alone in a network with Toxiproxy, whose name there is [`HOST`]: `toxi:7001` is `n2>n1` to n2
//! and `s1>n1` to s1, and no server can go around Toxiproxy. On this very host there is one network for all, so the
//! links of all servers to one server are a single proxy (`servers>n1`); what would need to tell them apart is refused.
use super::probe;
use super::{Backend, ClusterError};
use crate::plan::ClusterPlan;
use futures_util::future::try_join_all;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Sentinels; a majority of them decides.
pub(super) const SENTINELS: usize = 3;
/// Toxiproxy's name in a server's network.
pub(super) const HOST: &str = "toxi";
/// The name under which Sentinels watch the primary.
pub const SERVICE: &str = "fencepost";
/// The source of all servers' links where they share one.
pub(super) const SHARED: &str = "servers";
/// Bound on the time until replicas follow and Sentinels know all.
const CONVERGE: Duration = Duration::from_secs(20);
/// How often that is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// `failover-timeout`: a Sentinel waits twice this before it tries again.
const FAILOVER_TIMEOUT_MS: u32 = 2000;
/// How much later than the others the last Sentinel calls a server down. Two make the quorum; were all three candidates
/// at once, each would vote for itself, and the failover would take two `failover-timeout`s more. Longer than the
/// second in which a Sentinel pings, which is the spread of the moments at which they notice.
const TIE_BREAK: Duration = Duration::from_millis(1500);

/// Who is there, and how each is known to the others. Servers are counted from 0: the nodes, then the Sentinels.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    nodes: usize,
    shared: bool,
    down_after: Duration,
    min_replicas: u32,
    max_lag: Duration,
    /// Host and port of each server, as all others know it.
    announced: Vec<(String, u16)>,
}

/// A server's links to another: source, and the server that it leads to.
pub(super) type ServerLink = (String, usize);

impl Layout {
    /// `port` finds a port of this host on which nothing listens.
    pub(super) fn new(
        plan: &ClusterPlan,
        backend: Backend,
        port: impl Fn(&str) -> Result<u16, ClusterError>,
    ) -> Result<Self, ClusterError> {
        let nodes = plan.nodes.max(2) as usize;
        let shared = backend == Backend::Local;
        let mut layout = Self {
            nodes,
            shared,
            down_after: plan.down_after.unwrap_or(Duration::from_secs(1)),
            min_replicas: plan.min_replicas.unwrap_or(0),
            max_lag: plan.max_lag.unwrap_or(Duration::from_secs(10)),
            announced: Vec::new(),
        };
        for server in 0..nodes + SENTINELS {
            let address = if shared {
                ("127.0.0.1".to_owned(), port(&layout.name(server))?)
            } else if server < nodes {
                (HOST.to_owned(), 7001 + u16::try_from(server).unwrap_or(0))
            } else {
                let number = u16::try_from(server - nodes).unwrap_or(0);
                (HOST.to_owned(), 7101 + number)
            };
            layout.announced.push(address);
        }
        Ok(layout)
    }

    pub(super) fn nodes(&self) -> usize {
        self.nodes
    }

    /// Nodes and Sentinels.
    pub(super) fn servers(&self) -> usize {
        self.announced.len()
    }

    /// `n1` …, then `s1` …
    pub(super) fn name(&self, server: usize) -> String {
        name(self.nodes, server)
    }

    /// `toxi:7001`.
    pub(super) fn announced(&self, server: usize) -> String {
        let (host, port) = &self.announced[server];
        format!("{host}:{port}")
    }

    /// The port on which a link to this server listens.
    pub(super) fn port(&self, server: usize) -> u16 {
        self.announced[server].1
    }

    /// What a node is started with beside the settings of every node. The first one is the primary whenever it is
    /// started: what the Sentinels decided since is not kept in its settings, as with a container's fixed command.
    pub(super) fn node_flags(&self, node: usize) -> Vec<String> {
        let (host, port) = &self.announced[node];
        let (primary, primary_port) = &self.announced[0];
        let follows = if node == 0 {
            String::new()
        } else {
            format!(" --replicaof {primary} {primary_port}")
        };
        let words = format!(
            "--replica-announce-ip {host} --replica-announce-port {port} --repl-diskless-sync yes \
             --repl-diskless-sync-delay 0 --repl-ping-replica-period 1 --repl-timeout 5 --min-replicas-to-write {} \
             --min-replicas-max-lag {}{follows}",
            self.min_replicas,
            self.max_lag.as_secs(),
        );
        words.split(' ').map(str::to_owned).collect()
    }

    /// A Sentinel's file. The order matters: names must be allowed before one is used.
    pub(super) fn sentinel_file(&self, server: usize, port: u16, bind: &str) -> String {
        let (host, own) = &self.announced[server];
        let (primary, primary_port) = &self.announced[0];
        let quorum = SENTINELS / 2 + 1;
        let last = server + 1 == self.servers();
        let later = if last { TIE_BREAK } else { Duration::ZERO };
        let down_after = (self.down_after + later).as_millis();
        format!(
            "port {port}\nbind {bind}\nprotected-mode no\ndir /tmp\nsentinel resolve-hostnames yes\n\
             sentinel announce-hostnames yes\nsentinel announce-ip {host}\nsentinel announce-port {own}\n\
             sentinel monitor {SERVICE} {primary} {primary_port} {quorum}\n\
             sentinel down-after-milliseconds {SERVICE} {down_after}\n\
             sentinel failover-timeout {SERVICE} {FAILOVER_TIMEOUT_MS}\nsentinel parallel-syncs {SERVICE} 1\n"
        )
    }

    /// Every link between servers: each node and Sentinel to each node, each Sentinel to each Sentinel.
    pub(super) fn links(&self) -> Vec<ServerLink> {
        let servers = 0..self.servers();
        if self.shared {
            return servers.map(|to| (SHARED.to_owned(), to)).collect();
        }
        let pairs = servers
            .clone()
            .flat_map(|a| servers.clone().map(move |b| (a, b)));
        pairs
            .filter(|(from, to)| from != to && self.talks(*from, *to))
            .map(|(from, to)| (self.name(from), to))
            .collect()
    }

    /// Nodes never call a Sentinel.
    fn talks(&self, from: usize, to: usize) -> bool {
        to < self.nodes || from >= self.nodes
    }

    /// The links between two groups of servers, either way.
    ///
    /// # Errors
    /// Why they cannot be told from others.
    pub(super) fn between(
        &self,
        one: &[usize],
        other: &[usize],
    ) -> Result<Vec<ServerLink>, String> {
        if self.shared {
            let rest = (0..self.servers()).filter(|s| !one.contains(s));
            return match one {
                [alone] if rest.clone().all(|s| other.contains(&s)) => {
                    Ok(vec![(SHARED.to_owned(), *alone)])
                }
                _ => Err(
                    "on the local backend all servers reach a server by one and the same address, so only all of \
                     its links together can be cut (link:primary>servers); on Docker each has its own"
                        .to_owned(),
                ),
            };
        }
        let ways = |a: &[usize], b: &[usize]| -> Vec<(usize, usize)> {
            a.iter().flat_map(|x| b.iter().map(|y| (*x, *y))).collect()
        };
        let mut pairs = ways(one, other);
        pairs.extend(ways(other, one));
        pairs.sort_unstable();
        pairs.dedup();
        Ok(pairs
            .into_iter()
            .filter(|(from, to)| from != to && self.talks(*from, *to))
            .map(|(from, to)| (self.name(from), to))
            .collect())
    }
}

/// `n1` …, then `s1` …
pub(super) fn name(nodes: usize, server: usize) -> String {
    if server < nodes {
        format!("n{}", server + 1)
    } else {
        format!("s{}", server + 1 - nodes)
    }
}

/// Wait until every replica follows the primary: a Sentinel that asks before looks for replicas only 10 s later.
pub(super) async fn replicas_follow(replicas: &[SocketAddr]) -> Result<(), String> {
    let each = replicas.iter().map(|at| {
        until(*at, "replication", |info| {
            info.contains("master_link_status:up")
        })
    });
    try_join_all(each).await.map(drop)
}

/// Wait until every Sentinel knows all replicas and the other Sentinels.
pub(super) async fn sentinels_agree(
    sentinels: &[SocketAddr],
    replicas: usize,
) -> Result<(), String> {
    let knows = format!("slaves={replicas},sentinels={SENTINELS}");
    let each = sentinels.iter().map(|at| {
        until(*at, "sentinel", |info| {
            info.contains(&knows) && info.contains("status=ok")
        })
    });
    try_join_all(each).await.map(drop)
}

async fn until(at: SocketAddr, section: &str, done: impl Fn(&str) -> bool) -> Result<(), String> {
    let began = Instant::now();
    loop {
        let answer = probe::info(at, section).await;
        match answer {
            Ok(info) if done(&info) => return Ok(()),
            _ if began.elapsed() < CONVERGE => tokio::time::sleep(LOOK).await,
            Ok(info) => {
                let line = info.lines().find(|l| l.starts_with("master"));
                return Err(format!(
                    "after {CONVERGE:?} it says {}",
                    line.unwrap_or(&info)
                ));
            }
            Err(why) => return Err(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Overrides, parse};

    fn layout(backend: Backend) -> Layout {
        let text = "lock = { name = 'set-nx-lua' }\ncluster = { topology = 'sentinel' }";
        let plan = parse("t.toml", "t", text, &Overrides::default()).expect("a plan");
        Layout::new(&plan[0].cluster, backend, |_| Ok(12_345)).expect("ports")
    }

    #[test]
    fn every_source_has_a_link_of_its_own_on_docker() {
        let all = layout(Backend::Docker).links();
        assert_eq!(all.len(), 6 + 9 + 6);
        assert!(all.contains(&("n2".to_owned(), 0)) && all.contains(&("s1".to_owned(), 4)));
        assert!(
            !all.iter()
                .any(|(from, to)| from.starts_with('n') && *to > 2)
        );
    }

    #[test]
    fn a_cut_goes_either_way_and_locally_only_around_one_server() {
        let docker = layout(Backend::Docker);
        let cut = docker.between(&[0], &[1, 2]).expect("apart");
        let names: Vec<String> = cut
            .iter()
            .map(|(f, t)| format!("{f}>{}", docker.name(*t)))
            .collect();
        assert_eq!(names, ["n1>n2", "n1>n3", "n2>n1", "n3>n1"]);
        let local = layout(Backend::Local);
        assert!(local.between(&[0], &[1, 2]).is_err());
        let all: Vec<usize> = (0..6).collect();
        assert_eq!(
            local.between(&[0], &all),
            Ok(vec![("servers".to_owned(), 0)])
        );
    }

    #[test]
    fn the_first_node_is_the_primary_and_names_come_before_their_use() {
        let docker = layout(Backend::Docker);
        assert!(!docker.node_flags(0).contains(&"--replicaof".to_owned()));
        assert!(
            docker
                .node_flags(1)
                .ends_with(&["--replicaof", "toxi", "7001"].map(str::to_owned))
        );
        let file = docker.sentinel_file(3, 26_379, "0.0.0.0");
        assert!(file.find("resolve-hostnames") < file.find("sentinel monitor"));
        let down_after = |server, ms: u32| {
            let file = docker.sentinel_file(server, 26_379, "0.0.0.0");
            file.contains(&format!("down-after-milliseconds {SERVICE} {ms}\n"))
        };
        assert!(down_after(3, 1000) && down_after(4, 1000) && down_after(5, 2500));
    }
}
