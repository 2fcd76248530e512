//! The part of a text that a mistake is shown in.
//!
//! Owns how much of it is shown. Must not know what is wrong there. A file may be one line of a mebibyte, and the
//! renderer counts columns in 16 bits: of such a line only what is around the place is shown, under its right column.
use super::error::printable;
use miette::{MietteError, MietteSpanContents, SourceCode, SourceSpan, SpanContents};
use std::ops::Range;

/// Longest line that is shown whole, in bytes.
const LINE_MAX: usize = 500;

/// What is shown before a place in a longer line, in bytes.
const BEFORE: usize = 60;

/// Most lines that one place may cover.
const LINES_MAX: usize = 20;

/// A piece of a text with its name, and where in the text it begins.
#[derive(Debug, Clone)]
pub struct Excerpt {
    name: String,
    text: String,
    /// Byte offset of the piece.
    from: usize,
    /// Line on which it begins, from 0.
    line: usize,
    /// Byte of that line at which it begins, from 0.
    column: usize,
}

impl Excerpt {
    /// The lines around a byte range, or, where one is too long, a part of the line in which the range begins; and what
    /// of the range is inside. Control characters are replaced, byte for byte.
    pub(super) fn around(name: &str, text: &str, span: Range<usize>) -> (Self, SourceSpan) {
        let start = floor(text, span.start);
        let line_from = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let end_of = |from: usize| text[from..].find('\n').map_or(text.len(), |at| from + at);
        let mut end = floor(text, span.end).max(start);
        if text[start..end].matches('\n').count() >= LINES_MAX {
            end = end_of(start);
        }
        // The lines that would be shown: those of the place, one before and one after.
        let before = line_from.saturating_sub(1);
        let from = text[..before].rfind('\n').map_or(0, |at| at + 1);
        let to = end_of((end_of(end) + 1).min(text.len()));
        let (from, to) = if text[from..to].lines().all(|line| line.len() <= LINE_MAX) {
            (from, to)
        } else {
            let to = end_of(start).min(ceiling(text, start + LINE_MAX));
            end = end.min(to);
            let from = floor(text, start.saturating_sub(BEFORE));
            (from.max(line_from), to)
        };
        let excerpt = Self {
            name: name.to_owned(),
            text: printable(&text[from..to]),
            from,
            line: text[..from].matches('\n').count(),
            column: from - text[..from].rfind('\n').map_or(0, |at| at + 1),
        };
        (excerpt, (start..end).into())
    }
}

impl SourceCode for Excerpt {
    /// The piece, or exactly the range where no context is asked for (its line and column head what is shown).
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        before: usize,
        after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let start = span.offset().checked_sub(self.from);
        let inside = start.and_then(|start| {
            let (head, rest) = self.text.split_at_checked(start)?;
            Some((head, rest.get(..span.len())?))
        });
        let (head, rest) = inside.ok_or(MietteError::OutOfBounds)?;
        let (data, from, head) = if before + after == 0 {
            (rest, *span, head)
        } else {
            (self.text.as_str(), (self.from, self.text.len()).into(), "")
        };
        let column = match head.rfind('\n') {
            Some(at) => head.len() - at - 1,
            None => self.column + head.len(),
        };
        Ok(Box::new(MietteSpanContents::new_named(
            self.name.clone(),
            data.as_bytes(),
            from,
            self.line + head.matches('\n').count(),
            column,
            data.lines().count(),
        )))
    }
}

/// The last character boundary up to `at`.
fn floor(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at)
        .rev()
        .find(|i| text.is_char_boundary(*i))
        .unwrap_or(0)
}

/// The first character boundary from `at` on.
fn ceiling(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (at..=text.len())
        .find(|i| text.is_char_boundary(*i))
        .unwrap_or(text.len())
}
