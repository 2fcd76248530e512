//! The command line: arguments become one typed command each, and each command ends in an exit code.
//!
//! Owns arguments, help texts, exit codes and what is written where (data on stdout, words on stderr). Must not know
//! how anything works.
mod adapter;
mod check;
mod clean;
mod compare;
mod completions;
pub mod doctor;
mod doctor_command;
mod ending;
mod exit;
mod input;
mod list;
mod man;
mod merge;
mod predict;
mod report;
mod run;
mod say;
mod schema;
mod scorecard;
mod serve;
mod signals;
mod start;
mod stopped;
mod suite;

pub use exit::Exit;

use clap::builder::Resettable;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::process::ExitCode;

/// A Jepsen-style chaos test harness for distributed locks: can two clients hold this lock at once, why, how often,
/// and what does it damage?
#[derive(Debug, Parser)]
#[command(name = "fencepost", version, max_term_width = 100, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "\
Examples:
  fencepost doctor
  fencepost run workloads/plain-del.toml
  fencepost suite workloads --repeat 3
  fencepost compare workloads/single-vs-redlock.toml --episodes 20
  fencepost check results/plain-del/latest/history.jsonl
  fencepost serve

Exit codes: 0 as expected; 1 not as expected, in either direction; 2 unknown; 64 what the user gave;
69 what is missing (engine, image, port, disk); 70 a defect of fencepost; 129, 130 and 143 after a signal.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a workload file: servers, clients and faults are real; then check and report.
    ///
    /// A workload file is code (it starts commands and stops nodes): run only files that you trust.
    Run(run::Args),
    /// Run folders of workloads, those of one topology on the same servers, and show them together.
    ///
    /// Workload files are code: run only folders that you trust.
    Suite(suite::Args),
    /// Run several locks or topologies under the same seeds and faults, side by side in time, and compare them.
    ///
    /// Workload files are code: run only files that you trust.
    Compare(compare::Args),
    /// Fifteen named checks on a lock library behind the client protocol: verdict, evidence, and how to replay each.
    Scorecard(scorecard::Args),
    /// Put the results of several shards, or of any folders, into one table, `junit.xml` and page.
    Merge(merge::Args),
    /// Predict how often a critical section outlasts its lease, from work times and pauses of one's own.
    Predict(predict::Args),
    /// Judge one or more histories, from wherever they are.
    Check(check::Args),
    /// Write and print the reports of results folders again, from what stands in them.
    Report(report::Args),
    /// Show the runs of a results folder in a browser: a list with filters, and each run's page and files.
    Serve(serve::Args),
    /// Show what is possible on this machine, by which route, or why not.
    Doctor(doctor_command::Args),
    /// Remove what dead runs left behind: containers, networks, processes, folders.
    Clean(clean::Args),
    /// Try an adapter of a lock library against the client protocol.
    Adapter(adapter::Args),
    /// List locks, faults, topologies, checks or workloads.
    List(list::Args),
    /// Print the JSON schema of a file format.
    Schema(schema::Args),
    /// Print completions of the command line for a shell.
    Completions(completions::Args),
    /// Print the manual page of a command, or write them all.
    Man(man::Args),
    /// Serve a built-in lock through the client protocol on stdin and stdout.
    #[command(hide = true)]
    Client(Rest),
    /// Remove a run's leftovers once its harness is gone.
    #[command(hide = true)]
    Reaper(Rest),
}

/// The whole command line, as it is parsed.
fn command() -> clap::Command {
    Cli::command()
}

/// Words that a hidden command reads by itself.
#[derive(Debug, clap::Args)]
struct Rest {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// Help and version go to stdout with 0; everything else is the user's mistake.
fn not_parsed(error: &clap::Error) -> Exit {
    if !error.use_stderr() {
        let _ = error.print();
        return Exit::Ok;
    }
    let text = error.render().to_string();
    match text.split_once("For more information, try '--help'.") {
        None => say::word(text.trim_end()),
        Some((said, _)) => {
            let command = std::env::args().nth(1).filter(|word| {
                let known = |c: &clap::Command| c.get_name() == word && !c.is_hide_set();
                Cli::command().get_subcommands().any(known)
            });
            let command = command.map_or_else(String::new, |c| format!(" {c}"));
            say::word(said.trim_end());
            say::word(&format!(
                "hint: `fencepost{command} --help` shows what there is"
            ));
        }
    }
    Exit::Usage
}

/// Parses the command line and runs the command. A panic, told already, ends as a defect.
pub fn main() -> ExitCode {
    guarded(command_line).unwrap_or_else(|defect| {
        say::word("error: this is a defect of fencepost");
        say::word("hint: please report it with what is printed above; `fencepost clean` removes what was left");
        defect.into()
    })
}

/// The command line. An empty variable counts as one that is not set: in a CI matrix it is the same.
fn parsed() -> Result<Cli, clap::Error> {
    Cli::from_arg_matches(&without_empty(Cli::command()).try_get_matches()?)
}

fn without_empty(command: clap::Command) -> clap::Command {
    let empty = |name: &std::ffi::OsStr| std::env::var_os(name).is_some_and(|v| v.is_empty());
    command
        .mut_args(|arg| match arg.get_env() {
            Some(name) if empty(name) => arg.env(Resettable::Reset),
            _ => arg,
        })
        .mut_subcommands(without_empty)
}

fn guarded<T>(run: fn() -> T) -> Result<T, Exit> {
    std::panic::catch_unwind(run).map_err(|_| Exit::Defect)
}

fn command_line() -> ExitCode {
    let cli = match parsed() {
        Ok(cli) => cli,
        Err(error) => return not_parsed(&error).into(),
    };
    let exit = match cli.command {
        Command::Run(args) => run::main(&args),
        Command::Suite(args) => suite::main(&args),
        Command::Compare(args) => compare::main(&args),
        Command::Scorecard(args) => scorecard::main(&args),
        Command::Merge(args) => merge::main(&args),
        Command::Predict(args) => predict::main(&args),
        Command::Check(args) => check::main(&args),
        Command::Report(args) => report::main(&args),
        Command::Serve(args) => serve::main(&args),
        Command::Doctor(args) => doctor_command::main(&args),
        Command::Clean(args) => clean::main(&args),
        Command::Adapter(args) => adapter::main(&args),
        Command::List(args) => list::main(&args),
        Command::Schema(args) => schema::main(&args),
        Command::Completions(args) => completions::main(&args),
        Command::Man(args) => man::main(&args),
        Command::Client(rest) => return crate::client::builtin::main(rest.words),
        Command::Reaper(rest) => return crate::reaper::main(rest.words),
    };
    let exit = if say::all_written() {
        exit
    } else {
        exit.worst(Exit::Missing)
    };
    exit.into()
}

#[cfg(test)]
mod tests {
    use super::{Exit, guarded};

    #[test]
    fn a_panic_is_a_defect() {
        assert_eq!(guarded(|| 1), Ok(1));
        let panics = || -> u8 { std::panic::resume_unwind(Box::new("")) };
        assert_eq!(guarded(panics).map_err(Exit::code), Err(70));
    }
}
