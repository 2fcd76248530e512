//! PROTOCOL.md's example is the adapter in adapters/example.py, and that adapter works.
mod support;
use fencepost::client::Reply;
use support::{Client, LIMIT, Server, init, root, run};

#[test]
fn the_page_holds_the_example() {
    let page = std::fs::read_to_string(root().join("PROTOCOL.md")).expect("PROTOCOL.md");
    let example = std::fs::read_to_string(root().join("adapters/example.py")).expect("the example");
    assert!(
        page.contains(&format!("```python\n{example}```\n")),
        "PROTOCOL.md's example differs from adapters/example.py"
    );
}

#[test]
fn the_example_locks_and_unlocks() {
    run(async {
        let server = Server::start();
        let argv = ["python3", "adapters/example.py"];
        let (a, b) = (Client::spawn(&argv), Client::spawn(&argv));
        for c in [&a, &b] {
            let about = c.process.init(&init(&[&server], 5000), LIMIT).await;
            assert_eq!(about.expect("a handshake").library, "example");
        }
        let Ok(Reply::Granted {
            owner: Some(owner),
            validity_ms: Some(validity),
            token: None,
        }) = a.acquire(0, "x").await
        else {
            panic!("not granted");
        };
        assert_eq!(server.ask("GET fp:x"), owner);
        assert!((1000.0..4948.0).contains(&validity), "{validity}");
        assert_eq!(b.acquire(0, "x").await, Err((true, "held".into())));
        let done = Ok(Reply::Done { validity_ms: None });
        assert_eq!(a.release(0, "x").await, done);
        assert_eq!(a.release(0, "x").await, Err((true, "not-held".into())));
        assert!(b.acquire(0, "x").await.is_ok());
        server.ask("SET fp:x another");
        assert_eq!(b.release(0, "x").await, Err((true, "not-owner".into())));
        assert_eq!(
            b.extend(0, "x", 1000).await,
            Err((true, "unsupported".into()))
        );
        let addr = server.addr;
        drop(server);
        assert_eq!(
            a.acquire(0, "y").await,
            Err((false, "timeout".into())),
            "its connection broke"
        );
        assert!(std::net::TcpStream::connect(addr).is_err());
        assert_eq!(
            a.acquire(0, "y").await,
            Err((true, "connection-refused".into()))
        );
        assert_eq!(
            a.release(0, "y").await,
            Err((false, "connection-refused".into()))
        );
        for mut c in [a, b] {
            c.process.shutdown(LIMIT).await;
            assert!(c.died().await.contains("exit status: 0"));
        }
    });
}
