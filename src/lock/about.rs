//! What is honestly said of each built-in lock: for `fencepost list locks` and the documents.
//!
//! Owns the registry. Must not know how a lock works; the lock's own file does.

/// One built-in lock.
#[derive(Debug, Clone, Copy)]
pub struct LockInfo {
    /// Its name in workload files.
    pub name: &'static str,
    /// How it works, in one sentence.
    pub about: &'static str,
    /// What it survives.
    pub holds_against: &'static str,
    /// What breaks it.
    pub broken_by: &'static str,
    /// Why it has no fencing tokens, where it has none.
    pub no_fencing: Option<&'static str>,
    /// Servers that it needs: `any`, `1`, or `1 or more, best odd`.
    pub nodes: &'static str,
    /// A control or wrong on purpose: no lock to use.
    pub unsafe_on_purpose: bool,
}

/// Every built-in lock, the controls outermost.
pub const LOCKS: &[LockInfo] = &[
    LockInfo {
        name: "none",
        about: "Control: grants at once to everybody and asks no server.",
        holds_against: "Nothing.",
        broken_by: "Two clients. If a run with it is not caught, the harness is broken, not the lock.",
        no_fencing: Some("it asks no server that could count"),
        nodes: "any",
        unsafe_on_purpose: true,
    },
    LockInfo {
        name: "set-nx-no-ttl",
        about: "SET NX without a time to live; released by a script that compares the owner value.",
        holds_against: "Pauses of the holder: without lease, nothing ends while it sleeps.",
        broken_by: "A holder that dies, or whose release is lost: the lock is held for ever (`deadlock`). A server \
                    that restarts without its data frees it (`service`).",
        no_fencing: None,
        nodes: "1",
        unsafe_on_purpose: true,
    },
    LockInfo {
        name: "set-nx-del",
        about: "SET NX PX with a fresh value; released by a plain DEL, extended by a plain PEXPIRE.",
        holds_against: "Crashes of the holder: the lease ends by itself.",
        broken_by: "A holder that was paused, cut off or slow past its lease: its DEL deletes the next holder's key, \
                    and a third client comes in while the second still works (`ownership`). All that breaks \
                    set-nx-lua breaks it too.",
        no_fencing: None,
        nodes: "1",
        unsafe_on_purpose: true,
    },
    LockInfo {
        name: "set-nx-get-del",
        about: "SET NX PX with a fresh value; the release compares with GET, then deletes with DEL: two steps.",
        holds_against: "Most late releases: the GET sees another's value.",
        broken_by: "A lease that ends between the GET and the DEL: rare on a fast link, likely on a slow one \
                    (`ownership`). All that breaks set-nx-lua breaks it too.",
        no_fencing: None,
        nodes: "1",
        unsafe_on_purpose: true,
    },
    LockInfo {
        name: "set-nx-lua",
        about: "SET NX PX with a fresh value; released and extended by a script that compares the value and acts in \
                one step; a grant that came too late to be of use is given back.",
        holds_against: "Crashes of the holder, late releases, lost answers, and a restart of the server that keeps its \
                        data.",
        broken_by: "A server that loses the key: a restart without data, a failover to a replica that had not got it, \
                    eviction, a clock stepped forward (`service`). A holder that goes on past its lease, as every \
                    lease lock (`overrun`); the option `fencing` counts grants in the same step as the grant, so that \
                    the resource can refuse the late one. The counter lives on the same server and is lost with it.",
        no_fencing: None,
        nodes: "1",
        unsafe_on_purpose: false,
    },
    LockInfo {
        name: "redlock",
        about: "A lease on a majority of N independent servers: SET NX PX on all at once, granted with a quorum of OKs \
                and a validity of lease - elapsed - (1 % + 2 ms) above zero; on failure all are unlocked; extended on \
                a majority within the validity.",
        holds_against: "The loss, hang or partition of a minority of servers; a restart that keeps its data; all that \
                        set-nx-lua holds against.",
        broken_by: "A server that restarts empty and grants again while the lease runs, when the holder had exactly a \
                    quorum (it must wait out the longest lease before it rejoins); a clock stepped forward on a server \
                    of the quorum; with a thin quorum one such server is enough, otherwise quorum - N + (servers held). \
                    A holder that goes on past its lease (`overrun`). It has no fencing tokens: a token must grow \
                    with every grant, and there is nothing here to count with. A counter on one server is lost with \
                    that server, counters on all of them disagree after a minority failed, and to make N counters \
                    agree on the next number is consensus, which Redlock does not have. Its random owner values are \
                    unique but not ordered, so a resource cannot tell a late holder from a new one. If damage must be \
                    ruled out, use a lock on a consensus service (etcd's create revision, ZooKeeper's czxid).",
        no_fencing: Some(
            "its owner values are unique but not ordered, and to agree on an order of grants over N independent servers \
             takes consensus, which it does not have",
        ),
        nodes: "1 or more, best odd",
        unsafe_on_purpose: false,
    },
    LockInfo {
        name: "set-nx-wall",
        about: "set-nx-lua whose validity is counted on the time of day, as many libraries do it.",
        holds_against: "All that set-nx-lua holds against, as long as the client's wall clock goes evenly.",
        broken_by: "A wall clock of the client that is set back during the call: it claims more of the lease than \
                    there is (`validity`). All that breaks set-nx-lua breaks it too.",
        no_fencing: None,
        nodes: "1",
        unsafe_on_purpose: true,
    },
    LockInfo {
        name: "redlock-wall",
        about: "redlock whose validity is counted on the time of day, as many libraries do it.",
        holds_against: "All that redlock holds against, as long as the client's wall clock goes evenly.",
        broken_by: "A wall clock of the client that is set back during the call: it claims more of the lease than \
                    there is (`validity`). All that breaks redlock breaks it too.",
        no_fencing: Some("as for redlock: its owner values are unique but not ordered"),
        nodes: "1 or more, best odd",
        unsafe_on_purpose: true,
    },
    LockInfo {
        name: "etcd",
        about: "A key under a lease of its own on an etcd cluster: the lease is granted, the key created under it if it is \
                not there (create revision 0), the validity is lease - elapsed - (1 % + 2 ms); extended by a keep-alive, \
                released by ending the lease. A member that does not answer is passed over.",
        holds_against: "The loss, hang or partition of a minority of the members, the leader among them, and its change; \
                        restarts; a release that comes late, for a lease is only ever its own; a creation that is still on \
                        its way when it is given up, for its lease is gone then.",
        broken_by: "A holder that goes on past its lease, as every lease lock (`overrun`); the option `fencing` gives out \
                    the key's create revision, which grows with every grant, so that the resource can refuse the late \
                    one. Without a majority of the members nobody gets in. Leases are whole seconds.",
        no_fencing: None,
        nodes: "an etcd cluster, best of 3 or 5 members",
        unsafe_on_purpose: false,
    },
    LockInfo {
        name: "zookeeper",
        about: "An ephemeral sequential node on a ZooKeeper ensemble, in a session of its own: whoever's node has the lowest \
                number holds the lock; another gives its try up and ends its session, and the node with it. The session's \
                timeout is the lease: the validity is lease - elapsed - (1 % + 2 ms). Extended by going on with the session \
                over a new connection, which the leader itself counts anew, and a write that a quorum confirms; released by \
                ending the session. A server that does not answer is passed over.",
        holds_against: "The loss, hang or partition of a minority of the servers, the leader among them; restarts that keep \
                        their data; a release that comes late, for a session is only ever its own; a creation that is still \
                        on its way when it is given up, for its session is over then.",
        broken_by: "Somebody else who ends the session: its password follows from its id. A holder that goes on past its \
                    lease, as every lease lock (`overrun`); the option `fencing` gives out the node's czxid, the transaction \
                    that created it, which grows with every grant, so that the resource can refuse the late one. Without a \
                    majority of the servers nobody gets in.",
        no_fencing: None,
        nodes: "a ZooKeeper ensemble, best of 3 or 5 servers",
        unsafe_on_purpose: false,
    },
    LockInfo {
        name: "perfect",
        about: "Control: the driver itself grants, to one worker at a time, until the release or until it saw the \
                client die; the client only works.",
        holds_against: "Every fault, since no server and no lease takes part. A check that finds anything here is wrong.",
        broken_by: "Nothing that a run can do.",
        no_fencing: Some("the driver grants, and no server counts"),
        nodes: "any",
        unsafe_on_purpose: false,
    },
];

/// The lock of that name.
pub fn lock_info(name: &str) -> Option<&'static LockInfo> {
    LOCKS.iter().find(|l| l.name == name)
}
