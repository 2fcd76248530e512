//! Two processes and one lock: each operation, and what the servers hold meanwhile.
//!
//! Owns these rules. Must not know where the servers come from.
use super::subject::{Said, Subject};
use super::{Findings, Held, Part, Setup, Stop};
use crate::client::errors::Op;
use crate::client::wire::{About, Reply, Request};
use std::time::{Duration, Instant};

/// A held lock must be refused sooner than this: a library that waits takes longer.
const ONE_TRY_LIMIT: Duration = Duration::from_secs(1);
/// A library that counts in seconds takes less than this, in ms, off a lease.
const ROUNDED: i64 = 1_000;
/// Less than this, in ms, is a clock's tick.
const SLIGHT: i64 = 20;
/// How long `work` is asked to take.
const WORK: Duration = Duration::from_millis(400);
/// Key of the lock.
const KEY: &str = "lock:0";
/// Why what the servers hold is not looked at.
const ASTRAY: &str = "the lock's key is not where it should be";

pub(super) async fn part(
    setup: &Setup<'_>,
    findings: &mut Findings,
    unasked: &mut Vec<String>,
) -> Part {
    let (mut c1, about) = match Subject::ready(setup, "c1").await {
        Ok(ready) => ready,
        Err(stop) => {
            findings.wrong("handshake", stop.why.clone());
            return Err(stop);
        }
    };
    handshake(findings, &about);
    let mut c2 = match Subject::ready(setup, "c2").await {
        Ok((c2, _)) => c2,
        Err(stop) => {
            c1.finish(unasked).await;
            return Err(stop);
        }
    };
    let outcome = async {
        granted(setup, findings, &mut c1).await?;
        refused(findings, &mut c1, &mut c2).await?;
        beliefs(findings, &mut c1).await?;
        work_and_extend(setup, findings, &mut c1).await?;
        released(setup, findings, &mut c1).await?;
        not_mine(setup, findings, &mut c1, &mut c2).await
    }
    .await;
    c1.finish(unasked).await;
    c2.finish(unasked).await;
    outcome
}

fn handshake(findings: &mut Findings, about: &About) {
    let driver = about.driver.as_deref().unwrap_or("no driver named");
    let retries = about
        .retries
        .map_or("retries not told".to_owned(), |n| format!("retries {n}"));
    let said = format!(
        "{} {} ({driver}, {retries})",
        about.library.escape_debug(),
        about.version.escape_debug()
    );
    if about.library.is_empty() || about.version.is_empty() {
        findings.wrong("handshake", "the answer names no `library` and `version`");
    } else if about.driver.is_none() || about.retries.is_none() {
        findings.note("handshake", said);
    } else {
        findings.ok("handshake", said);
    }
}

async fn granted(setup: &Setup<'_>, findings: &mut Findings, c1: &mut Subject) -> Part {
    let began = Instant::now();
    let said = match c1.acquire(0, KEY).await {
        Ok(said) => said,
        Err(stop) => {
            findings.wrong("acquire", stop.why.clone());
            return Err(stop);
        }
    };
    let Ok(Reply::Granted {
        owner, validity_ms, ..
    }) = &said.result
    else {
        findings.wrong("acquire", format!("a free lock: {}", said.words()));
        return Err("a free lock is not granted".to_owned().into());
    };
    findings.ok("acquire", "a free lock is granted");
    let owner = owner.clone().unwrap_or_default();
    let on_servers = setup.servers.read(&full(setup), &owner).await?;
    key_and_owner(setup, findings, &owner, &on_servers).await?;
    if !findings.astray() {
        lease(setup, findings, &on_servers, began.elapsed());
    }
    let asked = setup.init.ttl_ms;
    match validity_ms {
        None => findings.note("validity", "none claimed: the lease alone is judged"),
        Some(v) if *v <= 0.0 => {
            findings.wrong("validity", format!("granted with {v} ms: too late"));
        }
        Some(v) if *v > asked as f64 => findings.note(
            "validity",
            format!("{v:.0} ms of a lease of {asked} ms; if the library says so, it is its fault"),
        ),
        Some(v) => findings.ok("validity", format!("{v:.0} ms of {asked} ms")),
    }
    Ok(())
}

/// The full key on the servers.
fn full(setup: &Setup<'_>) -> String {
    format!("{}{KEY}", setup.init.prefix)
}

async fn key_and_owner(
    setup: &Setup<'_>,
    findings: &mut Findings,
    owner: &str,
    on_servers: &[Held],
) -> Part {
    let nodes = on_servers.len();
    let there = on_servers.iter().filter(|h| **h != Held::Nothing).count();
    if there <= nodes / 2 {
        let others = setup.servers.keys_with(KEY).await?;
        let seen = if others.is_empty() {
            "and no key that ends so".to_owned()
        } else {
            let shown: Vec<String> = others.iter().take(3).map(|k| format!("{k:?}")).collect();
            format!("but there are {}", shown.join(", "))
        };
        let key = full(setup);
        findings.wrong(
            "key",
            format!("`{key}` is on {there} of {nodes} servers, {seen}"),
        );
        findings.not_tried("owner", ASTRAY);
        findings.not_tried("lease", ASTRAY);
        return Ok(());
    }
    findings.ok("key", format!("on {there} of {nodes} servers"));
    if owner.is_empty() {
        findings.note(
            "owner",
            "none told: `ownership`, `leak` and `truthful` are `unknown` for this library",
        );
        return Ok(());
    }
    let same = |h: &&Held| match h {
        Held::Text(value, _) | Held::Session(value) => value == owner,
        Held::Other(_, inside, _) => *inside,
        Held::Nothing => false,
    };
    let mine = on_servers.iter().filter(same).count();
    if mine > nodes / 2 {
        findings.ok("owner", format!("the value on {mine} of {nodes} servers"));
    } else {
        let holds = on_servers.iter().find_map(|h| match h {
            Held::Text(value, _) | Held::Session(value) => Some(format!("{value:?}")),
            Held::Other(kind, _, _) => Some(format!("a {kind}")),
            Held::Nothing => None,
        });
        let holds = holds.unwrap_or_default();
        findings.wrong("owner", format!("told {owner:?}, the key holds {holds}"));
    }
    Ok(())
}

/// `since`: the time since the lock was asked for, at least as long as the lease has run.
fn lease(setup: &Setup<'_>, findings: &mut Findings, on_servers: &[Held], since: Duration) {
    let since = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
    let asked = i64::try_from(setup.init.ttl_ms).unwrap_or(i64::MAX);
    match on_servers.iter().filter_map(Held::left).max() {
        None => findings.note("lease", "a session's, whose time left is not told"),
        Some(-1) => findings.wrong(
            "lease",
            format!("the key never expires; asked for {asked} ms"),
        ),
        Some(left) if left > asked => findings.wrong(
            "lease",
            format!("{left} ms left of {asked} ms: seconds taken for milliseconds?"),
        ),
        Some(left) if left.saturating_add(since) <= asked - ROUNDED => findings.wrong(
            "lease",
            format!(
                "{left} ms left of {asked} ms after {since} ms: a shorter lease than was asked for"
            ),
        ),
        Some(left) if left.saturating_add(since) < asked - SLIGHT => findings.note(
            "lease",
            format!("{left} ms left of {asked} ms after {since} ms: rounded down?"),
        ),
        Some(left) => findings.ok("lease", format!("{left} ms left of {asked} ms")),
    }
}

/// Tries a held lock. A slow answer may be the machine's: a library that waits is slow each time.
async fn held_try(
    findings: &mut Findings,
    rule: &'static str,
    who: &str,
    subject: &mut Subject,
    worker: u32,
) -> Result<Said, Stop> {
    let mut said = subject.acquire(worker, KEY).await?;
    for _ in 0..2 {
        if said.result.is_ok() || said.took <= ONE_TRY_LIMIT {
            break;
        }
        said = subject.acquire(worker, KEY).await?;
    }
    grade_try(findings, rule, who, &said);
    Ok(said)
}

fn grade_try(findings: &mut Findings, rule: &'static str, who: &str, said: &Said) {
    if said.result.is_ok() {
        findings.wrong(rule, format!("{who} was granted a lock that is held"));
    } else if let Some(why) = said.unknown_code(Op::Acquire) {
        findings.wrong(rule, why);
    } else if said.code() == "no-quorum-unclean" {
        findings.note(
            rule,
            format!(
                "{}: right only if the library hides what the servers said",
                said.words()
            ),
        );
    } else if !said.definite() {
        findings.wrong(
            rule,
            format!(
                "{who}: {} where the servers had answered: the try should be `fail`",
                said.words()
            ),
        );
    } else if said.took > ONE_TRY_LIMIT {
        let ms = said.took.as_millis();
        findings.wrong(
            rule,
            format!("{who} was refused after {ms} ms: not one try"),
        );
    } else {
        let ms = said.took.as_millis();
        findings.ok(rule, format!("{} after {ms} ms", said.words()));
    }
}

async fn refused(findings: &mut Findings, c1: &mut Subject, c2: &mut Subject) -> Part {
    held_try(findings, "one-try", "another process", c2, 0).await?;
    let said = held_try(findings, "workers", "another worker", c1, 1).await?;
    if said.result.is_ok() {
        return Err("two workers share one lock".to_owned().into());
    }
    let other = c1.acquire(1, "lock:1").await?;
    if other.result.is_ok() {
        let back = c1.release(1, "lock:1").await?;
        if back.result.is_ok() {
            findings.ok("second-key", "granted and given back beside the first");
        } else {
            findings.wrong("second-key", format!("release: {}", back.words()));
        }
    } else {
        findings.wrong("second-key", format!("a free lock: {}", other.words()));
    }
    Ok(())
}

async fn beliefs(findings: &mut Findings, c1: &mut Subject) -> Part {
    let key = KEY.to_owned();
    let said = c1.ask(Request::Held { worker: 0, key }).await?;
    match &said.result {
        Ok(Reply::Held(true)) => findings.ok("held", "the holder believes that it holds"),
        Ok(_) => findings.wrong("held", "the holder is said not to hold"),
        Err(_) if said.unsupported() => {
            findings.note("held", "not supported: `respect_validity` cannot be used");
        }
        Err(_) => findings.wrong("held", said.words()),
    }
    let said = c1.ask(Request::Tick { n: 1 }).await?;
    if said.result.is_ok() {
        findings.ok("tick", "answered");
    } else {
        findings.wrong("tick", said.words());
    }
    Ok(())
}

async fn work_and_extend(setup: &Setup<'_>, findings: &mut Findings, c1: &mut Subject) -> Part {
    let ms = WORK.as_millis() as u64;
    let process = c1.process.clone();
    let began = Instant::now();
    let work = async {
        let request = Request::Work { worker: 0, ms };
        let answer = process.request(request, super::ANSWER_LIMIT).await;
        (answer.result, began.elapsed())
    };
    let ttl_ms = setup.init.ttl_ms;
    let extend = async {
        // Asked once the work is certainly begun, and long before its end.
        tokio::time::sleep(WORK / 8).await;
        let key = KEY.to_owned();
        let request = Request::Extend {
            worker: 0,
            key,
            ttl_ms,
        };
        (c1.ask(request).await, began.elapsed())
    };
    let ((worked, took), (extended, at)) = futures_util::future::join(work, extend).await;
    let extended = extended?;
    let shown = took.as_millis();
    match worked {
        Ok(_) if took >= WORK => findings.ok("work", format!("{ms} ms took {shown} ms")),
        Ok(_) => findings.wrong("work", format!("{ms} ms took only {shown} ms")),
        Err(f) => findings.wrong("work", format!("`{}`", f.code)),
    }
    if extended.unsupported() {
        findings.note("extend", "not supported: `renew` cannot be used");
        findings.note("extend-in-work", "`extend` is not supported");
        return Ok(());
    }
    match &extended.result {
        Ok(_) => {
            let held = setup.servers.read(&full(setup), "").await?;
            let there = held.iter().any(|h| *h != Held::Nothing);
            match held.iter().filter_map(Held::left).max() {
                _ if findings.astray() => findings.note("extend", format!("`ok`, but {ASTRAY}")),
                None if there => findings.ok("extend", "the key is there"),
                None => findings.wrong("extend", "said `ok`, the key is gone"),
                Some(-1) => findings.wrong("extend", "said `ok`, and the key never expires"),
                Some(left) => findings.ok("extend", format!("{left} ms left of {ttl_ms} ms")),
            }
        }
        Err(_) => findings.wrong("extend", format!("of a held lock: {}", extended.words())),
    }
    if at < WORK {
        findings.ok("extend-in-work", "answered before the work was over");
    } else {
        findings.note(
            "extend-in-work",
            "answered after the work: `renew` comes too late in this adapter",
        );
    }
    Ok(())
}

async fn released(setup: &Setup<'_>, findings: &mut Findings, c1: &mut Subject) -> Part {
    let said = c1.release(0, KEY).await?;
    if said.result.is_err() {
        findings.wrong("release", format!("by the holder: {}", said.words()));
        return Err("the holder cannot release".to_owned().into());
    }
    let left = setup.servers.read(&full(setup), "").await?;
    let left = left.iter().filter(|h| **h != Held::Nothing).count();
    if findings.astray() {
        findings.note("release", format!("`ok`, but {ASTRAY}"));
    } else if left == 0 {
        findings.ok("release", "the key is gone");
    } else {
        findings.wrong(
            "release",
            format!("said `ok`, the key is on {left} servers"),
        );
    }
    let again = c1.release(0, KEY).await?;
    grade_refusal(findings, "release-twice", &again, "a second release");
    Ok(())
}

fn grade_refusal(findings: &mut Findings, rule: &'static str, said: &Said, what: &str) {
    if said.result.is_ok() {
        findings.note(
            rule,
            format!("{what}: `ok`; if the library says so, pass it on"),
        );
    } else if let Some(why) = said.unknown_code(Op::Release) {
        findings.wrong(rule, why);
    } else if said.definite() {
        findings.ok(rule, format!("{what}: {}", said.words()));
    } else {
        findings.wrong(
            rule,
            format!(
                "{what}: {} where the servers had answered: it should be `fail`",
                said.words()
            ),
        );
    }
}

/// The lock goes to another: by its key's deletion and a new grant.
async fn not_mine(
    setup: &Setup<'_>,
    findings: &mut Findings,
    c1: &mut Subject,
    c2: &mut Subject,
) -> Part {
    const RULE: &str = "not-mine";
    if findings.astray() {
        findings.not_tried(RULE, ASTRAY);
        return Ok(());
    }
    let first = c1.acquire(0, KEY).await?;
    setup.servers.delete(&full(setup)).await?;
    let second = c2.acquire(0, KEY).await?;
    let (Ok(_), Ok(Reply::Granted { owner, .. })) = (&first.result, &second.result) else {
        let words = format!("{}, then {}", first.words(), second.words());
        findings.wrong(RULE, format!("a free lock, twice: {words}"));
        return Ok(());
    };
    let owner = owner.clone().unwrap_or_default();
    let before = setup.servers.read(&full(setup), &owner).await?;
    let said = c1.release(0, KEY).await?;
    let after = setup.servers.read(&full(setup), &owner).await?;
    let held = |all: &[Held]| all.iter().filter(|h| **h != Held::Nothing).count();
    if held(&after) < held(&before) {
        findings.note(
            RULE,
            "a release removed another's lock; a run will find it, if the library does so",
        );
    } else {
        grade_refusal(findings, RULE, &said, "a release of another's lock");
    }
    let back = c2.release(0, KEY).await?;
    if back.result.is_err() && held(&after) == held(&before) {
        findings.wrong(RULE, format!("its holder's release: {}", back.words()));
    }
    Ok(())
}
