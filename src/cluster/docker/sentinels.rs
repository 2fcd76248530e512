//! Sentinels in containers, and the links of servers, these and others, to each other.
//!
//! Owns where these listen. Must not know what the servers are told: that is `cluster::sentinel`.
use super::{Docker, Node, PORT};
use crate::cluster::layout::Layout;
use crate::cluster::{ClusterError, Speaks, etcd, sentinel};
use crate::plan::ClusterPlan;
use futures_util::future::join_all;
use std::net::SocketAddr;

/// Sentinels' port inside their containers.
const SENTINEL_PORT: u16 = 26_379;
/// Where a Sentinel's file is written in its container; it must be able to write it.
const SENTINEL_FILE: &str = "/tmp/sentinel.conf";

impl Docker {
    /// Where a server's link to another listens, in the source's own network, and where it connects to.
    pub(in crate::cluster) fn server_endpoints(
        &self,
        from: usize,
        to: &str,
        port: u16,
    ) -> (String, String) {
        let own = match self.kitchen.speaks {
            Speaks::Etcd => etcd::PEERS,
            // It listens at the ports that the others know.
            Speaks::ZooKeeper => port,
            Speaks::Resp if to.starts_with('s') => SENTINEL_PORT,
            Speaks::Resp => PORT,
        };
        let upstream = format!("{}-{to}:{own}", self.kitchen.network);
        (format!("{}:{port}", self.inside[from]), upstream)
    }

    /// Where that link's listener is reached from here; none where only published ports are.
    pub(in crate::cluster) fn server_link(&self, from: usize, port: u16) -> Option<SocketAddr> {
        (!self.published).then(|| (self.inside[from], port).into())
    }

    /// Start the Sentinels; the links of servers to each other must be there.
    pub(in crate::cluster) async fn start_sentinels(
        &mut self,
        plan: &ClusterPlan,
        layout: &Layout,
    ) -> Result<(), ClusterError> {
        let image = &self.images[0];
        let each = (layout.nodes()..layout.servers()).map(|server| {
            let file = sentinel::sentinel_file(plan, layout, server, (SENTINEL_PORT, "0.0.0.0"));
            let write = format!("printf %s \"$0\" >{SENTINEL_FILE} && exec \"$@\"");
            let program = image.program();
            let words = [
                "sh",
                "-c",
                &write,
                &file,
                &program,
                SENTINEL_FILE,
                "--sentinel",
            ];
            let words = words.map(str::to_owned).to_vec();
            let name = layout.name(server);
            let recipe = self
                .kitchen
                .server(&name, image, words, vec![SENTINEL_PORT]);
            Node::start(&self.engine, name, recipe)
        });
        let started: Vec<Result<Node, ClusterError>> = join_all(each).await;
        for node in started {
            let node = node?;
            node.ready(&self.engine, self.published).await?;
            self.nodes.push(node);
        }
        Ok(())
    }
}
