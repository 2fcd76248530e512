//! The lines of `make speed` as a test: the same measurements and bounds, three times the time, since other tests run
//! beside it; and fewer operations for Porcupine, which takes gigabytes for 100,000.
//!
//! Owns the slack. It has no harness: each measurement is this program again, so that its peak of memory is its own.
#[path = "../benches/speed/lines.rs"]
mod lines;
#[path = "../benches/speed/measure.rs"]
mod measure;
#[path = "../benches/speed/turns.rs"]
mod turns;

use lines::Size;
use std::error::Error;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [what, n, dir] = &args[..] {
        measure::measure(what, n.parse()?, Path::new(dir))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = std::io::stdout();
    if args.iter().any(|a| a == "--list") {
        writeln!(out, "speed: test")?;
        return Ok(ExitCode::SUCCESS);
    }
    let size = Size {
        slack: 3.0,
        runs: 1,
        porcupine: 20_000,
    };
    let dir = tempfile::tempdir()?;
    writeln!(out, "\nrunning 1 test")?;
    let good = lines::all(dir.path(), size)?;
    let (word, passed) = if good { ("ok", 1) } else { ("FAILED", 0) };
    writeln!(out, "test speed ... {word}\n")?;
    writeln!(
        out,
        "test result: {word}. {passed} passed; {} failed; 0 ignored; 0 measured; 0 filtered out",
        1 - passed
    )?;
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
