//! When a fault is injected, and until when it stays: times, triggers, and the fault that it follows.
//!
//! Owns these keys of a `[[fault]]`. Must not know what the fault does. `fault` calls it.
use super::fault::One;
use super::kinds::WHEN_KEYS;
use super::message::PATTERN_KEYS;
use super::names::{OPERATIONS, RESULTS};
use super::read::{Names, Section, duration_at, unknown_keys, unknown_name, wrong_type};
use super::tree::{At, Entry, Node, Texts, Value};
use super::{Trigger, When};
use std::time::Duration;

const TRIGGER_KEYS: &[&str] = &[
    "op", "result", "client", "nth", "after", "message", "edge", "node", "key", "script", "word",
];

impl One<'_> {
    /// The one of [`WHEN_KEYS`] that is there.
    pub fn when(&self, texts: &mut Texts) -> Option<When> {
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
        let own = self.ids.get(self.index).is_some_and(|own| own == id);
        if above.any(|i| i == id) || (itself && own) {
            return Some(());
        }
        let above: Vec<&str> = self.ids[..self.index].iter().map(String::as_str).collect();
        if own {
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

    /// `on`, or `until`, which may refer to the fault `itself`.
    pub fn trigger(
        &self,
        texts: &mut Texts,
        key: &str,
        node: &Node,
        itself: bool,
    ) -> Option<Trigger> {
        let Value::Table(table) = &node.value else {
            let hint = Some(format!(
                "{key} = {{ op = \"acquire\", result = \"ok\", nth = 2 }}"
            ));
            wrong_type(texts, key, node, "a table", hint);
            return None;
        };
        let s = Section::of(key, table, node.at.clone());
        unknown_keys(texts, &format!("`{key}`"), table, TRIGGER_KEYS);
        let pattern = match s.entry("message") {
            Some(_) => Some(self.pattern(texts, &s)?),
            None => None,
        };
        let lone = PATTERN_KEYS.iter().find_map(|k| s.entry(k));
        if let Some(entry) = lone.filter(|_| pattern.is_none()) {
            let message = format!("`{}` without `message`", entry.key);
            let help = "message = \"SET\", or message = \"*\" for any".to_owned();
            texts.problem(&entry.at, message, "add `message`", help);
        }
        for need in ["op", "result"] {
            if pattern.is_none() && s.entry(need).is_none() {
                let help = format!(
                    "op: {}; result: {}",
                    OPERATIONS.join(", "),
                    RESULTS.join(", ")
                );
                let message = format!("`{key}` without `{need}`");
                texts.problem(&node.at, message, format!("add `{need}`"), help);
            }
        }
        let op = s.one_of(texts, "op", &Names::of("operation", OPERATIONS));
        let result = s.one_of(texts, "result", &Names::of("result", RESULTS));
        let client = s.text(texts, "client").map(str::to_owned);
        match client.as_deref() {
            Some(role @ ("holder" | "other")) if !itself => {
                let message = format!("`{role}` in `{key}`");
                let label = "the fault has hit nobody yet";
                let help = "`holder` (the client that the fault hit) and `other` are for `until`";
                texts.problem(&s.at("client"), message, label, help.to_owned());
            }
            None | Some("holder" | "other") => {}
            Some(name) => {
                self.client(texts, name, &s.at("client"))?;
            }
        }
        let nth = s
            .integer(texts, "nth", 1, 1_000_000)
            .or(s.entry("nth").is_none().then_some(1));
        let after = s.text(texts, "after").map(str::to_owned);
        if let Some(id) = &after {
            self.follows(texts, id, &s.at("after"), itself)?;
        }
        let nth = u32::try_from(nth?).ok()?;
        if let Some((message, edge)) = pattern {
            return Some(Trigger {
                op: "message".to_owned(),
                result: edge.to_owned(),
                client,
                nth,
                after,
                message: Some(message),
            });
        }
        Some(Trigger {
            op: (*OPERATIONS.get(op?)?).to_owned(),
            result: (*RESULTS.get(result?)?).to_owned(),
            client,
            nth,
            after,
            message: None,
        })
    }
}
