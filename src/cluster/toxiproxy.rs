//! The one file that talks to Toxiproxy: proxies and toxics, each change read back before it counts.
//!
//! Owns the worker thread and every HTTP call. Must not know links, clients or faults. `cluster` makes a proxy for each
//! link; `fault` cuts and slows them.
//!
//! How far `toxiproxy_rust` can be trusted. It blocks, so it lives on a thread of its own (inside a runtime its client
//! panics). It ignores the HTTP status, so a change that was refused looks like one that was made: nothing it returns
//! counts, only what a GET of our own reads afterwards. It panics on transport errors and poisons its lock: panics are
//! caught and the client is made anew. It has no deadlines: a GET of our own, with one, goes before each of its calls, so
//! that it only ever speaks to a server that answers. It obeys `HTTP_PROXY` even on loopback: where such a variable is
//! set, plain HTTP takes its place. Within these limits it does what it does well: populate, enable, disable, reset,
//! version. Toxics are plain HTTP throughout: the crate fixes a toxic's name to `<kind>_<stream>`, so it can have one of
//! a kind only and remove none alone, and it has no `reset_peer`.
//!
//! What kinds do to bytes (Toxiproxy 2.12): `timeout` swallows them, and its removal closes the connections it touched;
//! `bandwidth` 0 holds them, and its removal delivers them; a disabled proxy closes connections and refuses new ones.
pub use super::toxic::{ProxyState, Toxic, ToxicKind, ToxiproxyError};
use reqwest::StatusCode;
use reqwest::blocking::{Client as Http, Response};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;
use tokio::sync::oneshot;
use toxiproxy_rust::client::Client as Crate;
use toxiproxy_rust::proxy::ProxyPack;

/// Bound on one HTTP call.
const CALL: Duration = Duration::from_secs(2);
/// Bound on one change, with all of its calls and those that wait before it.
pub(super) const CHANGE: Duration = Duration::from_secs(6);

type Outcome<T> = Result<T, ToxiproxyError>;

/// A handle to one Toxiproxy; a cheap clone. Changes are made one after the other by one thread, which ends with the
/// last handle.
#[derive(Clone, Debug)]
pub struct Toxiproxy {
    api: SocketAddr,
    jobs: mpsc::Sender<Job>,
}

type Job = Box<dyn FnOnce(&mut Worker) + Send>;

impl Toxiproxy {
    /// Start the worker, and see that the API at `api` answers.
    ///
    /// # Errors
    /// [`ToxiproxyError::Unreachable`].
    pub async fn connect(api: SocketAddr) -> Outcome<Self> {
        let (jobs, queue) = mpsc::channel::<Job>();
        std::thread::Builder::new()
            .name("toxiproxy".to_owned())
            .spawn(move || {
                if let Some(mut worker) = Worker::new(api) {
                    for job in queue {
                        job(&mut worker);
                    }
                }
            })
            .map_err(|_| ToxiproxyError::Worker)?;
        let this = Self { api, jobs };
        this.version().await?;
        Ok(this)
    }

    /// Address of the API.
    pub fn api(&self) -> SocketAddr {
        self.api
    }

    /// Toxiproxy's version.
    pub async fn version(&self) -> Outcome<String> {
        self.call("tell its version".to_owned(), Worker::version)
            .await
    }

    /// Make a proxy that listens at `listen` (port 0: any) and connects to `upstream`; returns where it listens.
    ///
    /// # Errors
    /// [`ToxiproxyError::Exists`] for a taken name, [`ToxiproxyError::Refused`] for a port in use, and the general ones.
    pub async fn create(&self, name: &str, listen: &str, upstream: &str) -> Outcome<SocketAddr> {
        let (name, listen, upstream) = (tame(name)?, listen.to_owned(), upstream.to_owned());
        let what = format!("make proxy `{name}` at {listen}");
        self.call(what.clone(), move |w| {
            w.create(&what, &name, &listen, &upstream)
        })
        .await
    }

    /// Let a proxy accept connections, or close those that it has and refuse new ones.
    ///
    /// # Errors
    /// [`ToxiproxyError::NoProxy`], [`ToxiproxyError::NotChanged`] (its port was taken meanwhile), and the general ones.
    pub async fn set_enabled(&self, proxy: &str, on: bool) -> Outcome<()> {
        let name = tame(proxy)?;
        let what = format!("{} `{name}`", if on { "enable" } else { "disable" });
        self.call(what.clone(), move |w| w.set_enabled(&what, &name, on))
            .await
    }

    /// Put a toxic on a proxy. It acts on open connections at once.
    ///
    /// # Errors
    /// [`ToxiproxyError::NoProxy`], [`ToxiproxyError::Exists`], and the general ones.
    pub async fn add(&self, proxy: &str, toxic: Toxic) -> Outcome<()> {
        let proxy = tame(proxy)?;
        tame(&toxic.name)?;
        let what = format!("put toxic `{}` on `{proxy}`", toxic.name);
        self.call(what.clone(), move |w| w.add(&what, &proxy, &toxic))
            .await
    }

    /// Take one toxic off a proxy.
    ///
    /// # Errors
    /// [`ToxiproxyError::NoProxy`], [`ToxiproxyError::NoToxic`], and the general ones.
    pub async fn remove(&self, proxy: &str, toxic: &str) -> Outcome<()> {
        let (proxy, toxic) = (tame(proxy)?, tame(toxic)?);
        let what = format!("take toxic `{toxic}` off `{proxy}`");
        self.call(what.clone(), move |w| w.remove(&what, &proxy, &toxic))
            .await
    }

    /// Read one proxy.
    ///
    /// # Errors
    /// [`ToxiproxyError::NoProxy`] and the general ones.
    pub async fn state(&self, proxy: &str) -> Outcome<ProxyState> {
        let proxy = tame(proxy)?;
        self.call(format!("show `{proxy}`"), move |w| {
            Ok(w.proxy(&proxy)?.state())
        })
        .await
    }

    /// All proxies enabled, no toxics anywhere.
    ///
    /// # Errors
    /// [`ToxiproxyError::NotChanged`] names the proxies that are not healed.
    pub async fn reset(&self) -> Outcome<()> {
        self.call("reset".to_owned(), Worker::reset).await
    }

    /// Hand a job to the worker and wait for it. A caller who stops waiting abandons the job: no change is made later.
    async fn call<T: Send + 'static>(
        &self,
        what: String,
        job: impl FnOnce(&mut Worker) -> Outcome<T> + Send + 'static,
    ) -> Outcome<T> {
        let abandoned = Abandon(Arc::new(AtomicBool::new(false)));
        let flag = abandoned.0.clone();
        let (answer, wait) = oneshot::channel();
        let job = Box::new(move |worker: &mut Worker| {
            worker.abandoned = flag;
            let _ = answer.send(job(worker));
        });
        self.jobs.send(job).map_err(|_| ToxiproxyError::Worker)?;
        match tokio::time::timeout(CHANGE, wait).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(ToxiproxyError::Worker),
            Err(_) => Err(ToxiproxyError::Deadline { what }),
        }
    }
}

/// Set when the caller's future ends, by an answer or otherwise.
struct Abandon(Arc<AtomicBool>);

impl Drop for Abandon {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A name that needs no escaping in a path, in JSON, or on a terminal.
fn tame(name: &str) -> Outcome<String> {
    let fine = |c: char| c.is_ascii_alphanumeric() || "-_.:>".contains(c);
    if name.is_empty() || !name.chars().all(fine) {
        return Err(ToxiproxyError::Invalid(format!(
            "{name:?} is no name for a proxy or toxic"
        )));
    }
    Ok(name.to_owned())
}

/// A proxy in JSON.
#[derive(Debug, Deserialize)]
struct Proxy {
    enabled: bool,
    listen: String,
    upstream: String,
    toxics: Vec<WireToxic>,
}

#[derive(Debug, Deserialize, PartialEq)]
struct WireToxic {
    name: String,
    r#type: String,
    stream: String,
    toxicity: f64,
    attributes: Map<String, Value>,
}

impl Proxy {
    fn state(self) -> ProxyState {
        ProxyState {
            enabled: self.enabled,
            toxics: self.toxics.into_iter().map(|t| t.name).collect(),
            listen: self.listen,
            upstream: self.upstream,
        }
    }
}

/// What lives on the worker's thread.
struct Worker {
    api: SocketAddr,
    http: Http,
    /// None: not made yet, or lost in a panic.
    library: Option<Crate>,
    /// A proxy variable in the environment would catch the crate's calls.
    plain: bool,
    abandoned: Arc<AtomicBool>,
}

impl Worker {
    fn new(api: SocketAddr) -> Option<Self> {
        let http = Http::builder()
            .no_proxy()
            .tls_built_in_root_certs(false)
            .timeout(CALL)
            .connect_timeout(CALL)
            .build()
            .ok()?;
        let captured = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
        Some(Self {
            api,
            http,
            library: None,
            plain: captured
                .iter()
                .any(|v| std::env::var_os(v).is_some_and(|v| !v.is_empty())),
            abandoned: Arc::default(),
        })
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.api)
    }

    fn unreachable(&self, why: &dyn std::fmt::Display) -> ToxiproxyError {
        ToxiproxyError::Unreachable {
            api: self.api,
            why: why.to_string(),
        }
    }

    fn get(&self, path: &str) -> Outcome<Response> {
        self.http
            .get(self.url(path))
            .send()
            .map_err(|e| self.unreachable(&e))
    }

    /// A change goes out only while somebody still waits for it.
    fn still_wanted(&self, what: &str) -> Outcome<()> {
        if self.abandoned.load(Ordering::Acquire) {
            return Err(ToxiproxyError::Deadline {
                what: what.to_owned(),
            });
        }
        Ok(())
    }

    /// One change through the crate, or `plain` where a proxy variable would catch the crate's calls. Its result says
    /// nothing; the caller reads back. Its words are kept for the error.
    fn change(
        &mut self,
        what: &str,
        library: impl FnOnce(&Crate) -> Result<(), String>,
        plain: (&str, Value),
    ) -> Outcome<Result<(), String>> {
        self.still_wanted(what)?;
        if self.plain {
            let (path, body) = plain;
            let response = self.http.post(self.url(path)).json(&body).send();
            return Ok(response
                .and_then(Response::error_for_status)
                .map(drop)
                .map_err(|e| e.to_string()));
        }
        let api = self.api;
        let mut client = self.library.take();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let said = library(client.get_or_insert_with(|| Crate::new(api)));
            (client, said)
        }));
        match outcome {
            Ok((client, said)) => {
                self.library = client;
                Ok(said)
            }
            Err(_) => Ok(Err("toxiproxy_rust panicked".to_owned())),
        }
    }

    fn version(&mut self) -> Outcome<String> {
        let text = self
            .get("version")?
            .text()
            .map_err(|e| self.unreachable(&e))?;
        let json: Option<BTreeMap<String, String>> = serde_json::from_str(&text).ok();
        let version = json.and_then(|mut v| v.remove("version")).unwrap_or(text);
        Ok(version.trim().to_owned())
    }

    fn proxy(&self, name: &str) -> Outcome<Proxy> {
        let response = self.get(&format!("proxies/{name}"))?;
        if response.status() == StatusCode::NOT_FOUND {
            return Err(ToxiproxyError::NoProxy(name.to_owned()));
        }
        accept(response, &format!("show `{name}`"))?
            .json()
            .map_err(|e| self.unreachable(&e))
    }

    fn create(
        &mut self,
        what: &str,
        name: &str,
        listen: &str,
        upstream: &str,
    ) -> Outcome<SocketAddr> {
        match self.proxy(name) {
            Ok(_) => return Err(ToxiproxyError::Exists(format!("a proxy `{name}`"))),
            Err(ToxiproxyError::NoProxy(_)) => {}
            Err(e) => return Err(e),
        }
        let pack = ProxyPack::new(name.to_owned(), listen.to_owned(), upstream.to_owned());
        let body = json!([{"name": name, "listen": listen, "upstream": upstream, "enabled": true}]);
        let said = self.change(
            what,
            |c| c.populate(vec![pack]).map(drop),
            ("populate", body),
        )?;
        let found = match self.proxy(name) {
            Err(ToxiproxyError::NoProxy(_)) => {
                return Err(ToxiproxyError::Refused {
                    what: what.to_owned(),
                    why: said.err().unwrap_or_else(|| "no reason given".to_owned()),
                });
            }
            other => other?,
        };
        let asked = listen.parse().map_or(0, |a: SocketAddr| a.port());
        match found.listen.parse::<SocketAddr>() {
            Ok(at)
                if found.enabled
                    && found.upstream == upstream
                    && (asked == 0 || asked == at.port()) =>
            {
                Ok(at)
            }
            _ => Err(not_changed(what, &found, said)),
        }
    }

    fn set_enabled(&mut self, what: &str, name: &str, on: bool) -> Outcome<()> {
        self.proxy(name)?;
        let path = format!("proxies/{name}");
        let library = |c: &Crate| {
            let proxy = c.find_proxy(name)?;
            if on { proxy.enable() } else { proxy.disable() }
        };
        let said = self.change(what, library, (&path, json!({ "enabled": on })))?;
        let found = self.proxy(name)?;
        if found.enabled == on {
            return Ok(());
        }
        Err(not_changed(what, &found, said))
    }

    fn add(&mut self, what: &str, proxy: &str, toxic: &Toxic) -> Outcome<()> {
        let (kind, amounts) = toxic.kind.wire();
        let mut attributes = Map::new();
        for (name, amount) in amounts {
            // The crate reads attributes as u32; a larger one would break each of its later reads.
            let amount = u32::try_from(amount).map_err(|_| {
                ToxiproxyError::Invalid(format!("{name} = {amount} is too large for a toxic"))
            })?;
            attributes.insert(name.to_owned(), amount.into());
        }
        let wanted = WireToxic {
            name: toxic.name.clone(),
            r#type: kind.to_owned(),
            stream: if toxic.upstream {
                "upstream"
            } else {
                "downstream"
            }
            .to_owned(),
            toxicity: 1.0,
            attributes,
        };
        let body = json!({"name": wanted.name, "type": wanted.r#type, "stream": wanted.stream,
            "toxicity": wanted.toxicity, "attributes": wanted.attributes});
        self.still_wanted(what)?;
        let response = self
            .http
            .post(self.url(&format!("proxies/{proxy}/toxics")))
            .json(&body)
            .send()
            .map_err(|e| self.unreachable(&e))?;
        match response.status() {
            StatusCode::NOT_FOUND => return Err(ToxiproxyError::NoProxy(proxy.to_owned())),
            StatusCode::CONFLICT => {
                return Err(ToxiproxyError::Exists(format!(
                    "a toxic `{}` on `{proxy}`",
                    toxic.name
                )));
            }
            _ => accept(response, what)?,
        };
        let found = self.proxy(proxy)?;
        if found.toxics.contains(&wanted) {
            return Ok(());
        }
        Err(not_changed(what, &found, Ok(())))
    }

    fn remove(&mut self, what: &str, proxy: &str, toxic: &str) -> Outcome<()> {
        let before = self.proxy(proxy)?;
        if !before.toxics.iter().any(|t| t.name == toxic) {
            return Err(ToxiproxyError::NoToxic {
                proxy: proxy.to_owned(),
                toxic: toxic.to_owned(),
            });
        }
        self.still_wanted(what)?;
        let response = self
            .http
            .delete(self.url(&format!("proxies/{proxy}/toxics/{toxic}")))
            .send()
            .map_err(|e| self.unreachable(&e))?;
        accept(response, what)?;
        let found = self.proxy(proxy)?;
        if found.toxics.iter().any(|t| t.name == toxic) {
            return Err(not_changed(what, &found, Ok(())));
        }
        Ok(())
    }

    fn reset(&mut self) -> Outcome<()> {
        self.version()?;
        let said = self.change("reset", Crate::reset, ("reset", Value::Null))?;
        let proxies: BTreeMap<String, Proxy> = accept(self.get("proxies")?, "list its proxies")?
            .json()
            .map_err(|e| self.unreachable(&e))?;
        let ill: Vec<&str> = proxies
            .iter()
            .filter(|(_, p)| !p.enabled || !p.toxics.is_empty())
            .map(|(name, _)| name.as_str())
            .collect();
        if ill.is_empty() {
            return Ok(());
        }
        Err(ToxiproxyError::NotChanged {
            what: "reset".to_owned(),
            found: format!("{} not healed{}", ill.join(", "), words(said)),
        })
    }
}

/// A response of the 200s, or its status and words as an error.
fn accept(response: Response, what: &str) -> Outcome<Response> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let text: String = response
        .text()
        .unwrap_or_default()
        .chars()
        .take(300)
        .collect();
    Err(ToxiproxyError::Refused {
        what: what.to_owned(),
        why: format!("{status} {}", text.trim()),
    })
}

fn not_changed(what: &str, found: &Proxy, said: Result<(), String>) -> ToxiproxyError {
    let toxics: Vec<&str> = found.toxics.iter().map(|t| t.name.as_str()).collect();
    ToxiproxyError::NotChanged {
        what: what.to_owned(),
        found: format!(
            "enabled {}, listening at {}, upstream {}, toxics {toxics:?}{}",
            found.enabled,
            found.listen,
            found.upstream,
            words(said)
        ),
    }
}

fn words(said: Result<(), String>) -> String {
    said.err().map_or_else(String::new, |e| format!(" ({e})"))
}
