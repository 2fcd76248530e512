//! `fencepost clean`: remove what dead runs left behind.
//!
//! Owns the flags. The reaper knows what belongs to whom.
use super::{Exit, say};
use crate::plan::duration;
use crate::reaper::{self, Clean};
use std::time::Duration;

/// Arguments of `clean`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Also runs whose owner cannot be proved dead here, if they are older than this, such as `2h`.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    older_than: Option<Duration>,
    /// Everything that carries a label of fencepost, also of runs that are going on.
    #[arg(long, conflicts_with = "older_than")]
    all: bool,
}

pub fn main(args: &Args) -> Exit {
    let mode = match (args.all, args.older_than) {
        (true, _) => Clean::All,
        (false, Some(age)) => Clean::OlderThan(age),
        (false, None) => Clean::DeadOwners,
    };
    match reaper::clean(mode) {
        Ok(cleaned) => {
            say::data(&cleaned.to_string());
            Exit::Ok
        }
        Err(error) => {
            say::error(&error, None);
            Exit::Missing
        }
    }
}
