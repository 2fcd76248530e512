//! `fencepost clean`: remove what dead runs left behind.
//!
//! Owns the flags. The reaper knows what belongs to whom.
use super::{Exit, say};
use crate::plan::duration;
use crate::reaper::{self, Clean, Cleaned};
use std::time::Duration;

/// Arguments of `clean`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fencepost clean
  fencepost clean --older-than 2h")]
pub struct Args {
    /// Also runs whose owner cannot be proved dead here, if they are older than this, such as `2h`.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    older_than: Option<Duration>,
    /// Everything that carries a label of fencepost, also of runs that are going on.
    #[arg(long, conflicts_with = "older_than")]
    all: bool,
}

/// For what cannot be removed.
const HINT: &str = "the rest was removed; a network with endpoints that belong to no container goes when the engine \
                    is started again";

pub fn main(args: &Args) -> Exit {
    match reaper::clean(Clean {
        older_than: args.older_than,
        all: args.all,
    }) {
        Ok(cleaned) => {
            show(&cleaned);
            for error in &cleaned.trouble {
                say::error(error, Some(HINT));
            }
            if cleaned.trouble.is_empty() {
                Exit::Ok
            } else {
                Exit::Missing
            }
        }
        Err(error) => {
            say::error(&error, None);
            Exit::Missing
        }
    }
}

fn show(cleaned: &Cleaned) {
    for line in &cleaned.removed {
        say::data(&format!("removed run {line}"));
    }
    for thing in &cleaned.things {
        say::data(&format!("  {thing}"));
    }
    for line in &cleaned.kept {
        say::data(&format!("left alone: run {line}"));
    }
    if cleaned.removed.is_empty() && cleaned.trouble.is_empty() {
        say::data("nothing to remove");
    }
    if let Some(why) = &cleaned.no_engine {
        say::word(&format!("containers were not looked at: {why}"));
    }
}
