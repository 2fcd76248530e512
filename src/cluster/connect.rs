//! From servers that run to a cluster: links to and between them, and servers that have found each other.
//!
//! Owns the order of this. Must not know how servers are started. `cluster` calls it once, at the start.
use super::layout::Layout;
use super::{
    Cluster, ClusterError, READY, Servers, Speaks, etcd, probe, sentinel, tools, zookeeper,
};
use crate::plan::ClusterPlan;
use futures_util::future::try_join_all;
use std::net::SocketAddr;
use std::time::Duration;

/// Bound on the first answer through a link.
const THROUGH: Duration = Duration::from_secs(5);

impl Cluster {
    /// Where servers talk to each other: their links, then whatever must find each other through these.
    pub(super) async fn connect_servers(&mut self, plan: &ClusterPlan) -> Result<(), ClusterError> {
        let Some(layout) = self.layout.clone() else {
            return Ok(());
        };
        // The Sentinels' own links are made once these run: where they listen is not known before.
        for (from, to) in layout
            .links()
            .into_iter()
            .filter(|(_, to)| *to < layout.nodes())
        {
            self.connect_server(&layout, from, to).await?;
        }
        let members = self.directly(0..layout.nodes());
        let version = match self.speaks {
            Speaks::Etcd => etcd::agree(&members).await,
            Speaks::ZooKeeper => zookeeper::agree(&members).await,
            Speaks::Resp => return self.connect_sentinels(plan, &layout).await,
        };
        let version = version.map_err(|why| apart("the cluster of members", why))?;
        self.versions.insert("server".to_owned(), version);
        Ok(())
    }

    async fn connect_sentinels(
        &mut self,
        plan: &ClusterPlan,
        layout: &Layout,
    ) -> Result<(), ClusterError> {
        let replicas = self.directly(1..layout.nodes());
        let follow = sentinel::replicas_follow(&replicas).await;
        follow.map_err(|why| apart("a replica", why))?;
        match &mut self.servers {
            Servers::Local(l) => l.start_sentinels(plan, layout).await?,
            Servers::Docker(d) => d.start_sentinels(plan, layout).await?,
        }
        for (from, to) in layout
            .links()
            .into_iter()
            .filter(|(_, to)| *to >= layout.nodes())
        {
            self.connect_server(layout, from, to).await?;
        }
        let sentinels = self.directly(layout.nodes()..layout.servers());
        let agree = sentinel::sentinels_agree(&sentinels, layout.nodes() - 1).await;
        agree.map_err(|why| apart("a Sentinel", why))
    }

    /// Whether Sentinels here have failed over since the start. For ten seconds and more they go by what they remember of
    /// earlier roles: one that still takes a demoted server for a primary demotes it again when it is promoted next, and
    /// ends its connections.
    pub async fn failed_over(&self) -> bool {
        let sentinels = self.directly(self.node_count()..self.server_count());
        self.has_sentinels() && sentinel::failed_over(&sentinels).await
    }

    fn directly(&self, servers: std::ops::Range<usize>) -> Vec<SocketAddr> {
        servers.map(|s| self.direct(s)).collect()
    }

    async fn connect_server(
        &mut self,
        layout: &Layout,
        from: String,
        to: usize,
    ) -> Result<(), ClusterError> {
        let source = (0..layout.servers()).find(|s| layout.name(*s) == from);
        let source = source.unwrap_or(0);
        for (port, behind) in layout.ports(to) {
            let name = self.proxy_name(&from, to) + behind;
            let (listen, upstream) = match &self.servers {
                Servers::Local(l) => (format!("127.0.0.1:{port}"), l.direct(to).to_string()),
                Servers::Docker(d) => d.server_endpoints(source, &layout.name(to), port),
            };
            let bound = self.toxiproxy.create(&name, &listen, &upstream).await?;
            let address = match &self.servers {
                Servers::Local(_) => Some(bound),
                Servers::Docker(d) => d.server_link(source, port),
            };
            // Whatever is asked through a link goes by its first port.
            self.links.entry((from.clone(), to)).or_insert(address);
        }
        Ok(())
    }

    /// A proxy for one link. A port that was free a moment ago may be somebody else's now; another is taken then.
    async fn connect_link(
        &self,
        client: &str,
        link: usize,
        node: usize,
    ) -> Result<SocketAddr, ClusterError> {
        let name = self.proxy_name(client, node);
        let mut tries = 0;
        loop {
            tries += 1;
            let (listen, upstream) = self.servers.endpoints(link, node)?;
            match self.toxiproxy.create(&name, &listen, &upstream).await {
                Err(e) if e.is_port_in_use() => tools::next_try(&name, &listen, tries)?,
                made => return Ok(made?),
            }
        }
    }

    pub(super) async fn connect_links(&mut self, clients: &[String]) -> Result<(), ClusterError> {
        let servers = self.server_count();
        for (c, client) in clients.iter().enumerate() {
            for node in 0..servers {
                let bound = self.connect_link(client, c * servers + node, node).await?;
                let address = self.servers.reachable(bound)?;
                self.links.insert((client.clone(), node), Some(address));
            }
        }
        let speaks = self.speaks;
        let answers = self
            .links
            .iter()
            .filter_map(|((client, node), address)| {
                // Servers of an ensemble have found each other by theirs, which speak another language.
                let inner = speaks == Speaks::ZooKeeper && !clients.contains(client);
                let address = address.filter(|_| !inner)?;
                Some((self.proxy_name(client, *node), address))
            })
            .map(|(link, address)| async move {
                let answer = match speaks {
                    Speaks::Resp => probe::until_pong(address, THROUGH, || None).await,
                    Speaks::Etcd => etcd::until_listens(address, THROUGH).await,
                    Speaks::ZooKeeper => zookeeper::until_listens(address, THROUGH).await,
                };
                answer.map_err(|why| ClusterError::Link {
                    link,
                    address: address.to_string(),
                    why,
                })
            });
        try_join_all(answers).await?;
        self.versions.extend(self.servers.versions());
        if speaks == Speaks::Resp
            && let Some(server) = probe::version(self.direct(0)).await
        {
            self.versions.insert("server".to_owned(), server);
        }
        let toxiproxy = self.toxiproxy.version().await?;
        self.versions.insert("toxiproxy".to_owned(), toxiproxy);
        Ok(())
    }
}

fn apart(node: &str, why: String) -> ClusterError {
    ClusterError::NotReady {
        node: node.to_owned(),
        waited: READY,
        why,
        log: String::new(),
    }
}
