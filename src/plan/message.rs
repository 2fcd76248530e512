//! Single messages in a workload file: what a message must be like, and what a rule does to it.
//!
//! Owns these words of a trigger and of a `[[fault]]` of kind `message`. Must not know how messages are met: the tap
//! does what is said here. `moment` and `fault` call it.
use super::fault::One;
use super::read::{Names, Section};
use super::replicated;
use super::tree::Texts;
use super::{FaultKind, FaultPlan, Trigger, When};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What a message must be like; all that is given must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct MessagePattern {
    /// The command's name, two words where the second counts (`SCRIPT LOAD`), or `*`.
    pub command: String,
    /// The node, such as `n2`; none: any.
    pub node: Option<String>,
    /// The lock key.
    pub key: Option<String>,
    /// A part of the script's text, the beginning of its sha1 (eight digits or more), or a function's name.
    pub script: Option<String>,
    /// A part of one of the command's words.
    pub word: Option<String>,
}

/// What a message rule does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MessageAction {
    /// It waits until the fault ends.
    Hold,
    /// It passes `latency` later.
    Delay,
    /// A command that the server never sees, and that nobody answers.
    Drop,
    /// A reply that the client never sees.
    Swallow,
    /// An error takes the reply's place; at the request's edge the server never sees the command.
    Error,
    /// Both ends of the connection get a RST.
    Reset,
    /// Nothing passes any more on that connection, in both directions.
    BlackHole,
    /// The command is sent twice.
    Duplicate,
}

/// What becomes of the connection that lost a message, or of the client's end of one on which a command waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MessageConnection {
    /// It stays open, and nothing more passes in that direction.
    #[default]
    Keep,
    /// It is closed.
    Close,
}

/// A message rule's own keys.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MessagePlan {
    /// What is done.
    pub action: MessageAction,
    /// The error's first word.
    pub error: Option<String>,
    /// What becomes of the connection.
    pub connection: MessageConnection,
    /// How many messages are hit, the trigger's n-th and those after it; none: all while the fault lasts.
    pub count: Option<u32>,
}

/// Keys of a trigger that only messages have.
pub const PATTERN_KEYS: &[&str] = &["message", "edge", "node", "key", "script", "word"];
/// Where a message is met.
pub const EDGES: &[&str] = &["request", "reply"];
/// Words for [`MessageAction`], in its order.
pub const ACTIONS: &[&str] = &[
    "hold",
    "delay",
    "drop",
    "swallow",
    "error",
    "reset",
    "black-hole",
    "duplicate",
];
/// Errors that can be answered in a server's place.
pub const ERRORS: &[&str] = &[
    "LOADING",
    "BUSY",
    "READONLY",
    "MISCONF",
    "OOM",
    "NOSCRIPT",
    "CLUSTERDOWN",
    "MOVED",
    "TRYAGAIN",
    "MASTERDOWN",
    "NOREPLICAS",
];
const CONNECTIONS: &[&str] = &["keep", "close"];

impl Trigger {
    /// Whether the message is met on its way back to the client.
    pub fn on_reply(&self) -> bool {
        self.result == "reply"
    }
}

impl One<'_> {
    /// The pattern of a trigger on a message, and its edge.
    pub fn pattern(
        &self,
        texts: &mut Texts,
        s: &Section<'_>,
    ) -> Option<(MessagePattern, &'static str)> {
        let edge = s
            .one_of(texts, "edge", &Names::of("edge", EDGES))
            .or(s.entry("edge").is_none().then_some(0));
        let topology = self.world.cluster.topology;
        replicated::tap(texts, &s.at("message"), "message", topology);
        for key in ["op", "result"] {
            if let Some(entry) = s.entry(key) {
                let message = format!("`message` and `{key}` together");
                let help = "a trigger waits for a message or for an operation".to_owned();
                texts.problem(&entry.at, message, "one of the two", help);
            }
        }
        let node = s.text(texts, "node").map(str::to_owned);
        if let Some(node) = &node {
            let number = node.strip_prefix('n').unwrap_or("?");
            self.node(texts, number, &s.at("node"))?;
        }
        let text = |texts: &mut Texts, key| s.text(texts, key).map(str::to_owned);
        let pattern = MessagePattern {
            command: s.text(texts, "message")?.to_owned(),
            node,
            key: text(texts, "key"),
            script: text(texts, "script"),
            word: text(texts, "word"),
        };
        for (key, value) in [
            ("message", Some(&pattern.command)),
            ("script", pattern.script.as_ref()),
            ("word", pattern.word.as_ref()),
        ] {
            if value.is_some_and(String::is_empty) {
                let label = "expected some text, or leave it out";
                texts.problem(&s.at(key), format!("an empty `{key}`"), label, None);
            }
        }
        Some((pattern, EDGES.get(edge?)?))
    }

    /// The own keys of a fault of kind `message`.
    pub fn message(&self, texts: &mut Texts, kind: FaultKind) -> Option<MessagePlan> {
        let s = &self.section;
        if kind != FaultKind::Message {
            return None;
        }
        let actions = [
            MessageAction::Hold,
            MessageAction::Delay,
            MessageAction::Drop,
            MessageAction::Swallow,
            MessageAction::Error,
            MessageAction::Reset,
            MessageAction::BlackHole,
            MessageAction::Duplicate,
        ];
        let action = s.one_of(texts, "action", &Names::of("action", ACTIONS));
        let error = s.one_of(texts, "error", &Names::of("error", ERRORS));
        let connection = s.one_of(texts, "connection", &Names::of("connection", CONNECTIONS));
        let count = s.integer(texts, "count", 1, 1_000_000);
        Some(MessagePlan {
            action: *actions.get(action?)?,
            error: error.and_then(|e| ERRORS.get(e)).map(|e| (*e).to_owned()),
            connection: if connection == Some(1) {
                MessageConnection::Close
            } else {
                MessageConnection::Keep
            },
            count: count.and_then(|n| u32::try_from(n).ok()),
        })
    }

    /// What only several keys of a message rule together can have wrong.
    pub fn check_message(&self, texts: &mut Texts, plan: &FaultPlan) {
        let Some(message) = &plan.message else {
            return;
        };
        let s = &self.section;
        let trigger = match &plan.when {
            When::On(trigger) if trigger.message.is_some() => trigger,
            _ => {
                let help = "on = { message = \"SET\", edge = \"reply\", nth = 2 }".to_owned();
                let label = "a message rule is keyed on a message";
                texts.problem(
                    &self.kind_at(),
                    "a message rule without a message",
                    label,
                    help,
                );
                return;
            }
        };
        let action = message.action;
        let wrong_edge = match action {
            MessageAction::Drop | MessageAction::Duplicate => trigger.on_reply(),
            MessageAction::Swallow => !trigger.on_reply(),
            _ => false,
        };
        if wrong_edge {
            let help =
                "drop and duplicate are for edge = \"request\", swallow for edge = \"reply\"";
            let label = "not at this edge";
            texts.problem(
                &s.at("action"),
                "an action at the wrong edge",
                label,
                help.to_owned(),
            );
        }
        let takes = [
            (
                "error",
                action == MessageAction::Error,
                message.error.is_some(),
            ),
            (
                "latency",
                action == MessageAction::Delay,
                plan.latency.is_some(),
            ),
        ];
        for (key, needed, given) in takes {
            if needed != given {
                let what = if needed { "needs" } else { "takes no" };
                let help = "error = \"LOADING\" goes with action = \"error\", latency = \"1s\" with \"delay\"";
                let message = format!("this action {what} `{key}`");
                texts.problem(&s.at("action"), message, "here", help.to_owned());
            }
        }
        let ends = plan.length.is_some() || plan.until.is_some();
        if action == MessageAction::Hold && !ends {
            let help = "for = \"1s\", or until = { op = \"…\", result = \"…\" }".to_owned();
            texts.problem(
                &s.at("action"),
                "`hold` without an end",
                "until when?",
                help,
            );
        }
        let fits = match action {
            MessageAction::Drop | MessageAction::Swallow => true,
            MessageAction::Hold => !trigger.on_reply(),
            _ => false,
        };
        if let Some(entry) = s.entry("connection").filter(|_| !fits) {
            let label = "it is for drop and swallow, and for a command on hold";
            texts.problem(&entry.at, "`connection` without a loss", label, None);
        }
    }
}

/// How many messages a rule hits by default: one, or all while the fault lasts.
pub fn hits(
    message: &MessagePlan,
    length: Option<Duration>,
    until: Option<&Trigger>,
) -> Option<u32> {
    match message.count {
        Some(count) => Some(count),
        None if length.is_none() && until.is_none() => Some(1),
        // What waits, waits until the end; the next one of its kind is another matter.
        None if message.action == MessageAction::Hold => Some(1),
        None => None,
    }
}
