//! What is wrong with a workload file: each mistake with its place, what was expected there, and a hint.
//!
//! Owns the errors' shape and their rendering for a terminal. Must not know what a workload file means. All
//! mistakes of a file are told at once. Goes to `cli`, which prints [`PlanError::render`] and exits with 64.
use super::excerpt::Excerpt;
use miette::{
    Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, SourceCode, SourceSpan,
};
use std::fmt::{self, Write as _};

/// Why a workload file cannot be run: one or several problems.
#[derive(Debug, Clone)]
pub struct PlanError {
    /// The file, as the user named it.
    pub file: String,
    /// What is wrong, in the order of the file; the first ones of very many.
    pub problems: Vec<Problem>,
    /// How many more there are.
    pub more: usize,
}

/// One mistake.
#[derive(Debug, Clone)]
pub struct Problem {
    /// What is wrong, as a lowercase fragment.
    pub message: String,
    /// Where; none where a file could not be read at all.
    pub place: Option<PlaceInText>,
    /// What to do about it.
    pub help: Option<String>,
}

/// A place in a text that the user wrote: the file, or a flag's value.
#[derive(Debug, Clone)]
pub struct PlaceInText {
    /// The text with its name, or the part around the place. Control characters are replaced, byte for byte.
    pub text: Excerpt,
    /// Byte range.
    pub span: SourceSpan,
    /// What was expected there.
    pub label: String,
}

impl PlanError {
    /// An error about the file as a whole.
    pub(super) fn whole(file: &str, message: &str, help: Option<String>) -> Self {
        let problem = Problem {
            message: printable(&format!("{file}: {message}")),
            place: None,
            help,
        };
        Self {
            file: file.to_owned(),
            problems: vec![problem],
            more: 0,
        }
    }

    /// All problems as text for a terminal of that many columns, with or without colour, with lines of Unicode or of
    /// ASCII, ending in a line feed.
    pub fn render(&self, width: usize, colour: bool, unicode: bool) -> String {
        let theme = match (unicode, colour) {
            (true, true) => GraphicalTheme::unicode(),
            (true, false) => GraphicalTheme::unicode_nocolor(),
            (false, true) => GraphicalTheme::ascii(),
            (false, false) => GraphicalTheme::none(),
        };
        // Names such as `set-nx-lua` must not be broken at their hyphens, so the hints are wrapped here.
        let handler = GraphicalReportHandler::new_themed(theme)
            .with_width(width)
            .with_wrap_lines(false)
            .with_links(false);
        let mut out = String::new();
        for problem in &self.problems {
            let mut problem = problem.clone();
            let hint = problem.help.take();
            // Writing to a String cannot fail; were it to, the plain message still tells.
            if handler.render_report(&mut out, &problem).is_err() {
                out.push_str(&problem.message);
            }
            if !out.ends_with('\n') {
                out.push('\n');
            }
            let hint = hint.unwrap_or_else(|| fallback(&problem).to_owned());
            let hint = wrapped(&hint, width.saturating_sub(8)).replace('\n', "\n        ");
            let (on, off) = if colour {
                ("\x1b[36m", "\x1b[0m")
            } else {
                ("", "")
            };
            // Writing to a String cannot fail.
            let _ = writeln!(out, "  {on}hint:{off} {hint}");
        }
        if self.more > 0 {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "  … and {} more problems", self.more);
        }
        out
    }
}

/// What to do where the problem itself does not say.
fn fallback(problem: &Problem) -> &'static str {
    if problem.place.is_some() {
        "`fencepost schema workload` prints every key and what it takes"
    } else {
        "a workload is a short TOML file that this user may read"
    }
}

/// The text in lines of at most `width` characters where words allow it.
fn wrapped(text: &str, width: usize) -> String {
    let mut out = String::new();
    let mut used = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > width {
            out.push('\n');
            used = 0;
        } else if used > 0 {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += length;
    }
    out
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.problems.as_slice() {
            [one] if one.place.is_none() => f.write_str(&one.message),
            [one] => write!(f, "{}: {}", printable(&self.file), one.message),
            several => write!(
                f,
                "{}: {} problems",
                printable(&self.file),
                several.len() + self.more
            ),
        }
    }
}

impl std::error::Error for PlanError {}

impl Diagnostic for PlanError {
    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn Diagnostic> + 'a>> {
        Some(Box::new(self.problems.iter().map(|p| p as &dyn Diagnostic)))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}

impl Diagnostic for Problem {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help
            .as_ref()
            .map(|h| Box::new(h) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.place.as_ref().map(|p| &p.text as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let place = self.place.as_ref()?;
        let label = LabeledSpan::new_with_span(Some(place.label.clone()), place.span);
        Some(Box::new(std::iter::once(label)))
    }
}

/// The text with every control and direction-changing character replaced by as many `?` as it has bytes, so that
/// places keep their offsets and a terminal is told nothing.
pub(super) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let hostile = (c.is_control() && !matches!(c, '\n' | '\t' | '\r'))
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if hostile {
            out.extend(std::iter::repeat_n('?', c.len_utf8()));
        } else {
            out.push(c);
        }
    }
    out
}
