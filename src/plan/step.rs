//! `[[step]]`: an exact schedule for some clients, one step after another.
//!
//! Owns the steps' keys and that each names something that is there. Must not know how a step is made. Gives
//! [`StepPlan`]s to `file`; `run::script` plays them.
use super::fault::{One, World};
use super::read::{Names, Section, unknown_keys, wrong_type};
use super::tree::{Entry, Texts, Value};
use super::{Trigger, duration};
use serde::Serialize;
use std::time::Duration;

/// One step.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepPlan {
    /// A client does something.
    Do(Doing),
    /// Time passes.
    Pause(#[serde(with = "duration")] Duration),
    /// Something is seen; watched for from before the step above it began.
    Until(Trigger),
    /// A fault has bitten.
    After(String),
    /// A fault is over.
    Healed(String),
    /// A step that goes on in the background was answered.
    Answered(String),
}

/// What a client does in a step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Doing {
    /// Name for `answered`; default `s<number>`.
    pub id: String,
    /// The client.
    pub client: String,
    /// Its worker.
    pub worker: u32,
    /// The operation: one of [`OPS`].
    pub op: String,
    /// The lock key.
    pub key: String,
    /// How long the library may wait for the lock (`acquire`).
    #[serde(with = "duration")]
    pub wait: Duration,
    /// The lease asked for (`extend`); none: the lock's.
    #[serde(with = "duration::optional")]
    pub ttl: Option<Duration>,
    /// Length of the work.
    #[serde(rename = "for", with = "duration::optional")]
    pub length: Option<Duration>,
    /// The answers that belong to the schedule: `ok`, `fail`, `info`; with any other it did not happen. None: any.
    pub then: Vec<String>,
    /// The next step begins without waiting for the answer.
    pub background: bool,
}

/// What a client can be asked in a step.
pub const OPS: &[&str] = &[
    "acquire",
    "release",
    "extend",
    "work",
    "read",
    "write",
    "held",
    "cancel",
    "interrupt",
    "drop",
    "kill-thread",
];
/// Keys of a step.
pub const STEP_KEYS: &[&str] = &[
    "id",
    "client",
    "worker",
    "do",
    "key",
    "wait",
    "ttl",
    "for",
    "then",
    "background",
    "pause",
    "until",
    "after",
    "healed",
    "answered",
];
/// Exactly one of them says what a step is.
pub const STEP_KINDS: &[&str] = &["do", "pause", "until", "after", "healed", "answered"];
const ANSWERS: &[&str] = &["ok", "fail", "info"];

/// Read all steps; `ids` are those of the faults.
pub fn read(
    texts: &mut Texts,
    entry: Option<&Entry>,
    world: &World<'_>,
    ids: &[String],
    workers: u32,
    ttl: Duration,
) -> Vec<StepPlan> {
    let Some(entry) = entry else {
        return Vec::new();
    };
    let Value::Array(items) = &entry.node.value else {
        let hint = Some("each step begins with a line [[step]]".to_owned());
        wrong_type(texts, "step", &entry.node, "an array of tables", hint);
        return Vec::new();
    };
    let mut plans: Vec<StepPlan> = Vec::new();
    for (index, node) in items.iter().enumerate() {
        let Value::Table(table) = &node.value else {
            wrong_type(texts, "step", node, "a table", None);
            continue;
        };
        unknown_keys(texts, "`step`", table, STEP_KEYS);
        let s = Section::of("step", table, node.at.clone());
        let given: Vec<&Entry> = STEP_KINDS.iter().filter_map(|k| s.entry(k)).collect();
        let [kind] = given.as_slice() else {
            let how = format!("exactly one of {}", STEP_KINDS.join(", "));
            texts.problem(&node.at, "not one step", "what happens here?", how);
            continue;
        };
        let one = One::for_step(s, table, world, ids);
        let before: Vec<&str> = plans
            .iter()
            .filter_map(|p| match p {
                StepPlan::Do(d) if d.background => Some(d.id.as_str()),
                _ => None,
            })
            .collect();
        let plan = match kind.key.as_str() {
            "do" => doing(texts, &one, index, workers, ttl).map(StepPlan::Do),
            "pause" => one
                .section
                .duration(texts, "pause", Duration::ZERO)
                .map(StepPlan::Pause),
            "until" => one
                .trigger(texts, "until", &kind.node, false)
                .map(StepPlan::Until),
            "answered" => named(
                texts,
                &one.section,
                "answered",
                "step in the background",
                &before,
            )
            .map(StepPlan::Answered),
            key => {
                let known: Vec<&str> = ids.iter().map(String::as_str).collect();
                named(texts, &one.section, key, "fault", &known).map(|id| match key {
                    "after" => StepPlan::After(id),
                    _ => StepPlan::Healed(id),
                })
            }
        };
        if let Some(StepPlan::Do(d)) = &plan
            && d.background
            && before.contains(&d.id.as_str())
        {
            let at = one.section.at(if one.section.entry("id").is_some() {
                "id"
            } else {
                "do"
            });
            let message = format!("two steps in the background are called `{}`", d.id);
            texts.problem(&at, message, "`answered` could mean either", None);
        }
        plans.extend(plan);
    }
    plans
}

fn named(
    texts: &mut Texts,
    s: &Section<'_>,
    key: &str,
    what: &str,
    known: &[&str],
) -> Option<String> {
    let index = s.one_of(texts, key, &Names::of(what, known))?;
    known.get(index).map(|id| (*id).to_owned())
}

fn doing(
    texts: &mut Texts,
    one: &One<'_>,
    index: usize,
    workers: u32,
    ttl: Duration,
) -> Option<Doing> {
    let s = &one.section;
    let op = s.one_of(texts, "do", &Names::of("operation", OPS));
    let Some(client) = s.text(texts, "client") else {
        let label = "add `client`";
        texts.problem(&s.at, "a step without a client", label, None);
        return None;
    };
    one.client(texts, client, &s.at("client"))?;
    let most = u64::from(workers.saturating_sub(1));
    let worker = s
        .integer(texts, "worker", 0, most)
        .or(s.entry("worker").is_none().then_some(0))?;
    let then = match s.entry("then").map(|e| &e.node.value) {
        Some(Value::Array(_)) => s.texts(texts, "then").unwrap_or_default(),
        Some(_) => s
            .text(texts, "then")
            .map(str::to_owned)
            .into_iter()
            .collect(),
        None => Vec::new(),
    };
    if let Some(odd) = then.iter().find(|t| !ANSWERS.contains(&t.as_str())) {
        let label = format!("expected some of {}", ANSWERS.join(", "));
        texts.problem(&s.at("then"), format!("no answer `{odd}`"), label, None);
    }
    let op = OPS.get(op?)?;
    for (key, of) in [("wait", "acquire"), ("ttl", "extend"), ("for", "work")] {
        if let Some(entry) = s.entry(key).filter(|_| *op != of) {
            let message = format!("`{op}` takes no `{key}`");
            texts.problem(&entry.at, message, format!("it is for {of}"), None);
        }
    }
    let key = s.text(texts, "key").unwrap_or("lock:0");
    let lease = s.duration(texts, "ttl", Duration::ZERO);
    Some(Doing {
        id: s
            .text(texts, "id")
            .map_or_else(|| format!("s{}", index + 1), str::to_owned),
        client: client.to_owned(),
        worker: u32::try_from(worker).unwrap_or(0),
        op: (*op).to_owned(),
        key: key.to_owned(),
        wait: s
            .duration(texts, "wait", Duration::ZERO)
            .unwrap_or_default(),
        ttl: lease.or((*op == "extend").then_some(ttl)),
        length: s.duration(texts, "for", Duration::ZERO),
        then,
        background: s.bool(texts, "background").unwrap_or(false),
    })
}
