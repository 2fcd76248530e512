//! `fencepost doctor`: what works on this machine, found by trying it, and which fault is possible by which route.
//!
//! Owns the report and how it reads. Must not know a run. The probes are in `engine` (Docker) and `host`
//! (everything else); each gives [`Line`]s, and from those that were found the table of faults is drawn.
mod engine;
mod host;

use crate::plan::FaultKind;
use crate::plan::kinds::kinds;
use comfy_table::{ContentArrangement, Table};
use serde::Serialize;
use std::fmt::Write;

/// How a probe came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It works.
    Ok,
    /// It works with a drawback, or is missing without being needed.
    Warn,
    /// It is missing, and something that is needed does not work without it.
    Missing,
}

/// One thing that was probed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    /// What: `engine`, `redis-server`, `netem` …
    pub what: String,
    /// How it came out.
    pub status: Status,
    /// What was found, or why nothing was.
    pub found: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Line {
    fn new(what: &str, status: Status, found: impl AsRef<str>) -> Self {
        Self {
            what: what.to_owned(),
            status,
            found: plain(found.as_ref()),
            hint: None,
        }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        if self.status != Status::Ok {
            self.hint = Some(hint.into());
        }
        self
    }
}

/// Whether a fault is possible on a backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Route {
    /// Yes: by this route.
    By(String),
    /// No: for this reason.
    Not(String),
}

/// One fault on both backends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FaultLine {
    /// The kind of fault.
    pub fault: FaultKind,
    /// With nodes in containers.
    pub docker: Route,
    /// With nodes as processes.
    pub local: Route,
}

/// All that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DoctorReport {
    /// Probes, in the order in which they are read.
    pub lines: Vec<Line>,
    /// Every kind of fault.
    pub faults: Vec<FaultLine>,
    /// Whether each backend can run at all; why not.
    pub docker: Route,
    /// As `docker`.
    pub local: Route,
}

/// What the table of faults is drawn from: each a route, or why there is none.
struct Routes {
    /// Can nodes run as containers.
    docker: Route,
    /// Can nodes run as processes.
    local: Route,
    /// Signals to processes of our own.
    signals: Route,
    /// Pausing a container.
    pause: Route,
    /// Filtering the packets of a container.
    packets: Route,
    /// A preload shim in servers and clients.
    shim: Route,
}

/// Probes everything. Takes about two seconds: one of them watches for hiccups, and with an engine and images a
/// container is started, stopped by signal, and removed.
pub async fn doctor() -> DoctorReport {
    let (engine, host) = tokio::join!(engine::probe(), host::probe());
    let local = match host
        .lines
        .iter()
        .find(|l| l.status == Status::Missing && host::LOCAL.contains(&&*l.what))
    {
        Some(line) => Route::Not(format!("{}: {}", line.what, line.found)),
        None => Route::By("server and Toxiproxy as child processes".into()),
    };
    let routes = Routes {
        docker: engine.backend,
        local,
        signals: host.signals,
        pause: engine.pause,
        packets: packets(&host.lines),
        shim: shim(),
    };
    // Measured last, when no other probe disturbs it.
    let hiccups = host::hiccups().await;
    let lines = engine
        .lines
        .into_iter()
        .chain(host.lines)
        .chain([hiccups])
        .collect();
    let faults = kinds()
        .iter()
        .map(|row| fault_line(row.kind, &routes))
        .collect();
    DoctorReport {
        lines,
        faults,
        docker: routes.docker,
        local: routes.local,
    }
}

/// Whether the preload shim can be had: it is built at its first use.
fn shim() -> Route {
    match crate::cluster::shim::available() {
        Ok(_) => Route::By("a preload shim".into()),
        Err(error) => Route::Not(plain(&error.to_string())),
    }
}

/// Whether packets of a container can be filtered: by which programs, or which one is missing.
fn packets(lines: &[Line]) -> Route {
    let missing = lines
        .iter()
        .find(|l| matches!(&*l.what, "nsenter" | "iptables") && l.status != Status::Ok);
    if let Some(line) = missing {
        return Route::Not(format!("{}: {}", line.what, line.found));
    }
    if !nix::unistd::geteuid().is_root() {
        return Route::Not("entering a container's network needs root".into());
    }
    Route::By("nsenter and iptables in the server's network".into())
}

/// By which route a fault goes. Exhaustive, so that a new kind must say.
fn fault_line(fault: FaultKind, routes: &Routes) -> FaultLine {
    let on = |backend: &Route, route: &Route| {
        if matches!(backend, Route::Not(_)) {
            backend.clone()
        } else {
            route.clone()
        }
    };
    let by = |text: &str| Route::By(text.to_owned());
    let signal = |text: &str| {
        if let Route::By(_) = routes.signals {
            by(text)
        } else {
            routes.signals.clone()
        }
    };
    let (docker, local) = match fault {
        FaultKind::ClientPause => (
            signal("SIGSTOP to the client's group"),
            signal("SIGSTOP to the client's group"),
        ),
        FaultKind::ClientKill | FaultKind::ClientRestart => (
            signal("SIGKILL to the client's group"),
            signal("SIGKILL to the client's group"),
        ),
        FaultKind::SlowWork => (by("the client works longer"), by("the client works longer")),
        FaultKind::ResourceDelay => (
            by("the driver holds the write"),
            by("the driver holds the write"),
        ),
        FaultKind::NodePause => (routes.pause.clone(), signal("SIGSTOP to the server")),
        FaultKind::NodeKill | FaultKind::NodeRestart => (
            by("engine API: kill, start"),
            signal("SIGKILL to the server"),
        ),
        FaultKind::Failover => (by("SENTINEL FAILOVER"), by("SENTINEL FAILOVER")),
        FaultKind::LeaderChange => (
            by("MoveLeader at etcd's leader"),
            Route::Not("topology `etcd` runs on Docker only".into()),
        ),
        FaultKind::SessionExpiry => (
            by("closeSession at ZooKeeper's leader"),
            Route::Not("topology `zookeeper` runs on Docker only".into()),
        ),
        FaultKind::Partition
        | FaultKind::Latency
        | FaultKind::QuorumThin
        | FaultKind::Bandwidth
        | FaultKind::SlowClose
        | FaultKind::Slicer
        | FaultKind::LimitData
        | FaultKind::Swizzle => (by("Toxiproxy"), by("Toxiproxy")),
        FaultKind::NodeDropClients
        | FaultKind::NodeScriptFlush
        | FaultKind::NodeFlush
        | FaultKind::NodeDelete
        | FaultKind::NodeEvict
        | FaultKind::NodeFull
        | FaultKind::NodeSlow
        | FaultKind::NodeReadonly => (by("commands to the server"), by("commands to the server")),
        FaultKind::NodeClock | FaultKind::ClientClock | FaultKind::NodePowerLoss => {
            (routes.shim.clone(), routes.shim.clone())
        }
        FaultKind::PacketLoss => (
            routes.packets.clone(),
            Route::Not("servers share this machine's network".into()),
        ),
        FaultKind::Message => (by("a proxy that reads RESP"), by("a proxy that reads RESP")),
    };
    FaultLine {
        fault,
        docker: on(&routes.docker, &docker),
        local: on(&routes.local, &local),
    }
}

impl DoctorReport {
    /// Whether there is a backend on which a run is possible.
    pub fn usable(&self) -> bool {
        [&self.docker, &self.local]
            .into_iter()
            .any(|r| matches!(r, Route::By(_)))
    }

    /// For a terminal or a log, without colour.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let width = self.lines.iter().map(|l| l.what.len()).max().unwrap_or(0);
        for line in &self.lines {
            let status = match line.status {
                Status::Ok => "ok",
                Status::Warn => "warn",
                Status::Missing => "missing",
            };
            let _ = writeln!(out, "{status:<8}{:<width$}  {}", line.what, line.found);
            if let Some(hint) = &line.hint {
                let _ = writeln!(out, "{:8}{:width$}  hint: {hint}", "", "");
            }
        }
        let mut table = Table::new();
        table.load_preset(comfy_table::presets::NOTHING);
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_header(["fault", "--backend docker", "--backend local"]);
        for line in &self.faults {
            table.add_row([
                fault_name(line.fault),
                cell(&line.docker),
                cell(&line.local),
            ]);
        }
        let _ = writeln!(out, "\n{}\n", table.trim_fmt());
        let verdict = match (&self.docker, &self.local) {
            (Route::By(_), _) => "`run` takes Docker here (--backend auto)".to_owned(),
            (Route::Not(why), Route::By(_)) => {
                format!("`run` takes local processes here (no Docker: {why})")
            }
            (Route::Not(docker), Route::Not(local)) => {
                format!("nothing can run here: docker: {docker}; local: {local}\nhint: make setup")
            }
        };
        let _ = writeln!(out, "{verdict}");
        out
    }

    /// For machines: the same as one JSON object.
    pub fn json(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

fn fault_name(fault: FaultKind) -> String {
    match serde_json::to_value(fault) {
        Ok(serde_json::Value::String(name)) => name,
        _ => format!("{fault:?}"),
    }
}

fn cell(route: &Route) -> String {
    match route {
        Route::By(route) => format!("yes: {route}"),
        Route::Not(why) => format!("no: {why}"),
    }
}

/// One line without control characters, of bounded length: engines and programs wrote it.
fn plain(text: &str) -> String {
    text.trim()
        .lines()
        .next()
        .unwrap_or_default()
        .chars()
        .filter(|c| !c.is_control())
        .take(160)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(docker: bool, local: bool) -> Routes {
        let route = |on: bool, what: &str| {
            if on {
                Route::By(what.into())
            } else {
                Route::Not(format!("no {what}"))
            }
        };
        Routes {
            docker: route(docker, "engine"),
            local: route(local, "redis-server"),
            signals: Route::By("SIGSTOP".into()),
            pause: Route::Not("no permission".into()),
            packets: Route::Not("no iptables".into()),
            shim: Route::By("preload".into()),
        }
    }

    #[test]
    fn a_fault_is_impossible_where_its_backend_is_or_its_own_route() {
        let pause = fault_line(FaultKind::NodePause, &routes(true, true));
        assert_eq!(pause.docker, Route::Not("no permission".into()));
        assert_eq!(pause.local, Route::By("SIGSTOP to the server".into()));
        let cut = fault_line(FaultKind::Partition, &routes(false, true));
        assert_eq!(
            (cut.docker, cut.local),
            (
                Route::Not("no engine".into()),
                Route::By("Toxiproxy".into())
            )
        );
    }

    #[test]
    fn the_text_names_every_line_every_fault_and_what_run_would_take() {
        let routes = routes(false, true);
        let lines = vec![
            Line::new(
                "engine",
                Status::Missing,
                "\u{1b}[31mno\u{7} socket\nsecond line",
            )
            .hint("make setup"),
            Line::new("python3", Status::Ok, "Python 3").hint("never shown"),
        ];
        let faults: Vec<_> = kinds()
            .iter()
            .map(|row| fault_line(row.kind, &routes))
            .collect();
        let report = DoctorReport {
            lines,
            faults,
            docker: routes.docker,
            local: routes.local,
        };
        let text = report.text();
        assert!(report.usable());
        assert!(
            !text.contains('\u{1b}')
                && !text.contains("second line")
                && !text.contains("never shown"),
            "{text}"
        );
        for part in [
            "missing engine ",
            "hint: make setup",
            "ok      python3",
            "takes local processes here",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        for row in kinds() {
            assert!(text.contains(row.name), "{} in {text}", row.name);
        }
        assert_eq!(report.json()["faults"][0]["fault"], "client-pause");
        assert_eq!(report.json()["lines"][0]["status"], "missing");
    }
}
