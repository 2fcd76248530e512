//! The names that a workload file may use for locks, checks and operations, and the nearest right one to a wrong one.
//!
//! Owns the lists as the parser needs them; a test holds them equal to the registries of `lock` and of the checker.
//! Must not know what a lock or a check does.

use super::Topology;

/// What the parser must know of a built-in lock.
#[derive(Debug, Clone, Copy)]
pub struct LockRules {
    /// Name, as in `lock.name`.
    pub name: &'static str,
    /// Where it runs.
    pub place: Place,
    /// It can give out fencing tokens.
    pub tokens: bool,
    /// It has a lease.
    pub lease: bool,
}

/// On what servers a lock can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// It talks to one server.
    OneNode,
    /// It needs several independent servers.
    Quorum,
    /// It talks to members that agree by consensus, of this topology.
    Replicated(Topology),
    /// It talks to no server.
    Anywhere,
}

const fn lock(name: &'static str, place: Place, tokens: bool, lease: bool) -> LockRules {
    LockRules {
        name,
        place,
        tokens,
        lease,
    }
}

/// The built-in locks.
pub const LOCKS: &[LockRules] = &[
    lock("none", Place::Anywhere, false, true),
    lock("set-nx-no-ttl", Place::OneNode, true, false),
    lock("set-nx-del", Place::OneNode, true, true),
    lock("set-nx-get-del", Place::OneNode, true, true),
    lock("set-nx-lua", Place::OneNode, true, true),
    lock("redlock", Place::Quorum, false, true),
    lock("set-nx-wall", Place::OneNode, true, true),
    lock("redlock-wall", Place::Quorum, false, true),
    lock("etcd", Place::Replicated(Topology::Etcd), true, true),
    lock(
        "zookeeper",
        Place::Replicated(Topology::ZooKeeper),
        true,
        true,
    ),
    lock("perfect", Place::Anywhere, false, false),
];

/// Topologies: name, and what it is.
pub const TOPOLOGIES: &[(&str, &str)] = &[
    ("single", "one server"),
    (
        "independent",
        "N servers that know nothing of each other; a lock on them needs a majority (Redlock)",
    ),
    (
        "sentinel",
        "one primary, its replicas and three Sentinels that promote one of them when it is gone; a lock talks to the \
         primary that they name",
    ),
    (
        "etcd",
        "a cluster of etcd members that agree by consensus (Raft); a lock on it is a key under a lease (Docker only)",
    ),
    (
        "zookeeper",
        "an ensemble of ZooKeeper servers that agree by consensus (Zab); a lock on it is an ephemeral sequential node in a \
         session of its own (Docker only)",
    ),
];

/// Checks that `expect` can name.
pub const CHECKS: &[&str] = &[
    "service",
    "overrun",
    "validity",
    "continuity",
    "ownership",
    "truthful",
    "notice",
    "leak",
    "deadlock",
    "progress",
    "minority",
    "load",
    "starvation",
    "fencing",
    "effects",
    "coverage",
];

/// Classes that `expect` can name: all checks of the class.
pub const CLASSES: &[&str] = &[
    "service", "overrun", "library", "liveness", "fencing", "damage", "coverage",
];

/// Operations that a trigger can wait for.
pub const OPERATIONS: &[&str] = &["acquire", "release", "extend", "work", "read", "write"];

/// What can become of an operation.
pub const RESULTS: &[&str] = &["invoke", "ok", "fail", "info"];

/// The rules of the built-in lock of that name.
pub fn lock_rules(name: &str) -> Option<&'static LockRules> {
    LOCKS.iter().find(|l| l.name == name)
}

/// All names that `expect` takes: checks, then the classes that are no checks.
pub fn expectable() -> Vec<&'static str> {
    let mut names = CHECKS.to_vec();
    names.extend(CLASSES.iter().filter(|c| !CHECKS.contains(c)));
    names
}

/// The candidate that was probably meant, if one is near enough.
pub fn nearest<'a>(wrong: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wrong = wrong.to_lowercase().replace('_', "-");
    candidates
        .into_iter()
        .map(|c| {
            let plain = c.replace('_', "-");
            let near = strsim::jaro_winkler(&wrong, &plain);
            let edits = strsim::damerau_levenshtein(&wrong, &plain);
            (c, near, edits)
        })
        .filter(|(c, near, edits)| *near > 0.84 || *edits * 3 <= c.chars().count())
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(c, ..)| c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_find_their_name_and_strangers_none() {
        let locks = || LOCKS.iter().map(|l| l.name);
        assert_eq!(nearest("redlok", locks()), Some("redlock"));
        assert_eq!(nearest("set_nx_lua", locks()), Some("set-nx-lua"));
        assert_eq!(nearest("SET-NX-DEL", locks()), Some("set-nx-del"));
        assert_eq!(nearest("chubby", locks()), None);
        assert_eq!(nearest("tll", ["ttl", "retry", "timeout"]), Some("ttl"));
    }
}
