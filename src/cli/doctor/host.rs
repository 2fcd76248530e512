//! Probes of the machine itself: programs, signals, kernel, clocks, room.
//!
//! Owns trying things out on throw-away processes and network namespaces. Must not know Docker.
use super::{Line, Route, Status};
use crate::observe::hiccup_level;
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::statvfs::statvfs;
use nix::unistd::Pid;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::process::Command;

/// The lines that the local backend cannot do without.
pub(super) const LOCAL: [&str; 3] = ["redis-server", "toxiproxy-server", "signals"];
/// No probe takes longer.
const DEADLINE: Duration = Duration::from_secs(3);

/// What the host's probes found.
pub(super) struct Host {
    pub(super) lines: Vec<Line>,
    /// SIGSTOP, SIGCONT and SIGKILL to processes of our own.
    pub(super) signals: Route,
}

pub(super) async fn probe() -> Host {
    let signals = signals().await;
    let signal_line = match &signals {
        Route::By(found) => Line::new("signals", Status::Ok, found),
        Route::Not(why) => {
            Line::new("signals", Status::Missing, why).hint("Linux with /proc is needed")
        }
    };
    let mut lines = vec![
        program(
            "redis-server",
            &["redis-server", "valkey-server"],
            "--version",
            Status::Missing,
            "install redis-server or valkey",
        )
        .await,
        toxiproxy().await,
        program(
            "python3",
            &["python3"],
            "--version",
            Status::Warn,
            "only adapters in Python need it",
        )
        .await,
        signal_line,
        program(
            "nsenter",
            &["nsenter"],
            "--version",
            Status::Warn,
            "util-linux has it; only packet faults need it",
        )
        .await,
    ];
    lines.extend(packets().await);
    lines.extend([clock(), cores(), memory(), disk(), files()]);
    Host { lines, signals }
}

/// How much the machine hesitates right now.
pub(super) async fn hiccups() -> Line {
    let watched = tokio::task::spawn_blocking(|| hiccup_level(Duration::from_secs(1))).await;
    let Ok((longest, mean)) = watched else {
        return Line::new("hiccups", Status::Warn, "not measured");
    };
    let status = if longest > Duration::from_millis(20) {
        Status::Warn
    } else {
        Status::Ok
    };
    let found = format!(
        "longest {:.1} ms, mean {:.2} ms in 1 s",
        longest.as_secs_f64() * 1e3,
        mean.as_secs_f64() * 1e3
    );
    Line::new("hiccups", status, found)
        .hint("other work disturbs this machine: stalls over 50 ms make verdicts unknown")
}

/// The outcome of a program that was run to its end: success, and its first words.
async fn run(program: impl AsRef<OsStr>, args: &[&str]) -> Result<String, String> {
    let output = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    match tokio::time::timeout(DEADLINE, output).await {
        Err(_) => Err(format!("no end within {} s", DEADLINE.as_secs())),
        Ok(Err(error)) => Err(error.to_string()),
        Ok(Ok(out)) if out.status.success() => {
            Ok(String::from_utf8_lossy(&out.stdout).trim().to_owned())
        }
        Ok(Ok(out)) => Err(String::from_utf8_lossy(&out.stderr).trim().to_owned()),
    }
}

/// The first of several programs that runs.
async fn program(what: &str, names: &[&str], flag: &str, missing: Status, hint: &str) -> Line {
    let mut why = String::new();
    for name in names {
        match run(name, &[flag]).await {
            Ok(version) => return Line::new(what, Status::Ok, version),
            Err(error) => why = error,
        }
    }
    Line::new(what, missing, why).hint(hint)
}

/// The one that the local backend would take.
async fn toxiproxy() -> Line {
    const NAME: &str = "toxiproxy-server";
    let missing = |why: &str| {
        Line::new(NAME, Status::Missing, why)
            .hint("make setup builds it; or set FENCEPOST_TOXIPROXY to its path")
    };
    match crate::cluster::find_toxiproxy() {
        Err(error) => missing(&error.to_string()),
        Ok(path) => match run(&path, &["--version"]).await {
            Ok(version) => Line::new(NAME, Status::Ok, format!("{version} ({})", path.display())),
            Err(error) => missing(&format!("{}: {error}", path.display())),
        },
    }
}

/// Stops, continues and kills a child, each seen in /proc.
async fn signals() -> Route {
    let child = Command::new("sleep")
        .arg("30")
        .stdin(Stdio::null())
        .process_group(0)
        .kill_on_drop(true)
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => return Route::Not(format!("sleep: {error}")),
    };
    let Some(pid) = child.id().and_then(|pid| i32::try_from(pid).ok()) else {
        return Route::Not("the child died".into());
    };
    let began = Instant::now();
    let stopped = killpg(Pid::from_raw(pid), Signal::SIGSTOP).is_ok() && comes_to(pid, 'T').await;
    let took = began.elapsed();
    let gone_on = killpg(Pid::from_raw(pid), Signal::SIGCONT).is_ok() && comes_to(pid, 'S').await;
    let killed = child.kill().await.is_ok();
    match (stopped, gone_on, killed) {
        (true, true, true) => Route::By(format!(
            "SIGSTOP, SIGCONT, SIGKILL work on a child (stopped in {:.1} ms)",
            took.as_secs_f64() * 1e3
        )),
        (false, ..) => Route::Not("SIGSTOP showed no effect in /proc".into()),
        (_, false, _) => Route::Not("SIGCONT showed no effect in /proc".into()),
        (.., false) => Route::Not("SIGKILL failed".into()),
    }
}

/// Whether a process comes to a state (a letter of /proc/PID/stat) soon.
pub(super) async fn comes_to(pid: i32, state: char) -> bool {
    let until = Instant::now() + Duration::from_millis(500);
    loop {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if stat
            .rsplit(')')
            .next()
            .is_some_and(|rest| rest.trim_start().starts_with(state))
        {
            return true;
        }
        if Instant::now() > until {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Sends a signal to one process, as the fast route to a container's does.
pub(super) fn signal(pid: i32, signal: Signal) -> Result<(), String> {
    kill(Pid::from_raw(pid), signal).map_err(|errno| errno.desc().to_owned())
}

/// Runs a tool in a new network namespace, which ends with the tool.
async fn in_namespace(tool: &[&str]) -> Result<String, String> {
    // As root, else as root of a user namespace of one's own.
    for flags in [&["--net"][..], &["--map-root-user", "--net"][..]] {
        if run("unshare", &[flags, &["true"]].concat()).await.is_ok() {
            return run("unshare", &[flags, tool].concat())
                .await
                .map_err(|why| format!("refused: {}", super::plain(&why)));
        }
    }
    Err("not probed: no network namespace of our own to try it in".into())
}

/// Packet filter and network emulation, tried where they can harm nothing.
async fn packets() -> [Line; 2] {
    const HINT: &str = "only packet faults need it; partitions and latency go through Toxiproxy";
    let drop = in_namespace(&[
        "iptables", "-A", "INPUT", "-p", "tcp", "--dport", "1", "-j", "DROP",
    ])
    .await;
    let netem = in_namespace(&[
        "tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms",
    ])
    .await;
    let line = |what, result: Result<String, String>, good: &str| match result {
        Ok(_) => Line::new(what, Status::Ok, good),
        Err(why) => Line::new(what, Status::Warn, why).hint(HINT),
    };
    [
        line("iptables", drop, "a DROP rule was taken"),
        line("netem", netem, "a delay was taken"),
    ]
}

/// The smallest step of the monotonic clock that is seen.
fn clock() -> Line {
    let step = (0..2000).filter_map(|_| {
        let before = Instant::now();
        Some(before.elapsed()).filter(|step| !step.is_zero())
    });
    let step = step.min().unwrap_or(Duration::MAX);
    let status = if step > Duration::from_micros(10) {
        Status::Warn
    } else {
        Status::Ok
    };
    Line::new(
        "clock",
        status,
        format!("monotonic, smallest step seen {step:?}"),
    )
    .hint("times in the history are this coarse")
}

fn cores() -> Line {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("?").to_owned();
    let busy = load.parse::<f64>().is_ok_and(|load| load > cores as f64);
    let status = if busy || cores < 2 {
        Status::Warn
    } else {
        Status::Ok
    };
    Line::new("cores", status, format!("{cores}, load {load}")).hint(
        "close other work: measured latencies are of no use, and stalls make verdicts unknown",
    )
}

fn memory() -> Line {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let free = info.lines().find_map(|l| {
        l.strip_prefix("MemAvailable:")?
            .trim()
            .strip_suffix(" kB")?
            .parse::<u64>()
            .ok()
    });
    let Some(free) = free else {
        return Line::new("memory", Status::Warn, "/proc/meminfo does not say");
    };
    let status = if free < 512 << 10 {
        Status::Warn
    } else {
        Status::Ok
    };
    Line::new("memory", status, format!("{} MiB available", free >> 10))
        .hint("five servers and a run want about 512 MiB")
}

fn disk() -> Line {
    let place = if Path::new("results").is_dir() {
        "results"
    } else {
        "."
    };
    let Ok(stat) = statvfs(place) else {
        return Line::new("disk", Status::Missing, format!("{place} cannot be asked"));
    };
    let free = (stat.blocks_available() * stat.fragment_size()) >> 20;
    let writable = nix::unistd::access(place, nix::unistd::AccessFlags::W_OK).is_ok();
    let status = match (writable, free) {
        (false, _) | (_, 0..64) => Status::Missing,
        (_, 64..1024) => Status::Warn,
        _ => Status::Ok,
    };
    let found = format!(
        "{free} MiB free in {place}/{}",
        if writable {
            ""
        } else {
            ", which is not writable"
        }
    );
    Line::new("disk", status, found).hint("a run leaves up to some hundred MiB there")
}

fn files() -> Line {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return Line::new("open files", Status::Warn, "the limit cannot be asked");
    };
    let status = match soft {
        0..256 => Status::Missing,
        256..1024 => Status::Warn,
        _ => Status::Ok,
    };
    Line::new("open files", status, format!("limit {soft} (hard {hard})")).hint("ulimit -n 4096")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn signals_are_seen_in_proc_and_every_line_says_something() {
        let host = probe().await;
        assert!(matches!(host.signals, Route::By(_)), "{:?}", host.signals);
        for line in &host.lines {
            assert!(!line.found.is_empty(), "{line:?}");
            assert_eq!(line.hint.is_none(), line.status == Status::Ok, "{line:?}");
        }
        for what in LOCAL {
            assert!(host.lines.iter().any(|l| l.what == what), "{what}");
        }
    }

    #[tokio::test]
    async fn a_program_that_fails_or_is_not_there_is_missing_with_a_reason() {
        let absent = program(
            "x",
            &["no-such-program", "false"],
            "-v",
            Status::Missing,
            "install it",
        )
        .await;
        assert_eq!(
            (absent.status, absent.hint.as_deref()),
            (Status::Missing, Some("install it"))
        );
    }
}
