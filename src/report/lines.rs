//! The lines of a history in a folder of results: opened, bounded, taken one by one.
//!
//! Owns reading the file. Must not know what events mean. `scan`, `compare` and the scorecard take events from here.
use super::ReportError;
use fencepost_checker::{Event, Header};
use std::io::{BufRead, Read};
use std::path::Path;

/// Longest line in bytes.
const LINE_MAX: u64 = 1 << 20;

/// A history in somebody's results; a pipe or a device there would be read for ever.
pub(super) fn open(path: &Path) -> Result<std::io::BufReader<std::fs::File>, ReportError> {
    let file = crate::foreign::open(path).map_err(|e| ReportError::io(path, e))?;
    Ok(std::io::BufReader::with_capacity(1 << 16, file))
}

/// Take each event of a history in turn, for whoever needs more of it than a [`super::scan::Scan`] holds.
///
/// # Errors
/// When the file cannot be read or its first line is no header.
pub fn each_event(path: &Path, take: impl FnMut(&Event<'_>)) -> Result<(), ReportError> {
    let mut from = open(path)?;
    head(&mut from, path)?;
    body(&mut from, path, take)?;
    Ok(())
}

/// The first line.
pub(super) fn head(from: &mut impl BufRead, path: &Path) -> Result<Header, ReportError> {
    let mut line = Vec::new();
    match next_line(from, &mut line).map_err(|e| ReportError::io(path, e))? {
        Line::End => Err(ReportError::Empty { path: path.into() }),
        Line::TooLong => Err(ReportError::header(
            path,
            "its first line is longer than 1 MiB",
        )),
        Line::Whole | Line::Torn => {
            let text = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&line);
            serde_json::from_slice(text).map_err(|e| ReportError::header(path, e))
        }
    }
}

/// Each event; gives the number of lines that are none, and the bytes of a torn last line.
pub(super) fn body(
    from: &mut impl BufRead,
    path: &Path,
    mut take: impl FnMut(&Event<'_>),
) -> Result<(u64, u64), ReportError> {
    let mut line = Vec::new();
    let (mut bad, mut torn) = (0, 0);
    loop {
        line.clear();
        match next_line(from, &mut line).map_err(|e| ReportError::io(path, e))? {
            Line::End => return Ok((bad, torn)),
            Line::TooLong => bad += 1,
            Line::Whole if line.iter().all(u8::is_ascii_whitespace) => {}
            kind @ (Line::Whole | Line::Torn) => match serde_json::from_slice::<Event<'_>>(&line) {
                Ok(event) => take(&event),
                Err(_) if matches!(kind, Line::Torn) => torn = line.len() as u64,
                Err(_) => bad += 1,
            },
        }
    }
}

enum Line {
    Whole,
    /// Without its line feed: the last one.
    Torn,
    TooLong,
    End,
}

fn next_line(from: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<Line> {
    let n = from.by_ref().take(LINE_MAX).read_until(b'\n', line)?;
    if n == 0 {
        return Ok(Line::End);
    }
    if line.last() == Some(&b'\n') {
        return Ok(Line::Whole);
    }
    if (n as u64) < LINE_MAX {
        return Ok(Line::Torn);
    }
    from.skip_until(b'\n')?;
    Ok(Line::TooLong)
}
