//! What must hold for any bytes: an answer, the same one again, and the same one through the other format.
//!
//! Owns the properties. Must not know how the bytes came about. A breach is a panic, which libFuzzer keeps as a file.
use fencepost_checker::{LockKind, Options, Verdict, check_with, to_edn};

/// A verdict as bytes, without what only one format has: what was assumed of one is told by what is written of it.
fn bytes(mut v: Verdict) -> String {
    v.counts.remove("torn_bytes");
    v.reading.clear();
    serde_json::to_string(&v).expect("a verdict is JSON")
}

/// What is asked of a history beside the defaults, chosen by its length.
fn options(length: usize) -> Options {
    let kinds = [
        LockKind::Mutex,
        LockKind::Reentrant,
        LockKind::Semaphore,
        LockKind::ReadWrite,
    ];
    Options {
        ttl_ms: (length % 3 == 0).then_some(1 + length as u64 % 50),
        kind: Some(kinds[length / 3 % 4]),
        permits: Some(2),
        clock_uncertainty_ms: (length % 5 == 0).then_some(0.5),
        threads: (length % 7 == 0).then_some(2),
        ..Options::default()
    }
}

/// Judges, judges again, and judges what the history is in EDN.
pub fn check(data: &[u8]) {
    let _ = check_with(data, &options(data.len()));
    let usual = Options::default();
    let Ok(verdict) = check_with(data, &usual) else {
        return;
    };
    let first = bytes(verdict);
    let again = check_with(data, &usual).expect("it was judged before");
    assert_eq!(first, bytes(again), "checking twice gives the same bytes");
    let edn = to_edn(data, &usual).expect("it was read before");
    let through = check_with(edn.as_bytes(), &usual);
    let through = through.unwrap_or_else(|e| panic!("its own EDN is not read: {e}\n{edn}"));
    assert_eq!(first, bytes(through), "in EDN it is judged otherwise:\n{edn}");
    assert_eq!(
        to_edn(edn.as_bytes(), &usual).expect("it was read before"),
        edn,
        "written again it is the same"
    );
}
