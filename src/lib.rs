//! The map. `fencepost` runs real lock clients against real servers through Toxiproxy, injects the faults that
//! break locks, records everything, and lets [`fencepost_checker`] judge the record.
//!
//! ```text
//! workloads/*.toml -plan-> Plan -run-> history.jsonl -fencepost_checker-> Verdict -report-> terminal, JUnit, Markdown, .hgrm
//! ```
//!
//! | room | owns |
//! |---|---|
//! | [`cli`] | arguments to one typed command each; exit codes |
//! | [`plan`] | the workload file, its errors, the resolved plan |
//! | [`lock`] | the built-in locks, right and wrong, against one seam |
//! | [`client`] | the client protocol, served and spoken; process supervision |
//! | [`resp`] | one pipelined connection to one server |
//! | [`etcd`] | requests to one member of an etcd cluster |
//! | [`zookeeper`] | requests to one server of a ZooKeeper ensemble |
//! | [`cluster`] | nodes and topologies on Docker or local processes, Toxiproxy in front of each link |
//! | [`observe`] | server-side evidence; the hiccup meter |
//! | [`fault`] | each fault: inject, prove that it bit, heal, prove that it healed |
//! | [`tap`] | the proxy that reads RESP and holds, loses or changes single messages |
//! | [`run`] | the driver, the recorder, the protected resource |
//! | [`campaign`] | many runs: repeat, suite, compare, shards |
//! | [`chaos`] | runs from a Rust test |
//! | [`own`] | how this program is started again, as a reaper or a client |
//! | [`report`] | the summary and one renderer a format |
//! | [`serve`] | the runs of a results folder for a browser |
pub mod campaign;
pub mod chaos;
pub mod cli;
pub mod client;
pub mod cluster;
pub mod etcd;
pub mod fault;
mod foreign;
pub mod lock;
pub mod observe;
pub mod own;
pub mod plan;
pub mod reaper;
pub mod record;
pub mod report;
pub mod resp;
pub mod run;
mod sent;
pub mod serve;
pub mod tap;
mod words;
pub mod zookeeper;
