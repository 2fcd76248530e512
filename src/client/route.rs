//! Which server is the primary: asked of the Sentinels, again and again.
//!
//! Owns the way from what a Sentinel says (`toxi:7002`) to one of this client's own links. Must not know locks. `env`
//! sends a lock's commands to [`Route::node`].
//!
//! As most libraries do, it takes the word of the first Sentinel that answers, in the order given, so a Sentinel that
//! is cut off or behind misleads it. A client that *sticks* asks once, as one that was given the address by hand.
use super::env::Shared;
use super::serve::Refusal;
use crate::resp::Resp;
use redis::Value;
use serde_json::{Map, Value as Json};
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::time::Duration;

/// Time between two questions; libraries that subscribe to `+switch-master` hear of a change about as soon.
const POLL: Duration = Duration::from_millis(100);
/// How long one Sentinel may take to answer.
const ANSWER: Duration = Duration::from_millis(100);

/// The primary among the nodes, as far as is known.
#[derive(Debug)]
pub(super) struct Route {
    sentinels: Vec<Resp>,
    /// The name under which Sentinels watch the primary.
    service: String,
    /// By node, as Sentinels name it.
    announced: Vec<String>,
    node: Cell<usize>,
    stick: bool,
}

impl Route {
    /// From the options of `init`; none where these name no Sentinels.
    pub(super) fn from_options(options: &Map<String, Json>) -> Result<Option<Self>, Refusal> {
        let bad = |why: &str| Refusal::new("bad-request").because(why.to_owned());
        let texts = |key: &str| -> Option<Vec<String>> {
            let words = options.get(key)?.as_array()?.iter();
            words.map(|w| w.as_str().map(str::to_owned)).collect()
        };
        if !options.contains_key("sentinels") {
            return Ok(None);
        }
        let sentinels = texts("sentinels").ok_or_else(|| bad("option `sentinels` is addresses"))?;
        let announced = texts("announced").ok_or_else(|| bad("option `announced` is addresses"))?;
        let service = options.get("service").and_then(Json::as_str);
        let addresses: Result<Vec<SocketAddr>, _> = sentinels.iter().map(|s| s.parse()).collect();
        let addresses = addresses.map_err(|_| bad("option `sentinels` is addresses"))?;
        Ok(Some(Self {
            sentinels: addresses
                .iter()
                .map(|at| Resp::beside(*at, ANSWER))
                .collect(),
            service: service.unwrap_or("fencepost").to_owned(),
            announced,
            node: Cell::new(0),
            stick: options.get("stick").and_then(Json::as_bool) == Some(true),
        }))
    }

    /// The node to send commands to.
    pub(super) fn node(&self) -> usize {
        self.node.get()
    }

    /// Ask until one Sentinel has answered; what it says counts from then on.
    pub(super) async fn ask(&self) {
        for sentinel in &self.sentinels {
            let mut question = redis::cmd("SENTINEL");
            question.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.service);
            let answer = tokio::time::timeout(ANSWER, sentinel.call(&question)).await;
            if let Ok(Ok(Value::Array(words))) = answer
                && let Some(node) = self.known(&words)
            {
                self.node.set(node);
                return;
            }
        }
    }

    fn known(&self, words: &[Value]) -> Option<usize> {
        let [Value::BulkString(host), Value::BulkString(port)] = words else {
            return None;
        };
        let said = format!(
            "{}:{}",
            String::from_utf8_lossy(host),
            String::from_utf8_lossy(port)
        );
        self.announced.iter().position(|a| *a == said)
    }

    /// Ask again and again, for as long as the client lives; a client that sticks does not.
    pub(super) fn follow(shared: &Rc<Shared>) {
        let Some(route) = &shared.route else {
            return;
        };
        if !route.stick {
            tokio::task::spawn_local(poll(Rc::downgrade(shared)));
        }
    }
}

async fn poll(shared: Weak<Shared>) {
    loop {
        tokio::time::sleep(POLL).await;
        let Some(shared) = shared.upgrade() else {
            return;
        };
        if let Some(route) = &shared.route {
            route.ask().await;
        }
    }
}
