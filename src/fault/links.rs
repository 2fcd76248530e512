//! Toxics on a set of links: added one link after the other, each read back, and removed again.
//!
//! Owns which toxics of ours lie on which link. Must not know why. `partition` and `latency` use it.
use super::World;
use super::target::Link;
use crate::cluster::toxiproxy::{Toxic, ToxicKind};
use crate::plan::Direction;

/// Toxics of one fault.
pub(super) struct Toxics {
    pub links: Vec<Link>,
    /// (proxy, toxic) in the order of adding.
    added: Vec<(String, String)>,
}

impl Toxics {
    pub(super) fn new(links: Vec<Link>) -> Self {
        Self {
            links,
            added: Vec::new(),
        }
    }

    /// Lays a toxic of this kind on every link, in the direction asked for.
    pub(super) async fn add(
        &mut self,
        world: &World,
        kind: &ToxicKind,
        direction: Direction,
    ) -> Result<(), String> {
        for link in &self.links {
            let proxies = world.cluster.proxies(&link.client, link.node);
            let each = proxies
                .iter()
                .flat_map(|p| streams(direction).iter().map(move |s| (p, *s)));
            for (proxy, upstream) in each {
                let name = format!("fencepost-{}", world.fresh());
                let toxic = Toxic {
                    name: name.clone(),
                    kind: *kind,
                    upstream,
                };
                world
                    .cluster
                    .toxiproxy()
                    .add(proxy, toxic)
                    .await
                    .map_err(|e| e.to_string())?;
                self.added.push((proxy.clone(), name));
            }
        }
        Ok(())
    }

    /// Removes what was added. Goes on after an error, so that one bad link leaves no other behind.
    pub(super) async fn remove(&mut self, world: &World) -> Result<(), String> {
        let mut outcome = Ok(());
        for (proxy, toxic) in self.added.drain(..) {
            if let Err(error) = world.cluster.toxiproxy().remove(&proxy, &toxic).await {
                outcome = Err(error.to_string());
            }
        }
        outcome
    }

    /// `c1>n4,c1>n5`.
    pub(super) fn names(&self) -> String {
        let names: Vec<&str> = self.links.iter().map(|l| l.name.as_str()).collect();
        names.join(",")
    }

    /// The client, where all links are of one.
    pub(super) fn client(&self) -> Option<&str> {
        let first = self.links.first()?;
        self.links
            .iter()
            .all(|l| l.client == first.client && l.of_client())
            .then_some(first.client.as_str())
    }
}

/// Toxiproxy's streams: upstream carries requests, downstream replies.
fn streams(direction: Direction) -> &'static [bool] {
    match direction {
        Direction::Both => &[true, false],
        Direction::Requests => &[true],
        Direction::Replies => &[false],
    }
}
