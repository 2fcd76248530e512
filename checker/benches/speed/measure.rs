//! One measurement in a process of its own, so that its peak of memory is its own.
//!
//! Owns what is timed. Must not know the bounds. Prints `milliseconds MiB`.
use crate::turns::{each_event, header};
use fencepost_checker::{Checker, Event, EventType, Process, Verdict, check_path};
use std::borrow::Cow;
use std::error::Error;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

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

/// The process's peak of memory, in MiB; 0 where the system does not say.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kib = line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}

/// One measurement, in a process of its own; prints `milliseconds MiB`.
pub fn measure(what: &str, n: u64, dir: &Path) -> Result<(), Box<dyn Error>> {
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
