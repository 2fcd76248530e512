//! `session-expiry`: the ZooKeeper session that carries the holder's lock is ended by somebody else, who knows its id.
//!
//! Proof: the leader, asked directly, lists the session's node before and neither node nor session after, while the holder
//! has not begun to release: by that it ends its session itself.
use super::target;
use super::{Fault, Proof, World, members, probe};
use crate::plan::FaultPlan;
use crate::run::board::Hold;
use crate::zookeeper::{Conn, Session, ZkError, command, first, queue_of};
use async_trait::async_trait;
use std::net::SocketAddr;
use std::time::Duration;

/// Whoever takes the session over asks for this timeout, for the moment until it is closed.
const TIMEOUT: Duration = Duration::from_secs(2);

pub(super) struct SessionExpiry {
    client: String,
    hold: Hold,
    /// The lock key, in full.
    key: String,
    /// Set once it was looked at.
    victim: Option<Victim>,
}

struct Victim {
    session: i64,
    node: String,
}

impl SessionExpiry {
    pub(super) fn new(
        plan: &FaultPlan,
        hold: Option<&Hold>,
        world: &World,
    ) -> Result<Self, String> {
        let hold = hold.cloned().or_else(|| world.board.holder());
        let hold = hold.ok_or("nobody holds the lock")?;
        Ok(Self {
            client: target::client(plan, Some(&hold), world)?,
            key: format!("{}{}", world.prefix, hold.key),
            hold,
            victim: None,
        })
    }
}

#[async_trait(?Send)]
impl Fault for SessionExpiry {
    fn target(&self) -> String {
        self.client.clone()
    }

    fn client(&self) -> Option<&str> {
        Some(&self.client)
    }

    async fn prepare(&mut self, world: &World) -> Result<(), String> {
        let at = leader(world).await?;
        let victim = within(look(at, &self.key)).await?;
        let listed = listed(at).await?;
        if !shows(&listed, &victim) {
            return Err(format!("the leader does not list the session {victim}"));
        }
        self.victim = Some(victim);
        Ok(())
    }

    async fn inject(&mut self, world: &World) -> Result<(), String> {
        let at = leader(world).await?;
        let session = self.victim.as_ref().map(|v| v.session);
        let session = session.ok_or("it was not looked at")?;
        within(async {
            let session = Session::of(session, TIMEOUT);
            Conn::go_on(at, probe::ANSWER, session).await?.close().await
        })
        .await
    }

    async fn bit(&mut self, world: &World) -> Proof {
        let victim = self.victim.as_ref().ok_or("it was not looked at")?;
        probe::retry(|| async {
            let listed = listed(leader(world).await?).await?;
            if shows(&listed, victim) || listed.contains(&id(victim.session)) {
                return Err(format!("the leader still lists the session {victim}"));
            }
            if !world.board.keeps(&self.hold) {
                return Err(format!("the holder ended the session {victim} itself"));
            }
            Ok(format!(
                "the leader lists the session {victim} no more, as it did before, and its holder has not begun to release"
            ))
        })
        .await
    }

    fn momentary(&self) -> bool {
        true
    }

    async fn healed(&mut self, _world: &World) -> Proof {
        Ok("a client opens a session for each try".to_owned())
    }
}

impl std::fmt::Display for Victim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} with {}", id(self.session), self.node)
    }
}

async fn leader(world: &World) -> Result<SocketAddr, String> {
    Ok(world.cluster.direct(members::leader(world).await?))
}

/// The session of the first in a key's queue.
async fn look(at: SocketAddr, key: &str) -> Result<Victim, ZkError> {
    let mut conn = Conn::open(at, probe::ANSWER, TIMEOUT).await?;
    conn.sync().await?;
    let queue = queue_of(key);
    let names = conn.children(&queue).await?;
    let gone = ZkError::Refused(crate::zookeeper::NO_NODE);
    let node = first(&names).map(|name| format!("{queue}/{name}"));
    let node = node.ok_or(gone.clone())?;
    let (_, session) = conn.exists(&node).await?.ok_or(gone)?;
    conn.close().await?;
    Ok(Victim { session, node })
}

/// What the leader says of all sessions and their nodes.
async fn listed(at: SocketAddr) -> Result<String, String> {
    within(command(at, probe::ANSWER, "dump")).await
}

fn shows(listed: &str, victim: &Victim) -> bool {
    listed.contains(&id(victim.session)) && listed.contains(&victim.node)
}

/// As a server writes it.
fn id(session: i64) -> String {
    format!("0x{session:x}")
}

async fn within<T>(call: impl Future<Output = Result<T, ZkError>>) -> Result<T, String> {
    match tokio::time::timeout(probe::ANSWER * 3, call).await {
        Ok(answer) => answer.map_err(|e| e.to_string()),
        Err(_) => Err("no answer".to_owned()),
    }
}
