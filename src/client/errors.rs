//! The published error table: each code with what it means and, by operation, whether it is definite.
//!
//! Owns the codes. Used by [`super::serve`] (an error becomes `fail` or `info`), by [`super::process`] (a `fail` is
//! believed only where the table agrees) and by PROTOCOL.md, whose table a test compares with this one.
//!
//! *Definite* means: the operation certainly did not take effect and never will. Whoever is in doubt says `info`. A
//! release that was never sent is no exception in spirit: the hold ended when the release was invoked, the key may stay
//! until its lease ends, and so nothing about it is definite.

/// The operations that the table tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// `acquire`.
    Acquire,
    /// `release`.
    Release,
    /// `extend`.
    Extend,
    /// `init`, `work`, `held`, `tick`, `close`: they change nothing on a server, so a `fail` is taken at its word.
    Other,
}

/// What a code says of one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Says {
    /// `fail`: certainly without effect.
    Fail,
    /// `info`: with effect, or without, or at any later time.
    Info,
    /// The code has no meaning for this operation; treated as `info`.
    Never,
}

/// One row.
#[derive(Debug, Clone, Copy)]
pub struct ErrorInfo {
    /// The code.
    pub code: &'static str,
    /// For `acquire`.
    pub acquire: Says,
    /// For `release`.
    pub release: Says,
    /// For `extend`.
    pub extend: Says,
    /// What it means, in one sentence.
    pub meaning: &'static str,
}

const fn row(code: &'static str, says: (Says, Says, Says), meaning: &'static str) -> ErrorInfo {
    let (acquire, release, extend) = says;
    ErrorInfo {
        code,
        acquire,
        release,
        extend,
        meaning,
    }
}

use Says::{Fail, Info, Never};

/// A server's refusal before it executed anything: a failed acquire; a release or extension of which the key's state
/// is not known.
const REFUSED: (Says, Says, Says) = (Fail, Info, Info);
/// No answer, or none that can be trusted.
const DOUBT: (Says, Says, Says) = (Info, Info, Info);

/// The table.
pub const ERRORS: &[ErrorInfo] = &[
    row("held", (Fail, Never, Never), "somebody else holds the lock"),
    row(
        "not-owner",
        (Never, Fail, Fail),
        "the servers answered: the lock is not this worker's (expired, deleted, or another's)",
    ),
    row(
        "not-held",
        (Never, Fail, Fail),
        "the library itself says that this worker holds no such lock; nothing was sent",
    ),
    row(
        "lease-over",
        (Never, Info, Fail),
        "the library itself says that the lease is over; nothing was sent",
    ),
    row(
        "too-late",
        (Fail, Never, Info),
        "granted, but nothing was left of the lease; given back, which was confirmed",
    ),
    row(
        "too-late-unclean",
        DOUBT,
        "granted, but nothing was left of the lease; given back without confirmation",
    ),
    row(
        "no-quorum",
        (Fail, Never, Never),
        "fewer than a quorum agreed; all servers are known not to hold the value any more",
    ),
    row(
        "no-quorum-unclean",
        DOUBT,
        "fewer than a quorum agreed or answered; some server may hold the value, now or later",
    ),
    row(
        "connection-refused",
        REFUSED,
        "no connection could be made; no byte of the command left",
    ),
    row(
        "not-sent",
        REFUSED,
        "no byte of the command left, for another reason",
    ),
    row(
        "connection-reset",
        DOUBT,
        "the connection ended after a byte had left and before the answer",
    ),
    row(
        "timeout",
        DOUBT,
        "no answer within the library's own time limit",
    ),
    row("garbled", DOUBT, "the server's answer was not understood"),
    row(
        "moved",
        REFUSED,
        "MOVED or ASK: the key belongs to another server",
    ),
    row("readonly", REFUSED, "READONLY: the server is a replica"),
    row(
        "noreplicas",
        REFUSED,
        "NOREPLICAS: too few good replicas, refused before execution",
    ),
    row("oom", REFUSED, "OOM: the server is at its memory limit"),
    row(
        "misconf",
        REFUSED,
        "MISCONF: the server cannot save and refuses writes",
    ),
    row(
        "loading",
        REFUSED,
        "LOADING: the server is reading its data",
    ),
    row(
        "clusterdown",
        REFUSED,
        "CLUSTERDOWN: no cluster to serve the key",
    ),
    row(
        "masterdown",
        REFUSED,
        "MASTERDOWN: a replica without its primary",
    ),
    row(
        "noscript",
        REFUSED,
        "NOSCRIPT: the server does not know the script",
    ),
    row(
        "busy",
        REFUSED,
        "BUSY: the server is in a script that does not end",
    ),
    row(
        "noauth",
        REFUSED,
        "NOAUTH, WRONGPASS or NOPERM: the server does not serve this user",
    ),
    row("server-error", DOUBT, "any other error of a server"),
    row(
        "session-lost",
        DOUBT,
        "the session that carries the lock ended (etcd, ZooKeeper)",
    ),
    row(
        "interrupted",
        DOUBT,
        "the call was cancelled or interrupted",
    ),
    row(
        "crash",
        DOUBT,
        "the library threw something that the adapter has no better code for",
    ),
    row(
        "unsupported",
        (Fail, Fail, Fail),
        "this library has no such operation or option; nothing was sent",
    ),
    row(
        "bad-request",
        (Fail, Fail, Fail),
        "the request was not understood; nothing was sent",
    ),
    row(
        "not-initialised",
        (Fail, Fail, Fail),
        "a request before `init`; nothing was sent",
    ),
    row(
        "client-backlog",
        REFUSED,
        "by the harness: the client does not read its requests; this one was not written",
    ),
    row(
        "client-gone",
        REFUSED,
        "by the harness: the client was dead or had closed its pipe before the request was written",
    ),
    row(
        "client-died",
        DOUBT,
        "by the harness: the client died, was killed or closed its output before it answered",
    ),
    row(
        "deadline",
        DOUBT,
        "by the harness: no answer in time; a later one is ignored",
    ),
    row(
        "bad-answer",
        DOUBT,
        "by the harness: the answer breaks the protocol",
    ),
];

/// The row of a code.
pub fn error_info(code: &str) -> Option<&'static ErrorInfo> {
    ERRORS.iter().find(|row| row.code == code)
}

/// Whether `code` says that `op` certainly had no effect. A code that is not in the table does not.
pub fn definite(code: &str, op: Op) -> bool {
    let Some(row) = error_info(code) else {
        return false;
    };
    match op {
        Op::Acquire => row.acquire == Fail,
        Op::Release => row.release == Fail,
        Op::Extend => row.extend == Fail,
        Op::Other => true,
    }
}

/// The code of a server's error, from its first word.
pub fn server_code(word: &str) -> &'static str {
    match word {
        "MOVED" | "ASK" => "moved",
        "READONLY" => "readonly",
        "NOREPLICAS" => "noreplicas",
        "OOM" => "oom",
        "MISCONF" => "misconf",
        "LOADING" => "loading",
        "CLUSTERDOWN" | "TRYAGAIN" => "clusterdown",
        "MASTERDOWN" => "masterdown",
        "NOSCRIPT" => "noscript",
        "BUSY" => "busy",
        "NOAUTH" | "WRONGPASS" | "NOPERM" => "noauth",
        _ => "server-error",
    }
}

/// The table as Markdown, as it stands in PROTOCOL.md.
pub fn markdown() -> String {
    use std::fmt::Write;
    let cell = |says| match says {
        Fail => "fail",
        Info => "info",
        Never => "–",
    };
    let mut text =
        String::from("| code | acquire | release | extend | meaning |\n|---|---|---|---|---|\n");
    for row in ERRORS {
        let cells = [row.acquire, row.release, row.extend].map(cell).join(" | ");
        // Writing to a String cannot fail.
        let _ = writeln!(text, "| `{}` | {cells} | {} |", row.code, row.meaning);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocol_md_holds_this_table() {
        let page = include_str!("../../PROTOCOL.md");
        assert!(
            page.contains(&markdown()),
            "PROTOCOL.md's error table differs from the code's; it should be:\n{}",
            markdown()
        );
    }

    #[test]
    fn codes_are_unique_and_the_default_is_doubt() {
        for (i, row) in ERRORS.iter().enumerate() {
            assert!(
                ERRORS[..i].iter().all(|r| r.code != row.code),
                "{}",
                row.code
            );
        }
        assert!(!definite("never-heard-of", Op::Acquire));
        assert!(definite("held", Op::Acquire));
        assert!(!definite("held", Op::Release));
        assert!(!definite("connection-refused", Op::Release));
    }
}
