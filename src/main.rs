//! Bin.
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        Some("client") => fencepost::client::builtin::main(args),
        _ => ExitCode::from(64),
    }
}
