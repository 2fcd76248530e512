//! One direct connection to a node: connect, switch to RESP3, subscribe.
//!
//! Owns the handshake and what the server must have switched on for it. Must not know keys or events. A [`Conn`]
//! goes to `watch`, which reads and writes it from then on.
use super::frame::{self, Frame, FrameError};
use crate::record::Clock;
use bytes::BytesMut;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The events that are subscribed to, by the server's own names.
/// A channel each, not a pattern: a pattern is matched by the server against every message that it publishes.
pub(super) const EVENTS: [&str; 5] = ["set", "del", "expired", "evicted", "expire"];
/// Channels are this and the event's name. Locks live in database 0.
pub(super) const CHANNEL: &str = "__keyevent@0__:";
/// Time in which a server that lives answers the whole handshake.
const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(2);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnError {
    /// TCP.
    #[error("connection to {addr} failed: {source}")]
    Io {
        /// The node's direct address.
        addr: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The server ended the connection.
    #[error("the server ended the connection")]
    Closed,
    /// No answer in time: the server is stopped, or the way to it is cut.
    #[error("no answer within {0} ms")]
    Silent(u128),
    /// The server refused a command that observing needs.
    #[error("the server answered `{answer}` to {command}")]
    Refused {
        /// The command.
        command: &'static str,
        /// Its answer.
        answer: String,
    },
    /// Not a Redis or Valkey server.
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// A subscribed connection.
pub(super) struct Conn {
    pub(super) stream: TcpStream,
    /// Bytes that were read but not yet taken.
    pub(super) input: BytesMut,
    /// Pushes that came during the handshake: the first events.
    pub(super) early: Vec<Frame>,
    /// The server's run id: another one is another server process.
    pub(super) run_id: String,
    /// When the subscription was asked for: no event on this connection is older.
    pub(super) since: u64,
}

/// Connects and subscribes, within two seconds.
pub(super) async fn connect(addr: SocketAddr, clock: Clock) -> Result<Conn, ConnError> {
    tokio::time::timeout(HANDSHAKE_DEADLINE, handshake(addr, clock))
        .await
        .unwrap_or(Err(ConnError::Silent(HANDSHAKE_DEADLINE.as_millis())))
}

async fn handshake(addr: SocketAddr, clock: Clock) -> Result<Conn, ConnError> {
    let io = |source| ConnError::Io { addr, source };
    let stream = TcpStream::connect(addr).await.map_err(io)?;
    stream.set_nodelay(true).map_err(io)?;
    let mut conn = Conn {
        stream,
        input: BytesMut::new(),
        early: Vec::new(),
        run_id: String::new(),
        since: 0,
    };
    conn.ask(&["HELLO", "3", "SETNAME", "fencepost-observer"], "HELLO 3")
        .await?;
    // OPTIN and no CLIENT CACHING: no key is tracked, but a flush is still announced.
    conn.ask(&["CLIENT", "TRACKING", "ON", "OPTIN"], "CLIENT TRACKING")
        .await?;
    let flags = conn
        .ask(&["CONFIG", "GET", "notify-keyspace-events"], "CONFIG GET")
        .await?;
    let flags = flags
        .array()
        .and_then(|pair| pair.get(1)?.text())
        .unwrap_or_default();
    if let Some(needed) = missing_flags(&String::from_utf8_lossy(flags)) {
        conn.ask(
            &["CONFIG", "SET", "notify-keyspace-events", &needed],
            "CONFIG SET",
        )
        .await?;
    }
    let info = conn.ask(&["INFO", "server"], "INFO").await?;
    conn.run_id = run_id(&info).ok_or_else(|| refused("INFO", &info))?;
    conn.since = clock.now();
    let channels = EVENTS.map(|event| format!("{CHANNEL}{event}"));
    let mut subscribe = vec!["SUBSCRIBE"];
    subscribe.extend(channels.iter().map(String::as_str));
    conn.send(&subscribe).await?;
    // Under RESP3 SUBSCRIBE is answered by pushes; a refusal, or this PONG behind them, is an answer.
    conn.ask(&["PING"], "SUBSCRIBE").await?;
    Ok(conn)
}

impl Conn {
    /// Sends a command and waits for its answer; pushes that come first are kept.
    async fn ask(&mut self, words: &[&str], command: &'static str) -> Result<Frame, ConnError> {
        self.send(words).await?;
        loop {
            match frame::take(&mut self.input)? {
                Some(push @ Frame::Push(_)) => self.early.push(push),
                Some(answer @ Frame::Error(_)) => return Err(refused(command, &answer)),
                Some(answer) => return Ok(answer),
                None => match self.stream.read_buf(&mut self.input).await {
                    Ok(0) => return Err(ConnError::Closed),
                    Ok(_) => {}
                    Err(source) => return Err(self.io(source)),
                },
            }
        }
    }

    async fn send(&mut self, words: &[&str]) -> Result<(), ConnError> {
        let mut bytes = BytesMut::new();
        pack(&mut bytes, words);
        self.stream.write_all(&bytes).await.map_err(|e| self.io(e))
    }

    fn io(&self, source: std::io::Error) -> ConnError {
        let addr = self
            .stream
            .peer_addr()
            .unwrap_or_else(|_| SocketAddr::from(([0, 0, 0, 0], 0)));
        ConnError::Io { addr, source }
    }
}

/// Appends a command to a buffer of bytes to send.
pub(super) fn pack(out: &mut BytesMut, words: &[&str]) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
}

fn refused(command: &'static str, answer: &Frame) -> ConnError {
    let answer = match answer {
        Frame::Error(text) | Frame::Text(text) => String::from_utf8_lossy(text).into_owned(),
        other => format!("{other:?}"),
    };
    ConnError::Refused {
        command,
        answer: answer.chars().take(200).collect(),
    }
}

fn run_id(info: &Frame) -> Option<String> {
    let text = std::str::from_utf8(info.text()?).ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix("run_id:"))
        .map(|id| id.trim().to_owned())
}

/// The flags to set, if those that are set do not cover: events by name (E) of strings ($), of any type (g), of
/// expiry (x) and of eviction (e). What is set already stays.
fn missing_flags(set: &str) -> Option<String> {
    let has = |flag: char| set.contains(flag) || (flag != 'E' && set.contains('A'));
    let missing: String = "E$gxe".chars().filter(|&flag| !has(flag)).collect();
    (!missing.is_empty()).then(|| format!("{set}{missing}"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_added_only_where_needed_and_none_is_taken_away() {
        assert_eq!(missing_flags("AKE"), None);
        assert_eq!(missing_flags("E$gxe"), None);
        assert_eq!(missing_flags("").as_deref(), Some("E$gxe"));
        assert_eq!(missing_flags("AK").as_deref(), Some("AKE"));
        assert_eq!(missing_flags("Kx").as_deref(), Some("KxE$ge"));
    }

    #[test]
    fn commands_are_packed_as_arrays_of_bulk_strings() {
        let mut out = BytesMut::new();
        pack(&mut out, &["GET", "fp:é"]);
        assert_eq!(&out[..], "*2\r\n$3\r\nGET\r\n$5\r\nfp:é\r\n".as_bytes());
    }
}
