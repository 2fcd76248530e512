//! Whose a run is: the label that everything started carries, and whether its owner is dead for certain.
//!
//! Owns the labels' names, the owner's text form, the names of runs and their scratch folders. Must not know Docker or
//! servers. The cluster writes these; `clean` reads them back.
use super::procs;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Label of the run.
pub const LABEL_RUN: &str = "fencepost.run";
/// Label of the process that owns the run, an [`Owner`].
pub const LABEL_OWNER: &str = "fencepost.owner";
/// Scratch folders are `<temporary folder>/fencepost-run-<id>`.
pub const SCRATCH_PREFIX: &str = "fencepost-run-";

/// One process on one boot of one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The host's name.
    pub host: String,
    /// The kernel's id of this boot.
    pub boot: String,
    /// The process.
    pub pid: i32,
    /// Its start time in clock ticks since boot.
    pub start: u64,
}

/// Whether an owner still lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Life {
    /// It runs on this host.
    Alive,
    /// It is gone for certain; the reason.
    Dead(&'static str),
    /// This host cannot tell; the reason.
    Unknown(&'static str),
}

impl Owner {
    /// This process.
    pub fn current() -> io::Result<Self> {
        let pid = std::process::id().cast_signed();
        let start = procs::start_time(pid)
            .ok_or_else(|| io::Error::other("/proc/self/stat cannot be read"))?;
        Ok(Self {
            host: host()?,
            boot: boot()?,
            pid,
            start,
        })
    }

    /// Read the text form `<host>/<boot id>/<pid>/<start time>`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().split('/');
        let owner = Self {
            host: parts.next().filter(|h| !h.is_empty())?.to_owned(),
            boot: parts.next().filter(|b| !b.is_empty())?.to_owned(),
            pid: parts.next()?.parse().ok()?,
            start: parts.next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(owner)
    }

    /// Judge from this host. A process of another host is never called dead.
    pub fn life(&self) -> Life {
        match (host(), boot()) {
            (Ok(host), Ok(boot)) => self.life_on(&host, &boot, procs::start_time(self.pid)),
            _ => Life::Unknown("this host's name or boot id cannot be read"),
        }
    }

    fn life_on(&self, host: &str, boot: &str, start: Option<u64>) -> Life {
        if self.host != host {
            return Life::Unknown("its owner runs on another host");
        }
        if self.boot != boot {
            return Life::Dead("this host was booted again since");
        }
        match start {
            None => Life::Dead("its process is gone"),
            Some(start) if start != self.start => {
                Life::Dead("its process is gone, the number belongs to another")
            }
            Some(_) => Life::Alive,
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}/{}", self.host, self.boot, self.pid, self.start)
    }
}

fn host() -> io::Result<String> {
    let name = nix::unistd::gethostname()?;
    Ok(name.to_string_lossy().replace('/', "_"))
}

fn boot() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?
        .trim()
        .to_owned())
}

/// A run id that no other run has: labels of runs on one engine must differ, so it does not come from a run's seed.
pub fn fresh_run() -> String {
    format!("{:012x}", rand::random::<u64>() >> 16)
}

/// Whether a text may be a run's id: it becomes part of container names, labels and a folder's name.
pub fn valid_run(run: &str) -> bool {
    (1..=64).contains(&run.len())
        && run.starts_with(|c: char| c.is_ascii_alphanumeric())
        && run
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

/// Where a run keeps its servers' folders.
pub fn scratch(run: &str) -> PathBuf {
    std::env::temp_dir().join(format!("{SCRATCH_PREFIX}{run}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_round_trips() {
        let owner = Owner::current().expect("this process");
        assert_eq!(Owner::parse(&owner.to_string()), Some(owner.clone()));
        assert_eq!(owner.life(), Life::Alive);
    }

    #[test]
    fn torn_text_is_nobody() {
        for text in ["", "h", "h/b/1", "h/b/x/2", "h/b/1/2/3", "/b/1/2", "h//1/2"] {
            assert_eq!(Owner::parse(text), None, "{text}");
        }
    }

    #[test]
    fn only_this_host_can_prove_a_death() {
        let owner = Owner::parse("h/b/10/20").expect("parses");
        assert_eq!(owner.life_on("h", "b", Some(20)), Life::Alive);
        assert!(matches!(owner.life_on("h", "b", Some(21)), Life::Dead(_)));
        assert!(matches!(owner.life_on("h", "b", None), Life::Dead(_)));
        assert!(matches!(owner.life_on("h", "c", Some(20)), Life::Dead(_)));
        assert!(matches!(owner.life_on("i", "b", None), Life::Unknown(_)));
    }

    #[test]
    fn runs_have_tame_names() {
        assert!(valid_run("20261129T181500-7"));
        for bad in ["", "-x", "../x", "a b", "a/b", "ä", &"x".repeat(65)] {
            assert!(!valid_run(bad), "{bad}");
        }
    }
}
