//! What is answered to a request.
//!
//! Owns statuses and headers. Must not know how a page looks (`report::runs`) nor where a file is (`files`).
use super::address::{Place, host_is_ours, place, query};
use super::files::{Opened, Root};
use super::shelf::Shelf;
use super::stream::{Turns, body};
use crate::report::runs::{self, file_policy, form_policy};
use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

type Body = UnsyncBoxBody<Bytes, io::Error>;
type Reply = Response<Body>;

/// Beside what an answer says of itself: nobody guesses types, frames it, loads it from elsewhere, or keeps it.
const ALWAYS: [(HeaderName, &str); 5] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

/// Answers requests.
pub(super) struct Desk {
    root: Arc<Root>,
    shown: PathBuf,
    shelf: Shelf,
    hosts: Vec<String>,
    turns: Turns,
    /// The policy of our pages, and of files.
    policies: (HeaderValue, HeaderValue),
}

impl Desk {
    pub(super) fn new(results: &Path, hosts: Vec<String>, open: usize) -> io::Result<Self> {
        let root = Arc::new(Root::new(results)?);
        let policy = |text: String| HeaderValue::try_from(text).map_err(io::Error::other);
        Ok(Self {
            shelf: Shelf::new(root.clone()),
            root,
            shown: results.to_owned(),
            hosts,
            turns: Turns::new(open),
            policies: (
                policy(format!("{}; frame-ancestors 'none'", form_policy()))?,
                policy(file_policy())?,
            ),
        })
    }

    pub(super) async fn answer(&self, request: &Request<Incoming>) -> Reply {
        let mut reply = match self.refusal(request) {
            Some(refused) => refused,
            None => self.found(request).await,
        };
        let headers = reply.headers_mut();
        for (name, value) in ALWAYS {
            headers.insert(name, HeaderValue::from_static(value));
        }
        let policy = headers.entry(header::CONTENT_SECURITY_POLICY);
        policy.or_insert_with(|| self.policies.0.clone());
        reply
    }

    /// Only reads, and only under a name of ours.
    fn refusal(&self, request: &Request<Incoming>) -> Option<Reply> {
        let mut hosts = request.headers().get_all(header::HOST).iter();
        let host = match (hosts.next(), hosts.next()) {
            (Some(host), None) => host.to_str().unwrap_or_default(),
            _ => return Some(word(StatusCode::BAD_REQUEST, "exactly one Host header")),
        };
        let named = request
            .uri()
            .authority()
            .map(hyper::http::uri::Authority::as_str);
        if ![Some(host), named]
            .into_iter()
            .flatten()
            .all(|h| host_is_ours(h, &self.hosts))
        {
            let why =
                "this server does not go by that name; `fencepost serve --host NAME` adds one";
            return Some(word(StatusCode::MISDIRECTED_REQUEST, why));
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut refused = word(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD");
            let allow = HeaderValue::from_static("GET, HEAD");
            refused.headers_mut().insert(header::ALLOW, allow);
            return Some(refused);
        }
        None
    }

    async fn found(&self, request: &Request<Incoming>) -> Reply {
        match place(request.uri().path()) {
            Place::Nowhere => nothing(),
            Place::List => {
                let Some(found) = self.shelf.look(&self.turns).await else {
                    return busy();
                };
                let asked = query(request.uri().query().unwrap_or_default());
                page(runs::list(&self.shown, &found.rows, &asked, &found.notes))
            }
            Place::Below(path, slash) => self.below(path, slash, request.uri().path()).await,
        }
    }

    async fn below(&self, path: PathBuf, slash: bool, address: &str) -> Reply {
        let Some(turn) = self.turns.next().await else {
            return busy();
        };
        let root = self.root.clone();
        let wanted = path.clone();
        let opened = tokio::task::spawn_blocking(move || root.open(&wanted)).await;
        match opened.unwrap_or_else(|panic| Err(io::Error::other(panic))) {
            Ok(Opened::File(file, len)) if !slash => self.file(file, len, &path, turn),
            Ok(Opened::Folder(entries)) if slash => {
                drop(turn);
                let found = self.shelf.look(&self.turns).await;
                let rows = found.as_ref().map_or(&[][..], |f| &f.rows);
                let row = rows.iter().find(|row| row.dir == path);
                page(runs::folder(&path, row, &entries))
            }
            // Relative links on a folder's page need the slash.
            Ok(Opened::Folder(_)) => {
                let mut moved = word(StatusCode::MOVED_PERMANENTLY, "with a slash");
                match HeaderValue::try_from(format!("{address}/")) {
                    Ok(to) => moved.headers_mut().insert(header::LOCATION, to),
                    Err(_) => return nothing(),
                };
                moved
            }
            Err(error) if error.raw_os_error().is_some_and(out_of_handles) => busy(),
            // Why it cannot be had is nobody's business: what is outside looks like what is not there.
            Ok(Opened::File(..)) | Err(_) => nothing(),
        }
    }

    fn file(
        &self,
        file: std::fs::File,
        len: u64,
        path: &Path,
        turn: tokio::sync::OwnedSemaphorePermit,
    ) -> Reply {
        let mut reply = Response::new(body(file, len, turn).boxed_unsync());
        let headers = reply.headers_mut();
        headers.insert(header::CONTENT_LENGTH, len.into());
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static(media_type(path)),
        );
        headers.insert(header::CONTENT_SECURITY_POLICY, self.policies.1.clone());
        reply
    }
}

/// Only pages of ours are pages; all other text is plain text, also where a browser would make more of it.
fn media_type(path: &Path) -> &'static str {
    let extension = path.extension().and_then(std::ffi::OsStr::to_str);
    match extension.unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "json" => "application/json",
        "svg" => "image/svg+xml",
        "jsonl" | "toml" | "md" | "log" | "txt" | "hgrm" | "hlog" | "xml" | "csv" | "edn" => {
            "text/plain; charset=utf-8"
        }
        _ => "application/octet-stream",
    }
}

fn out_of_handles(code: i32) -> bool {
    use nix::errno::Errno;
    [Errno::EMFILE, Errno::ENFILE].contains(&Errno::from_raw(code))
}

fn page(made: Result<String, crate::report::ReportError>) -> Reply {
    match made {
        Ok(text) => whole(StatusCode::OK, "text/html; charset=utf-8", text),
        Err(error) => word(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

fn nothing() -> Reply {
    word(StatusCode::NOT_FOUND, "nothing is here")
}

fn busy() -> Reply {
    let mut reply = word(StatusCode::SERVICE_UNAVAILABLE, "too many at once");
    let later = HeaderValue::from_static("1");
    reply.headers_mut().insert(header::RETRY_AFTER, later);
    reply
}

fn word(status: StatusCode, text: &str) -> Reply {
    whole(status, "text/plain; charset=utf-8", format!("{text}\n"))
}

fn whole(status: StatusCode, media: &'static str, text: String) -> Reply {
    let body = Full::new(Bytes::from(text)).map_err(|never| match never {});
    let mut reply = Response::new(body.boxed_unsync());
    *reply.status_mut() = status;
    let media = HeaderValue::from_static(media);
    reply.headers_mut().insert(header::CONTENT_TYPE, media);
    reply
}
