//! The text of a history in EDN, which cannot be read line by line: as a whole, but no more than is good for anything.
//!
//! Owns the bounds: on the text, and on each operation in it, found while it is read. Must not know operations.
use super::BOM;
use crate::history::{EDN_MAX, HistoryError, LINE_MAX};
use std::io::BufRead;

/// Reads all of it.
pub(crate) fn whole(mut reader: impl BufRead) -> Result<String, HistoryError> {
    let mut bytes = Vec::new();
    let mut scan = Scan::default();
    if reader.fill_buf()?.starts_with(BOM) {
        reader.consume(BOM.len());
    }
    loop {
        let part = reader.fill_buf()?;
        if part.is_empty() {
            break;
        }
        scan.read(part)?;
        bytes.extend_from_slice(part);
        let read = part.len();
        reader.consume(read);
        if bytes.len() as u64 > EDN_MAX {
            return Err(HistoryError::TooLong);
        }
    }
    String::from_utf8(bytes).map_err(|e| {
        let good = &e.as_bytes()[..e.utf8_error().valid_up_to()];
        HistoryError::Binary {
            line: good.split(|b| *b == b'\n').count() as u64,
            what: "it is not UTF-8",
        }
    })
}

/// Where in a form the reading is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Inside {
    #[default]
    Form,
    Comment,
    Text,
    /// After a backslash in a text.
    Escape,
    /// After a backslash outside of texts: a character.
    Character,
}

/// Just enough of the syntax to see where operations begin and end.
#[derive(Debug, Default)]
struct Scan {
    inside: Inside,
    depth: u64,
    /// Depth at which operations stand: 1 in a vector or list; none before the first form.
    base: Option<u64>,
    /// Newlines before, and those before the operation that is read.
    lines: u64,
    begun: u64,
    /// Bytes of that operation.
    length: usize,
}

impl Scan {
    fn read(&mut self, part: &[u8]) -> Result<(), HistoryError> {
        for b in part {
            self.byte(*b);
            if self.length > LINE_MAX {
                return Err(HistoryError::FormTooLong {
                    line: self.begun + 1,
                });
            }
        }
        Ok(())
    }

    fn byte(&mut self, b: u8) {
        self.lines += u64::from(b == b'\n');
        let between = self.length == 0;
        match (self.inside, b) {
            (Inside::Comment, b'\n') | (Inside::Character, _) | (Inside::Text, b'"') => {
                self.inside = Inside::Form;
            }
            (Inside::Comment, _) => return,
            (Inside::Escape, _) | (Inside::Form, b'"') => self.inside = Inside::Text,
            (Inside::Text, b'\\') => self.inside = Inside::Escape,
            (Inside::Form, b';') => self.inside = Inside::Comment,
            (Inside::Form, b'\\') => self.inside = Inside::Character,
            (Inside::Form, b'[' | b'(') if self.base.is_none() => {
                (self.base, self.depth) = (Some(1), 1);
                return;
            }
            (Inside::Form, b'[' | b'(' | b'{') => self.depth += 1,
            (Inside::Form, b']' | b')' | b'}') => {
                self.depth = self.depth.saturating_sub(1);
                if self.depth <= self.base.unwrap_or(0) {
                    self.length = 0;
                    return;
                }
            }
            (Inside::Form | Inside::Text, _) => {}
        }
        let gap = b.is_ascii_whitespace() || b == b',' || self.inside == Inside::Comment;
        if gap && self.depth <= self.base.unwrap_or(0) && self.inside != Inside::Text {
            self.length = 0;
            return;
        }
        self.base.get_or_insert(0);
        if between {
            self.begun = self.lines;
        }
        self.length += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(text: &str) -> Option<u64> {
        match whole(text.as_bytes()) {
            Ok(read) => {
                assert_eq!(read, text);
                None
            }
            Err(HistoryError::FormTooLong { line }) => Some(line),
            Err(e) => panic!("{e}"),
        }
    }

    #[test]
    fn one_operation_is_bounded_and_all_together_are_not() {
        let op = "{:type :ok, :f \"a;]\\\"\", :value [\\\" \\] #{1}]} ; comment }\n";
        let many = op.repeat((2 << 20) / op.len());
        assert_eq!(judge(&many), None);
        assert_eq!(judge(&format!("[{many}]")), None);
        assert_eq!(judge(&format!("; a\n({many})")), None);
        let long = format!("{{:a \"{}\"}}", "x".repeat(1 << 20));
        assert_eq!(judge(&long), Some(1));
        assert_eq!(judge(&format!("{op}{op}#tag{long}")), Some(3));
        assert_eq!(judge(&format!("[{op}\n{long}]")), Some(3));
        assert_eq!(judge(&"[".repeat(2 << 20)), Some(1));
        assert_eq!(judge(&"x".repeat(2 << 20)), Some(1));
        assert_eq!(judge(&format!(";{}\n{op}", "x".repeat(2 << 20))), None);
        assert_eq!(judge(&" ,\n".repeat(1 << 20)), None);
    }
}
