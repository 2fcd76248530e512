//! One `[[fault]]` of a workload file: a flat table, read by the row of its kind.
//!
//! Owns kinds, their keys and targets, and that each names something that is there; times and triggers are in
//! `moment`. Must not know how a fault is injected. Gives [`FaultPlan`]s to `file`.
use super::each;
use super::kinds::{COMMON_KEYS, KindInfo, form, kinds};
use super::measures;
use super::names::nearest;
use super::read::{Names, Section, unknown_keys, unknown_name, wrong_type};
use super::replicated;
use super::tree::{At, Entry, Node, Table, Texts, Value};
use super::{
    ClusterPlan, Direction, FaultKind, FaultPlan, PartitionMode, Persistence, RestartData, Target,
    Topology,
};
use std::time::Duration;

const NANO: Duration = Duration::from_nanos(1);

/// What a fault may refer to.
pub struct World<'a> {
    /// The servers.
    pub cluster: &'a ClusterPlan,
    /// Number of client processes.
    pub clients: u32,
    /// Length of the load phase.
    pub load: Duration,
}

/// Read all faults; what is wrong with one does not stop the next.
pub fn read(texts: &mut Texts, entry: Option<&Entry>, world: &World<'_>) -> Vec<FaultPlan> {
    let Some(entry) = entry else {
        return Vec::new();
    };
    let Value::Array(items) = &entry.node.value else {
        let hint = Some("each fault begins with a line [[fault]]".to_owned());
        wrong_type(texts, "fault", &entry.node, "an array of tables", hint);
        return Vec::new();
    };
    let items = each::expand(items, world.cluster.nodes, world.clients, id_of);
    let ids = items
        .iter()
        .enumerate()
        .map(|(i, item)| id_of(i, &item.node));
    let ids: Vec<String> = ids.collect();
    let mut plans = Vec::new();
    for (index, each::Item { node, copy }) in items.iter().enumerate() {
        if *copy && texts.any_problem() {
            continue;
        }
        let Value::Table(table) = &node.value else {
            wrong_type(texts, "fault", node, "a table", None);
            continue;
        };
        let one = One {
            section: Section::of(&ids[index], table, node.at.clone()),
            table,
            world,
            ids: &ids,
            index,
        };
        one.check_id(texts);
        plans.extend(one.read(texts));
    }
    plans
}

/// The ids of all faults of the file.
pub fn ids(entry: Option<&Entry>) -> Vec<String> {
    match entry.map(|e| &e.node.value) {
        Some(Value::Array(items)) => items.iter().enumerate().map(|(i, n)| id_of(i, n)).collect(),
        _ => Vec::new(),
    }
}

/// The id that a fault has or is given.
pub fn id_of(index: usize, node: &Node) -> String {
    let own = match &node.value {
        Value::Table(table) => match table.get("id").map(|e| &e.node.value) {
            Some(Value::Text(id)) => Some(id.clone()),
            _ => None,
        },
        _ => None,
    };
    own.unwrap_or_else(|| format!("f{}", index + 1))
}

/// One fault under reading.
pub struct One<'a> {
    /// Its table.
    pub section: Section<'a>,
    table: &'a Table,
    /// What it may refer to.
    pub world: &'a World<'a>,
    /// The ids of all faults of the file.
    pub ids: &'a [String],
    /// Its own place among them.
    pub index: usize,
}

impl<'a> One<'a> {
    /// A step under reading: it may refer to any fault, wherever it stands.
    pub fn for_step(
        section: Section<'a>,
        table: &'a Table,
        world: &'a World<'a>,
        ids: &'a [String],
    ) -> Self {
        Self {
            section,
            table,
            world,
            ids,
            index: ids.len(),
        }
    }
}

impl One<'_> {
    fn check_id(&self, texts: &mut Texts) {
        let id = &self.ids[self.index];
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        self.section.text(texts, "id");
        if id.is_empty() || id.len() > 40 || !id.chars().all(plain) {
            let label = "expected letters, digits, - and _, at most 40";
            texts.problem(
                &self.section.at("id"),
                format!("`{id}` is no id"),
                label,
                None,
            );
        }
        if self.ids[..self.index].contains(id) {
            let at = self.section.at("id");
            texts.problem(
                &at,
                format!("two faults with the id `{id}`"),
                "the second one",
                None,
            );
        }
    }

    fn read(&self, texts: &mut Texts) -> Option<FaultPlan> {
        let s = &self.section;
        let row = self.kind(texts)?;
        self.check_keys(texts, row);
        let target = self.target(texts, row);
        let when = self.when(texts);
        let length = s.duration(texts, "for", NANO);
        let until = s
            .entry("until")
            .and_then(|e| self.trigger(texts, "until", &e.node, true));
        let direction = [Direction::Both, Direction::Requests, Direction::Replies];
        let directions = ["both", "requests", "replies"];
        let mode = [
            PartitionMode::BlackHole,
            PartitionMode::Reset,
            PartitionMode::Stall,
        ];
        let data = [RestartData::Keep, RestartData::Drop];
        let plan = FaultPlan {
            id: self.ids[self.index].clone(),
            kind: row.kind,
            length,
            until,
            direction: pick(s, texts, "direction", &directions, &direction),
            mode: pick(s, texts, "mode", &["black-hole", "reset", "stall"], &mode),
            latency: s.duration(texts, "latency", NANO),
            jitter: s.duration(texts, "jitter", Duration::ZERO),
            work: s.duration(texts, "work", NANO),
            data: pick(s, texts, "data", &["keep", "drop"], &data),
            down: s.duration(texts, "down", Duration::ZERO),
            measures: measures::read(texts, s),
            demote_after: s.duration(texts, "demote_after", Duration::ZERO),
            message: self.message(texts, row.kind),
            target: target?,
            when: when?,
        };
        self.check_together(texts, &plan);
        self.check_message(texts, &plan);
        Some(plan)
    }

    fn kind(&self, texts: &mut Texts) -> Option<&'static KindInfo> {
        let names: Vec<&str> = kinds().iter().map(|k| k.name).collect();
        if self.section.entry("kind").is_none() {
            let help = format!("kinds: {}", names.join(", "));
            let label = "this fault needs `kind`";
            texts.problem(&self.section.at, "a fault without a kind", label, help);
            return None;
        }
        let names = Names {
            what: "kind of fault",
            known: &names,
            hint: "`fencepost list faults` explains each",
        };
        let index = self.section.one_of(texts, "kind", &names)?;
        kinds().get(index)
    }

    /// Keys that this kind does not take, and those that it needs.
    fn check_keys(&self, texts: &mut Texts, row: &KindInfo) {
        let takes: Vec<&str> = COMMON_KEYS.iter().chain(row.allowed).copied().collect();
        let list = takes.join(", ");
        let mut known = takes.clone();
        for entry in &self.table.0 {
            let key = entry.key.as_str();
            let who = kinds().iter().filter(|k| k.allowed.contains(&key));
            let who: Vec<&str> = who.map(|k| k.name).collect();
            if !takes.contains(&key) && !who.is_empty() {
                let message = format!("`{}` takes no `{key}`", row.name);
                let who = who.join(", ");
                let help = format!("`{key}` is for {who}; {} takes: {list}", row.name);
                texts.problem(&entry.at, message, "not a key of this kind of fault", help);
                known.push(key);
            }
        }
        unknown_keys(texts, &format!("`{}`", row.name), self.table, &known);
        for key in row.required {
            // A slip that was already told is not told again as a lack.
            let slip = |e: &Entry| {
                let key_of = || nearest(&e.key, known.iter().copied());
                !known.contains(&e.key.as_str()) && key_of() == Some(key)
            };
            let given = self.table.get(key).is_some()
                || self.table.0.iter().any(slip)
                || (*key == "for" && self.table.get("until").is_some());
            if !given {
                let message = format!("`{}` needs `{key}`", row.name);
                let help = match *key {
                    "for" => {
                        "how long it lasts: for = \"2s\", or until = { op = \"…\", result = \"…\" }"
                    }
                    "action" => "what is done to the message: action = \"drop\"",
                    "work" => "how long the critical section takes: work = \"2500ms\"",
                    key => {
                        measures::example(key).unwrap_or("how much is added: latency = \"200ms\"")
                    }
                };
                let label = format!("add `{key}`");
                texts.problem(&self.kind_at(), message, label, help.to_owned());
            }
        }
    }

    /// Where something missing is shown.
    pub fn kind_at(&self) -> At {
        self.section.at("kind")
    }

    fn target(&self, texts: &mut Texts, row: &KindInfo) -> Option<Target> {
        let forms = format!("{} can hit: {}", row.name, row.targets.join(", "));
        let Some(text) = self.section.text(texts, "target") else {
            if self.section.entry("target").is_none() {
                let message = format!("`{}` without a target", row.name);
                texts.problem(&self.kind_at(), message, "add `target`", forms);
            }
            return None;
        };
        let at = self.section.at("target");
        let target = self.parse_target(texts, text, &at, &forms)?;
        if !row.targets.contains(&form(&target)) {
            let message = format!("`{}` cannot hit `{text}`", row.name);
            texts.problem(&at, message, "not a target of this kind of fault", forms);
            return None;
        }
        let topology = self.world.cluster.topology;
        let home = match row.kind {
            FaultKind::LeaderChange => Some(("a leader", Topology::Etcd)),
            FaultKind::SessionExpiry => Some(("a session", Topology::ZooKeeper)),
            _ => None,
        };
        if topology.is_replicated() {
            let at = (&self.kind_at(), &at);
            if !replicated::fault(texts, at, row, &target, topology) {
                return None;
            }
        } else if let Some((what, home)) = home {
            let home = home.name();
            let message = format!("`{}` without {what}", row.name);
            let help = format!("{what} needs cluster = {{ topology = \"{home}\" }}");
            let label = format!("for topology `{home}` only");
            texts.problem(&self.kind_at(), message, label, help);
            return None;
        } else if sentinel_only(row, &target) && topology != Topology::Sentinel {
            let message = format!("`{text}` for `{}` without replicas", row.name);
            let help = "a primary needs cluster = { topology = \"sentinel\" }".to_owned();
            texts.problem(&at, message, "for topology `sentinel` only", help);
            return None;
        }
        let single = topology != Topology::Independent;
        let edge = target == Target::QuorumEdge
            || matches!(&target, Target::Link(_, node) if node == "quorum-edge");
        if single && (row.quorum_only || edge) {
            let message = format!(
                "`{text}` for `{}` on topology `{}`",
                row.name,
                topology.name()
            );
            let help = "a quorum of clients' votes needs cluster = { topology = \"independent\", nodes = 5 }";
            texts.problem(
                &at,
                message,
                "clients count no votes there",
                help.to_owned(),
            );
            return None;
        }
        Some(target)
    }

    fn parse_target(&self, texts: &mut Texts, text: &str, at: &At, forms: &str) -> Option<Target> {
        let plain = match text {
            "holder" => Some(Target::Holder),
            "waiter" => Some(Target::Waiter),
            "quorum-edge" => Some(Target::QuorumEdge),
            "clients" => Some(Target::Clients),
            "nodes" => Some(Target::Nodes),
            "primary" | "leader" => Some(Target::Primary),
            "sentinels" => Some(Target::Sentinels),
            _ => None,
        };
        if plain.is_some() {
            return plain;
        }
        if let Some(client) = text.strip_prefix("client:") {
            self.client(texts, client, at)?;
            return Some(Target::Client(client.to_owned()));
        }
        if let Some(node) = text.strip_prefix("node:") {
            return Some(Target::Node(self.node(texts, node, at)?));
        }
        if let Some(number) = text.strip_prefix("replica:") {
            let replicas = self.world.cluster.nodes.saturating_sub(1);
            return Some(Target::Replica(numbered(
                texts, number, replicas, "replica", at,
            )?));
        }
        if let Some(number) = text.strip_prefix("sentinel:") {
            return Some(Target::Sentinel(numbered(
                texts, number, SENTINELS, "sentinel", at,
            )?));
        }
        if let Some((client, node)) = text.strip_prefix("link:").and_then(|l| l.split_once('>')) {
            if is_server(client) || is_server(node) {
                for end in [client, node] {
                    self.server(texts, end, at)?;
                }
                return Some(Target::Link(client.to_owned(), node.to_owned()));
            }
            if !matches!(client, "holder" | "waiter" | "*") {
                self.client(texts, client, at)?;
            }
            if !matches!(node, "quorum-edge" | "*") {
                let Some(number) = node.strip_prefix('n') else {
                    let label = format!("expected a node such as n1, or *, not `{node}`");
                    texts.problem(at, "a link to no node", label, forms.to_owned());
                    return None;
                };
                self.node(texts, number, at)?;
            }
            return Some(Target::Link(client.to_owned(), node.to_owned()));
        }
        let names = Names {
            what: "target",
            known: &[
                "holder",
                "waiter",
                "client:c1",
                "clients",
                "each-client",
                "node:1",
                "nodes",
                "each-node",
                "quorum-edge",
                "primary",
                "replica:1",
                "sentinel:1",
                "sentinels",
                "link:c1>n2",
                "link:primary>replicas",
            ],
            hint: "a link is link:<client>><node>, with `holder`, `waiter` or * for the client and * for the node",
        };
        unknown_name(texts, at, text, &names);
        None
    }

    /// The number of a client that is there.
    pub fn client(&self, texts: &mut Texts, name: &str, at: &At) -> Option<u32> {
        let number = name.strip_prefix('c').and_then(|n| n.parse::<u32>().ok());
        let there = self.world.clients;
        if let Some(n) = number.filter(|n| (1..=there).contains(n) && name == format!("c{n}")) {
            return Some(n);
        }
        let message = format!("no client `{name}`");
        let help = format!(
            "load.clients = {there}: the clients are {}",
            range("c", there)
        );
        texts.problem(at, message, "no such client in this workload", help);
        None
    }

    /// The number of a node that is there.
    pub fn node(&self, texts: &mut Texts, number: &str, at: &At) -> Option<u32> {
        let there = self.world.cluster.nodes;
        if let Some(n) = number
            .parse::<u32>()
            .ok()
            .filter(|n| (1..=there).contains(n))
        {
            return Some(n);
        }
        let message = format!("no node `{number}`");
        let help = format!(
            "this cluster has {}, written as {}",
            count(there, "node"),
            range("node:", there)
        );
        texts.problem(at, message, "no such node in this cluster", help);
        None
    }

    /// One end of a link between servers, or a client's end of a link to one.
    fn server(&self, texts: &mut Texts, end: &str, at: &At) -> Option<()> {
        if let Some(number) = end.strip_prefix("replica:") {
            let replicas = self.world.cluster.nodes.saturating_sub(1);
            return numbered(texts, number, replicas, "replica", at).map(drop);
        }
        if let Some(number) = end.strip_prefix("sentinel:") {
            return numbered(texts, number, SENTINELS, "sentinel", at).map(drop);
        }
        if is_server(end) || matches!(end, "holder" | "waiter" | "*") {
            return Some(());
        }
        if let Some(number) = end.strip_prefix('n') {
            return self.node(texts, number, at).map(drop);
        }
        self.client(texts, end, at).map(drop)
    }

    /// What only several keys together can have wrong.
    fn check_together(&self, texts: &mut Texts, plan: &FaultPlan) {
        let s = &self.section;
        if let (Some(_), Some(until)) = (plan.length, s.entry("until")) {
            texts.problem(
                &until.at,
                "`for` and `until` together",
                "one of the two",
                None,
            );
        }
        if plan.mode == PartitionMode::Reset && plan.direction != Direction::Both {
            let help =
                "a reset ends the connection, and so both directions; take mode = \"black-hole\"";
            let label = "one direction cannot be reset";
            texts.problem(
                &s.at("direction"),
                "a reset in one direction",
                label,
                help.to_owned(),
            );
        }
        if let (Some(latency), Some(jitter)) = (plan.latency, plan.jitter)
            && jitter > latency
        {
            let label = "more than the latency itself";
            texts.problem(&s.at("jitter"), "`jitter` too large", label, None);
        }
        if plan.kind == FaultKind::NodeSlow
            && plan.length.is_some_and(|l| l > Duration::from_secs(4))
        {
            let label = "expected at most 4s: from 5s on a server answers BUSY by itself";
            texts.problem(&s.at("for"), "`for` is too long", label, None);
        }
        self.check_shim(texts, plan);
        replicated::members(texts, s, plan, self.world.cluster.topology);
        if plan.demote_after.is_some() && self.world.cluster.topology != Topology::Sentinel {
            let label = "for topology `sentinel` only";
            let message = "`demote_after` without replicas";
            texts.problem(&s.at("demote_after"), message, label, None);
        }
        let thin = plan.kind == FaultKind::QuorumThin;
        let nodes = self.world.cluster.nodes;
        if thin && nodes < 3 && self.world.cluster.topology == Topology::Independent {
            let label = format!("with {} nobody is left to cut off", count(nodes, "node"));
            texts.problem(
                &self.kind_at(),
                "`quorum-thin` needs three nodes",
                label,
                None,
            );
        }
    }
}

impl One<'_> {
    /// A clock must go wrong somehow, and power takes only what was written.
    fn check_shim(&self, texts: &mut Texts, plan: &FaultPlan) {
        let clock = matches!(plan.kind, FaultKind::NodeClock | FaultKind::ClientClock);
        if clock && plan.measures.step_ns.is_none() && plan.measures.drift.is_none() {
            let message = format!("`{}` needs `step` or `drift`", plan.kind);
            let help = "step = \"+60s\" or \"-60s\" at once; drift = 0.05 is 5 % fast from then on";
            texts.problem(&self.kind_at(), message, "how wrong?", help.to_owned());
        }
        let nothing = self.world.cluster.persistence == Persistence::None;
        if plan.kind == FaultKind::NodePowerLoss && nothing {
            let help = "cluster.persistence = \"aof-everysec\" or \"aof-always\"; without any, node-restart does the same";
            let label = "nothing is written that could be lost";
            let message = "`node-power-loss` without persistence";
            texts.problem(&self.kind_at(), message, label, help.to_owned());
        }
    }
}

/// How many Sentinels there are.
pub const SENTINELS: u32 = 3;

/// Whether a link's end names servers by their role.
pub fn is_server(end: &str) -> bool {
    matches!(end, "primary" | "replicas" | "sentinels" | "servers")
        || end.starts_with("replica:")
        || end.starts_with("sentinel:")
}

fn sentinel_only(row: &KindInfo, target: &Target) -> bool {
    let link = matches!(target, Target::Link(a, b) if is_server(a) || is_server(b));
    let role = matches!(
        target,
        Target::Primary | Target::Replica(_) | Target::Sentinel(_) | Target::Sentinels
    );
    row.kind == FaultKind::Failover || link || role
}

fn numbered(texts: &mut Texts, number: &str, there: u32, what: &str, at: &At) -> Option<u32> {
    let found = number.parse().ok().filter(|n| (1..=there).contains(n));
    if found.is_none() {
        let names = range(&format!("{what}:"), there);
        let help = format!("there are {}, written as {names}", count(there, what));
        texts.problem(
            at,
            format!("no {what} `{number}`"),
            "no such server here",
            help,
        );
    }
    found
}

fn pick<T: Copy + Default>(
    s: &Section<'_>,
    texts: &mut Texts,
    key: &str,
    known: &[&str],
    all: &[T],
) -> T {
    let names = Names::of(key, known);
    let index = s.one_of(texts, key, &names);
    index.and_then(|i| all.get(i)).copied().unwrap_or_default()
}

fn range(prefix: &str, n: u32) -> String {
    match n {
        0 | 1 => format!("{prefix}1"),
        n => format!("{prefix}1 to {prefix}{n}"),
    }
}

fn count(n: u32, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}
