//! The tap against conversations made at random: every byte arrives, every reply finds its command, every rule its
//! message.
//!
//! Owns what must hold of the tap alone. Must not know real servers: those are met in `tests/tap.rs`.
mod talk;

use super::pair::{Answers, Expect, Fate, Pairing};
use super::scan::Side;
use super::stream::{Chunk, Stream};
use super::{Action, After, Command, Edge, Pattern, Rule, TapLink, Taps, error};
use crate::record::{Clock, Sink};
use fencepost_checker::Event;
use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::cell::RefCell;
use std::rc::Rc;
use talk::{Talk, pieces};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

fn chunks(side: Side, bytes: &[u8], cuts: &[usize], mut each: impl FnMut(Chunk)) {
    let mut stream = Stream::new(side);
    for piece in pieces(bytes, cuts) {
        stream.buffer.extend_from_slice(piece);
        while let Some(chunk) = stream.next().expect("it is RESP") {
            each(chunk);
        }
    }
    assert!(stream.buffer.is_empty(), "bytes stayed behind");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_comes_out_and_every_reply_finds_its_command(
        steps in proptest::collection::vec(any::<u8>(), 1..24),
        seed in any::<u64>(),
        cuts in proptest::collection::vec(1_usize..90, 1..12),
    ) {
        let talk = Talk::draw(&steps, seed);
        let mut pairing = Pairing::default();
        let mut seen = Vec::new();
        chunks(Side::Requests, &talk.requests, &cuts, |chunk| {
            let Chunk::Message { bytes, shape, whole } = chunk else { panic!("too long") };
            assert!(whole);
            seen.extend_from_slice(&bytes);
            let command = Rc::new(Command::new(bytes, shape));
            let (number, expect) = pairing.expect(&command);
            if expect == Expect::Reply {
                pairing.push(number, command, Fate::Passes);
            }
        });
        prop_assert_eq!(&seen, &talk.requests);
        seen.clear();
        let mut answers = Vec::new();
        chunks(Side::Replies, &talk.replies, &cuts, |chunk| {
            let Chunk::Message { bytes, shape, .. } = chunk else { panic!("too long") };
            seen.extend_from_slice(&bytes);
            let place = shape.parts.first().cloned().unwrap_or_default();
            let first = bytes.get(place).unwrap_or_default();
            answers.push(match pairing.answers(shape.kind, first, shape.last_integer) {
                Answers::Command(pending, last) => (Some(pending.number), last),
                Answers::Unasked => (None, false),
            });
        });
        prop_assert_eq!(&seen, &talk.replies);
        prop_assert_eq!(answers, talk.answers);
    }
}

/// Keeps the text of what goes on record.
#[derive(Default)]
struct Kept(RefCell<Vec<serde_json::Value>>);

impl Sink for Kept {
    fn emit(&self, event: Event<'_>) {
        let event = serde_json::to_value(event).expect("it is JSON");
        self.0.borrow_mut().push(event);
    }
}

impl Kept {
    /// Events of this `f`, as (message, phase).
    fn of(&self, f: &str) -> Vec<(u64, Option<String>)> {
        let events = self.0.borrow();
        let mine = events.iter().filter(|e| e["f"] == f);
        mine.map(|e| {
            let phase = e["value"]["phase"].as_str().map(str::to_owned);
            (e["value"]["message"].as_u64().unwrap_or(0), phase)
        })
        .collect()
    }
}

struct Bench {
    server: TcpListener,
    taps: Taps,
    kept: Rc<Kept>,
}

impl Bench {
    async fn start() -> Self {
        let server = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let link = TapLink {
            client: "c1".into(),
            node: 0,
            name: "n1".into(),
            upstream: server.local_addr().expect("bound"),
        };
        let kept = Rc::new(Kept::default());
        let taps = Taps::start(vec![link], "fp:", Clock::start(), kept.clone());
        let taps = taps.await.expect("ports");
        Self { server, taps, kept }
    }

    /// Both ends of a connection through the tap.
    async fn connect(&self) -> (TcpStream, TcpStream) {
        let address = self.taps.address("c1", 0).expect("a tap");
        let client = TcpStream::connect(address).await.expect("it listens");
        let (server, _) = self.server.accept().await.expect("it connects");
        client.set_nodelay(true).expect("a socket");
        server.set_nodelay(true).expect("a socket");
        (client, server)
    }

    /// The first message at this edge waits until the gate is dropped.
    fn gate(&self, edge: Edge, action: Action) -> tokio::sync::oneshot::Sender<()> {
        let (gate, wait) = tokio::sync::oneshot::channel();
        let wait = RefCell::new(Some(wait));
        self.taps.rules().add(Rule {
            pattern: Pattern::default(),
            edge,
            between: Box::new(|_, _| true),
            armed: Box::new(|| true),
            nth: 1,
            count: Some(1),
            action,
            fired: Box::new(move |_| wait.borrow_mut().take()),
        });
        gate
    }

    fn rule(&self, edge: Edge, nth: u32, action: Action) -> Rc<super::Hits> {
        self.taps.rules().add(Rule {
            pattern: Pattern {
                command: Some("set".into()),
                key: Some("lock:0".into()),
                ..Pattern::default()
            },
            edge,
            between: Box::new(|client, node| client == "c1" && node == 0),
            armed: Box::new(|| true),
            nth,
            count: Some(1),
            action,
            fired: Box::new(|_| None),
        })
    }
}

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let limit = std::time::Duration::from_secs(120);
    let test = async { tokio::time::timeout(limit, test).await };
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, test).expect("the test hangs")
}

async fn read_exactly(stream: &mut TcpStream, n: usize) -> Vec<u8> {
    let mut bytes = vec![0; n];
    stream.read_exact(&mut bytes).await.expect("all bytes");
    bytes
}

const SET: &[u8] = b"*3\r\n$3\r\nSET\r\n$9\r\nfp:lock:0\r\n$1\r\nv\r\n";
const GET: &[u8] = b"*2\r\n$3\r\nGET\r\n$9\r\nfp:lock:0\r\n";

#[test]
fn conversations_pass_byte_for_byte_through_sockets() {
    run(async {
        let bench = Bench::start().await;
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        for case in 0..1000 {
            let steps: Vec<u8> = (0..random.random_range(1..20))
                .map(|_| random.random())
                .collect();
            let cuts: Vec<usize> = (0..4).map(|_| random.random_range(1..400)).collect();
            let talk = Talk::draw(&steps, case);
            let (mut client, mut server) = bench.connect().await;
            let (mut from_client, mut to_client) = client.split();
            let (mut from_server, mut to_server) = server.split();
            let mut heard = vec![0; talk.requests.len()];
            let mut answered = vec![0; talk.replies.len()];
            tokio::join!(
                async {
                    for piece in pieces(&talk.requests, &cuts) {
                        to_client.write_all(piece).await.expect("open");
                    }
                },
                async { from_server.read_exact(&mut heard).await.expect("all") },
            );
            tokio::join!(
                async {
                    for piece in pieces(&talk.replies, &cuts) {
                        to_server.write_all(piece).await.expect("open");
                    }
                },
                async { from_client.read_exact(&mut answered).await.expect("all") },
            );
            assert!(
                heard == talk.requests && answered == talk.replies,
                "case {case}"
            );
        }
    });
}

#[test]
fn what_is_long_or_no_resp_passes_unharmed() {
    run(async {
        let bench = Bench::start().await;
        let long = "y".repeat(3 << 20);
        let request = format!("*2\r\n$4\r\nECHO\r\n${}\r\n{long}\r\n", long.len());
        let reply = format!("${}\r\n{long}\r\n", long.len());
        let (mut client, mut server) = bench.connect().await;
        let (sent, heard) = tokio::join!(
            client.write_all(request.as_bytes()),
            read_exactly(&mut server, request.len())
        );
        sent.expect("open");
        assert!(heard == request.as_bytes());
        let (sent, heard) = tokio::join!(
            server.write_all(reply.as_bytes()),
            read_exactly(&mut client, reply.len())
        );
        sent.expect("open");
        assert!(heard == reply.as_bytes());
        assert_eq!(bench.kept.of("reply"), [(1, None)]);
        client.write_all(b"*1\r\n?what\r\n").await.expect("open");
        assert_eq!(read_exactly(&mut server, 11).await, b"*1\r\n?what\r\n");
        assert_eq!(bench.kept.of("unread").len(), 1);
    });
}

#[test]
fn replication_passes_unread() {
    run(async {
        let bench = Bench::start().await;
        let (mut client, mut server) = bench.connect().await;
        let psync = b"*3\r\n$5\r\nPSYNC\r\n$1\r\n?\r\n$2\r\n-1\r\n";
        client.write_all(psync).await.expect("open");
        assert_eq!(read_exactly(&mut server, psync.len()).await, psync);
        for stream in [&b"+FULLRESYNC 0 0\r\n$EOF:ab\r\n"[..], b"\x00\xff*1\r\n"] {
            server.write_all(stream).await.expect("open");
            assert_eq!(read_exactly(&mut client, stream.len()).await, stream);
        }
        client.write_all(b"REPLCONF ACK 1\r\n").await.expect("open");
        assert_eq!(read_exactly(&mut server, 16).await, b"REPLCONF ACK 1\r\n");
    });
}

#[test]
fn tls_is_refused_in_words() {
    run(async {
        let bench = Bench::start().await;
        let (mut client, _server) = bench.connect().await;
        client.write_all(&[0x16, 3, 1, 0, 5]).await.expect("open");
        let mut said = String::new();
        client.read_to_string(&mut said).await.expect("words");
        assert!(said.starts_with("-ERR the tap"), "{said}");
        assert_eq!(bench.kept.of("refused").len(), 1);
    });
}

#[test]
fn a_rule_hits_exactly_the_nth_message() {
    run(async {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
        for _ in 0..1000 {
            let bench = Bench::start().await;
            let nth = random.random_range(1..=12_u32);
            let edge = if random.random() {
                Edge::Request
            } else {
                Edge::Reply
            };
            let answer = error("LOADING").expect("in the table");
            let hits = bench.rule(edge, nth, Action::Answer(answer.clone()));
            let (mut client, mut server) = bench.connect().await;
            let (mut asked, mut expected, mut sets) = (Vec::new(), Vec::new(), 0);
            let mut replies = Vec::new();
            while sets < 12 {
                let set: bool = random.random();
                sets += u32::from(set);
                asked.extend_from_slice(if set { SET } else { GET });
                let hit = set && sets == nth;
                let reply = format!(":{}\r\n", expected.len()).into_bytes();
                if !(hit && edge == Edge::Request) {
                    replies.extend_from_slice(&reply);
                }
                expected.push(if hit { answer.to_vec() } else { reply });
            }
            let expected = expected.concat();
            client.write_all(&asked).await.expect("open");
            let less = if edge == Edge::Request { SET.len() } else { 0 };
            read_exactly(&mut server, asked.len() - less).await;
            server.write_all(&replies).await.expect("open");
            assert_eq!(read_exactly(&mut client, expected.len()).await, expected);
            assert_eq!((hits.hit.get(), hits.count()), (1, 1));
        }
    });
}

#[test]
fn lost_doubled_and_reset_are_what_they_say() {
    run(async {
        // A request is lost: the server hears nothing, the client gets the end of the connection.
        let bench = Bench::start().await;
        bench.rule(Edge::Request, 1, Action::Lose(After::Close));
        let (mut client, mut server) = bench.connect().await;
        client.write_all(SET).await.expect("open");
        assert_eq!(client.read(&mut [0; 9]).await.expect("an end"), 0);
        assert_eq!(server.read(&mut [0; 9]).await.expect("an end"), 0);
        assert_eq!(bench.kept.of("request"), [(1, Some("lost".into()))]);
        // A reply is lost and the connection kept: the next reply goes the same way.
        let hits = bench.rule(Edge::Reply, 1, Action::Lose(After::Keep));
        let (mut client, mut server) = bench.connect().await;
        client.write_all(&[SET, GET].concat()).await.expect("open");
        read_exactly(&mut server, SET.len() + GET.len()).await;
        server.write_all(b"+OK\r\n$1\r\nv\r\n").await.expect("open");
        assert!(
            hits.done(1)
                .await
                .contains("c1>n1, connection 2, message 1")
        );
        let mut byte = [0; 1];
        let silent = futures_util::poll!(Box::pin(client.read(&mut byte)));
        assert!(silent.is_pending());
        hits.remove();
        assert_eq!(client.read(&mut byte).await.expect("an end"), 0);
        // A command is sent twice, its second reply swallowed.
        bench.rule(Edge::Request, 1, Action::Duplicate);
        let (mut client, mut server) = bench.connect().await;
        client.write_all(SET).await.expect("open");
        assert_eq!(
            read_exactly(&mut server, 2 * SET.len()).await,
            SET.repeat(2)
        );
        server.write_all(b"+OK\r\n$-1\r\n").await.expect("open");
        client.write_all(GET).await.expect("open");
        read_exactly(&mut server, GET.len()).await;
        server.write_all(b"$1\r\nv\r\n").await.expect("open");
        assert_eq!(read_exactly(&mut client, 12).await, b"+OK\r\n$1\r\nv\r\n");
        // A reset is one, at both ends.
        bench.rule(Edge::Reply, 1, Action::Reset);
        let (mut client, mut server) = bench.connect().await;
        client.write_all(SET).await.expect("open");
        read_exactly(&mut server, SET.len()).await;
        server.write_all(b"+OK\r\n").await.expect("open");
        for end in [
            client.read(&mut [0; 9]).await,
            server.read(&mut [0; 9]).await,
        ] {
            let error = end.expect_err("a reset");
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        }
    });
}

#[test]
fn a_black_hole_is_silent_in_both_directions_until_the_rule_is_removed() {
    run(async {
        let bench = Bench::start().await;
        let hits = bench.rule(Edge::Request, 2, Action::BlackHole);
        let (mut client, mut server) = bench.connect().await;
        client.write_all(&[SET, SET].concat()).await.expect("open");
        read_exactly(&mut server, SET.len()).await;
        hits.done(1).await;
        server.write_all(b"+OK\r\n").await.expect("open");
        client.write_all(GET).await.expect("open");
        let (mut a, mut b) = ([0; 1], [0; 1]);
        let quiet = tokio::time::timeout(std::time::Duration::from_millis(30), async {
            tokio::select! { _ = client.read(&mut a) => {}, _ = server.read(&mut b) => {} }
        });
        assert!(quiet.await.is_err(), "something came through");
        hits.remove();
        assert_eq!(client.read(&mut a).await.expect("an end"), 0);
    });
}

#[test]
fn a_message_waits_at_the_gate_and_what_stands_behind_it_too() {
    run(async {
        let bench = Bench::start().await;
        let gate = bench.gate(Edge::Reply, Action::Pass);
        let (mut client, mut server) = bench.connect().await;
        client.write_all(&[SET, GET].concat()).await.expect("open");
        read_exactly(&mut server, SET.len() + GET.len()).await;
        server.write_all(b"+OK\r\n$1\r\nv\r\n").await.expect("open");
        let mut byte = [0; 1];
        let quiet = std::time::Duration::from_millis(30);
        assert!(
            tokio::time::timeout(quiet, client.read(&mut byte))
                .await
                .is_err()
        );
        assert_eq!(bench.kept.of("reply"), [(1, Some("held".into()))]);
        drop(gate);
        assert_eq!(read_exactly(&mut client, 12).await, b"+OK\r\n$1\r\nv\r\n");
        let on_record = bench.kept.of("reply");
        assert_eq!(on_record[1..], [(1, Some("passed".into())), (2, None)]);
    });
}

#[test]
fn a_held_command_outlives_its_connection_and_is_overtaken() {
    run(async {
        let bench = Bench::start().await;
        let gate = bench.gate(Edge::Request, Action::Outlive);
        let (mut client, mut late) = bench.connect().await;
        client.write_all(SET).await.expect("open");
        // The client's end is closed while the command waits.
        assert_eq!(client.read(&mut [0; 9]).await.expect("an end"), 0);
        drop(client);
        // What it sends next, on another connection, is there before.
        let (mut client, mut server) = bench.connect().await;
        client.write_all(GET).await.expect("open");
        assert_eq!(read_exactly(&mut server, GET.len()).await, GET);
        assert!(futures_util::poll!(Box::pin(late.read(&mut [0; 1]))).is_pending());
        drop(gate);
        assert_eq!(read_exactly(&mut late, SET.len()).await, SET);
        // The server is heard out, though nobody hears it.
        late.write_all(b"+OK\r\n").await.expect("open");
        assert_eq!(late.read(&mut [0; 9]).await.expect("an end"), 0);
        let lost = Some("lost".into());
        assert_eq!(bench.kept.of("reply"), [(1, lost)]);
    });
}
