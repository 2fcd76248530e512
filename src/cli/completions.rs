//! `fencepost completions`: completions of the command line for a shell.
//!
//! Owns nothing but the choice of the shell: what there is to complete stands in the commands.
use super::{Exit, command, say};

/// Arguments of `completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fencepost completions bash > ~/.local/share/bash-completion/completions/fencepost
  fencepost completions zsh > ~/.zfunc/_fencepost
  fencepost completions fish > ~/.config/fish/completions/fencepost.fish")]
pub struct Args {
    /// The shell.
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

pub fn main(args: &Args) -> Exit {
    // Hidden commands are no secret, but nobody types them.
    let whole = command();
    let shown = whole.get_subcommands().filter(|c| !c.is_hide_set());
    let mut shown = clap::Command::new("fencepost")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommands(shown.cloned().collect::<Vec<_>>());
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut shown, "fencepost", &mut script);
    say::data(&String::from_utf8_lossy(&script));
    Exit::Ok
}
