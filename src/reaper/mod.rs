//! The reaper: a second process that removes everything of a run, however the harness ends.
//!
//! Owns the promise that nothing is left behind. Must not know locks, faults or checks. It is this very binary
//! (`fencepost reaper`, hidden) in a session of its own, reading announcements from a pipe that only the harness holds:
//! when the harness ends, by `kill -9` too, the kernel closes the pipe, and the reaper kills the announced process
//! groups (stopped ones included), removes containers and networks by the run's label, and then the scratch folder.
//! An orderly end takes the same path, so the path is walked in every run.
//!
//! | file | owns |
//! |---|---|
//! | `mod` | [`Reaper`], the harness's end of the pipe |
//! | [`watch`] | [`main`], the reaper process |
//! | [`owner`] | labels, owners, dead or alive |
//! | [`procs`] | `/proc`, guarded kills |
//! | [`engine`] | the way to the Docker engine; removal by label |
//! | [`clean`](mod@clean) | `fencepost clean` for what even a reaper lost (both killed, machine switched off) |
pub mod clean;
pub mod engine;
pub mod owner;
pub mod procs;
pub mod watch;

pub use clean::{Clean, Cleaned, clean};
pub use owner::fresh_run;
pub use procs::start_time;
pub use watch::main;

use crate::own::Own;
use owner::{Owner, scratch, valid_run};
use std::convert::Infallible;
use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Name of the file in the scratch folder that holds the [`Owner`].
pub(crate) const OWNER_FILE: &str = "owner";
/// Name of the file in the scratch folder that lists process groups, `<pgid> <start time>` a line.
pub(crate) const GROUPS_FILE: &str = "groups";
/// How often [`Reaper::guard`] looks.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How long a process may take to become a reaper.
const BECOME: Duration = Duration::from_secs(20);
/// How long [`Reaper::finish`] waits for the reaper to end.
const FINISH: Duration = Duration::from_secs(20);

/// The harness's end of the pipe to the reaper of one run. A cheap clone; the last one dropped ends the run too.
#[derive(Clone)]
pub struct Reaper(Arc<Shared>);

struct Shared {
    own: Own,
    run: String,
    owner: Owner,
    scratch: PathBuf,
    pipe: Mutex<Option<ChildStdin>>,
    child: Mutex<Option<Child>>,
    /// What a reaper that takes another's place must be told.
    announced: Mutex<Vec<String>>,
}

impl Reaper {
    /// Make the run's scratch folder and start the reaper: this executable with the hidden command `reaper`. Returns
    /// once the reaper is in a session of its own, out of reach of the terminal's signals.
    ///
    /// # Errors
    /// When the run's id is no [`valid_run`], the scratch folder exists or cannot be made, or the process fails to start.
    pub fn start(run: &str) -> io::Result<Self> {
        Self::start_as(Own::this(), run)
    }

    /// As [`Reaper::start`], with the fencepost executable named: for programs that are not it, such as tests.
    ///
    /// # Errors
    /// As [`Reaper::start`].
    pub fn start_with(executable: &Path, run: &str) -> io::Result<Self> {
        Self::start_as(Own::fencepost(executable), run)
    }

    /// As [`Reaper::start`], with whatever program becomes a reaper when it is asked to.
    ///
    /// # Errors
    /// As [`Reaper::start`].
    pub fn start_as(own: Own, run: &str) -> io::Result<Self> {
        if !valid_run(run) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("`{run}` is no run id: letters, digits, `-`, `_` and `.`, at most 64"),
            ));
        }
        let owner = Owner::current()?;
        let scratch = make_scratch(run, &owner)?;
        let spawned = spawn(&own, run, &scratch);
        let (child, pipe) = match spawned {
            Ok(both) => both,
            Err(e) => {
                let _ = std::fs::remove_dir_all(&scratch);
                return Err(e);
            }
        };
        Ok(Self(Arc::new(Shared {
            own,
            run: run.to_owned(),
            owner,
            scratch,
            pipe: Mutex::new(Some(pipe)),
            child: Mutex::new(Some(child)),
            announced: Mutex::default(),
        })))
    }

    /// The run's id.
    pub fn run(&self) -> &str {
        &self.0.run
    }

    /// The program that the reaper is, and that the clients of built-in locks are.
    pub fn own(&self) -> &Own {
        &self.0.own
    }

    /// The run's scratch folder: the reaper removes it at the end, `clean` finds it in the temporary folder.
    pub fn scratch(&self) -> &Path {
        &self.0.scratch
    }

    /// The labels of all that is started for this run.
    pub fn labels(&self) -> [(String, String); 2] {
        [
            (owner::LABEL_RUN.to_owned(), self.0.run.clone()),
            (owner::LABEL_OWNER.to_owned(), self.0.owner.to_string()),
        ]
    }

    /// A process group to kill at the end, known by its leader's start time ([`start_time`]).
    pub fn watch_group(&self, pgid: i32, start_time: u64) {
        let note = format!("{pgid} {start_time}\n");
        let path = self.0.scratch.join(GROUPS_FILE);
        let noted = OpenOptions::new()
            .append(true)
            .open(&path)
            .and_then(|mut f| f.write_all(note.as_bytes()));
        if let Err(error) = noted {
            tracing::warn!(%error, "process group {pgid} is not noted for `fencepost clean`");
        }
        self.announce(&format!("group {pgid} {start_time}"));
    }

    /// A process group that was seen to be gone.
    pub fn forget_group(&self, pgid: i32) {
        let group = format!("group {pgid} ");
        lock(&self.0.announced).retain(|line| !line.starts_with(&group));
        self.tell(&format!("forget {pgid}"));
    }

    /// A server program that will run below the scratch folder: catches one started in the moment of the harness's death.
    pub fn watch_program(&self, program: &Path) {
        let real = program
            .canonicalize()
            .unwrap_or_else(|_| program.to_path_buf());
        self.announce(&format!("program {}", real.display()));
    }

    /// This run has, or is about to have, containers or networks.
    pub fn watch_docker(&self) {
        self.announce("docker");
    }

    /// A further folder to remove at the end. The scratch folder itself needs no announcement.
    pub fn watch_dir(&self, dir: &Path) {
        self.announce(&format!("dir {}", dir.display()));
    }

    /// Remove the run's containers and networks now, without waiting for it: for a cluster that is dropped unstopped.
    pub fn sweep_docker(&self) {
        self.tell("sweep-docker");
    }

    /// The engine is asked for a container or network of this name: if nobody is left to hear the answer, one may turn up that
    /// no list shows yet.
    pub(crate) fn making(&self, name: &str) {
        self.announce(&format!("making {name}"));
    }

    /// The engine answered: it is made, and every list shows it, or it is not.
    pub(crate) fn made(&self, name: &str) {
        let making = format!("making {name}");
        lock(&self.0.announced).retain(|line| *line != making);
        self.tell(&format!("made {name}"));
    }

    /// Requests to the engine were given up half way, and what they make may come later: the end must wait for it.
    pub(crate) fn unsettled(&self) {
        self.announce("unsettled");
    }

    /// Never ends: looks every quarter of a second whether the reaper lives, and puts another one in the place of one that
    /// somebody killed. `say` is told each time; where there can be no other, once.
    pub async fn guard(&self, say: impl Fn(&str)) -> Infallible {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            match self.revive() {
                Ok(None) => {}
                Ok(Some(status)) => say(&format!(
                    "the reaper ended ({status}); another one has taken its place"
                )),
                Err(error) => {
                    say(&format!(
                        "the reaper is gone, and there can be no other ({error}): after an unclean end, `fencepost clean` \
                         removes what is left"
                    ));
                    return std::future::pending().await;
                }
            }
        }
    }

    /// Starts another reaper where this one has ended, and tells it all that it must know; how the other had ended.
    fn revive(&self) -> io::Result<Option<ExitStatus>> {
        let mut child = lock(&self.0.child);
        let Some(status) = child.as_mut().map(Child::try_wait).transpose()?.flatten() else {
            return Ok(None);
        };
        let (other, mut to) = spawn(&self.0.own, &self.0.run, &self.0.scratch)?;
        let mut pipe = lock(&self.0.pipe);
        for line in lock(&self.0.announced).iter() {
            to.write_all(format!("{line}\n").as_bytes())?;
        }
        *pipe = Some(to);
        *child = Some(other);
        Ok(Some(status))
    }

    /// The orderly end: what is still announced is removed, and the reaper exits. Clones of this handle fall silent.
    pub async fn finish(self) {
        self.tell("bye");
        lock(&self.0.pipe).take();
        let child = lock(&self.0.child).take();
        let Some(mut child) = child else { return };
        let end = Instant::now() + FINISH;
        while Instant::now() < end {
            match child.try_wait() {
                Ok(Some(status)) if status.success() => return,
                Ok(Some(status)) => {
                    tracing::warn!(
                        "the reaper ended with {status}; `fencepost clean` shows what is left"
                    );
                    return;
                }
                Ok(None) => tokio::time::sleep(Duration::from_millis(2)).await,
                Err(error) => {
                    tracing::warn!(%error, "the reaper cannot be waited for");
                    return;
                }
            }
        }
        tracing::warn!("the reaper still works; `fencepost clean` shows what is left");
    }

    fn announce(&self, line: &str) {
        let line = line.replace('\n', " ");
        lock(&self.0.announced).push(line.clone());
        self.tell(&line);
    }

    fn tell(&self, line: &str) {
        let mut pipe = lock(&self.0.pipe);
        let Some(pipe) = pipe.as_mut() else { return };
        // A line is shorter than PIPE_BUF, so it arrives whole or not at all.
        if let Err(error) = pipe.write_all(format!("{line}\n").as_bytes()) {
            tracing::warn!(%error, "the reaper is gone; `fencepost clean` removes what an unclean end leaves");
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The folder is ours alone (mode 0700) and new: a folder that somebody else put there is refused.
fn make_scratch(run: &str, owner: &Owner) -> io::Result<PathBuf> {
    let dir = scratch(run);
    let context = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", dir.display()));
    std::fs::DirBuilder::new()
        .mode(0o700)
        .create(&dir)
        .map_err(context)?;
    let dir = dir.canonicalize()?;
    let write = |name: &str, text: &str| {
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(dir.join(name))
            .and_then(|mut f| f.write_all(text.as_bytes()))
    };
    write(GROUPS_FILE, "")
        .and_then(|()| write(OWNER_FILE, &format!("{owner}\n")))
        .map_err(context)?;
    Ok(dir)
}

fn spawn(own: &Own, run: &str, scratch: &Path) -> io::Result<(Child, ChildStdin)> {
    let scratch = scratch.to_string_lossy();
    let argv = own.argv(&["reaper", "--run", run, "--scratch", &scratch]);
    let [program, arguments @ ..] = &argv[..] else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let mut child = Command::new(program)
        .args(arguments)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()?;
    let parts = (child.stdin.take(), child.stdout.take());
    let (Some(pipe), Some(out)) = parts else {
        return Err(io::Error::other("the reaper has no pipe"));
    };
    let mut line = String::new();
    if readable(&out) {
        BufReader::new(out).read_line(&mut line)?;
    }
    if line.trim() != watch::READY {
        let _ = child.kill();
        let status = child.wait()?;
        return Err(io::Error::other(format!(
            "{own} did not become a reaper ({status})"
        )));
    }
    Ok((child, pipe))
}

/// Whether something can be read, or the end, within [`BECOME`]: a program that is no reaper may say nothing at all.
fn readable(out: &std::process::ChildStdout) -> bool {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use std::os::fd::AsFd;
    let limit = PollTimeout::try_from(BECOME).unwrap_or(PollTimeout::MAX);
    let mut wanted = [PollFd::new(out.as_fd(), PollFlags::POLLIN)];
    loop {
        match poll(&mut wanted, limit) {
            Err(nix::errno::Errno::EINTR) => {}
            found => return found.is_ok_and(|n| n > 0),
        }
    }
}
