//! A client's standard input and output, without blocking: whole buffers in, whole buffers out.
//!
//! Owns descriptors 0 and 1 (or the one that `own` names in its place) once [`stdio`] is called. Must not know the protocol. tokio's own stdin and stdout go
//! through a pool of threads, at 20 to 30 % of a client's speed; pipes can be polled, so they are. Where they are no
//! pipes (a terminal, a file), a thread reads and writes block: that is for looking by hand.
use std::cell::RefCell;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::{Notify, mpsc};

/// Bytes read at a time.
const CHUNK: usize = 64 << 10;
/// Most bytes that wait to be written; a harness that does not read its answers gets no more.
const UNWRITTEN_MAX: usize = 64 << 20;

/// Where lines come from.
#[derive(Debug)]
pub(super) enum Source {
    Pipe(pipe::Receiver),
    Thread(mpsc::Receiver<Vec<u8>>),
}

/// Where lines go.
#[derive(Debug)]
pub(super) enum Sink {
    Pipe(pipe::Sender),
    Blocking(File),
}

/// Take over standard input and output.
pub(super) fn stdio() -> std::io::Result<(Source, Sink)> {
    let input = std::io::stdin().as_fd().try_clone_to_owned()?;
    let source = match pipe::Receiver::from_owned_fd(input.try_clone()?) {
        Ok(pipe) => Source::Pipe(pipe),
        Err(_) => Source::Thread(read_in_thread(File::from(input))),
    };
    let output = crate::own::output()?;
    let sink = match pipe::Sender::from_owned_fd(output.try_clone()?) {
        Ok(pipe) => Sink::Pipe(pipe),
        Err(_) => Sink::Blocking(File::from(output)),
    };
    Ok((source, sink))
}

fn read_in_thread(mut file: File) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        let mut chunk = vec![0; CHUNK];
        while let Ok(n @ 1..) = file.read(&mut chunk) {
            if sender.blocking_send(chunk[..n].to_vec()).is_err() {
                return;
            }
        }
    });
    receiver
}

impl Source {
    /// Append what there is to `bytes`; 0 at the end. Cancel-safe.
    pub(super) async fn read(&mut self, bytes: &mut Vec<u8>) -> std::io::Result<usize> {
        match self {
            Source::Pipe(pipe) => {
                bytes.reserve(CHUNK);
                pipe.read_buf(bytes).await
            }
            Source::Thread(chunks) => Ok(chunks.recv().await.map_or(0, |chunk| {
                bytes.extend_from_slice(&chunk);
                chunk.len()
            })),
        }
    }
}

/// Lines on their way out: whoever has one appends it; [`Out::write_all`] takes the whole buffer at a time.
#[derive(Debug, Default)]
pub(super) struct Out {
    queued: RefCell<Vec<u8>>,
    writing: RefCell<(Vec<u8>, usize)>,
    more: Notify,
}

impl Out {
    /// Append lines.
    pub(super) fn push(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut queued = self.queued.borrow_mut();
        if queued.is_empty() {
            self.more.notify_one();
        }
        if queued.len() < UNWRITTEN_MAX {
            write(&mut queued);
        }
    }

    /// Write as lines come, until the other end is closed. Cancel-safe.
    pub(super) async fn pump(&self, sink: &mut Sink) -> std::io::Result<()> {
        loop {
            self.write_all(sink).await?;
            self.more.notified().await;
        }
    }

    /// Write all that is queued. Cancel-safe.
    pub(super) async fn write_all(&self, sink: &mut Sink) -> std::io::Result<()> {
        loop {
            {
                let writing = &mut *self.writing.borrow_mut();
                if writing.1 == writing.0.len() {
                    writing.0.clear();
                    writing.1 = 0;
                    std::mem::swap(&mut writing.0, &mut self.queued.borrow_mut());
                }
                if writing.0.is_empty() {
                    return Ok(());
                }
            }
            if let Sink::Pipe(pipe) = sink {
                pipe.writable().await?;
            }
            let writing = &mut *self.writing.borrow_mut();
            let rest = &writing.0[writing.1..];
            let written = match sink {
                Sink::Pipe(pipe) => pipe.try_write(rest),
                Sink::Blocking(file) => file.write(rest),
            };
            match written {
                Ok(n) => writing.1 += n,
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(e) => return Err(e),
            }
        }
    }
}
