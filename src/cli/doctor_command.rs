//! `fencepost doctor`: what is possible on this machine.
//!
//! Owns the flags. [`super::doctor`] probes.
use super::{Exit, doctor::doctor, say};

/// Arguments of `doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fencepost doctor
  fencepost doctor --json | jq '.lines[] | select(.status != \"ok\")'")]
pub struct Args {
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

pub fn main(args: &Args) -> Exit {
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            say::error(&error, None);
            return Exit::Missing;
        }
    };
    let report = tokio::task::LocalSet::new().block_on(&runtime, doctor());
    say::data(&if args.json {
        report.json().to_string()
    } else {
        report.text()
    });
    if report.usable() {
        Exit::Ok
    } else {
        Exit::Missing
    }
}
