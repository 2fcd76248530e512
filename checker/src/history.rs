//! History files: JSON lines, a header and then an event a line, read as a stream; or EDN, as Jepsen and Knossos write it.
//!
//! Owns the file format and everything that can be wrong with a file. Must not know what events mean; they go to
//! [`Checker`]. At no time is more than one line in memory, and a line is at most [`LINE_MAX`] bytes. Either may be
//! compressed with zstd, in any number of frames.
//!
//! Tolerated: empty lines, unknown fields, a missing newline at the end, and a torn last line (the run was killed
//! while it wrote), which is counted as `torn_bytes`; the order is the file's, whatever `index` says; times of different
//! processes need not rise. An answer without an invoke, or before it, is counted and makes the verdict unknown, and so
//! does a gap where `index` rises from line to line: what stood there may be just what would have been found.
//! Everything else is an error with its place.
//!
//! # EDN
//! A vector, a list, or one map after another, each an operation with `:type`, `:process`, `:f`, and perhaps `:time`,
//! `:value`, `:error`, `:key`. It is read as a whole, at most [`EDN_MAX`] bytes. The nemesis and other functions than those of
//! [`Options`] are skipped, whatever else they hold. A process is a number from 0, or a name. What is assumed below, because
//! the history does not say it, stands in [`Verdict::reading`].
//!
//! *Times.* `:time` is in nanoseconds, a whole number; the earliest may be below 0. The order of the text counts for the
//! operations of one process, and for all others where times are equal: each is then a nanosecond behind the one above it, but
//! with an uncertainty of clocks, where equal times are concurrent. Where an operation of a lock has none, all count by their
//! place in the text, a millisecond each; under a lease or an uncertainty of clocks that is an error.
//!
//! *Locks.* The lock's name is what stands under `:key`, or under `:key` or `:lock` of a map in `:value`. A plain `:value` (a
//! keyword, text or whole number), or the first of two, may be anything: a name of the lock, of its holder, of a node, a
//! number of tries. So it is taken for a name only where nothing has a `:key`, every invoke of an acquire has such a value,
//! and either all of these are pairs with nil or a map, as `jepsen.independent` writes them, or
//! - two processes use one value, each of which began before the last operation of the other, so that none goes on for the
//!   other (a holder's name fails here), and
//! - one process acquires with one value and then with another (a node's name fails here), and if they are numbers, with a
//!   smaller one after a larger (a number of tries fails here).
//!
//! Otherwise there is one lock. [`KeyFrom`](crate::KeyFrom) says how it is: the value, nothing, or a field. A release or an
//! extension that does not name its lock is of the one that its worker acquired last and still has; an answer is of the
//! lock of its invoke.
//!
//! *Workers.* Jepsen renews a process after an `:info`: process p goes on as p + n, with n threads. The smallest n from 2 on
//! counts with which each process from n on follows the one n below it, which had crashed before, and did nothing afterwards;
//! all operations count, those of no lock too. Then p and p + n are one worker, so that its clean-up is no stranger's. Where no
//! n fits, each process is a worker of its own. [`Options::threads`] says how many there are.
//!
//! *Answers.* A `:value`, the second of two, or the operation itself may hold `:owner`, `:token` (or `:fence`), `:ttl-ms`,
//! `:validity-ms` and `:shared`. A failed acquire tells that another held the lock only where its `:error` is `:held`,
//! `:locked` or `:lock-held`.
use crate::event::Event;
use crate::model::Header;
use crate::verdict::Verdict;
use crate::zst::{self, Damaged};
use crate::{Checker, Options, edn};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// The version of the format that this crate reads and writes.
pub const FORMAT: u32 = 1;
/// Bytes in a line, at most.
pub const LINE_MAX: usize = 1 << 20;
/// Bytes in a history in EDN, at most, since it is read as a whole.
pub const EDN_MAX: u64 = 1 << 30;
/// Bytes that tell what a file is.
const HEAD: u64 = 4096;
/// Bytes that are read at once.
const BUFFER: usize = 1 << 18;

/// What is wrong with a history file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// It could not be opened or read.
    #[error("cannot be read: {0}")]
    Io(#[source] io::Error),
    /// What is compressed is damaged.
    #[error("byte {byte} of the compressed file: {what}")]
    Compressed {
        /// Where in the file, from 0.
        byte: u64,
        /// What is wrong.
        what: String,
    },
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
    /// EDN that is no history.
    #[error("line {line}, column {column}: {message}")]
    BadEdn {
        /// Line number, from 1.
        line: u64,
        /// Column in bytes, from 1.
        column: usize,
        /// What is wrong.
        message: String,
    },
    /// A header that does not begin the history.
    #[error("line {line} is a header, which only begins a history")]
    SecondHeader {
        /// Line number, from 1.
        line: u64,
    },
    /// An operation in EDN that does not say when it was, where that is needed.
    #[error(
        "line {line}, column {column}: an operation without :time, but without times neither a lease nor the uncertainty \
         of clocks can be judged"
    )]
    NoTime {
        /// Line number, from 1.
        line: u64,
        /// Column in bytes, from 1.
        column: usize,
    },
    /// What [`Options`] say is not possible.
    #[error("{name}: {what}")]
    BadOption {
        /// The field, as in a header.
        name: &'static str,
        /// What is wrong.
        what: String,
    },
    /// EDN without any operation of a lock.
    #[error("no operation acquires or releases a lock; there are: {seen}")]
    NoLock {
        /// Names of its operations, a few.
        seen: String,
    },
    /// A history in EDN that is too long to be read as a whole.
    #[error("longer than {EDN_MAX} bytes, which is too much for EDN")]
    TooLong,
    /// An operation in EDN without end.
    #[error("the operation that begins in line {line} is longer than {LINE_MAX} bytes")]
    FormTooLong {
        /// Line number, from 1.
        line: u64,
    },
    /// A line without end.
    #[error("line {line} is longer than {LINE_MAX} bytes")]
    LineTooLong {
        /// Line number, from 1.
        line: u64,
    },
}

impl From<io::Error> for HistoryError {
    fn from(error: io::Error) -> Self {
        match error.downcast::<Damaged>() {
            Ok(Damaged { byte, what }) => Self::Compressed { byte, what },
            Err(error) => Self::Io(error),
        }
    }
}

impl HistoryError {
    /// What to do about it, in a line.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Io(_) => "is the path right, and may it be read?",
            Self::Compressed { .. } => "is it all there? `zstd -t FILE` tells the same",
            Self::Empty | Self::NoEvents => {
                "a run that recorded nothing cannot be judged; look at its log"
            }
            Self::Binary { .. } => {
                "give the file as the run wrote it: JSON lines, plain or compressed with zstd"
            }
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
            Self::BadEdn { .. } => {
                "an operation is a map such as {:type :invoke, :process 0, :f :acquire, :time 0}"
            }
            Self::SecondHeader { .. } => "are these two histories? give each a file of its own",
            Self::NoTime { .. } => {
                "give each operation a :time in nanoseconds, or judge it without --ttl and --clock-uncertainty"
            }
            Self::BadOption { .. } => "`fencepost check --help` says what may be given",
            Self::NoLock { .. } => {
                "say which of them do with --acquire and --release, such as --acquire :lock"
            }
            Self::TooLong => "JSON lines may be as long as they like",
            Self::FormTooLong { .. } => "is there a quote or a bracket too few?",
            Self::LineTooLong { .. } => "every event is one line of its own",
        }
    }
}

/// Checks a history file: JSON lines or EDN, compressed with zstd or not, by its content.
///
/// # Errors
/// Whatever is wrong with the file; never a violation, which is in the verdict.
pub fn check_path(path: &Path) -> Result<Verdict, HistoryError> {
    check_with(open(path)?, &Options::default())
}

/// Opens a history file, through the decoder if it is compressed with zstd.
///
/// # Errors
/// As the system says.
pub fn open(path: &Path) -> Result<Box<dyn BufRead>, HistoryError> {
    open_reader(File::open(path)?)
}

/// Opens a history that is read from elsewhere, a pipe say, through the decoder if it is compressed with zstd: all of its
/// frames, one after another, with their checksums.
///
/// # Errors
/// As the system says.
pub fn open_reader(reader: impl Read + 'static) -> Result<Box<dyn BufRead>, HistoryError> {
    let (head, reader) = begun(BufReader::with_capacity(BUFFER, reader))?;
    if zst::looks_like(&head) {
        let frames = zst::Frames::new(reader);
        return Ok(Box::new(BufReader::with_capacity(BUFFER, frames)));
    }
    Ok(Box::new(reader))
}

/// The beginning of what a reader gives, [`HEAD`] bytes where there are as many, and the reader as it was before: a pipe
/// may give a byte at a time.
fn begun<R: BufRead>(mut reader: R) -> io::Result<(Vec<u8>, impl BufRead)> {
    let mut head = Vec::new();
    reader.by_ref().take(HEAD).read_to_end(&mut head)?;
    let again = io::Cursor::new(head.clone());
    Ok((head, again.chain(reader)))
}

/// Checks a history in JSON lines from any reader, line by line.
///
/// # Errors
/// As [`check_path`].
pub fn check_reader(reader: impl BufRead) -> Result<Verdict, HistoryError> {
    check_with(reader, &Options::default())
}

/// Checks a history from any reader, JSON lines or EDN, with what is known beside it.
///
/// # Errors
/// As [`check_path`].
pub fn check_with(reader: impl BufRead, options: &Options) -> Result<Verdict, HistoryError> {
    let (head, reader) = begun(reader)?;
    if edn::looks_like(&head) {
        return edn::check(&edn::whole(reader)?, options);
    }
    check_lines(reader, options)
}

/// The same history in EDN, as Jepsen and Knossos read it.
///
/// # Errors
/// As [`check_path`].
pub fn to_edn(reader: impl BufRead, options: &Options) -> Result<String, HistoryError> {
    let mut out = edn::Writer::default();
    let (head, reader) = begun(reader)?;
    if edn::looks_like(&head) {
        edn::read(&edn::whole(reader)?, options, |h, e| out.add(h, e))?;
    } else {
        each_line(reader, options, |h, e| out.add(h, e))?;
    }
    Ok(out.finish())
}

/// Opens a history file as JSON lines, whatever it is written in.
///
/// # Errors
/// As [`check_path`].
pub fn open_lines(path: &Path, options: &Options) -> Result<Box<dyn BufRead>, HistoryError> {
    let (head, reader) = begun(open(path)?)?;
    if !edn::looks_like(&head) {
        return Ok(Box::new(reader));
    }
    let mut lines = Vec::new();
    let mut add = |value: Result<Vec<u8>, serde_json::Error>| {
        lines.extend(value.unwrap_or_default());
        lines.push(b'\n');
    };
    let mut head = true;
    edn::read(&edn::whole(reader)?, options, |header, event| {
        if std::mem::take(&mut head) {
            add(serde_json::to_vec(header));
        }
        add(serde_json::to_vec(event));
    })?;
    Ok(Box::new(io::Cursor::new(lines)))
}

fn check_lines(reader: impl BufRead, options: &Options) -> Result<Verdict, HistoryError> {
    let mut checker = None;
    let mut numbers = Numbers::default();
    let torn = each_line(reader, options, |header, event| {
        let checker = checker.get_or_insert_with(|| Checker::new(header.clone()));
        numbers.push(event.index);
        checker.push(event);
    })?;
    let Some(mut checker) = checker else {
        return Err(HistoryError::NoEvents);
    };
    if let Some((index, count)) = numbers.gap() {
        checker.missed(index, count);
    }
    let mut verdict = checker.finish();
    verdict.counts.insert("torn_bytes".to_owned(), torn);
    Ok(verdict)
}

/// The indexes of a history. Where each is above the one before, they number the events, and a gap is a loss; in any other
/// order they are names.
#[derive(Default)]
struct Numbers {
    next: u64,
    names: bool,
    /// Behind the first gap, and how many are missing in all.
    gap: Option<(u64, u64)>,
}

impl Numbers {
    fn push(&mut self, index: u64) {
        self.names |= index < self.next;
        if index > self.next {
            let (first, count) = self.gap.unwrap_or((index, 0));
            self.gap = Some((first, count.saturating_add(index - self.next)));
        }
        self.next = index.saturating_add(1);
    }

    fn gap(&self) -> Option<(u64, u64)> {
        self.gap.filter(|_| !self.names)
    }
}

/// Calls `each` with the header and every event; returns the bytes of a torn last line.
pub(crate) fn each_line(
    reader: impl BufRead,
    options: &Options,
    mut each: impl FnMut(&Header, &Event<'_>),
) -> Result<u64, HistoryError> {
    let mut lines = Lines::new(reader);
    let mut header = loop {
        match lines.next()? {
            None => return Err(HistoryError::Empty),
            Some(line) if line.text.is_empty() => {}
            Some(line) => break header(&line)?,
        }
    };
    options.apply(&mut header.model)?;
    let mut torn = 0;
    while let Some(line) = lines.next()? {
        if line.text.is_empty() {
            continue;
        }
        match parse(&line) {
            Ok(event) => each(&header, &event),
            Err(_) if is_header(line.text) => {
                return Err(HistoryError::SecondHeader { line: line.number });
            }
            Err(_) if line.last => torn = line.text.len() as u64,
            Err(e) => return Err(e),
        }
    }
    Ok(torn)
}

/// A header in a line of its own.
pub(crate) fn header_of(text: &str, number: u64) -> Result<Header, HistoryError> {
    header(&Line {
        text: text.as_bytes(),
        number,
        last: false,
    })
}

fn parse<'a>(line: &Line<'a>) -> Result<Event<'a>, HistoryError> {
    let text = text(line)?;
    serde_json::from_str(text).map_err(|e| {
        nul(line).unwrap_or(HistoryError::BadLine {
            line: line.number,
            column: e.column(),
            message: message(&e),
        })
    })
}

/// The parser's words without its place, which is always line 1.
fn message(e: &serde_json::Error) -> String {
    let text = e.to_string();
    let end = text.rfind(" at line ").unwrap_or(text.len());
    text[..end].chars().take(300).collect()
}

/// Text with NUL bytes is no JSON, and this says why.
fn nul(line: &Line<'_>) -> Option<HistoryError> {
    line.text.contains(&0).then_some(HistoryError::Binary {
        line: line.number,
        what: "it has NUL bytes",
    })
}

fn text<'a>(line: &Line<'a>) -> Result<&'a str, HistoryError> {
    let binary = |what| HistoryError::Binary {
        line: line.number,
        what,
    };
    std::str::from_utf8(line.text).map_err(|_| binary("it is not UTF-8"))
}

fn header(line: &Line<'_>) -> Result<Header, HistoryError> {
    let magic = |bytes: &[u8]| line.text.starts_with(bytes);
    let what = if magic(&[0x1f, 0x8b]) {
        Some("it is compressed with gzip")
    } else if magic(b"\xfd7zXZ\0") {
        Some("it is compressed with xz")
    } else if magic(b"BZh") {
        Some("it is compressed with bzip2")
    } else if magic(&[0x04, 0x22, 0x4d, 0x18]) {
        Some("it is compressed with lz4")
    } else if zst::looks_like(line.text) {
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
    if let Some(nul) = nul(line) {
        return Err(nul);
    }
    let text = text(line)?.trim_start_matches('\u{feff}');
    let foreign = |what| Err(HistoryError::Foreign { what });
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
    let header: Header = serde_json::from_str(text).map_err(|e| bad(&e))?;
    match header.model.wrong() {
        None => Ok(header),
        Some((name, what)) => Err(HistoryError::BadHeader {
            line: line.number,
            column: text.rfind(&format!("\"{name}\"")).map_or(1, |at| at + 1),
            message: format!("{name}: {what}"),
        }),
    }
}

/// Whether a line that is no event is a header.
fn is_header(line: &[u8]) -> bool {
    let value: Option<serde_json::Value> = serde_json::from_slice(line).ok();
    let version = value.as_ref().and_then(|v| v.get("fencepost"));
    version.is_some_and(serde_json::Value::is_number)
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
