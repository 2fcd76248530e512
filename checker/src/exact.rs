//! Numbers with a fraction, read to the nearest: so that what is written is read again as the same.
//!
//! Owns one reading, for serde's `deserialize_with`. Must not know fields. `serde_json` reads a number of many digits one
//! unit in the last place off, unless a feature is on that would slow every reader of JSON in the same program.
use serde::de::{Deserialize, Deserializer, Error};
use serde_json::value::RawValue;

/// A number; only from `serde_json`, since it is read from its text.
pub(crate) fn number<'de, D: Deserializer<'de>>(d: D) -> Result<f64, D::Error> {
    let raw = Box::<RawValue>::deserialize(d)?;
    parse(raw.get()).map_err(D::Error::custom)
}

/// A number or `null`; only from `serde_json`.
pub(crate) fn optional<'de, D: Deserializer<'de>>(d: D) -> Result<Option<f64>, D::Error> {
    let raw = Option::<Box<RawValue>>::deserialize(d)?;
    let parsed = raw.map(|raw| parse(raw.get()));
    parsed.transpose().map_err(D::Error::custom)
}

/// Of what is JSON already.
fn parse(text: &str) -> Result<f64, String> {
    let shown: String = text.chars().take(40).collect();
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        Ok(_) => Err(format!("number out of range: {shown}")),
        Err(_) => Err(format!("expected a number, not {shown}")),
    }
}
