//! What comes before `init`, and the three ways in which an adapter should end.
//!
//! Owns these rules. Must not know where the servers come from.
use super::subject::{Subject, acquire};
use super::{ANSWER_LIMIT, Findings, Part, Setup};
use crate::client::signals;
use crate::client::wire::Request;
use nix::sys::signal::Signal;

pub(super) async fn part(
    setup: &Setup<'_>,
    findings: &mut Findings,
    unasked: &mut Vec<String>,
) -> Part {
    before_init(setup, findings, unasked).await?;
    close(setup, findings, unasked).await?;
    end_of_input(setup, findings, unasked).await?;
    sigterm(setup, findings).await
}

async fn before_init(
    setup: &Setup<'_>,
    findings: &mut Findings,
    unasked: &mut Vec<String>,
) -> Part {
    const RULE: &str = "before-init";
    let subject = Subject::start(setup, "c1-before-init")?;
    // The first answer waits for the start of the process, as that to `init` does.
    let answer = subject
        .process
        .request(acquire(0, "lock:4"), setup.start_limit);
    match answer.await.result {
        Err(f) if f.code == "not-initialised" => findings.ok(RULE, "`fail`, `not-initialised`"),
        Err(f) if f.definite => findings.note(RULE, format!("`fail`, `{}`", f.code)),
        Err(f) => findings.note(RULE, format!("`{}`, not `not-initialised`", f.code)),
        Ok(_) => findings.wrong(RULE, "a lock was granted before `init`"),
    }
    // That it answers at all is asked here, not that nothing else was said.
    let mut apart = Vec::new();
    subject.finish(&mut apart).await;
    unasked.extend(apart.into_iter().filter(|m| m.contains("no answer (")));
    Ok(())
}

async fn close(setup: &Setup<'_>, findings: &mut Findings, unasked: &mut Vec<String>) -> Part {
    const RULE: &str = "close";
    let mut subject = Subject::ready(setup, "c1-close").await?.0;
    subject.acquire(0, "lock:5").await?;
    let said = match subject.ask(Request::Close).await {
        Ok(said) => said,
        Err(stop) => {
            findings.wrong(RULE, stop.why);
            subject.finish(unasked).await;
            return Ok(());
        }
    };
    match (said.result.is_ok(), subject.ends_within(ANSWER_LIMIT).await) {
        (true, Some(status)) if status.contains("exit status: 0") => findings.ok(RULE, status),
        (true, Some(status)) => findings.wrong(RULE, format!("answered, then {status}")),
        (true, None) => findings.wrong(RULE, "answered, but it does not exit"),
        (false, _) => findings.wrong(RULE, said.words()),
    }
    subject.finish(unasked).await;
    Ok(())
}

async fn end_of_input(
    setup: &Setup<'_>,
    findings: &mut Findings,
    unasked: &mut Vec<String>,
) -> Part {
    const RULE: &str = "end-of-input";
    let mut subject = Subject::ready(setup, "c1-end-of-input").await?.0;
    subject.process.end_input();
    match subject.ends_within(ANSWER_LIMIT).await {
        Some(status) => findings.ok(RULE, status),
        None => findings.wrong(RULE, "it lives on when its standard input has ended"),
    }
    subject.finish(unasked).await;
    Ok(())
}

async fn sigterm(setup: &Setup<'_>, findings: &mut Findings) -> Part {
    const RULE: &str = "sigterm";
    let mut subject = Subject::ready(setup, "c1-sigterm").await?.0;
    let sent = signals::group(subject.process.pid(), Signal::SIGTERM);
    match (sent, subject.ends_within(ANSWER_LIMIT).await) {
        (Err(error), _) => findings.note(RULE, format!("cannot be sent: {error}")),
        (Ok(()), Some(status)) => findings.ok(RULE, status),
        (Ok(()), None) => findings.note(RULE, "ignored: only SIGKILL ends it"),
    }
    // Its pipes closed at a signal of ours: no misdeed.
    subject.finish(&mut Vec::new()).await;
    Ok(())
}
