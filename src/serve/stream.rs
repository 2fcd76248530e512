//! A file on its way to a client, piece by piece.
//!
//! Owns the number of files that are open at a time, and how long a client may take for a piece. Must not know what is
//! sent. A file that grows is sent as long as it was; one that shrinks ends the connection, so that nobody takes the
//! half for the whole.
use bytes::Bytes;
use http_body_util::StreamBody;
use hyper::body::Frame;
use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// How long a request waits for its turn to open one.
const TURN: Duration = Duration::from_secs(20);
/// Bytes of a piece.
const PIECE: usize = 64 << 10;
/// How long a client may take for one.
const PATIENCE: Duration = Duration::from_secs(20);

/// Turns at opening files.
#[derive(Debug, Clone)]
pub(super) struct Turns(Arc<Semaphore>);

impl Turns {
    /// So many at a time.
    pub(super) fn new(open: usize) -> Self {
        Self(Arc::new(Semaphore::new(open)))
    }

    /// A turn; none: too many others are at it.
    pub(super) async fn next(&self) -> Option<OwnedSemaphorePermit> {
        let turn = tokio::time::timeout(TURN, self.0.clone().acquire_owned());
        turn.await.ok()?.ok()
    }
}

/// The first `len` bytes of a file as a body; the turn ends when all is sent or nobody reads on.
pub(super) fn body(
    file: File,
    len: u64,
    turn: OwnedSemaphorePermit,
) -> StreamBody<impl futures_util::Stream<Item = io::Result<Frame<Bytes>>> + Send> {
    let (to, mut from) = mpsc::channel(1);
    tokio::task::spawn(send(file, len, turn, to));
    StreamBody::new(futures_util::stream::poll_fn(move |context| {
        from.poll_recv(context)
            .map(|piece: Option<io::Result<Bytes>>| Some(piece?.map(Frame::data)))
    }))
}

async fn send(
    file: File,
    mut left: u64,
    _turn: OwnedSemaphorePermit,
    to: mpsc::Sender<io::Result<Bytes>>,
) {
    let mut file = Some(file);
    while left > 0 {
        let Some(mut open) = file.take() else { return };
        let want = usize::try_from(left).map_or(PIECE, |left| left.min(PIECE));
        let read = tokio::task::spawn_blocking(move || {
            let mut piece = vec![0; want];
            let n = open.read(&mut piece)?;
            piece.truncate(n);
            Ok::<_, io::Error>((open, piece))
        });
        let piece = match read.await.unwrap_or_else(|e| Err(io::Error::other(e))) {
            Ok((_, piece)) if piece.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok((open, piece)) => {
                file = Some(open);
                left -= piece.len() as u64;
                Ok(Bytes::from(piece))
            }
            Err(error) => Err(error),
        };
        // Otherwise the client takes nothing, or is gone.
        let Ok(Ok(())) = tokio::time::timeout(PATIENCE, to.send(piece)).await else {
            return;
        };
    }
}
