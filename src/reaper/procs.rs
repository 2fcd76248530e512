//! Processes as the kernel shows them: `/proc/<pid>/stat`, process groups, and how to end one for certain.
//!
//! Owns the parsing of `/proc` and the guarded kill. Must not know why a process runs. `watch` and `clean` use it to
//! remove what a run left; the cluster and the clients use it to prove a state.
use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, getpgrp};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What `/proc/<pid>/stat` says that matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// The process.
    pub pid: i32,
    /// Field 3: `R`, `S`, `D`, `T` (stopped by a signal), `t` (traced), `Z` (zombie), `X` (dead), `I` (idle).
    pub state: char,
    /// Field 5: its process group.
    pub group: i32,
    /// Field 22: when it started, in clock ticks since the machine's boot.
    pub start: u64,
}

impl Stat {
    /// Neither a zombie nor on its way out.
    pub fn alive(&self) -> bool {
        !matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// Read one process; none: it is gone (or this system has no `/proc`).
pub fn stat(pid: i32) -> Option<Stat> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    parse(pid, &text)
}

/// The name in field 2 may hold spaces and brackets, so fields are counted after the last `)`.
fn parse(pid: i32, text: &str) -> Option<Stat> {
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let group = fields.nth(1)?.parse().ok()?;
    let start = fields.nth(16)?.parse().ok()?;
    Some(Stat {
        pid,
        state,
        group,
        start,
    })
}

/// When a process started, in clock ticks since boot: with the pid it names one process for ever.
pub fn start_time(pid: i32) -> Option<u64> {
    stat(pid).map(|s| s.start)
}

/// All processes that can be seen.
pub fn all() -> Vec<Stat> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse().ok())
        .filter_map(stat)
        .collect()
}

/// Living members of a process group.
pub fn members(group: i32) -> Vec<Stat> {
    all()
        .into_iter()
        .filter(|s| s.group == group && s.alive())
        .collect()
}

/// SIGKILL, then SIGCONT, to the group whose leader started at `start`. A stopped group dies of it like any other.
///
/// Does nothing when the number has been given to another process since (its start time differs), and never touches
/// the caller's own group. A group outlives its leader; the kernel gives no new process a number that is still some
/// group's, so with the leader gone the group's own number is proof enough as long as the group exists.
/// Returns whether a signal was sent.
pub fn kill_group(group: i32, start: u64) -> bool {
    if group <= 1 || Pid::from_raw(group) == getpgrp() {
        return false;
    }
    if stat(group).is_some_and(|leader| leader.start != start) {
        return false;
    }
    let sent = killpg(Pid::from_raw(group), Signal::SIGKILL);
    let _ = killpg(Pid::from_raw(group), Signal::SIGCONT);
    sent != Err(Errno::ESRCH)
}

/// Wait until no member of the group lives. Zombies count as gone: whoever started them reaps them.
pub fn wait_group_gone(group: i32, deadline: Duration) -> bool {
    let end = Instant::now() + deadline;
    loop {
        if members(group).is_empty() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Processes that run one of `programs` with a working directory below `dir`. This finds a server that was started in
/// the very moment in which the harness died, before its group was announced. The program is asked for so that a
/// person's shell standing in the folder is left alone.
pub fn servers_below(dir: &Path, programs: &[PathBuf]) -> Vec<Stat> {
    all()
        .into_iter()
        .filter(Stat::alive)
        .filter(|s| {
            let link = |name: &str| std::fs::read_link(format!("/proc/{}/{name}", s.pid)).ok();
            link("cwd").is_some_and(|cwd| cwd.starts_with(dir))
                && link("exe").is_some_and(|exe| programs.contains(&exe))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    #[test]
    fn a_name_with_brackets_does_not_move_the_fields() {
        let text = "77 (a b) c)) T 1 70 70 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 1\n";
        let got = parse(77, text).expect("parses");
        assert_eq!((got.state, got.group, got.start), ('T', 70, 987_654));
    }

    #[test]
    fn cut_text_is_no_process() {
        assert_eq!(parse(1, "1 (x"), None);
        assert_eq!(parse(1, "1 (x) S 0"), None);
    }

    #[test]
    fn a_stopped_group_dies_and_a_wrong_start_time_protects() {
        let mut child = Command::new("sleep")
            .arg("600")
            .process_group(0)
            .stdin(Stdio::null())
            .spawn()
            .expect("sleep");
        let pid = i32::try_from(child.id()).expect("pid");
        let start = start_time(pid).expect("started");
        nix::sys::signal::kill(Pid::from_raw(pid), Signal::SIGSTOP).expect("stop");
        assert!(!kill_group(pid, start + 1), "another process's number");
        assert!(child.try_wait().expect("wait").is_none(), "still there");
        assert!(kill_group(pid, start));
        assert!(wait_group_gone(pid, Duration::from_secs(2)));
        child.wait().expect("reaped");
    }

    #[test]
    fn nobody_kills_his_own_group_or_init() {
        let own = getpgrp().as_raw();
        assert!(!kill_group(own, start_time(own).unwrap_or(0)));
        assert!(!kill_group(1, 0));
        assert!(!kill_group(0, 0));
    }
}
