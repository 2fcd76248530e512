//! `fencepost serve`: the runs of a results folder for a browser.
//!
//! Owns the reading of flags and what is printed. Must not know HTTP. The address is data, on stdout: a script can read
//! it where the port was left to the system.
use super::exit::Exit;
use super::stopped::on_runtime;
use super::{say, signals::Signals};
use crate::serve::Server;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Arguments of `serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fencepost serve
  fencepost serve results/compare --listen 127.0.0.1:0
  fencepost serve --listen 0.0.0.0:8320 --host ci.example.org")]
pub struct Args {
    /// The folder of results; nothing outside of it is ever shown.
    #[arg(default_value = "results")]
    results: PathBuf,
    /// Where to listen; port 0 is any free one. Whoever reaches another address than loopback reads all results.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8320")]
    listen: SocketAddr,
    /// A name under which browsers may ask, beside `localhost` and IP addresses; may be given more than once.
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
}

pub fn main(args: &Args) -> Exit {
    on_runtime(answer(args))
}

async fn answer(args: &Args) -> Exit {
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => {
            say::error(&error, None);
            return Exit::Defect;
        }
    };
    if let Err(error) = std::fs::read_dir(&args.results) {
        let path = args.results.display().to_string();
        let path = crate::report::sanitise::visible(&path);
        say::word(&format!("error: {path}: {error}"));
        say::word("hint: name a folder of results; `fencepost run` makes one");
        return Exit::Usage;
    }
    let bound = Server::bind(&args.results, args.listen, args.hosts.clone()).await;
    let (server, address) = match bound.and_then(|s| Ok((s.address()?, s))) {
        Ok((address, server)) => (server, address),
        Err(error) => {
            say::word(&format!("error: cannot listen at {}: {error}", args.listen));
            say::word("hint: --listen 127.0.0.1:0 takes any free port");
            return Exit::Missing;
        }
    };
    if !address.ip().is_loopback() {
        say::word("warning: everybody who reaches this address can read all results");
    }
    say::data(&format!("http://{address}/"));
    tokio::select! {
        () = server.answer() => Exit::Defect,
        exit = signals.heard() => exit,
    }
}
