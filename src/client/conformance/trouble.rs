//! A process that is stopped and continued; servers that hang.
//!
//! Owns these rules. Must not know where the servers come from.
use super::subject::{Subject, acquire};
use super::{ANSWER_LIMIT, Findings, Held, Part, Setup, Stop};
use crate::client::errors::Op;
use crate::client::process::Failure;
use crate::client::signals::ProcState;
use std::time::{Duration, Instant};

/// How long a stopped process is watched for answers.
const STOPPED: Duration = Duration::from_millis(300);
/// After the servers go on, a lock must be had again within this and the lease of a late SET.
const BACK_LIMIT: Duration = Duration::from_secs(15);
/// Between two looks.
const MOMENT: Duration = Duration::from_millis(20);

pub(super) async fn part(
    setup: &Setup<'_>,
    findings: &mut Findings,
    unasked: &mut Vec<String>,
) -> Part {
    let mut subject = Subject::ready(setup, "c1-trouble").await?.0;
    let outcome = async {
        stopped(findings, &mut subject).await?;
        let hung = setup.servers.hang().await;
        let hangs = match hung {
            Ok(()) => server_hangs(findings, &mut subject).await,
            Err(why) => Err(why.into()),
        };
        setup.servers.go_on().await?;
        let said = hangs?;
        server_back(setup, findings, &mut subject, said).await
    }
    .await;
    subject.finish(unasked).await;
    outcome
}

async fn stopped(findings: &mut Findings, subject: &mut Subject) -> Part {
    let cannot = |e: std::io::Error| Stop::from(format!("it cannot be stopped: {e}"));
    subject.process.stop().map_err(cannot)?;
    let began = Instant::now();
    while subject.process.state() != ProcState::Stopped {
        if began.elapsed() > ANSWER_LIMIT {
            return Err("SIGSTOP did not stop it".to_owned().into());
        }
        tokio::time::sleep(MOMENT).await;
    }
    let process = subject.process.clone();
    let asked = process.request(acquire(0, "lock:2"), ANSWER_LIMIT);
    let goes_on = async {
        tokio::time::sleep(STOPPED).await;
        process.cont()
    };
    let (answer, continued) = futures_util::future::join(asked, goes_on).await;
    continued.map_err(cannot)?;
    match answer.result {
        Ok(_) => {
            findings.ok("stopped", "answered after SIGCONT");
            subject.release(0, "lock:2").await?;
        }
        Err(failure) => findings.wrong("stopped", format!("after SIGCONT: `{}`", failure.code)),
    }
    Ok(())
}

/// An acquire while no server answers; what came of it.
async fn server_hangs(
    findings: &mut Findings,
    subject: &mut Subject,
) -> Result<Result<(), Failure>, Stop> {
    const RULE: &str = "server-hangs";
    let said = match subject.acquire(0, "lock:3").await {
        Ok(said) => said,
        Err(stop) => {
            let words = format!("{}: the driver's own limit is missing", stop.why);
            findings.wrong(RULE, words);
            return Err(stop);
        }
    };
    if said.result.is_ok() {
        findings.wrong(RULE, "`ok`, and no server had answered");
    } else if let Some(why) = said.unknown_code(Op::Acquire) {
        findings.wrong(RULE, why);
    } else if said.code() == "held" {
        findings.wrong(RULE, "`held`, and no server had answered");
    } else if said.code() == "crash" {
        findings.wrong(RULE, "`crash`: the table has a better code for silence");
    } else {
        let ms = said.took.as_millis();
        findings.ok(RULE, format!("{} after {ms} ms", said.words()));
    }
    Ok(said.result.map(|_| ()))
}

async fn server_back(
    setup: &Setup<'_>,
    findings: &mut Findings,
    subject: &mut Subject,
    said: Result<(), Failure>,
) -> Part {
    const RULE: &str = "server-back";
    let key = format!("{}lock:3", setup.init.prefix);
    // A SET that waited in the servers' sockets runs now: an acquire that said `fail` must not appear.
    if said.is_err_and(|f| f.definite) {
        let began = Instant::now();
        while began.elapsed() < STOPPED {
            let held = setup.servers.read(&key, "").await?;
            if held.iter().any(|h| *h != Held::Nothing) {
                findings.wrong(
                    RULE,
                    "the acquire that said `fail` was executed later: silence is `info`",
                );
                return Ok(());
            }
            tokio::time::sleep(MOMENT).await;
        }
    }
    let began = Instant::now();
    let mut tries = 0;
    while began.elapsed() < BACK_LIMIT {
        tries += 1;
        let said = subject.acquire(0, "lock:3").await?;
        if said.result.is_ok() {
            let ms = began.elapsed().as_millis();
            findings.ok(RULE, format!("granted again after {ms} ms, {tries} tries"));
            subject.release(0, "lock:3").await?;
            return Ok(());
        }
        tokio::time::sleep(MOMENT).await;
    }
    let seconds = BACK_LIMIT.as_secs();
    let seen = format!("no lock for {seconds} s after the servers went on, {tries} tries");
    let held = setup.servers.read(&key, "").await?;
    let left = held.iter().find_map(Held::left);
    if let Some(left) = left {
        let lease = if left == -1 {
            "no lease".to_owned()
        } else {
            format!("{left} ms left")
        };
        findings.note(
            RULE,
            format!("{seen}: the late try's key stands, with {lease}; a run will find that"),
        );
        return Ok(());
    }
    findings.wrong(RULE, seen);
    Ok(())
}
