//! From the words of a plan (`holder`, `quorum-edge`, `link:c1>*`) to clients, nodes and links.
//!
//! Owns the resolving of roles at the moment of injection. Must not know what is done to them.
use super::{World, members, replication};
use crate::cluster::Speaks;
use crate::plan::{Direction, FaultPlan, Target, is_server};
use crate::run::board::Hold;
use rand::seq::SliceRandom;
use std::time::Duration;

const PROBE: Duration = Duration::from_millis(250);

/// A path of one client, or of one server, to one node (nodes count from 0, Sentinels behind them).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Link {
    pub client: String,
    pub node: usize,
    /// `c1>n2`.
    pub name: String,
}

impl Link {
    fn new(world: &World, client: &str, node: usize) -> Self {
        Self {
            client: client.to_owned(),
            node,
            name: world.cluster.proxy_name(client, node),
        }
    }

    /// It is a client's, not a server's.
    pub(super) fn of_client(&self) -> bool {
        self.client.starts_with('c')
    }
}

/// The one client that a plan's target names.
pub(super) fn client(
    plan: &FaultPlan,
    hold: Option<&Hold>,
    world: &World,
) -> Result<String, String> {
    match &plan.target {
        Target::Client(name) => Ok(name.clone()),
        Target::Holder => role("holder", hold, world),
        Target::Waiter => role("waiter", hold, world),
        other => Err(format!("{other:?} is not one client")),
    }
}

fn role(word: &str, hold: Option<&Hold>, world: &World) -> Result<String, String> {
    match word {
        "holder" => hold
            .map(|h| h.client.clone())
            .or_else(|| world.board.holder().map(|h| h.client))
            .ok_or_else(|| "nobody holds the lock".to_owned()),
        "waiter" => world
            .board
            .waiter()
            .ok_or_else(|| "nobody waits for the lock".to_owned()),
        name => Ok(name.to_owned()),
    }
}

/// The clients that a word names: a role, a name, or `*`.
fn clients(word: &str, hold: Option<&Hold>, world: &World) -> Result<Vec<String>, String> {
    match word {
        "*" => Ok(world
            .clients
            .slots()
            .iter()
            .map(|slot| slot.name.clone())
            .filter(|name| !world.plan.load.clean.contains(name))
            .collect()),
        word => role(word, hold, world).map(|name| vec![name]),
    }
}

/// The nodes that a plan's target names.
pub(super) async fn nodes(
    plan: &FaultPlan,
    hold: Option<&Hold>,
    world: &World,
) -> Result<Vec<usize>, String> {
    match &plan.target {
        Target::Node(number) => Ok(vec![*number as usize - 1]),
        Target::Nodes => Ok((0..world.cluster.node_count()).collect()),
        Target::QuorumEdge => quorum_edge(hold, world).await.map(|node| vec![node]),
        Target::Primary => servers("primary", world).await,
        Target::Replica(n) => servers(&format!("replica:{n}"), world).await,
        Target::Sentinel(n) => servers(&format!("sentinel:{n}"), world).await,
        Target::Sentinels => servers("sentinels", world).await,
        other => Err(format!("{other:?} names no node")),
    }
}

/// The servers that a word names now: by their role, or a node by its name.
async fn servers(word: &str, world: &World) -> Result<Vec<usize>, String> {
    let numbered = |all: Vec<usize>, number: &str| {
        let found = number
            .parse()
            .ok()
            .and_then(|n: usize| all.get(n.checked_sub(1)?).copied());
        found
            .map(|s| vec![s])
            .ok_or_else(|| format!("there is no {word}"))
    };
    match word.split_once(':') {
        Some(("replica", n)) => return numbered(replicas(world).await?, n),
        Some(("sentinel", n)) => return numbered(replication::sentinels(world).collect(), n),
        _ => {}
    }
    match word {
        "primary" => primary(world).await.map(|p| vec![p]),
        "replicas" => replicas(world).await,
        "sentinels" => Ok(replication::sentinels(world).collect()),
        "servers" => Ok((0..world.cluster.server_count()).collect()),
        name => (0..world.cluster.server_count())
            .find(|n| world.cluster.node_name(*n) == name)
            .map(|n| vec![n])
            .ok_or_else(|| format!("there is no server {name}")),
    }
}

/// The node whose word counts: the primary, or the leader.
async fn primary(world: &World) -> Result<usize, String> {
    match world.cluster.speaks() {
        Speaks::Resp => replication::primary(world).await,
        Speaks::Etcd | Speaks::ZooKeeper => members::leader(world).await,
    }
}

/// All other nodes.
async fn replicas(world: &World) -> Result<Vec<usize>, String> {
    match world.cluster.speaks() {
        Speaks::Resp => replication::replicas(world).await,
        Speaks::Etcd | Speaks::ZooKeeper => members::followers(world).await,
    }
}

/// Links to and between servers that are named by their role.
async fn server_links(
    (from, to): (&str, &str),
    direction: Direction,
    hold: Option<&Hold>,
    world: &World,
) -> Result<Vec<Link>, String> {
    let other = servers(to, world).await?;
    if !is_server(from) && !from.starts_with('n') {
        let clients = clients(from, hold, world)?;
        let each = clients
            .iter()
            .flat_map(|c| other.iter().map(move |n| (c, *n)));
        return Ok(each.map(|(c, n)| Link::new(world, c, n)).collect());
    }
    let one = servers(from, world).await?;
    let mut links = world.cluster.links_between(&one, &other)?;
    if direction != Direction::Both && from == "primary" {
        // Replicas and Sentinels call the primary; the other way nothing flows as long as it is one.
        links.retain(|(_, node)| one.contains(node));
    }
    Ok(links
        .into_iter()
        .map(|(source, node)| Link::new(world, &source, node))
        .collect())
}

/// As [`node_names`], for Sentinels too: `s1,s2`.
pub(super) fn server_names(world: &World, servers: &[usize]) -> String {
    let names: Vec<String> = servers
        .iter()
        .map(|s| world.cluster.node_name(*s))
        .collect();
    names.join(",")
}

/// `n1,n3`, as a node fault's target goes on record.
pub(super) fn node_names(nodes: &[usize]) -> String {
    let names: Vec<String> = nodes.iter().map(|n| format!("n{}", n + 1)).collect();
    names.join(",")
}

/// The links that a plan's target names.
pub(super) async fn links(
    plan: &FaultPlan,
    hold: Option<&Hold>,
    world: &World,
) -> Result<Vec<Link>, String> {
    let (from, to) = match &plan.target {
        Target::Link(from, to) if is_server(from) || is_server(to) => {
            return server_links((from, to), plan.direction, hold, world).await;
        }
        Target::Link(from, to) => (from.clone(), to.clone()),
        Target::Client(name) => (name.clone(), "*".to_owned()),
        Target::Holder => ("holder".to_owned(), "*".to_owned()),
        Target::Waiter => ("waiter".to_owned(), "*".to_owned()),
        Target::Clients | Target::Nodes => ("*".to_owned(), "*".to_owned()),
        Target::Node(number) => ("*".to_owned(), format!("n{number}")),
        Target::QuorumEdge => ("*".to_owned(), "quorum-edge".to_owned()),
        Target::Primary | Target::Replica(_) | Target::Sentinel(_) | Target::Sentinels => {
            return Err(format!("{} names no link", plan.target));
        }
    };
    let nodes = match to.as_str() {
        "*" => (0..world.cluster.node_count()).collect(),
        "quorum-edge" => vec![quorum_edge(hold, world).await?],
        name => match (0..world.cluster.node_count()).find(|n| world.cluster.node_name(*n) == name)
        {
            Some(node) => vec![node],
            None => return Err(format!("there is no node {name}")),
        },
    };
    let clients = clients(&from, hold, world)?;
    Ok(clients
        .iter()
        .flat_map(|c| nodes.iter().map(|n| Link::new(world, c, *n)))
        .collect())
}

/// The links to N−q nodes, drawn from the seed, of one client: what it then gets, it gets on exactly a quorum.
pub(super) fn thin(
    plan: &FaultPlan,
    hold: Option<&Hold>,
    world: &World,
) -> Result<Vec<Link>, String> {
    let client = client(plan, hold, world)?;
    let mut nodes: Vec<usize> = (0..world.cluster.node_count()).collect();
    nodes.shuffle(&mut *world.random.borrow_mut());
    nodes.truncate(world.cluster.node_count() - world.quorum());
    nodes.sort_unstable();
    Ok(nodes
        .into_iter()
        .map(|node| Link::new(world, &client, node))
        .collect())
}

/// A node without which the holder's value is below a quorum: asked of the nodes themselves.
async fn quorum_edge(hold: Option<&Hold>, world: &World) -> Result<usize, String> {
    let hold = hold
        .cloned()
        .or_else(|| world.board.holder())
        .ok_or("nobody holds the lock")?;
    let owner = hold
        .owner
        .ok_or("the library does not tell its owner value")?;
    let ask = |node| world.observer.get(node, &hold.key, PROBE);
    let values = futures_util::future::join_all((0..world.cluster.node_count()).map(ask)).await;
    let holds = |value: &Option<(Option<String>, i64)>| {
        value
            .as_ref()
            .is_some_and(|(value, _)| value.as_deref() == Some(owner.as_str()))
    };
    let having: Vec<usize> = values
        .iter()
        .enumerate()
        .filter(|(_, v)| holds(v))
        .map(|(node, _)| node)
        .collect();
    if having.len() != world.quorum() {
        return Err(format!(
            "{} of {} nodes hold {}'s value, a quorum is {}: no single node is the edge",
            having.len(),
            world.cluster.node_count(),
            hold.client,
            world.quorum()
        ));
    }
    // The first of them, so that two faults on the edge meet the same node.
    having
        .first()
        .copied()
        .ok_or_else(|| "no node holds the value".to_owned())
}
