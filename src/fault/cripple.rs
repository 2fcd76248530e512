//! A test hook: a fault whose injecting call is left out while everything else runs.
//!
//! Owns the reading of `FENCEPOST_CRIPPLE`: kinds by name, comma between them, or `all`. It is there for one test, that a
//! run whose fault did nothing is never `valid`; whoever sets it makes runs `unknown` and nothing else.
use crate::plan::FaultKind;

const HOOK: &str = "FENCEPOST_CRIPPLE";

/// Whether the injecting call of this kind is left out.
pub(super) fn is_crippled(kind: FaultKind) -> bool {
    std::env::var(HOOK).is_ok_and(|kinds| names(&kinds, kind))
}

fn names(kinds: &str, kind: FaultKind) -> bool {
    kinds
        .split(',')
        .any(|name| name == "all" || name == kind.to_string())
}

#[cfg(test)]
mod tests {
    use super::names;
    use crate::plan::FaultKind;

    #[test]
    fn kinds_are_named_one_by_one_or_all_at_once() {
        assert!(names("node-kill,node-flush", FaultKind::NodeFlush));
        assert!(names("all", FaultKind::NodeFlush));
        assert!(!names("node-kill", FaultKind::NodeFlush));
        assert!(!names("", FaultKind::NodeFlush));
    }
}
