//! What was lost when: servers down or hung, links cut, and everything else that was wrong.
//!
//! Owns the reading of fault windows as outages of nodes, and of what the observer could not reach. Must not know the
//! plan or the checks. Used by the liveness checks, to say what excuses a failure and what must not cause one.
use crate::facts::Facts;
use crate::faults::Window;
use crate::names::Name;
use crate::section::Ns;

/// The faults that take a node away and do nothing else.
const LOSES_NODE: [&str; 4] = ["node-kill", "node-pause", "node-restart", "node-power-loss"];

/// What was wrong in some time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outage<'a> {
    /// These nodes were lost, perhaps none: down, hung, or out of the client's reach.
    Nodes(Vec<&'a str>),
    /// Something else was wrong, too.
    Other,
}

impl Outage<'_> {
    /// Some nodes were lost, and no more than can be spared.
    pub(crate) fn is_small(&self, f: &Facts) -> bool {
        matches!(self, Self::Nodes(lost) if (1..=spare(f)).contains(&lost.len()))
    }
}

/// What is looked past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Past<'a> {
    /// Nothing: a stall of the machine is something else that was wrong.
    Nothing,
    /// Stalls of the machine: who asks has them in its bound already (ε).
    Stalls,
    /// Those, and faults of this kind.
    StallsAnd(&'a str),
}

/// What was wrong in `[from, to]`, for one client or (without) for all.
pub(crate) fn outage<'a>(
    f: &'a Facts,
    client: Option<Name>,
    (from, to): (Ns, Ns),
    past: Past<'_>,
) -> Outage<'a> {
    if past == Past::Nothing && f.faults.stalled_in(from, to) {
        return Outage::Other;
    }
    let mut lost: Vec<&str> = Vec::new();
    let active = f.faults.active(from, to);
    for w in active.filter(|w| past != Past::StallsAnd(&w.kind)) {
        if loses_nodes(w) {
            lost.extend(w.target.split(',').map(str::trim));
        } else if let Some(member) = cut_off(f, w) {
            lost.push(member);
        } else if let Some(client) = client.filter(|_| cuts(w)) {
            let mine = links(w).filter(|l| l.0 == f.names.text(client));
            lost.extend(mine.map(|l| l.1));
        } else {
            return Outage::Other;
        }
    }
    // What answers for several members is none of them, and the observer's own link to one says nothing of it.
    let nodes = f.servers.nodes.iter().filter(|_| f.model().members == 0);
    let blind = nodes.filter(|n| f.servers.blind(**n, from, to));
    lost.extend(blind.map(|n| f.names.text(*n)));
    lost.sort_unstable();
    lost.dedup();
    Outage::Nodes(lost)
}

/// The member that a window cuts off from the others: the one at an end of each of its links, of which there are several.
fn cut_off<'a>(f: &Facts, w: &'a Window) -> Option<&'a str> {
    if f.model().members == 0 || !cuts(w) {
        return None;
    }
    let mut links = links(w);
    let first = links.next()?;
    let rest: Vec<(&str, &str)> = links
        .filter(|l| *l != first && *l != (first.1, first.0))
        .collect();
    let at_each = |end: &str| rest.iter().all(|l| l.0 == end || l.1 == end);
    let mut ends = [first.0, first.1].into_iter().filter(|end| at_each(end));
    let found = ends.next().filter(|_| !rest.is_empty())?;
    ends.next().is_none().then_some(found)
}

/// The window takes whole nodes away.
pub(crate) fn loses_nodes(w: &Window) -> bool {
    LOSES_NODE.contains(&w.kind.as_str())
}

/// How many servers there are, of which [`spare`] may be lost.
pub(crate) fn servers(f: &Facts) -> u32 {
    match f.model().members {
        0 => f.model().nodes,
        members => members,
    }
}

/// The window cuts links and does nothing else.
fn cuts(w: &Window) -> bool {
    matches!(w.kind.as_str(), "partition" | "quorum-thin")
}

/// The links of a window: `c1>n2,c1>n3`.
fn links(w: &Window) -> impl Iterator<Item = (&str, &str)> {
    let links = w.target.split(',');
    links.filter_map(|l| l.trim().split_once('>'))
}

/// When a lease that was given, or let go of in doubt, at `from` may have been counted anew for the last time before `at`: a
/// new leader of members that agree does that, and whatever befell these may have brought one. `open` tells it of a fault that
/// was not over.
pub(crate) fn counted_anew(f: &Facts, from: Ns, at: Ns, open: impl Fn(&Window) -> Ns) -> Ns {
    if f.model().members == 0 {
        return from;
    }
    let windows = f.faults.active(from, at);
    let of_members = windows.filter(|w| w.client.is_none() && !w.kind.starts_with("client-"));
    of_members.fold(from, |last, w| {
        last.max(w.healed.unwrap_or_else(|| open(w)).min(at))
    })
}

/// How many nodes may be lost without harm: N − q of a quorum; of members that answer as one, less than half; none of a
/// primary and its copies.
pub(crate) fn spare(f: &Facts) -> usize {
    let model = f.model();
    if model.members > 0 {
        return (model.members as usize - 1) / 2;
    }
    if model.copies() {
        return 0;
    }
    model.nodes.saturating_sub(model.quorum) as usize
}
