//! `fencepost schema`: the JSON schemas of the file formats.
//!
//! Owns the names. Each schema comes from the room that owns the format.
use super::{Exit, say};

/// Arguments of `schema`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fencepost schema workload > workload.schema.json
  fencepost schema verdict | jq .required")]
pub struct Args {
    /// Which format.
    #[arg(value_enum)]
    what: What,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum What {
    /// The workload file (TOML).
    Workload,
    /// The history: its header and its events (JSONL).
    History,
    /// verdict.json.
    Verdict,
}

pub fn main(args: &Args) -> Exit {
    let schema = match args.what {
        What::Workload => crate::plan::schema(),
        What::History => fencepost_checker::schema::history(),
        What::Verdict => fencepost_checker::schema::verdict(),
    };
    match serde_json::to_string_pretty(&schema) {
        Ok(text) => {
            say::data(&text);
            Exit::Ok
        }
        Err(error) => {
            say::error(&error, None);
            Exit::Defect
        }
    }
}
