//! One pipelined connection to one server, for any number of concurrent callers, with errors that tell *not sent*
//! from *unknown*.
//!
//! Owns the connection, its reconnects and the matching of answers to commands; packing and parsing are the redis
//! crate's. (Its `MultiplexedConnection` will not do here: after one cut it says "broken pipe" for ever, in the same
//! words for what was in flight and for what was never sent.) Must not know locks. Answers go to whoever called.
//!
//! * Commands are queued when [`Resp::call`] is called, and everything queued goes out in one write.
//! * Answers belong to commands in order. Whoever gives up an answer drops the future; the command stays queued or in
//!   flight, and its late answer is read and dropped, so that the answers behind it still belong to their commands.
//! * A connection is made at first use and again at the next use after a cut. What was queued but not sent when an
//!   open connection was cut goes to the next one, once.
//!
//! Single-threaded: needs a `LocalSet`.
use redis::{Cmd, Value};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

/// Longest answer, in bytes; a longer one counts as garbled.
const ANSWER_MAX: usize = 16 << 20;
/// Most bytes waiting to be written.
const BACKLOG_MAX: usize = 4 << 20;
/// Most commands without answer.
const PENDING_MAX: usize = 1 << 16;

/// Why a command has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RespError {
    /// No byte of it left: it will never be executed.
    #[error("not sent: {0}")]
    NotSent(Break),
    /// Bytes left and no answer came: executed, or not, or at any later time.
    #[error("unknown whether executed: {0}")]
    Unknown(Break),
}

/// What came between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Break {
    /// Nobody listens there, or the connection was not made in time.
    #[error("connection refused")]
    Refused,
    /// The connection was reset or closed.
    #[error("connection reset")]
    Reset,
    /// Too much waits on this connection already.
    #[error("too many commands waiting")]
    Backlog,
    /// The bytes that came are no RESP, or came unasked.
    #[error("answer not understood")]
    Garbled,
}

/// A pipelined connection; clones share it. It is closed when the last clone is gone.
#[derive(Debug, Clone)]
pub struct Resp(Rc<Handle>);

#[derive(Debug)]
struct Handle(Rc<Inner>);

impl Drop for Handle {
    fn drop(&mut self) {
        let mut state = self.0.state.borrow_mut();
        state.closed = true;
        state.wake();
    }
}

#[derive(Debug)]
struct Inner {
    addr: SocketAddr,
    connect_limit: Duration,
    /// Its commands are a part of what a lock costs.
    counts: bool,
    state: RefCell<State>,
}

type Answer = Result<Value, RespError>;

/// Positions count bytes over the whole life of the connection and its successors.
#[derive(Debug, Default)]
struct State {
    /// A task makes or serves the connection.
    running: bool,
    closed: bool,
    /// Bytes queued; the first stands at position `base`, the first `sent` are in the kernel's hands.
    out: Vec<u8>,
    base: u64,
    sent: usize,
    /// Commands without answer, each with the position of its first byte.
    pending: VecDeque<(u64, oneshot::Sender<Answer>)>,
    waker: Option<Waker>,
}

impl State {
    fn wake(&self) {
        if let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
    }

    /// After a cut: every command of which a byte left is unknown; the others stay queued.
    fn fail_sent(&mut self, why: Break) {
        let written = self.base + self.sent as u64;
        while self.pending.front().is_some_and(|(at, _)| *at < written) {
            if let Some((_, answer)) = self.pending.pop_front() {
                let _ = answer.send(Err(RespError::Unknown(why)));
            }
        }
        let end = self.base + self.out.len() as u64;
        let first = self.pending.front().map_or(end, |(at, _)| *at);
        self.out.drain(..(first - self.base) as usize);
        self.base = first;
        self.sent = 0;
    }

    /// No connection: nothing that is still queued was sent.
    fn fail_queued(&mut self, why: Break) {
        for (_, answer) in self.pending.drain(..) {
            let _ = answer.send(Err(RespError::NotSent(why)));
        }
        self.base += self.out.len() as u64;
        self.out.clear();
        self.sent = 0;
    }
}

impl Resp {
    /// A connection to `addr`, not made yet. `connect_limit` bounds the making of each.
    pub fn new(addr: SocketAddr, connect_limit: Duration) -> Self {
        Self::with(addr, connect_limit, true)
    }

    /// As [`Resp::new`], for questions that go on beside the lock's commands and are not counted among them.
    pub fn beside(addr: SocketAddr, connect_limit: Duration) -> Self {
        Self::with(addr, connect_limit, false)
    }

    fn with(addr: SocketAddr, connect_limit: Duration, counts: bool) -> Self {
        let inner = Inner {
            addr,
            connect_limit,
            counts,
            state: RefCell::default(),
        };
        Self(Rc::new(Handle(Rc::new(inner))))
    }

    /// Queue `cmd`, before this returns, and wait for its answer. There is no deadline here: drop the future to give up.
    ///
    /// An error of the server is an answer (`Value::ServerError`).
    pub fn call(&self, cmd: &Cmd) -> impl Future<Output = Answer> + use<> {
        let queued = self.queue(cmd);
        async move {
            match queued {
                Ok(answer) => answer
                    .await
                    .unwrap_or(Err(RespError::Unknown(Break::Reset))),
                Err(error) => Err(error),
            }
        }
    }

    fn queue(&self, cmd: &Cmd) -> Result<oneshot::Receiver<Answer>, RespError> {
        let inner = &self.0.0;
        let mut state = inner.state.borrow_mut();
        if state.out.len() - state.sent > BACKLOG_MAX || state.pending.len() >= PENDING_MAX {
            return Err(RespError::NotSent(Break::Backlog));
        }
        let at = state.base + state.out.len() as u64;
        cmd.write_packed_command(&mut state.out);
        let (sender, receiver) = oneshot::channel();
        state.pending.push_back((at, sender));
        if state.running {
            state.wake();
        } else {
            state.running = true;
            tokio::task::spawn_local(inner.clone().serve());
        }
        Ok(receiver)
    }
}

impl Inner {
    /// Make a connection and serve it until it is cut; then once more, if something is queued that was not sent.
    async fn serve(self: Rc<Self>) {
        for last in [false, true] {
            let connect = TcpStream::connect(self.addr);
            let Ok(Ok(stream)) = tokio::time::timeout(self.connect_limit, connect).await else {
                self.state.borrow_mut().fail_queued(Break::Refused);
                break;
            };
            let _ = stream.set_nodelay(true);
            let (mut stream, mut input) = (stream, Input::default());
            let why = poll_fn(|cx| self.turn(&mut stream, &mut input, cx)).await;
            let mut state = self.state.borrow_mut();
            let open = state.pending.len();
            state.fail_sent(why);
            self.count(open - state.pending.len());
            if last || state.closed {
                state.fail_queued(why);
            }
            if state.pending.is_empty() {
                break;
            }
        }
        let mut state = self.state.borrow_mut();
        state.running = false;
        state.waker = None;
    }

    /// Read and write what can be; ready when the connection is over. Reading comes first, so that a command is not
    /// written to a connection that is known to be closed.
    fn turn(&self, stream: &mut TcpStream, input: &mut Input, cx: &mut Context<'_>) -> Poll<Break> {
        loop {
            match input.fill(stream, cx) {
                Poll::Pending => break,
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(Break::Reset),
                Poll::Ready(Ok(_)) => {}
            }
            if let Err(why) = self.answer(input) {
                return Poll::Ready(why);
            }
        }
        let mut state = self.state.borrow_mut();
        if state.closed {
            return Poll::Ready(Break::Reset);
        }
        while state.sent < state.out.len() {
            match stream.poll_write_ready(cx) {
                Poll::Pending => break,
                Poll::Ready(Err(_)) => return Poll::Ready(Break::Reset),
                Poll::Ready(Ok(())) => {}
            }
            match stream.try_write(&state.out[state.sent..]) {
                Ok(n) => state.sent += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(_) => return Poll::Ready(Break::Reset),
            }
        }
        if state.sent == state.out.len() || state.sent > 64 << 10 {
            let sent = std::mem::take(&mut state.sent);
            state.base += sent as u64;
            state.out.drain(..sent);
        }
        if !state
            .waker
            .as_ref()
            .is_some_and(|w| w.will_wake(cx.waker()))
        {
            state.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// So many commands left, and are answered or never will be.
    fn count(&self, commands: usize) {
        if self.counts {
            crate::sent::more(commands as u64);
        }
    }

    /// Hand every whole answer in `input` to its command.
    fn answer(&self, input: &mut Input) -> Result<(), Break> {
        let mut state = self.state.borrow_mut();
        while let Some(value) = input.take()? {
            let (_, answer) = state.pending.pop_front().ok_or(Break::Garbled)?;
            self.count(1);
            let _ = answer.send(Ok(value));
        }
        Ok(())
    }
}

/// Bytes read and not yet parsed.
#[derive(Debug, Default)]
struct Input {
    bytes: Vec<u8>,
    /// Start of what is not yet parsed.
    from: usize,
    /// End of what was read.
    to: usize,
}

impl Input {
    /// Reads what there is. After less than there was room for, tokio knows that nothing is left and does not ask.
    fn fill(
        &mut self,
        stream: &mut TcpStream,
        cx: &mut Context<'_>,
    ) -> Poll<std::io::Result<usize>> {
        if self.from == self.to {
            (self.from, self.to) = (0, 0);
        } else if self.from > 0 && self.to == self.bytes.len() {
            self.bytes.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
        }
        if self.to == self.bytes.len() {
            self.bytes.resize((self.to * 2).max(16 << 10), 0);
        }
        let mut room = ReadBuf::new(&mut self.bytes[self.to..]);
        std::task::ready!(Pin::new(stream).poll_read(cx, &mut room))?;
        let n = room.filled().len();
        self.to += n;
        Poll::Ready(Ok(n))
    }

    fn take(&mut self) -> Result<Option<Value>, Break> {
        let unread = &self.bytes[self.from..self.to];
        let Some(end) = frame(unread, 0, 0)? else {
            return if unread.len() > ANSWER_MAX {
                Err(Break::Garbled)
            } else {
                Ok(None)
            };
        };
        let whole = &unread[..end];
        let value = match plain(whole) {
            Some(value) => value,
            None => redis::parse_redis_value(whole).map_err(|_| Break::Garbled)?,
        };
        self.from += end;
        Ok(Some(value))
    }
}

/// The answers that a lock gets nearly always. The redis crate's parser takes a buffer of 8 KiB for each answer, which
/// is a good part of what a cycle costs; all others are left to it.
fn plain(frame: &[u8]) -> Option<Value> {
    match frame {
        b"+OK\r\n" => Some(Value::Okay),
        b"$-1\r\n" | b"_\r\n" => Some(Value::Nil),
        [b':', digits @ .., b'\r', b'\n'] => {
            let number = std::str::from_utf8(digits).ok()?.parse().ok()?;
            Some(Value::Int(number))
        }
        _ => None,
    }
}

/// Deepest nesting of arrays in an answer.
const DEPTH_MAX: u32 = 16;

/// Where the RESP value that starts at `at` ends, if all of it is there.
fn frame(bytes: &[u8], at: usize, depth: u32) -> Result<Option<usize>, Break> {
    let Some(kind) = bytes.get(at) else {
        return Ok(None);
    };
    let line = &bytes[at + 1..];
    let Some(len) = line.iter().position(|b| *b == b'\r') else {
        return Ok(None);
    };
    let after = at + 1 + len + 2;
    if after > bytes.len() {
        return Ok(None);
    }
    let number = || {
        let text = std::str::from_utf8(&line[..len]).map_err(|_| Break::Garbled)?;
        text.parse::<i64>().map_err(|_| Break::Garbled)
    };
    let elements = match kind {
        b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => return Ok(Some(after)),
        b'$' | b'=' | b'!' => {
            let Ok(size) = usize::try_from(number()?) else {
                return Ok(Some(after));
            };
            if size > ANSWER_MAX {
                return Err(Break::Garbled);
            }
            let end = after + size + 2;
            return Ok((end <= bytes.len()).then_some(end));
        }
        b'*' | b'~' | b'>' => number()?,
        b'%' => number()?.saturating_mul(2),
        _ => return Err(Break::Garbled),
    };
    if depth == DEPTH_MAX {
        return Err(Break::Garbled);
    }
    let mut end = after;
    for _ in 0..elements {
        match frame(bytes, end, depth + 1)? {
            Some(next) => end = next,
            None => return Ok(None),
        }
    }
    Ok(Some(end))
}

#[cfg(test)]
mod tests;
