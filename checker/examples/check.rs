//! Judges the histories that are named as arguments, and prints each verdict as JSON.
use fencepost_checker::check_path;
use std::io::Write as _;
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = std::io::stdout().lock();
    for file in std::env::args_os().skip(1) {
        let verdict = check_path(Path::new(&file))?;
        serde_json::to_writer_pretty(&mut out, &verdict)?;
        writeln!(out)?;
    }
    Ok(())
}
