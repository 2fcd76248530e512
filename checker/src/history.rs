//! History files: JSON lines, a header and then an event a line, read as a stream.
//!
//! Owns the file format and everything that can be wrong with a file. Must not know what events mean; they go to
//! [`Checker`]. At no time is more than one line in memory, and a line is at most [`LINE_MAX`] bytes.
//!
//! Tolerated: empty lines, unknown fields, a missing newline at the end, and a torn last line (the run was killed
//! while it wrote), which is counted as `torn_bytes`. Everything else is an error with its place.
use crate::Checker;
use crate::event::Event;
use crate::model::Header;
use crate::verdict::Verdict;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// The version of the format that this crate reads and writes.
pub const FORMAT: u32 = 1;
/// Bytes in a line, at most.
pub const LINE_MAX: usize = 1 << 20;

/// What is wrong with a history file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// It could not be opened or read.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// Nothing in it.
    #[error("the file is empty")]
    Empty,
    /// A header and nothing else.
    #[error("the history has a header, but no event")]
    NoEvents,
    /// Not a text file.
    #[error("line {line} is not text: {what}")]
    Binary {
        /// Line number, from 1.
        line: u64,
        /// What it looks like.
        what: &'static str,
    },
    /// Text of another format.
    #[error("not a fencepost history: {what}")]
    Foreign {
        /// What it looks like.
        what: &'static str,
    },
    /// It begins with an event.
    #[error("line 1 is an event, but the first line of a history is its header")]
    MissingHeader,
    /// It looks like a header, but does not fit.
    #[error("line {line}, column {column}: not a good header: {message}")]
    BadHeader {
        /// Line number, from 1.
        line: u64,
        /// Column in bytes, from 1.
        column: usize,
        /// What was expected, in the parser's words.
        message: String,
    },
    /// A newer or unknown format.
    #[error("the history has format {found}, but this is for format {FORMAT}")]
    UnsupportedVersion {
        /// The version in the header.
        found: u64,
    },
    /// A line that is no event.
    #[error("line {line}, column {column}: not a good event: {message}")]
    BadLine {
        /// Line number, from 1.
        line: u64,
        /// Column in bytes, from 1.
        column: usize,
        /// What was expected, in the parser's words.
        message: String,
    },
    /// A line without end.
    #[error("line {line} is longer than {LINE_MAX} bytes")]
    LineTooLong {
        /// Line number, from 1.
        line: u64,
    },
}

impl HistoryError {
    /// What to do about it, in a line.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Io(_) => "is the path right, and may it be read?",
            Self::Empty | Self::NoEvents => {
                "a run that recorded nothing cannot be judged; look at its log"
            }
            Self::Binary { .. } => "give the file as the run wrote it: uncompressed JSON lines",
            Self::Foreign { .. } => {
                "the first line must be a header such as {\"fencepost\":1,\"workload\":\"x\",\"seed\":0,\"model\":{}}"
            }
            Self::MissingHeader => {
                "put a header before it: {\"fencepost\":1,\"workload\":\"x\",\"seed\":0,\"model\":{}}"
            }
            Self::UnsupportedVersion { .. } => "use the version of fencepost that wrote it",
            Self::BadHeader { .. } | Self::BadLine { .. } => {
                "`fencepost schema history` prints what a line may hold"
            }
            Self::LineTooLong { .. } => "every event is one line of its own",
        }
    }
}

/// Checks a history file.
///
/// # Errors
/// Whatever is wrong with the file; never a violation, which is in the verdict.
pub fn check_path(path: &Path) -> Result<Verdict, HistoryError> {
    check_reader(BufReader::with_capacity(1 << 18, File::open(path)?))
}

/// Checks a history from any reader, line by line.
///
/// # Errors
/// As [`check_path`].
pub fn check_reader(reader: impl BufRead) -> Result<Verdict, HistoryError> {
    let mut lines = Lines::new(reader);
    let header = loop {
        match lines.next()? {
            None => return Err(HistoryError::Empty),
            Some(line) if line.text.is_empty() => {}
            Some(line) => break header(&line)?,
        }
    };
    let mut checker = Checker::new(header);
    let mut events = 0u64;
    let mut torn = 0;
    while let Some(line) = lines.next()? {
        if line.text.is_empty() {
            continue;
        }
        match parse(&line) {
            Ok(event) => {
                events += 1;
                checker.push(&event);
            }
            Err(_) if line.last => torn = line.text.len() as u64,
            Err(e) => return Err(e),
        }
    }
    if events == 0 {
        return Err(HistoryError::NoEvents);
    }
    let mut verdict = checker.finish();
    verdict.counts.insert("torn_bytes".to_owned(), torn);
    Ok(verdict)
}

fn parse<'a>(line: &Line<'a>) -> Result<Event<'a>, HistoryError> {
    let text = text(line)?;
    serde_json::from_str(text).map_err(|e| HistoryError::BadLine {
        line: line.number,
        column: e.column(),
        message: message(&e),
    })
}

/// The parser's words without its place, which is always line 1.
fn message(e: &serde_json::Error) -> String {
    let text = e.to_string();
    let end = text.rfind(" at line ").unwrap_or(text.len());
    text[..end].chars().take(300).collect()
}

fn text<'a>(line: &Line<'a>) -> Result<&'a str, HistoryError> {
    let binary = |what| HistoryError::Binary {
        line: line.number,
        what,
    };
    if line.text.contains(&0) {
        return Err(binary("it has NUL bytes"));
    }
    std::str::from_utf8(line.text).map_err(|_| binary("it is not UTF-8"))
}

fn header(line: &Line<'_>) -> Result<Header, HistoryError> {
    let magic = |bytes: &[u8]| line.text.starts_with(bytes);
    let what = if magic(&[0x1f, 0x8b]) {
        Some("it is compressed with gzip")
    } else if magic(&[0x28, 0xb5, 0x2f, 0xfd]) {
        Some("it is compressed with zstd")
    } else {
        None
    };
    if let Some(what) = what {
        return Err(HistoryError::Binary {
            line: line.number,
            what,
        });
    }
    let text = text(line)?.trim_start_matches('\u{feff}');
    let foreign = |what| Err(HistoryError::Foreign { what });
    if text.starts_with("{:") || text.starts_with("[{:") || text.starts_with("#jepsen") {
        return foreign("it looks like EDN");
    }
    let bad = |e: &serde_json::Error| HistoryError::BadHeader {
        line: line.number,
        column: e.column(),
        message: message(e),
    };
    let value: serde_json::Value = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(e) if text.starts_with("{\"fencepost\"") => return Err(bad(&e)),
        Err(_) => return foreign("its first line is no JSON"),
    };
    let Some(object) = value.as_object() else {
        return foreign("its first line is JSON, but no object");
    };
    match object.get("fencepost") {
        None if serde_json::from_str::<Event<'_>>(text).is_ok() => {
            return Err(HistoryError::MissingHeader);
        }
        None => return foreign("its first line has no `fencepost` version"),
        Some(v) => match v.as_u64() {
            Some(found) if found != u64::from(FORMAT) => {
                return Err(HistoryError::UnsupportedVersion { found });
            }
            // Anything but a number is said by the parser below, with its column.
            _ => {}
        },
    }
    serde_json::from_str(text).map_err(|e| bad(&e))
}

/// One line, without its end.
struct Line<'a> {
    text: &'a [u8],
    number: u64,
    /// It ends with the file, not with a newline.
    last: bool,
}

/// Bounded lines of a reader.
struct Lines<R> {
    reader: R,
    buffer: Vec<u8>,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    fn new(reader: R) -> Self {
        Self {
            reader,
            buffer: Vec::new(),
            number: 0,
        }
    }

    fn next(&mut self) -> Result<Option<Line<'_>>, HistoryError> {
        self.buffer.clear();
        let limit = LINE_MAX as u64 + 2;
        let read = (&mut self.reader)
            .take(limit)
            .read_until(b'\n', &mut self.buffer)?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        let number = self.number;
        let ended = self.buffer.last() == Some(&b'\n');
        let text = self.buffer.trim_ascii();
        if text.len() > LINE_MAX || (!ended && read as u64 == limit) {
            return Err(if number == 1 && text.contains(&0) {
                HistoryError::Binary {
                    line: 1,
                    what: "it has NUL bytes",
                }
            } else {
                HistoryError::LineTooLong { line: number }
            });
        }
        Ok(Some(Line {
            text,
            number,
            last: !ended,
        }))
    }
}
