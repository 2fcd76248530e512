//! ZooKeeper's client protocol, as much of it as locks, probes and the observer use
//! (<https://zookeeper.apache.org/doc/r3.8.0/zookeeperProgrammers.html>).
//!
//! Owns requests and the reading of answers. Must not know locks or faults. Answers go to whoever called. The clients of
//! the crates that there are keep a session alive by themselves and do not tell when they last did, or whether a byte
//! of a request left; a lock's promise rests on both.
//!
//! A session outlives its connections: it ends when no server heard of it for its timeout. [`Conn::go_on`] connects to
//! any server with a session that there is, which the leader then counts anew.
//!
//! Single-threaded.
mod wire;

use crate::resp::Break;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use wire::{In, Op, Out, Stat};

/// Why a request has no answer that counts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ZkError {
    /// No byte of it left: it will never be executed.
    #[error("not sent: {0}")]
    NotSent(Break),
    /// Bytes left and no answer came: executed, or not, or at any later time.
    #[error("unknown whether executed: {0}")]
    Unknown(Break),
    /// The session is over.
    #[error("the session is over")]
    Expired,
    /// The server answered with an error, such as −101 (no such node).
    #[error("the server answered with error {0}")]
    Refused(i32),
}

/// There is no such node.
pub const NO_NODE: i32 = -101;
/// The node is there already.
pub const NODE_EXISTS: i32 = -110;
const SESSION_EXPIRED: i32 = -112;
const SESSION_MOVED: i32 = -118;
/// Longest message, in bytes, without its length.
const MESSAGE_MAX: usize = 4 << 20;
const GARBLED: ZkError = ZkError::Unknown(Break::Garbled);
const RESET: ZkError = ZkError::Unknown(Break::Reset);

/// A session, as whoever holds it knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Session {
    /// Given by the servers.
    pub id: i64,
    secret: [u8; wire::SECRET],
    /// How long the servers keep it without hearing of it; as they granted it.
    pub timeout: Duration,
}

impl Session {
    /// Somebody else's, of whom only the id is known: its password follows from that.
    pub fn of(id: i64, timeout: Duration) -> Self {
        let secret = wire::secret(id);
        Self {
            id,
            secret,
            timeout,
        }
    }
}

/// Something that happened to a node below a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The node.
    pub path: String,
    /// What.
    pub what: What,
}

/// What happened to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// It is there now.
    Created,
    /// It is gone.
    Deleted,
    /// Anything else.
    Other,
}

/// A connection to one server, for one session. One that gave an error is of no more use.
#[derive(Debug)]
pub struct Conn {
    stream: TcpStream,
    got: Vec<u8>,
    /// Of the last request.
    number: i32,
    session: Session,
    /// The last transaction that the server knew when it answered.
    seen: i64,
    events: VecDeque<Event>,
}

impl Conn {
    /// Connect within `limit`, and ask for a new session.
    ///
    /// # Errors
    /// [`ZkError`]. A session that may have been made nevertheless holds nothing, and ends by itself.
    pub async fn open(at: SocketAddr, limit: Duration, timeout: Duration) -> Result<Self, ZkError> {
        let fresh = Session {
            id: 0,
            secret: [0; wire::SECRET],
            timeout,
        };
        Self::go_on(at, limit, fresh).await
    }

    /// Connect within `limit`, and go on with a session, at this server from now on.
    ///
    /// # Errors
    /// [`ZkError::Expired`] where it is over; the others.
    pub async fn go_on(at: SocketAddr, limit: Duration, session: Session) -> Result<Self, ZkError> {
        let mut conn = Self {
            stream: connect(at, limit).await?,
            got: Vec::new(),
            number: 0,
            session,
            seen: 0,
            events: VecDeque::new(),
        };
        let asked = millis(session.timeout);
        conn.send(&wire::connect(0, asked, session.id, &session.secret))
            .await?;
        let answer = conn.message().await?;
        let mut read = In(&answer);
        let (_, granted) = (read.int(), read.int().ok_or(GARBLED)?);
        let (id, secret) = (read.long().ok_or(GARBLED)?, read.bytes().ok_or(GARBLED)?);
        if granted <= 0 {
            return Err(ZkError::Expired);
        }
        conn.session = Session {
            id,
            secret: secret.try_into().map_err(|_| GARBLED)?,
            timeout: Duration::from_millis(granted.unsigned_abs().into()),
        };
        Ok(conn)
    }

    /// Its session.
    pub fn session(&self) -> Session {
        self.session
    }

    /// The last transaction that the server knew when it answered for the last time; 0: it has not yet.
    pub fn seen(&self) -> i64 {
        self.seen
    }

    /// Create a node that goes with the session, with a growing number behind its name; returns its name in full and the
    /// transaction that created it.
    ///
    /// # Errors
    /// [`ZkError`]; [`NO_NODE`] where its parent is not there.
    pub async fn queue(&mut self, path: &str) -> Result<(String, i64), ZkError> {
        let (path, stat) = self.create(path, wire::EPHEMERAL_SEQUENTIAL).await?;
        Ok((path, stat.created))
    }

    /// Create a node that goes with the session, to be told what the leader took for the time: the transaction, and the
    /// leader's time of day in it, in ms since 1970.
    ///
    /// # Errors
    /// [`ZkError`].
    pub async fn stamp(&mut self, path: &str) -> Result<(i64, i64), ZkError> {
        let (_, stat) = self.create(path, wire::EPHEMERAL).await?;
        Ok((stat.created, stat.stamp_ms))
    }

    /// Create a node that stays; one that is there already is as good.
    ///
    /// # Errors
    /// [`ZkError`].
    pub async fn folder(&mut self, path: &str) -> Result<(), ZkError> {
        match self.create(path, wire::PERSISTENT).await {
            Ok(_) | Err(ZkError::Refused(NODE_EXISTS)) => Ok(()),
            Err(why) => Err(why),
        }
    }

    async fn create(&mut self, path: &str, flags: i32) -> Result<(String, Stat), ZkError> {
        self.number += 1;
        let request = wire::create(self.number, path, flags);
        let answer = self.ask(&request).await?;
        let mut read = In(&answer);
        let path = read.text().ok_or(GARBLED)?;
        Ok((path, read.stat().ok_or(GARBLED)?))
    }

    /// The names of the nodes right below one, in no order; none where that is not there.
    ///
    /// # Errors
    /// [`ZkError`].
    pub async fn children(&mut self, path: &str) -> Result<Vec<String>, ZkError> {
        let request = self.next(Op::Children).text(path).flag(false).framed();
        match self.ask(&request).await {
            Ok(answer) => In(&answer).texts().ok_or(GARBLED),
            Err(ZkError::Refused(NO_NODE)) => Ok(Vec::new()),
            Err(why) => Err(why),
        }
    }

    /// The transaction that created a node, and the id of the session that it goes with; none where it is not there.
    ///
    /// # Errors
    /// [`ZkError`].
    pub async fn exists(&mut self, path: &str) -> Result<Option<(i64, i64)>, ZkError> {
        let request = self.next(Op::Exists).text(path).flag(false).framed();
        match self.ask(&request).await {
            Ok(answer) => {
                let stat = In(&answer).stat().ok_or(GARBLED)?;
                Ok(Some((stat.created, stat.session)))
            }
            Err(ZkError::Refused(NO_NODE)) => Ok(None),
            Err(why) => Err(why),
        }
    }

    /// Write to a node, which a quorum must agree on; false where it is not there.
    ///
    /// # Errors
    /// [`ZkError`].
    pub async fn write(&mut self, path: &str) -> Result<bool, ZkError> {
        let any_version = -1;
        let request = self.next(Op::SetData).text(path).bytes(&[]);
        match self.ask(&request.int(any_version).framed()).await {
            Ok(_) => Ok(true),
            Err(ZkError::Refused(NO_NODE)) => Ok(false),
            Err(why) => Err(why),
        }
    }

    /// Delete a node; one that is not there is as good.
    ///
    /// # Errors
    /// [`ZkError`].
    pub async fn delete(&mut self, path: &str) -> Result<(), ZkError> {
        let any_version = -1;
        let request = self.next(Op::Delete).text(path).int(any_version).framed();
        match self.ask(&request).await {
            Ok(_) | Err(ZkError::Refused(NO_NODE)) => Ok(()),
            Err(why) => Err(why),
        }
    }

    /// Wait until this server has all that the leader had committed when it heard of this. The events of these come first.
    ///
    /// # Errors
    /// [`ZkError`].
    pub async fn sync(&mut self) -> Result<(), ZkError> {
        let request = self.next(Op::Sync).text("/").framed();
        self.ask(&request).await.map(drop)
    }

    /// Hear of all that happens to the nodes below one, from now on.
    ///
    /// # Errors
    /// [`ZkError`].
    pub async fn watch(&mut self, path: &str) -> Result<(), ZkError> {
        self.number += 1;
        let request = wire::add_watch(self.number, path);
        self.ask(&request).await.map(drop)
    }

    /// What was heard since this was asked for the last time, in the order in which it happened.
    pub fn events(&mut self) -> Vec<Event> {
        self.events.drain(..).collect()
    }

    /// Wait until something is heard. Cancel-safe.
    ///
    /// # Errors
    /// [`ZkError::Unknown`] where the connection ended.
    pub async fn hear(&mut self) -> Result<(), ZkError> {
        while self.events.is_empty() {
            let message = self.message().await?;
            self.note(&message)?;
        }
        Ok(())
    }

    /// End the session, and with it its nodes.
    ///
    /// # Errors
    /// [`ZkError`].
    pub async fn close(mut self) -> Result<(), ZkError> {
        let request = self.next(Op::Close).framed();
        self.ask(&request).await.map(drop)
    }

    fn next(&mut self, op: Op) -> Out {
        self.number += 1;
        wire::request(self.number, op)
    }

    /// One request, whose number is the last given, and its answer.
    async fn ask(&mut self, request: &[u8]) -> Result<Vec<u8>, ZkError> {
        self.send(request).await?;
        loop {
            let message = self.message().await?;
            let Some((number, error, rest)) = self.note(&message)? else {
                continue;
            };
            // An answer that was given up earlier comes before this one.
            if number != self.number {
                continue;
            }
            return match error {
                0 => Ok(rest),
                SESSION_EXPIRED => Err(ZkError::Expired),
                // It goes on at another server, where it is asked again.
                SESSION_MOVED => Err(RESET),
                code => Err(ZkError::Refused(code)),
            };
        }
    }

    /// An answer: number, error and the rest; none: it was an event, and is kept.
    fn note(&mut self, message: &[u8]) -> Result<Option<(i32, i32, Vec<u8>)>, ZkError> {
        let mut read = In(message);
        let number = read.int().ok_or(GARBLED)?;
        let transaction = read.long().ok_or(GARBLED)?;
        self.seen = self.seen.max(transaction);
        let error = read.int().ok_or(GARBLED)?;
        if number != wire::EVENT {
            return Ok(Some((number, error, read.0.to_vec())));
        }
        let what = match read.int().ok_or(GARBLED)? {
            1 => What::Created,
            2 => What::Deleted,
            _ => What::Other,
        };
        let _state = read.int();
        let path = read.text().ok_or(GARBLED)?;
        self.events.push_back(Event { path, what });
        Ok(None)
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<(), ZkError> {
        crate::sent::more(1);
        self.stream.write_all(bytes).await.map_err(|_| RESET)
    }

    async fn message(&mut self) -> Result<Vec<u8>, ZkError> {
        loop {
            if let Some(message) = wire::message(&mut self.got, MESSAGE_MAX) {
                return message.map_err(|()| GARBLED);
            }
            match self.stream.read_buf(&mut self.got).await {
                Ok(n) if n > 0 => {}
                _ => return Err(RESET),
            }
        }
    }
}

async fn connect(at: SocketAddr, limit: Duration) -> Result<TcpStream, ZkError> {
    match tokio::time::timeout(limit, TcpStream::connect(at)).await {
        Ok(Ok(stream)) => {
            // Where that is refused requests are late, not wrong.
            let _ = stream.set_nodelay(true);
            Ok(stream)
        }
        _ => Err(ZkError::NotSent(Break::Refused)),
    }
}

/// Create a node that goes with a session of its own after `life`, all in one go: it is executed even where no answer
/// comes back. One that is there already is as good.
///
/// # Errors
/// [`ZkError`].
pub async fn leave_mark(at: SocketAddr, path: &str, life: Duration) -> Result<(), ZkError> {
    let fresh = Session {
        id: 0,
        secret: [0; wire::SECRET],
        timeout: life,
    };
    let mut conn = Conn {
        stream: connect(at, life).await?,
        got: Vec::new(),
        number: 1,
        session: fresh,
        seen: 0,
        events: VecDeque::new(),
    };
    let mut both = wire::connect(0, millis(life), 0, &fresh.secret);
    both.extend(wire::create(1, path, wire::EPHEMERAL));
    conn.send(&both).await?;
    conn.message().await?;
    let answer = conn.message().await?;
    match conn.note(&answer)? {
        Some((_, 0 | NODE_EXISTS, _)) => Ok(()),
        Some((_, code, _)) => Err(ZkError::Refused(code)),
        None => Err(GARBLED),
    }
}

/// One of the commands of four letters, such as `srvr`, which a server answers by itself
/// (<https://zookeeper.apache.org/doc/r3.8.0/zookeeperAdmin.html#sc_4lw>).
///
/// # Errors
/// [`ZkError`].
pub async fn command(at: SocketAddr, limit: Duration, word: &str) -> Result<String, ZkError> {
    let mut stream = connect(at, limit).await?;
    stream.write_all(word.as_bytes()).await.map_err(|_| RESET)?;
    let mut said = Vec::new();
    let read = stream.take(MESSAGE_MAX as u64).read_to_end(&mut said).await;
    match read {
        Ok(n) if n > 0 => Ok(String::from_utf8_lossy(&said).into_owned()),
        _ => Err(RESET),
    }
}

/// Knock at the port on which a server listens for the votes of others: it hangs up on whoever has no version that it
/// knows, which is an answer. Returns once it did, or says why not.
///
/// # Errors
/// [`ZkError`]: nobody listens there, or the connection ended before anything was said.
pub async fn knock(at: SocketAddr, limit: Duration) -> Result<(), ZkError> {
    /// Whoever cannot reach the server hangs up at once; the server waits for the first words.
    const LISTENS: Duration = Duration::from_millis(20);
    const NO_VERSION: i64 = -1;
    let mut stream = connect(at, limit).await?;
    let mut byte = [0];
    if tokio::time::timeout(LISTENS, stream.read(&mut byte))
        .await
        .is_ok()
    {
        return Err(RESET);
    }
    let word = NO_VERSION.to_be_bytes();
    stream.write_all(&word).await.map_err(|_| RESET)?;
    match stream.read(&mut byte).await {
        Ok(0) | Err(_) => Ok(()),
        Ok(_) => Err(GARBLED),
    }
}

/// What a server says that it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// It leads; else it follows.
    pub leads: bool,
    /// The last transaction that it knows; greater for a leader of a later term.
    pub transaction: i64,
}

/// The term of a transaction: in each at most one server leads.
pub fn term(transaction: i64) -> i64 {
    transaction >> 32
}

/// Ask a server what it does; none while it has no leader.
///
/// # Errors
/// [`ZkError`].
pub async fn status(at: SocketAddr, limit: Duration) -> Result<Option<Status>, ZkError> {
    Ok(read_status(&command(at, limit, "srvr").await?))
}

fn read_status(said: &str) -> Option<Status> {
    let field = |name: &str| said.lines().find_map(|l| l.strip_prefix(name));
    let transaction = field("Zxid: 0x")?;
    Some(Status {
        leads: match field("Mode: ")? {
            "leader" => true,
            "follower" => false,
            _ => return None,
        },
        transaction: i64::from_str_radix(transaction.trim(), 16).ok()?,
    })
}

/// The node below which all locks are, each a node whose children are its queue.
pub const LOCKS: &str = "/fencepost";

/// The node whose children are the queue for a lock key.
pub fn queue_of(key: &str) -> String {
    format!("{LOCKS}/{}", key.replace('/', "|"))
}

/// Who queued up with this node, and at which place; none: it is no node of [`Conn::queue`].
pub fn place(name: &str) -> Option<(&str, u64)> {
    let (who, number) = name.rsplit_once('-')?;
    Some((who, number.parse().ok()?))
}

/// Which of them came first.
pub fn first(names: &[String]) -> Option<&String> {
    let numbered = names.iter().filter_map(|n| Some((place(n)?.1, n)));
    numbered.min_by_key(|(number, _)| *number).map(|(_, n)| n)
}

fn millis(time: Duration) -> i32 {
    i32::try_from(time.as_millis()).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_a_leader_says_no_status() {
        let said = "Zookeeper version: 3.8.0\nZxid: 0x100000004\nMode: leader\nNode count: 6\n";
        let leads = Status {
            leads: true,
            transaction: 0x1_0000_0004,
        };
        assert_eq!(read_status(said), Some(leads));
        let none = "This ZooKeeper instance is not currently serving requests\n";
        assert_eq!(read_status(none), None);
    }

    #[test]
    fn who_came_first_is_told_by_the_number_and_not_by_the_name() {
        let names = ["ff-0000000012", "aa-0000000013", "lost+found"].map(str::to_owned);
        assert_eq!(first(&names), Some(&names[0]));
        assert_eq!(first(&names[2..]), None);
    }
}
