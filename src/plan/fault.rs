//! One `[[fault]]` of a workload file: a flat table, read by the row of its kind.
//!
//! Owns targets, times and triggers, and that each names something that is there. Must not know how a fault is
//! injected. Gives [`FaultPlan`]s to `file`.
use super::kinds::{COMMON_KEYS, KindInfo, WHEN_KEYS, form, kinds};
use super::names::{OPERATIONS, RESULTS, nearest};
use super::read::{Names, Section, duration_at, unknown_keys, unknown_name, wrong_type};
use super::tree::{At, Entry, Node, Table, Texts, Value};
use super::{
    ClusterPlan, Direction, FaultKind, FaultPlan, PartitionMode, RestartData, Target, Topology,
    Trigger, When,
};
use std::time::Duration;

const NANO: Duration = Duration::from_nanos(1);
const TRIGGER_KEYS: &[&str] = &["op", "result", "client", "nth", "after"];

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
    let ids: Vec<String> = items.iter().enumerate().map(|(i, n)| id_of(i, n)).collect();
    let mut plans = Vec::new();
    for (index, node) in items.iter().enumerate() {
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

struct One<'a> {
    section: Section<'a>,
    table: &'a Table,
    world: &'a World<'a>,
    ids: &'a [String],
    index: usize,
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
            target: target?,
            when: when?,
        };
        self.check_together(texts, &plan);
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
        for entry in &self.table.0 {
            let key = entry.key.as_str();
            let who = kinds().iter().filter(|k| k.allowed.contains(&key));
            let who: Vec<&str> = who.map(|k| k.name).collect();
            if !takes.contains(&key) && !who.is_empty() {
                let message = format!("`{}` takes no `{key}`", row.name);
                let list = takes.join(", ");
                let help = format!(
                    "`{key}` is for {}; {} takes: {list}",
                    who.join(", "),
                    row.name
                );
                texts.problem(&entry.at, message, "not a key of this kind of fault", help);
            }
        }
        let known: Vec<&str> = kinds()
            .iter()
            .flat_map(|k| k.allowed)
            .chain(COMMON_KEYS)
            .filter(|k| takes.contains(k) || self.table.get(k).is_some())
            .copied()
            .collect();
        let mut shown = takes.clone();
        shown.extend(known.iter().filter(|k| !takes.contains(k)));
        unknown_keys(texts, &format!("`{}`", row.name), self.table, &shown);
        for key in row.required {
            // A slip that was already told is not told again as a lack.
            let slip = |e: &Entry| {
                !shown.contains(&e.key.as_str())
                    && nearest(&e.key, shown.iter().copied()) == Some(key)
            };
            let given = self.table.get(key).is_some()
                || self.table.0.iter().any(slip)
                || (*key == "for" && self.table.get("until").is_some());
            if !given {
                let message = format!("`{}` needs `{key}`", row.name);
                let label = format!("add `{key}`");
                let help = match *key {
                    "for" => {
                        "how long it lasts: for = \"2s\", or until = { op = \"…\", result = \"…\" }"
                    }
                    "work" => "how long the critical section takes: work = \"2500ms\"",
                    _ => "how much is added: latency = \"200ms\"",
                };
                texts.problem(&self.kind_at(), message, label, help.to_owned());
            }
        }
    }

    fn kind_at(&self) -> At {
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
        let single = self.world.cluster.topology == Topology::Single;
        let edge = target == Target::QuorumEdge
            || matches!(&target, Target::Link(_, node) if node == "quorum-edge");
        if single && (row.quorum_only || edge) {
            let message = format!("`{text}` for `{}` on one node", row.name);
            let help = "a quorum needs cluster = { topology = \"independent\", nodes = 5 }";
            texts.problem(&at, message, "there is no quorum here", help.to_owned());
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
        if let Some((client, node)) = text.strip_prefix("link:").and_then(|l| l.split_once('>')) {
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
                "node:1",
                "nodes",
                "quorum-edge",
                "link:c1>n2",
            ],
            hint: "a link is link:<client>><node>, with `holder`, `waiter` or * for the client and * for the node",
        };
        unknown_name(texts, at, text, &names);
        None
    }

    fn client(&self, texts: &mut Texts, name: &str, at: &At) -> Option<u32> {
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

    fn node(&self, texts: &mut Texts, number: &str, at: &At) -> Option<u32> {
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

    fn when(&self, texts: &mut Texts) -> Option<When> {
        let s = &self.section;
        let given: Vec<&Entry> = WHEN_KEYS.iter().filter_map(|k| s.entry(k)).collect();
        let how = "exactly one of: at = \"2s\", every = \"5s\", on = { op = \"acquire\", result = \"ok\" }, \
                   after = \"<id>\"";
        let [entry] = given.as_slice() else {
            match given.last() {
                None => {
                    let label = "when is it injected?";
                    texts.problem(
                        &self.kind_at(),
                        "a fault without a time",
                        label,
                        how.to_owned(),
                    );
                }
                Some(last) => {
                    let all: Vec<String> = given.iter().map(|e| format!("`{}`", e.key)).collect();
                    let message = format!("{} together", all.join(" and "));
                    texts.problem(&last.at, message, "one too many", how.to_owned());
                }
            }
            return None;
        };
        if let Some(delay) = s.entry("delay").filter(|_| entry.key != "after") {
            let label = "`delay` goes with `after`";
            texts.problem(&delay.at, "a `delay` without `after`", label, None);
        }
        match entry.key.as_str() {
            "at" => {
                let at = s.duration(texts, "at", Duration::ZERO)?;
                if at >= self.world.load {
                    let load = super::duration::text(self.world.load);
                    let label = format!("the load lasts {load}");
                    let help = "raise load.for, or inject it earlier".to_owned();
                    texts.problem(&entry.node.at, "a fault after the load", label, help);
                }
                Some(When::At(at))
            }
            "every" => Some(When::Every(s.duration(
                texts,
                "every",
                Duration::from_millis(1),
            )?)),
            "on" => Some(When::On(self.trigger(texts, "on", &entry.node, false)?)),
            _ => {
                let id = s.text(texts, "after")?;
                self.follows(texts, id, &entry.node.at, false)?;
                let delay = s
                    .entry("delay")
                    .map(|e| duration_at(texts, "delay", &e.node, Duration::ZERO));
                Some(When::After(
                    id.to_owned(),
                    delay.unwrap_or(Some(Duration::ZERO))?,
                ))
            }
        }
    }

    /// A fault can follow only one that stands above it, so that there is no circle.
    fn follows(&self, texts: &mut Texts, id: &str, at: &At, itself: bool) -> Option<()> {
        let mut above = self.ids[..self.index].iter();
        if above.any(|i| i == id) || (itself && self.ids[self.index] == id) {
            return Some(());
        }
        let above: Vec<&str> = self.ids[..self.index].iter().map(String::as_str).collect();
        if self.ids[self.index] == id {
            let label = "it would wait for ever";
            texts.problem(at, format!("`{id}` after itself"), label, None);
        } else if self.ids.iter().any(|i| i == id) {
            let label = format!("`{id}` stands below");
            let help = "a fault can follow only one that stands above it: move it up".to_owned();
            texts.problem(at, format!("`{id}` comes later in the file"), label, help);
        } else {
            let names = Names {
                what: "fault",
                known: &above,
                hint: "give the other fault an `id`, above this one",
            };
            unknown_name(texts, at, id, &names);
        }
        None
    }

    fn trigger(&self, texts: &mut Texts, key: &str, node: &Node, itself: bool) -> Option<Trigger> {
        let Value::Table(table) = &node.value else {
            let hint = Some(format!(
                "{key} = {{ op = \"acquire\", result = \"ok\", nth = 2 }}"
            ));
            wrong_type(texts, key, node, "a table", hint);
            return None;
        };
        let s = Section::of(key, table, node.at.clone());
        unknown_keys(texts, &format!("`{key}`"), table, TRIGGER_KEYS);
        for need in ["op", "result"] {
            if s.entry(need).is_none() {
                let help = format!(
                    "op: {}; result: {}",
                    OPERATIONS.join(", "),
                    RESULTS.join(", ")
                );
                let message = format!("`{key}` without `{need}`");
                texts.problem(&node.at, message, format!("add `{need}`"), help);
            }
        }
        let op = s.one_of(
            texts,
            "op",
            &Names {
                what: "operation",
                known: OPERATIONS,
                hint: "",
            },
        );
        let result = s.one_of(
            texts,
            "result",
            &Names {
                what: "result",
                known: RESULTS,
                hint: "",
            },
        );
        let client = s.text(texts, "client").map(str::to_owned);
        if let Some(name) = client
            .as_deref()
            .filter(|c| !matches!(*c, "holder" | "other"))
        {
            self.client(texts, name, &s.at("client"))?;
        }
        let nth = s
            .integer(texts, "nth", 1, 1_000_000)
            .or(s.entry("nth").is_none().then_some(1));
        let after = s.text(texts, "after").map(str::to_owned);
        if let Some(id) = &after {
            self.follows(texts, id, &s.at("after"), itself)?;
        }
        Some(Trigger {
            op: (*OPERATIONS.get(op?)?).to_owned(),
            result: (*RESULTS.get(result?)?).to_owned(),
            client,
            nth: u32::try_from(nth?).ok()?,
            after,
        })
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

fn pick<T: Copy + Default>(
    s: &Section<'_>,
    texts: &mut Texts,
    key: &str,
    known: &[&str],
    all: &[T],
) -> T {
    let names = Names {
        what: key,
        known,
        hint: "",
    };
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
