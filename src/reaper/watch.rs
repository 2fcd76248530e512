//! The reaper process: read announcements until the pipe closes, then remove everything announced.
//!
//! Owns the order of removal: process groups, containers, networks, folders. Must not fail half way: each step is tried
//! whatever became of the one before. Nothing reads from it but its exit code.
use super::{engine, procs};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What the reaper says on stdout once it is out of the terminal's reach.
pub(crate) const READY: &str = "ready";

/// After a violent end something may still be on its way (a request that the engine is working on, a process between
/// fork and exec), so the search is repeated until it has found nothing for this long.
const SETTLE: Duration = Duration::from_millis(900);

#[derive(Debug, Default)]
struct Watch {
    run: String,
    groups: BTreeMap<i32, u64>,
    programs: Vec<PathBuf>,
    dirs: Vec<PathBuf>,
    docker: bool,
    /// Names that the engine was asked to make something of, and may still.
    making: BTreeSet<String>,
    orderly: bool,
    unsettled: bool,
}

/// The hidden command `fencepost reaper --run ID --scratch DIR`; `args` are the words after `reaper`.
/// Exit code 0: all that was announced is gone; 70: something could not be removed, and stderr says what.
pub fn main(args: impl IntoIterator<Item = String>) -> ExitCode {
    let Some(mut watch) = parse(args) else {
        complain("usage: fencepost reaper --run ID --scratch DIR");
        return ExitCode::from(64);
    };
    leave_terminal();
    let ready = crate::own::output()
        .map(File::from)
        .and_then(|mut out| writeln!(out, "{READY}"));
    if ready.is_err() {
        return ExitCode::from(70);
    }
    watch.listen();
    if watch.remove_all() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(70)
    }
}

fn parse(args: impl IntoIterator<Item = String>) -> Option<Watch> {
    let mut watch = Watch::default();
    let mut args = args.into_iter();
    while let Some(flag) = args.next() {
        match (flag.as_str(), args.next()?) {
            ("--run", run) if super::owner::valid_run(&run) => watch.run = run,
            ("--scratch", dir) => watch.dirs.push(PathBuf::from(dir)),
            _ => return None,
        }
    }
    (!watch.run.is_empty()).then_some(watch)
}

/// A session of its own and the usual signals blocked: Ctrl-C and a closing terminal reach the harness only.
fn leave_terminal() {
    use nix::sys::signal::{SigSet, Signal};
    let _ = nix::unistd::setsid();
    let mut set = SigSet::empty();
    for signal in [
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGQUIT,
        Signal::SIGTSTP,
    ] {
        set.add(signal);
    }
    let _ = set.thread_block();
}

impl Watch {
    /// Take announcements until the harness is gone.
    fn listen(&mut self) {
        for line in io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            self.hear(&line);
        }
    }

    fn hear(&mut self, line: &str) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "group" => {
                if let Some((group, start)) = rest.split_once(' ')
                    && let (Ok(group), Ok(start)) = (group.parse(), start.parse())
                {
                    self.groups.insert(group, start);
                }
            }
            "forget" => {
                if let Ok(group) = rest.parse() {
                    self.groups.remove::<i32>(&group);
                }
            }
            "program" => self.programs.push(PathBuf::from(rest)),
            "dir" => self.dirs.push(PathBuf::from(rest)),
            "docker" => self.docker = true,
            "making" => {
                self.making.insert(rest.to_owned());
            }
            "made" => {
                self.making.remove(rest);
            }
            "sweep-docker" => {
                self.sweep_docker();
            }
            "unsettled" => self.unsettled = true,
            "bye" => self.orderly = true,
            _ => {}
        }
    }

    /// Remove everything; true: nothing is left.
    fn remove_all(&mut self) -> bool {
        let mut clean = self.end_groups();
        if self.orderly && !self.unsettled {
            clean &=
                !self.docker || self.sweep_docker() == Some(0) || self.sweep_docker() == Some(0);
        } else {
            clean &= self.settle();
        }
        for dir in &self.dirs {
            clean &= remove_dir(dir);
        }
        clean
    }

    fn end_groups(&mut self) -> bool {
        for (&group, &start) in &self.groups {
            procs::kill_group(group, start);
        }
        let mut clean = true;
        for (group, start) in std::mem::take(&mut self.groups) {
            let reused = procs::start_time(group).is_some_and(|s| s != start);
            if !reused && !procs::wait_group_gone(group, Duration::from_secs(2)) {
                complain(&format!("process group {group} does not die"));
                clean = false;
            }
        }
        clean
    }

    /// Search again and again, until nothing new has turned up for [`SETTLE`], or nothing can: of what the engine was asked
    /// for all was seen, and nothing else is started.
    fn settle(&mut self) -> bool {
        let end = Instant::now() + Duration::from_secs(30);
        let mut quiet_since = Instant::now();
        let mut reachable = true;
        while quiet_since.elapsed() < SETTLE && Instant::now() < end {
            let mut found = self.end_strays();
            if self.docker {
                match self.sweep_docker() {
                    Some(n) => found += n,
                    None => reachable = false,
                }
            }
            if found > 0 {
                quiet_since = Instant::now();
            } else if reachable && self.making.is_empty() && self.programs.is_empty() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        reachable && quiet_since.elapsed() >= SETTLE
    }

    fn end_strays(&mut self) -> usize {
        let mut found = 0;
        for dir in &self.dirs {
            for stray in procs::servers_below(dir, &self.programs) {
                found += 1;
                let leader = procs::start_time(stray.group).unwrap_or(stray.start);
                self.groups.insert(stray.group, leader);
            }
        }
        if found > 0 {
            self.end_groups();
        }
        found
    }

    /// Number of containers and networks found (and removed); none: the engine did not answer or refused.
    fn sweep_docker(&mut self) -> Option<usize> {
        match engine::sweep_blocking(&self.run) {
            Ok(found) => {
                for name in &found {
                    self.making.remove(name);
                }
                Some(found.len())
            }
            Err(e) => {
                complain(&format!("run {}: {e}", self.run));
                None
            }
        }
    }
}

fn remove_dir(dir: &std::path::Path) -> bool {
    match std::fs::remove_dir_all(dir) {
        Ok(()) => true,
        Err(e) if e.kind() == io::ErrorKind::NotFound => true,
        Err(e) => {
            complain(&format!("{}: {e}", dir.display()));
            false
        }
    }
}

fn complain(text: &str) {
    let _ = writeln!(io::stderr(), "fencepost reaper: {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announcements_are_kept_and_nonsense_is_not() {
        let words = ["--run", "r1", "--scratch", "/x"].map(str::to_owned);
        let mut w = parse(words).expect("parses");
        for line in [
            "group 10 20",
            "group 11 21",
            "forget 10",
            "group x y",
            "group",
            "dir /y z",
            "program /bin/true",
            "docker",
            "making x-n1",
            "making x-n2",
            "made x-n1",
            "",
            "what",
            "bye",
        ] {
            w.hear(line);
        }
        assert_eq!(w.groups, BTreeMap::from([(11, 21)]));
        assert_eq!(w.dirs, [PathBuf::from("/x"), PathBuf::from("/y z")]);
        assert_eq!(w.making, BTreeSet::from(["x-n2".to_owned()]));
        assert!(w.docker && w.orderly);
    }

    #[test]
    fn a_reaper_without_a_tame_run_is_refused() {
        assert!(parse([]).is_none());
        assert!(parse(["--run".to_owned()]).is_none());
        assert!(parse(["--run".to_owned(), "../x".to_owned()]).is_none());
    }
}
