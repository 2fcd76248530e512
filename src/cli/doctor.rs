//! placeholder
#[derive(Debug, clap::Args)]
pub struct Args {}
pub fn main(_a: &Args) -> super::Exit { super::Exit::Ok }
