//! What the tests of the client protocol share: a redis-server of one's own, a client process, a scratch folder.
#![allow(dead_code, reason = "each test binary uses its share")]
use fencepost::client::{ClientProcess, ClientSpec, Init, Notice, Reply, Request};
use fencepost::reaper::Reaper;
use fencepost::record::Clock;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Longest that anything in these tests may take.
pub const LIMIT: Duration = Duration::from_secs(20);

/// A redis-server on a free port, in its own process group, killed by its id.
pub struct Server {
    child: Child,
    pub addr: SocketAddr,
    dir: tempfile::TempDir,
}

impl Server {
    pub fn start() -> Server {
        for _ in 0..10 {
            let port = TcpListener::bind("127.0.0.1:0")
                .and_then(|l| l.local_addr())
                .expect("a free port")
                .port();
            if let Some(server) = Server::start_on(port) {
                return server;
            }
        }
        panic!("redis-server does not start");
    }

    fn start_on(port: u16) -> Option<Server> {
        let dir = tempfile::tempdir().expect("a scratch folder");
        let mut child = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--save", "", "--port"])
            .arg(port.to_string())
            .current_dir(dir.path())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("redis-server is installed");
        let addr = SocketAddr::from(([127, 0, 0, 1], port));
        let start = Instant::now();
        while start.elapsed() < LIMIT && matches!(child.try_wait(), Ok(None)) {
            if ask(addr, "PING").is_some_and(|a| a == "+PONG") {
                return Some(Server { child, addr, dir });
            }
            std::thread::yield_now();
        }
        let _ = child.kill();
        let _ = child.wait();
        None
    }

    /// One command, its answer's first line, or the string that it holds.
    pub fn ask(&self, command: &str) -> String {
        ask(self.addr, command).expect("the server answers")
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ask(addr: SocketAddr, command: &str) -> Option<String> {
    use std::io::{BufRead, BufReader, Write};
    let mut stream = TcpStream::connect(addr).ok()?;
    stream.set_read_timeout(Some(LIMIT)).ok()?;
    stream.write_all(format!("{command}\r\n").as_bytes()).ok()?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    if line.starts_with('$') && !line.starts_with("$-1") {
        line.clear();
        reader.read_line(&mut line).ok()?;
    }
    Some(line.trim_end().to_owned())
}

/// A client under test with all that it said unasked.
pub struct Client {
    pub process: ClientProcess,
    pub notices: UnboundedReceiver<Notice>,
    pub dir: tempfile::TempDir,
    pub clock: Clock,
}

impl Client {
    pub fn spawn(argv: &[&str]) -> Client {
        let dir = tempfile::tempdir().expect("a scratch folder");
        let (sender, notices) = unbounded_channel();
        let clock = Clock::start();
        let spec = ClientSpec {
            name: "c1".into(),
            argv: argv.iter().map(|&s| s.to_owned()).collect(),
            env: Vec::new(),
            variables: Vec::new(),
            log: dir.path().join("c1.log"),
            dir: root(),
        };
        let process = ClientProcess::spawn(spec, clock, reaper(), sender).expect("it starts");
        Client {
            process,
            notices,
            dir,
            clock,
        }
    }

    /// The built-in lock of that name, initialised.
    pub async fn builtin(lock: &str, init: Init) -> Client {
        let client = Client::spawn(&[env!("CARGO_BIN_EXE_fencepost"), "client", "--lock", lock]);
        let about = client.process.init(&init, LIMIT).await;
        assert_eq!(
            about.expect("handshake").library,
            format!("fencepost/{lock}")
        );
        client
    }

    pub async fn ask(&self, request: Request) -> Result<Reply, (bool, String)> {
        let answer = self.process.request(request, LIMIT).await;
        answer.result.map_err(|f| (f.definite, f.code))
    }

    pub async fn acquire(&self, worker: u32, key: &str) -> Result<Reply, (bool, String)> {
        self.ask(acquire(worker, key)).await
    }

    pub async fn release(&self, worker: u32, key: &str) -> Result<Reply, (bool, String)> {
        let key = key.to_owned();
        self.ask(Request::Release { worker, key }).await
    }

    pub async fn extend(
        &self,
        worker: u32,
        key: &str,
        ttl_ms: u64,
    ) -> Result<Reply, (bool, String)> {
        let key = key.to_owned();
        self.ask(Request::Extend {
            worker,
            key,
            ttl_ms,
        })
        .await
    }

    /// The next notice of misbehaviour whose text holds `part`.
    pub async fn misbehaves(&mut self, part: &str) -> String {
        self.find(|n| match n {
            Notice::Misbehaved { what, .. } if what.contains(part) => Some(what),
            _ => None,
        })
        .await
    }

    pub async fn died(&mut self) -> String {
        self.find(|n| match n {
            Notice::Died { status, .. } => Some(status),
            _ => None,
        })
        .await
    }

    pub async fn find<T>(&mut self, want: impl Fn(Notice) -> Option<T>) -> T {
        let found = tokio::time::timeout(LIMIT, async {
            let mut seen = Vec::new();
            while let Some(notice) = self.notices.recv().await {
                if let Some(found) = want(notice.clone()) {
                    return found;
                }
                seen.push(notice);
            }
            panic!("no such notice; there were {seen:?}");
        });
        found.await.expect("a notice in time")
    }

    pub fn log(&self) -> PathBuf {
        self.dir.path().join("c1.log")
    }
}

/// One reaper for all tests of this process; it ends what is left when the process ends.
pub fn reaper() -> &'static Reaper {
    static REAPER: OnceLock<Reaper> = OnceLock::new();
    REAPER.get_or_init(|| {
        let fencepost = Path::new(env!("CARGO_BIN_EXE_fencepost"));
        let run = format!("client-test-{}", std::process::id());
        Reaper::start_with(fencepost, &run).expect("a reaper")
    })
}

pub fn acquire(worker: u32, key: &str) -> Request {
    Request::Acquire {
        worker,
        key: key.to_owned(),
        wait_ms: 0,
        timeout_ms: 5000,
    }
}

pub fn init(nodes: &[&Server], ttl_ms: u64) -> Init {
    Init {
        nodes: nodes.iter().map(|s| s.addr).collect(),
        ttl_ms,
        prefix: "fp:".into(),
        workers: 4,
        ..Init::default()
    }
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// Run `test` as the harness runs: one thread, one `LocalSet`.
pub fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let local = tokio::task::LocalSet::new();
    local
        .block_on(&runtime, async {
            tokio::time::timeout(2 * LIMIT, test).await
        })
        .expect("the test hangs");
    runtime.shutdown_background();
}

/// Poll until `holds`.
pub async fn until(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < LIMIT, "never: {what}");
        tokio::task::yield_now().await;
    }
}
