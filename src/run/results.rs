//! The results folder of a run: `results/<workload>[.<variant>]/<UTC time>-<seed>/`.
//!
//! Owns names and atomic writes there. Must not know what is written. The checker and the reports read it.
use crate::plan::Plan;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Makes a new folder for a run.
///
/// # Errors
/// It cannot be created (no such disk, no permission, no room).
pub fn create(root: &Path, plan: &Plan) -> std::io::Result<PathBuf> {
    let parent = root.join(folder_name(plan));
    std::fs::create_dir_all(&parent)?;
    let stamp = jiff::Timestamp::now()
        .strftime("%Y%m%dT%H%M%SZ")
        .to_string();
    let base = format!("{stamp}-{}", plan.seed);
    for again in 1.. {
        let name = if again == 1 {
            base.clone()
        } else {
            format!("{base}.{again}")
        };
        let dir = parent.join(name);
        match std::fs::create_dir(&dir) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(()) => {
                for sub in ["nodes", "clients"] {
                    std::fs::create_dir(dir.join(sub))?;
                }
                return Ok(dir);
            }
        }
    }
    unreachable!("the loop ends by returning")
}

/// Makes the folder for all results, if need be, and sees that a file can be written there.
///
/// # Errors
/// It is no folder, or nothing can be written in it.
pub fn ready(root: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(root)?;
    tempfile::tempfile_in(root)?.write_all(&[0; 4096])
}

/// Points `latest` in the workload's folder at this run.
///
/// # Errors
/// The link cannot be made.
pub fn point_latest(dir: &Path) -> std::io::Result<()> {
    let (Some(parent), Some(name)) = (dir.parent(), dir.file_name()) else {
        return Ok(());
    };
    let next = parent.join(format!(".latest-{}", std::process::id()));
    std::os::unix::fs::symlink(name, &next)?;
    std::fs::rename(&next, parent.join("latest"))
}

/// Writes a file whole or not at all.
///
/// # Errors
/// It cannot be written; an older file of that name is then untouched.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new()
        .permissions(readable())
        .tempfile_in(dir)?;
    file.write_all(bytes)?;
    file.persist(path)?;
    Ok(())
}

fn readable() -> std::fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o644)
}

fn folder_name(plan: &Plan) -> String {
    match &plan.variant {
        Some(variant) => format!("{}.{variant}", plan.name),
        None => plan.name.clone(),
    }
}
