//! What the tap adds to a round trip: redis-benchmark with one connection, through the tap and without it, in turn.
//!
//! Owns the comparison. Must not know workloads. Its figures go to `main`.
use crate::{Outcome, path};
use fencepost::cluster::Cluster;
use fencepost::record::{Clock, Sink};
use fencepost::tap::{TapLink, Taps};
use fencepost_checker::Event;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;

/// Medians of one round, in µs.
pub struct Round {
    /// On the link itself.
    pub bare: f64,
    /// Through the tap in front of it.
    pub tapped: f64,
}

/// Serialises each event as a run does, and keeps none.
#[derive(Default)]
struct Written(RefCell<Vec<u8>>);

impl Sink for Written {
    fn emit(&self, event: Event<'_>) {
        let mut line = self.0.borrow_mut();
        line.clear();
        // Writing to a Vec cannot fail.
        let _ = event.write_line(&mut line);
    }
}

/// Measures `rounds` times in turn, `requests` each.
pub async fn measure(cluster: &Cluster, rounds: usize, requests: u32) -> Outcome<Vec<Round>> {
    let link = cluster.link("c1", 0);
    let tapped = TapLink {
        client: "c1".into(),
        node: 0,
        name: "n1".into(),
        upstream: link,
    };
    let sink = Rc::new(Written::default());
    let taps = Taps::start(vec![tapped], "fp:", Clock::start(), sink).await?;
    let tap = taps.address("c1", 0).ok_or("no tap")?;
    let mut all = Vec::new();
    for _ in 0..rounds {
        all.push(Round {
            bare: median(link, requests).await?,
            tapped: median(tap, requests).await?,
        });
    }
    Ok(all)
}

/// The median round trip of SET NX PX on one connection, in µs. Off the async thread, which serves the tap.
async fn median(at: SocketAddr, requests: u32) -> Outcome<f64> {
    let words = ["SET", "fp:bench", "value", "NX", "PX", "1000"];
    let asked = tokio::task::spawn_blocking(move || {
        path::ask(at, "1", requests, path::WORKERS, &words).map_err(|error| error.to_string())
    });
    Ok(asked.await??.p50 * 1e3)
}
