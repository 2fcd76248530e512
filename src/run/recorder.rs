//! The recorder: events into `history.jsonl`, in order, a write(2) for many.
//!
//! Owns the history file of a run. Must not know what events mean. The file goes to the checker.
//!
//! Events are serialised where they are emitted, into one buffer; a task of the same runtime writes the buffer out
//! when its first event is [`KEPT`] old or it is full, so a `kill -9` loses at most that much and no thread is woken
//! per event. [`Recorder::flush`] writes at once: it is called before each injection.
use crate::record::Sink;
use fencepost_checker::{Event, Header};
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;

/// The longest time that an event waits to be written.
pub const KEPT: Duration = Duration::from_millis(5);
/// Bytes at which it does not wait.
const FULL: usize = 64 << 10;

/// Writes a run's history. Cheap to clone; all clones write the same file.
#[derive(Clone)]
pub struct Recorder(Rc<Inner>);

struct Inner {
    file: RefCell<File>,
    buffer: RefCell<Vec<u8>>,
    index: Cell<u64>,
    dirty: Notify,
    failed: RefCell<Option<std::io::Error>>,
    failure: Notify,
}

impl Recorder {
    /// Creates the file and writes its header.
    ///
    /// # Errors
    /// The file cannot be created or written.
    pub fn create(path: &Path, header: &Header) -> std::io::Result<Self> {
        let mut file = File::create_new(path)?;
        let mut line = serde_json::to_vec(header)?;
        line.push(b'\n');
        file.write_all(&line)?;
        Ok(Self(Rc::new(Inner {
            file: RefCell::new(file),
            buffer: RefCell::new(Vec::with_capacity(2 * FULL)),
            index: Cell::new(0),
            dirty: Notify::new(),
            failed: RefCell::new(None),
            failure: Notify::new(),
        })))
    }

    /// Writes the buffer soon after there is something in it; runs for as long as it is polled.
    pub async fn write_out(self) {
        loop {
            self.0.dirty.notified().await;
            tokio::time::sleep(KEPT).await;
            self.flush();
        }
    }

    /// Writes all that was emitted so far. An error is kept for [`Recorder::failure`].
    pub fn flush(&self) {
        let mut buffer = self.0.buffer.borrow_mut();
        if buffer.is_empty() {
            return;
        }
        let written = self.0.file.borrow_mut().write_all(&buffer);
        buffer.clear();
        if let Err(error) = written
            && self.0.failed.borrow().is_none()
        {
            *self.0.failed.borrow_mut() = Some(error);
            self.0.failure.notify_one();
        }
    }

    /// Waits until a write failed (a full disk, say) and gives the error.
    pub async fn failure(&self) -> std::io::Error {
        loop {
            if let Some(error) = self.0.failed.borrow_mut().take() {
                return error;
            }
            self.0.failure.notified().await;
        }
    }

    /// The write error that nobody has taken yet.
    pub fn take_failure(&self) -> Option<std::io::Error> {
        self.0.failed.borrow_mut().take()
    }
}

impl Sink for Recorder {
    fn emit(&self, mut event: Event<'_>) {
        event.index = self.0.index.get();
        self.0.index.set(event.index + 1);
        let mut buffer = self.0.buffer.borrow_mut();
        let first = buffer.is_empty();
        // Writing to a Vec cannot fail, and no field has a fallible serialiser.
        if event.write_line(&mut buffer).is_ok() && first {
            self.0.dirty.notify_one();
        }
        if buffer.len() >= FULL {
            drop(buffer);
            self.flush();
        }
    }
}
