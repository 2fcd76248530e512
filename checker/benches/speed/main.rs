//! How fast the checker is, beside Porcupine on the same history in the same run, and what it needs of memory.
//!
//! Owns the run. Run: `cargo run -p fencepost-checker --example speed`. Prints one line a measurement, with the bound that
//! it must keep; exits 1 if one is not kept. Without Go, Porcupine is left out, and that is said. `tests/speed.rs` asserts
//! the same lines with the slack that a loaded machine needs.
mod lines;
mod measure;
mod turns;

use lines::Size;
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [what, n, dir] = &args[..] {
        measure::measure(what, n.parse()?, Path::new(dir))?;
        return Ok(ExitCode::SUCCESS);
    }
    let size = Size {
        slack: 1.0,
        runs: 3,
        porcupine: 100_000,
    };
    let dir = tempfile::tempdir()?;
    Ok(if lines::all(dir.path(), size)? {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
