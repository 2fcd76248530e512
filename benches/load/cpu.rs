//! Who spends the processors while a load runs: driver, clients, Toxiproxy, server, and whoever else is on the machine.
//!
//! Owns reading /proc. Must not know what is measured. Shares go to `main`.
use fencepost::run::{Counters, Watcher};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// CPU time by part, in clock ticks (a hundredth of a second on Linux, as `getconf CLK_TCK` says).
type Ticks = BTreeMap<&'static str, u64>;

/// Parts that belong to the run, in the order in which they are shown.
const PARTS: [&str; 6] = [
    "driver",
    "client",
    "toxiproxy",
    "server",
    "redis-benchmark",
    "others here",
];

/// Takes a picture at the begin and at the end of the load phase.
pub struct LoadMeter {
    containers: Vec<String>,
    /// Own name, which the clients have too: they are this binary.
    name: String,
    began: RefCell<Option<(Instant, Ticks)>>,
    spent: RefCell<Option<(Duration, Ticks)>>,
}

impl Watcher for LoadMeter {
    fn phase(&self, name: &str, _expected: Option<Duration>) {
        if name == "load" {
            *self.began.borrow_mut() = Some((Instant::now(), self.picture()));
        } else if name == "heal"
            && let Some((at, before)) = self.began.borrow_mut().take()
        {
            let mut spent = self.picture();
            for (part, ticks) in &mut spent {
                *ticks = ticks.saturating_sub(before.get(part).copied().unwrap_or(0));
            }
            *self.spent.borrow_mut() = Some((at.elapsed(), spent));
        }
    }

    fn tick(&self, _counters: Counters) {}
}

impl LoadMeter {
    /// A meter for the run `run`; its servers are children of this process or run in its containers.
    pub fn new(run: &str) -> Self {
        let label = format!("label=fencepost.run={run}");
        let ids = std::process::Command::new("docker")
            .args(["ps", "-q", "--no-trunc", "--filter", &label])
            .output();
        let ids = ids.map_or_else(|_| Vec::new(), |out| out.stdout);
        let ids = String::from_utf8_lossy(&ids);
        Self {
            containers: ids.lines().map(str::to_owned).collect(),
            name: std::fs::read_to_string("/proc/self/comm")
                .map(|name| name.trim_end().to_owned())
                .unwrap_or_default(),
            began: RefCell::default(),
            spent: RefCell::default(),
        }
    }

    /// What `work` spends.
    pub fn around<T>(&self, work: impl FnOnce() -> T) -> (T, Spent) {
        self.phase("load", None);
        let done = work();
        self.phase("heal", None);
        (done, self.take().unwrap_or_default())
    }

    /// What was spent in the load phase; none before it has ended.
    pub fn take(&self) -> Option<Spent> {
        let (length, ticks) = self.spent.borrow_mut().take()?;
        Some(Spent { length, ticks })
    }

    /// CPU time of every process so far.
    fn picture(&self) -> Ticks {
        let mut ticks = Ticks::new();
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse().ok()) else {
                continue;
            };
            if let Some((part, spent, waited_for)) = self.process(pid) {
                *ticks.entry(part).or_default() += spent;
                if part == "driver" {
                    // Of its children only redis-benchmark ends between two pictures.
                    *ticks.entry("redis-benchmark").or_default() += waited_for;
                }
            }
        }
        ticks
    }

    /// The part that a process belongs to, its CPU time and that of its children which have ended; none when it has
    /// just ended itself.
    fn process(&self, pid: u32) -> Option<(&'static str, u64, u64)> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (head, tail) = stat.rsplit_once(") ")?;
        let (_, name) = head.split_once('(')?;
        let fields: Vec<&str> = tail.split(' ').collect();
        let field = |n: usize| fields.get(n).and_then(|f| f.parse::<u64>().ok());
        // After the name: 0 state, 1 parent, 11 and 12 user and system time, 13 and 14 those of children that were
        // waited for (proc_pid_stat(5)).
        let own = u64::from(std::process::id());
        let child = field(1) == Some(own);
        let ours = || {
            let group = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
            child || self.containers.iter().any(|id| group.contains(id))
        };
        let part = if u64::from(pid) == own {
            "driver"
        } else if child && name == self.name {
            "client"
        } else if name.starts_with("toxiproxy") && ours() {
            "toxiproxy"
        } else if (name.starts_with("redis-server") || name.starts_with("valkey-server")) && ours()
        {
            "server"
        } else {
            "others here"
        };
        Some((part, field(11)? + field(12)?, field(13)? + field(14)?))
    }
}

/// CPU time of a load phase by part.
#[derive(Default)]
pub struct Spent {
    length: Duration,
    ticks: Ticks,
}

impl Spent {
    /// Adds another phase.
    pub fn add(&mut self, other: &Self) {
        self.length += other.length;
        for (part, ticks) in &other.ticks {
            *self.ticks.entry(part).or_default() += ticks;
        }
    }

    /// Microseconds of all parts of the run a cycle.
    pub fn own_micros(&self, cycles: f64) -> f64 {
        let own = PARTS.iter().filter(|part| **part != "others here");
        own.map(|part| self.micros(part, cycles)).sum()
    }

    /// Microseconds of a part a cycle.
    pub fn micros(&self, part: &str, cycles: f64) -> f64 {
        // A tick is 10 ms.
        self.ticks.get(part).copied().unwrap_or(0) as f64 * 1e4 / cycles.max(1.0)
    }

    /// Shares of what all parts spent together, and the processors' idle share.
    pub fn shares(&self, cycles: f64) -> String {
        let of = |part: &str| self.ticks.get(part).copied().unwrap_or(0) as f64;
        let total: f64 = PARTS.iter().map(|part| of(part)).sum();
        let share = |part: &&str| {
            let micros = self.micros(part, cycles);
            format!(
                "{part} {:.0} % ({micros:.0} µs a cycle)",
                of(part) * 100.0 / total.max(1.0)
            )
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let idle = 100.0 - total / (self.length.as_secs_f64() * cores).max(0.01);
        let parts = PARTS
            .iter()
            .filter(|part| of(part) > 0.0)
            .map(share)
            .collect::<Vec<_>>()
            .join(", ");
        format!("{parts}; {:.0} % of {cores} cores idle", idle.max(0.0))
    }
}
