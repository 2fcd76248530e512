//! How fast the checker is, beside Porcupine on the same history in the same run, and what it needs of memory.
//!
//! Owns the histories and the measuring. Run: `cargo run -p fencepost-checker --example speed`. Each measurement is a
//! process of its own, so that its peak of memory is its own. Prints one line a measurement, with the bound that it
//! must keep; exits 1 if one is not kept. Without Go, Porcupine is left out, and that is said.
use fencepost_checker::{
    Checker, Event, EventType, Header, Model, Process, Value, Verdict, check_path, check_reader,
};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

/// Clients of the lock, most of which wait for it at any time.
const CLIENTS: u64 = 32;
const NAMES: [&str; 32] = [
    "c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9", "c10", "c11", "c12", "c13", "c14",
    "c15", "c16", "c17", "c18", "c19", "c20", "c21", "c22", "c23", "c24", "c25", "c26", "c27",
    "c28", "c29", "c30", "c31",
];

/// How long an acquire waits: for some twenty turns.
const WAIT: u64 = 1200;

/// One operation: client, process, whether it releases, invoke, return (none: no definite answer).
type Op = (u64, u64, bool, u64, Option<u64>);

/// Turn `i` of a good lock: asked for while others hold, granted after the one before let go.
fn turn(i: u64, lost: bool) -> [Op; 2] {
    let (client, at) = (i % CLIENTS, 1000 + i * 55);
    let process = if lost { i } else { client };
    let acquire = (
        client,
        process,
        false,
        at.saturating_sub(WAIT),
        Some(at + 10),
    );
    let release = (client, process, true, at + 50, (!lost).then_some(at + 60));
    [acquire, release]
}

/// The events of `turns` turns in order. With `lost`, no release is answered, and each turn is a new process.
fn each_event(turns: u64, lost: bool, mut each: impl FnMut(Event<'static>)) {
    let mut soon: BTreeMap<(u64, u64), (Op, EventType)> = BTreeMap::new();
    let mut order = 0;
    let mut index = 0;
    let mut emit = |soon: &mut BTreeMap<(u64, u64), (Op, EventType)>, until: u64| {
        while let Some(entry) = soon.first_entry().filter(|e| e.key().0 < until) {
            let ((time, _), ((client, process, release, ..), kind)) = entry.remove_entry();
            each(Event {
                index,
                time,
                process: Process::Id(process),
                client: Some(Cow::Borrowed(NAMES[client as usize])),
                worker: None,
                kind,
                f: Cow::Borrowed(if release { "release" } else { "acquire" }),
                key: Some(Cow::Borrowed("lock:0")),
                value: Value::default(),
                error: None,
            });
            index += 1;
        }
    };
    for i in 0..turns {
        emit(&mut soon, (1000 + i * 55).saturating_sub(WAIT));
        for op in turn(i, lost) {
            soon.insert((op.3, order), (op, EventType::Invoke));
            let answer = match op.4 {
                Some(ret) => (ret, EventType::Ok),
                None => (op.3 + 10, EventType::Info),
            };
            soon.insert((answer.0, order + 1), (op, answer.1));
            order += 2;
        }
    }
    emit(&mut soon, u64::MAX);
}

fn header() -> Header {
    Header {
        fencepost: 1,
        workload: "speed".to_owned(),
        seed: 0,
        model: Model::default(),
        expect: BTreeMap::new(),
        versions: BTreeMap::new(),
    }
}

/// Checks `turns` turns, and how long it took without the making of events; `extra` may add some.
fn check(turns: u64, lost: bool, extra: impl Fn(&mut Checker, &Event<'_>)) -> (Verdict, Duration) {
    let mut took = Duration::ZERO;
    let mut checker = Checker::new(header());
    let mut batch: Vec<Event<'static>> = Vec::new();
    let mut push = |batch: &mut Vec<Event<'static>>, checker: &mut Checker| {
        let begin = Instant::now();
        for e in batch.iter() {
            checker.push(e);
            extra(checker, e);
        }
        took += begin.elapsed();
        batch.clear();
    };
    each_event(turns, lost, |e| {
        batch.push(e);
        if batch.len() == 4096 {
            push(&mut batch, &mut checker);
        }
    });
    push(&mut batch, &mut checker);
    let begin = Instant::now();
    let verdict = checker.finish();
    (verdict, took + begin.elapsed())
}

/// JSON lines as another thread makes them: as long as one likes, and never on a disk.
struct Made {
    blocks: Receiver<Vec<u8>>,
    block: Vec<u8>,
    at: usize,
}

impl Read for Made {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        if self.at == self.block.len() {
            // The other thread is gone: that was all.
            self.block = self.blocks.recv().unwrap_or_default();
            self.at = 0;
        }
        let n = out.len().min(self.block.len() - self.at);
        out[..n].copy_from_slice(&self.block[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

/// The lines of `turns` turns, header first.
fn lines(turns: u64) -> Result<Made, serde_json::Error> {
    let mut first = serde_json::to_vec(&header())?;
    first.push(b'\n');
    let (send, blocks) = sync_channel(4);
    std::thread::spawn(move || {
        let mut block = Vec::new();
        each_event(turns, false, |e| {
            let written = e.write_line(&mut block);
            if written.is_ok() && block.len() >= 1 << 18 {
                let _ = send.send(std::mem::take(&mut block));
            }
        });
        let _ = send.send(block);
    });
    Ok(Made {
        blocks,
        block: first,
        at: 0,
    })
}

/// The process's peak of memory, in MiB; 0 where the system does not say.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kib = line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}

/// One measurement, in a process of its own; prints `milliseconds MiB`.
fn measure(what: &str, n: u64, dir: &Path) -> Result<(), Box<dyn Error>> {
    let took = match what {
        "good" | "lost" => {
            let (v, took) = check(n / 2, what == "lost", |_, _| ());
            assert_eq!(
                v.check("service").map(|c| c.count),
                Some(0),
                "it is a good history"
            );
            took
        }
        "witness" => {
            // The same with one holder more, and nobody to release it.
            let (v, took) = check(n / 2, true, |checker, e| {
                if e.index == n / 2 {
                    for kind in [EventType::Invoke, EventType::Ok] {
                        checker.push(&Event {
                            process: Process::Id(u64::MAX),
                            client: Some(Cow::Borrowed("x")),
                            f: Cow::Borrowed("acquire"),
                            kind,
                            ..e.clone()
                        });
                    }
                }
            });
            let found = v.check("service").and_then(|c| c.findings.first());
            assert!(
                found.is_some_and(|f| f.sections.len() == 2),
                "the witnesses are named"
            );
            took
        }
        "parse" => {
            let text = std::fs::read(dir.join("history.jsonl"))?;
            let begin = Instant::now();
            let mut times = 0u64;
            for line in text
                .split(|b| *b == b'\n')
                .skip(1)
                .filter(|l| !l.is_empty())
            {
                times ^= serde_json::from_slice::<Event<'_>>(line)?.time;
            }
            assert!(times != 1);
            begin.elapsed()
        }
        "stream" => {
            let reader = BufReader::with_capacity(1 << 18, lines(n / 2)?);
            let begin = Instant::now();
            let v = check_reader(reader)?;
            assert_eq!(v.counts.get("events"), Some(&(2 * n)));
            begin.elapsed()
        }
        "read" => {
            let begin = Instant::now();
            let v = check_path(&dir.join("history.jsonl"))?;
            assert_eq!(v.counts.get("events"), Some(&(2 * n)));
            begin.elapsed()
        }
        other => return Err(format!("no measurement `{other}`").into()),
    };
    let mut out = std::io::stdout().lock();
    writeln!(out, "{} {}", took.as_secs_f64() * 1e3, peak())?;
    Ok(())
}

/// Milliseconds and MiB of a measurement, the best of three for time; of one for what takes long.
fn run(what: &str, n: u64, dir: &Path) -> Result<(f64, u64), Box<dyn Error>> {
    let mut best = (f64::INFINITY, 0);
    let times = if what == "stream" { 1 } else { 3 };
    for _ in 0..times {
        let mut command = Command::new(std::env::current_exe()?);
        let output = command.args([what, &n.to_string()]).arg(dir).output()?;
        let text = String::from_utf8(output.stdout)?;
        let mut numbers = text.split_whitespace();
        let ms: f64 = numbers.next().ok_or("no answer")?.parse()?;
        let mib: u64 = numbers.next().ok_or("no answer")?.parse()?;
        best = (best.0.min(ms), best.1.max(mib));
    }
    Ok(best)
}

/// Porcupine's milliseconds on the same history; none without Go.
fn porcupine(n: u64, dir: &Path) -> Result<Option<(f64, u64)>, Box<dyn Error>> {
    let path = dir.join("history.txt");
    let mut file = BufWriter::new(File::create(&path)?);
    for i in 0..n / 2 {
        for (client, _, release, inv, ret) in turn(i, false) {
            let ret = ret.map_or(-1, |r| r as i64);
            writeln!(file, "{client} {} {inv} {ret}", u8::from(release))?;
        }
    }
    file.flush()?;
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/porcupine");
    let output = Command::new("go")
        .args(["run", "."])
        .arg(&path)
        .current_dir(program)
        .output();
    let Ok(output) = output else {
        return Ok(None);
    };
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let text = String::from_utf8(output.stdout)?;
    let words: Vec<&str> = text.split_whitespace().collect();
    let [_, "Ok", ms, mib] = words[..] else {
        return Err(format!("Porcupine said: {text}").into());
    };
    Ok(Some((ms.parse()?, mib.parse()?)))
}

/// Prints a line; whether its bound is kept.
fn line(what: &str, value: &str, bound: &str, kept: bool) -> Result<bool, Box<dyn Error>> {
    let mark = if kept { "ok    " } else { "FAILED" };
    writeln!(
        std::io::stdout().lock(),
        "{mark} {what:<44} {value:<28} {bound}"
    )?;
    Ok(kept)
}

/// JSON lines: read and checked beside parsing alone, and a long history as it is made.
fn reading(dir: &Path) -> Result<bool, Box<dyn Error>> {
    let mut file = BufWriter::new(File::create(dir.join("history.jsonl"))?);
    writeln!(file, "{}", serde_json::to_string(&header())?)?;
    let mut written = Ok(());
    each_event(250_000, false, |e| {
        let text = serde_json::to_string(&e).unwrap_or_default();
        let line = writeln!(file, "{text}");
        if written.is_ok() {
            written = line;
        }
    });
    written?;
    file.flush()?;
    let (parse, _) = run("parse", 500_000, dir)?;
    let (read, mib) = run("read", 500_000, dir)?;
    let value = format!("{read:.0} ms, parsing {parse:.0} ms, {mib} MiB");
    let good = line(
        "1000000 lines of JSON read and checked",
        &value,
        "<= 2 times parsing",
        read <= 2.0 * parse,
    )?;
    let (ms, mib) = run("stream", 10_000_000, dir)?;
    line(
        "20000000 lines of JSON, made as they are read",
        &format!("{ms:.0} ms, {mib} MiB"),
        "no bound: memory grows with the grants",
        true,
    )?;
    Ok(good)
}

fn all(dir: &Path) -> Result<bool, Box<dyn Error>> {
    let mut good = true;
    let mut took = BTreeMap::new();
    for n in [100_000, 1_000_000, 10_000_000] {
        let (ms, mib) = run("good", n, dir)?;
        took.insert(n, ms);
        let value = format!("{ms:.0} ms, {mib} MiB");
        let kept = n != 1_000_000 || (ms <= 1000.0 && mib <= 200);
        good &= line(
            &format!("{n} operations"),
            &value,
            "1,000,000: <= 1000 ms, 200 MiB",
            kept,
        )?;
    }
    // n log n from one to the next: 10 * 7/6 and so on; a third more for the caches.
    for (from, to) in [(100_000u64, 1_000_000u64), (1_000_000, 10_000_000)] {
        let ratio = took[&to] / took[&from];
        let bound = 10.0 * (to as f64).log2() / (from as f64).log2() * 1.33;
        good &= line(
            &format!("from {from} to {to}"),
            &format!("{ratio:.1} times"),
            &format!("<= {bound:.1}"),
            ratio <= bound,
        )?;
    }
    for what in ["lost", "witness"] {
        let (ms, mib) = run(what, 200_000, dir)?;
        let name = if what == "lost" {
            "100000 lost unlock replies"
        } else {
            "the same, a witness named"
        };
        good &= line(
            name,
            &format!("{ms:.0} ms, {mib} MiB"),
            "<= 1000 ms",
            ms <= 1000.0,
        )?;
    }
    good &= reading(dir)?;
    match porcupine(100_000, dir)? {
        None => line("Porcupine", "left out: no Go here", "", true)?,
        Some((theirs, mib)) => {
            let ours = took[&100_000];
            let value = format!("{theirs:.0} ms, {mib} MiB: {:.0} times", theirs / ours);
            good &= line(
                "Porcupine 1.3.1, 100000 operations",
                &value,
                ">= 50 times",
                theirs >= 50.0 * ours,
            )?;
            good
        }
    };
    Ok(good)
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [what, n, dir] = &args[..] {
        measure(what, n.parse()?, Path::new(dir))?;
        return Ok(ExitCode::SUCCESS);
    }
    let dir: PathBuf = std::env::temp_dir().join(format!("fencepost-speed-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let good = all(&dir);
    std::fs::remove_dir_all(&dir)?;
    Ok(if good? {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
