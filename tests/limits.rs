//! The project's own limits, measured short and held to three times their width: `scripts/bench.sh --quick`.
//!
//! Owns running the bench. Must not know what it measures. The figures stand in its output.
mod harness;

use std::path::Path;
use std::process::Command;

#[test]
fn the_limits_hold_three_times_as_wide() {
    let backend = harness::backend("limits");
    let bench = Path::new(env!("CARGO_BIN_EXE_fencepost")).with_file_name("examples/bench");
    assert!(
        bench.is_file(),
        "cargo builds it with all tests; for this one alone: cargo build --example bench"
    );
    let out = Command::new(bench)
        .arg("--quick")
        .env("FENCEPOST_BACKEND", backend)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("the bench runs");
    let text = String::from_utf8_lossy(&out.stdout);
    eprintln!("{text}");
    assert!(
        out.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&out.stderr)
    );
}
