//! A plan as TOML: plan.toml of a run, all defaults filled in, and itself a workload file that replays the run.
//!
//! Owns the format. Must not know where it is kept. `file` reads it back to the same plan, which a test holds.
use super::kinds::info;
use super::{
    FaultKind, FaultPlan, MessageAction, MessageConnection, Plan, StepPlan, Target, Trigger, When,
    Work, duration,
};
use serde::Serialize;
use std::fmt;
use std::time::Duration;
use toml::{Table, Value};

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Holder => f.write_str("holder"),
            Self::Waiter => f.write_str("waiter"),
            Self::QuorumEdge => f.write_str("quorum-edge"),
            Self::Client(name) => write!(f, "client:{name}"),
            Self::Clients => f.write_str("clients"),
            Self::Node(n) => write!(f, "node:{n}"),
            Self::Nodes => f.write_str("nodes"),
            Self::Primary => f.write_str("primary"),
            Self::Replica(n) => write!(f, "replica:{n}"),
            Self::Sentinel(n) => write!(f, "sentinel:{n}"),
            Self::Sentinels => f.write_str("sentinels"),
            Self::Link(client, node) => write!(f, "link:{client}>{node}"),
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(info(*self).name)
    }
}

impl Plan {
    /// The plan as a workload file of its own.
    pub fn to_toml(&self) -> String {
        let mut top = Table::new();
        put(&mut top, "name", &self.name);
        if let Some(variant) = &self.variant {
            put(&mut top, "variant", variant);
        }
        put(&mut top, "about", &self.about);
        top.insert("seed".into(), integer(self.seed));
        if self.tap {
            put(&mut top, "tap", &true);
        }
        put(&mut top, "cluster", &self.cluster);
        top.insert("lock".into(), self.lock_table().into());
        top.insert("load".into(), self.load_table().into());
        put(&mut top, "resource", &self.resource);
        if !self.expect.is_empty() {
            put(&mut top, "expect", &self.expect);
        }
        let faults: Vec<Value> = self.faults.iter().map(|f| fault_table(f).into()).collect();
        if !faults.is_empty() {
            top.insert("fault".into(), faults.into());
        }
        let steps: Vec<Value> = self.steps.iter().map(|s| step_table(s).into()).collect();
        if !steps.is_empty() {
            top.insert("step".into(), steps.into());
        }
        let head = "# A resolved workload: all defaults filled in. `fencepost run` on this file replays the run.\n\n";
        format!("{head}{top}")
    }

    fn lock_table(&self) -> Table {
        let mut lock = table(&self.lock);
        // A built-in lock has no command and no options, an adapter no name.
        for key in ["command", "env", "options", "stick"] {
            let empty = match lock.get(key) {
                Some(Value::Array(a)) => a.is_empty(),
                Some(Value::Table(t)) => t.is_empty(),
                _ => false,
            };
            if empty {
                lock.remove(key);
            }
        }
        if self.lock.wait == 0 {
            lock.remove("wait");
        }
        lock
    }

    fn load_table(&self) -> Table {
        let load = &self.load;
        let mut t = Table::new();
        put(&mut t, "clients", &load.clients);
        put(&mut t, "workers", &load.workers);
        put(&mut t, "keys", &load.keys);
        time(&mut t, "for", load.length);
        match load.rate {
            Some(rate) => put(&mut t, "rate", &rate),
            None => time(&mut t, "think", load.think),
        }
        time(&mut t, "tail", load.tail);
        if !load.clean.is_empty() {
            put(&mut t, "clean", &load.clean);
        }
        if !load.nodes.is_empty() {
            let name = |n: &u32| format!("n{n}");
            let lists = load.nodes.iter().map(|(client, nodes)| {
                let nodes: Vec<String> = nodes.iter().map(name).collect();
                (client.clone(), nodes)
            });
            let lists: std::collections::BTreeMap<String, Vec<String>> = lists.collect();
            put(&mut t, "nodes", &lists);
        }
        let mut work = Table::new();
        match load.work {
            Work::Fixed(d) => time(&mut work, "fixed", d),
            Work::Exponential(d) => time(&mut work, "exponential", d),
            Work::Uniform(a, b) => {
                put(
                    &mut work,
                    "uniform",
                    &[duration::text(a), duration::text(b)],
                );
            }
        }
        t.insert("work".into(), work.into());
        t
    }
}

fn fault_table(fault: &FaultPlan) -> Table {
    let takes = info(fault.kind).allowed;
    let mut t = Table::new();
    put(&mut t, "id", &fault.id);
    put(&mut t, "kind", &fault.kind);
    put(&mut t, "target", &fault.target.to_string());
    match &fault.when {
        When::At(d) => time(&mut t, "at", *d),
        When::Every(d) => time(&mut t, "every", *d),
        When::After(id, delay) => {
            put(&mut t, "after", id);
            time(&mut t, "delay", *delay);
        }
        When::On(trigger) => {
            t.insert("on".into(), trigger_table(trigger).into());
        }
    }
    let times = [
        ("for", fault.length),
        ("latency", fault.latency),
        ("jitter", fault.jitter),
        ("work", fault.work),
        ("down", fault.down),
        ("demote_after", fault.demote_after),
    ];
    for (key, d) in times {
        if let Some(d) = d {
            time(&mut t, key, d);
        }
    }
    super::measures::write(&fault.measures, &mut t);
    if let Some(until) = &fault.until {
        t.insert("until".into(), trigger_table(until).into());
    }
    if takes.contains(&"direction") {
        put(&mut t, "direction", &fault.direction);
    }
    if takes.contains(&"mode") {
        put(&mut t, "mode", &fault.mode);
    }
    if takes.contains(&"data") {
        put(&mut t, "data", &fault.data);
    }
    if let Some(message) = &fault.message {
        put(&mut t, "action", &message.action);
        if let Some(error) = &message.error {
            put(&mut t, "error", error);
        }
        let loses = matches!(message.action, MessageAction::Drop | MessageAction::Swallow);
        if loses || message.connection == MessageConnection::Close {
            put(&mut t, "connection", &message.connection);
        }
        if let Some(count) = message.count {
            put(&mut t, "count", &count);
        }
    }
    t
}

fn step_table(step: &StepPlan) -> Table {
    let mut t = Table::new();
    match step {
        StepPlan::Pause(d) => time(&mut t, "pause", *d),
        StepPlan::Until(trigger) => {
            t.insert("until".into(), trigger_table(trigger).into());
        }
        StepPlan::After(id) => put(&mut t, "after", id),
        StepPlan::Healed(id) => put(&mut t, "healed", id),
        StepPlan::Answered(id) => put(&mut t, "answered", id),
        StepPlan::Do(d) => {
            put(&mut t, "id", &d.id);
            put(&mut t, "client", &d.client);
            put(&mut t, "worker", &d.worker);
            put(&mut t, "do", &d.op);
            put(&mut t, "key", &d.key);
            if d.op == "acquire" {
                time(&mut t, "wait", d.wait);
            }
            for (key, length) in [("ttl", d.ttl), ("for", d.length)] {
                if let Some(length) = length {
                    time(&mut t, key, length);
                }
            }
            if !d.then.is_empty() {
                put(&mut t, "then", &d.then);
            }
            put(&mut t, "background", &d.background);
        }
    }
    t
}

fn trigger_table(trigger: &Trigger) -> Table {
    let mut t = Table::new();
    if let Some(message) = &trigger.message {
        put(&mut t, "message", &message.command);
        put(&mut t, "edge", &trigger.result);
        let more = [
            ("node", &message.node),
            ("key", &message.key),
            ("script", &message.script),
            ("word", &message.word),
        ];
        for (key, value) in more {
            if let Some(value) = value {
                put(&mut t, key, value);
            }
        }
    } else {
        put(&mut t, "op", &trigger.op);
        put(&mut t, "result", &trigger.result);
    }
    if let Some(client) = &trigger.client {
        put(&mut t, "client", client);
    }
    put(&mut t, "nth", &trigger.nth);
    if let Some(after) = &trigger.after {
        put(&mut t, "after", after);
    }
    t
}

/// TOML's integers end at i64's; `file` reads larger seeds from text that no writer makes, so they are kept whole.
fn integer(n: u64) -> Value {
    i64::try_from(n).map_or_else(|_| Value::String(n.to_string()), Value::Integer)
}

fn table(value: &impl Serialize) -> Table {
    Table::try_from(value).unwrap_or_default()
}

fn put(t: &mut Table, key: &str, value: &impl Serialize) {
    if let Ok(value) = Value::try_from(value) {
        t.insert(key.to_owned(), value);
    }
}

fn time(t: &mut Table, key: &str, d: Duration) {
    t.insert(key.to_owned(), duration::text(d).into());
}
