//! Signals to a client's process group, and what /proc says of it.
//!
//! Owns nothing that lasts. Must not know why a client is stopped.
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// A process as the kernel sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcState {
    /// It runs, or could.
    Running,
    /// Stopped by a signal (state T or t).
    Stopped,
    /// A zombie, or gone.
    Dead,
}

/// The state in /proc/<pid>/stat.
pub(super) fn state(pid: i32) -> ProcState {
    let Ok(stat) = std::fs::read(format!("/proc/{pid}/stat")) else {
        return ProcState::Dead;
    };
    // The name, in parentheses, may hold anything: the state follows the last one.
    let after = stat.iter().rposition(|b| *b == b')').map(|at| at + 2);
    match after.and_then(|at| stat.get(at)) {
        Some(b'T' | b't') => ProcState::Stopped,
        Some(b'Z' | b'X' | b'x') | None => ProcState::Dead,
        Some(_) => ProcState::Running,
    }
}

/// Send a signal to every process of the group.
pub(super) fn group(pgid: i32, signal: Signal) -> std::io::Result<()> {
    killpg(Pid::from_raw(pgid), signal).map_err(std::io::Error::from)
}
