//! Shows what a run showed: one summary of a results folder, and one renderer a format.
//!
//! Owns [`Summary`] and all that people and CI read of it. Must not know the cluster, nor how anything was run, and
//! never checks again: it reads plan.toml, history.jsonl and verdict.json, so that `report` can be run on anybody's
//! folder at any time.
//!
//! ```text
//! plan.toml ─────┐
//! history.jsonl ─┼─ lines → scan, windows, latency → summary ─┬─ terminal (tables, timeline)
//! verdict.json ──┘                                            ├─ markdown  → summary.md
//!                                                             ├─ junit     → junit.xml
//!                                                             ├─ intervals → latency/*.hlog
//!                                                             ├─ hgrm      → latency/*.hgrm, violations.hgrm
//!                                                             ├─ html      → report.html (reads history.jsonl once more)
//!                                                             └─ json      → --json
//! ```
//! All text that comes from adapters, histories and servers goes through [`sanitise`] on its way out.
pub mod compare;
pub mod evidence;
pub mod files;
pub mod github;
pub mod glyphs;
pub mod hgrm;
pub mod html;
pub mod intervals;
pub mod json;
pub mod junit;
pub mod latency;
mod lines;
pub mod markdown;
mod numbers;
pub mod progress;
pub mod runs;
pub mod sanitise;
pub mod scan;
pub mod scorecard;
pub mod suite;
pub mod summary;
pub mod tables;
pub mod terminal;
pub mod timeline;
pub mod windows;

pub use files::Rendered;
pub use json::json;
pub use progress::Progress;
pub use summary::{Summary, summarise};
pub use terminal::{Style, terminal};

use std::path::{Path, PathBuf};

/// One format.
pub trait Renderer {
    /// The files that show this run, with paths relative to its results folder.
    ///
    /// # Errors
    /// When the format itself cannot hold the summary; nothing is written here.
    fn render(&self, summary: &Summary) -> Result<Vec<Rendered>, ReportError>;
}

/// The formats that every run leaves behind.
pub const RENDERERS: &[&(dyn Renderer + Sync)] = &[
    &markdown::Markdown,
    &junit::Junit,
    &hgrm::Hgrm,
    &intervals::IntervalLogs,
    &html::Html,
];

/// Write summary.md, junit.xml, latency/*.hgrm, latency/*.hlog, violations.hgrm and report.html into a results folder, each atomically.
///
/// # Errors
/// The first file that cannot be made or written; those before it stand.
pub fn render_all(summary: &Summary, dir: &Path) -> Result<(), ReportError> {
    for renderer in RENDERERS {
        for file in renderer.render(summary)? {
            files::write(dir, &file)?;
        }
    }
    Ok(())
}

/// Write one summary.md and one junit.xml for several runs (variants, `--repeat`) into a folder.
///
/// # Errors
/// The first file that cannot be made or written.
pub fn render_several(summaries: &[Summary], dir: &Path) -> Result<(), ReportError> {
    files::write(
        dir,
        &Rendered::new("summary.md", markdown::several(summaries)),
    )?;
    files::write(dir, &Rendered::new("junit.xml", junit::several(summaries)?))
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The history is empty.
    #[error("{}: the history is empty", path.display())]
    Empty {
        /// Which.
        path: PathBuf,
    },
    /// The history's first line is no header.
    #[error("{}:1: no fencepost history: {message}", path.display())]
    Header {
        /// Which file.
        path: PathBuf,
        /// Why not.
        message: String,
    },
    /// plan.toml is no TOML.
    #[error("{}: {message}", path.display())]
    Plan {
        /// Which file.
        path: PathBuf,
        /// Why not.
        message: String,
    },
    /// verdict.json is no verdict.
    #[error("{}: no verdict: {source}", path.display())]
    Verdict {
        /// Which file.
        path: PathBuf,
        /// Why not.
        source: serde_json::Error,
    },
    /// `junit.xml` could not be written.
    #[error("junit.xml: {0}")]
    Junit(#[from] quick_junit::SerializeError),
}

impl ReportError {
    fn io(path: &Path, source: std::io::Error) -> Self {
        Self::Io {
            path: path.to_path_buf(),
            source,
        }
    }

    fn header(path: &Path, message: impl std::fmt::Display) -> Self {
        Self::Header {
            path: path.to_path_buf(),
            message: sanitise::visible(&message.to_string()).into_owned(),
        }
    }
}

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;
