//! A server over results of its own, and the bytes of requests and answers.
//!
//! Owns the process and the folders. Must not know what is asked.
use crate::harness::{fencepost, say};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// What stands beside the results and must never be read.
pub const SECRET: &str = "the-secret-beside-the-results";

/// A server over results of its own.
pub struct Served {
    pub child: Child,
    pub address: SocketAddr,
    pub dir: tempfile::TempDir,
}

/// An answer, as it came.
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn header(&self, name: &str) -> &str {
        let mut lines = self.head.lines().skip(1);
        let found = lines.find_map(|l| {
            let (n, value) = l.split_once(':')?;
            n.eq_ignore_ascii_case(name).then(|| value.trim())
        });
        found.unwrap_or_default()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Served {
    pub fn start() -> Self {
        Self::with(fencepost(), &[])
    }

    /// With so many descriptors at most.
    pub fn with_handles(most: u32) -> Self {
        let mut command = Command::new("/bin/sh");
        let limited = format!("ulimit -n {most}; exec \"$0\" \"$@\"");
        command.args(["-c", &limited, env!("CARGO_BIN_EXE_fencepost")]);
        Self::with(command, &[])
    }

    /// `command` becomes `fencepost serve`, with these words more.
    pub fn with(mut command: Command, more: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(dir.path().join("results")).expect("results");
        std::fs::write(dir.path().join("secret.txt"), SECRET).expect("a secret");
        let mut child = command
            .arg("serve")
            .arg(dir.path().join("results"))
            .args(["--listen", "127.0.0.1:0"])
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let mut line = String::new();
        let out = child.stdout.take().expect("its stdout");
        BufReader::new(out).read_line(&mut line).expect("a line");
        let address = line.trim().strip_prefix("http://").expect("an address");
        let address = address.trim_end_matches('/').parse().expect("an address");
        Self {
            child,
            address,
            dir,
        }
    }

    pub fn results(&self) -> PathBuf {
        self.dir.path().join("results")
    }

    /// Writes a file below the results.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.results().join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        std::fs::write(path, text).expect("a file");
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("a connection");
        let limit = Some(Duration::from_secs(30));
        stream.set_read_timeout(limit).expect("a limit");
        stream
    }

    /// These very bytes.
    pub fn raw(&self, request: &str) -> Answer {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).expect("sent");
        read(&mut stream)
    }

    pub fn get(&self, path: &str) -> Answer {
        self.raw(&get(path, "localhost"))
    }
}

pub fn get(path: &str, host: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
}

pub fn read(stream: &mut TcpStream) -> Answer {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("an answer");
    let end = bytes.windows(4).position(|w| w == b"\r\n\r\n");
    let end = end.unwrap_or_else(|| panic!("no head: {:?}", String::from_utf8_lossy(&bytes)));
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let status = head.split(' ').nth(1).and_then(|s| s.parse().ok());
    Answer {
        status: status.expect("a status"),
        head,
        body: bytes[end + 4..].to_vec(),
    }
}

/// A finished run below the results, from a history that the checker's own tests use, with all reports.
pub fn run(served: &Served, workload: &str, folder: &str, golden: &str, plan: &str) -> PathBuf {
    let dir = served.results().join(workload).join(folder);
    std::fs::create_dir_all(&dir).expect("folders");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let golden = root.join("checker/tests/golden").join(golden);
    std::fs::copy(golden, dir.join("history.jsonl")).expect("a history");
    std::fs::write(dir.join("plan.toml"), plan).expect("a plan");
    let verdict = fencepost_checker::check_path(&dir.join("history.jsonl")).expect("a verdict");
    let verdict = serde_json::to_string(&verdict).expect("JSON");
    std::fs::write(dir.join("verdict.json"), verdict).expect("a verdict");
    let dir_text = dir.display().to_string();
    let said = say(&["report", &dir_text]);
    assert!(dir.join("report.html").is_file(), "{}", said.stderr);
    dir
}
