//! The sections of a workload file but for its faults: servers, lock, load, resource, expectations.
//!
//! Owns their defaults and the rules between them. Must not know how anything is run. `file` puts them together.
use super::names::{LOCKS, Place, expectable, lock_rules};
use super::read::{Names, Section, duration_at, unknown_keys, wrong_type};
use super::replicated;
use super::tree::{At, Entry, Node, Texts, Value};
use super::{
    ClusterPlan, Connection, LoadPlan, LockPlan, Persistence, Reach, ResourcePlan, Topology, Work,
};
use fencepost_checker::{Expect, Fence};
use std::collections::BTreeMap;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

fn pick<T: Copy>(
    s: &Section<'_>,
    texts: &mut Texts,
    key: &str,
    what: &str,
    all: &[(&str, T)],
) -> Option<T> {
    let known: Vec<&str> = all.iter().map(|(n, _)| *n).collect();
    let names = Names::of(what, &known);
    let index = s.one_of(texts, key, &names)?;
    all.get(index).map(|(_, v)| *v)
}

/// `cluster`; none where the faults cannot be judged against it.
pub fn cluster(texts: &mut Texts, s: &Section<'_>) -> Option<ClusterPlan> {
    let topologies = [
        ("single", Topology::Single),
        ("independent", Topology::Independent),
        ("sentinel", Topology::Sentinel),
        ("etcd", Topology::Etcd),
        ("zookeeper", Topology::ZooKeeper),
    ];
    let given = s.entry("topology").is_some();
    let topology = pick(s, texts, "topology", "topology", &topologies);
    let persistences = [
        ("none", Persistence::None),
        ("aof", Persistence::Aof),
        ("aof-everysec", Persistence::Aof),
        ("aof-always", Persistence::AofAlways),
    ];
    let persistence = pick(s, texts, "persistence", "persistence", &persistences);
    let reaches = [
        ("auto", Reach::Auto),
        ("container", Reach::Container),
        ("published", Reach::Published),
    ];
    let reach = pick(s, texts, "reach", "way to reach Toxiproxy", &reaches);
    let nodes = s.integer(texts, "nodes", 1, 15);
    let default_image = replicated::image(topology);
    let image = s.text(texts, "image").unwrap_or(default_image).to_owned();
    let toxiproxy_image = s
        .text(texts, "toxiproxy_image")
        .unwrap_or("fencepost/toxiproxy:2.12")
        .to_owned();
    for (key, image) in [("image", &image), ("toxiproxy_image", &toxiproxy_image)] {
        let odd = |c: char| c.is_whitespace() || c.is_control();
        if image.is_empty() || image.starts_with('-') || image.contains(odd) {
            let label = "expected a name such as redis:7.4";
            texts.problem(&s.at(key), format!("`{key}` names no image"), label, None);
        }
    }
    let topology = topology.or((!given).then_some(Topology::Single))?;
    if topology == Topology::Single && nodes.is_some_and(|n| n != 1) {
        let help = "several servers that know nothing of each other: topology = \"independent\"";
        texts.problem(
            &s.at("nodes"),
            "`single` is one node",
            "expected 1",
            help.to_owned(),
        );
    }
    if topology == Topology::Single && s.entry("nodes").is_some() && nodes.is_none() {
        return None;
    }
    let default_nodes = match topology {
        Topology::Single => 1,
        Topology::Sentinel | Topology::Etcd | Topology::ZooKeeper => 3,
        Topology::Independent => 5,
    };
    let persistence = replicated::persistence(texts, s, topology, persistence);
    let nodes = nodes
        .and_then(|n| u32::try_from(n).ok())
        .unwrap_or(default_nodes);
    let sentinel = sentinel(texts, s, topology, nodes);
    Some(ClusterPlan {
        topology,
        nodes,
        down_after: sentinel.map(|x| x.0),
        min_replicas: sentinel.map(|x| x.1),
        max_lag: sentinel.map(|x| x.2),
        persistence: persistence.unwrap_or(Persistence::None),
        image,
        toxiproxy_image,
        reach: reach.unwrap_or(Reach::Auto),
        shim: false,
    })
}

/// What only the topology `sentinel` takes: `down_after`, `min_replicas`, `max_lag`; none elsewhere.
fn sentinel(
    texts: &mut Texts,
    s: &Section<'_>,
    topology: Topology,
    nodes: u32,
) -> Option<(Duration, u32, Duration)> {
    const SECOND: Duration = Duration::from_secs(1);
    let down_after = s.duration(texts, "down_after", 100 * MS);
    let min_replicas = s.integer(texts, "min_replicas", 0, 14);
    let max_lag = s.duration(texts, "max_lag", SECOND);
    if topology != Topology::Sentinel {
        for key in ["down_after", "min_replicas", "max_lag"] {
            if s.entry(key).is_some() {
                let help = "take topology = \"sentinel\"".to_owned();
                let message = format!("`{key}` without replicas");
                texts.problem(&s.at(key), message, "for topology `sentinel` only", help);
            }
        }
        return None;
    }
    if nodes < 2 {
        let help = "a primary and a replica at least: nodes = 2".to_owned();
        let label = "nobody could be promoted";
        texts.problem(&s.at("nodes"), "`sentinel` on one node", label, help);
    }
    if min_replicas.is_some_and(|n| n >= u64::from(nodes)) {
        let label = format!("there are {} replicas", nodes.saturating_sub(1));
        let at = s.at("min_replicas");
        texts.problem(&at, "more replicas than there are", label, None);
    }
    if max_lag.is_some_and(|d| d.subsec_nanos() != 0) {
        let label = "the servers count in whole seconds";
        texts.problem(
            &s.at("max_lag"),
            "`max_lag` is no whole number of seconds",
            label,
            None,
        );
    }
    Some((
        down_after.unwrap_or(SECOND),
        min_replicas
            .and_then(|n| u32::try_from(n).ok())
            .unwrap_or(0),
        max_lag.unwrap_or(10 * SECOND),
    ))
}

/// `lock`, against the servers that it is to run on.
pub fn lock(
    texts: &mut Texts,
    s: &Section<'_>,
    cluster_s: &Section<'_>,
    cluster: Option<&ClusterPlan>,
) -> Option<LockPlan> {
    let names: Vec<&str> = LOCKS.iter().map(|l| l.name).collect();
    let hint = "`fencepost list locks` explains each; another library: command = [\"…\"]";
    let name = s.one_of(
        texts,
        "name",
        &Names {
            what: "lock",
            known: &names,
            hint,
        },
    );
    let name = name.and_then(|i| names.get(i)).map(|n| (*n).to_owned());
    let command = s.texts(texts, "command").unwrap_or_default();
    check_who(texts, s, &command);
    let topology = cluster.map_or(Topology::Single, |c| c.topology);
    let ttl = s
        .duration(texts, "ttl", Duration::from_millis(10))
        .unwrap_or(Duration::from_secs(2));
    let timeout = s
        .duration(texts, "timeout", MS)
        .unwrap_or(Duration::from_secs(5));
    let connections = [
        ("shared", Connection::Shared),
        ("worker", Connection::Worker),
    ];
    let plan = LockPlan {
        command,
        env: s.texts(texts, "env").unwrap_or_default(),
        ttl,
        retry: s.duration(texts, "retry", MS).unwrap_or(20 * MS),
        timeout,
        node_timeout: s
            .duration(texts, "node_timeout", MS)
            .unwrap_or_else(|| default_node_timeout(topology, ttl, timeout)),
        renew: s.bool(texts, "renew").unwrap_or(false),
        respect_validity: s.bool(texts, "respect_validity").unwrap_or(false),
        fencing: s.bool(texts, "fencing").unwrap_or(false),
        bypass: s.integer(texts, "bypass", 0, 1_000_000),
        wait: s
            .integer(texts, "wait", 0, 14)
            .and_then(|n| u32::try_from(n).ok())
            .unwrap_or(0),
        stick: s.texts(texts, "stick").unwrap_or_default(),
        connection: pick(s, texts, "connection", "way to connect", &connections)
            .unwrap_or(Connection::Shared),
        options: options(texts, s.entry("options")),
        name,
    };
    check_lock(texts, s, cluster_s, &plan, cluster);
    check_replicated(texts, s, &plan, cluster);
    (plan.name.is_some() || !plan.command.is_empty()).then_some(plan)
}

/// Among several servers one that hangs must cost little of the lease: Redlock's paper asks for "5 to 50 ms" where
/// the lease is 10 s; on this path (a proxy, shared cores) less than 50 ms would time out healthy servers. With one
/// server there is nobody else to ask, and an answer later than the lease is worth nothing. A member of a cluster asks the
/// others, and a disk, before it answers.
fn default_node_timeout(topology: Topology, ttl: Duration, timeout: Duration) -> Duration {
    match topology {
        Topology::Single => ttl,
        Topology::Independent | Topology::Sentinel => (ttl / 20).clamp(50 * MS, 200 * MS),
        Topology::Etcd | Topology::ZooKeeper => (ttl / 4).clamp(200 * MS, 500 * MS),
    }
    .min(timeout)
}

fn check_who(texts: &mut Texts, s: &Section<'_>, command: &[String]) {
    match (s.entry("name"), s.entry("command")) {
        (None, None) => {
            let names: Vec<&str> = LOCKS.iter().map(|l| l.name).collect();
            let help = format!(
                "lock = {{ name = \"…\" }}, one of {}; or command = [\"…\"]",
                names.join(", ")
            );
            texts.problem(
                &s.at,
                "no lock to test",
                "`lock` needs `name` or `command`",
                help,
            );
        }
        (Some(_), Some(command)) => {
            let label = "a built-in lock, or a command: not both";
            texts.problem(&command.at, "`name` and `command` together", label, None);
        }
        (None, Some(entry)) if command.is_empty() => {
            let help =
                "a program and its arguments: command = [\"python3\", \"my_lock.py\"]".to_owned();
            texts.problem(
                &entry.node.at,
                "an empty command",
                "expected a program",
                help,
            );
        }
        _ => {}
    }
}

/// What a built-in lock can and cannot do.
fn check_lock(
    texts: &mut Texts,
    s: &Section<'_>,
    cluster_s: &Section<'_>,
    plan: &LockPlan,
    cluster: Option<&ClusterPlan>,
) {
    let Some(rules) = plan.name.as_deref().and_then(lock_rules) else {
        return;
    };
    let name = rules.name;
    let topology = cluster.map(|c| c.topology);
    replicated::lock(texts, s, cluster_s, (rules, plan), cluster);
    if rules.place == Place::Quorum && topology == Some(Topology::Sentinel) {
        let message = format!("`{name}` on topology `sentinel`");
        let help = "take topology = \"independent\", or lock.name = \"set-nx-lua\"".to_owned();
        let label = "replicas are copies, no quorum";
        texts.problem(&s.at("name"), message, label, help);
    }
    if rules.place == Place::Quorum && topology == Some(Topology::Single) {
        let message = format!("`{name}` on topology `single`");
        let help =
            format!("{name} needs a quorum: cluster = {{ topology = \"independent\", nodes = 5 }}");
        texts.problem(&s.at("name"), message, "one node is no quorum", help);
    }
    if rules.place == Place::OneNode && topology == Some(Topology::Independent) {
        let message = format!("`{name}` on topology `independent`");
        let help = "take topology = \"single\", or lock.name = \"redlock\"".to_owned();
        let label = format!("{name} talks to one node");
        texts.problem(&cluster_s.at("topology"), message, label, help);
    }
    if plan.fencing && !rules.tokens {
        let why = match rules.place {
            Place::Quorum => {
                "independent nodes share no counter: two grants may get one number, or a later grant a smaller one; \
                 take a lock on a single node, or fence = \"none\""
            }
            _ => "it never asks a server, and so has no counter",
        };
        let message = format!("`{name}` gives out no fencing tokens");
        texts.problem(
            &s.at("fencing"),
            message,
            "cannot be had from this lock",
            why.to_owned(),
        );
    }
    if let Some(options) = s.entry("options") {
        let label = "options are for a `command`";
        texts.problem(&options.at, format!("`options` for `{name}`"), label, None);
    }
}

/// `wait` and `stick`: only where there are replicas, and only of built-in locks.
fn check_replicated(
    texts: &mut Texts,
    s: &Section<'_>,
    plan: &LockPlan,
    cluster: Option<&ClusterPlan>,
) {
    let Some(cluster) = cluster else {
        return;
    };
    let replicas = cluster.nodes.saturating_sub(1);
    for key in ["wait", "stick"] {
        if s.entry(key).is_none() {
            continue;
        }
        let label = if cluster.topology != Topology::Sentinel {
            "for topology `sentinel` only"
        } else if plan.name.is_none() {
            "for built-in locks; a `command` has `options`"
        } else {
            continue;
        };
        texts.problem(&s.at(key), format!("`{key}` here"), label, None);
    }
    if plan.wait > 0 && plan.name.as_deref().is_some_and(|n| n != "set-nx-lua") {
        let label = "`set-nx-lua` waits for replicas, the others do not";
        texts.problem(&s.at("wait"), "`wait` for this lock", label, None);
    }
    if cluster.topology == Topology::Sentinel && plan.wait > replicas {
        let label = format!("there are {replicas} replicas");
        let message = format!("`wait` for {} replicas", plan.wait);
        texts.problem(&s.at("wait"), message, label, None);
    }
}

fn options(texts: &mut Texts, entry: Option<&Entry>) -> BTreeMap<String, serde_json::Value> {
    match entry.map(|e| &e.node) {
        None => BTreeMap::new(),
        Some(Node {
            value: Value::Table(table),
            ..
        }) => table
            .0
            .iter()
            .map(|e| (e.key.clone(), json(&e.node.value)))
            .collect(),
        Some(node) => {
            wrong_type(texts, "lock.options", node, "a table", None);
            BTreeMap::new()
        }
    }
}

fn json(value: &Value) -> serde_json::Value {
    match value {
        Value::Text(t) | Value::Date(t) => t.clone().into(),
        Value::Integer(n) => i64::try_from(*n).map_or_else(|_| (*n as f64).into(), Into::into),
        Value::Float(f) => (*f).into(),
        Value::Bool(b) => (*b).into(),
        Value::Array(items) => items.iter().map(|n| json(&n.value)).collect(),
        Value::Table(t) => {
            t.0.iter()
                .map(|e| (e.key.clone(), json(&e.node.value)))
                .collect()
        }
    }
}

/// `load`; the tail's default depends on the lock.
pub fn load_plan(
    texts: &mut Texts,
    s: &Section<'_>,
    lock: Option<&LockPlan>,
    nodes: u32,
) -> Option<LoadPlan> {
    let before = |key| s.entry(key).is_some();
    let clients = s.integer(texts, "clients", 1, 64);
    let workers = s.integer(texts, "workers", 1, 256);
    let keys = s.integer(texts, "keys", 1, 10_000);
    let length = s.duration(texts, "for", 100 * MS);
    let small =
        |n: Option<u64>, default: u32| n.and_then(|n| u32::try_from(n).ok()).unwrap_or(default);
    let plan = LoadPlan {
        clients: small(clients, 3),
        workers: small(workers, 1),
        keys: small(keys, 1),
        work: work(texts, s).unwrap_or(Work::Fixed(100 * MS)),
        length: length.unwrap_or(Duration::from_secs(10)),
        think: s
            .duration(texts, "think", Duration::ZERO)
            .unwrap_or_default(),
        rate: s.number(texts, "rate"),
        clean: s.texts(texts, "clean").unwrap_or_default(),
        nodes: node_lists(texts, s, nodes),
        tail: s
            .duration(texts, "tail", Duration::ZERO)
            .unwrap_or_else(|| lock.map_or(Duration::ZERO, tail)),
    };
    for name in plan.clean.iter().chain(plan.nodes.keys()) {
        if !(1..=plan.clients).any(|n| *name == format!("c{n}")) {
            let key = if plan.clean.contains(name) {
                "clean"
            } else {
                "nodes"
            };
            let label = format!("the clients are c1 to c{}", plan.clients);
            texts.problem(&s.at(key), format!("no client `{name}`"), label, None);
        }
    }
    if plan.rate.is_some() && before("think") {
        let label = "the rate sets the starts";
        texts.problem(&s.at("think"), "`think` and `rate` together", label, None);
    }
    // Without them the faults would be judged against numbers that nobody wrote.
    let judged = (before("clients") && clients.is_none()) || (before("for") && length.is_none());
    (!judged).then_some(plan)
}

/// The default of `load.tail`.
fn tail(lock: &LockPlan) -> Duration {
    super::quiet(lock)
        .max(lock.ttl * 3)
        .min(Duration::from_secs(10))
}

/// `load.nodes`: the nodes that each client knows, such as `{ c1 = ["n1", "n2"] }`.
fn node_lists(texts: &mut Texts, s: &Section<'_>, there: u32) -> BTreeMap<String, Vec<u32>> {
    let Some(entry) = s.entry("nodes") else {
        return BTreeMap::new();
    };
    let hint = "nodes = { c1 = [\"n1\", \"n2\"] }";
    let Value::Table(table) = &entry.node.value else {
        wrong_type(
            texts,
            "load.nodes",
            &entry.node,
            "a table",
            Some(hint.to_owned()),
        );
        return BTreeMap::new();
    };
    let lists = Section::of("load.nodes", table, entry.node.at.clone());
    let mut all = BTreeMap::new();
    for entry in &table.0 {
        let names = lists.texts(texts, &entry.key).unwrap_or_default();
        let number = |name: &String| {
            let n = name.strip_prefix('n')?.parse::<u32>().ok()?;
            (1..=there).contains(&n).then_some(n)
        };
        let numbers: Option<Vec<u32>> = names.iter().map(number).collect();
        match numbers {
            Some(numbers) if !numbers.is_empty() => {
                all.insert(entry.key.clone(), numbers);
            }
            _ => {
                let label = format!("expected some of n1 to n{there}");
                texts.problem(&entry.node.at, "no list of nodes", label, hint.to_owned());
            }
        }
    }
    all
}

fn work(texts: &mut Texts, s: &Section<'_>) -> Option<Work> {
    let node = &s.entry("work")?.node;
    let forms = "work = { fixed = \"300ms\" }, { uniform = [\"50ms\", \"200ms\"] } or { exponential = \"100ms\" }";
    let Value::Table(table) = &node.value else {
        wrong_type(texts, "load.work", node, "a table", Some(forms.to_owned()));
        return None;
    };
    unknown_keys(
        texts,
        "load.work",
        table,
        &["fixed", "uniform", "exponential"],
    );
    let [entry] = table.0.as_slice() else {
        let label = "expected one distribution";
        texts.problem(
            &node.at,
            "`load.work` is not one distribution",
            label,
            forms.to_owned(),
        );
        return None;
    };
    let path = format!("load.work.{}", entry.key);
    match entry.key.as_str() {
        "fixed" => duration_at(texts, &path, &entry.node, Duration::ZERO).map(Work::Fixed),
        "exponential" => duration_at(texts, &path, &entry.node, MS).map(Work::Exponential),
        "uniform" => {
            let Value::Array(items) = &entry.node.value else {
                wrong_type(
                    texts,
                    &path,
                    &entry.node,
                    "two durations",
                    Some(forms.to_owned()),
                );
                return None;
            };
            let [least, most] = items.as_slice() else {
                texts.problem(
                    &entry.node.at,
                    format!("`{path}` is not a pair"),
                    "expected two durations",
                    None,
                );
                return None;
            };
            let least = duration_at(texts, &path, least, Duration::ZERO)?;
            let most = duration_at(texts, &path, most, Duration::ZERO)?;
            if most < least {
                let label = "expected the smaller one first";
                texts.problem(
                    &entry.node.at,
                    format!("`{path}` is upside down"),
                    label,
                    None,
                );
            }
            Some(Work::Uniform(least, most))
        }
        _ => None,
    }
}

/// `resource`; a fence needs a lock that gives out tokens.
pub fn resource(texts: &mut Texts, s: &Section<'_>, lock: Option<&LockPlan>) -> ResourcePlan {
    let fences = [
        ("none", Fence::None),
        ("write", Fence::Write),
        ("first-access", Fence::FirstAccess),
    ];
    let fence = pick(s, texts, "fence", "fence", &fences).unwrap_or(Fence::None);
    if let Some(lock) = lock
        && fence != Fence::None
        && !lock.fencing
    {
        let tokens = lock
            .name
            .as_deref()
            .and_then(lock_rules)
            .is_none_or(|r| r.tokens);
        let help = if tokens {
            "let the lock give out tokens: lock.fencing = true"
        } else {
            "this lock gives out none: fence = \"none\""
        };
        texts.problem(
            &s.at("fence"),
            "a fence without tokens",
            "it has no tokens to check",
            help.to_owned(),
        );
    }
    ResourcePlan { fence }
}

/// `expect`: by check or class.
pub fn expect(texts: &mut Texts, entry: Option<&Entry>) -> BTreeMap<String, Expect> {
    let start = At {
        text: 0,
        span: 0..0,
    };
    let names = expectable();
    let s = Section::open(texts, "expect", entry, &start, &names);
    let all = [
        ("valid", Expect::Valid),
        ("violated", Expect::Violated),
        ("any", Expect::Any),
    ];
    names
        .iter()
        .filter_map(|n| pick(&s, texts, n, "outcome", &all).map(|e| ((*n).to_owned(), e)))
        .collect()
}
