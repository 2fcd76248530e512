//! One connection through the tap: two directions, each read as messages, and what rules do to them.
//!
//! Owns the bytes in flight and the order of answers. Must not know why a rule is there. Whatever is no RESP passes
//! unread. Both directions run in one task, so that a message costs one wake-up. A message goes on its way first and on
//! record then, with the stamp from before.
use super::command::Command;
use super::ends::{End, READ, end_with_reset, flush, pass_unread, send_now, sink};
use super::pair::{Answers, Expect, Fate, Pairing};
use super::rules::{Action, After, Edge, Hit, Hits, Message};
use super::scan::{Shape, Side};
use super::stream::{Chunk, Stream};
use super::wire::{Line, Wire, state};
use bytes::{Bytes, BytesMut};
use std::cell::{Cell, RefCell};
use std::io::ErrorKind;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::Notify;

/// First byte of a TLS record that opens a handshake.
const TLS: u8 = 0x16;
/// How long the only answer that is due to anybody is waited for without sleeping: to be woken up costs more than all
/// that is done with a message.
const AWAKE: Duration = Duration::from_micros(500);
const NO_TLS: &[u8] =
    b"-ERR the tap reads RESP and no TLS: connect to this address without TLS\r\n";

/// What becomes of the rest of a long message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    Passes,
    Lost,
}

/// A connection.
pub(super) struct Conn {
    wire: Rc<Wire>,
    line: Line,
    pairing: RefCell<Pairing>,
    /// An answer of the tap's own may be due, or the client was left.
    made: Notify,
    /// When the last command was sent on.
    sent: Cell<Instant>,
    /// The rule in whose black hole this connection is.
    dark: RefCell<Option<Rc<Hits>>>,
    raw: Cell<bool>,
    /// The client's end was closed while a command waited.
    left: Cell<bool>,
    /// Nothing more will come from a client that was left.
    over: Cell<bool>,
    /// What the client is told before the connection is closed.
    last_words: Cell<&'static [u8]>,
}

impl Conn {
    pub(super) fn new(wire: Rc<Wire>, line: Line) -> Self {
        Self {
            wire,
            line,
            pairing: RefCell::default(),
            made: Notify::new(),
            sent: Cell::new(Instant::now()),
            dark: RefCell::default(),
            raw: Cell::new(false),
            left: Cell::new(false),
            over: Cell::new(false),
            last_words: Cell::new(b""),
        }
    }

    /// Carries the connection to its end.
    pub(super) async fn serve(self, mut client: TcpStream, upstream: std::net::SocketAddr) {
        self.wire.line(&self.line, "open", "connected");
        let mut server = match TcpStream::connect(upstream).await {
            Ok(server) => server,
            Err(error) => {
                end_with_reset(&client);
                let why = format!("no connection to the node: {error}");
                return self.wire.line(&self.line, "close", &why);
            }
        };
        // Without it a reply could wait 40 ms for an acknowledgement; a failure only costs that.
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let end = {
            let (mut from_client, mut to_client) = client.split();
            let (mut from_server, mut to_server) = server.split();
            let requests = self.requests(&mut from_client, &mut to_server);
            let replies = self.replies(&mut from_server, &mut to_client);
            tokio::pin!(requests, replies);
            tokio::select! {
                end = &mut requests => if end == End::Half { replies.await } else { end },
                end = &mut replies => end,
            }
        };
        // A failure means that nobody listens any more.
        let _ = client.write_all(self.last_words.get()).await;
        if end == End::Reset {
            end_with_reset(&client);
            end_with_reset(&server);
        }
        let why = if end == End::Reset { "reset" } else { "closed" };
        self.wire.line(&self.line, "close", why);
    }

    async fn requests(&self, from: &mut ReadHalf<'_>, to: &mut WriteHalf<'_>) -> End {
        let mut stream = Stream::new(Side::Requests);
        let mut out = BytesMut::new();
        let mut rest = Rest::Passes;
        let mut first = true;
        loop {
            let chunk = match stream.next() {
                Ok(chunk) => chunk,
                Err(error) => {
                    self.wire.line(&self.line, "unread", &error.to_string());
                    out.unsplit(stream.buffer.split());
                    return pass_unread(from, to, out).await;
                }
            };
            match chunk {
                None => {
                    if flush(to, &mut out).await.is_err() {
                        return End::Reset;
                    }
                    stream.buffer.reserve(READ);
                    match from.read_buf(&mut stream.buffer).await {
                        Ok(0) | Err(_) if self.left.get() => {
                            self.over.set(true);
                            self.made.notify_one();
                            return End::Half;
                        }
                        Ok(0) => {
                            // A failure means that the node's end is gone already; the other direction says so.
                            let _ = to.shutdown().await;
                            return End::Half;
                        }
                        Ok(_) if std::mem::take(&mut first) && stream.buffer[0] == TLS => {
                            self.wire.line(&self.line, "refused", "a TLS handshake");
                            self.last_words.set(NO_TLS);
                            return End::Closed;
                        }
                        Ok(_) => {}
                        Err(_) => return End::Reset,
                    }
                }
                Some(Chunk::Rest { bytes, .. }) => {
                    if rest == Rest::Passes {
                        out.extend_from_slice(&bytes);
                        if flush(to, &mut out).await.is_err() {
                            return End::Reset;
                        }
                    }
                }
                Some(Chunk::Message {
                    bytes,
                    shape,
                    whole,
                }) => {
                    let last = stream.buffer.is_empty();
                    let done = self
                        .request(bytes, shape, (whole, last), &mut out, to)
                        .await;
                    match done {
                        Ok(next) => rest = next,
                        Err(Stop::End(end)) => return end,
                        Err(Stop::Sink(hits)) => return sink(from, &hits).await,
                    }
                    if self.raw.get() {
                        out.unsplit(stream.buffer.split());
                        return pass_unread(from, to, out).await;
                    }
                }
            }
        }
    }

    /// One command: what rules ask for, then on its way. `whole`: nothing of it is missing; `last`: nothing stands
    /// behind it.
    async fn request(
        &self,
        bytes: Bytes,
        shape: Shape,
        (whole, last): (bool, bool),
        out: &mut BytesMut,
        to: &mut WriteHalf<'_>,
    ) -> Result<Rest, Stop> {
        let command = Rc::new(Command::new(bytes.clone(), shape));
        if let (Some(text), Some(sha)) = (command.script(), command.sha())
            && self.wire.rules.learn(&sha, text)
        {
            self.wire.script(&self.line, &sha, text);
        }
        let (number, expect) = self.pairing.borrow_mut().expect(&command);
        let record = |state| {
            let at = self.wire.clock.now();
            self.wire.request(at, &self.line, number, &command, state);
        };
        if let Some(hits) = self.dark.borrow().clone() {
            record(Some(state::LOST));
            return Err(Stop::Sink(hits));
        }
        let hits = self.meet(Edge::Request, number, &command);
        if waits(&hits) {
            flush(to, out).await.map_err(|_| Stop::End(End::Reset))?;
            record(Some(state::HELD));
        }
        let hit = self.wait(hits, number, &command).await;
        let push = |fate| {
            self.wire.owed(1);
            let mut pairing = self.pairing.borrow_mut();
            pairing.push(number, command.clone(), fate);
        };
        let lost = |how: &str, hit: &Hit| {
            record(Some(state::LOST));
            self.done(hit, number, &command, how);
        };
        match hit.as_ref().map(|hit| (&hit.action, hit)) {
            Some((Action::Duplicate, hit)) if whole => {
                record(Some(state::DOUBLED));
                if expect == Expect::Reply {
                    push(Fate::Passes);
                    push(Fate::Discarded);
                }
                out.extend_from_slice(&bytes);
                out.extend_from_slice(&bytes);
                self.done(hit, number, &command, "sent twice");
                return Ok(Rest::Passes);
            }
            // A message that goes on in pieces cannot be sent twice: the rule is told nothing, so it did not bite.
            None => {}
            Some((action, _)) if action.passes() => {}
            Some((Action::Answer(answer), hit)) => {
                record(Some(state::ANSWERED));
                if expect == Expect::Reply {
                    push(Fate::Made(answer.clone()));
                    self.made.notify_one();
                }
                self.done(hit, number, &command, "answered in the server's place");
                return Ok(Rest::Lost);
            }
            Some((action, hit)) => {
                flush(to, out).await.map_err(|_| Stop::End(End::Reset))?;
                lost(how(action), hit);
                return Err(self.stop(action, &hit.hits));
            }
        }
        let at = self.wire.clock.now();
        if expect == Expect::Reply {
            push(Fate::Passes);
        }
        out.extend_from_slice(&bytes);
        if last {
            self.send_now(to, out);
        }
        self.wire.request(at, &self.line, number, &command, None);
        if expect == Expect::Raw {
            self.wire.line(&self.line, "unread", "replication begins");
            self.raw.set(true);
        }
        Ok(Rest::Passes)
    }

    async fn replies(&self, from: &mut ReadHalf<'_>, to: &mut WriteHalf<'_>) -> End {
        let mut stream = Stream::new(Side::Replies);
        let mut out = BytesMut::new();
        let mut rest = Rest::Passes;
        let mut told = false;
        loop {
            if self.heard_out() {
                return End::Closed;
            }
            self.answer_made(&mut out);
            if self.raw.get() {
                out.unsplit(stream.buffer.split());
                return pass_unread(from, to, out).await;
            }
            let chunk = match stream.next() {
                Ok(chunk) => chunk,
                Err(error) => {
                    self.wire.line(&self.line, "unread", &error.to_string());
                    out.unsplit(stream.buffer.split());
                    return pass_unread(from, to, out).await;
                }
            };
            match chunk {
                None => {
                    if flush(to, &mut out).await.is_err() {
                        return End::Reset;
                    }
                    if self.left.get() && !std::mem::replace(&mut told, true) {
                        // A failure means that the client's end is gone already.
                        let _ = to.shutdown().await;
                    }
                    stream.buffer.reserve(READ);
                    tokio::select! {
                        read = self.hear(from, &mut stream.buffer) => match read {
                            Ok(0) => return End::Closed,
                            Ok(_) => {}
                            Err(_) => return End::Reset,
                        },
                        () = self.made.notified() => {}
                    }
                }
                Some(Chunk::Rest { bytes, .. }) => {
                    if rest == Rest::Passes {
                        out.extend_from_slice(&bytes);
                        if flush(to, &mut out).await.is_err() {
                            return End::Reset;
                        }
                    }
                }
                Some(Chunk::Message { bytes, shape, .. }) => {
                    let last = stream.buffer.is_empty();
                    match self.reply(&bytes, &shape, last, &mut out, to).await {
                        Ok(next) => rest = next,
                        Err(Stop::End(end)) => return end,
                        Err(Stop::Sink(hits)) => return sink(from, &hits).await,
                    }
                }
            }
        }
    }

    /// Sends commands; the other direction begins to wait.
    fn send_now(&self, to: &WriteHalf<'_>, out: &mut BytesMut) {
        send_now(to, out);
        self.sent.set(Instant::now());
        self.made.notify_one();
    }

    /// Waits for what the server says.
    async fn hear(&self, from: &ReadHalf<'_>, into: &mut BytesMut) -> std::io::Result<usize> {
        loop {
            match from.try_read_buf(into) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => return read,
            }
            let alone = self.pairing.borrow().due() == 1 && self.wire.due() == 1;
            if alone && self.sent.get().elapsed() < AWAKE {
                tokio::task::yield_now().await;
            } else {
                from.readable().await?;
            }
        }
    }

    /// The client was left, and the server has answered all that had come from it.
    fn heard_out(&self) -> bool {
        self.left.get() && self.over.get() && self.pairing.borrow().due() == 0
    }

    /// Answers that the tap gives itself, once it is their turn.
    fn answer_made(&self, out: &mut BytesMut) {
        loop {
            let made = self.pairing.borrow_mut().made();
            let Some((pending, bytes)) = made else {
                return;
            };
            self.wire.settled(1);
            let answers = Some((pending.number, &*pending.command));
            let (at, made) = (self.wire.clock.now(), Some(state::MADE));
            self.wire.reply(at, &self.line, answers, &bytes, made);
            out.extend_from_slice(&bytes);
        }
    }

    /// One reply: what it answers, what rules ask for, then on its way.
    async fn reply(
        &self,
        bytes: &Bytes,
        shape: &Shape,
        last: bool,
        out: &mut BytesMut,
        to: &mut WriteHalf<'_>,
    ) -> Result<Rest, Stop> {
        if let Some(hits) = self.dark.borrow().clone() {
            return Err(Stop::Sink(hits));
        }
        let place = shape.parts.first().cloned().unwrap_or_default();
        let first = bytes.get(place).unwrap_or_default();
        let answers = {
            let mut pairing = self.pairing.borrow_mut();
            pairing.answers(shape.kind, first, shape.last_integer)
        };
        let Answers::Command(pending, complete) = answers else {
            let at = self.wire.clock.now();
            self.wire.reply(at, &self.line, None, bytes, None);
            out.extend_from_slice(bytes);
            return Ok(Rest::Passes);
        };
        self.wire.settled(usize::from(complete));
        let (number, command) = (pending.number, pending.command);
        let answers = Some((number, &*command));
        let record = |state| {
            let at = self.wire.clock.now();
            self.wire.reply(at, &self.line, answers, bytes, state);
        };
        let unheard = match pending.fate {
            Fate::Discarded => Some(state::DISCARDED),
            _ => self.left.get().then_some(state::LOST),
        };
        if unheard.is_some() {
            record(unheard);
            return Ok(Rest::Lost);
        }
        let hits = if complete {
            self.meet(Edge::Reply, number, &command)
        } else {
            Vec::new()
        };
        let waited = waits(&hits);
        if waited {
            flush(to, out).await.map_err(|_| Stop::End(End::Reset))?;
            record(Some(state::HELD));
        }
        let hit = self.wait(hits, number, &command).await;
        let hit = hit.filter(|hit| !hit.action.passes());
        match hit.as_ref().map(|hit| (&hit.action, hit)) {
            None => {
                let at = self.wire.clock.now();
                out.extend_from_slice(bytes);
                if last {
                    send_now(to, out);
                }
                let state = waited.then_some(state::PASSED);
                self.wire.reply(at, &self.line, answers, bytes, state);
                Ok(Rest::Passes)
            }
            Some((Action::Answer(answer), hit)) => {
                record(Some(state::LOST));
                let (at, made) = (self.wire.clock.now(), Some(state::MADE));
                self.wire.reply(at, &self.line, answers, answer, made);
                out.extend_from_slice(answer);
                self.done(hit, number, &command, "its reply replaced");
                Ok(Rest::Lost)
            }
            Some((action, hit)) => {
                flush(to, out).await.map_err(|_| Stop::End(End::Reset))?;
                record(Some(state::LOST));
                self.done(hit, number, &command, how(action));
                Err(self.stop(action, &hit.hits))
            }
        }
    }

    fn meet(&self, edge: Edge, number: u64, command: &Command) -> Vec<Hit> {
        self.wire.rules.meet(&Message {
            client: &self.line.client,
            node: self.line.node,
            edge,
            command,
            number,
        })
    }

    /// Waits at the gates and through the delays; gives the hit that decides what becomes of the message.
    async fn wait(&self, hits: Vec<Hit>, number: u64, command: &Command) -> Option<Hit> {
        let mut last = None;
        for mut hit in hits {
            if let Some(gate) = hit.gate.take() {
                if hit.action == Action::Outlive {
                    self.left.set(true);
                    self.made.notify_one();
                }
                // An error means that nobody holds the gate any more: then it is open.
                let _ = gate.await;
            }
            match hit.action {
                Action::Pass => self.done(&hit, number, command, super::LET_PASS),
                Action::Outlive => self.done(&hit, number, command, "let pass, its client cut off"),
                Action::Delay(by) => {
                    tokio::time::sleep(by).await;
                    self.done(&hit, number, command, "let pass late");
                }
                _ => last = last.or(Some(hit)),
            }
        }
        last
    }

    /// The action was done: the wire's own words are the rule's proof.
    fn done(&self, hit: &Hit, number: u64, command: &Command, how: &str) {
        let Line {
            client, name, conn, ..
        } = &self.line;
        let text = command.text();
        let how = format!("{client}>{name}, connection {conn}, message {number}, `{text}`: {how}");
        hit.hits.was_done(&how);
    }

    fn stop(&self, action: &Action, hits: &Rc<Hits>) -> Stop {
        match action {
            Action::Lose(After::Keep) => Stop::Sink(hits.clone()),
            Action::BlackHole => {
                self.dark.replace(Some(hits.clone()));
                Stop::Sink(hits.clone())
            }
            Action::Reset => Stop::End(End::Reset),
            _ => Stop::End(End::Closed),
        }
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        self.wire.settled(self.pairing.borrow().due());
    }
}

/// Why a direction does not go on.
enum Stop {
    End(End),
    /// What comes is read and thrown away, until the rule is removed.
    Sink(Rc<Hits>),
}

fn how(action: &Action) -> &'static str {
    match action {
        Action::Lose(After::Keep) => "lost, and the connection left open",
        Action::Lose(After::Close) => "lost, and the connection closed",
        Action::Reset => "lost, and the connection reset",
        Action::BlackHole => "lost in a black hole",
        _ => "done",
    }
}

fn waits(hits: &[Hit]) -> bool {
    hits.iter()
        .any(|hit| hit.gate.is_some() || matches!(hit.action, Action::Delay(_)))
}
