//! Writes report files: a reader sees the old file or the new one, never half of one.
//!
//! Owns the way of a text onto the disk. Must not know what is in it.
use super::ReportError;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// A file that a renderer made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// Where it belongs, relative to the results folder.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
}

impl Rendered {
    /// A file of that name.
    pub fn new(path: impl Into<PathBuf>, text: String) -> Self {
        Self {
            path: path.into(),
            text,
        }
    }
}

/// Write a file into `dir`, making folders as needed: into a temporary file beside its place, then renamed.
///
/// # Errors
/// What the system says, with the path.
pub fn write(dir: &Path, file: &Rendered) -> Result<(), ReportError> {
    let path = dir.join(&file.path);
    let folder = path.parent().unwrap_or(dir);
    no_link(dir, folder).map_err(|e| ReportError::io(&path, e))?;
    write_beside(folder, &path, file.text.as_bytes()).map_err(|e| ReportError::io(&path, e))
}

/// Folders of somebody else's results may be links, to anywhere.
fn no_link(dir: &Path, folder: &Path) -> std::io::Result<()> {
    let inside = folder.ancestors().take_while(|a| *a != dir);
    for part in inside {
        if part.symlink_metadata().is_ok_and(|m| m.is_symlink()) {
            let why = format!(
                "{} is a link, through which nothing is written",
                part.display()
            );
            return Err(std::io::Error::other(why));
        }
    }
    Ok(())
}

fn write_beside(folder: &Path, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let mut builder = tempfile::Builder::new();
    builder.prefix(".fencepost-");
    #[cfg(unix)]
    {
        // As any other file: 0666 less the umask, not the 0600 of a secret.
        use std::os::unix::fs::PermissionsExt as _;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let mut temporary = builder.tempfile_in(folder)?;
    temporary.write_all(bytes)?;
    temporary.flush()?;
    temporary.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_through_a_linked_folder() -> Result<(), Box<dyn std::error::Error>> {
        let (dir, elsewhere) = (tempfile::tempdir()?, tempfile::tempdir()?);
        std::os::unix::fs::symlink(elsewhere.path(), dir.path().join("latency"))?;
        let file = Rendered::new("latency/acquire.hgrm", String::from("x"));
        let error = write(dir.path(), &file).expect_err("a link");
        assert!(error.to_string().contains("acquire.hgrm"), "{error}");
        assert_eq!(std::fs::read_dir(elsewhere.path())?.count(), 0);
        write(
            dir.path(),
            &Rendered::new("plain/a.hgrm", String::from("x")),
        )?;
        Ok(())
    }

    #[test]
    fn a_file_is_replaced_whole_and_nothing_else_is_left() -> Result<(), Box<dyn std::error::Error>>
    {
        let dir = tempfile::tempdir()?;
        for text in ["first, and longer", "second"] {
            write(dir.path(), &Rendered::new("latency/a.hgrm", text.into()))?;
        }
        let folder = dir.path().join("latency");
        assert_eq!(std::fs::read_to_string(folder.join("a.hgrm"))?, "second");
        assert_eq!(std::fs::read_dir(folder)?.count(), 1);
        Ok(())
    }

    #[test]
    fn an_error_names_the_file() -> Result<(), Box<dyn std::error::Error>> {
        let dir = tempfile::tempdir()?;
        std::fs::write(dir.path().join("latency"), "in the way")?;
        let error = write(dir.path(), &Rendered::new("latency/a.hgrm", String::new()))
            .expect_err("a file is no folder");
        assert!(error.to_string().contains("latency/a.hgrm"), "{error}");
        Ok(())
    }
}
