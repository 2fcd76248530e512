//! The client protocol: JSON lines over the standard input and output of a process that runs a lock under test.
//!
//! Owns the protocol on both sides and the supervision of client processes. Must not know faults or checking.
//! PROTOCOL.md, for whoever writes an adapter, is the same in prose.
//!
//! | file | owns |
//! |---|---|
//! | [`errors`] | the published error table: which code is definite for which operation |
//! | `wire` | the lines, written and read |
//! | [`serve`] | the client's side: `serve(MyLock)` makes any binary a client |
//! | `stdio` | the client's standard input and output without blocking |
//! | [`builtin`] | the built-in locks as a client: the hidden command `fencepost client` |
//! | `env` | the locks' seam on tokio and real connections |
//! | `members` | its requests to etcd and ZooKeeper |
//! | [`process`] | the harness's side: a client process, asked and supervised |
//! | `supervise` | its pipes, its standard error and its end |
//! | `signals` | stop, continue, kill, and what /proc says |
//! | [`conformance`] | does an adapter keep to PROTOCOL.md? |
pub mod builtin;
pub mod conformance;
mod env;
pub mod errors;
mod members;
pub mod process;
mod route;
pub mod serve;
mod signals;
mod stdio;
mod supervise;
mod wire;

pub use process::{Answer, ClientError, ClientProcess, ClientSpec, Failure, Notice};
pub use signals::ProcState;
pub use wire::{About, Disturb, Init, Reply, Request};
