//! Every write to the terminal: data on stdout, words on stderr, an error followed by one `hint:` line.
//!
//! Owns the two streams. Must not know what is said. A closed pipe is no error: whoever reads may stop reading.
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Data, on stdout.
pub fn data(text: &str) {
    let mut out = anstream::stdout().lock();
    let written = out
        .write_all(text.as_bytes())
        .and_then(|()| out.write_all(if text.ends_with('\n') { b"" } else { b"\n" }))
        .and_then(|()| out.flush());
    // A reader that went away (`| head`) has all that it wanted.
    if let Err(error) = written
        && error.kind() != std::io::ErrorKind::BrokenPipe
        && !LOST.swap(true, Ordering::Relaxed)
    {
        word(&format!("error: cannot write to stdout: {error}"));
        word("hint: is the disk full?");
    }
}

/// Some of the data could not be written: whatever else was found, the command has not done what it was asked.
static LOST: AtomicBool = AtomicBool::new(false);

/// Whether all data was written.
pub fn all_written() -> bool {
    !LOST.load(Ordering::Relaxed)
}

/// Words, on stderr. Names of files and what others wrote may be among them: nothing of it drives the terminal.
pub fn word(text: &str) {
    let lines: Vec<_> = text.lines().map(crate::report::sanitise::visible).collect();
    styled(&lines.join("\n"));
}

/// Words that were made harmless before they were given colours.
fn styled(text: &str) {
    let mut err = anstream::stderr().lock();
    let _ = writeln!(err, "{text}");
}

/// Where a page is, as a path to open.
pub fn page(path: &std::path::Path) {
    let path = path.display().to_string();
    word(&format!(
        "page: {}",
        crate::report::sanitise::visible(&path)
    ));
}

/// An error with its causes, and what to do about it.
pub fn error(error: &dyn std::error::Error, hint: Option<&str>) {
    word(&format!("error: {}", crate::words::chain(error)));
    if let Some(hint) = hint {
        word(&format!("hint: {hint}"));
    }
}

/// What is wrong in a user's file, each mistake at its place.
pub fn plan_error(error: &crate::plan::PlanError) {
    let style = style();
    styled(
        error
            .render(style.width, style.color, style.unicode)
            .trim_end(),
    );
}

/// Runs as a report, or as JSON; nothing where there are none.
pub fn summaries(summaries: &[crate::report::Summary], json: bool) {
    if summaries.is_empty() {
        return;
    }
    if !json {
        return data(&crate::report::terminal(summaries, style()));
    }
    match crate::report::json(summaries) {
        Ok(text) => data(&text),
        Err(e) => error(&e, None),
    }
}

/// How stdout wants its text: colours where a terminal shows them, its width, ASCII where the locale has no UTF-8.
pub fn style() -> crate::report::Style {
    use anstream::ColorChoice;
    let stdout = std::io::stdout();
    let utf8 = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .filter_map(|name| std::env::var(name).ok())
        .find(|value| !value.is_empty())
        .is_none_or(|value| value.to_lowercase().replace('-', "").contains("utf8"));
    let columns = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    let width = comfy_table::Table::new()
        .width()
        .map(usize::from)
        .filter(|_| stdout.is_terminal());
    crate::report::Style {
        color: anstream::AutoStream::choice(&stdout) != ColorChoice::Never,
        unicode: utf8,
        width: columns.or(width).unwrap_or(100),
    }
}
