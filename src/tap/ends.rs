//! The two ends of a connection through the tap: bytes that are sent, passed unread or thrown away, and how it ends.
//!
//! Owns what is done to sockets without reading messages. Must not know commands or rules' patterns. `conn` uses it.
use super::rules::Hits;
use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};

/// Room for one read, in bytes.
pub(super) const READ: usize = 16 << 10;

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// One direction is over, the other goes on.
    Half,
    /// Both ends are closed.
    Closed,
    /// Both ends get a RST.
    Reset,
}

/// Throws away what comes until the sender ends or the rule is removed.
pub(super) async fn sink(from: &mut ReadHalf<'_>, hits: &Hits) -> End {
    let mut waste = vec![0; READ];
    loop {
        tokio::select! {
            read = from.read(&mut waste) => match read {
                Ok(0) => return End::Closed,
                Ok(_) => {}
                Err(_) => return End::Reset,
            },
            () = hits.removed() => return End::Closed,
        }
    }
}

pub(super) async fn pass_unread(
    from: &mut ReadHalf<'_>,
    to: &mut WriteHalf<'_>,
    mut out: BytesMut,
) -> End {
    loop {
        if flush(to, &mut out).await.is_err() {
            return End::Reset;
        }
        out.reserve(READ);
        match from.read_buf(&mut out).await {
            Ok(0) => {
                // A failure means that the other end is gone already.
                let _ = to.shutdown().await;
                return End::Half;
            }
            Ok(_) => {}
            Err(_) => return End::Reset,
        }
    }
}

/// Sends what the socket takes at once; [`flush`] sends the rest, and tells of errors.
pub(super) fn send_now(to: &WriteHalf<'_>, out: &mut BytesMut) {
    if let Ok(sent) = to.try_write(out) {
        out.advance(sent);
    }
}

pub(super) async fn flush(to: &mut WriteHalf<'_>, out: &mut BytesMut) -> std::io::Result<()> {
    if out.is_empty() {
        return Ok(());
    }
    let written = to.write_all(out).await;
    out.clear();
    written
}

/// The socket will end with a RST when it is dropped.
pub(super) fn end_with_reset(stream: &TcpStream) {
    // A failure means that it has ended already.
    let _ = stream.set_zero_linger();
}
