//! The workloads of folders and files, as plans.
//!
//! Owns which files are workloads and in which order they come. Must not know what a workload says: `plan` reads it,
//! and every mistake in every file is told at once.
use crate::plan::{self, Overrides, Plan, PlanError};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Files looked at; more is no folder of workloads.
const FILES_MAX: usize = 10_000;
/// Depth of folders.
const DEPTH_MAX: usize = 16;

/// One plan and the file that it came from.
#[derive(Debug, Clone)]
pub struct Found {
    /// The file, as it was given or found below what was given.
    pub file: PathBuf,
    /// One variant.
    pub plan: Plan,
}

/// What is wrong with a list of paths.
#[derive(Debug)]
pub enum FolderError {
    /// A path cannot be looked at.
    Io(PathBuf, std::io::Error),
    /// A pipe, a socket, a device: reading it could wait for ever.
    NoFile(PathBuf),
    /// There is no workload in any of them.
    Empty(PathBuf),
    /// More files or folders in folders than any set of workloads has.
    TooMany(PathBuf),
    /// Two files whose workloads have one name: results and tables could not tell them apart.
    Twice(String, PathBuf, PathBuf),
    /// Mistakes in workload files, one entry a file.
    Plans(Vec<PlanError>),
}

/// All plans of all paths, in the order of the paths; a folder's files by name, its folders after them.
///
/// # Errors
/// See [`FolderError`]; nothing is skipped over.
pub fn load(paths: &[PathBuf], over: &Overrides) -> Result<Vec<Found>, FolderError> {
    let files = files(paths)?;
    let (mut found, mut wrong): (Vec<Found>, _) = (Vec::new(), Vec::new());
    for file in files {
        match plan::load(&file, over) {
            Ok(plans) => found.extend(plans.into_iter().map(|plan| Found {
                file: file.clone(),
                plan,
            })),
            Err(error) => wrong.push(error),
        }
    }
    if !wrong.is_empty() {
        return Err(FolderError::Plans(wrong));
    }
    let mut seen: BTreeMap<String, &Path> = BTreeMap::new();
    for f in &found {
        if let Some(before) = seen.insert(super::name_of(&f.plan), &f.file) {
            let (name, before) = (super::name_of(&f.plan), before.to_owned());
            return Err(FolderError::Twice(name, before, f.file.clone()));
        }
    }
    Ok(found)
}

/// The workload files of all paths, in the order of [`load`].
///
/// # Errors
/// See [`FolderError`].
pub fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, FolderError> {
    let mut files = Vec::new();
    for path in paths {
        let before = files.len();
        walk(path, 0, &mut files)?;
        if files.len() == before {
            return Err(FolderError::Empty(path.clone()));
        }
    }
    for file in &files {
        let about = std::fs::metadata(file);
        if !about
            .map_err(|e| FolderError::Io(file.clone(), e))?
            .is_file()
        {
            return Err(FolderError::NoFile(file.clone()));
        }
    }
    Ok(files)
}

fn walk(path: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), FolderError> {
    let io = |error| FolderError::Io(path.to_owned(), error);
    let about = std::fs::metadata(path).map_err(io)?;
    if !about.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let (mut here, mut below) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(path).map_err(io)? {
        let entry = entry.map_err(io)?;
        let name = entry.file_name();
        if name.to_string_lossy().starts_with('.') {
            continue;
        }
        let path = entry.path();
        // A link to a folder could lead round in a circle.
        if entry.file_type().map_err(io)?.is_dir() {
            below.push(path);
        } else if path.extension().is_some_and(|e| e == "toml") {
            here.push(path);
        }
    }
    here.sort();
    below.sort();
    files.append(&mut here);
    if files.len() > FILES_MAX || (depth == DEPTH_MAX && !below.is_empty()) {
        return Err(FolderError::TooMany(path.to_owned()));
    }
    below
        .iter()
        .try_for_each(|folder| walk(folder, depth + 1, files))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(dir: &Path, name: &str, text: &str) {
        let path = dir.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        std::fs::write(path, text).expect("a file");
    }

    #[test]
    fn folders_are_read_in_order_with_variants_and_nothing_hidden() {
        let dir = tempfile::tempdir().expect("temp");
        let lock = "lock = { name = \"set-nx-lua\" }\n";
        write(dir.path(), "b.toml", lock);
        write(
            dir.path(),
            "a.toml",
            &format!("{lock}[variant.x]\n[variant.y]\n"),
        );
        write(dir.path(), "deep/er/c.toml", lock);
        write(dir.path(), ".hidden/d.toml", "nonsense");
        write(dir.path(), "README.md", "nonsense");
        let found = load(&[dir.path().to_owned()], &Overrides::default()).expect("plans");
        let names: Vec<String> = found
            .iter()
            .map(|f| super::super::name_of(&f.plan))
            .collect();
        assert_eq!(names, ["a/x", "a/y", "b", "c"]);
    }

    #[test]
    fn every_mistake_of_every_file_is_told() {
        let dir = tempfile::tempdir().expect("temp");
        write(dir.path(), "a.toml", "lock = { name = \"redlok\" }\n");
        write(dir.path(), "b.toml", "lokc = 1\n");
        let all = load(&[dir.path().to_owned()], &Overrides::default());
        assert!(matches!(all, Err(FolderError::Plans(errors)) if errors.len() == 2));
        let empty = dir.path().join("empty");
        std::fs::create_dir(&empty).expect("a folder");
        let none = load(&[empty], &Overrides::default());
        assert!(matches!(none, Err(FolderError::Empty(_))));
        write(dir.path(), "one/a.toml", "lock.name = \"set-nx-lua\"\n");
        write(dir.path(), "two/a.toml", "lock.name = \"set-nx-del\"\n");
        let both = ["one", "two"].map(|name| dir.path().join(name));
        let twice = load(&both, &Overrides::default());
        assert!(matches!(twice, Err(FolderError::Twice(name, _, _)) if name == "a"));
        let pipe = dir.path().join("pipe");
        std::fs::create_dir(&pipe).expect("a folder");
        let _listens =
            std::os::unix::net::UnixListener::bind(pipe.join("a.toml")).expect("a socket");
        let no_file = load(&[pipe], &Overrides::default());
        assert!(matches!(no_file, Err(FolderError::NoFile(_))));
        let gone = load(&[dir.path().join("gone")], &Overrides::default());
        assert!(matches!(gone, Err(FolderError::Io(..))));
    }
}
