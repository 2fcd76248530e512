//! The `fencepost` command. What it can do stands in [`fencepost::cli`]; the map of the code in [`fencepost`].
use std::process::ExitCode;

fn main() -> ExitCode {
    fencepost::cli::main()
}
