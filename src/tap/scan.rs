//! Where one RESP message ends and the next begins, whatever way its bytes are cut.
//!
//! Owns the framing of RESP2, RESP3 and inline commands, as a scanner that takes bytes as they come and never looks at
//! one twice. Must not know what a message means or what becomes of it: it changes no byte. Messages go to `stream`.
//!
//! Format: <https://redis.io/docs/latest/develop/reference/protocol-spec/>. Streamed types (`$?`) are sent by no server
//! and are refused, as is whatever else is no RESP; the connection then passes bytes unread.
use std::ops::Range;

/// Longest line (a simple string, a length, an inline command) in bytes; Redis itself allows 64 KiB.
const LINE_MAX: usize = 256 << 10;
/// Deepest nesting.
const DEPTH_MAX: usize = 128;
/// Parts of a message whose place is noted: arguments of a command, the first values of a reply.
const PARTS_MAX: usize = 64;

/// The bytes are no RESP.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no RESP: {0}")]
pub struct ScanError(pub &'static str);

/// What is known of a message once it, or its head, was scanned.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shape {
    /// First byte; for an inline command its first letter.
    pub kind: u8,
    /// Places of its first strings and numbers, counted from its first byte, at any depth, in order.
    pub parts: Vec<Range<usize>>,
    /// Strings and numbers in it, also those whose place is not noted.
    pub count: usize,
    /// The last integer in it.
    pub last_integer: i64,
}

/// Which end writes the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// A client: arrays of strings, or inline commands.
    Requests,
    /// A server: any value.
    Replies,
}

#[derive(Debug)]
enum State {
    /// In a line that began at this place of the message.
    Line(usize),
    /// In a string whose content still lacks so many bytes, CR and LF included.
    Bulk(u64),
}

/// Scans one message after another.
#[derive(Debug)]
pub struct Scan {
    side: Side,
    state: State,
    line: Vec<u8>,
    /// Values that are still to come, by depth.
    left: Vec<u64>,
    /// Bytes of the message so far.
    at: usize,
    shape: Shape,
}

impl Scan {
    /// At the beginning of a message.
    pub fn new(side: Side) -> Self {
        Self {
            side,
            state: State::Line(0),
            line: Vec::new(),
            left: Vec::new(),
            at: 0,
            shape: Shape::default(),
        }
    }

    /// What is known so far of the message under way.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Takes bytes until the message ends: how many it took, and whether it ended. The shape is then complete, and
    /// [`Scan::begin`] makes ready for the next.
    ///
    /// # Errors
    /// What was scanned cannot be RESP. The scanner is of no use afterwards.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(usize, bool), ScanError> {
        let mut used = 0;
        while used < bytes.len() {
            let rest = &bytes[used..];
            if self.at == 0 {
                self.shape.kind = rest[0];
            }
            match self.state {
                State::Bulk(left) => {
                    let take = usize::try_from(left).map_or(rest.len(), |l| l.min(rest.len()));
                    self.at += take;
                    used += take;
                    let left = left - take as u64;
                    self.state = State::Bulk(left);
                    if left == 0 {
                        self.state = State::Line(self.at);
                        if self.value_ends() {
                            return Ok((used, true));
                        }
                    }
                }
                State::Line(start) => {
                    let end = rest.iter().position(|b| *b == b'\n');
                    let take = end.map_or(rest.len(), |e| e + 1);
                    if self.line.len() + take > LINE_MAX {
                        return Err(ScanError("a line without end"));
                    }
                    self.line.extend_from_slice(&rest[..take]);
                    self.at += take;
                    used += take;
                    if end.is_some() {
                        let line = std::mem::take(&mut self.line);
                        let ended = self.line_ends(&line, start);
                        self.line = line;
                        self.line.clear();
                        if ended? {
                            return Ok((used, true));
                        }
                    }
                }
            }
        }
        Ok((used, false))
    }

    /// Makes ready for the next message, and gives the shape of the last.
    pub fn begin(&mut self) -> Shape {
        self.state = State::Line(0);
        self.at = 0;
        self.left.clear();
        std::mem::take(&mut self.shape)
    }

    /// A whole line is there; true if the message ends with it.
    fn line_ends(&mut self, line: &[u8], start: usize) -> Result<bool, ScanError> {
        if self.side == Side::Requests && start == 0 && line[0] != b'*' {
            self.inline(line);
            return Ok(true);
        }
        let body = line
            .strip_suffix(b"\r\n")
            .ok_or(ScanError("a line that ends without CR LF"))?;
        let Some((&kind, body)) = body.split_first() else {
            return Err(ScanError("an empty line"));
        };
        self.state = State::Line(self.at);
        match kind {
            b'$' | b'=' | b'!' => {
                if let Some(length) = length(body)? {
                    self.part(self.at..self.at + length);
                    self.state = State::Bulk(length as u64 + 2);
                    return Ok(false);
                }
                self.part(self.at..self.at);
            }
            b'*' | b'~' | b'>' | b'%' | b'|' => {
                let n = length(body)?.unwrap_or(0) as u64;
                // An attribute stands before the value that it belongs to.
                let n = match kind {
                    b'%' => n * 2,
                    b'|' => n * 2 + 1,
                    _ => n,
                };
                if n > 0 {
                    if self.left.len() == DEPTH_MAX {
                        return Err(ScanError("nested too deeply"));
                    }
                    self.left.push(n);
                    return Ok(false);
                }
            }
            b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => {
                self.part(start + 1..start + 1 + body.len());
                if kind == b':' {
                    self.shape.last_integer = number(body)?;
                }
            }
            _ => return Err(ScanError("an unknown type")),
        }
        Ok(self.value_ends())
    }

    /// A value is complete; true if the message is, too.
    fn value_ends(&mut self) -> bool {
        while let Some(left) = self.left.last_mut() {
            *left -= 1;
            if *left > 0 {
                return false;
            }
            self.left.pop();
        }
        true
    }

    fn part(&mut self, place: Range<usize>) {
        self.shape.count += 1;
        if self.shape.parts.len() < PARTS_MAX {
            self.shape.parts.push(place);
        }
    }

    /// The words of an inline command; quotes are taken off, escapes in them are left as they are.
    fn inline(&mut self, line: &[u8]) {
        let mut at = 0;
        while at < line.len() {
            if line[at].is_ascii_whitespace() || line[at] == 0 {
                at += 1;
                continue;
            }
            let quote = matches!(line[at], b'"' | b'\'').then_some(line[at]);
            let start = at + usize::from(quote.is_some());
            let mut end = start;
            while end < line.len() {
                match quote {
                    Some(b'"') if line[end] == b'\\' => end += 1,
                    Some(q) if line[end] == q => break,
                    None if line[end].is_ascii_whitespace() => break,
                    _ => {}
                }
                end += 1;
            }
            let end = end.min(line.len());
            self.part(start..end);
            at = end + usize::from(quote.is_some());
        }
    }
}

fn number(text: &[u8]) -> Result<i64, ScanError> {
    let text = std::str::from_utf8(text).ok();
    text.and_then(|t| t.parse().ok())
        .ok_or(ScanError("no number where one must be"))
}

/// A length; none for the `-1` of RESP2's null.
fn length(text: &[u8]) -> Result<Option<usize>, ScanError> {
    match number(text)? {
        -1 => Ok(None),
        n if (0..=1 << 40).contains(&n) => Ok(usize::try_from(n).ok()),
        _ => Err(ScanError("a length out of range")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shapes(side: Side, bytes: &[u8]) -> Vec<(usize, Shape)> {
        let mut scan = Scan::new(side);
        let mut all = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let (used, ended) = scan.take(&bytes[at..]).expect("RESP");
            at += used;
            assert!(ended, "cut short");
            all.push((used, scan.begin()));
        }
        all
    }

    fn words(bytes: &[u8], shape: &Shape) -> Vec<String> {
        let word = |r: &Range<usize>| String::from_utf8_lossy(&bytes[r.clone()]).into_owned();
        shape.parts.iter().map(word).collect()
    }

    #[test]
    fn every_type_of_reply_ends_where_it_ends() {
        for reply in [
            "+OK\r\n",
            "-ERR no\r\n",
            ":-2\r\n",
            "$-1\r\n",
            "$0\r\n\r\n",
            "$6\r\na\r\n*1\r\r\n",
            "*-1\r\n",
            "*0\r\n",
            "*2\r\n*1\r\n:1\r\n$1\r\nx\r\n",
            "_\r\n",
            "#t\r\n",
            ",1.5\r\n",
            "(12345678901234567890\r\n",
            "=7\r\ntxt:abc\r\n",
            "!5\r\nERR x\r\n",
            "%2\r\n+a\r\n:1\r\n+b\r\n*2\r\n:1\r\n:2\r\n",
            "~1\r\n+x\r\n",
            ">2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n",
            "|1\r\n+ttl\r\n:3\r\n*2\r\n:1\r\n:2\r\n",
        ] {
            let twice = [reply.as_bytes(), reply.as_bytes()].concat();
            let found = shapes(Side::Replies, &twice);
            let ends: Vec<usize> = found.iter().map(|(used, _)| *used).collect();
            assert_eq!(ends, [reply.len(), reply.len()], "{reply:?}");
        }
    }

    #[test]
    fn commands_are_found_as_arrays_and_as_lines() {
        let bytes = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\n\r\n\r\n";
        let found = shapes(Side::Requests, bytes);
        assert_eq!(words(bytes, &found[0].1), ["SET", "k", "\r\n"]);
        let bytes = b"set  k \"a \\\" b\" 'c d'\r\n";
        let found = shapes(Side::Requests, bytes);
        assert_eq!(words(bytes, &found[0].1), ["set", "k", "a \\\" b", "c d"]);
        assert_eq!(shapes(Side::Requests, b"\r\n")[0].1.count, 0);
        assert_eq!(shapes(Side::Requests, b"*0\r\n")[0].1.count, 0);
    }

    #[test]
    fn what_is_no_resp_is_refused() {
        for bad in ["?\r\n", "$x\r\n", "$-2\r\n", "+a\n", "\r\n", "*1\r\n$?\r\n"] {
            let mut scan = Scan::new(Side::Replies);
            assert!(scan.take(bad.as_bytes()).is_err(), "{bad:?}");
        }
    }
}
