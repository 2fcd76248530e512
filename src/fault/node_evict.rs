//! `node-evict`: a cache on the same server pushes lock keys out, under maxmemory and allkeys-lru.
//!
//! Proof: INFO counts more evicted keys than before; then no limit and no policy that evicts.
use super::{Fault, Proof, World, ask, node_full, probe};
use crate::resp::Resp;
use async_trait::async_trait;
use std::time::Duration;

/// Room for the cache, so that evictions choose among few keys.
const ROOM: u64 = 2 << 20;
/// Size of a value of the cache.
const VALUE: usize = 64 << 10;
/// Keys that must have been evicted: with about thirty keys on the server, each lock key among them.
const EVICTED: i64 = 400;
/// Writes of the cache at most.
const WRITES: usize = 2_000;
/// Where the cache's keys begin.
const CACHE: &str = "fencepost:cache:";

pub(super) struct NodeEvict {
    nodes: Vec<usize>,
    before: Vec<i64>,
}

impl NodeEvict {
    pub(super) fn new(nodes: Vec<usize>) -> Self {
        Self {
            nodes,
            before: Vec::new(),
        }
    }
}

async fn evicted(world: &World, node: usize) -> Result<i64, String> {
    ask::number(world, node, "stats", "evicted_keys").await
}

/// Writes until enough was evicted; the proof asks again by itself.
async fn fill(world: &World, node: usize, before: i64) -> Result<(), String> {
    let connection = Resp::new(world.cluster.direct(node), Duration::from_secs(1));
    let value = "x".repeat(VALUE);
    for n in 0..WRITES {
        let key = format!("{CACHE}{n}");
        ask::on(&connection, &["SET", &key, &value]).await?;
        if n % 50 == 49 && evicted(world, node).await? - before >= EVICTED {
            break;
        }
    }
    Ok(())
}

/// The names of cache keys that are still there.
async fn cached(world: &World, node: usize) -> Result<Vec<String>, String> {
    let keys = ask::node(world, node, &["KEYS", &format!("{CACHE}*")]).await?;
    match keys {
        redis::Value::Array(keys) => Ok(keys.iter().map(ask::text).collect()),
        other => Err(format!("KEYS answers {}", ask::text(&other))),
    }
}

#[async_trait(?Send)]
impl Fault for NodeEvict {
    fn target(&self) -> String {
        super::target::node_names(&self.nodes)
    }

    async fn prepare(&mut self, world: &World) -> Result<(), String> {
        for node in &self.nodes {
            self.before.push(evicted(world, *node).await?);
        }
        Ok(())
    }

    async fn inject(&mut self, world: &World) -> Result<(), String> {
        for (node, before) in self.nodes.iter().zip(&self.before) {
            let used = ask::number(world, *node, "memory", "used_memory").await?;
            let bytes = u64::try_from(used).unwrap_or_default() + ROOM;
            node_full::limit(world, *node, bytes, "allkeys-lru").await?;
            fill(world, *node, *before).await?;
        }
        Ok(())
    }

    async fn bit(&mut self, world: &World) -> Proof {
        let mut proofs = Vec::new();
        for (node, before) in self.nodes.iter().zip(&self.before) {
            let name = world.cluster.node_name(*node);
            let more = evicted(world, *node).await? - before;
            if more < EVICTED {
                return Err(format!("{name} evicted {more} keys, not {EVICTED}"));
            }
            proofs.push(format!("{name} evicted {more} keys"));
        }
        Ok(probe::summary(&proofs))
    }

    async fn heal(&mut self, world: &World) -> Result<(), String> {
        for node in &self.nodes {
            node_full::limit(world, *node, 0, "noeviction").await?;
            let keys = cached(world, *node).await?;
            if !keys.is_empty() {
                let mut words = vec!["UNLINK"];
                words.extend(keys.iter().map(String::as_str));
                ask::node(world, *node, &words).await?;
            }
        }
        Ok(())
    }

    async fn healed(&mut self, world: &World) -> Proof {
        let mut proofs = Vec::new();
        for node in &self.nodes {
            let name = world.cluster.node_name(*node);
            let limit = ask::number(world, *node, "memory", "maxmemory").await?;
            let policy = ask::info(world, *node, "memory", "maxmemory_policy").await?;
            let left = cached(world, *node).await?.len();
            if limit != 0 || policy != "noeviction" || left > 0 {
                return Err(format!(
                    "{name}: maxmemory {limit}, {policy}, {left} cache keys"
                ));
            }
            proofs.push(format!("{name} has no limit and no cache"));
        }
        Ok(probe::summary(&proofs))
    }
}
