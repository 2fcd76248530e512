//! The four toxics on links that slow or break a stream: `bandwidth`, `slow-close`, `slicer`, `limit-data`.
//!
//! Owns what they share: a toxic is laid on each link and removed again. Must not know what each proves: a [`Stream`] a
//! kind, one file each, says which toxic and looks at the link.
use super::links::Toxics;
use super::target::Link;
use super::{Fault, Proof, World, probe};
use crate::cluster::toxiproxy::ToxicKind;
use crate::plan::Direction;
use async_trait::async_trait;

/// One kind: its toxic, and what a probe shows.
#[async_trait(?Send)]
pub(super) trait Stream {
    /// The toxic.
    fn toxic(&self) -> ToxicKind;

    /// What a probe through the link shows: whether the toxic is felt, and in which words.
    async fn look(&self, world: &World, link: &Link) -> Result<(bool, String), String>;
}

pub(super) struct Pipe<S> {
    stream: S,
    toxics: Toxics,
    direction: Direction,
}

impl<S: Stream> Pipe<S> {
    pub(super) fn new(stream: S, links: Vec<Link>, direction: Direction) -> Self {
        Self {
            stream,
            toxics: Toxics::new(links),
            direction,
        }
    }
}

#[async_trait(?Send)]
impl<S: Stream> Fault for Pipe<S> {
    fn target(&self) -> String {
        self.toxics.names()
    }

    fn client(&self) -> Option<&str> {
        self.toxics.client()
    }

    async fn inject(&mut self, world: &World) -> Result<(), String> {
        let kind = self.stream.toxic();
        self.toxics.add(world, &kind, self.direction).await
    }

    async fn bit(&mut self, world: &World) -> Proof {
        let looks = self.toxics.links.iter().map(|l| self.stream.look(world, l));
        let looks = futures_util::future::join_all(looks).await;
        let mut proofs = Vec::new();
        for (link, look) in self.toxics.links.iter().zip(looks) {
            let name = probe::name(world, link);
            match look? {
                (true, words) => proofs.push(format!("{name}: {words}")),
                (false, words) => return Err(format!("{name}: {words}")),
            }
        }
        Ok(probe::summary(&proofs))
    }

    async fn heal(&mut self, world: &World) -> Result<(), String> {
        self.toxics.remove(world).await
    }

    async fn healed(&mut self, world: &World) -> Proof {
        let mut proofs = Vec::new();
        for link in &self.toxics.links {
            let name = probe::name(world, link);
            let words = probe::retry(|| async {
                match self.stream.look(world, link).await? {
                    (false, words) => Ok(words),
                    (true, words) => Err(format!("{name} still: {words}")),
                }
            })
            .await?;
            proofs.push(format!("{name}: {words}"));
        }
        Ok(probe::summary(&proofs))
    }
}
