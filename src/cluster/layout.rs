//! How servers that talk to each other are known to each other, and the links between them.
//!
//! Owns names, addresses and links of Sentinels', etcd's and ZooKeeper's servers. Must not know their settings, or how they are
//! started. `cluster` makes the links; `sentinel`, `etcd` and `zookeeper` take addresses from here.
//!
//! A Sentinel knows a server by one address for everything: its own probes, the replicas' links, and what clients are
//! told; a member of etcd knows each other by one, too. So that each source still has a link of its own, that address must
//! mean another listener for each source. On Docker each server is alone in a network with Toxiproxy, whose name there is [`HOST`]: `toxi:7001` is `n2>n1` to n2
//! and `s1>n1` to s1, and no server can go around Toxiproxy. On this very host there is one network for all, so the
//! links of all servers to one server are a single proxy (`servers>n1`); what would need to tell them apart is refused.
use super::sentinel::SENTINELS;
use super::{Backend, ClusterError};
use crate::plan::{ClusterPlan, Topology};

/// Toxiproxy's name in a server's network.
pub(super) const HOST: &str = "toxi";
/// The first server's port for votes, and the first Sentinel's.
const VOTES: u16 = 7101;
/// Behind a link's name, the proxy of a ZooKeeper server's other port.
pub(super) const QUORUM: &str = ":quorum";
/// The source of all servers' links where they share one.
pub(super) const SHARED: &str = "servers";

/// Who is there, and how each is known to the others. Servers are counted from 0: the nodes, then the Sentinels.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    nodes: usize,
    shared: bool,
    /// Beside the nodes.
    sentinels: usize,
    /// Servers have a second address, for votes.
    votes: bool,
    /// Host and port of each server, as all others know it.
    announced: Vec<(String, u16)>,
}

/// A server's links to another: source, and the server that it leads to.
pub(super) type ServerLink = (String, usize);

impl Layout {
    /// None where servers do not talk to each other. `port` finds a port of this host on which nothing listens.
    pub(super) fn new(
        plan: &ClusterPlan,
        backend: Backend,
        port: impl Fn(&str) -> Result<u16, ClusterError>,
    ) -> Result<Option<Self>, ClusterError> {
        let (nodes, sentinels) = match plan.topology {
            Topology::Single | Topology::Independent => return Ok(None),
            Topology::Sentinel => (plan.nodes.max(2) as usize, SENTINELS),
            Topology::Etcd | Topology::ZooKeeper => (plan.nodes.max(1) as usize, 0),
        };
        if backend == Backend::Local && plan.topology.is_replicated() {
            return Err(ClusterError::DockerOnly(plan.topology.name()));
        }
        let shared = backend == Backend::Local;
        let mut layout = Self {
            nodes,
            shared,
            sentinels,
            votes: plan.topology == Topology::ZooKeeper,
            announced: Vec::new(),
        };
        for server in 0..nodes + sentinels {
            let address = if shared {
                ("127.0.0.1".to_owned(), port(&layout.name(server))?)
            } else if server < nodes {
                (HOST.to_owned(), 7001 + u16::try_from(server).unwrap_or(0))
            } else {
                let number = u16::try_from(server - nodes).unwrap_or(0);
                (HOST.to_owned(), VOTES + number)
            };
            layout.announced.push(address);
        }
        Ok(Some(layout))
    }

    pub(super) fn nodes(&self) -> usize {
        self.nodes
    }

    /// There are Sentinels beside the nodes.
    pub(super) fn has_sentinels(&self) -> bool {
        self.sentinels > 0
    }

    /// Nodes and Sentinels.
    pub(super) fn servers(&self) -> usize {
        self.announced.len()
    }

    /// `n1` …, then `s1` …
    pub(super) fn name(&self, server: usize) -> String {
        name(self.nodes, server)
    }

    /// `toxi` and 7001.
    pub(super) fn at(&self, server: usize) -> (&str, u16) {
        let (host, port) = &self.announced[server];
        (host.as_str(), *port)
    }

    /// `toxi:7001`.
    pub(super) fn announced(&self, server: usize) -> String {
        let (host, port) = self.at(server);
        format!("{host}:{port}")
    }

    /// The port of a server's second address, which is for votes.
    pub(super) fn votes_of(server: usize) -> u16 {
        VOTES + u16::try_from(server).unwrap_or(0)
    }

    /// The ports on which a link to this server listens, each with what its proxy's name has behind the link's. The
    /// first answers whatever the server does otherwise: a ZooKeeper server that does not lead takes votes only.
    pub(super) fn ports(&self, server: usize) -> Vec<(u16, &'static str)> {
        let own = self.announced[server].1;
        if self.votes {
            vec![(Self::votes_of(server), ""), (own, QUORUM)]
        } else {
            vec![(own, "")]
        }
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
                _ => Err(super::SHARED_ADDRESS.to_owned()),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Overrides, parse};

    fn layout(backend: Backend, rest: &str) -> Result<Layout, ClusterError> {
        let text = format!("{rest}\nload = {{ clients = 1 }}");
        let plan = parse("t.toml", "t", &text, &Overrides::default()).expect("a plan");
        let layout = Layout::new(&plan[0].cluster, backend, |_| Ok(12_345))?;
        Ok(layout.expect("servers that talk"))
    }

    fn sentinel(backend: Backend) -> Layout {
        let rest = "lock = { name = 'set-nx-lua' }\ncluster = { topology = 'sentinel' }";
        layout(backend, rest).expect("ports")
    }

    #[test]
    fn every_source_has_a_link_of_its_own_on_docker() {
        let all = sentinel(Backend::Docker).links();
        assert_eq!(all.len(), 6 + 9 + 6);
        assert!(all.contains(&("n2".to_owned(), 0)) && all.contains(&("s1".to_owned(), 4)));
        assert!(
            !all.iter()
                .any(|(from, to)| from.starts_with('n') && *to > 2)
        );
    }

    #[test]
    fn every_member_of_etcd_has_a_link_to_every_other() {
        let rest = "lock = { name = 'etcd' }\ncluster = { topology = 'etcd' }";
        let three = layout(Backend::Docker, rest).expect("ports");
        assert_eq!((three.servers(), three.links().len()), (3, 6));
        assert_eq!(three.announced(2), "toxi:7003");
        assert!(matches!(
            layout(Backend::Local, rest),
            Err(ClusterError::DockerOnly("etcd"))
        ));
    }

    #[test]
    fn a_server_of_zookeeper_is_reached_at_two_ports() {
        let rest = "lock = { name = 'zookeeper' }\ncluster = { topology = 'zookeeper' }";
        let three = layout(Backend::Docker, rest).expect("ports");
        assert_eq!((three.servers(), three.links().len()), (3, 6));
        assert_eq!(three.ports(1), [(7102, ""), (7002, QUORUM)]);
        assert!(matches!(
            layout(Backend::Local, rest),
            Err(ClusterError::DockerOnly("zookeeper"))
        ));
    }

    #[test]
    fn a_cut_goes_either_way_and_locally_only_around_one_server() {
        let docker = sentinel(Backend::Docker);
        let cut = docker.between(&[0], &[1, 2]).expect("apart");
        let names: Vec<String> = cut
            .iter()
            .map(|(f, t)| format!("{f}>{}", docker.name(*t)))
            .collect();
        assert_eq!(names, ["n1>n2", "n1>n3", "n2>n1", "n3>n1"]);
        let local = sentinel(Backend::Local);
        assert!(local.between(&[0], &[1, 2]).is_err());
        let all: Vec<usize> = (0..6).collect();
        assert_eq!(
            local.between(&[0], &all),
            Ok(vec![("servers".to_owned(), 0)])
        );
    }
}
