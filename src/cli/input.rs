//! A history as it is given: a file, a pipe, or the standard input.
//!
//! Owns that each is read once, however often it is needed: what cannot be read again is kept beside. Must not know formats.
use super::exit::Exit;
use fencepost_checker::{HistoryError, history};
use std::fs::File;
use std::io::{self, BufRead, Read, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// What stands for the standard input.
const STDIN: [&str; 4] = ["-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"];

/// A history that was given.
pub(super) struct Input<'a> {
    given: &'a Path,
    kept: Option<NamedTempFile>,
}

/// What was read could not be kept for the second time.
#[derive(Debug, thiserror::Error)]
#[error("cannot be kept to be read again: {0}")]
struct Unkept(#[source] io::Error);

impl<'a> Input<'a> {
    pub(super) fn of(given: &'a Path) -> Self {
        Self { given, kept: None }
    }

    /// Opens it, for the first time; with `again`, it will be read again.
    pub(super) fn open(&mut self, again: bool) -> Result<Box<dyn BufRead>, HistoryError> {
        let stdin = self.given == Path::new("-");
        let once =
            stdin || std::fs::metadata(self.given).is_ok_and(|m| !m.is_file() && !m.is_dir());
        if !once {
            return history::open(self.given);
        }
        let source: Box<dyn Read> = if stdin {
            Box::new(io::stdin())
        } else {
            Box::new(File::open(self.given)?)
        };
        if !again {
            return history::open_reader(source);
        }
        let unkept = |e| io::Error::other(Unkept(e));
        let kept = NamedTempFile::new().map_err(unkept)?;
        let copy = kept.reopen().map_err(unkept)?;
        self.kept = Some(kept);
        history::open_reader(Tee { source, copy })
    }

    /// As it was given.
    pub(super) fn given(&self) -> &Path {
        self.given
    }

    /// Where all of it stands once it was read.
    pub(super) fn path(&self) -> &Path {
        self.kept.as_ref().map_or(self.given, NamedTempFile::path)
    }

    /// Its name, without what follows the first dot.
    pub(super) fn stem(given: &Path) -> String {
        if is_stdin(given) {
            return "stdin".to_owned();
        }
        let name = given.file_name().unwrap_or_default().to_string_lossy();
        name.split('.').next().unwrap_or_default().to_owned()
    }
}

/// Whether the standard input is given more than once: it can be read once.
pub(super) fn stdin_twice(given: &[PathBuf]) -> bool {
    given.iter().filter(|path| is_stdin(path)).count() > 1
}

fn is_stdin(path: &Path) -> bool {
    STDIN.iter().any(|name| path == Path::new(name))
}

/// Which exit code it is that a history was not read.
pub(super) fn exit_of(error: &HistoryError) -> Exit {
    match error {
        HistoryError::Io(e) if matches!(e.get_ref(), Some(e) if e.is::<Unkept>()) => Exit::Missing,
        _ => Exit::Usage,
    }
}

/// Reads, and keeps what was read.
struct Tee<R> {
    source: R,
    copy: File,
}

impl<R: Read> Read for Tee<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(out)?;
        let copied = self.copy.write_all(&out[..read]);
        copied.map_err(|e| io::Error::other(Unkept(e)))?;
        Ok(read)
    }
}
