//! Many requests at once, and requests that the protocol does not know.
//!
//! Owns these rules. Must not know where the servers come from.
use super::subject::Subject;
use super::{ANSWER_LIMIT, Findings, Part, Setup};
use crate::client::errors::Op;
use crate::client::process::ClientProcess;
use crate::client::wire::{Disturb, Request};
use futures_util::future::join_all;
use serde_json::json;
use std::time::{Duration, Instant};

/// What each worker's critical section takes in the test of concurrency.
const WORK: Duration = Duration::from_millis(300);
/// Requests sent at once in the flood.
const TICKS: u64 = 500;
/// Longest answer to what disturbs a worker that is at rest.
const AT_ONCE: Duration = Duration::from_secs(1);
/// Cycles of each worker in the flood.
const CYCLES: u32 = 10;

pub(super) async fn part(
    setup: &Setup<'_>,
    findings: &mut Findings,
    unasked: &mut Vec<String>,
) -> Part {
    let mut subject = Subject::ready(setup, "c1-traffic").await?.0;
    let outcome = async {
        unknown(findings, &mut subject).await?;
        concurrency(setup, findings, &mut subject).await?;
        flood(setup, findings, &subject).await?;
        disturb(setup, findings, &mut subject).await
    }
    .await;
    subject.finish(unasked).await;
    outcome
}

async fn unknown(findings: &mut Findings, subject: &mut Subject) -> Part {
    let line = |id| json!({"id": id, "op": "no-such-op", "worker": 0, "key": "lock:0"});
    let said = subject.ask_line(Op::Other, "no-such-op", line).await?;
    if said.unsupported() {
        findings.ok("unknown-op", said.words());
    } else {
        let words = format!("{}, not `fail`, `unsupported`", said.words());
        findings.wrong("unknown-op", words);
    }
    let line = |id| {
        json!({"id": id, "op": "acquire", "worker": 0, "key": "lock:9", "wait_ms": 0,
            "timeout_ms": 5000, "a_field_of_the_future": {"deep": [1]}})
    };
    let said = subject.ask_line(Op::Acquire, "acquire", line).await?;
    if said.result.is_ok() {
        subject.release(0, "lock:9").await?;
        findings.ok("unknown-field", "ignored");
    } else {
        findings.wrong("unknown-field", said.words());
    }
    Ok(())
}

/// Every worker works at once.
async fn concurrency(setup: &Setup<'_>, findings: &mut Findings, subject: &mut Subject) -> Part {
    let workers = setup.init.workers;
    let ms = WORK.as_millis() as u64;
    let process = &subject.process;
    let began = Instant::now();
    let works = (0..workers)
        .map(|worker| process.request(Request::Work { worker, ms }, ANSWER_LIMIT + WORK * workers));
    let answers = join_all(works).await;
    let took = began.elapsed();
    if let Some(bad) = answers.iter().find_map(|a| a.result.as_ref().err()) {
        findings.wrong("concurrency", format!("`work`: `{}`", bad.code));
    } else if took < WORK * (workers - 1) {
        let shown = took.as_millis();
        findings.ok(
            "concurrency",
            format!("{workers} workers' {ms} ms of work took {shown} ms"),
        );
    } else {
        findings.note(
            "concurrency",
            "one request at a time: right for workloads with `load.workers = 1` only",
        );
    }
    Ok(())
}

async fn flood(setup: &Setup<'_>, findings: &mut Findings, subject: &Subject) -> Part {
    let process = &subject.process;
    let ticks = (0..TICKS).map(|n| process.request(Request::Tick { n }, ANSWER_LIMIT));
    let cycles = (0..setup.init.workers).map(|worker| cycle(process, worker));
    let (ticks, cycles) = futures_util::future::join(join_all(ticks), join_all(cycles)).await;
    let unanswered = ticks.iter().filter(|a| a.result.is_err()).count();
    let total = CYCLES * setup.init.workers;
    let done: u32 = cycles.iter().map(|c| c.0).sum();
    let refused = cycles.into_iter().find_map(|c| c.1);
    if unanswered > 0 {
        findings.wrong("flood", format!("{unanswered} of {TICKS} ticks without ok"));
        return Err("it does not stand a flood of requests".to_owned().into());
    }
    match refused {
        None => findings.ok(
            "flood",
            format!("{TICKS} ticks and {total} cycles at once, each answered once"),
        ),
        Some(why) => findings.wrong("flood", format!("{done} of {total} cycles: {why}")),
    }
    Ok(())
}

/// What schedules do to a worker, to one that is at rest: each is answered for itself and at once, also where the language
/// has no such thing, and leaves the other workers alone.
async fn disturb(setup: &Setup<'_>, findings: &mut Findings, subject: &mut Subject) -> Part {
    let worker = setup.init.workers.saturating_sub(1);
    let mut has = Vec::new();
    for what in [
        Disturb::Cancel,
        Disturb::Interrupt,
        Disturb::Drop,
        Disturb::KillThread,
    ] {
        let key = "lock:disturb".to_owned();
        let said = subject.ask(Request::Disturb { what, worker, key }).await?;
        if said.took > AT_ONCE {
            let words = format!(
                "`{}` was answered after {} ms",
                what.name(),
                said.took.as_millis()
            );
            findings.wrong("disturb", words);
            return Ok(());
        }
        match &said.result {
            Ok(_) => has.push(what.name()),
            Err(_) if said.unsupported() => {}
            Err(_) => {
                let words = format!(
                    "`{}`: {}, not ok or `unsupported`",
                    what.name(),
                    said.words()
                );
                findings.wrong("disturb", words);
                return Ok(());
            }
        }
    }
    let key = "lock:disturb";
    let other = subject.acquire(0, key).await?;
    if other.result.is_err() || subject.release(0, key).await?.result.is_err() {
        let words = "worker 0 does not lock any more after another worker was disturbed";
        findings.wrong("disturb", words);
    } else if has.is_empty() {
        let words = "none of them: schedules cannot ask for any";
        findings.note("disturb", words);
    } else {
        findings.ok("disturb", has.join(", "));
    }
    Ok(())
}

/// Acquire and release a key of the worker's own, again and again; how often that went well, and why not.
async fn cycle(process: &ClientProcess, worker: u32) -> (u32, Option<String>) {
    let key = format!("lock:flood-{worker}");
    for done in 0..CYCLES {
        let release = Request::Release {
            worker,
            key: key.clone(),
        };
        for request in [super::subject::acquire(worker, &key), release] {
            if let Err(failure) = process.request(request, ANSWER_LIMIT).await.result {
                return (done, Some(format!("`{}`", failure.code)));
            }
        }
    }
    (CYCLES, None)
}
