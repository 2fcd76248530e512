//! JSON schemas of what this crate reads and writes.
//!
//! Owns nothing but the calls; the shapes are in `event`, `model` and `verdict`. Goes to `fencepost schema`.
use crate::{Event, Header, Verdict};

/// The schema of a history: its first line is a `Header`, every other one an `Event`.
pub fn history() -> serde_json::Value {
    let header = schemars::schema_for!(Header);
    let event = schemars::schema_for!(Event<'_>);
    serde_json::json!({
        "title": "fencepost history",
        "description": "JSON lines: the first line is a header, every other one an event",
        "header": header,
        "event": event,
    })
}

/// The schema of verdict.json.
pub fn verdict() -> serde_json::Value {
    schemars::schema_for!(Verdict).to_value()
}
