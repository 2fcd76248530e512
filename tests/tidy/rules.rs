//! The tables: room → forbidden paths, crates that one place keeps, marks of unfinished code; each with its reason.
//!
//! Owns what is forbidden. Must not know how it is found. Goes to the tests in `main.rs`.

/// Paths that a room must not name, and why. A path matches where it stands as a whole: `crate::run` does not match
/// `crate::runner`, and `tokio` does not match `tokio_util`.
pub struct Rule {
    pub room: &'static str,
    pub forbidden: &'static [&'static str],
    pub reason: &'static str,
}

/// Chance that no seed repeats.
const RANDOM: &[&str] = &[
    "rand::rng",
    "rand::random",
    "rand::thread_rng",
    "OsRng",
    "ThreadRng",
];

/// Derived from the table of rooms in ARCHITECTURE.md.
pub const RULES: &[Rule] = &[
    Rule {
        room: "checker/src",
        forbidden: &[
            "tokio",
            "futures_util",
            "async_trait",
            "redis",
            "testcontainers",
            "bollard",
            "std::net",
            "std::process",
            "nix",
        ],
        reason: "the checker judges a file: no runtime, no network, no server, no process",
    },
    Rule {
        room: "checker/src",
        forbidden: &[
            "std::time::Instant",
            "std::time::SystemTime",
            "Instant::now",
            "SystemTime::now",
            "std::thread::sleep",
            "rand",
        ],
        reason: "the checker has no clock and no chance: the same history gives the same verdict, for ever",
    },
    Rule {
        room: "checker/src",
        forbidden: &["fencepost::", "std::env"],
        reason: "the checker knows the history and nothing of the harness that wrote it",
    },
    Rule {
        room: "src/lock",
        forbidden: &[
            "tokio",
            "redis::",
            "std::net",
            "std::process",
            "futures_util::stream::select_all",
        ],
        reason: "locks are written once against the Env seam, so that they also run in virtual time",
    },
    Rule {
        room: "src/lock",
        forbidden: &[
            "std::time::Instant",
            "std::time::SystemTime",
            "Instant::now",
            "SystemTime::now",
            "std::thread",
            "rand",
            "HashMap",
            "HashSet",
        ],
        reason: "a lock takes time and chance from Env only; a std map iterates in another order each run (BTreeMap does not)",
    },
    Rule {
        room: "src/lock",
        forbidden: &[
            "crate::run",
            "crate::fault",
            "crate::cluster",
            "crate::observe",
            "crate::report",
            "crate::plan",
            "crate::client",
            "crate::cli",
            "crate::record",
        ],
        reason: "a lock knows nothing of the harness around it",
    },
    Rule {
        room: "src/client",
        forbidden: &[
            "crate::fault",
            "crate::run",
            "crate::report",
            "crate::cli",
            "crate::observe",
            "crate::cluster",
            "fencepost_checker::check",
        ],
        reason: "a client serves or speaks the protocol; faults and judgement happen to it",
    },
    Rule {
        room: "src/cluster",
        forbidden: &[
            "crate::lock",
            "crate::client",
            "crate::run",
            "crate::fault",
            "crate::observe",
            "crate::report",
            "crate::cli",
        ],
        reason: "nodes and links carry any traffic; the cluster knows no lock",
    },
    Rule {
        room: "src/observe",
        forbidden: &[
            "crate::lock",
            "crate::client",
            "crate::run",
            "crate::fault",
            "crate::report",
            "fencepost_checker::check",
        ],
        reason: "the observer tells what servers hold; what it means is judged elsewhere",
    },
    Rule {
        room: "src/tap",
        forbidden: &[
            "crate::lock",
            "crate::client",
            "crate::cluster",
            "crate::run",
            "crate::fault",
            "crate::plan",
            "crate::observe",
            "crate::report",
            "crate::cli",
            "fencepost_checker::check",
        ],
        reason: "the tap carries messages and does what a rule says; why, and what it means, is known elsewhere",
    },
    Rule {
        room: "src/fault",
        forbidden: &["crate::report", "crate::cli", "fencepost_checker::check"],
        reason: "a fault is injected, proved, healed and proved healed; whether it broke a lock is not its matter",
    },
    Rule {
        room: "src/plan",
        forbidden: &[
            "tokio",
            "redis::",
            "crate::run",
            "crate::cluster",
            "crate::client",
            "crate::fault",
            "crate::observe",
            "crate::report",
            "crate::cli",
            "std::net",
            "std::process",
        ],
        reason: "a plan is a value, fixed before anything runs",
    },
    Rule {
        room: "src/report",
        forbidden: &[
            "crate::campaign",
            "crate::cluster",
            "crate::run",
            "crate::fault",
            "crate::observe",
            "crate::client",
            "crate::lock",
            "fencepost_checker::check",
            "redis::",
            "testcontainers",
            "bollard",
        ],
        reason: "a report is made from the results folder alone, and never checks again",
    },
    Rule {
        room: "src/campaign",
        forbidden: &[
            "crate::lock",
            "crate::client",
            "crate::fault",
            "crate::observe",
            "crate::cli",
            "crate::record",
            "crate::run::worker",
            "crate::run::board",
            "fencepost_checker::check",
            "redis::",
            "testcontainers",
            "bollard",
        ],
        reason: "a campaign is a list of runs; what happens inside of one is `run`'s",
    },
    Rule {
        room: "src/campaign",
        forbidden: RANDOM,
        reason: "which runs are made follows from the arguments and the seed alone",
    },
    Rule {
        room: "src/serve",
        forbidden: &[
            "crate::run",
            "crate::campaign",
            "crate::cluster",
            "crate::client",
            "crate::fault",
            "crate::observe",
            "crate::lock",
            "crate::plan",
            "crate::cli",
            "fencepost_checker::check",
            "std::process",
            "std::fs::write",
            "std::fs::File::create",
        ],
        reason: "the server reads results that anybody may have made: it starts nothing, judges nothing and writes nothing",
    },
    Rule {
        room: "src/chaos",
        forbidden: &[
            "crate::lock",
            "crate::fault",
            "crate::observe",
            "crate::cli",
            "crate::record",
            "crate::run::worker",
            "crate::run::board",
            "fencepost_checker::check",
        ],
        reason: "a test asks for a campaign as a command does, and is handed what it showed",
    },
    Rule {
        room: "src/run",
        forbidden: &["crate::report", "crate::cli"],
        reason: "the driver writes the history; who reads it comes later",
    },
    Rule {
        room: "src/run",
        forbidden: RANDOM,
        reason: "every draw comes from a named stream of the run's seed, or the run cannot be repeated",
    },
    Rule {
        room: "src/fault",
        forbidden: RANDOM,
        reason: "every draw comes from a named stream of the run's seed, or the run cannot be repeated",
    },
    Rule {
        room: "src",
        forbidden: &["super::super"],
        reason: "another room is named from `crate`, where this table can read it",
    },
];

/// Crates that one place keeps for all others: crate, the only folder or files that name it, reason.
pub const KEEPERS: &[(&str, &[&str], &str)] = &[
    (
        "toxiproxy_rust",
        &["src/cluster/toxiproxy"],
        "it blocks, panics and hides the status: one place makes it safe",
    ),
    (
        "testcontainers",
        &["src/reaper"],
        "it finds the engine: one place asks it where that is",
    ),
    (
        "bollard",
        &["src/cluster", "src/reaper", "src/cli/doctor"],
        "the engine is spoken to where nodes are started, removed, and where its state is told",
    ),
    ("quick_junit", &["src/report"], "one renderer a format"),
    ("askama", &["src/report"], "one renderer a format"),
    ("hyper", &["src/serve"], "one server, with its bounds"),
    ("hyper_util", &["src/serve"], "one server, with its bounds"),
];

/// All that the checker may depend on, and what for.
pub const CHECKER_NEEDS: &[(&str, &str)] = &[
    ("ruzstd", "compressed histories, without C"),
    ("schemars", "the published schemas"),
    ("serde", "events and verdicts"),
    ("serde_json", "JSON lines"),
    ("statrs", "exact intervals and tests of the statistics"),
    ("thiserror", "errors with their place"),
];

/// Marks of unfinished or silenced code, spelled so that this file does not hold them.
pub const MARKS: &[(&str, &str)] = &[
    (concat!("TO", "DO"), "finish it, or file it"),
    (concat!("FIX", "ME"), "fix it, or file it"),
    (concat!("XX", "X "), "say what is meant"),
    (concat!("todo", "!("), "unfinished code does not land"),
    (
        concat!("unimplemented", "!("),
        "unfinished code does not land",
    ),
    (
        concat!("#[igno", "re"),
        "a test that cannot run says so itself; it is not silenced",
    ),
    (concat!("#[allow(dead", "_code"), "remove what nobody uses"),
];
