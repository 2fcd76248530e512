//! Commands to a node on a direct connection of their own, with whole answers.
//!
//! Owns the deadline and the words of refusals. Must not know which fault asks. A fault gives commands here and proves
//! them by asking again, on another connection.
use super::World;
use crate::resp::Resp;
use redis::Value;
use std::net::SocketAddr;
use std::time::Duration;

/// Longest wait for one answer.
const ANSWER: Duration = Duration::from_secs(2);

/// One command, by its words, to a node beside Toxiproxy. An error of the server is an error here.
pub(super) async fn node(world: &World, node: usize, words: &[&str]) -> Result<Value, String> {
    at(world.cluster.direct(node), words).await
}

/// One command to an address, on a new connection.
pub(super) async fn at(address: SocketAddr, words: &[&str]) -> Result<Value, String> {
    on(&Resp::new(address, ANSWER), words).await
}

/// One command on a connection that is kept.
pub(super) async fn on(connection: &Resp, words: &[&str]) -> Result<Value, String> {
    let mut cmd = redis::Cmd::new();
    for word in words {
        cmd.arg(*word);
    }
    match tokio::time::timeout(ANSWER, connection.call(&cmd)).await {
        Err(_) => Err(format!("no answer within {} ms", ANSWER.as_millis())),
        Ok(Err(error)) => Err(error.to_string()),
        Ok(Ok(Value::ServerError(error))) => Err(format!(
            "{} {}",
            error.code(),
            error.details().unwrap_or_default()
        )),
        Ok(Ok(value)) => Ok(value),
    }
}

/// The answer as text; numbers as their digits.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Okay => "OK".to_owned(),
        Value::Nil => "nil".to_owned(),
        Value::Int(n) => n.to_string(),
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::SimpleString(text) => text.clone(),
        other => format!("{other:?}"),
    }
}

/// One field of a section of INFO.
pub(super) async fn info(
    world: &World,
    n: usize,
    section: &str,
    field: &str,
) -> Result<String, String> {
    let all = text(&node(world, n, &["INFO", section]).await?);
    all.lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
        .map(|value| value.trim().to_owned())
        .ok_or_else(|| format!("INFO {section} names no {field}"))
}

/// As [`info`], a number.
pub(super) async fn number(
    world: &World,
    n: usize,
    section: &str,
    field: &str,
) -> Result<i64, String> {
    let text = info(world, n, section, field).await?;
    text.parse()
        .map_err(|_| format!("{field} is `{text}`, no number"))
}

/// A key that no lock and no probe uses, with a value, for a minute: set, and read back.
pub(super) async fn canary(world: &World, n: usize) -> Result<String, String> {
    let key = format!("fencepost:canary:{}:{}", world.plan.seed, world.fresh());
    node(world, n, &["SET", &key, "1", "PX", "60000"]).await?;
    match node(world, n, &["EXISTS", &key]).await? {
        Value::Int(1) => Ok(key),
        other => Err(format!("a key just set is not there: {}", text(&other))),
    }
}

/// Whether a node answers a write as `word` (`OK`, or the first word of an error).
pub(super) async fn write_says(world: &World, n: usize, word: &str) -> Result<(), String> {
    let key = format!("fencepost:probe:{}:{}", world.plan.seed, world.fresh());
    let said = match node(world, n, &["SET", &key, "1", "PX", "1000"]).await {
        Ok(value) => text(&value),
        Err(error) => error,
    };
    if said.split(' ').next() == Some(word) {
        return Ok(());
    }
    Err(format!(
        "{} answers a SET by {said}, not {word}",
        world.cluster.node_name(n)
    ))
}
