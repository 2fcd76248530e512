//! Whether the latency that a run reports is the path's: a run's acquires beside redis-benchmark's SET NX PX on the link.
//!
//! Owns the comparison. Must not know checking. Its figures go to `main`.
use crate::{Outcome, median, path, run_once};
use fencepost::cluster::toxiproxy::{Toxic, ToxicKind};
use fencepost::plan::Plan;
use fencepost::run::session::Session;
use std::io::BufRead;
use std::path::Path;
use std::time::Duration;

/// Median and 99th percentile, in ms.
#[derive(Debug, Clone, Copy)]
pub struct Quantiles {
    pub p50: f64,
    pub p99: f64,
}

/// One round: a run between two of redis-benchmark.
#[derive(Debug, Clone, Copy)]
pub struct Round {
    /// The mean of redis-benchmark before and after.
    pub path: Quantiles,
    /// Of the run's acquires, as its client tells.
    pub run: Quantiles,
}

/// Measures `rounds` times one client with one worker, with `added` on the way to the server.
pub async fn measure(
    session: &Session,
    plan: &Plan,
    added: Duration,
    rounds: usize,
    requests: u32,
) -> Outcome<Vec<Round>> {
    let cluster = &session.cluster;
    let (link, proxy) = (cluster.link("c1", 0), cluster.proxy_name("c1", 0));
    if !added.is_zero() {
        let kind = ToxicKind::Latency {
            latency: added,
            jitter: Duration::ZERO,
        };
        let toxic = Toxic {
            name: "bench".into(),
            kind,
            upstream: true,
        };
        cluster.toxiproxy().add(&proxy, toxic).await?;
    }
    let words = ["SET", "fpbench:__rand_int__", "value", "NX", "PX", "1000"];
    let bench = || path::ask(link, "1", requests, path::FRESH, &words);
    let mut before = bench()?;
    let mut all = Vec::new();
    for round in 0..rounds {
        let results = tempfile::tempdir()?;
        let history = run_once(session, plan, round as u64, results.path(), &()).await?;
        let after = bench()?;
        all.push(Round {
            path: Quantiles {
                p50: f64::midpoint(before.p50, after.p50),
                p99: f64::midpoint(before.p99, after.p99),
            },
            run: of_acquires(&history)?,
        });
        before = after;
    }
    Ok(all)
}

/// How far apart the two are, as a share of the path's; the median round.
pub fn apart(rounds: &[Round], of: impl Fn(Quantiles) -> f64) -> f64 {
    let each = rounds.iter().map(|r| of(r.run) / of(r.path) - 1.0);
    median(&each.collect::<Vec<_>>())
}

/// Of the acquires that were answered ok while the load lasted.
fn of_acquires(history: &Path) -> Outcome<Quantiles> {
    let (mut took, mut asked, mut load) = (Vec::new(), false, false);
    for line in std::io::BufReader::new(std::fs::File::open(history)?).lines() {
        let event: serde_json::Value = serde_json::from_str(&line?)?;
        match (event["f"].as_str(), event["type"].as_str()) {
            (Some("phase"), _) => load = event["value"]["phase"] == "load",
            (Some("acquire"), Some("invoke")) => asked = load,
            (Some("acquire"), Some("ok")) if std::mem::take(&mut asked) => {
                took.extend(event["value"]["ms"].as_f64());
            }
            _ => {}
        }
    }
    took.sort_by(f64::total_cmp);
    let quantile = |share: f64| {
        let rank = (took.len() as f64 * share).ceil() as usize;
        let of = took.get(rank.max(1) - 1).copied();
        of.ok_or("the run granted nothing")
    };
    Ok(Quantiles {
        p50: quantile(0.5)?,
        p99: quantile(0.99)?,
    })
}
