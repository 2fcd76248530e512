//! Judges a history of lock operations: did two clients hold one lock at once, why, and what did it damage?
//!
//! This crate is pure: it owns events, history files, checks, verdicts and statistics, and must not know any
//! runtime, clock, network or Redis. The harness writes a [`Header`] and [`Event`]s; the checker turns them
//! into a [`Verdict`]; renderers read the verdict.
//!
//! ```
//! use fencepost_checker::{Outcome, check_reader};
//!
//! let history = r#"{"fencepost":1,"workload":"two-at-once","seed":0,"model":{"ttl_ms":2000}}
//! {"index":0,"time":0,"process":0,"client":"c1","type":"invoke","f":"acquire","key":"k"}
//! {"index":1,"time":1000000,"process":0,"client":"c1","type":"ok","f":"acquire","key":"k"}
//! {"index":2,"time":2000000,"process":1,"client":"c2","type":"invoke","f":"acquire","key":"k"}
//! {"index":3,"time":3000000,"process":1,"client":"c2","type":"ok","f":"acquire","key":"k"}
//! "#;
//! let verdict = check_reader(history.as_bytes())?;
//! let service = verdict.check("service").expect("it is in the table");
//! assert_eq!(service.outcome, Outcome::Violated);
//! assert_eq!(
//!     service.findings[0].sentence,
//!     "B (c2) was granted k at 0.003 s while A (c1) held a promise until 1.978 s: \
//!      nothing that was seen on the servers explains it"
//! );
//! # Ok::<(), fencepost_checker::HistoryError>(())
//! ```
//!
//! # All of it on one screen
//! | in | call | out |
//! |---|---|---|
//! | a file | [`check_path`] | [`Verdict`] or [`HistoryError`], which has its place and a hint |
//! | any reader, JSON lines or EDN | [`check_reader`]; with [`Options`] (names, lease, kind, clocks) [`check_with`] | the same |
//! | [`Event`]s as they come | [`Checker::new`], [`push`](Checker::push), [`finish`](Checker::finish) | [`Verdict`] |
//! | a verdict | [`Verdict::check`] by name, [`Verdict::judge_with`] other expectations | [`CheckResult`], with [`Finding`]s |
//! | a finding | [`Finding::sentence`], [`Finding::proof`], [`shrink`] | the smallest part of the history that shows it |
//! | a history | [`to_edn`], [`history::open_lines`] | the other format |
//! | nothing | [`CHECKS`], [`schema::history`], [`schema::verdict`] | what there is |
//!
//! Histories from elsewhere, in Jepsen's EDN too, are judged by what they hold:
//!
//! ```
//! use fencepost_checker::{Options, Outcome, check_with, to_edn};
//!
//! let edn = "
//! {:process 0, :type :invoke, :f :lock}
//! {:process 0, :type :ok,     :f :lock}
//! {:process 1, :type :invoke, :f :lock}
//! {:process 1, :type :ok,     :f :lock}
//! ";
//! let verdict = check_with(edn.as_bytes(), &Options::default())?;
//! assert_eq!(verdict.outcome, Outcome::Violated);
//! // A semaphore of two lets both in.
//! let two = Options {
//!     kind: Some(fencepost_checker::LockKind::Semaphore),
//!     permits: Some(2),
//!     ..Options::default()
//! };
//! assert_eq!(check_with(edn.as_bytes(), &two)?.outcome, Outcome::Valid);
//! // What is written is read again.
//! let again = check_with(to_edn(edn.as_bytes(), &two)?.as_bytes(), &two)?;
//! assert_eq!(again.outcome, Outcome::Valid);
//! # Ok::<(), fencepost_checker::HistoryError>(())
//! ```
//!
//! # Without leases: exact
//! A history of acquires and releases, any of which may have failed, have no definite answer or no answer, is
//! linearizable as a mutex that knows its owner if and only if
//! 1. the *cores* `[acquire.ret, release.inv]` of all holds of a key are pairwise disjoint (touching is allowed),
//! 2. no release was answered ok whose worker had been granted nothing that it had not released, and has no acquire in doubt,
//!    and
//! 3. no try that was told "held" touches no time in which the lock can have been held.
//!
//! *Soundness* (each finding is a violation). The lock is held all through a core, whatever the order; so two cores that
//! overlap are two holders. An ok release takes effect only for the owner. Of (3): let the cores be disjoint, in order
//! 1, 2, …. Hold k begins after acquire k was invoked and after core k−1 ended, and ends before release k returned and
//! before core k+1 began. So between `release_k.ret` and `acquire_{k+1}.inv` only a *ghost* can hold, an acquire without
//! a definite answer; one that nobody released holds to the end, so it can only be in the last gap; one whose worker
//! released later on (clean-up) can be in a gap which that release touches.
//!
//! A worker may repeat a release that had no definite answer; the core ends when the first was invoked, and once a later one
//! was answered ok the lock is given back, whichever of them did it.
//!
//! *Completeness* (a history without finding has an order). Put each hold's end and the next one's begin at one time
//! h in `[max(release_k.inv, acquire_{k+1}.inv), min(release_k.ret, core_{k+1}.start)]` where that is not empty, else
//! each as near to the other as its own interval allows. These times rise with k, since h ≤ core_{k+1}.start ≤
//! core_{k+1}.end. Drop all other acquires in doubt, but in each gap let ghosts hold one after another: of ghosts that
//! cover the gap's tries choose a chain in which none is needless; each hands over within its release. Every try then
//! lies at some time at which the lock is held.
//!
//! *What it may miss.* A ghost holds once, but its clean-up may touch several gaps; which tries it excuses is then a
//! matching problem. All of them are excused: that can hide a violation of (3), and never invents one.
//! `src/oracle` compares all this with a plain search on a million random histories in every test run, and sees that
//! each comparison that is turned around is noticed. One sort and one sweep: O(n log n); what is in doubt costs nothing.
//!
//! *Of which a worker may hold several*: a reentrant lock, a semaphore, a reader's lock. A worker holds at least what it was
//! granted less what it began to release, and at most what it was granted less what was answered ok; more holders than may be,
//! each counted by the least, are a violation, and so is an ok release of more than the most. `src/oracle` compares these with
//! a search, too. Failed tries are no evidence there.
//!
//! # With leases: sound, nearly complete
//! A promise lasts from the answer until invoke + ℓ(L), ℓ(L) = L·(1−d) − floor, in union with confirmed extensions, cut
//! by release, notice, close and death, and of a mutex by the same worker's next acquire. Two promises at once cannot come from a lock that keeps time within d: the
//! server counts the lease from a time after the invoke. It cannot see a double grant whose second answer was read
//! after the first promise's end, nor (with waiting calls) what a wait longer than the lease hides.
//!
//! Where the servers were observed, or a holder before it had a promise until then, a lease can have begun only later than the
//! invoke: then it is counted from there (`sharpen`). A holder of which no release, loss, close or death is on record counts as
//! going on past its lease (`overrun`); whether that was its fault is left open where its lease may have begun so late that it
//! still lasted: after a call that waited, or without a look at the servers.
//!
//! With several clocks, off by at most u: overlaps of intervals made smaller by u at both ends are certain; those of
//! intervals made larger are possible, and make the verdict unknown.
//!
//! Who is to blame for such a pair is read from what an observer saw on the servers ([`Blame`]): the servers, when the
//! first holder's value left a quorum by restart, flush, eviction or before its time; a library, when a command of its
//! own removed or overwrote another's value, when no quorum ever had its own, or when it counts an extension that no
//! quorum applied. Without such an event the blame is unknown, and stays so; it is never guessed from the plan.
//!
//! # What it cannot see
//! - Anything that no event tells: a write that went around the resource, a grant to a client that was not recorded.
//! - Whether a run without finding was a fair try: that is the check `coverage`, and what `unknown` says.
//! - Effects of operations without an answer: they count as having happened or not, whichever excuses more.
//! - A history whose stamps lie by more than the uncertainty that was given.
//!
//! # Memory and time
//! One pass over the events, one sort, one sweep a key, keys side by side on several threads; the same bytes whatever
//! their number. Memory is about 170 bytes a grant, 60 an observed event, 32 an effect or a try that was refused by a lock
//! without lease, and some 50 a client with a key; of all other events nothing is kept.
//!
//! So memory grows with the grants, not with what is open. Stamps of a file need not rise, and an answer may come at its
//! end; an extension, a `renewed` or the tap may move a lease, an observer may tell late who lost a key, an owner value or
//! a token may come again at any time (`ownership`, `truthful`, `fencing`), an acquire that is never answered may have held
//! in the last gap, which is known at the end only. A finding shows what was granted before and after it, whenever that
//! was.
//!
//! # The way of the data
//! `history` reads lines (or `edn` forms, or either from `zst`), [`Checker`] takes events, `collect` pairs them into
//! sections, `section` gives each its intervals, `sweep` finds the overlaps, `tries` the tries in vain, `blame` their causes,
//! `proof` says why, [`CHECKS`] the rest, and [`judge`](judge::judge) compares all that with what was expected. [`shrink`]
//! finds the smallest part that still shows a finding.
#![deny(missing_docs)]

mod analysis;
mod blame;
mod checker;
mod checks;
mod collect;
mod crowd;
mod edn;
pub mod event;
mod exact;
mod facts;
mod faults;
mod hash;
pub mod history;
pub mod judge;
pub mod model;
mod mutant;
mod names;
mod operation;
mod options;
#[cfg(test)]
mod oracle;
mod outage;
mod parallel;
mod proof;
pub mod schema;
mod seat;
mod section;
mod servers;
mod sharpen;
mod shrink;
pub mod stats;
mod sweep;
mod tries;
mod unread;
mod vain;
pub mod verdict;
mod wire;
mod zst;

pub use checker::Checker;
pub use checks::{CHECKS, CheckInfo};
pub use event::{Event, EventType, Process, Value};
pub use history::{HistoryError, check_path, check_reader, check_with, to_edn};
pub use model::{Expect, Fence, Header, LockKind, Model};
pub use options::{KeyFrom, Options};
pub use shrink::{Part, shrink};
pub use verdict::{Blame, CheckResult, Class, Finding, Outcome, SectionView, Verdict};
