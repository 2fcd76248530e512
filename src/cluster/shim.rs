//! The preload shim: how a process's time of day is set from outside, and what a server has synced is known.
//!
//! Owns the shim's library, built once from `shim/shim.c` by `cc` into a cache folder, and the page that a process shares
//! with the harness. Must not know faults. A cluster gives one to each server, a run one to each client, only where the
//! plan has a fault that needs it.
//!
//! The page is written in place, never renamed: the process keeps the old file mapped. Its layout is in `shim.c`.
use super::ClusterError;
use std::fs::{File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

const SOURCE: &str = include_str!("shim/shim.c");
/// Size of the page.
const PAGE: usize = 4096;
/// Where a folder with shim and page is mounted in a container.
pub(super) const MOUNTED: &str = "/fencepost";

const SEQUENCE: u64 = 0;
const CLOCK: u64 = 8;
const CUT: u64 = 32;
const FILES: usize = 64;
const ENTRY: usize = 192;

/// One process's shim: a folder with the library and the page.
#[derive(Debug)]
pub struct Shim {
    folder: PathBuf,
    page: File,
}

/// What a start after a power loss cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CutOff {
    /// Bytes of the synced files before.
    pub from: u64,
    /// Bytes that were left: what the last sync of each had covered.
    pub to: u64,
}

impl Shim {
    /// Makes the folder, with a page that changes nothing.
    ///
    /// # Errors
    /// [`ClusterError::Shim`] where there is no C compiler, [`ClusterError::Disk`].
    pub fn create(folder: &Path) -> Result<Self, ClusterError> {
        let disk = |e| ClusterError::disk(folder)(e);
        std::fs::create_dir_all(folder).map_err(disk)?;
        // A server in a container runs as a user of its own.
        std::fs::set_permissions(folder, PermissionsExt::from_mode(0o755)).map_err(disk)?;
        std::fs::copy(library()?, folder.join("shim.so")).map_err(disk)?;
        let path = folder.join("page");
        let page = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .map_err(disk)?;
        page.set_len(PAGE as u64).map_err(disk)?;
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).map_err(disk)?;
        Ok(Self {
            folder: folder.to_owned(),
            page,
        })
    }

    /// The environment that makes a process of this machine take the shim.
    pub fn variables(&self) -> Vec<(String, String)> {
        variables(&self.folder)
    }

    /// Sets the clock: `offset_ns` away from the true one, and gaining `drift` seconds a second from now on.
    ///
    /// # Errors
    /// The page cannot be written.
    pub fn set_clock(&self, offset_ns: i64, drift: f64) -> std::io::Result<()> {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let now = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX);
        let ppb = (drift * 1e9).round() as i64;
        let sequence = self.read_u64(SEQUENCE)?;
        self.page
            .write_all_at(&(sequence + 1).to_le_bytes(), SEQUENCE)?;
        let mut clock = [0; 24];
        for (bytes, value) in clock.chunks_exact_mut(8).zip([offset_ns, now, ppb]) {
            bytes.copy_from_slice(&value.to_le_bytes());
        }
        self.page.write_all_at(&clock, CLOCK)?;
        self.page
            .write_all_at(&(sequence + 2).to_le_bytes(), SEQUENCE)
    }

    /// Makes the next start cut each file that was ever synced to what its last sync had covered.
    ///
    /// # Errors
    /// The page cannot be written.
    pub fn ask_cut(&self) -> std::io::Result<()> {
        self.page.write_all_at(&1_u64.to_le_bytes(), CUT)
    }

    /// What was cut at a start since [`Shim::ask_cut`]; none: no start came that far.
    ///
    /// # Errors
    /// The page cannot be read.
    pub fn cut_off(&self) -> std::io::Result<Option<CutOff>> {
        if self.read_u64(CUT)? != 2 {
            return Ok(None);
        }
        Ok(Some(CutOff {
            from: self.read_u64(CUT + 8)?,
            to: self.read_u64(CUT + 16)?,
        }))
    }

    /// Files that the process has synced: path as it sees it, and the size that the last sync had covered.
    ///
    /// # Errors
    /// The page cannot be read.
    pub fn synced(&self) -> std::io::Result<Vec<(String, u64)>> {
        let mut page = vec![0; PAGE];
        self.page.read_exact_at(&mut page, 0)?;
        let number = |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().unwrap_or([0; 8]));
        let entries = (FILES..=PAGE - ENTRY).step_by(ENTRY).take(16);
        let entries = entries.filter(|at| number(*at) != 0).map(|at| {
            let path = &page[at + 16..at + ENTRY];
            let end = path.iter().position(|b| *b == 0).unwrap_or(path.len());
            let path = String::from_utf8_lossy(&path[..end]).into_owned();
            (path, number(at + 8))
        });
        Ok(entries.collect())
    }

    fn read_u64(&self, at: u64) -> std::io::Result<u64> {
        let mut bytes = [0; 8];
        self.page.read_exact_at(&mut bytes, at)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

/// Where the shim of a server is, in the run's scratch folder.
pub(super) fn folder(dir: &Path, server: &str) -> PathBuf {
    dir.join(format!("{server}-shim"))
}

/// As [`folder`], where one was made: servers are started with it.
pub(super) fn made(dir: &Path, server: &str) -> Option<PathBuf> {
    Some(folder(dir, server)).filter(|f| f.is_dir())
}

/// The environment with shim and page in `folder`, as the process sees it.
pub(super) fn variables(folder: &Path) -> Vec<(String, String)> {
    let at = |name: &str| folder.join(name).to_string_lossy().into_owned();
    vec![
        ("LD_PRELOAD".to_owned(), at("shim.so")),
        ("FENCEPOST_PAGE".to_owned(), at("page")),
    ]
}

/// The library in the cache folder; built where this very source has not been built before.
fn library() -> Result<PathBuf, ClusterError> {
    let mut hash = DefaultHasher::new();
    SOURCE.hash(&mut hash);
    let folder = cache();
    std::fs::create_dir_all(&folder).map_err(ClusterError::disk(&folder))?;
    let path = folder.join(format!("shim-{:016x}.so", hash.finish()));
    if path.is_file() {
        return Ok(path);
    }
    // Built aside and renamed: two runs at once may both build it.
    let aside = tempfile::tempdir_in(&folder).map_err(ClusterError::disk(&folder))?;
    let source = aside.path().join("shim.c");
    std::fs::write(&source, SOURCE).map_err(ClusterError::disk(&source))?;
    let built = aside.path().join("shim.so");
    let output = Command::new("cc")
        .args(["-O2", "-shared", "-fPIC", "-o"])
        .args([&built, &source])
        .stdin(Stdio::null())
        .output()
        .map_err(|e| ClusterError::Shim(format!("cc: {e}")))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(ClusterError::Shim(super::tools::tail(&said, 4)));
    }
    std::fs::rename(&built, &path).map_err(ClusterError::disk(&path))?;
    Ok(path)
}

/// `fencepost/` in the user's cache folder, else in that for temporary files.
fn cache() -> PathBuf {
    let named = |name| std::env::var_os(name).filter(|v| !v.is_empty());
    let base = named("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| named("HOME").map(|home| PathBuf::from(home).join(".cache")));
    base.unwrap_or_else(std::env::temp_dir).join("fencepost")
}

/// Whether the shim can be had on this machine: where it is, or why not.
///
/// # Errors
/// As [`Shim::create`].
pub fn available() -> Result<PathBuf, ClusterError> {
    library()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(shim: &Shim) -> f64 {
        let output = Command::new("date")
            .arg("+%s.%N")
            .envs(shim.variables())
            .output()
            .expect("date");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.trim().parse().expect("a number")
    }

    fn now() -> f64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.expect("after 1970").as_secs_f64()
    }

    #[test]
    fn a_process_believes_the_page() {
        let folder = tempfile::tempdir().expect("temp folder");
        let shim = Shim::create(folder.path()).expect("a shim");
        for (offset, drift) in [(0, 0.0), (60, 0.0), (-120, 0.0), (7, 0.5)] {
            shim.set_clock(offset * 1_000_000_000, drift).expect("set");
            let (before, told, after) = (now(), date(&shim), now());
            let ahead = offset as f64;
            let most = (after - before) * (1.0 + drift) + 0.5;
            assert!(
                (before + ahead..=before + ahead + most).contains(&told),
                "{offset} s: {told} at {before}"
            );
        }
    }

    #[test]
    fn what_was_synced_is_known_and_the_rest_is_cut_at_a_servers_start() {
        let folder = tempfile::tempdir().expect("temp folder");
        let shim = Shim::create(&folder.path().join("shim")).expect("a shim");
        let file = folder.path().join("log");
        let dd = |text: &str, sync: &[&str]| {
            let from = folder.path().join("from");
            std::fs::write(&from, text).expect("written");
            let done = Command::new("dd")
                .arg(format!("if={}", from.display()))
                .arg(format!("of={}", file.display()))
                .args(["oflag=append", "status=none"])
                .arg(format!("conv=notrunc{}", sync.concat()))
                .envs(shim.variables())
                .status();
            assert!(done.expect("dd").success());
        };
        dd("safe", &[",fdatasync"]);
        // The size is taken before the call: dd has written all by then.
        assert_eq!(shim.synced().expect("read")[0].1, 4);
        dd(" lost", &[]);
        shim.ask_cut().expect("asked");
        let start = |name: &str| {
            let program = std::os::unix::process::CommandExt::arg0(&mut Command::new("true"), name)
                .envs(shim.variables())
                .status();
            assert!(program.expect("true").success());
        };
        start("sh");
        assert_eq!(shim.cut_off().expect("read"), None);
        start("redis-server");
        let cut = CutOff { from: 9, to: 4 };
        assert_eq!(shim.cut_off().expect("read"), Some(cut));
        assert_eq!(std::fs::read_to_string(&file).expect("read"), "safe");
    }
}
