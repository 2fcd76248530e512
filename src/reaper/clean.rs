//! `fencepost clean`: what runs left whose harness and reaper both died, or whose machine was switched off.
//!
//! Owns the decision which runs may be removed. Must not guess: only runs whose owner is dead for certain on this host
//! go by default. The result is for `cli` to print.
use super::owner::{Life, Owner, SCRATCH_PREFIX};
use super::{GROUPS_FILE, OWNER_FILE, engine, procs};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use thiserror::Error;

/// Which runs to remove beside those whose owner is provably dead on this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Clean {
    /// Also runs older than this whose owner cannot be judged from here (another host's). Living owners are spared.
    pub older_than: Option<Duration>,
    /// Every run, a living owner's too.
    pub all: bool,
}

/// What was done, in words that need no further work.
#[derive(Debug, Default)]
pub struct Cleaned {
    /// Runs removed, each with the reason.
    pub removed: Vec<String>,
    /// Containers, networks, folders and process groups removed, by name.
    pub things: Vec<String>,
    /// Runs left alone, each with the reason.
    pub kept: Vec<String>,
    /// Why containers were not looked at: no engine answered.
    pub no_engine: Option<String>,
    /// What of dead runs is still there, with the reason. The rest of theirs, and all other runs, were removed.
    pub trouble: Vec<CleanError>,
}

/// Why something that should go is still there.
#[derive(Debug, Error)]
pub enum CleanError {
    /// The engine refused.
    #[error(transparent)]
    Engine(#[from] engine::SweepError),
    /// A folder cannot be read or removed.
    #[error("{path}: {source}")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The system's words.
        source: std::io::Error,
    },
    /// The worker thread could not be run.
    #[error("the work could not be done: {0}")]
    Thread(String),
}

/// All that is left of one run.
#[derive(Debug, Default)]
struct Left {
    owner: Option<Owner>,
    born: Option<SystemTime>,
    objects: Vec<engine::Found>,
    dirs: Vec<PathBuf>,
}

/// Remove what dead runs left: containers, networks, scratch folders in the temporary folder, and the process groups
/// noted there. Blocks; it may be called with or without a runtime around it.
///
/// # Errors
/// [`CleanError`] when it cannot be found out what there is. What cannot be removed is in [`Cleaned::trouble`].
pub fn clean(mode: Clean) -> Result<Cleaned, CleanError> {
    std::thread::scope(|scope| {
        scope
            .spawn(|| engine::block_on(run(mode)))
            .join()
            .map_err(|_| CleanError::Thread("it panicked".to_owned()))
    })??
}

async fn run(mode: Clean) -> Result<Cleaned, CleanError> {
    let mut cleaned = Cleaned::default();
    let mut runs = BTreeMap::new();
    find_scratch(&std::env::temp_dir(), &mut runs)?;
    let docker = match engine::connect().await {
        Ok(docker) => Some(docker),
        Err(e) => {
            cleaned.no_engine = Some(e.to_string());
            None
        }
    };
    if let Some(docker) = &docker {
        for object in engine::find(docker, None).await? {
            let left: &mut Left = runs.entry(object.run.clone()).or_default();
            left.owner = left.owner.take().or_else(|| Owner::parse(&object.owner));
            left.born = [left.born, object.created].into_iter().flatten().min();
            left.objects.push(object);
        }
    }
    for (run, left) in runs {
        match decide(&left, mode, SystemTime::now()) {
            Ok(why) => match remove(&left, docker.as_ref(), &mut cleaned.things).await {
                Ok(()) => cleaned.removed.push(format!("{run}: {why}")),
                Err(error) => cleaned.trouble.push(error),
            },
            Err(why) => cleaned.kept.push(format!("{run}: {why}")),
        }
    }
    Ok(cleaned)
}

/// Ok: goes, with the reason. Err: stays, with the reason.
fn decide(left: &Left, mode: Clean, now: SystemTime) -> Result<String, String> {
    let life = left
        .owner
        .as_ref()
        .map_or(Life::Unknown("it names no owner"), Owner::life);
    let age = left.born.and_then(|born| now.duration_since(born).ok());
    match life {
        Life::Dead(why) => Ok(why.to_owned()),
        _ if mode.all => Ok("all were asked for".to_owned()),
        Life::Alive => Err("its owner runs".to_owned()),
        Life::Unknown(why) => match (mode.older_than, age) {
            (Some(limit), Some(age)) if age > limit => {
                Ok(format!("{} s old, and {why}", age.as_secs()))
            }
            _ => Err(why.to_owned()),
        },
    }
}

/// Scratch folders of this user's runs. A link or somebody else's folder is no scratch folder.
fn find_scratch(temp: &Path, runs: &mut BTreeMap<String, Left>) -> Result<(), CleanError> {
    let context = |source| CleanError::Folder {
        path: temp.to_path_buf(),
        source,
    };
    let user = nix::unistd::geteuid().as_raw();
    for entry in std::fs::read_dir(temp).map_err(context)?.flatten() {
        let name = entry.file_name();
        let Some(run) = name.to_str().and_then(|n| n.strip_prefix(SCRATCH_PREFIX)) else {
            continue;
        };
        let Ok(meta) = entry.path().symlink_metadata() else {
            continue;
        };
        if !meta.is_dir() || meta.uid() != user {
            continue;
        }
        let owner = std::fs::read_to_string(entry.path().join(OWNER_FILE)).unwrap_or_default();
        let left = runs.entry(run.to_owned()).or_default();
        left.owner = Owner::parse(&owner);
        left.born = meta.modified().ok();
        left.dirs.push(entry.path());
    }
    Ok(())
}

async fn remove(
    left: &Left,
    docker: Option<&bollard::Docker>,
    things: &mut Vec<String>,
) -> Result<(), CleanError> {
    for dir in &left.dirs {
        things.extend(end_groups(dir));
    }
    if let Some(docker) = docker
        && !left.objects.is_empty()
    {
        engine::remove(docker, &left.objects).await?;
        things.extend(left.objects.iter().map(|o| {
            let kind = if o.network { "network" } else { "container" };
            format!("{kind} {}", o.name)
        }));
    }
    for dir in &left.dirs {
        // Gone is as good as removed: a reaper may be at it too.
        if let Err(source) = std::fs::remove_dir_all(dir)
            && source.kind() != std::io::ErrorKind::NotFound
        {
            let path = dir.clone();
            return Err(CleanError::Folder { path, source });
        }
        things.push(format!("folder {}", dir.display()));
    }
    Ok(())
}

/// Kill the process groups that the run noted. After a reboot their start times differ, and nothing is touched.
fn end_groups(dir: &Path) -> Vec<String> {
    let notes = std::fs::read_to_string(dir.join(GROUPS_FILE)).unwrap_or_default();
    let groups = notes.lines().filter_map(|line| {
        let (group, start) = line.split_once(' ')?;
        Some((group.parse().ok()?, start.parse().ok()?))
    });
    let mut ended = Vec::new();
    for (group, start) in groups {
        // Without its leader a number from the file proves nothing: it may be a later group's.
        if procs::start_time(group) == Some(start) && procs::kill_group(group, start) {
            procs::wait_group_gone(group, Duration::from_secs(2));
            ended.push(format!("process group {group}"));
        }
    }
    ended
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(owner: &str, age: u64) -> Left {
        Left {
            owner: Owner::parse(owner),
            born: Some(SystemTime::now() - Duration::from_secs(age)),
            ..Left::default()
        }
    }

    #[test]
    fn the_dead_go_the_living_stay_and_strangers_wait() {
        let me = Owner::current().expect("this process");
        let dead = Owner {
            start: me.start + 1,
            ..me.clone()
        }
        .to_string();
        let (me, other) = (me.to_string(), "elsewhere/b/1/2");
        let hour = Some(Duration::from_secs(3600));
        let by_default = Clean::default();
        let aged = Clean {
            older_than: hour,
            all: false,
        };
        let all = Clean {
            older_than: None,
            all: true,
        };
        let now = SystemTime::now();
        for (owner, age, mode, goes) in [
            (dead.as_str(), 1, by_default, true),
            (&me, 9999, by_default, false),
            (&me, 9999, aged, false),
            (&me, 1, all, true),
            (other, 9999, by_default, false),
            (other, 9999, aged, true),
            (other, 10, aged, false),
            ("torn", 9999, by_default, false),
            ("torn", 9999, aged, true),
            (other, 1, all, true),
        ] {
            let got = decide(&left(owner, age), mode, now);
            assert_eq!(got.is_ok(), goes, "{owner} {age} {mode:?}: {got:?}");
        }
    }
}
