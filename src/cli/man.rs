//! `fencepost man`: the manual pages, in roff.
//!
//! Owns which pages there are: one for the command as a whole and one for each of its commands. What they say stands in
//! the commands.
use super::{Exit, command, say};
use crate::report::files::{Rendered, write};
use std::path::PathBuf;

/// Arguments of `man`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fencepost man | man -l -
  fencepost man run | man -l -
  fencepost man --dir ~/.local/share/man/man1")]
pub struct Args {
    /// The page of this command; without it, of `fencepost` as a whole.
    #[arg(conflicts_with = "dir")]
    page: Option<String>,
    /// Write all pages into this folder instead of one to stdout.
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
}

pub fn main(args: &Args) -> Exit {
    let pages = match pages() {
        Ok(pages) => pages,
        Err(error) => {
            say::error(&error, None);
            return Exit::Defect;
        }
    };
    if let Some(dir) = &args.dir {
        for (name, text) in pages {
            if let Err(error) = write(dir, &Rendered::new(format!("{name}.1"), text)) {
                say::error(&error, Some("--dir names a folder that can be written"));
                return Exit::Missing;
            }
        }
        return Exit::Ok;
    }
    let wanted = match &args.page {
        None => "fencepost".to_owned(),
        Some(page) => format!("fencepost-{page}"),
    };
    if let Some((_, text)) = pages.iter().find(|(name, _)| *name == wanted) {
        say::data(text);
        return Exit::Ok;
    }
    let names: Vec<&str> = pages
        .iter()
        .filter_map(|(name, _)| name.strip_prefix("fencepost-"))
        .collect();
    say::word(&format!("error: there is no page `{wanted}`"));
    say::word(&format!("hint: there are {}", names.join(", ")));
    Exit::Usage
}

/// All pages by name.
fn pages() -> std::io::Result<Vec<(String, String)>> {
    let whole = command();
    let mut pages = vec![page("fencepost".to_owned(), whole.clone())?];
    for sub in whole.get_subcommands().filter(|c| !c.is_hide_set()) {
        let name = format!("fencepost-{}", sub.get_name());
        pages.push(page(name, sub.clone())?);
    }
    Ok(pages)
}

fn page(name: String, command: clap::Command) -> std::io::Result<(String, String)> {
    let bin = name.replacen('-', " ", 1);
    let command = command.display_name(&name).bin_name(bin);
    let mut text = Vec::new();
    clap_mangen::Man::new(command).render(&mut text)?;
    Ok((name, String::from_utf8_lossy(&text).into_owned()))
}
