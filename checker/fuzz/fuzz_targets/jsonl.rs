//! libFuzzer's bytes to the checker, as a history in JSON lines.
//!
//! Owns the entry. The properties are in `alike`.
#![no_main]

mod alike;

libfuzzer_sys::fuzz_target!(|data: &[u8]| alike::check(data));
