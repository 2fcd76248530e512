//! Which reply answers which command on one connection.
//!
//! Owns the queue of commands without an answer, and what makes servers answer otherwise than once and in order:
//! publish and subscribe (in RESP2 and RESP3), CLIENT REPLY, MONITOR, replication. Must not know rules. `conn` asks it
//! on both directions.
//!
//! Not followed: a CLIENT REPLY, or a subscription, that is queued in MULTI.
use super::command::Command;
use bytes::Bytes;
use std::collections::VecDeque;
use std::rc::Rc;

/// What becomes of a command's reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It goes to the client.
    Passes,
    /// It is swallowed: the command was doubled by the tap.
    Discarded,
    /// The server never saw the command: this is the answer.
    Made(Bytes),
}

/// A command without an answer.
#[derive(Debug, Clone)]
pub struct Pending {
    /// Its number on this connection, from 1.
    pub number: u64,
    /// The command.
    pub command: Rc<Command>,
    /// What becomes of the reply.
    pub fate: Fate,
    confirms: Option<Confirms>,
}

/// A subscription is confirmed once a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Confirms {
    kind: Sub,
    /// How many are to come; none: one a channel of that kind that is subscribed when the server gets there.
    left: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sub {
    /// Index in [`Pairing::subscribed`].
    class: usize,
    leaves: bool,
}

/// What a reply belongs to.
#[derive(Debug)]
pub enum Answers {
    /// A command; `done` if nothing more will come for it.
    Command(Pending, bool),
    /// Nothing: the server sent it of its own accord.
    Unasked,
}

/// What is to be expected after a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// A reply.
    Reply,
    /// None.
    Nothing,
    /// The connection becomes a stream of something else (replication): bytes pass unread from here on.
    Raw,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Replies {
    #[default]
    On,
    Off,
    SkipNext,
}

/// See the module's page.
#[derive(Debug, Default)]
pub struct Pairing {
    queue: VecDeque<Pending>,
    numbers: u64,
    replies: Replies,
    /// Channels, patterns, shard channels that are subscribed.
    subscribed: [u64; 3],
    /// Confirmations come as arrays (RESP2), and so will messages; in RESP3 both are pushes.
    arrays: bool,
    monitor: bool,
}

impl Pairing {
    /// The next command's number, and what it will be answered.
    pub fn expect(&mut self, command: &Command) -> (u64, Expect) {
        if command.count() == 0 {
            return (self.numbers, Expect::Nothing);
        }
        self.numbers += 1;
        let number = self.numbers;
        if command.name == "CLIENT" && command.says(1, "REPLY") {
            let mode = [("ON", Replies::On), ("OFF", Replies::Off)];
            let mode = mode.iter().find(|(word, _)| command.says(2, word));
            match mode {
                Some((_, mode)) => self.replies = *mode,
                None if command.says(2, "SKIP") && self.replies == Replies::On => {
                    self.replies = Replies::SkipNext;
                    return (number, Expect::Nothing);
                }
                None if command.says(2, "SKIP") => return (number, Expect::Nothing),
                None => {}
            }
        } else if self.replies == Replies::SkipNext {
            self.replies = Replies::On;
            return (number, Expect::Nothing);
        }
        if self.replies == Replies::Off {
            return (number, Expect::Nothing);
        }
        if matches!(command.name.as_str(), "SYNC" | "PSYNC") {
            return (number, Expect::Raw);
        }
        (number, Expect::Reply)
    }

    /// A command is about to be forwarded, or answered in the server's place.
    pub fn push(&mut self, number: u64, command: Rc<Command>, fate: Fate) {
        let confirms = sub(&command.name.to_ascii_lowercase()).map(|kind| Confirms {
            kind,
            left: match command.count() {
                1 if kind.leaves => None,
                n => Some((n - 1) as u64),
            },
        });
        self.queue.push_back(Pending {
            number,
            command,
            fate,
            confirms,
        });
    }

    /// Commands that were pushed and are not answered.
    pub fn due(&self) -> usize {
        self.queue.len()
    }

    /// The answer that is due to the client without the server's doing, if it is its turn.
    pub fn made(&mut self) -> Option<(Pending, Bytes)> {
        let Fate::Made(bytes) = &self.queue.front()?.fate else {
            return None;
        };
        let bytes = bytes.clone();
        self.queue.pop_front().map(|pending| (pending, bytes))
    }

    /// What a reply of this shape belongs to. `first`: its first string or number; `integer`: its last integer.
    pub fn answers(&mut self, kind: u8, first: &[u8], integer: i64) -> Answers {
        let word = String::from_utf8_lossy(&first[..first.len().min(24)]).to_ascii_lowercase();
        let sub = sub(&word).filter(|_| matches!(kind, b'>' | b'*'));
        let listening = self.arrays && self.subscribed.iter().any(|n| *n > 0);
        let confirming = self.queue.front().and_then(|p| p.confirms);
        if let (Some(kind_seen), Some(confirms)) = (sub, confirming)
            && confirms.kind == kind_seen
        {
            self.arrays = kind == b'*';
            return self.confirmed(kind_seen, integer);
        }
        if let Some(seen) = sub
            && (kind == b'>' || listening)
        {
            self.count(seen, integer);
            return Answers::Unasked;
        }
        let message = matches!(word.as_str(), "message" | "pmessage" | "smessage");
        let watched =
            self.monitor && kind == b'+' && word.starts_with(|c: char| c.is_ascii_digit());
        if kind == b'>' || (kind == b'*' && listening && message) || watched {
            return Answers::Unasked;
        }
        let Some(pending) = self.queue.pop_front() else {
            return Answers::Unasked;
        };
        if !matches!(kind, b'-' | b'!') {
            match pending.command.name.as_str() {
                "MONITOR" => self.monitor = true,
                "RESET" => {
                    self.subscribed = [0; 3];
                    self.monitor = false;
                    self.replies = Replies::On;
                }
                _ => {}
            }
        }
        Answers::Command(pending, true)
    }

    /// One confirmation of the subscription at the head of the queue.
    fn confirmed(&mut self, kind: Sub, integer: i64) -> Answers {
        let now = self.subscribed[kind.class];
        self.count(kind, integer);
        let Some(head) = self.queue.front_mut() else {
            return Answers::Unasked;
        };
        let left = match head.confirms.and_then(|c| c.left) {
            Some(left) => left,
            None => now.max(1),
        };
        if left <= 1 {
            return match self.queue.pop_front() {
                Some(pending) => Answers::Command(pending, true),
                None => Answers::Unasked,
            };
        }
        head.confirms = Some(Confirms {
            kind,
            left: Some(left - 1),
        });
        Answers::Command(head.clone(), false)
    }

    /// A confirmation says how many are subscribed now: of channels and patterns together, of shard channels alone.
    fn count(&mut self, kind: Sub, integer: i64) {
        let now = u64::try_from(integer).unwrap_or(0);
        let others = match kind.class {
            0 => self.subscribed[1],
            1 => self.subscribed[0],
            _ => 0,
        };
        self.subscribed[kind.class] = now.saturating_sub(others);
    }
}

fn sub(word: &str) -> Option<Sub> {
    let class = |class, leaves| Some(Sub { class, leaves });
    match word {
        "subscribe" => class(0, false),
        "unsubscribe" => class(0, true),
        "psubscribe" => class(1, false),
        "punsubscribe" => class(1, true),
        "ssubscribe" => class(2, false),
        "sunsubscribe" => class(2, true),
        _ => None,
    }
}
