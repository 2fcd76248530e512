//! The connection against a scripted server: order, cuts, reconnects, and what is definite after each.
use super::*;
use std::cell::Cell;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const LIMIT: Duration = Duration::from_secs(10);

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let local = tokio::task::LocalSet::new();
    local
        .block_on(&runtime, async { tokio::time::timeout(LIMIT, test).await })
        .expect("the test hangs");
}

async fn listen() -> (TcpListener, Resp) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let addr = listener.local_addr().expect("an address");
    (listener, Resp::new(addr, LIMIT))
}

fn echo(text: &str) -> Cmd {
    let mut cmd = redis::cmd("ECHO");
    cmd.arg(text);
    cmd
}

/// Read until `commands` whole ECHOs of four letters have come.
async fn read_echos(stream: &mut TcpStream, commands: usize) -> Vec<String> {
    let mut bytes = vec![0; commands * echo("abcd").get_packed_command().len()];
    stream.read_exact(&mut bytes).await.expect("commands");
    let text = String::from_utf8(bytes).expect("text");
    let words = text.split("\r\n").skip(4).step_by(5);
    words.map(str::to_owned).collect()
}

fn text(answer: Answer) -> String {
    match answer.expect("an answer") {
        Value::SimpleString(text) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn answers_belong_to_commands_in_order_and_a_dropped_call_takes_its_own() {
    run(async {
        let (listener, resp) = listen().await;
        let calls: Vec<_> = ["aaaa", "bbbb", "cccc"].map(|t| resp.call(&echo(t))).into();
        let mut calls = calls.into_iter();
        let (mut stream, _) = listener.accept().await.expect("a connection");
        assert_eq!(
            read_echos(&mut stream, 3).await,
            ["aaaa", "bbbb", "cccc"],
            "all in flight"
        );
        let a = calls.next().expect("a");
        drop(calls.next().expect("b"));
        stream
            .write_all(b"+a\r\n+late\r\n+c\r\n")
            .await
            .expect("sent");
        assert_eq!(text(a.await), "a");
        assert_eq!(
            text(calls.next().expect("c").await),
            "c",
            "not b's late answer"
        );
    });
}

#[test]
fn a_cut_leaves_what_was_sent_in_doubt_and_the_next_use_reconnects() {
    run(async {
        let (listener, resp) = listen().await;
        let call = resp.call(&echo("aaaa"));
        let (mut stream, _) = listener.accept().await.expect("a connection");
        read_echos(&mut stream, 1).await;
        drop(stream);
        assert_eq!(call.await, Err(RespError::Unknown(Break::Reset)));
        let call = resp.call(&echo("bbbb"));
        let (mut stream, _) = listener.accept().await.expect("a new connection");
        assert_eq!(read_echos(&mut stream, 1).await, ["bbbb"]);
        stream.write_all(b"+b\r\n").await.expect("sent");
        assert_eq!(text(call.await), "b");
        // Closed while nobody waits: the next command goes to a new connection and loses nothing.
        drop(stream);
        while resp.0.0.state.borrow().running {
            tokio::task::yield_now().await;
        }
        let call = resp.call(&echo("cccc"));
        let (mut stream, _) = listener.accept().await.expect("a new connection");
        assert_eq!(read_echos(&mut stream, 1).await, ["cccc"]);
        stream.write_all(b"+c\r\n").await.expect("sent");
        assert_eq!(text(call.await), "c");
    });
}

#[test]
fn a_refused_connection_is_definite() {
    run(async {
        let (listener, resp) = listen().await;
        let addr = listener.local_addr().expect("an address");
        drop(listener);
        for _ in 0..3 {
            let (a, b) = (resp.call(&echo("aaaa")), resp.call(&echo("bbbb")));
            assert_eq!(a.await, Err(RespError::NotSent(Break::Refused)));
            assert_eq!(b.await, Err(RespError::NotSent(Break::Refused)));
        }
        let listener = TcpListener::bind(addr).await.expect("the same port");
        let call = resp.call(&echo("cccc"));
        let (mut stream, _) = listener.accept().await.expect("a connection");
        assert_eq!(
            read_echos(&mut stream, 1).await,
            ["cccc"],
            "and nothing older"
        );
        stream.write_all(b"+c\r\n").await.expect("sent");
        assert_eq!(text(call.await), "c");
    });
}

#[test]
fn bytes_that_are_no_resp_end_the_connection() {
    run(async {
        for garbage in [
            "HTTP/1.1 400\r\n",
            ":12x\r\n",
            "$99999999999\r\n",
            "*1\r\n?\r\n",
        ] {
            let (listener, resp) = listen().await;
            let call = resp.call(&echo("aaaa"));
            let (mut stream, _) = listener.accept().await.expect("a connection");
            stream.write_all(garbage.as_bytes()).await.expect("sent");
            assert_eq!(
                call.await,
                Err(RespError::Unknown(Break::Garbled)),
                "{garbage}"
            );
        }
    });
}

#[test]
fn a_server_that_does_not_read_fills_the_queue_and_no_more() {
    run(async {
        let (_listener, resp) = listen().await;
        let big = "x".repeat(1 << 20);
        let refused = Cell::new(0);
        let mut calls = Vec::new();
        for _ in 0..64 {
            let mut call = Box::pin(resp.call(&echo(&big)));
            let now = futures_util::poll!(&mut call);
            match now {
                Poll::Ready(Err(RespError::NotSent(Break::Backlog))) => {
                    refused.set(refused.get() + 1);
                }
                Poll::Ready(other) => panic!("{other:?}"),
                Poll::Pending => calls.push(call),
            }
            tokio::task::yield_now().await;
        }
        assert!(
            refused.get() > 0 && calls.len() > 3,
            "{} {}",
            refused.get(),
            calls.len()
        );
    });
}

#[test]
fn the_last_clone_closes_the_connection() {
    run(async {
        let (listener, resp) = listen().await;
        let call = resp.call(&echo("aaaa"));
        let (mut stream, _) = listener.accept().await.expect("a connection");
        read_echos(&mut stream, 1).await;
        let clone = resp.clone();
        drop(resp);
        drop(clone);
        assert_eq!(call.await, Err(RespError::Unknown(Break::Reset)));
        assert_eq!(stream.read(&mut [0]).await.expect("an end"), 0);
    });
}

#[test]
fn a_frame_ends_where_the_parser_says_at_every_split() {
    let whole = b"*3\r\n$3\r\nabc\r\n:-7\r\n*2\r\n$-1\r\n+OK\r\n".as_slice();
    let both = [whole, b"-ERR no\r\n"].concat();
    for end in 0..whole.len() {
        assert_eq!(frame(&both[..end], 0, 0), Ok(None), "{end}");
    }
    for end in whole.len()..=both.len() {
        assert_eq!(frame(&both[..end], 0, 0), Ok(Some(whole.len())), "{end}");
    }
    assert!(redis::parse_redis_value(whole).is_ok());
    assert_eq!(
        frame("*1\r\n".repeat(99).as_bytes(), 0, 0),
        Err(Break::Garbled),
        "too deep"
    );
}
