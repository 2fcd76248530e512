//! The summaries as JSON, for machines (`--json`).
//!
//! Owns the frame `{"fencepost":1,"runs":[…]}`, always with an array, so that a reader needs one way for one run and
//! for many. Must not know what a summary means. Texts are as they came, but every character that could drive a
//! terminal or deceive a reader is escaped (`\u202e`), which JSON readers undo.
use super::Summary;
use super::sanitise::is_dangerous;
use serde::Serialize;
use std::io;

/// All summaries as one line of JSON, with a line feed.
///
/// # Errors
/// None that a summary can cause; those of `serde_json` are passed on.
pub fn json(summaries: &[Summary]) -> Result<String, serde_json::Error> {
    #[derive(Serialize)]
    struct Frame<'a> {
        fencepost: u32,
        runs: &'a [Summary],
    }
    escaped(&Frame {
        fencepost: 1,
        runs: summaries,
    })
}

/// Anything as one line of JSON in which dangerous characters are escaped, with a line feed.
///
/// # Errors
/// Those of `serde_json`.
pub fn escaped(value: &impl Serialize) -> Result<String, serde_json::Error> {
    let mut out = Vec::new();
    value.serialize(&mut serde_json::Serializer::with_formatter(
        &mut out, Escaping,
    ))?;
    out.push(b'\n');
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// Compact JSON in which dangerous characters are escaped.
struct Escaping;

impl serde_json::ser::Formatter for Escaping {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        to: &mut W,
        text: &str,
    ) -> io::Result<()> {
        let mut rest = text;
        // `#` too: `##[` anywhere in a line is a command to some CI services.
        while let Some(at) = rest.find(|c| c == '#' || is_dangerous(c)) {
            to.write_all(&rest.as_bytes()[..at])?;
            let c = rest[at..].chars().next().unwrap_or_default();
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                write!(to, "\\u{unit:04x}")?;
            }
            rest = &rest[at + c.len_utf8()..];
        }
        to.write_all(rest.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dangerous_characters_are_escaped_and_come_back() -> Result<(), serde_json::Error> {
        let hostile = "a\u{9b}31m\u{202e}b\u{e0041}\n\u{1b}##[error]";
        let mut out = Vec::new();
        hostile.serialize(&mut serde_json::Serializer::with_formatter(
            &mut out, Escaping,
        ))?;
        let text = String::from_utf8_lossy(&out).into_owned();
        assert!(
            !text.chars().any(is_dangerous) && !text.contains('#'),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<String>(&text)?, hostile);
        Ok(())
    }
}
