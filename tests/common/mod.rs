//! What the cluster tests share: a spec, a small RESP client, and a harness process to kill.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    missing_docs
)]
use fencepost::cluster::{Backend, Cluster, Phase, Spec};
use fencepost::plan::{ClusterPlan, Persistence, Reach, RestartData, Topology};
use fencepost::reaper::Reaper;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub const FENCEPOST: &str = env!("CARGO_BIN_EXE_fencepost");

/// A run id of its own for each test.
pub fn run_id(test: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    let ticks = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    format!(
        "t-{test}-{}-{n}-{}",
        std::process::id(),
        ticks.subsec_micros()
    )
}

pub fn plan(nodes: u32, persistence: Persistence) -> ClusterPlan {
    ClusterPlan {
        topology: if nodes == 1 {
            Topology::Single
        } else {
            Topology::Independent
        },
        nodes,
        persistence,
        image: "fencepost/redis:7".to_owned(),
        toxiproxy_image: "fencepost/toxiproxy:2.12".to_owned(),
        shim: false,
        down_after: None,
        min_replicas: None,
        max_lag: None,
        reach: Reach::Auto,
    }
}

pub fn spec(backend: Backend, reaper: &Reaper, plan: ClusterPlan, clients: u32) -> Spec {
    Spec {
        backend,
        plan,
        clients: (1..=clients).map(|c| format!("c{c}")).collect(),
        run: reaper.run().to_owned(),
        dir: reaper.scratch().to_path_buf(),
        command: Vec::new(),
    }
}

pub fn reaper(test: &str) -> Reaper {
    Reaper::start_with(Path::new(FENCEPOST), &run_id(test)).unwrap()
}

/// One command on a connection of its own, as redis-cli would; the error is the system's.
pub fn ask(at: SocketAddr, command: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&at, Duration::from_secs(1))?;
    stream.set_read_timeout(Some(Duration::from_millis(500)))?;
    stream.write_all(format!("{command}\r\n").as_bytes())?;
    let mut got = [0; 4096];
    match stream.read(&mut got)? {
        0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
        n => Ok(String::from_utf8_lossy(&got[..n]).into_owned()),
    }
}

/// Look until it is so, at most `seconds`.
pub fn until(what: &str, seconds: u64, mut so: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !so() {
        assert!(
            start.elapsed() < Duration::from_secs(seconds),
            "not within {seconds} s: {what}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    start.elapsed()
}

pub async fn until_phase(cluster: &Cluster, node: usize, phase: Phase) -> String {
    let start = Instant::now();
    loop {
        let state = cluster.node_state(node).await;
        if state.phase == phase {
            return state.proof;
        }
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "{state:?} is not {phase:?}"
        );
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// The whole life of a cluster, on either backend: links, a cut, pause, kill, restart with data kept and dropped.
pub async fn life(backend: Backend, image: &str, reach: Reach) {
    let reaper = reaper("life");
    let mut plan = plan(2, Persistence::Aof);
    plan.image = image.to_owned();
    plan.reach = reach;
    let cluster = Cluster::start(spec(backend, &reaper, plan, 2), &reaper)
        .await
        .unwrap();
    println!(
        "reach {}, route {}, versions {:?}",
        cluster.reach(),
        cluster.route(0),
        cluster.versions()
    );
    assert_eq!(cluster.node_count(), 2);
    let links: Vec<SocketAddr> = ["c1", "c2"]
        .iter()
        .flat_map(|c| (0..2).map(|n| cluster.link(c, n)))
        .collect();
    for &link in &links {
        assert_eq!(ask(link, "PING").unwrap(), "+PONG\r\n");
    }
    cut(&cluster).await;
    pause(&cluster).await;
    for data in [RestartData::Keep, RestartData::Drop] {
        assert_eq!(ask(cluster.direct(0), "SET lock here").unwrap(), "+OK\r\n");
        cluster.kill_node(0).await.unwrap();
        println!("killed: {}", until_phase(&cluster, 0, Phase::Dead).await);
        assert!(
            ask(cluster.link("c1", 0), "PING").is_err(),
            "a dead node answers"
        );
        let start = Instant::now();
        cluster.start_node(0, data).await.unwrap();
        println!("restart {data:?} took {:?}", start.elapsed());
        until_phase(&cluster, 0, Phase::Running).await;
        let want = if data == RestartData::Keep {
            "$4\r\nhere\r\n"
        } else {
            "$-1\r\n"
        };
        assert_eq!(ask(cluster.direct(0), "GET lock").unwrap(), want);
        assert_eq!(
            ask(cluster.link("c1", 0), "GET lock").unwrap(),
            want,
            "the link leads there again"
        );
    }
    let again: Vec<SocketAddr> = ["c1", "c2"]
        .iter()
        .flat_map(|c| (0..2).map(|n| cluster.link(c, n)))
        .collect();
    assert_eq!(links, again, "links keep their addresses");
    let logs = tempfile::tempdir().unwrap();
    cluster.save_logs(logs.path()).await;
    let log = std::fs::read_to_string(logs.path().join("n1.log")).unwrap();
    assert!(
        log.matches("is starting").count() >= 3,
        "three starts: {log}"
    );
    assert!(
        cluster.kill_node(2).await.is_err(),
        "there is no third node"
    );
    cluster.stop().await.unwrap();
    let scratch = reaper.scratch().to_path_buf();
    reaper.finish().await;
    assert!(!scratch.exists(), "the scratch folder is gone");
}

async fn cut(cluster: &Cluster) {
    let toxiproxy = cluster.toxiproxy();
    let name = cluster.proxy_name("c1", 0);
    toxiproxy.set_enabled(&name, false).await.unwrap();
    assert!(
        ask(cluster.link("c1", 0), "PING").is_err(),
        "a cut link answers"
    );
    assert!(
        ask(cluster.link("c2", 0), "PING").is_ok(),
        "another client's link is cut too"
    );
    assert!(
        ask(cluster.link("c1", 1), "PING").is_ok(),
        "another node's link is cut too"
    );
    toxiproxy.set_enabled(&name, true).await.unwrap();
    assert_eq!(ask(cluster.link("c1", 0), "PING").unwrap(), "+PONG\r\n");
}

async fn pause(cluster: &Cluster) {
    cluster.pause_node(1).await.unwrap();
    println!("paused: {}", until_phase(cluster, 1, Phase::Stopped).await);
    assert!(
        ask(cluster.direct(1), "PING").is_err(),
        "a paused node answers"
    );
    assert!(ask(cluster.direct(0), "PING").is_ok());
    cluster.resume_node(1).await.unwrap();
    until_phase(cluster, 1, Phase::Running).await;
    assert_eq!(ask(cluster.direct(1), "PING").unwrap(), "+PONG\r\n");
    // Dead while paused, and back.
    cluster.pause_node(1).await.unwrap();
    cluster.kill_node(1).await.unwrap();
    until_phase(cluster, 1, Phase::Dead).await;
    cluster.start_node(1, RestartData::Keep).await.unwrap();
    assert_eq!(ask(cluster.link("c2", 1), "PING").unwrap(), "+PONG\r\n");
}

/// Names the run and backend of the harness that a test process becomes, when it is started again by [`Harness`].
const VICTIM: &str = "FENCEPOST_TEST_VICTIM";

/// This test executable once more, as a harness that starts a cluster, pauses a node, says `up`, and waits to be killed.
pub struct Harness {
    child: Child,
    pub run: String,
}

impl Harness {
    /// `test`: the full name of a test that calls [`victim`] first thing.
    pub fn start(test: &str, run: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture", "--test-threads=1"])
            .env(VICTIM, run)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let up = out
            .lines()
            .map_while(Result::ok)
            .any(|l| l.ends_with("victim is up"));
        assert!(up, "the harness did not come up: {:?}", child.wait());
        Self {
            child,
            run: run.to_owned(),
        }
    }

    /// The harness's reaper, by what its command line says.
    fn reaper(&self) -> fencepost::reaper::procs::Stat {
        let wanted = format!("reaper\0--run\0{}\0", self.run);
        fencepost::reaper::procs::all()
            .into_iter()
            .find(|s| {
                let words = std::fs::read(format!("/proc/{}/cmdline", s.pid)).unwrap_or_default();
                String::from_utf8_lossy(&words).contains(&wanted)
            })
            .unwrap()
    }

    /// SIGKILL to the reaper, then to the harness: nobody is left to clean up.
    pub fn kill_both(self) {
        let reaper = self.reaper();
        assert!(fencepost::reaper::procs::kill_group(
            reaper.group,
            reaper.start
        ));
        self.kill();
    }

    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Become the harness to be killed, if this process was started for it.
pub fn victim(backend: Backend) -> bool {
    let Ok(run) = std::env::var(VICTIM) else {
        return false;
    };
    runtime().block_on(async {
        let reaper = Reaper::start_with(Path::new(FENCEPOST), &run).unwrap();
        let spec = spec(backend, &reaper, plan(3, Persistence::Aof), 2);
        let cluster = Cluster::start(spec, &reaper).await.unwrap();
        cluster.pause_node(0).await.unwrap();
        until_phase(&cluster, 0, Phase::Stopped).await;
        println!("\nvictim is up");
        std::future::pending::<()>().await;
    });
    true
}
