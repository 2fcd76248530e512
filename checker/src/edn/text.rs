//! EDN to JSON and back, for the fields of an event.
//!
//! Owns the spelling. Must not know what a field means.
use super::HEADER;
use super::parse::Value;
use crate::event::Event;
use crate::model::Header;
use serde_json::{Number, Value as Json};
use std::fmt::Write as _;

/// A value as JSON: keywords and symbols become texts, their dashes stay.
pub(super) fn json(value: &Value<'_>) -> Json {
    match value {
        Value::Nil => Json::Null,
        Value::Bool(b) => Json::Bool(*b),
        Value::Int(i) => Json::from(*i),
        Value::Float(f) => Number::from_f64(*f).map_or(Json::Null, Json::Number),
        Value::Number(n) => n.parse::<u64>().map_or_else(|_| Json::from(*n), Json::from),
        Value::Text(t) => Json::from(t.as_str()),
        Value::Keyword(k) | Value::Symbol(k) => Json::from(*k),
        Value::Many(items) => items.iter().map(json).collect(),
        Value::Map(entries) => {
            let pairs = entries.iter().map(|(k, v)| (plain(k), json(v)));
            Json::Object(pairs.collect())
        }
    }
}

/// A value as a plain text, for keys and owners.
pub(super) fn plain(value: &Value<'_>) -> String {
    match value {
        Value::Text(t) => t.clone(),
        Value::Keyword(k) | Value::Symbol(k) | Value::Number(k) => (*k).to_owned(),
        other => json(other).to_string(),
    }
}

/// A history in EDN while it is written: its header as a comment, then an operation a line.
#[derive(Default)]
pub(crate) struct Writer(String);

impl Writer {
    /// Appends an event; the first time its header too.
    pub(crate) fn add(&mut self, header: &Header, event: &Event<'_>) {
        if self.0.is_empty() {
            let json = serde_json::to_string(header).unwrap_or_default();
            let _ = writeln!(self.0, "{HEADER}{json}");
        }
        if let Ok(json) = serde_json::to_value(event) {
            edn(&mut self.0, &json, "");
            self.0.push('\n');
        }
    }

    /// The whole text.
    pub(crate) fn finish(self) -> String {
        self.0
    }
}

/// JSON as EDN; the words that Jepsen writes as keywords become ones.
fn edn(out: &mut String, json: &Json, field: &str) {
    match json {
        Json::Null => out.push_str("nil"),
        Json::String(s) if keyword(field, s) => {
            let _ = write!(out, ":{s}");
        }
        // JSON's escapes are EDN's too, but for those of control characters other than these.
        Json::String(_) | Json::Bool(_) | Json::Number(_) => {
            let _ = write!(out, "{json}");
        }
        Json::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                out.push_str(if i == 0 { "" } else { " " });
                edn(out, item, "");
            }
            out.push(']');
        }
        Json::Object(fields) => {
            out.push('{');
            for (i, (name, value)) in fields.iter().enumerate() {
                let _ = write!(out, "{}:{name} ", if i == 0 { "" } else { ", " });
                edn(out, value, name);
            }
            out.push('}');
        }
    }
}

fn keyword(field: &str, text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    matches!(field, "type" | "f" | "error" | "process")
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(plain)
}
