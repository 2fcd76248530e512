//! The figures that systems are compared by.
//!
//! Owns the list of figures, what each is an amount of and over which exposure, and how the episodes come together.
//! Must not know a format.
use super::{Comparison, Episode, System};
use fencepost_checker::stats::{self, Interval};

/// A figure that every episode has.
#[derive(Debug, Clone, Copy)]
pub struct Figure {
    /// Its name in tables, with its unit.
    pub name: &'static str,
    /// Amount and exposure in one episode; the figure is their quotient, times `scale`.
    pub of: fn(&Episode) -> stats::Episode,
    /// What the quotient is multiplied by.
    pub scale: f64,
    /// How the episodes come together.
    pub over: Over,
    /// Digits after the point.
    pub digits: usize,
    /// Whether an episode's value is only a lower bound.
    pub at_least: fn(&Episode) -> bool,
    /// Differences are tested: few, and chosen beforehand, since each test more makes all the others weaker.
    pub tested: bool,
}

/// How the episodes of a system become one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// Of a count: all amounts over all exposures, with Garwood's interval.
    Count,
    /// Of a measure: all amounts over all exposures, with an interval from the spread of the episodes.
    Ratio,
    /// The largest.
    Max,
}

fn per_grant(amount: u64, e: &Episode) -> stats::Episode {
    stats::Episode {
        amount: amount as f64,
        exposure: e.grants as f64,
    }
}

fn per_second(amount: f64, e: &Episode) -> stats::Episode {
    stats::Episode {
        amount,
        exposure: e.load_s,
    }
}

fn each(amount: f64) -> stats::Episode {
    stats::Episode {
        amount,
        exposure: 1.0,
    }
}

const fn figure(
    name: &'static str,
    of: fn(&Episode) -> stats::Episode,
    scale: f64,
    over: Over,
    digits: usize,
) -> Figure {
    Figure {
        name,
        of,
        scale,
        over,
        digits,
        at_least: |_| false,
        tested: false,
    }
}

const fn bounded(figure: Figure, at_least: fn(&Episode) -> bool) -> Figure {
    Figure { at_least, ..figure }
}

const fn tested(figure: Figure) -> Figure {
    Figure {
        tested: true,
        ..figure
    }
}

/// All figures, in the order of the tables.
pub const FIGURES: &[Figure] = &[
    tested(figure(
        "lost updates per million grants",
        |e| per_grant(e.lost_updates, e),
        1e6,
        Over::Count,
        0,
    )),
    figure(
        "stale accesses refused per million grants",
        |e| per_grant(e.refused, e),
        1e6,
        Over::Count,
        0,
    ),
    tested(figure(
        "unavailable, % of the load",
        |e| per_second(e.unavailable_s, e),
        100.0,
        Over::Ratio,
        2,
    )),
    figure(
        "longest gap, s",
        |e| each(e.longest_gap_s),
        1.0,
        Over::Max,
        2,
    ),
    figure(
        "longest on past the lease, s",
        |e| each(e.zombie_s),
        1.0,
        Over::Max,
        2,
    ),
    tested(figure(
        "lock cycles a second",
        |e| per_second(e.cycles as f64, e),
        1.0,
        Over::Ratio,
        1,
    )),
    bounded(
        figure(
            "wait for the lock, mean of the episodes' p50, ms",
            |e| each(e.wait_p50_ms),
            1.0,
            Over::Ratio,
            2,
        ),
        |e| e.wait_p50_at_least,
    ),
    bounded(
        tested(figure(
            "wait for the lock, mean of the episodes' p99, ms",
            |e| each(e.wait_p99_ms),
            1.0,
            Over::Ratio,
            2,
        )),
        |e| e.wait_p99_at_least,
    ),
    figure(
        "messages a grant",
        |e| stats::Episode {
            amount: e.messages.unwrap_or_default() as f64,
            exposure: e.messages.map_or(0.0, |_| e.grants as f64),
        },
        1.0,
        Over::Ratio,
        1,
    ),
    figure("fairness (Jain)", |e| each(e.fairness), 1.0, Over::Ratio, 3),
];

/// A value with its interval, where it has one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Valued {
    /// The value.
    pub value: f64,
    /// 95 %.
    pub interval: Option<Interval>,
    /// Only a lower bound, and so are the ends of the interval.
    pub at_least: bool,
}

impl Figure {
    /// Its value for one system; none without an episode, or over no exposure.
    pub fn value(&self, system: &System) -> Option<Valued> {
        let all: Vec<stats::Episode> = system.episodes.iter().map(self.of).collect();
        let amount: f64 = all.iter().map(|e| e.amount).sum();
        let exposure: f64 = all.iter().map(|e| e.exposure).sum();
        if exposure <= 0.0 {
            return None;
        }
        let scaled = |i: Interval, by: f64| Interval {
            low: i.low * by,
            high: i.high * by,
        };
        let quotient = amount / exposure * self.scale;
        let (value, interval) = match self.over {
            Over::Count => {
                let counted = stats::poisson(amount as u64, 0.95);
                (quotient, Some(scaled(counted, self.scale / exposure)))
            }
            Over::Ratio => {
                let drawn = stats::ratio(&all, 0.95);
                (quotient, drawn.map(|i| scaled(i, self.scale)))
            }
            Over::Max => {
                let most = all.iter().map(|e| e.amount).fold(0.0, f64::max);
                (most * self.scale, None)
            }
        };
        Some(Valued {
            value,
            interval,
            at_least: system.episodes.iter().any(self.at_least),
        })
    }
}

/// What one check found in all episodes of one system.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Finding {
    /// Episodes with at least one incident.
    pub episodes: u64,
    /// Episodes in which the check could be judged: those in which all that it found may be a stall's doing are not.
    pub judged: u64,
    /// Incidents over all of these.
    pub incidents: u64,
    /// Grants in all of these.
    pub grants: u64,
}

impl Finding {
    /// Of one check and system.
    pub fn of(system: &System, check: &str) -> Self {
        let mut found = Self {
            episodes: 0,
            judged: 0,
            incidents: 0,
            grants: 0,
        };
        for e in &system.episodes {
            let Some((violated, c)) = e.checks.get(check).and_then(|c| Some((c.judged()?, c)))
            else {
                continue;
            };
            found.judged += 1;
            found.episodes += u64::from(violated);
            found.incidents = found.incidents.saturating_add(c.incidents);
            found.grants = found.grants.saturating_add(e.grants);
        }
        found
    }

    /// The share of episodes, with Clopper and Pearson's interval.
    pub fn share(&self) -> Interval {
        stats::share(self.episodes, self.judged, 0.95)
    }

    /// Incidents per million grants, with Garwood's interval; none without a grant.
    pub fn rate(&self) -> Option<Valued> {
        if self.grants == 0 {
            return None;
        }
        let per = 1e6 / self.grants as f64;
        let i = stats::poisson(self.incidents, 0.95);
        Some(Valued {
            value: self.incidents as f64 * per,
            interval: Some(Interval {
                low: i.low * per,
                high: i.high * per,
            }),
            at_least: false,
        })
    }
}

/// The checks that were violated in any episode of any system, by name; `coverage` says nothing of a lock.
pub fn checks_found(c: &Comparison) -> Vec<String> {
    let violated = c
        .systems
        .iter()
        .flat_map(|s| &s.episodes)
        .flat_map(|e| &e.checks)
        .filter(|(name, f)| f.judged() == Some(true) && *name != "coverage");
    let names: std::collections::BTreeSet<&String> = violated.map(|(name, _)| name).collect();
    names.into_iter().cloned().collect()
}
