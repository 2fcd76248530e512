//! `client-clock`: a client's wall clock steps or drifts, by the page that its preload shim reads.
//!
//! Proof: the client's own memory map shows the shim and its page, and `date`, started on that same page, tells the time
//! that is meant; then the true one. (No field of the protocol carries a client's clock, and none is believed.)
use super::wall::{Wrong, now_ns};
use super::{Fault, Proof, World, probe};
use crate::cluster::shim::Shim;
use crate::plan::FaultPlan;
use async_trait::async_trait;
use tokio::process::Command;
use tokio::time::Instant;

/// What a healed clock may be off, in ns: as long as `date` takes to start on a busy machine.
const TRUE_NS: i64 = 200_000_000;

pub(super) struct ClientClock {
    client: String,
    wrong: Wrong,
    injected: Instant,
}

impl ClientClock {
    pub(super) fn new(plan: &FaultPlan, client: String) -> Self {
        Self {
            client,
            wrong: Wrong::of(plan),
            injected: Instant::now(),
        }
    }

    fn shim<'a>(&self, world: &'a World) -> Result<&'a Shim, String> {
        let shim = world.clients.shim(&self.client);
        shim.ok_or_else(|| "the client was started without the shim".to_owned())
    }

    /// The client's process has shim and page in its memory.
    fn loaded(&self, world: &World) -> Result<String, String> {
        let slot = world.clients.slot(&self.client);
        let process = slot.and_then(|slot| slot.alive());
        let process = process.ok_or_else(|| format!("{} is dead", self.client))?;
        let pid = process.pid();
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"))
            .map_err(|e| format!("/proc/{pid}/maps: {e}"))?;
        for (_, path) in self.shim(world)?.variables() {
            if !maps.lines().any(|line| line.ends_with(&path)) {
                return Err(format!("pid {pid} has not loaded {path}"));
            }
        }
        Ok(format!("pid {pid} has the shim and its page in memory"))
    }
}

/// How far a process on this page is ahead of the true time, and how well that is known, in ns.
async fn ahead(shim: &Shim) -> Result<(i64, i64), String> {
    let before = now_ns();
    let output = Command::new("date")
        .arg("+%s%N")
        .envs(shim.variables())
        .stdin(std::process::Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .map_err(|e| format!("date: {e}"))?;
    let after = now_ns();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let told: i64 = text
        .trim()
        .parse()
        .map_err(|_| format!("date says `{}`", text.trim()))?;
    Ok((told - i64::midpoint(before, after), after - before))
}

#[async_trait(?Send)]
impl Fault for ClientClock {
    fn target(&self) -> String {
        self.client.clone()
    }

    fn client(&self) -> Option<&str> {
        Some(&self.client)
    }

    async fn inject(&mut self, world: &World) -> Result<(), String> {
        let shim = self.shim(world)?;
        shim.set_clock(self.wrong.step_ns, self.wrong.drift)
            .map_err(|e| e.to_string())?;
        self.injected = Instant::now();
        Ok(())
    }

    async fn bit(&mut self, world: &World) -> Proof {
        let loaded = self.loaded(world)?;
        self.wrong.far_enough(self.injected).await;
        let (ahead, doubt) = ahead(self.shim(world)?).await?;
        let told = self.wrong.told(ahead, doubt, self.injected)?;
        Ok(format!("{loaded}; {told}"))
    }

    async fn heal(&mut self, world: &World) -> Result<(), String> {
        let shim = self.shim(world)?;
        shim.set_clock(0, 0.0).map_err(|e| e.to_string())
    }

    async fn healed(&mut self, world: &World) -> Proof {
        let shim = self.shim(world)?;
        probe::retry(|| async {
            let (ahead, _) = ahead(shim).await?;
            let words = format!("its clock is {:+.1} ms off", ahead as f64 / 1e6);
            if ahead.abs() <= TRUE_NS {
                Ok(words)
            } else {
                Err(words)
            }
        })
        .await
    }
}
