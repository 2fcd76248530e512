//! Bin.
fn main() -> std::process::ExitCode {
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() == Some("reaper") {
        return fencepost::reaper::main(args);
    }
    std::process::ExitCode::SUCCESS
}
