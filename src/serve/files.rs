//! Opening what is below the results folder, and nothing else.
//!
//! Owns the bounds: links that lead out, devices, pipes and sockets are not there. Must not know what the files are.
//! What was opened is asked where it is, so that a link that is changed in between gains nothing.
use crate::report::runs::Entry;
use nix::fcntl::OFlag;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Entries of one folder that are shown.
pub(super) const ENTRIES_MAX: usize = 5000;

/// The results folder.
#[derive(Debug)]
pub(super) struct Root(PathBuf);

/// What was found.
#[derive(Debug)]
pub(super) enum Opened {
    /// A file, and its length when it was opened.
    File(File, u64),
    /// A folder.
    Folder(Vec<Entry>),
}

impl Root {
    /// The folder at `path`.
    pub(super) fn new(path: &Path) -> io::Result<Self> {
        let real = path.canonicalize()?;
        std::fs::read_dir(&real)?;
        Ok(Self(real))
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Opens what `below` names. Whatever is not there, or not below, is [`io::ErrorKind::NotFound`].
    pub(super) fn open(&self, below: &Path) -> io::Result<Opened> {
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let real = self.0.join(below).canonicalize()?;
        if !real.starts_with(&self.0) {
            return Err(gone());
        }
        let about = std::fs::symlink_metadata(&real)?;
        if !about.is_file() && !about.is_dir() {
            return Err(gone());
        }
        let flags = OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW | OFlag::O_NOCTTY;
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(flags.bits())
            .open(&real)?;
        let handle = format!("/proc/self/fd/{}", file.as_raw_fd());
        if !std::fs::read_link(&handle)?.starts_with(&self.0) {
            return Err(gone());
        }
        let about = file.metadata()?;
        if about.is_file() {
            Ok(Opened::File(file, about.len()))
        } else if about.is_dir() {
            Ok(Opened::Folder(entries(Path::new(&handle))?))
        } else {
            Err(gone())
        }
    }

    /// The whole of a file, where it is at most `limit` bytes.
    pub(super) fn read(&self, below: &Path, limit: u64) -> io::Result<Vec<u8>> {
        let Opened::File(file, _) = self.open(below)? else {
            return Err(io::ErrorKind::NotFound.into());
        };
        crate::foreign::whole(&file, limit)
    }
}

/// What a folder holds, by name, folders first; hidden files and whatever is neither file nor folder left out.
fn entries(folder: &Path) -> io::Result<Vec<Entry>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().as_bytes().to_vec();
        // A link is shown as what it leads to; where it leads out, it is not there when it is asked for.
        let Ok(about) = std::fs::metadata(entry.path()) else {
            continue;
        };
        if name.starts_with(b".") || !(about.is_file() || about.is_dir()) {
            continue;
        }
        found.push(Entry {
            name,
            folder: about.is_dir(),
            bytes: about.len(),
        });
        if found.len() == ENTRIES_MAX {
            break;
        }
    }
    found.sort_by(|a, b| (!a.folder, &a.name).cmp(&(!b.folder, &b.name)));
    Ok(found)
}
