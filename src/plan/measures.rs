//! The measures of a fault beyond times: how far a clock steps, how fast a link is, how many bytes pass.
//!
//! Owns these keys of a `[[fault]]`, in both directions and for the schema. Must not know kinds: `kinds` says which takes
//! which. `fault` reads them, `write` writes them.
use super::duration;
use super::read::Section;
use super::tree::{Texts, Value};
use serde::Serialize;
use serde_json::json;
use std::time::Duration;
use toml::Table;

/// Largest step of a clock.
const STEP_MAX: Duration = Duration::from_secs(24 * 3600);
/// Largest drift; a clock at 0.5 runs half again as fast.
const DRIFT_MAX: f64 = 0.5;
/// Smallest drift that can be proved within a few seconds.
const DRIFT_MIN: f64 = 0.001;

/// What a fault's kind may need beside times. None: not given.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Measures {
    /// Nanoseconds by which a wall clock steps; below zero: back.
    pub step_ns: Option<i64>,
    /// Seconds a second by which a wall clock gains; below zero: loses.
    pub drift: Option<f64>,
    /// Kilobytes (1000 bytes) a second and direction.
    pub rate: Option<u64>,
    /// Bytes: those that pass, or the mean of a piece.
    pub bytes: Option<u64>,
    /// Share of packets that is lost, from 0 to 1.
    pub loss: Option<f64>,
    /// Time between two cuts.
    #[serde(with = "duration::optional")]
    pub gap: Option<Duration>,
}

/// Reads whichever of the keys are there.
pub fn read(texts: &mut Texts, s: &Section<'_>) -> Measures {
    Measures {
        step_ns: step(texts, s),
        drift: drift(texts, s),
        rate: s.integer(texts, "rate", 1, 1_000_000),
        bytes: s.integer(texts, "bytes", 1, 1_000_000_000),
        loss: loss(texts, s),
        gap: s.duration(texts, "gap", Duration::ZERO),
    }
}

/// `"+60s"`, `"-120s"`: the sign is part of it, so that nobody has to guess which way is forward.
fn step(texts: &mut Texts, s: &Section<'_>) -> Option<i64> {
    let text = s.text(texts, "step")?;
    let at = s.at("step");
    let help = "a clock steps forward by step = \"+60s\", back by step = \"-60s\"";
    let signed = text
        .strip_prefix('+')
        .map(|rest| (1, rest))
        .or_else(|| text.strip_prefix('-').map(|rest| (-1, rest)));
    let Some((sign, rest)) = signed else {
        texts.problem(&at, "`step` without a sign", "+ or -?", help.to_owned());
        return None;
    };
    match duration::parse(rest) {
        Ok(d) if !d.is_zero() && d <= STEP_MAX => {
            i64::try_from(d.as_nanos()).ok().map(|ns| sign * ns)
        }
        Ok(_) => {
            texts.problem(
                &at,
                "`step` out of range",
                "expected 1us to 24h",
                help.to_owned(),
            );
            None
        }
        Err(why) => {
            texts.problem(
                &at,
                format!("`step`: {why}"),
                "expected a duration",
                help.to_owned(),
            );
            None
        }
    }
}

fn drift(texts: &mut Texts, s: &Section<'_>) -> Option<f64> {
    let drift = signed_number(texts, s, "drift")?;
    if (DRIFT_MIN..=DRIFT_MAX).contains(&drift.abs()) {
        return Some(drift);
    }
    let help = "seconds gained a second: drift = 0.05 is 5 % fast, drift = -0.05 is 5 % slow";
    let label = format!("expected {DRIFT_MIN} to {DRIFT_MAX}, or as much below zero");
    texts.problem(
        &s.at("drift"),
        "`drift` out of range",
        label,
        help.to_owned(),
    );
    None
}

fn signed_number(texts: &mut Texts, s: &Section<'_>, key: &str) -> Option<f64> {
    let entry = s.entry(key)?;
    match entry.node.value {
        Value::Integer(n) => Some(n as f64),
        Value::Float(f) => Some(f),
        _ => {
            super::read::wrong_type(texts, key, &entry.node, "a number", None);
            None
        }
    }
}

fn loss(texts: &mut Texts, s: &Section<'_>) -> Option<f64> {
    let loss = s.number(texts, "loss")?;
    if (0.05..=0.9).contains(&loss) {
        return Some(loss);
    }
    let help = "a share of the packets, such as loss = 0.3; all of them is a partition";
    texts.problem(
        &s.at("loss"),
        "`loss` out of range",
        "expected 0.05 to 0.9",
        help.to_owned(),
    );
    None
}

/// Puts whichever are given into a fault's table.
pub fn write(m: &Measures, t: &mut Table) {
    if let Some(ns) = m.step_ns {
        let sign = if ns < 0 { '-' } else { '+' };
        let size = duration::text(Duration::from_nanos(ns.unsigned_abs()));
        t.insert("step".into(), format!("{sign}{size}").into());
    }
    for (key, value) in [("drift", m.drift), ("loss", m.loss)] {
        if let Some(value) = value {
            t.insert(key.into(), value.into());
        }
    }
    for (key, value) in [("rate", m.rate), ("bytes", m.bytes)] {
        if let Some(value) = value.and_then(|v| i64::try_from(v).ok()) {
            t.insert(key.into(), value.into());
        }
    }
    if let Some(gap) = m.gap {
        t.insert("gap".into(), duration::text(gap).into());
    }
}

/// The key's schema; none: it is no measure.
pub fn schema(key: &str) -> Option<serde_json::Value> {
    Some(match key {
        "step" => json!({ "type": "string", "pattern": "^[+-]\\d", "examples": ["+60s", "-60s"] }),
        "drift" => json!({ "type": "number", "minimum": -DRIFT_MAX, "maximum": DRIFT_MAX }),
        "rate" => json!({ "type": "integer", "minimum": 1, "maximum": 1_000_000 }),
        "bytes" => json!({ "type": "integer", "minimum": 1, "maximum": 1_000_000_000 }),
        "loss" => json!({ "type": "number", "minimum": 0.05, "maximum": 0.9 }),
        _ => return None,
    })
}

/// What to write where a needed key is missing.
pub fn example(key: &str) -> Option<&'static str> {
    Some(match key {
        "rate" => "how many kilobytes a second pass: rate = 8",
        "bytes" => "how many bytes: bytes = 100",
        "loss" => "which share of the packets is lost: loss = 0.3",
        _ => return None,
    })
}
