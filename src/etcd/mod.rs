//! etcd's v3 API, as much of it as locks, probes and the observer use, over its JSON gateway
//! (<https://etcd.io/docs/v3.4/dev-guide/api_grpc_gateway/>).
//!
//! Owns requests and the reading of answers. Must not know locks or faults. Answers go to whoever called. The gateway
//! carries the same messages as gRPC, with 64-bit numbers as strings and bytes in base64; to speak gRPC itself would take a
//! code generator and some forty crates more.
//!
//! Single-threaded.
mod http;

use crate::resp::Break;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Http;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// Why a request has no answer that counts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EtcdError {
    /// No byte of it left: it will never be executed.
    #[error("not sent: {0}")]
    NotSent(Break),
    /// Bytes left and no answer came: executed, or not, or at any later time.
    #[error("unknown whether executed: {0}")]
    Unknown(Break),
    /// The member answered with an error.
    #[error("the member said: {message}")]
    Refused {
        /// gRPC's code, such as 5 (not found) or 14 (unavailable).
        code: i64,
        /// Its words.
        message: String,
    },
}

/// gRPC's codes.
const NOT_FOUND: i64 = 5;
const FAILED_PRECONDITION: i64 = 9;

/// One member of a cluster.
#[derive(Debug)]
pub struct Member(Http);

/// A key as a member knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Its value; bytes that are no UTF-8 replaced.
    pub value: String,
    /// The revision at which it was created.
    pub created: i64,
}

/// What a member says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Its own id.
    pub member: u64,
    /// The id of the leader that it follows; 0: none.
    pub leader: u64,
    /// Such as `3.4.23`.
    pub version: String,
}

/// Something that happened to a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// At which revision.
    pub revision: i64,
    /// The key.
    pub key: String,
    /// Its new value; none: it was deleted.
    pub value: Option<String>,
}

impl Member {
    /// Connections are made at first use, within `connect_limit` each.
    pub fn new(addr: SocketAddr, connect_limit: Duration) -> Self {
        Self(Http::new(addr, connect_limit))
    }

    /// Grant `lease`, an id that the caller chose, for `seconds`; returns the seconds granted, which may be more. A
    /// lease that is there already was granted by an earlier request of the same caller.
    ///
    /// # Errors
    /// [`EtcdError`].
    pub async fn grant(&self, lease: i64, seconds: u64) -> Result<u64, EtcdError> {
        let request = json!({"ID": lease.to_string(), "TTL": seconds.to_string()});
        match self.post("lease/grant", &request).await {
            Ok(answer) => number(&answer["TTL"]).ok_or(GARBLED),
            Err(EtcdError::Refused { code, .. }) if code == FAILED_PRECONDITION => Ok(seconds),
            Err(e) => Err(e),
        }
    }

    /// Create `key` under `lease`, if it is not there; returns the revision of its creation. A key that is there with
    /// this very value was created by an earlier request of the same caller. None: it has another value.
    ///
    /// # Errors
    /// [`EtcdError`]; code 5 where there is no such lease.
    pub async fn create(
        &self,
        key: &str,
        value: &str,
        lease: i64,
    ) -> Result<Option<i64>, EtcdError> {
        let coded = STANDARD.encode(key);
        let put =
            json!({"key": coded, "value": STANDARD.encode(value), "lease": lease.to_string()});
        let request = json!({
            "compare": [{"target": "CREATE", "key": coded, "create_revision": "0"}],
            "success": [{"request_put": put}],
            "failure": [{"request_range": {"key": coded}}],
        });
        let answer = self.post("kv/txn", &request).await?;
        if answer["succeeded"] == true {
            return number(&answer["header"]["revision"])
                .map(Some)
                .ok_or(GARBLED);
        }
        let there = entries(&answer["responses"][0]["response_range"]);
        let mine = there.into_iter().find(|e| e.value == value);
        Ok(mine.map(|e| e.created))
    }

    /// Read `key`. `local`: as this member has it now, which may be old; else as a quorum has it.
    ///
    /// # Errors
    /// [`EtcdError`].
    pub async fn read(&self, key: &str, local: bool) -> Result<Option<Entry>, EtcdError> {
        let request = json!({"key": STANDARD.encode(key), "serializable": local});
        let answer = self.post("kv/range", &request).await?;
        Ok(entries(&answer).into_iter().next())
    }

    /// All keys that begin with `prefix`, as a quorum has them, and the revision at which that was so.
    ///
    /// # Errors
    /// [`EtcdError`].
    pub async fn list(&self, prefix: &str) -> Result<(i64, Vec<Entry>), EtcdError> {
        let (from, to) = range(prefix);
        let request = json!({"key": from, "range_end": to});
        let answer = self.post("kv/range", &request).await?;
        let revision = number(&answer["header"]["revision"]).ok_or(GARBLED)?;
        Ok((revision, entries(&answer)))
    }

    /// Write `key` without a lease.
    ///
    /// # Errors
    /// [`EtcdError`].
    pub async fn put(&self, key: &str, value: &str) -> Result<(), EtcdError> {
        let request = json!({"key": STANDARD.encode(key), "value": STANDARD.encode(value)});
        self.post("kv/put", &request).await.map(drop)
    }

    /// Delete all keys that begin with `prefix`.
    ///
    /// # Errors
    /// [`EtcdError`].
    pub async fn delete(&self, prefix: &str) -> Result<(), EtcdError> {
        let (from, to) = range(prefix);
        let request = json!({"key": from, "range_end": to});
        self.post("kv/deleterange", &request).await.map(drop)
    }

    /// Renew `lease`; returns the seconds that it has from now on. None: there is no such lease.
    ///
    /// etcd 3.4 lets a leader renew by itself, also one that was cut off or stood still and does not know yet that the
    /// others have elected another (later versions ask a quorum first). So a quorum is asked behind it, and must still be in
    /// the term in which the lease was renewed.
    ///
    /// # Errors
    /// [`EtcdError`]; unknown where no quorum confirms it.
    pub async fn keep_alive(&self, lease: i64) -> Result<Option<u64>, EtcdError> {
        let request = json!({"ID": lease.to_string()});
        let answer = self.post("lease/keepalive", &request).await?;
        let renewed = &answer["result"];
        let term: u64 = number(&renewed["header"]["raft_term"]).ok_or(GARBLED)?;
        let Some(seconds) = number::<u64>(&renewed["TTL"]).filter(|ttl| *ttl > 0) else {
            return Ok(None);
        };
        let request = json!({"key": STANDARD.encode("\0"), "count_only": true});
        let confirmed = self.post("kv/range", &request).await?;
        if number::<u64>(&confirmed["header"]["raft_term"]) != Some(term) {
            return Err(EtcdError::Unknown(Break::Reset));
        }
        Ok(Some(seconds))
    }

    /// End `lease`, and with it the keys under it; false where there is no such lease.
    ///
    /// # Errors
    /// [`EtcdError`].
    pub async fn revoke(&self, lease: i64) -> Result<bool, EtcdError> {
        let request = json!({"ID": lease.to_string()});
        match self.post("lease/revoke", &request).await {
            Ok(_) => Ok(true),
            Err(EtcdError::Refused { code, .. }) if code == NOT_FOUND => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// What the member says of itself, by its own knowledge.
    ///
    /// # Errors
    /// [`EtcdError`].
    pub async fn status(&self) -> Result<Status, EtcdError> {
        let answer = self.post("maintenance/status", &json!({})).await?;
        Ok(Status {
            member: number(&answer["header"]["member_id"]).ok_or(GARBLED)?,
            leader: number(&answer["leader"]).unwrap_or(0),
            version: answer["version"].as_str().unwrap_or_default().to_owned(),
        })
    }

    /// Make the member with this id the leader; this member must be the leader now.
    ///
    /// # Errors
    /// [`EtcdError`].
    pub async fn move_leader(&self, to: u64) -> Result<(), EtcdError> {
        let request = json!({"targetID": to.to_string()});
        let moved = self.post("maintenance/transfer-leadership", &request).await;
        moved.map(drop)
    }

    /// Seconds since 1970 at which the member's process began, as its metrics say: another one after each start.
    ///
    /// # Errors
    /// [`EtcdError`].
    pub async fn began(&self) -> Result<String, EtcdError> {
        let text = self.get("/metrics").await?;
        let line = text
            .lines()
            .find_map(|l| l.strip_prefix("process_start_time_seconds "));
        line.map(str::to_owned).ok_or(GARBLED)
    }

    /// Ask for its version, which a member tells on its port for clients and on that for other members, whether it has
    /// a leader or not.
    ///
    /// # Errors
    /// [`EtcdError`].
    pub async fn version(&self) -> Result<String, EtcdError> {
        self.get("/version").await
    }

    /// Hear of every change of keys that begin with `prefix`, from `revision` on.
    ///
    /// # Errors
    /// [`EtcdError`].
    pub async fn watch(&self, prefix: &str, revision: i64) -> Result<Watch, EtcdError> {
        let (from, to) = range(prefix);
        let create = json!({"key": from, "range_end": to, "start_revision": revision.to_string()});
        let body = json!({"create_request": create}).to_string();
        let (stream, got) = self.0.open(&post("watch", &body)).await?;
        Ok(Watch {
            stream,
            got,
            line: Vec::new(),
        })
    }

    async fn get(&self, path: &str) -> Result<String, EtcdError> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: etcd\r\n\r\n");
        let answer = self.0.ask(request.as_bytes()).await?;
        if answer.status != 200 {
            return Err(GARBLED);
        }
        Ok(String::from_utf8_lossy(&answer.body).into_owned())
    }

    async fn post(&self, path: &str, body: &Value) -> Result<Value, EtcdError> {
        let answer = self.0.ask(&post(path, &body.to_string())).await?;
        let said: Value = serde_json::from_slice(&answer.body).map_err(|_| GARBLED)?;
        if answer.status == 200 && said.get("error").is_none() {
            return Ok(said);
        }
        let message = said["message"].as_str().or(said["error"].as_str());
        Err(EtcdError::Refused {
            code: said["code"].as_i64().unwrap_or_default(),
            message: message.unwrap_or("an error without words").to_owned(),
        })
    }
}

/// A stream of changes.
#[derive(Debug)]
pub struct Watch {
    stream: TcpStream,
    /// Of chunks, not yet read.
    got: Vec<u8>,
    /// The beginning of a line.
    line: Vec<u8>,
}

impl Watch {
    /// The next changes, at least one, in the order in which they were made. Cancel-safe.
    ///
    /// # Errors
    /// [`EtcdError`] where the stream ended or makes no sense: open another one.
    pub async fn next(&mut self) -> Result<Vec<Change>, EtcdError> {
        loop {
            while let Some(end) = self.line.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.line.drain(..=end).collect();
                let said: Value = serde_json::from_slice(&line).map_err(|_| GARBLED)?;
                if said.get("error").is_some() || said["result"]["canceled"] == true {
                    return Err(EtcdError::Unknown(Break::Reset));
                }
                let changes = changes(&said["result"])?;
                if !changes.is_empty() {
                    return Ok(changes);
                }
            }
            match http::chunk_size(&self.got)? {
                Some((0, _)) => return Err(EtcdError::Unknown(Break::Reset)),
                Some((size, rest)) if rest.len() >= size + 2 => {
                    self.line.extend_from_slice(&rest[..size]);
                    self.got = rest[size + 2..].to_vec();
                }
                _ => match self.stream.read_buf(&mut self.got).await {
                    Ok(n) if n > 0 => {}
                    _ => return Err(EtcdError::Unknown(Break::Reset)),
                },
            }
        }
    }
}

const GARBLED: EtcdError = EtcdError::Unknown(Break::Garbled);

fn post(path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("POST /v3/{path} HTTP/1.1\r\nHost: etcd\r\nContent-Length: {length}\r\n\r\n{body}")
        .into_bytes()
}

/// The lock that a key is of, and its owner: the key itself with its value; or, as etcd's own clients queue up, a key
/// below the lock's, without a value, named after its lease. Of these the one that was created first has the lock.
pub fn place<'a>(key: &'a str, value: &'a str) -> (&'a str, &'a str) {
    let queued = key.rsplit_once('/').filter(|_| value.is_empty());
    queued.unwrap_or((key, value))
}

/// 64-bit numbers are strings; a zero is left out.
fn number<N: std::str::FromStr>(value: &Value) -> Option<N> {
    value.as_str()?.parse().ok()
}

fn text(value: &Value) -> String {
    let bytes = STANDARD.decode(value.as_str().unwrap_or_default());
    String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()
}

fn entries(answer: &Value) -> Vec<Entry> {
    let all = answer["kvs"].as_array().into_iter().flatten();
    let one = |kv: &Value| Entry {
        key: text(&kv["key"]),
        value: text(&kv["value"]),
        created: number(&kv["create_revision"]).unwrap_or(0),
    };
    all.map(one).collect()
}

fn changes(result: &Value) -> Result<Vec<Change>, EtcdError> {
    let all = result["events"].as_array().into_iter().flatten();
    let one = |event: &Value| {
        let kv = &event["kv"];
        Ok(Change {
            revision: number(&kv["mod_revision"]).ok_or(GARBLED)?,
            key: text(&kv["key"]),
            value: (event["type"] != "DELETE").then(|| text(&kv["value"])),
        })
    };
    all.map(one).collect()
}

/// A prefix as a range: up to the prefix with its last byte one greater. No prefix here ends with byte 255.
fn range(prefix: &str) -> (String, String) {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last = last.saturating_add(1);
    }
    (STANDARD.encode(prefix), STANDARD.encode(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_tells_what_was_written_and_what_was_deleted() {
        let said = json!({"events": [
            {"kv": {"key": "aw==", "create_revision": "2", "mod_revision": "2", "value": "dg=="}},
            {"type": "DELETE", "kv": {"key": "aw==", "mod_revision": "3"}},
        ]});
        let change = |revision, value: Option<&str>| Change {
            revision,
            key: "k".to_owned(),
            value: value.map(str::to_owned),
        };
        assert_eq!(
            changes(&said),
            Ok(vec![change(2, Some("v")), change(3, None)])
        );
        assert!(changes(&json!({"events": [{"kv": {"key": "aw=="}}]})).is_err());
    }

    #[test]
    fn a_prefix_ends_before_its_last_byte_plus_one() {
        let (from, to) = range("fp:");
        assert_eq!((from, to), (STANDARD.encode("fp:"), STANDARD.encode("fp;")));
    }
}
