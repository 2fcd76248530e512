//! `fencepost serve` as a browser, a script and an attacker meet it: raw requests to a real server, no containers.
#[path = "../harness/mod.rs"]
mod harness;
mod served;

use harness::{fencepost, say};
use served::{Answer, SECRET, Served, get, read, run};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

const PLAN: &str = "name = \"mutex\"\nseed = 7\nabout = \"Two at once\"\nlock = { name = \"redlock\" }\n\
                    [[fault]]\nkind = \"node-restart\"\n";

#[test]
fn runs_are_listed_with_filters_and_lead_to_their_files() {
    let served = Served::start();
    run(
        &served,
        "mutex",
        "20261130T082201Z-7",
        "mutex-twice.jsonl",
        PLAN,
    );
    served.write(
        "idle/20261130T090000Z-8/plan.toml",
        "name = \"idle\"\nseed = 8\n",
    );
    let list = served.get("/");
    assert_eq!(list.status, 200);
    let text = list.text();
    for part in [
        "Not as expected",
        "2026-11-30 08:22:01",
        "redlock",
        "service",
        "2 runs of 2",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("<script"), "it works without");
    let first = text.find("/runs/idle/").expect("listed");
    assert!(
        first < text.find("/runs/mutex/").expect("listed"),
        "newest first"
    );
    for (query, mutex, idle) in [
        ("q=redlock+restart", true, false),
        ("verdict=unfinished", false, true),
        ("verdict=unexpected&seed=7", true, false),
        ("workload=idle", false, true),
        ("seed=9", false, false),
        ("q=2026-11-30", true, true),
    ] {
        let text = served.get(&format!("/?{query}")).text();
        let shown = (text.contains("/runs/mutex/"), text.contains("/runs/idle/"));
        assert_eq!(shown, (mutex, idle), "{query}");
    }
    let folder = served.get("/runs/mutex/20261130T082201Z-7/");
    assert!(
        folder.text().contains("./history.jsonl"),
        "{}",
        folder.text()
    );
    assert!(folder.text().contains("Not as expected"));
    let moved = served.get("/runs/mutex/20261130T082201Z-7");
    assert_eq!(moved.status, 301);
    assert_eq!(moved.header("location"), "/runs/mutex/20261130T082201Z-7/");
    for (name, media) in [
        ("report.html", "text/html; charset=utf-8"),
        ("history.jsonl", "text/plain; charset=utf-8"),
        ("junit.xml", "text/plain; charset=utf-8"),
        ("verdict.json", "application/json"),
    ] {
        let file = served.get(&format!("/runs/mutex/20261130T082201Z-7/{name}"));
        let path = served.results().join("mutex/20261130T082201Z-7").join(name);
        assert_eq!(file.status, 200, "{name}");
        assert!(file.body == std::fs::read(path).expect(name), "{name}");
        assert_eq!(file.header("content-type"), media);
    }
}

#[test]
fn nothing_outside_the_results_can_be_reached() {
    let served = Served::start();
    served.write("a/b/file.txt", "inside");
    let results = served.results();
    symlink(
        served.dir.path().join("secret.txt"),
        results.join("out.txt"),
    )
    .expect("a link");
    symlink(served.dir.path(), results.join("up")).expect("a link");
    symlink("/", results.join("root")).expect("a link");
    symlink("b", results.join("a/latest")).expect("a link");
    let fifo = results.join("pipe");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    assert_eq!(served.get("/runs/a/b/file.txt").text(), "inside");
    assert_eq!(
        served.get("/runs/a/latest/file.txt").text(),
        "inside",
        "a link inside"
    );
    for path in [
        "/secret.txt",
        "/../secret.txt",
        "/runs/../../secret.txt",
        "/runs/../secret.txt",
        "/runs/a/../../secret.txt",
        "/runs/%2e%2e/secret.txt",
        "/runs/%2E%2E/secret.txt",
        "/runs/.%2e/secret.txt",
        "/runs/%2e%2e%2fsecret.txt",
        "/runs/..%2fsecret.txt",
        "/runs/..%5csecret.txt",
        "/runs/..\\secret.txt",
        "/runs/%252e%252e/secret.txt",
        "/runs/%c0%ae%c0%ae/secret.txt",
        "/runs//etc/passwd",
        "/runs/%2fetc%2fpasswd",
        "/runs/a%2fb/file.txt",
        "/runs/a/b/file.txt%00.html",
        "/runs/a/b/file.txt/",
        "/runs/out.txt",
        "/runs/up/secret.txt",
        "/runs/up/",
        "/runs/root/etc/passwd",
        "/runs/root/",
        "/runs/pipe",
        "/runs/a/b/none",
    ] {
        let answer = served.get(path);
        assert!(
            matches!(answer.status, 400 | 404),
            "{path}: {}",
            answer.status
        );
        let text = answer.text();
        assert!(
            !text.contains(SECRET) && !text.contains("root:"),
            "{path}: {text}"
        );
    }
    // Neither the list nor a folder's page follows a link out.
    served.write("evil/x/history.jsonl", "");
    symlink(
        served.dir.path().join("secret.txt"),
        results.join("evil/x/plan.toml"),
    )
    .expect("a link");
    for path in ["/", "/runs/evil/x/", "/runs/a/"] {
        let answer = served.get(path);
        assert_eq!(answer.status, 200, "{path}");
        assert!(!answer.text().contains(SECRET), "{path}");
    }
}

#[test]
fn a_link_that_is_swapped_under_way_gains_nothing() {
    let served = Served::start();
    served.write("a/file.txt", "inside");
    let results = served.results();
    let (secret, link) = (
        served.dir.path().join("secret.txt"),
        results.join("a/swap.txt"),
    );
    let swap = |to: &Path| {
        let next = results.join("a/.next");
        symlink(to, &next).expect("a link");
        std::fs::rename(&next, &link).expect("swapped");
    };
    let mut seen = 0;
    for _ in 0..100 {
        swap(Path::new("file.txt"));
        let mut stream = served.connect();
        let request = get("/runs/a/swap.txt", "localhost");
        stream.write_all(request.as_bytes()).expect("sent");
        swap(&secret);
        let answer = read(&mut stream);
        assert!(!answer.text().contains(SECRET));
        seen += u32::from(answer.status == 200);
        assert!(matches!(answer.status, 200 | 404), "{}", answer.status);
    }
    swap(Path::new("file.txt"));
    assert_eq!(
        served.get("/runs/a/swap.txt").status,
        200,
        "{seen} of 100 before the swap"
    );
}

#[test]
fn only_names_of_this_machine_are_answered() {
    let served = Served::with(fencepost(), &["--host", "ci.example.org"]);
    let port = served.address.port();
    for host in [
        "localhost",
        "127.0.0.1",
        "[::1]",
        "ci.example.org",
        "CI.example.org:80",
    ] {
        assert_eq!(served.raw(&get("/", host)).status, 200, "{host}");
    }
    let with_port = format!("127.0.0.1:{port}");
    assert_eq!(served.raw(&get("/", &with_port)).status, 200);
    for host in [
        "evil.example",
        &format!("evil.example:{port}"),
        "localhost.evil.example",
        "",
    ] {
        assert_eq!(served.raw(&get("/", host)).status, 421, "{host}");
    }
    for request in [
        "GET / HTTP/1.1\r\nConnection: close\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
    ] {
        assert_eq!(served.raw(request).status, 400, "{request}");
    }
    let absolute =
        "GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert_eq!(served.raw(absolute).status, 421);
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        let request =
            format!("{method} / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let answer = served.raw(&request);
        assert_eq!((answer.status, answer.header("allow")), (405, "GET, HEAD"));
    }
}

#[test]
fn what_is_served_can_do_nothing() {
    let served = Served::start();
    let script = "<script>fetch('/')</script>";
    served.write(
        "evil/x/plan.toml",
        &format!("name = \"{script}\"\nabout = \"\u{202e}\"\n"),
    );
    served.write("evil/x/report.html", script);
    served.write(
        "evil/x/picture.svg",
        "<svg xmlns='http://www.w3.org/2000/svg'/>",
    );
    for path in [
        "/",
        "/runs/evil/x/",
        "/runs/evil/x/report.html",
        "/runs/none",
        "/runs/evil/x/picture.svg",
    ] {
        let answer = served.get(path);
        let policy = answer.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'"), "{path}: {policy}");
        assert!(
            policy.contains("frame-ancestors 'none'"),
            "{path}: {policy}"
        );
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert_eq!(answer.header("cross-origin-resource-policy"), "same-origin");
        let own = !path.contains("x/report") && !path.contains("x/picture");
        if own {
            assert!(!answer.text().contains("<script"), "{path}");
            assert!(!policy.contains("script-src"), "{path}: {policy}");
        } else {
            assert!(policy.contains("sandbox allow-scripts; "), "{policy}");
            assert!(
                policy.contains("script-src 'sha256-") && !policy.contains("allow-same-origin")
            );
        }
    }
    // The page that fencepost makes may run its one script there.
    run(&served, "mutex", "1", "mutex-twice.jsonl", PLAN);
    let page = served.get("/runs/mutex/1/report.html");
    let hash = |policy: &str| {
        let from = policy.find("script-src ").expect("a script") + "script-src ".len();
        policy[from..].split([' ', ';']).next().map(str::to_owned)
    };
    assert_eq!(
        hash(&page.text()),
        hash(page.header("content-security-policy"))
    );
}

#[test]
fn a_half_written_run_is_shown_as_such() {
    let served = Served::start();
    served.write(
        "cut/20261130T082201Z-1/plan.toml",
        "name = \"cut\"\nseed = 1\n",
    );
    served.write("cut/20261130T082201Z-1/history.jsonl", "{\"fencepost\":1");
    served.write("torn/20261130T082202Z-2/plan.toml", "name = \"to");
    served.write("torn/20261130T082202Z-2/verdict.json", "{\"outcome\":\"val");
    served.write("bare/20261130T082203Z-3/history.jsonl", "");
    served.write("empty/20261130T082204Z-4/notes.txt", "no run");
    let text = served.get("/").text();
    let row = |name: &str| {
        let at = text
            .find(&format!("/runs/{name}/"))
            .unwrap_or_else(|| panic!("{name}: {text}"));
        let from = text[..at].rfind("<tr").expect("a row");
        text[from..]
            .split("</tr>")
            .next()
            .expect("a row")
            .to_owned()
    };
    assert!(
        row("cut").contains("Unfinished: under way, 14 bytes"),
        "{}",
        row("cut")
    );
    assert!(
        row("torn").contains("Unreadable: verdict.json"),
        "{}",
        row("torn")
    );
    assert!(row("bare").contains("Unfinished"), "{}", row("bare"));
    assert!(
        !text.contains("/runs/empty/"),
        "a folder without a run is none"
    );
    let old = std::time::SystemTime::now() - Duration::from_secs(3600);
    let history = served
        .results()
        .join("cut/20261130T082201Z-1/history.jsonl");
    let file = std::fs::File::options()
        .append(true)
        .open(history)
        .expect("a history");
    file.set_modified(old).expect("an old one");
    lists(&served, "so the run was cut");
    let partial = served.get("/runs/cut/20261130T082201Z-1/history.jsonl");
    assert_eq!(partial.text(), "{\"fencepost\":1");
}

/// Asks for the list until it says so: it is looked up at most once a second.
fn lists(served: &Served, part: &str) {
    let start = std::time::Instant::now();
    while !served.get("/").text().contains(part) {
        assert!(start.elapsed() < Duration::from_secs(20), "never: {part}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Bytes of memory that a process has held at most.
fn peak(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kb = line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok());
    kb.expect("a peak") << 10
}

#[test]
fn a_huge_file_is_streamed() {
    const HUGE: u64 = 1 << 30;
    let served = Served::start();
    served.write("big/1/history.jsonl", "begin");
    let file = std::fs::File::options()
        .write(true)
        .open(served.results().join("big/1/history.jsonl"))
        .expect("a file");
    file.set_len(HUGE).expect("a sparse file");
    let before = peak(served.child.id());
    let mut stream = served.connect();
    let request = get("/runs/big/1/history.jsonl", "localhost");
    stream.write_all(request.as_bytes()).expect("sent");
    let (mut got, mut piece) = (0_u64, vec![0; 1 << 20]);
    let mut head = Vec::new();
    loop {
        let n = stream.read(&mut piece).expect("it goes on");
        if n == 0 {
            break;
        }
        if head.len() < 1000 {
            head.extend_from_slice(&piece[..n.min(1000)]);
        }
        got += n as u64;
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    assert!(
        head.to_lowercase()
            .contains(&format!("content-length: {HUGE}")),
        "{head}"
    );
    assert!((HUGE + 100..HUGE + 2000).contains(&got), "{got}");
    let more = peak(served.child.id()) - before;
    assert!(more < 64 << 20, "{more} bytes of memory for it");
    // HEAD tells its size and sends nothing; a client that goes away in the middle is no matter.
    let head =
        "HEAD /runs/big/1/history.jsonl HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let answer = served.raw(head);
    assert_eq!((answer.status, answer.body.len()), (200, 0));
    assert_eq!(answer.header("content-length"), HUGE.to_string());
    for _ in 0..100 {
        let mut stream = served.connect();
        stream.write_all(request.as_bytes()).expect("sent");
    }
    assert_eq!(served.get("/").status, 200);
}

#[test]
fn two_hundred_requests_at_once_are_answered_with_few_handles() {
    const MANY: usize = 200;
    // 128 descriptors in all: half of the connections alone need more than that.
    let served = Served::with_handles(128);
    let text = "x".repeat(300_000);
    served.write("a/1/history.jsonl", &text);
    let served = &served;
    let paths = ["/runs/a/1/history.jsonl", "/", "/runs/a/1/", "/runs/none"];
    let answers: Vec<(usize, Answer)> = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..MANY)
            .map(|n| scope.spawn(move || (n, served.get(paths[n % paths.len()]))))
            .collect();
        let answers = asked.into_iter().map(|a| a.join().expect("an answer"));
        answers.collect()
    });
    for (n, answer) in &answers {
        let status = if n % 4 == 3 { 404 } else { 200 };
        assert_eq!(answer.status, status, "request {n}");
        if n % 4 == 0 {
            assert_eq!(answer.body.len(), text.len(), "request {n}");
        }
    }
    let open = std::fs::read_dir(format!("/proc/{}/fd", served.child.id()));
    let open = open.expect("it lives").count();
    assert!(open < 128, "{open} handles left open");
}

#[test]
fn idle_and_babbling_clients_stop_nobody() {
    let served = Served::start();
    served.write("a/1/plan.toml", "name = \"a\"\n");
    let silent: Vec<TcpStream> = (0..100).map(|_| served.connect()).collect();
    let mut long = served.connect();
    let header = format!(
        "GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n",
        "x".repeat(100_000)
    );
    // It may hang up before all is sent.
    let _ = long.write_all(header.as_bytes());
    assert_eq!(served.get("/").status, 200);
    let long_address = format!("/runs/{}", "a/".repeat(6000));
    assert!(matches!(served.get(&long_address).status, 404 | 414 | 431));
    drop(silent);
}

#[test]
fn more_silent_clients_than_seats_stop_nobody_for_long() {
    // 16 connections at a time. A silent one has 10 s, but not where half of the seats are taken.
    let served = Served::with_handles(32);
    let silent: Vec<TcpStream> = (0..40).map(|_| served.connect()).collect();
    let began = Instant::now();
    assert_eq!(served.get("/").status, 200);
    assert!(
        began.elapsed() < Duration::from_secs(9),
        "{:?}",
        began.elapsed()
    );
    drop(silent);
}

#[test]
fn clients_that_ask_and_take_nothing_stop_nobody_for_long() {
    // 16 connections at a time, so that a few such clients are all that it serves.
    let served = Served::with_handles(32);
    let asked = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(20_000);
    let asks = |mut stream: TcpStream| {
        let limit = Some(Duration::from_millis(500));
        stream.set_write_timeout(limit).expect("a limit");
        // All that goes in before it stops reading.
        let _ = stream.write_all(asked.as_bytes());
        stream
    };
    let greedy: Vec<TcpStream> = (0..20).map(|_| asks(served.connect())).collect();
    assert_eq!(served.get("/").status, 200, "within the 30 s of a read");
    drop(greedy);
}

#[test]
fn a_place_that_cannot_be_had_is_told() {
    let none = say(&["serve", "no/such/folder"]);
    none.refused(64, &["no/such/folder", "fencepost run"]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path().display().to_string();
    let refused = say(&["serve", &dir, "--listen", &address]);
    refused.refused(69, &["cannot listen", "127.0.0.1:0"]);
    assert_eq!(say(&["serve", &dir, "--listen", "nonsense"]).code, 64);
}
