//! Durations as people write them: a number and a unit, such as `1500ms`.
//!
//! Owns the format in both directions. Must not know where a duration stands in a file; `read` adds the place.
use serde::Serializer;
use std::time::Duration;

/// Units, with their length in seconds.
const UNITS: &[(&str, f64)] = &[
    ("us", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("m", 60.0),
    ("h", 3600.0),
];

/// Why a text is no duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// A bare number.
    #[error("a duration without a unit")]
    NoUnit,
    /// A unit that is none of ours.
    #[error("`{0}` is no unit of time")]
    UnknownUnit(String),
    /// No number before the unit.
    #[error("not a duration")]
    NoNumber,
    /// Below zero.
    #[error("a negative duration")]
    Negative,
    /// Too long to count in nanoseconds.
    #[error("a duration out of range")]
    OutOfRange,
}

/// Parse `300ms`, `2s`, `1.5s`, `2m`, `500us`, `1h`.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let text = text.trim();
    let split = text
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | '_')))
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: f64 = number
        .replace('_', "")
        .parse()
        .map_err(|_| DurationError::NoNumber)?;
    let unit = unit.trim();
    if unit.is_empty() {
        return Err(DurationError::NoUnit);
    }
    let Some((_, seconds)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(DurationError::UnknownUnit(unit.to_owned()));
    };
    if number < 0.0 {
        return Err(DurationError::Negative);
    }
    Duration::try_from_secs_f64(number * seconds).map_err(|_| DurationError::OutOfRange)
}

/// Shortest text that [`parse`] reads back, for durations of whole microseconds.
pub fn text(d: Duration) -> String {
    let ns = d.as_nanos();
    if ns.is_multiple_of(1_000_000_000) {
        format!("{}s", ns / 1_000_000_000)
    } else if ns.is_multiple_of(1_000_000) {
        format!("{}ms", ns / 1_000_000)
    } else {
        format!("{}us", ns as f64 / 1e3)
    }
}

/// For serde's `with`.
pub fn serialize<S: Serializer>(d: &Duration, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_str(&text(*d))
}

/// As the module itself, for optional durations.
pub mod optional {
    use serde::Serializer;
    use std::time::Duration;

    /// For serde's `with`.
    pub fn serialize<S: Serializer>(d: &Option<Duration>, s: S) -> Result<S::Ok, S::Error> {
        match d {
            Some(d) => s.serialize_some(&super::text(*d)),
            None => s.serialize_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        for (written, ns) in [
            ("300ms", 300_000_000),
            ("1.5s", 1_500_000_000),
            ("2 s", 2_000_000_000),
            ("2m", 120_000_000_000),
            ("500us", 500_000),
            ("1_000ms", 1_000_000_000),
            ("0s", 0),
        ] {
            let d = parse(written).expect(written);
            assert_eq!(d, Duration::from_nanos(ns), "{written}");
            assert_eq!(parse(&text(d)), Ok(d), "{written}");
        }
    }

    #[test]
    fn each_mistake_has_its_name() {
        use DurationError::{Negative, NoNumber, NoUnit, OutOfRange, UnknownUnit};
        for (written, why) in [
            ("300", NoUnit),
            ("", NoNumber),
            ("fast", NoNumber),
            ("300msec", UnknownUnit("msec".into())),
            ("3S", UnknownUnit("S".into())),
            ("-1s", Negative),
            ("99999999999999999999h", OutOfRange),
            ("1.2.3s", NoNumber),
            ("3µs", UnknownUnit("µs".into())),
        ] {
            assert_eq!(parse(written), Err(why), "{written}");
        }
    }
}
