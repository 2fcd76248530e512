//! HTTP/1.1 to one server, as much of it as etcd's JSON gateway needs, with errors that tell *not sent* from *unknown*.
//!
//! Owns connections, which are kept for the next request, and the framing of answers. Must not know etcd. (The clients
//! of the crates that are here already repeat requests on their own, or do not tell whether a byte left.)
use super::EtcdError;
use crate::resp::Break;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Longest answer, in bytes; a longer one counts as garbled.
const ANSWER_MAX: usize = 16 << 20;
/// Connections that are kept; one carries one request at a time.
const IDLE_MAX: usize = 64;

/// A server, and the connections to it that nobody uses now.
#[derive(Debug)]
pub(super) struct Http {
    addr: SocketAddr,
    connect_limit: Duration,
    idle: RefCell<Vec<TcpStream>>,
}

/// An answer: the status, and the whole body.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

/// The head of an answer.
struct Head {
    status: u16,
    /// Bytes of the body; none where it comes in chunks.
    length: Option<usize>,
    /// Where the body begins.
    end: usize,
}

impl Http {
    pub(super) fn new(addr: SocketAddr, connect_limit: Duration) -> Self {
        Self {
            addr,
            connect_limit,
            idle: RefCell::default(),
        }
    }

    /// One request and its answer. Whoever drops this gives up the answer only, and the connection with it.
    pub(super) async fn ask(&self, request: &[u8]) -> Result<Answer, EtcdError> {
        let mut stream = self.connection().await?;
        let lost = |_| EtcdError::Unknown(Break::Reset);
        crate::sent::more(1);
        stream.write_all(request).await.map_err(lost)?;
        let mut got = Vec::new();
        let head = loop {
            if let Some(head) = head(&got)? {
                break head;
            }
            more(&mut stream, &mut got).await?;
        };
        let mut body = got.split_off(head.end);
        if let Some(length) = head.length {
            while body.len() < length {
                more(&mut stream, &mut body).await?;
            }
            self.keep(stream);
        } else {
            // What stands behind the last chunk may still be on its way, so this connection ends here.
            body = loop {
                if let Some(whole) = chunks(&body)? {
                    break whole;
                }
                more(&mut stream, &mut body).await?;
            };
        }
        let status = head.status;
        Ok(Answer { status, body })
    }

    /// A request whose answer has no end: its stream, and what came of the body so far.
    pub(super) async fn open(&self, request: &[u8]) -> Result<(TcpStream, Vec<u8>), EtcdError> {
        let mut stream = self.connection().await?;
        let lost = |_| EtcdError::Unknown(Break::Reset);
        stream.write_all(request).await.map_err(lost)?;
        let mut got = Vec::new();
        loop {
            if let Some(head) = head(&got)? {
                return Ok((stream, got.split_off(head.end)));
            }
            more(&mut stream, &mut got).await?;
        }
    }

    async fn connection(&self) -> Result<TcpStream, EtcdError> {
        while let Some(stream) = self.idle.borrow_mut().pop() {
            // One that was closed meanwhile can be read to its end; nothing else may come unasked.
            let mut byte = [0];
            if stream
                .try_read(&mut byte)
                .is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock)
            {
                return Ok(stream);
            }
        }
        let connect = TcpStream::connect(self.addr);
        match tokio::time::timeout(self.connect_limit, connect).await {
            Ok(Ok(stream)) => {
                // Where that is refused requests are late, not wrong.
                let _ = stream.set_nodelay(true);
                Ok(stream)
            }
            _ => Err(EtcdError::NotSent(Break::Refused)),
        }
    }

    fn keep(&self, stream: TcpStream) {
        let mut idle = self.idle.borrow_mut();
        if idle.len() < IDLE_MAX {
            idle.push(stream);
        }
    }
}

/// Read more of an answer.
async fn more(stream: &mut TcpStream, got: &mut Vec<u8>) -> Result<(), EtcdError> {
    if got.len() > ANSWER_MAX {
        return Err(EtcdError::Unknown(Break::Garbled));
    }
    match stream.read_buf(got).await {
        Ok(n) if n > 0 => Ok(()),
        _ => Err(EtcdError::Unknown(Break::Reset)),
    }
}

/// The head of an answer, once it is all there.
fn head(got: &[u8]) -> Result<Option<Head>, EtcdError> {
    let garbled = || EtcdError::Unknown(Break::Garbled);
    let Some(end) = find(got, b"\r\n\r\n") else {
        return Ok(None);
    };
    let text = String::from_utf8_lossy(&got[..end]);
    let mut lines = text.split("\r\n");
    let status = lines.next().and_then(|l| l.split(' ').nth(1));
    let status = status.and_then(|s| s.parse().ok()).ok_or_else(garbled)?;
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let length = name.eq_ignore_ascii_case("content-length");
        length.then(|| value.trim().parse().ok())?
    });
    Ok(Some(Head {
        status,
        length,
        end: end + 4,
    }))
}

/// A body that came in chunks, once the last is there.
fn chunks(mut got: &[u8]) -> Result<Option<Vec<u8>>, EtcdError> {
    let mut whole = Vec::new();
    loop {
        let Some((size, rest)) = chunk_size(got)? else {
            return Ok(None);
        };
        if size == 0 {
            return Ok(Some(whole));
        }
        if rest.len() < size + 2 {
            return Ok(None);
        }
        whole.extend_from_slice(&rest[..size]);
        got = &rest[size + 2..];
    }
}

/// The size of the chunk that begins here, and what follows its line.
pub(super) fn chunk_size(got: &[u8]) -> Result<Option<(usize, &[u8])>, EtcdError> {
    let Some(end) = find(got, b"\r\n") else {
        return Ok(None);
    };
    let line = String::from_utf8_lossy(&got[..end]);
    let size = line.split(';').next().unwrap_or_default().trim();
    let size = usize::from_str_radix(size, 16).ok();
    let size = size.filter(|s| *s <= ANSWER_MAX);
    let size = size.ok_or(EtcdError::Unknown(Break::Garbled))?;
    Ok(Some((size, &got[end + 2..])))
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|w| w == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_says_how_long_the_body_is_or_that_it_comes_in_chunks() {
        let text = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc";
        let known = head(text).expect("a head").expect("whole");
        assert_eq!((known.status, known.length), (200, Some(3)));
        assert_eq!(&text[known.end..], b"abc");
        let text = b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n";
        let chunked = head(text).expect("a head").expect("whole");
        assert_eq!((chunked.status, chunked.length), (404, None));
        assert!(head(b"HTTP/1.1 200 OK\r\n").expect("no error").is_none());
        assert!(head(b"+PONG\r\n\r\n").is_err());
    }

    #[test]
    fn chunks_are_put_together_once_the_last_is_there() {
        let all = b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: t\r\n\r\n";
        let whole = chunks(all).expect("no error").expect("whole");
        assert_eq!(whole, b"abcde");
        for cut in 0..all.len() - 16 {
            assert!(
                chunks(&all[..cut]).expect("no error").is_none(),
                "{cut} bytes"
            );
        }
        assert!(chunks(b"zz\r\n").is_err());
    }
}
