//! One fault on each node, or on each client: `target = "each-node"`, `target = "each-client"`.
//!
//! Owns how such a fault becomes one for each of them, by name, and how a comparison shares one node's faults out over a
//! cluster. Must not know what a fault does. Each copy is a fault of its own, `<id>-n1`, `<id>-n2` …, and draws its times
//! from a stream of that name: node 1 of a single system and node 1 of five meet the very same ones.
use super::tree::{Entry, Node, Value};
use super::{FaultPlan, Plan, Target, When};

/// A fault as it is read, and whether it is a further copy of one whose mistakes were told already.
pub struct Item {
    /// Its table.
    pub node: Node,
    /// A further copy.
    pub copy: bool,
}

/// The faults of a file, those on each node or client once for each.
pub fn expand(
    items: &[Node],
    nodes: u32,
    clients: u32,
    id_of: impl Fn(usize, &Node) -> String,
) -> Vec<Item> {
    let mut all = Vec::new();
    for (index, node) in items.iter().enumerate() {
        let target = match &node.value {
            Value::Table(table) => table.get("target").map(|e| &e.node.value),
            _ => None,
        };
        let (count, short, long) = match target {
            Some(Value::Text(t)) if t == "each-node" => (nodes, "n", "node:"),
            Some(Value::Text(t)) if t == "each-client" => (clients, "c", "client:c"),
            _ => {
                let mut node = node.clone();
                // Its name by its place in the file, not by that behind the copies.
                if all.len() != index {
                    let id = id_of(index, &node);
                    set(&mut node, "id", id);
                }
                all.push(Item { node, copy: false });
                continue;
            }
        };
        let id = id_of(index, node);
        for k in 1..=count.max(1) {
            let mut node = node.clone();
            set(&mut node, "id", format!("{id}-{short}{k}"));
            set(&mut node, "target", format!("{long}{k}"));
            all.push(Item { node, copy: k > 1 });
        }
    }
    all
}

fn set(node: &mut Node, key: &str, text: String) {
    let at = node.at.clone();
    let Value::Table(table) = &mut node.value else {
        return;
    };
    if let Some(entry) = table.get_mut(key) {
        entry.node.value = Value::Text(text);
        return;
    }
    table.0.push(Entry {
        key: key.to_owned(),
        at: at.clone(),
        node: Node {
            at,
            value: Value::Text(text),
        },
    });
}

/// The node of which this fault is the copy, if it is one.
fn copy_of(fault: &FaultPlan) -> Option<u32> {
    match fault.target {
        Target::Node(k) if fault.id.ends_with(&format!("-n{k}")) => Some(k),
        _ => None,
    }
}

/// The name that the file gives it: that of the fault of which this is a copy, else its own.
pub fn family(fault: &FaultPlan) -> &str {
    let suffix = match &fault.target {
        Target::Node(k) => format!("-n{k}"),
        Target::Client(name) => format!("-{name}"),
        _ => return &fault.id,
    };
    fault.id.strip_suffix(&suffix).unwrap_or(&fault.id)
}

/// Whether the plan has a fault on each node, so that a comparison can deal it in two ways.
#[must_use]
pub fn on_each_node(plan: &Plan) -> bool {
    plan.faults.iter().any(|f| copy_of(f).is_some())
}

/// The plan with the faults on each node dealt out so that the whole cluster meets as many as one node did: each comes as
/// many times more seldom as there are nodes.
#[must_use]
pub fn one_per_cluster(mut plan: Plan) -> Plan {
    let nodes = plan.cluster.nodes.max(1);
    for fault in &mut plan.faults {
        if copy_of(fault).is_some()
            && let When::Every(mean) = &mut fault.when
        {
            *mean *= nodes;
        }
    }
    plan
}

/// The faults without the copies on nodes beyond the first: the same for systems of any size.
pub fn of_one_node(plan: &Plan) -> Vec<&FaultPlan> {
    let first = |f: &&FaultPlan| copy_of(f).is_none_or(|k| k == 1);
    plan.faults.iter().filter(first).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Overrides, parse};
    use std::time::Duration;

    fn plan(cluster: &str, target: &str) -> Plan {
        let text = format!(
            "{cluster}\nload = {{ clients = 2 }}\n[[fault]]\nid = \"cut\"\nkind = \"{}\"\ntarget = \"{target}\"\n\
             every = \"3s\"\nfor = \"1s\"\n",
            if target == "each-client" {
                "client-pause"
            } else {
                "node-pause"
            }
        );
        let plans = parse("x", "x", &text, &Overrides::default()).expect("a plan");
        plans.into_iter().next().expect("one")
    }

    const FIVE: &str =
        "cluster = { topology = \"independent\", nodes = 5 }\nlock = { name = \"redlock\" }";
    const ONE: &str = "lock = { name = \"set-nx-lua\" }";

    #[test]
    fn each_node_has_its_own_and_node_1_the_same_in_every_system() {
        let (one, five) = (plan(ONE, "each-node"), plan(FIVE, "each-node"));
        let ids: Vec<&str> = five.faults.iter().map(|f| f.id.as_str()).collect();
        assert_eq!(ids, ["cut-n1", "cut-n2", "cut-n3", "cut-n4", "cut-n5"]);
        assert_eq!(one.faults, five.faults[..1]);
        assert_eq!(of_one_node(&five), of_one_node(&one));
        let clients = plan(ONE, "each-client");
        assert_eq!(clients.faults[1].target, Target::Client("c2".to_owned()));
        let families = [&five, &clients, &plan(ONE, "node:1")];
        assert!(
            families
                .iter()
                .all(|p| p.faults.iter().all(|f| family(f) == "cut"))
        );
        assert!(on_each_node(&five) && !on_each_node(&clients));
        // The resolved plan is a workload of its own.
        let again = parse("x", "x", &five.to_toml(), &Overrides::default()).expect("a plan");
        assert_eq!(again[0].faults, five.faults);
    }

    #[test]
    fn one_per_cluster_is_as_many_in_all() {
        let every = |p: &Plan| match p.faults[0].when {
            When::Every(mean) => mean,
            _ => panic!("every"),
        };
        assert_eq!(
            every(&one_per_cluster(plan(FIVE, "each-node"))),
            Duration::from_secs(15)
        );
        assert_eq!(
            every(&one_per_cluster(plan(ONE, "each-node"))),
            Duration::from_secs(3)
        );
        assert_eq!(
            every(&one_per_cluster(plan(FIVE, "node:1"))),
            Duration::from_secs(3)
        );
    }

    #[test]
    fn a_mistake_in_one_is_told_once() {
        let text = format!(
            "{FIVE}\n[[fault]]\nkind = \"node-pause\"\ntarget = \"each-node\"\nevery = \"soon\"\nfor = \"1s\"\n"
        );
        let error = parse("x", "x", &text, &Overrides::default()).expect_err("no time");
        assert_eq!(error.problems.len(), 1, "{error:?}");
    }
}
