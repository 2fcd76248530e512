//! Probes of how bytes pass through a link: how long an ECHO takes, how much of it comes back, when an end is noticed.
//!
//! Owns the bytes of these probes. Must not know which toxic lies on the link.
use super::World;
use super::target::Link;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// What came back of an ECHO.
pub(super) struct Echo {
    /// From the first byte sent to the last byte read.
    pub took: Duration,
    /// Bytes of the answer.
    pub came: usize,
    /// The whole answer came; else the connection ended before.
    pub whole: bool,
}

/// Sends an ECHO of so many bytes through the link and reads until its answer is whole or the connection ends.
pub(super) async fn echo(
    world: &World,
    link: &Link,
    bytes: usize,
    deadline: Duration,
) -> Result<Echo, String> {
    let addr = super::probe::address(world, link)?;
    let answer = format!("${bytes}\r\n").len() + bytes + 2;
    let talk = async {
        let mut stream = TcpStream::connect(addr).await?;
        stream.set_nodelay(true)?;
        let text = "x".repeat(bytes);
        let command = format!("*2\r\n$4\r\nECHO\r\n${bytes}\r\n{text}\r\n");
        let began = Instant::now();
        // A link that breaks while it is written to has broken all the same: what counts is what comes back.
        let _ = stream.write_all(command.as_bytes()).await;
        let mut came = 0;
        let mut part = vec![0; 16 << 10];
        while came < answer {
            match stream.read(&mut part).await {
                Ok(0) | Err(_) => break,
                Ok(n) => came += n,
            }
        }
        std::io::Result::Ok(Echo {
            took: began.elapsed(),
            came,
            whole: came == answer,
        })
    };
    match tokio::time::timeout(deadline, talk).await {
        Err(_) => Err(format!("no whole ECHO within {} ms", deadline.as_millis())),
        Ok(outcome) => outcome.map_err(|e| e.to_string()),
    }
}

/// How long after the answer to QUIT the link's end is noticed.
pub(super) async fn end(
    world: &World,
    link: &Link,
    deadline: Duration,
) -> Result<Duration, String> {
    let addr = super::probe::address(world, link)?;
    let talk = async {
        let mut stream = TcpStream::connect(addr).await?;
        stream.write_all(b"QUIT\r\n").await?;
        let mut part = [0; 64];
        // The answer, then the end.
        if stream.read(&mut part).await? == 0 {
            return Ok(Duration::ZERO);
        }
        let answered = Instant::now();
        while stream.read(&mut part).await? > 0 {}
        std::io::Result::Ok(answered.elapsed())
    };
    match tokio::time::timeout(deadline, talk).await {
        Err(_) => Err(format!("no end within {} ms", deadline.as_millis())),
        Ok(outcome) => outcome.map_err(|e| e.to_string()),
    }
}
