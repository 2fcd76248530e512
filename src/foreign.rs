//! Small files that somebody else wrote: verdict.json, plan.toml, suite.json, compare.json.
//!
//! Owns that reading one ends and takes a bounded part of memory, whatever lies under its name. Must not know formats.
//! What was opened is asked what it is, so that nothing can be put in its place in between.
use nix::fcntl::OFlag;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Bytes of a plan.
pub(crate) const PLAN_MAX: u64 = 1 << 20;
/// Bytes of a verdict, a suite, a comparison.
pub(crate) const JSON_MAX: u64 = 64 << 20;

/// Opens a regular file; a pipe, a device or a folder is refused, and none is waited for.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let regular = |about: &std::fs::Metadata| {
        let no_file = || io::Error::new(io::ErrorKind::InvalidInput, "it is no file");
        about.is_file().then_some(()).ok_or_else(no_file)
    };
    // Before it, too: some devices act on being opened.
    regular(&std::fs::metadata(path)?)?;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags((OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits())
        .open(path)?;
    regular(&file.metadata()?)?;
    Ok(file)
}

/// The whole of a regular file of at most `max` bytes.
pub(crate) fn read(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    whole(&open(path)?, max)
}

/// The same of a regular file that is open already.
pub(crate) fn whole(file: &File, max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let long = file.metadata()?.len() > max;
    if !long {
        file.take(max + 1).read_to_end(&mut bytes)?;
    }
    if long || bytes.len() as u64 > max {
        let why = format!("larger than {} MiB", max >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}

/// The same as text.
pub(crate) fn text(path: &Path, max: u64) -> io::Result<String> {
    let not_text = |e| io::Error::new(io::ErrorKind::InvalidData, e);
    String::from_utf8(read(path, max)?).map_err(not_text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_a_device_and_a_sparse_giant_are_refused_at_once() -> io::Result<()> {
        let dir = tempfile::tempdir()?;
        let at = |name: &str| dir.path().join(name);
        nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRWXU)?;
        std::os::unix::fs::symlink("/dev/zero", at("zero"))?;
        File::create(at("giant"))?.set_len(3 << 30)?;
        std::fs::write(at("small"), "1234")?;
        let kind = |name: &str, max| read(&at(name), max).map_err(|e| e.kind());
        assert_eq!(kind("pipe", 9), Err(io::ErrorKind::InvalidInput));
        assert_eq!(kind("zero", 9), Err(io::ErrorKind::InvalidInput));
        assert_eq!(kind(".", 9), Err(io::ErrorKind::InvalidInput));
        assert_eq!(kind("giant", JSON_MAX), Err(io::ErrorKind::FileTooLarge));
        assert_eq!(kind("small", 3), Err(io::ErrorKind::FileTooLarge));
        assert_eq!(kind("small", 4), Ok(b"1234".to_vec()));
        assert_eq!(kind("gone", 4), Err(io::ErrorKind::NotFound));
        Ok(())
    }
}
