//! The tap in front of a real server: redis-benchmark, redis-py and ioredis use it as they use the server itself.
mod harness;
mod support;

use fencepost::record::{Clock, Sink};
use fencepost::tap::{TapLink, Taps};
use fencepost_checker::Event;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::rc::Rc;
use support::{Server, run};
use tokio::process::Command;

/// Counts events by `f`, and keeps the words of those that say that the tap did not understand.
#[derive(Default)]
struct Counted {
    events: RefCell<BTreeMap<String, u64>>,
    odd: RefCell<Vec<String>>,
}

impl Sink for Counted {
    fn emit(&self, event: Event<'_>) {
        *self
            .events
            .borrow_mut()
            .entry(event.f.to_string())
            .or_default() += 1;
        if matches!(event.f.as_ref(), "unread" | "refused") {
            let text = event.value.text.as_deref().unwrap_or_default();
            self.odd.borrow_mut().push(text.to_owned());
        }
    }
}

struct Tapped {
    server: Server,
    taps: Taps,
    counted: Rc<Counted>,
}

impl Tapped {
    async fn start() -> Self {
        let server = Server::start();
        let link = TapLink {
            client: "c1".into(),
            node: 0,
            name: "n1".into(),
            upstream: server.addr,
        };
        let counted = Rc::new(Counted::default());
        let taps = Taps::start(vec![link], "fp:", Clock::start(), counted.clone()).await;
        let taps = taps.expect("ports");
        Self {
            server,
            taps,
            counted,
        }
    }

    fn port(&self) -> String {
        let address = self.taps.address("c1", 0).expect("a tap");
        address.port().to_string()
    }

    fn count(&self, f: &str) -> u64 {
        self.counted.events.borrow().get(f).copied().unwrap_or(0)
    }
}

fn good(out: &Output) -> String {
    let (stdout, stderr) = (
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr),
    );
    assert!(out.status.success(), "{stdout}\n{stderr}");
    stdout.into_owned()
}

#[test]
fn redis_benchmark_does_not_notice() {
    run(async {
        let tapped = Tapped::start().await;
        for pipeline in ["1", "16"] {
            let out = Command::new("redis-benchmark")
                .args([
                    "-p",
                    &tapped.port(),
                    "-n",
                    "1000",
                    "-c",
                    "20",
                    "-P",
                    pipeline,
                    "--csv",
                ])
                .args([
                    "-t",
                    "ping_inline,ping,set,get,incr,lpush,rpop,hset,spop,lrange_600,mset",
                ])
                .output()
                .await;
            let said = good(&out.expect("redis-benchmark is installed"));
            assert!(said.lines().count() > 10, "{said}");
        }
        assert_eq!(*tapped.counted.odd.borrow(), Vec::<String>::new());
        assert_eq!(tapped.count("push"), 0, "every reply found its command");
        assert_eq!(tapped.server.ask("PING"), "+PONG");
    });
}

/// The cache of `adapters/setup`.
fn cache() -> PathBuf {
    std::env::var_os("FENCEPOST_ADAPTERS").map_or_else(
        || {
            let home = std::env::var_os("HOME").unwrap_or_default();
            let base = std::env::var_os("XDG_CACHE_HOME")
                .map_or_else(|| Path::new(&home).join(".cache"), PathBuf::from);
            base.join("fencepost/adapters")
        },
        PathBuf::from,
    )
}

const PYTHON: &str = r#"
import sys, threading, redis
r = redis.Redis(port=int(sys.argv[1]), protocol=int(sys.argv[2]))
other = redis.Redis(port=int(sys.argv[1]), protocol=int(sys.argv[2]))
with r.pipeline(transaction=True) as p:
    assert p.set('fp:a', 1).incr('fp:a').get('fp:a').execute() == [True, 2, b'2']
with r.pipeline(transaction=False) as p:
    for i in range(200):
        p.set(f'k{i}', 'x' * i)
    assert all(p.execute())
def cas(pipe):
    n = int(pipe.get('fp:a')); pipe.multi(); pipe.set('fp:a', n + 1)
r.transaction(cas, 'fp:a')
assert r.get('fp:a') == b'3'
sub = r.pubsub()
sub.subscribe('ch'); sub.psubscribe('p*')
seen = [sub.get_message(timeout=5) for _ in range(2)]
other.publish('ch', 'hello'); other.publish('pq', 'there')
seen = [sub.get_message(timeout=5) for _ in range(2)]
assert [m['data'] for m in seen] == [b'hello', b'there'], seen
sub.unsubscribe(); sub.punsubscribe()
threading.Timer(0.05, lambda: other.lpush('list', 'late')).start()
assert tuple(r.blpop('list', timeout=5)) == (b'list', b'late')
big = 'y' * 3_000_000
r.set('big', big); assert r.get('big') == big.encode()
lock = r.lock('fp:lock:0', timeout=5)
assert lock.acquire(blocking=False) and not other.lock('fp:lock:0', timeout=5).acquire(blocking=False)
lock.extend(5); lock.release()
script = r.register_script('return redis.call("get", KEYS[1])')
assert script(keys=['fp:a']) == b'3'
try:
    r.execute_command('NO', 'SUCH'); raise SystemExit('no error')
except redis.ResponseError:
    pass
print('done')
"#;

const NODE: &str = r#"
const Redis = require('ioredis'), port = +process.argv[1];
(async () => {
  const r = new Redis(port), other = new Redis(port), s = new Redis(port);
  const check = (a, b) => { if (JSON.stringify(a) !== JSON.stringify(b)) throw new Error(JSON.stringify([a, b])); };
  check(await r.multi().set('fp:a', 1).incr('fp:a').exec(), [[null, 'OK'], [null, 2]]);
  const many = r.pipeline(); for (let i = 0; i < 200; i++) many.set('k' + i, 'x'.repeat(i));
  check((await many.exec()).every(([e, v]) => !e && v === 'OK'), true);
  await s.subscribe('ch'); await s.psubscribe('p*');
  const got = []; s.on('message', (c, m) => got.push(m)); s.on('pmessage', (p, c, m) => got.push(m));
  await other.publish('ch', 'hello'); await other.publish('pq', 'there');
  while (got.length < 2) await new Promise(done => setImmediate(done));
  check(got, ['hello', 'there']);
  await s.unsubscribe('ch'); await s.punsubscribe('p*');
  check(await s.ping(), 'PONG');
  const waits = r.blpop('list', 5); await other.lpush('list', 'late'); check(await waits, ['list', 'late']);
  r.defineCommand('peek', { numberOfKeys: 1, lua: 'return redis.call("get", KEYS[1])' });
  check(await r.peek('fp:a'), '2'); check(await r.peek('fp:a'), '2');
  const big = 'y'.repeat(3000000); await r.set('big', big); check((await r.get('big')).length, big.length);
  console.log('done'); [r, other, s].forEach(c => c.disconnect());
})().catch(e => { console.error(e); process.exit(1); });
"#;

#[test]
fn redis_py_does_not_notice() {
    let library = cache().join("python/redis_py-8.1.0");
    if !library.join(".installed").is_file() {
        return harness::remark(
            "redis_py_does_not_notice: skipped, adapters/setup python was not run",
        );
    }
    run(async {
        for protocol in ["2", "3"] {
            let tapped = Tapped::start().await;
            let out = Command::new("python3")
                .args(["-c", PYTHON])
                .args([&tapped.port(), protocol])
                .env("PYTHONPATH", &library)
                .output()
                .await;
            assert_eq!(good(&out.expect("python3 runs")), "done\n");
            assert_eq!(*tapped.counted.odd.borrow(), Vec::<String>::new());
        }
    });
}

#[test]
fn ioredis_does_not_notice() {
    let sets = std::fs::read_dir(cache().join("node"));
    let modules = sets.into_iter().flatten().flatten();
    let mut modules = modules.map(|set| set.path().join("node_modules"));
    let Some(modules) = modules.find(|m| m.join("ioredis").is_dir()) else {
        return harness::remark(
            "ioredis_does_not_notice: skipped, adapters/setup node was not run",
        );
    };
    run(async {
        let tapped = Tapped::start().await;
        let out = Command::new("node")
            .args(["-e", NODE])
            .arg(tapped.port())
            .env("NODE_PATH", modules)
            .output()
            .await;
        assert_eq!(good(&out.expect("node runs")), "done\n");
        assert_eq!(*tapped.counted.odd.borrow(), Vec::<String>::new());
        assert!(tapped.count("script") >= 1, "its script is on record");
    });
}
