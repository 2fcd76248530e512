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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outage {
    /// Nothing.
    None,
    /// Only so many nodes were lost: down, hung, or out of the client's reach.
    Nodes(usize),
    /// Something else, too.
    Other,
}

/// What was wrong in `[from, to]`, for one client or (without) for all.
pub(crate) fn outage(f: &Facts, client: Option<Name>, from: Ns, to: Ns) -> Outage {
    if f.faults.stalled_in(from, to) {
        return Outage::Other;
    }
    outage_in_stalls(f, client, from, to)
}

/// The same, for whoever has stalls of the machine in its bound already (ε).
pub(crate) fn outage_in_stalls(f: &Facts, client: Option<Name>, from: Ns, to: Ns) -> Outage {
    match nodes(f, client, (from, to), &[]).map(|nodes| nodes.len()) {
        None => Outage::Other,
        Some(0) => Outage::None,
        Some(n) => Outage::Nodes(n),
    }
}

/// The nodes that were lost at some time in `[from, to]`, for one client or (without) for all; none if something else was
/// wrong, too, but for faults of the `harmless` kinds.
pub(crate) fn lost<'a>(
    f: &'a Facts,
    client: Option<Name>,
    (from, to): (Ns, Ns),
    harmless: &[&str],
) -> Option<Vec<&'a str>> {
    if f.faults.stalled_in(from, to) {
        return None;
    }
    nodes(f, client, (from, to), harmless)
}

fn nodes<'a>(
    f: &'a Facts,
    client: Option<Name>,
    (from, to): (Ns, Ns),
    harmless: &[&str],
) -> Option<Vec<&'a str>> {
    let mut lost: Vec<&str> = Vec::new();
    let active = f.faults.active(from, to);
    for w in active.filter(|w| !harmless.contains(&w.kind.as_str())) {
        if loses_nodes(w) {
            lost.extend(w.target.split(',').map(str::trim));
        } else if let Some(client) = client.filter(|_| cuts(w)) {
            let mine = links(w).filter(|l| l.0 == f.names.text(client));
            lost.extend(mine.map(|l| l.1));
        } else {
            return None;
        }
    }
    for node in &f.servers.nodes {
        if f.servers.blind(*node, from, to) {
            lost.push(f.names.text(*node));
        }
    }
    lost.sort_unstable();
    lost.dedup();
    Some(lost)
}

/// The window takes whole nodes away.
pub(crate) fn loses_nodes(w: &Window) -> bool {
    LOSES_NODE.contains(&w.kind.as_str())
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

/// How many nodes may be lost without harm: N − q of a quorum; none of a primary and its copies.
pub(crate) fn spare(f: &Facts) -> usize {
    let model = f.model();
    if model.copies() {
        return 0;
    }
    model.nodes.saturating_sub(model.quorum) as usize
}
