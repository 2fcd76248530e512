//! Comparisons that the tests can turn into wrong ones, one at a time, to see that the oracle notices.
//!
//! Owns the list of them. Must not know what they compare. Outside of this crate's own tests each is what it says.

/// One comparison that can be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// Whether a piece ended when another starts.
    Ended,
    /// Whether a hold began before a try returned.
    TryEnd,
    /// Whether a try was invoked before a hold ended.
    TryStart,
    /// Whether a core began before a clean-up.
    GhostCore,
    /// Whether a hold can reach into the next core.
    Reach,
    /// Whether a worker that holds may be granted again.
    Again,
    /// Whether a release without a grant is clean-up.
    CleanUp,
    /// Whether the gap before a clean-up counts.
    GhostGap,
}

#[cfg(test)]
thread_local! {
    /// The comparison that is wrong on this thread.
    pub(crate) static WRONG: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

/// Whether this comparison is to be wrong.
#[cfg(test)]
pub(crate) fn wrong(m: Mutant) -> bool {
    WRONG.get() == Some(m)
}

/// Whether this comparison is to be wrong: never.
#[cfg(not(test))]
#[inline]
pub(crate) const fn wrong(_: Mutant) -> bool {
    false
}

/// a ≤ b; as a mutant, a < b.
#[inline]
pub(crate) fn before(m: Mutant, a: u64, b: u64) -> bool {
    if wrong(m) { a < b } else { a <= b }
}
