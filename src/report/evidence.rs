//! The evidence of a finding as numbered marks: what the servers, the clients and the nemesis were seen to do.
//!
//! Owns how an event reads in one line. Must not know a check: an event is shown as it stands in the history.
//! `timeline` puts the numbers on its axis and lists the lines below it.
use super::sanitise::clip;
use fencepost_checker::Finding;
use serde_json::Value;

/// Events numbered and listed at most: one digit each.
const EVENTS_MAX: usize = 9;
/// Columns of an event's line at most.
const TEXT_MAX: usize = 160;

/// A numbered event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// `1` to `9`.
    pub number: char,
    /// When it was seen, ns since the start of the run.
    pub time: u64,
    /// The row on which it stands: a node, else a client, else a part of the harness.
    pub row: String,
    /// The event in one line, made visible.
    pub text: String,
}

/// The first events of a finding's evidence; what is no event is left out.
pub fn marks(finding: &Finding) -> Vec<Mark> {
    let events = finding.evidence.iter().take(EVENTS_MAX);
    events.zip('1'..).filter_map(|(e, n)| mark(e, n)).collect()
}

fn mark(event: &Value, number: char) -> Option<Mark> {
    let of = |name: &str| event.get("value").and_then(|v| v.get(name));
    let time = event.get("time")?.as_u64()?;
    let row = of("node")
        .or_else(|| event.get("client"))
        .or_else(|| event.get("process"))
        .map(text)?;
    let mut line = seconds(time);
    if let Some(since) = of("not_before")
        .and_then(Value::as_u64)
        .filter(|t| *t < time)
    {
        line = format!("{line} (not before {})", seconds(since));
    }
    line = format!("{line} {row}");
    for name in ["type", "f", "key", "error"] {
        let word = event
            .get(name)
            .map(text)
            .filter(|w| name != "type" || w != "info");
        if let Some(word) = word {
            line = format!("{line} {word}");
        }
    }
    for name in [
        "phase",
        "target",
        "owner",
        "token",
        "version",
        "pttl_ms",
        "validity_ms",
        "proof",
    ] {
        if let Some(value) = of(name) {
            line = format!("{line}, {} {}", name.trim_end_matches("_ms"), text(value));
        }
    }
    Some(Mark {
        number,
        time,
        row,
        text: clip(&line, TEXT_MAX),
    })
}

/// A time in s, to the µs: what orders a proof is often less than a millisecond apart.
fn seconds(ns: u64) -> String {
    format!("{}.{:06} s", ns / 1_000_000_000, ns % 1_000_000_000 / 1_000)
}

/// A string as it is, anything else as JSON.
fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::findings;

    #[test]
    fn an_event_reads_in_one_line() {
        let [_, mut finding] = findings();
        finding.evidence[3]["value"]["owner"] = "9f3a".into();
        finding.evidence[3]["value"]["pttl_ms"] = 1_978.into();
        let marks = marks(&finding);
        let texts: Vec<&str> = marks.iter().map(|m| m.text.as_str()).collect();
        assert_eq!(texts[2], "4.210000 s c1 invoke release lock:0");
        assert_eq!(
            texts[3],
            "4.213000 s (not before 4.210000 s) n1 del lock:0, owner 9f3a, pttl 1978"
        );
        assert_eq!((marks[2].row.as_str(), marks[3].row.as_str()), ("c1", "n1"));
    }

    #[test]
    fn what_is_no_event_is_left_out() {
        let [mut finding, _] = findings();
        finding.evidence = vec![
            Value::Null,
            serde_json::json!({"time": -1}),
            serde_json::json!({"time": 1}),
        ];
        assert!(marks(&finding).is_empty());
    }
}
