//! The `fencepost` command. What it can do stands in [`fencepost::cli`]; the map of the code in [`fencepost`].
use std::process::ExitCode;

/// Driver and clients are a part of every cycle that they measure, and much of their part is small allocations.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    fencepost::cli::main()
}
