//! The bytes of a connection to a node: awake, it wakes the harness at each arrival; dozing, it is read when its owner
//! likes.
//!
//! Owns the socket and its place in the runtime's poll. Must not know what bytes mean. `watch` says when it may doze: a
//! socket that the runtime polls wakes it whenever something comes, whether or not anybody waits for it, so that a busy
//! server would spend the harness's time, and its own, on events that nobody is in a hurry to see.
use bytes::BytesMut;
use std::io::{ErrorKind, Read, Write};
use tokio::net::TcpStream;

/// Room for one read, in bytes.
const READ: usize = 16 << 10;
/// Reads in a row of a connection that dozes: what is left then comes the next time.
const READS_MAX: usize = 16;

enum Socket {
    Awake(TcpStream),
    Dozing(std::net::TcpStream),
    /// It could be put neither into the poll nor out of it.
    Lost,
}

/// See the module's page. Begins awake.
pub(super) struct Line {
    socket: Socket,
    chunk: Vec<u8>,
}

impl Line {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self {
            socket: Socket::Awake(stream),
            chunk: vec![0; READ],
        }
    }

    pub(super) fn dozes(&self) -> bool {
        matches!(self.socket, Socket::Dozing(_))
    }

    /// Takes the socket out of the runtime's poll, or puts it back; what came meanwhile is not missed.
    pub(super) fn doze(&mut self, doze: bool) -> std::io::Result<()> {
        self.socket = match std::mem::replace(&mut self.socket, Socket::Lost) {
            Socket::Awake(stream) if doze => Socket::Dozing(stream.into_std()?),
            Socket::Dozing(stream) if !doze => Socket::Awake(TcpStream::from_std(stream)?),
            same => same,
        };
        Ok(())
    }

    /// Waits for bytes while awake, for ever while dozing; 0 at the end. Cancel-safe.
    pub(super) async fn read(&self, input: &mut BytesMut) -> std::io::Result<usize> {
        let Socket::Awake(stream) = &self.socket else {
            return std::future::pending().await;
        };
        loop {
            stream.readable().await?;
            input.reserve(READ);
            match stream.try_read_buf(input) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    }

    /// Reads what is there, without waiting; none: it has ended.
    pub(super) fn read_now(&mut self, input: &mut BytesMut) -> std::io::Result<Option<usize>> {
        let mut taken = 0;
        for _ in 0..READS_MAX {
            let read = match &mut self.socket {
                Socket::Awake(stream) => stream.try_read(&mut self.chunk),
                Socket::Dozing(stream) => stream.read(&mut self.chunk),
                Socket::Lost => Err(ErrorKind::NotConnected.into()),
            };
            match read {
                Ok(0) => return Ok((taken > 0).then_some(taken)),
                Ok(n) => {
                    input.extend_from_slice(&self.chunk[..n]);
                    taken += n;
                    if n < self.chunk.len() {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Some(taken))
    }

    /// Sends some of it. While dozing a full socket is tried again when this is called again. Cancel-safe.
    pub(super) async fn write(&self, out: &mut BytesMut) -> std::io::Result<()> {
        let written = match &self.socket {
            Socket::Awake(stream) => loop {
                stream.writable().await?;
                match stream.try_write(out) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    written => break written,
                }
            },
            Socket::Dozing(stream) => match (&*stream).write(out) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return std::future::pending().await;
                }
                written => written,
            },
            Socket::Lost => Err(ErrorKind::NotConnected.into()),
        }?;
        // Nothing was written of something: nobody will ever take it.
        if written == 0 {
            return Err(ErrorKind::WriteZero.into());
        }
        bytes::Buf::advance(out, written);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    async fn two() -> (Line, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let at = listener.local_addr().expect("its address");
        let ours = TcpStream::connect(at).await.expect("connects");
        (Line::new(ours), listener.accept().await.expect("comes").0)
    }

    async fn say(other: &mut TcpStream, text: &str) {
        other.write_all(text.as_bytes()).await.expect("is sent");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    #[tokio::test]
    async fn what_comes_while_it_dozes_is_read_now_or_once_it_is_awake() {
        let (mut line, mut other) = two().await;
        let mut input = BytesMut::new();
        line.doze(true).expect("dozes");
        say(&mut other, "one").await;
        let waits = tokio::time::timeout(Duration::from_millis(20), line.read(&mut input)).await;
        assert!(waits.is_err(), "it dozes: {waits:?}");
        assert_eq!(line.read_now(&mut input).expect("is there"), Some(3));
        assert_eq!(line.read_now(&mut input).expect("is empty"), Some(0));
        say(&mut other, "two").await;
        line.doze(false).expect("wakes");
        assert_eq!(line.read(&mut input).await.expect("is there"), 3);
        assert_eq!(&input[..], b"onetwo");
    }

    #[tokio::test]
    async fn it_writes_and_sees_the_end_in_both_states() {
        for dozes in [false, true] {
            let (mut line, mut other) = two().await;
            line.doze(dozes).expect("can");
            let mut out = BytesMut::from("ping");
            line.write(&mut out).await.expect("is sent");
            let mut heard = [0; 4];
            other.read_exact(&mut heard).await.expect("is heard");
            assert_eq!((&heard, out.len()), (b"ping", 0));
            say(&mut other, "last").await;
            drop(other);
            tokio::time::sleep(Duration::from_millis(20)).await;
            let mut input = BytesMut::new();
            if !dozes {
                assert_eq!(line.read(&mut input).await.expect("is there"), 4);
                assert_eq!(line.read(&mut input).await.expect("is the end"), 0);
                continue;
            }
            assert_eq!(line.read_now(&mut input).expect("is there"), Some(4));
            assert_eq!(line.read_now(&mut input).expect("is the end"), None);
        }
    }
}
