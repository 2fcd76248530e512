//! The most memory that a driver takes in a long open-loop run, its check and report included.
//!
//! Owns one run of this very binary as `fencepost run`, and watching it. Must not know the cluster. Goes to `main`.
use crate::Outcome;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Lock cycles a second that are asked for.
pub const RATE: u32 = 500;
/// The peak is kept by the kernel and read this often; it only must be read once after the last rise.
const LOOK: Duration = Duration::from_millis(20);

/// What a driver took.
pub struct Peak {
    /// Resident at most (`VmHWM`), in MiB.
    pub mib: u64,
    /// Lines of its history.
    pub events: usize,
    /// Size of its history in MiB.
    pub history_mib: u64,
    /// How the run ended.
    pub status: std::process::ExitStatus,
}

/// Runs 16 workers on 16 keys at [`RATE`] for `seconds`.
pub fn measure(backend: &str, seconds: u64) -> Outcome<Peak> {
    let results = tempfile::tempdir()?;
    let file = results.path().join("memory.toml");
    let text = format!(
        "lock = {{ name = \"set-nx-lua\", ttl = \"10s\" }}\n\
         load = {{ clients = 1, workers = 16, keys = 16, work = {{ fixed = \"1ms\" }}, rate = {RATE}, for = \"{seconds}s\", tail = \"1s\" }}"
    );
    std::fs::write(&file, text)?;
    let mut driver = Command::new(std::env::current_exe()?)
        .arg("run")
        .arg(&file)
        .args([
            "--backend",
            backend,
            "--json",
            "--unknown",
            "warn",
            "--results",
        ])
        .arg(results.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let mut kib = 0;
    let status = loop {
        if let Some(status) = driver.try_wait()? {
            break status;
        }
        kib = kib.max(high_water(&driver));
        std::thread::sleep(LOOK);
    };
    let (events, bytes) = history(results.path())?;
    Ok(Peak {
        mib: kib / 1024,
        events,
        history_mib: bytes >> 20,
        status,
    })
}

/// Its peak so far in KiB; 0 once it has ended.
fn high_water(process: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id()));
    let status = status.unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.trim().strip_suffix(" kB")?.parse().ok())
        .unwrap_or(0)
}

/// Lines and bytes of the run's history.
fn history(results: &Path) -> Outcome<(usize, u64)> {
    let file = results.join("memory/latest/history.jsonl");
    let bytes = std::fs::metadata(&file)?.len();
    let lines = std::io::BufRead::split(std::io::BufReader::new(std::fs::File::open(file)?), b'\n');
    Ok((lines.count(), bytes))
}
