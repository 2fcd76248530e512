//! What a lock's requests are on ZooKeeper.
//!
//! Owns the client's sessions: one for each lease. Must not know any lock. Requests go to `zookeeper`.
//!
//! | request | here |
//! |---|---|
//! | read | the first in the key's queue, as this server has it: what is old there delays a try, and grants nothing |
//! | grant | a new session, agreed on by a quorum; its id is the servers' choice, so it is kept under the lease's |
//! | create | an ephemeral sequential node; the lock is held if it is the first of the queue |
//! | keep-alive | a new connection with the session, then a write |
//! | revoke | a new connection with the session, which is then closed |
//!
//! A server answers pings by itself, and tells the leader later that it heard of a session; a server that was cut off from
//! the leader does so too, until it notices. So pings renew nothing here. To go on with a session is the leader's word: it
//! counts the timeout anew in that moment. It might be a leader no more, so a write follows on the same connection: that
//! is confirmed by a quorum, and a server ends the connections of its clients when it follows another leader, so it was the
//! leader then as well. A new leader counts each session anew.
//!
//! A request of an earlier connection that is still on its way is refused once the session has moved on, or is over: so each
//! may be sent again, to another server too.
use crate::client::env::cut;
use crate::lock::{CallError, Cut, Kv, Reply};
use crate::zookeeper::{Conn, LOCKS, NO_NODE, Session, ZkError, first, place, queue_of};
use std::cell::RefCell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

/// How long a session that only reads is kept by the servers.
const READER: Duration = Duration::from_secs(10);
/// Readers that are kept a server; one carries one request at a time.
const READERS_MAX: usize = 64;

/// The servers, and what this client has there.
#[derive(Debug)]
pub(in crate::client) struct Ensemble {
    servers: Vec<Server>,
    connect_limit: Duration,
    /// By the lease's id.
    leases: RefCell<HashMap<i64, Lease>>,
}

#[derive(Debug)]
struct Server {
    at: SocketAddr,
    /// Readers that nobody uses now.
    idle: RefCell<Vec<Conn>>,
}

#[derive(Debug)]
struct Lease {
    session: Session,
    /// The connection that the session was made on, and its server, until it is used.
    fresh: Option<(usize, Conn)>,
    /// Its node, once it is there.
    node: Option<String>,
}

impl Ensemble {
    pub(super) fn new(nodes: &[SocketAddr], connect_limit: Duration) -> Self {
        let server = |at: &SocketAddr| Server {
            at: *at,
            idle: RefCell::default(),
        };
        Self {
            servers: nodes.iter().map(server).collect(),
            connect_limit,
            leases: RefCell::default(),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.servers.len()
    }

    /// A reader for each server.
    pub(super) async fn warm_up(&self) {
        let looks = (0..self.count()).map(|node| self.read(node, LOCKS));
        futures_util::future::join_all(looks).await;
    }

    pub(super) async fn ask(&self, node: usize, kv: Kv<'_>) -> Result<Reply, CallError> {
        let answer = match kv {
            Kv::Read { key } => {
                let queue = self.read(node, &queue_of(key)).await;
                queue.map(|q| first(&q).map_or(Reply::Nil, |n| Reply::Text(n.clone())))
            }
            Kv::Grant { lease, ttl } => self.grant(node, lease, ttl).await,
            Kv::Create { key, owner, lease } => {
                self.create(node, &queue_of(key), owner, lease).await
            }
            Kv::KeepAlive { lease } => self.keep_alive(node, lease).await,
            Kv::Revoke { lease } => self.revoke(node, lease).await,
        };
        answer.map_err(|error| match error {
            ZkError::NotSent(why) => CallError::NotSent(cut(why)),
            ZkError::Unknown(why) => CallError::Unknown(cut(why)),
            // A session that is over takes no node; every other error may come of a request that is still under way.
            ZkError::Expired => CallError::Server("NOTFOUND".to_owned()),
            ZkError::Refused(_) => CallError::Unknown(Cut::Reset),
        })
    }

    /// What is below a node. A reader whose session ended meanwhile is replaced.
    async fn read(&self, node: usize, path: &str) -> Result<Vec<String>, ZkError> {
        let server = &self.servers[node];
        loop {
            let idle = server.idle.borrow_mut().pop();
            let kept = idle.is_some();
            let mut reader = match idle {
                Some(reader) => reader,
                None => Conn::open(server.at, self.connect_limit, READER).await?,
            };
            match reader.children(path).await {
                Ok(names) => {
                    let mut idle = server.idle.borrow_mut();
                    if idle.len() < READERS_MAX {
                        idle.push(reader);
                    }
                    return Ok(names);
                }
                Err(_) if kept => {}
                Err(why) => return Err(why),
            }
        }
    }

    async fn grant(&self, node: usize, lease: i64, ttl: Duration) -> Result<Reply, ZkError> {
        let conn = Conn::open(self.servers[node].at, self.connect_limit, ttl).await?;
        let session = conn.session();
        let granted = Lease {
            session,
            fresh: Some((node, conn)),
            node: None,
        };
        self.leases.borrow_mut().insert(lease, granted);
        Ok(millis(session))
    }

    async fn create(
        &self,
        node: usize,
        folder: &str,
        owner: &str,
        lease: i64,
    ) -> Result<Reply, ZkError> {
        let fresh = match self.leases.borrow_mut().get_mut(&lease) {
            Some(known) => known.fresh.take(),
            None => return Err(ZkError::Expired),
        };
        let fresh = fresh.filter(|(at, _)| *at == node);
        let again = fresh.is_none();
        let mut conn = match fresh {
            Some((_, conn)) => conn,
            None => self.go_on(node, lease).await?,
        };
        if again {
            // An earlier creation may have been committed, and this server may not have it yet.
            conn.sync().await?;
        }
        let mut queue = conn.children(folder).await?;
        if !queue.iter().any(|name| mine(name, owner)) {
            queue_up(&mut conn, folder, owner).await?;
            queue = conn.children(folder).await?;
        }
        let Some(head) = first(&queue).filter(|name| mine(name, owner)) else {
            return Ok(Reply::Nil);
        };
        let path = format!("{folder}/{head}");
        let Some((created, _)) = conn.exists(&path).await? else {
            return Err(ZkError::Expired);
        };
        if let Some(known) = self.leases.borrow_mut().get_mut(&lease) {
            known.node = Some(path);
        }
        Ok(Reply::Int(created))
    }

    async fn keep_alive(&self, node: usize, lease: i64) -> Result<Reply, ZkError> {
        let path = self
            .leases
            .borrow()
            .get(&lease)
            .and_then(|l| l.node.clone());
        let Some(path) = path else {
            return Ok(Reply::Nil);
        };
        let mut conn = match self.go_on(node, lease).await {
            Ok(conn) => conn,
            Err(ZkError::Expired) => return Ok(Reply::Nil),
            Err(why) => return Err(why),
        };
        match conn.write(&path).await {
            Ok(true) => Ok(millis(conn.session())),
            Ok(false) | Err(ZkError::Expired) => Ok(Reply::Nil),
            Err(why) => Err(why),
        }
    }

    async fn revoke(&self, node: usize, lease: i64) -> Result<Reply, ZkError> {
        if !self.leases.borrow().contains_key(&lease) {
            return Ok(Reply::Nil);
        }
        let ended = match self.go_on(node, lease).await {
            Ok(conn) => conn.close().await,
            Err(why) => Err(why),
        };
        let reply = match ended {
            Ok(()) => Reply::Ok,
            Err(ZkError::Expired) => Reply::Nil,
            Err(why) => return Err(why),
        };
        self.leases.borrow_mut().remove(&lease);
        Ok(reply)
    }

    async fn go_on(&self, node: usize, lease: i64) -> Result<Conn, ZkError> {
        let session = self.leases.borrow().get(&lease).map(|l| l.session);
        let session = session.ok_or(ZkError::Expired)?;
        Conn::go_on(self.servers[node].at, self.connect_limit, session).await
    }
}

/// Creates the attempt's node, and what must be above it.
async fn queue_up(conn: &mut Conn, folder: &str, owner: &str) -> Result<(), ZkError> {
    let path = format!("{folder}/{owner}-");
    match conn.queue(&path).await {
        Err(ZkError::Refused(NO_NODE)) => {
            conn.folder(LOCKS).await?;
            conn.folder(folder).await?;
            conn.queue(&path).await.map(drop)
        }
        done => done.map(drop),
    }
}

fn mine(name: &str, owner: &str) -> bool {
    place(name).is_some_and(|(who, _)| who == owner)
}

fn millis(session: Session) -> Reply {
    Reply::Int(i64::try_from(session.timeout.as_millis()).unwrap_or(i64::MAX))
}
