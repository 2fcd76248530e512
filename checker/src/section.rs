//! One critical section in numbers, and its intervals: the lease, the promise P, the belief B.
//!
//! Owns the interval rules of the theory ("Intervals of section k of client c"). Must not know other sections,
//! servers or checks. Sections go from `collect` to `facts`, intervals to `sweep` and to the checks.
use crate::model::Model;
use crate::names::Name;

/// Nanoseconds since the start of the run.
pub(crate) type Ns = u64;
/// A time that never comes.
pub(crate) const NEVER: Ns = u64::MAX;
/// No section.
pub(crate) const NO_SECTION: u32 = u32::MAX;
/// No token.
pub(crate) const NO_TOKEN: u64 = u64::MAX;

/// What became of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Never invoked.
    Not,
    /// Invoked, no answer in the history.
    Open,
    Ok,
    /// It certainly did nothing, or the answer was "not yours".
    Fail,
    Info,
}

/// A grant and all that followed from it. About 150 bytes.
#[derive(Debug, Clone)]
pub(crate) struct Section {
    pub key: Name,
    pub client: Name,
    pub worker: u32,
    pub owner: Name,
    /// What its worker held before, and holds beside it: another permit; or [`NO_SECTION`].
    pub below: u32,
    pub process: u64,
    pub token: u64,
    /// Invoke and return of the winning acquire.
    pub inv: Ns,
    pub ret: Ns,
    /// What the lease is counted from: the invoke, or where the tap saw it the first command of the attempt that won.
    pub start: Ns,
    /// The reply that made the quorum passed the tap no earlier than this; [`NEVER`] if that is not known.
    pub quorum: Ns,
    /// Lease asked for, in ns; [`NEVER`] for none.
    pub lease: Ns,
    /// Validity claimed, in ms; NaN for none.
    pub validity_ms: f64,
    pub release_inv: Ns,
    pub release_ret: Ns,
    pub release: Ended,
    /// Told lost, closed, dead, or the same worker's next acquire on that key, whichever is first.
    pub over: Ns,
    /// The client, or the thread that held it, ended in it.
    pub died: bool,
    /// A reader's of a read-write lock.
    pub shared: bool,
    /// `start` is the tick that the client quoted: the keep-alive that counts was sent then or later.
    pub quoted: bool,
    /// The worker had tried for the key in vain before, at any time.
    pub retried: bool,
    /// The worker's first try since it last held the key.
    pub wanted: Ns,
    /// The last effect that the resource accepted from it.
    pub last_effect: Ns,
    /// Ends of P and B, set by [`Section::settle`].
    pub promise_end: Ns,
    pub belief_end: Ns,
}

/// One call of `extend`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extension {
    pub section: u32,
    pub inv: Ns,
    pub ret: Ns,
    /// Lease asked for, in ns.
    pub lease: Ns,
    pub validity_ms: f64,
    pub ended: Ended,
    /// The library made it by itself, and the tap saw it.
    pub wire: bool,
    /// Nobody asked for it: the library told of it, and `inv` is only the earliest time at which it can have asked.
    pub told: bool,
}

/// A part of a promise or a belief: `[start, end)` of a section, and its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub key: Name,
    pub start: Ns,
    pub end: Ns,
    pub section: u32,
}

/// ℓ(L) = L·(1−d) − floor, in ns: the part of a lease that a holder may count on.
pub(crate) fn usable(lease: Ns, model: &Model) -> Ns {
    if lease == NEVER {
        return NEVER;
    }
    (lease as f64 * (1.0 - model.drift) - model.floor_ms * 1e6).max(0.0) as Ns
}

/// A claim of `ms` counted from `at`; [`NEVER`] where there is no claim.
pub(crate) fn claimed(at: Ns, ms: f64) -> Ns {
    if ms.is_nan() {
        NEVER
    } else {
        at.saturating_add((ms.max(0.0) * 1e6) as Ns)
    }
}

impl Section {
    /// A section that starts with this grant.
    #[expect(
        clippy::too_many_arguments,
        reason = "the fields of one event, set once"
    )]
    pub(crate) fn granted(
        key: Name,
        client: Name,
        worker: u32,
        process: u64,
        (inv, ret): (Ns, Ns),
        lease: Ns,
        owner: Name,
        token: Option<u64>,
        validity_ms: Option<f64>,
    ) -> Self {
        Self {
            key,
            client,
            worker,
            owner,
            below: NO_SECTION,
            process,
            token: token.unwrap_or(NO_TOKEN),
            inv,
            ret,
            start: inv,
            quorum: NEVER,
            lease,
            validity_ms: validity_ms.unwrap_or(f64::NAN),
            release_inv: NEVER,
            release_ret: NEVER,
            release: Ended::Not,
            over: NEVER,
            died: false,
            shared: false,
            quoted: false,
            retried: false,
            wanted: inv,
            last_effect: 0,
            promise_end: 0,
            belief_end: 0,
        }
    }

    /// Where promise and belief end at the latest, whatever the lease.
    pub(crate) fn hold_end(&self) -> Ns {
        self.release_inv.min(self.over)
    }

    /// Whether a command of this section's release may be under way somewhere in `[from, to]`.
    pub(crate) fn releasing(&self, from: Ns, to: Ns) -> bool {
        let until = match self.release {
            Ended::Not => return false,
            Ended::Ok | Ended::Fail => self.release_ret,
            Ended::Open | Ended::Info => NEVER,
        };
        self.release_inv <= to && until >= from
    }

    /// Whether `other` is the same worker: sections of one owner never conflict.
    pub(crate) fn same_owner(&self, other: &Section) -> bool {
        self.client == other.client && self.worker == other.worker
    }

    /// Sets the ends of P and B, and appends the pieces of P (disjoint, in order) to `promise`.
    /// `extensions` are this section's, in the order of their invokes.
    pub(crate) fn settle(
        &mut self,
        me: u32,
        extensions: &[Extension],
        model: &Model,
        promise: &mut Vec<Piece>,
    ) {
        let lease_end = if self.lease == NEVER {
            NEVER
        } else {
            let formula = self.start.saturating_add(usable(self.lease, model));
            formula.min(claimed(self.ret, self.validity_ms))
        };
        let mut pieces: Vec<(Ns, Ns)> = Vec::new();
        let mut end = lease_end;
        let mut from = self.ret;
        for e in extensions {
            let confirmed = e.inv.saturating_add(usable(e.lease, model));
            if confirmed < end {
                // It shortens what is left: from its invoke on no more may be counted on, unless it certainly
                // did nothing.
                if e.ended != Ended::Fail {
                    end = confirmed;
                    for p in &mut pieces {
                        p.1 = p.1.min(end);
                    }
                }
            } else if e.ended == Ended::Ok {
                let confirmed = confirmed.min(claimed(e.ret, e.validity_ms));
                if e.ret > end {
                    pieces.push((from, end));
                    from = e.ret;
                }
                end = end.max(confirmed);
            }
        }
        self.belief_end = self.hold_end().max(self.ret);
        if model.respects_validity {
            let claims = extensions.iter().filter(|e| e.ended == Ended::Ok);
            let claims = claims.map(|e| claimed(e.ret, e.validity_ms));
            let claim = claims.fold(claimed(self.ret, self.validity_ms), later_claim);
            let claim = if claim == NEVER { end } else { claim.max(end) };
            self.belief_end = self.belief_end.min(claim.max(self.last_effect));
        }
        self.promise_end = self.ret;
        // Most sections have one piece, and this asks for no memory then.
        for (start, end) in pieces.into_iter().chain([(from, end)]) {
            let end = end.min(self.belief_end);
            // Without a lease a hold of no length counts too: it is a point at which the lock was held.
            let point = self.lease == NEVER && start == end;
            if start < end || point {
                promise.push(Piece {
                    key: self.key,
                    start,
                    end,
                    section: me,
                });
                self.promise_end = end;
            }
        }
    }
}

/// The later of two claims, where [`NEVER`] is no claim.
fn later_claim(a: Ns, b: Ns) -> Ns {
    match (a, b) {
        (NEVER, x) | (x, NEVER) => x,
        (a, b) => a.max(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Ns = 1_000_000;

    fn model() -> Model {
        Model {
            ttl_ms: Some(1000),
            ..Model::default()
        }
    }

    fn section(inv: Ns, ret: Ns) -> Section {
        Section::granted(0, 0, 0, 1, (inv * MS, ret * MS), 1000 * MS, 0, None, None)
    }

    fn extension(inv: Ns, ret: Ns, lease: Ns, ended: Ended) -> Extension {
        Extension {
            section: 0,
            inv: inv * MS,
            ret: ret * MS,
            lease: lease * MS,
            validity_ms: f64::NAN,
            ended,
            wire: false,
            told: false,
        }
    }

    fn promise(mut s: Section, extensions: &[Extension]) -> Vec<(Ns, Ns)> {
        let mut pieces = Vec::new();
        s.settle(0, extensions, &model(), &mut pieces);
        pieces.iter().map(|p| (p.start / MS, p.end / MS)).collect()
    }

    #[test]
    fn a_lease_counts_from_the_invoke() {
        assert_eq!(promise(section(0, 10), &[]), [(10, 988)]);
        assert_eq!(promise(section(0, 990), &[]), []);
    }

    #[test]
    fn without_a_lease_a_hold_of_no_length_is_a_point() {
        let mut s = section(0, 10);
        s.release_inv = 10 * MS;
        assert_eq!(promise(s.clone(), &[]), []);
        s.lease = NEVER;
        assert_eq!(promise(s, &[]), [(10, 10)]);
    }

    #[test]
    fn a_claim_below_the_formula_bounds_the_promise() {
        let mut s = section(0, 10);
        s.validity_ms = 500.0;
        assert_eq!(promise(s, &[]), [(10, 510)]);
    }

    #[test]
    fn confirmed_extensions_add_and_leave_gaps() {
        let e = extension(500, 510, 1000, Ended::Ok);
        assert_eq!(promise(section(0, 10), &[e]), [(10, 1488)]);
        let late = extension(900, 1100, 1000, Ended::Ok);
        assert_eq!(promise(section(0, 10), &[late]), [(10, 988), (1100, 1888)]);
    }

    #[test]
    fn a_shorter_extension_caps_from_its_invoke_unless_it_failed() {
        for ended in [Ended::Ok, Ended::Info, Ended::Open] {
            let e = extension(100, 110, 400, ended);
            assert_eq!(promise(section(0, 10), &[e]), [(10, 494)]);
        }
        let e = extension(100, 110, 400, Ended::Fail);
        assert_eq!(promise(section(0, 10), &[e]), [(10, 988)]);
    }

    #[test]
    fn an_indefinite_extension_adds_nothing() {
        let e = extension(500, NEVER / MS, 1000, Ended::Info);
        assert_eq!(promise(section(0, 10), &[e]), [(10, 988)]);
    }
}
