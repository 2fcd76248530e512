//! Commands that prove readiness: PING and INFO over a connection of their own.
//!
//! Owns a few lines of RESP. Must not know backends. The cluster asks it before it calls anything ready.
use redis::Value;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Bound on one try.
const TRY: Duration = Duration::from_secs(1);
/// Time between two tries.
const AGAIN: Duration = Duration::from_millis(5);

/// One PING on a new connection; the answer other than `+PONG` is the error (`-LOADING ...`, `-NOAUTH ...`).
pub async fn ping(address: SocketAddr, deadline: Duration) -> Result<(), String> {
    let answer = ask(address, "PING\r\n", deadline, |got| got.ends_with("\r\n")).await?;
    if answer == "+PONG\r\n" {
        return Ok(());
    }
    Err(answer.trim_end().chars().take(200).collect())
}

/// The answer to a call, in time; else why not.
pub async fn answered<T, E: std::fmt::Display>(
    call: impl Future<Output = Result<T, E>>,
) -> Result<T, String> {
    match tokio::time::timeout(TRY, call).await {
        Ok(answer) => answer.map_err(|e| e.to_string()),
        Err(_) => Err(format!("no answer within {TRY:?}")),
    }
}

/// PING until it is answered, until `dead` says that it never will be, or until the time is over: then the last error.
pub async fn until_pong(
    address: SocketAddr,
    deadline: Duration,
    dead: impl FnMut() -> Option<String>,
) -> Result<(), String> {
    until(deadline, dead, async || ping(address, TRY).await).await
}

/// Connect until something listens, as [`until_pong`].
pub async fn until_open(
    address: SocketAddr,
    deadline: Duration,
    dead: impl FnMut() -> Option<String>,
) -> Result<(), String> {
    let connect = async || match tokio::time::timeout(TRY, TcpStream::connect(address)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(e)) => Err(e.to_string()),
        Err(_) => Err(format!("no connection within {TRY:?}")),
    };
    until(deadline, dead, connect).await
}

/// GET `path` until something answers that speaks HTTP, as [`until_pong`].
pub async fn until_http(
    address: SocketAddr,
    path: &str,
    deadline: Duration,
    dead: impl FnMut() -> Option<String>,
) -> Result<(), String> {
    let get = format!("GET {path} HTTP/1.0\r\n\r\n");
    let answer = async || {
        let answer = ask(address, &get, TRY, |got| got.contains("\r\n")).await?;
        if answer.starts_with("HTTP/1.") {
            return Ok(());
        }
        Err("what listens there does not speak HTTP".to_owned())
    };
    until(deadline, dead, answer).await
}

async fn until(
    deadline: Duration,
    mut dead: impl FnMut() -> Option<String>,
    attempt: impl AsyncFn() -> Result<(), String>,
) -> Result<(), String> {
    let end = Instant::now() + deadline;
    loop {
        let Err(why) = attempt().await else {
            return Ok(());
        };
        if let Some(why) = dead() {
            return Err(why);
        }
        if Instant::now() >= end {
            return Err(why);
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// The server's name and version, such as `redis 7.0.15`, from INFO.
pub async fn version(address: SocketAddr) -> Option<String> {
    let whole = |got: &str| {
        let end = got.strip_prefix('$').and_then(|g| g.split_once("\r\n"));
        end.is_some_and(|(n, body)| n.parse().is_ok_and(|n: usize| body.len() >= n + 2))
    };
    let text = ask(address, "INFO server\r\n", TRY, whole).await.ok()?;
    let field = |name: &str| text.lines().find_map(|l| l.strip_prefix(name));
    let valkey = field("valkey_version:").map(|v| format!("valkey {v}"));
    valkey.or_else(|| field("redis_version:").map(|v| format!("redis {v}")))
}

/// One section of INFO, whole.
pub async fn info(address: SocketAddr, section: &str) -> Result<String, String> {
    text(address, &format!("INFO {section}"), TRY).await
}

/// The answer to one inline command, as it came over the wire, once all of it is there.
pub async fn text(
    address: SocketAddr,
    command: &str,
    deadline: Duration,
) -> Result<String, String> {
    let whole = |got: &str| redis::parse_redis_value(got.as_bytes()).is_ok();
    ask(address, &format!("{command}\r\n"), deadline, whole).await
}

/// The strings of such an answer that is an array; what is none is empty.
pub fn texts(answer: &str) -> Vec<String> {
    let Ok(Value::Array(items)) = redis::parse_redis_value(answer.as_bytes()) else {
        return Vec::new();
    };
    let text = |item: &Value| match item {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::SimpleString(text) => text.clone(),
        _ => String::new(),
    };
    items.iter().map(text).collect()
}

async fn ask(
    address: SocketAddr,
    command: &str,
    deadline: Duration,
    whole: impl Fn(&str) -> bool,
) -> Result<String, String> {
    let call = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(command.as_bytes()).await?;
        let mut got = Vec::new();
        loop {
            if stream.read_buf(&mut got).await? == 0 {
                return Err(std::io::Error::other("the connection was closed"));
            }
            let text = String::from_utf8_lossy(&got);
            if whole(&text) || got.len() > 64 << 10 {
                return Ok(text.into_owned());
            }
        }
    };
    match tokio::time::timeout(deadline, call).await {
        Ok(answer) => answer.map_err(|e| e.to_string()),
        Err(_) => Err(format!("no answer within {deadline:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::texts;

    #[test]
    fn arrays_are_read_as_their_strings() {
        assert_eq!(texts("*2\r\n$6\r\nmaster\r\n:5\r\n"), ["master", ""]);
        assert!(texts("-ERR no\r\n").is_empty());
    }
}
