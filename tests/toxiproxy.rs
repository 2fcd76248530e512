//! The one file that talks to Toxiproxy, against the real one and against one that lies.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]
mod common;

use common::{ask, plan, reaper, runtime, spec};
use fencepost::cluster::{Backend, Cluster, Toxic, ToxicKind, Toxiproxy, ToxiproxyError};
use fencepost::plan::Persistence;
use fencepost::reaper::procs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Run a test against the Toxiproxy of a local cluster of one node and one client: its proxy is `c1>n1`.
fn with_cluster(test: &str, body: impl AsyncFnOnce(&Cluster, Toxiproxy)) {
    runtime().block_on(async {
        let reaper = reaper(test);
        let spec = spec(Backend::Local, &reaper, plan(1, Persistence::None), 1);
        let cluster = Cluster::start(spec, &reaper).await.unwrap();
        body(&cluster, cluster.toxiproxy()).await;
        cluster.stop().await.unwrap();
        reaper.finish().await;
    });
}

fn toxic(name: &str, kind: ToxicKind, upstream: bool) -> Toxic {
    Toxic {
        name: name.to_owned(),
        kind,
        upstream,
    }
}

const STALL: ToxicKind = ToxicKind::Bandwidth { kb_per_s: 0 };

#[test]
fn each_kind_goes_on_and_comes_off() {
    with_cluster("kinds", async |_, t| {
        let ms = Duration::from_millis;
        let kinds = [
            ToxicKind::Latency {
                latency: ms(50),
                jitter: ms(5),
            },
            ToxicKind::Latency {
                latency: Duration::from_micros(1),
                jitter: Duration::ZERO,
            },
            ToxicKind::Timeout {
                after: Duration::ZERO,
            },
            STALL,
            ToxicKind::ResetPeer { after: ms(10) },
            ToxicKind::SlowClose { delay: ms(10) },
            ToxicKind::Slicer {
                average: 64,
                variation: 16,
                delay: Duration::from_micros(100),
            },
            ToxicKind::LimitData { bytes: 100 },
        ];
        let mut names = Vec::new();
        for (n, kind) in kinds.into_iter().enumerate() {
            for upstream in [true, false] {
                let name = format!("x{n}-{upstream}");
                t.add("c1>n1", toxic(&name, kind, upstream)).await.unwrap();
                names.push(name);
            }
        }
        let mut found = t.state("c1>n1").await.unwrap().toxics;
        found.sort();
        names.sort();
        assert_eq!(found, names, "several of one kind, each by its name");
        for name in &names[1..] {
            t.remove("c1>n1", name).await.unwrap();
        }
        assert_eq!(t.state("c1>n1").await.unwrap().toxics, names[..1]);
        t.set_enabled("c1>n1", false).await.unwrap();
        t.reset().await.unwrap();
        let state = t.state("c1>n1").await.unwrap();
        assert!(state.enabled && state.toxics.is_empty(), "{state:?}");
    });
}

#[test]
fn what_toxiproxy_refuses_is_an_error() {
    with_cluster("refused", async |cluster, t| {
        use ToxiproxyError as E;
        let stall = || toxic("s", STALL, true);
        assert!(matches!(t.add("c9>n1", stall()).await, Err(E::NoProxy(_))));
        assert!(matches!(
            t.set_enabled("c9>n1", false).await,
            Err(E::NoProxy(_))
        ));
        assert!(matches!(t.state("c9>n1").await, Err(E::NoProxy(_))));
        assert!(matches!(t.remove("c9>n1", "s").await, Err(E::NoProxy(_))));
        assert!(matches!(
            t.remove("c1>n1", "s").await,
            Err(E::NoToxic { .. })
        ));
        t.add("c1>n1", stall()).await.unwrap();
        assert!(matches!(t.add("c1>n1", stall()).await, Err(E::Exists(_))));
        let upstream = cluster.direct(0).to_string();
        let twice = t.create("c1>n1", "127.0.0.1:0", &upstream).await;
        assert!(matches!(twice, Err(E::Exists(_))));
        let taken = cluster.link("c1", 0).to_string();
        let e = t.create("other", &taken, &upstream).await.err().unwrap();
        assert!(e.to_string().contains("address already in use"), "{e}");
        let large = ToxicKind::LimitData { bytes: 1 << 40 };
        assert!(matches!(
            t.add("c1>n1", toxic("l", large, true)).await,
            Err(E::Invalid(_))
        ));
        for bad in ["", "../reset", "a b", "a/b", "a?b", "a%2f"] {
            assert!(matches!(t.state(bad).await, Err(E::Invalid(_))), "{bad}");
        }
        // A disabled proxy whose port was taken meanwhile cannot be enabled, and that is told.
        t.create("port", "127.0.0.1:0", &upstream).await.unwrap();
        let at = t.state("port").await.unwrap().listen;
        t.set_enabled("port", false).await.unwrap();
        let thief = TcpListener::bind(&at).unwrap();
        assert!(matches!(
            t.set_enabled("port", true).await,
            Err(E::NotChanged { .. })
        ));
        drop(thief);
        t.set_enabled("port", true).await.unwrap();
    });
}

#[test]
fn directions_and_stalls_are_what_they_say() {
    with_cluster("bytes", async |cluster, t| {
        let (link, direct) = (cluster.link("c1", 0), cluster.direct(0));
        // Replies vanish: the server did it, the client does not know.
        let hole = ToxicKind::Timeout {
            after: Duration::ZERO,
        };
        t.add("c1>n1", toxic("hole", hole, false)).await.unwrap();
        assert!(ask(link, "SET a 1").is_err());
        assert_eq!(ask(direct, "GET a").unwrap(), "$1\r\n1\r\n");
        t.remove("c1>n1", "hole").await.unwrap();
        // Requests vanish: it never happens.
        t.add("c1>n1", toxic("hole", hole, true)).await.unwrap();
        assert!(ask(link, "SET b 1").is_err());
        t.remove("c1>n1", "hole").await.unwrap();
        assert_eq!(ask(direct, "GET b").unwrap(), "$-1\r\n");
        // Requests wait: it happens when the toxic goes.
        t.add("c1>n1", toxic("stall", STALL, true)).await.unwrap();
        let mut stream = TcpStream::connect(link).unwrap();
        stream.write_all(b"SET c 1\r\n").unwrap();
        stream
            .set_read_timeout(Some(Duration::from_millis(100)))
            .unwrap();
        assert!(stream.read(&mut [0; 9]).is_err());
        assert_eq!(ask(direct, "GET c").unwrap(), "$-1\r\n");
        t.remove("c1>n1", "stall").await.unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(2)))
            .unwrap();
        let mut got = [0; 5];
        stream.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"+OK\r\n");
    });
}

#[test]
fn a_change_takes_milliseconds() {
    with_cluster("time", async |_, t| {
        let start = Instant::now();
        for _ in 0..20 {
            t.set_enabled("c1>n1", false).await.unwrap();
            t.set_enabled("c1>n1", true).await.unwrap();
        }
        println!("enable or disable: {:?}", start.elapsed() / 40);
        let start = Instant::now();
        for _ in 0..20 {
            t.add("c1>n1", toxic("s", STALL, true)).await.unwrap();
            t.remove("c1>n1", "s").await.unwrap();
        }
        println!("add or remove: {:?}", start.elapsed() / 40);
    });
}

/// A Toxiproxy that answers 200 to everything and changes nothing. Notes what it was asked; waits before each answer.
fn liar(delay: Duration) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let notes = heard.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let notes = notes.clone();
            std::thread::spawn(move || answer(&stream.unwrap(), delay, &notes));
        }
    });
    (at, heard)
}

fn answer(stream: &TcpStream, delay: Duration, notes: &Mutex<Vec<String>>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let Some(Ok(request)) = lines.next() else {
        return;
    };
    let words: Vec<&str> = request.split(' ').collect();
    notes
        .lock()
        .unwrap()
        .push(format!("{} {}", words[0], words[1]));
    if words[1] != "/version" {
        std::thread::sleep(delay);
    }
    let proxy = r#"{"name":"p","enabled":true,"listen":"127.0.0.1:1","upstream":"u:1","toxics":[
        {"name":"t","type":"bandwidth","stream":"upstream","toxicity":1,"attributes":{"rate":1}}]}"#;
    let body = match words[1] {
        "/version" => r#"{"version":"0"}"#.to_owned(),
        "/proxies" => format!(r#"{{"p":{proxy}}}"#),
        _ => proxy.to_owned(),
    };
    let head = format!(
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let _ = (&*stream).write_all((head + &body).as_bytes());
    // Read what is left, so that closing is no reset.
    let _ = stream.set_read_timeout(Some(Duration::from_millis(50)));
    while let Some(Ok(_)) = lines.next() {}
}

#[test]
fn a_change_that_did_not_happen_is_an_error() {
    let (at, _) = liar(Duration::ZERO);
    runtime().block_on(async {
        use ToxiproxyError as E;
        let t = Toxiproxy::connect(at).await.unwrap();
        assert!(matches!(
            t.set_enabled("p", false).await,
            Err(E::NotChanged { .. })
        ));
        let dropped = t.add("p", toxic("s", STALL, true)).await;
        assert!(matches!(dropped, Err(E::NotChanged { .. })));
        // Its name is there, but not with what was asked.
        let other = t.add("p", toxic("t", STALL, true)).await;
        assert!(matches!(other, Err(E::NotChanged { .. })));
        assert!(matches!(
            t.remove("p", "t").await,
            Err(E::NotChanged { .. })
        ));
        let e = t.reset().await.err().unwrap();
        assert!(
            e.to_string().contains('p') && matches!(e, E::NotChanged { .. }),
            "{e}"
        );
    });
}

#[test]
fn an_abandoned_change_is_not_made_later() {
    let (at, heard) = liar(Duration::from_millis(300));
    runtime().block_on(async {
        let t = Toxiproxy::connect(at).await.unwrap();
        let change = t.set_enabled("p", false);
        let given_up = tokio::time::timeout(Duration::from_millis(100), change).await;
        assert!(given_up.is_err());
        // The worker takes one job after the other: with this answer the abandoned one is over.
        t.state("p").await.unwrap();
    });
    let heard = heard.lock().unwrap();
    assert!(heard.iter().all(|h| !h.starts_with("POST")), "{heard:?}");
}

#[test]
fn nobody_there_is_told_at_once() {
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    runtime().block_on(async {
        let e = Toxiproxy::connect(free).await.err().unwrap();
        assert!(matches!(e, ToxiproxyError::Unreachable { .. }), "{e}");
    });
    with_cluster("gone", async |_, t| {
        // Killed under a living handle: the next change is an error, and so is each one after it.
        let program = std::path::PathBuf::from("toxiproxy-server");
        let ours = procs::all().into_iter().find(|s| {
            let link = |name| std::fs::read_link(format!("/proc/{}/{name}", s.pid)).ok();
            let exe = link("exe").and_then(|e| e.file_name().map(|n| program == *n));
            let run = link("cwd").is_some_and(|cwd| cwd.to_string_lossy().contains("t-gone-"));
            exe == Some(true) && run && s.alive()
        });
        let ours = ours.unwrap();
        assert!(procs::kill_group(ours.group, ours.start));
        for _ in 0..2 {
            let e = t.set_enabled("c1>n1", false).await.err().unwrap();
            assert!(matches!(e, ToxiproxyError::Unreachable { .. }), "{e}");
        }
    });
}

/// Proxy variables are in many companies' environments; on loopback they would break every call of the crate.
#[test]
fn proxy_variables_do_not_matter() {
    const INSIDE: &str = "FENCEPOST_TEST_INSIDE";
    if std::env::var_os(INSIDE).is_none() {
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["proxy_variables_do_not_matter", "--exact"])
            .env(INSIDE, "1")
            .env("HTTP_PROXY", "http://127.0.0.1:9")
            .env("http_proxy", "http://127.0.0.1:9")
            .status();
        assert!(status.unwrap().success());
        return;
    }
    with_cluster("variables", async |_, t| {
        t.set_enabled("c1>n1", false).await.unwrap();
        t.add("c1>n1", toxic("s", STALL, true)).await.unwrap();
        t.reset().await.unwrap();
        assert!(matches!(
            t.set_enabled("no", true).await,
            Err(ToxiproxyError::NoProxy(_))
        ));
    });
}
