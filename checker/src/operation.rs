//! The operations of a client as they are paired: which they are, what is open, what a worker holds.
//!
//! Owns the codes of answers that the pairing must tell apart. Must not know sections or checks. Used by `collect`.
use crate::event::Event;
use crate::facts::Late;
use crate::names::Name;
use crate::section::{NEVER, NO_SECTION, Ns};

/// Codes with which a library says that the lock is not, or no longer, its caller's.
const NOT_YOURS: [&str; 5] = ["not-owner", "not-held", "lost", "expired", "not-locked"];

/// Codes with which a library says that another holds the lock; any other failure of a try says nothing of that.
const HELD: [&str; 3] = ["held", "locked", "lock-held"];

/// The code with which a caller says that it waited no longer.
const GIVEN_UP: &str = "deadline";

/// The operations that are paired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Op {
    Acquire,
    Release,
    Extend,
    Work,
}

impl Op {
    pub(crate) fn parse(f: &str) -> Option<Self> {
        Some(match f {
            "acquire" => Self::Acquire,
            "release" => Self::Release,
            "extend" => Self::Extend,
            "work" => Self::Work,
            _ => return None,
        })
    }

    /// The call, if it was answered after its stated bound, or given up at it.
    pub(crate) fn late(self, open: &Open, event: &Event<'_>, call_ms: Option<u64>) -> Option<Late> {
        let bound = call_ms?
            .saturating_add(open.wait_ms)
            .saturating_mul(1_000_000);
        let given_up = event.error.as_deref() == Some(GIVEN_UP);
        let late = given_up || event.time - open.inv > bound;
        (late && self != Self::Work).then(|| Late {
            op: self.name(),
            key: open.key,
            client: open.client,
            inv: open.inv,
            ret: event.time,
            bound,
            given_up,
        })
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Release => "release",
            Self::Extend => "extend",
            Self::Work => "work",
        }
    }
}

/// An operation that waits for its answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Open {
    pub inv: Ns,
    pub key: Name,
    pub client: Name,
    pub seat: u32,
    pub ttl_ms: Option<u64>,
    pub shared: bool,
    /// The section that it belongs to, or the extension for `extend`.
    pub subject: u32,
    /// How long it may wait for a held lock.
    pub wait_ms: u64,
}

/// What one worker has to do with one key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hold {
    /// Its last section. A worker that holds several permits holds those below it, too.
    pub section: u32,
    /// The invoke of the first acquire that ended in `info`: from then on, a release without a grant is clean-up.
    pub doubt: Ns,
    /// An acquire that waits for its answer; [`NEVER`] where there is none.
    pub asks: Ns,
    /// The invoke of its last release.
    pub let_go: Ns,
    /// Acquires that were granted in the section (a reentrant lock), and releases begun that did not fail.
    pub depth: u32,
    pub undone: u32,
    /// What it can hold at most: acquires that were granted, less releases that were answered ok.
    pub most: u32,
}

impl Hold {
    pub(crate) const NONE: Self = Self {
        section: NO_SECTION,
        doubt: NEVER,
        asks: NEVER,
        let_go: 0,
        depth: 0,
        undone: 0,
        most: 0,
    };
}

/// The answer says that the lock is not, or no longer, its caller's.
pub(crate) fn is_not_yours(event: &Event<'_>) -> bool {
    let code = event.error.as_deref();
    code.is_some_and(|code| NOT_YOURS.contains(&code))
}

/// The answer says that another holds the lock.
pub(crate) fn says_held(event: &Event<'_>) -> bool {
    let code = event.error.as_deref();
    code.is_some_and(|code| HELD.contains(&code))
}

/// The answer says that too few servers agreed, and that none holds the value of the try.
pub(crate) fn no_quorum(event: &Event<'_>) -> bool {
    event.error.as_deref() == Some("no-quorum")
}
