//! What passes the tap, on record: each connection, command and reply, stamped.
//!
//! Owns the shape and the number of these events. Must not know rules or what the checker makes of them. A request is
//! stamped before it is forwarded, a reply after it was read, and each is on record before another task runs; one that
//! waited at the tap has two events: `held` when it came, and the one without that word, or `passed` for a reply, when it
//! went on.
use super::command::{Command, reply_text};
use super::rules::Rules;
use crate::record::{Clock, Sink};
use fencepost_checker::{Event, EventType, Process, Value};
use std::cell::Cell;
use std::rc::Rc;

/// Most events of a run; after them one more says so, and only what rules do is still recorded.
const EVENTS_MAX: u64 = 200_000;

/// Words of [`Value::phase`] in the tap's events.
pub mod state {
    /// It came, and waits at a rule.
    pub const HELD: &str = "held";
    /// A reply that was held goes on to the client now.
    pub const PASSED: &str = "passed";
    /// It went no further.
    pub const LOST: &str = "lost";
    /// A command that the tap answers itself; the server never sees it.
    pub const ANSWERED: &str = "answered";
    /// The tap's own answer goes to the client.
    pub const MADE: &str = "made";
    /// The second sending of a doubled command.
    pub const DOUBLED: &str = "doubled";
    /// The reply to a doubled command's second sending.
    pub const DISCARDED: &str = "discarded";
}

/// Writes the tap's events.
pub(super) struct Wire {
    pub clock: Clock,
    pub sink: Rc<dyn Sink>,
    pub rules: Rc<Rules>,
    /// Answers that are due, on all connections.
    due: Cell<usize>,
    written: Cell<u64>,
}

/// One connection, as its events name it.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub client: Rc<str>,
    /// The node by number from 0, and by name.
    pub node: usize,
    pub name: Rc<str>,
    pub conn: u64,
}

impl Wire {
    pub(super) fn new(clock: Clock, sink: Rc<dyn Sink>, rules: Rc<Rules>) -> Self {
        Self {
            clock,
            sink,
            rules,
            due: Cell::new(0),
            written: Cell::new(0),
        }
    }

    /// Answers that are due to anybody.
    pub(super) fn due(&self) -> usize {
        self.due.get()
    }

    /// So many more are due.
    pub(super) fn owed(&self, answers: usize) {
        self.due.set(self.due.get() + answers);
    }

    /// So many are not due any more.
    pub(super) fn settled(&self, answers: usize) {
        self.due.set(self.due.get() - answers);
    }

    /// A connection came or went, or cannot be read any more.
    pub(super) fn line(&self, line: &Line, f: &str, why: &str) {
        self.emit(self.clock.now(), line, f, None, 0, Some(why), None, true);
    }

    /// A command, at the time `at`.
    pub(super) fn request(
        &self,
        at: u64,
        line: &Line,
        number: u64,
        command: &Command,
        state: Option<&str>,
    ) {
        if self.full(at, state) {
            return;
        }
        let key = self.rules.key_of(command);
        let text = command.text();
        self.emit(
            at,
            line,
            "request",
            key.as_deref(),
            number,
            Some(&text),
            state,
            false,
        );
    }

    /// A reply, at the time `at`; number 0 where it answers nothing.
    pub(super) fn reply(
        &self,
        at: u64,
        line: &Line,
        answers: Option<(u64, &Command)>,
        bytes: &[u8],
        state: Option<&str>,
    ) {
        if self.full(at, state) {
            return;
        }
        let key = answers.and_then(|(_, command)| self.rules.key_of(command));
        let number = answers.map_or(0, |(number, _)| number);
        let f = if answers.is_some() { "reply" } else { "push" };
        let text = reply_text(&bytes[..bytes.len().min(1024)]);
        let key = key.as_deref();
        self.emit(at, line, f, key, number, Some(&text), state, false);
    }

    /// A script's text, once.
    pub(super) fn script(&self, line: &Line, sha: &str, text: &[u8]) {
        let text = String::from_utf8_lossy(&text[..text.len().min(4096)]).into_owned();
        let at = self.clock.now();
        self.emit(at, line, "script", Some(sha), 0, Some(&text), None, true);
    }

    fn full(&self, at: u64, state: Option<&str>) -> bool {
        let written = self.written.get();
        if written == EVENTS_MAX {
            self.written.set(written + 1);
            let line = Line {
                client: "".into(),
                node: 0,
                name: "".into(),
                conn: 0,
            };
            let why = format!("more than {EVENTS_MAX} events: from here on only what rules do");
            self.emit(at, &line, "full", None, 0, Some(&why), None, true);
        }
        written >= EVENTS_MAX && state.is_none()
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one private place that fills a flat record"
    )]
    fn emit(
        &self,
        at: u64,
        line: &Line,
        f: &str,
        key: Option<&str>,
        number: u64,
        text: Option<&str>,
        state: Option<&str>,
        free: bool,
    ) {
        if !free {
            self.written.set(self.written.get() + 1);
        }
        let named = |s: &str| (!s.is_empty()).then(|| s.to_owned().into());
        self.sink.emit(Event {
            index: 0,
            time: at,
            process: Process::Named("tap".into()),
            client: named(&line.client),
            worker: None,
            kind: EventType::Info,
            f: f.into(),
            key: key.map(Into::into),
            value: Value {
                node: named(&line.name),
                conn: (line.conn > 0).then_some(line.conn),
                message: (number > 0).then_some(number),
                text: text.map(Into::into),
                phase: state.map(Into::into),
                ..Value::default()
            },
            error: None,
        });
    }
}
