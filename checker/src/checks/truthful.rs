//! What a call reports equals what the servers hold: an ok acquire is on a quorum, an ok release leaves no quorum.
//!
//! Owns the comparison of answers with what the observer saw. Commands still under way are excepted.
use super::{Answer, CheckInfo, exclusions, no_evidence};
use crate::analysis::{Analysis, Found, finding};
use crate::blame::never_had;
use crate::facts::{Denied, Facts, seconds};
use crate::proof;
use crate::section::{Ended, Ns, Section, usable};
use crate::verdict::{Blame, Class, Finding};

pub(super) const INFO: CheckInfo = CheckInfo {
    name: "truthful",
    class: Class::Library,
    about: "a library reported a grant that no quorum held, or a release that left the key on a quorum",
    invariant: "I6",
    run,
};

fn run(a: &mut Analysis) -> Answer {
    let mut found = exclusions(a, "truthful");
    let unknown = no_evidence(a);
    if unknown.is_none() {
        let f = &a.facts;
        let told = (0u32..).zip(&f.sections);
        for (i, s) in told {
            if !a.excluded.contains(&i) {
                granted(f, i, &mut found);
            }
            if s.release == Ended::Ok {
                released(f, i, &mut found);
            }
        }
    }
    if unknown.is_none() {
        for d in a.facts.denied.iter().filter(|d| d.not_yours) {
            denied(&a.facts, d, &mut found);
        }
    }
    Answer {
        found,
        unknown,
        note: None,
    }
}

fn granted(f: &Facts, i: u32, found: &mut Found) {
    let Some(nodes) = never_had(f, i) else {
        return;
    };
    let s = f.section(i);
    let client = f.names.text(s.client);
    found.add(None, || {
        let (key, when) = (f.names.text(s.key), seconds(s.ret));
        let (all, quorum) = (f.model().nodes, f.model().quorum);
        let sentence = format!(
            "A ({client}) was told at {when} that it holds {key}, but its value was on {nodes} of {all} nodes at most, {quorum} needed"
        );
        let blame = Blame::Library(client.to_owned());
        finding(f, "truthful", blame, s.ret, &[i], sentence)
            .proved(proof::truthful::granted(f, i, nodes))
    });
}

/// A release that was told that the lock is not its caller's, while a quorum held the caller's value from before the
/// call until after it.
fn denied(f: &Facts, d: &Denied, found: &mut Found) {
    let s = f.section(d.section);
    if f.owned_by(s.owner) != Some(d.section) {
        return;
    }
    // The thread that held it has ended: whoever asks now is another, and it is not theirs.
    if s.died && s.over <= d.ret {
        return;
    }
    // Past its lease a value may stand there that the server would give to nobody any more.
    if d.ret > s.start.saturating_add(usable(s.lease, f.model())) {
        return;
    }
    let stays = f.servers.stays(s.key, s.owner, d.inv);
    let there = stays.iter().filter(|stay| {
        let gone = stay.loss.map(|l| f.servers.at(l.seen).not_before);
        stood_by(f, s, stay.set) <= d.inv && gone.is_none_or(|at| at > d.ret)
    });
    let nodes = there.count();
    // Where one of several nodes decides (a primary), the call may have asked another than the one that holds it.
    let model = f.model();
    let needed = if model.quorum == 1 {
        model.nodes
    } else {
        model.quorum
    };
    if nodes < needed as usize {
        return;
    }
    let client = f.names.text(s.client);
    found.add(None, || {
        let sentence = format!(
            "A ({client}) was told at {} that {} is not its own, while {nodes} of {} nodes held its value",
            seconds(d.ret),
            f.names.text(s.key),
            f.model().nodes,
        );
        let blame = Blame::Library(client.to_owned());
        finding(f, "truthful", blame, d.ret, &[d.section], sentence)
            .proved(proof::truthful::denied(f, d, nodes))
    });
}

/// When the value of `s` stood there at the latest, where its `set` is the one at this position. The observer may tell of
/// it later than of all that the caller has done since; on one server the answer that gave the lock, as the tap saw it, is
/// older than that, and the same `set`'s if there was no other.
fn stood_by(f: &Facts, s: &Section, set: u32) -> Ns {
    let seen = f.servers.at(set);
    let alone = f.model().nodes == 1 && f.servers.sets_of(s.owner).count() == 1;
    if alone && seen.not_before <= s.quorum {
        seen.at.min(s.quorum)
    } else {
        seen.at
    }
}

/// An ok release after which so many nodes still had the value that it was not gone from a quorum.
fn released(f: &Facts, i: u32, found: &mut Found) {
    let s = f.section(i);
    if f.owned_by(s.owner) != Some(i) {
        return;
    }
    let reads = f.servers.reads_of(s.owner).map(|p| f.servers.at(p));
    let reads = reads.filter(|e| {
        // A server that restarted may have lost the removal, and no library can help that.
        let restarted = || f.servers.restarted(e.node, s.release_inv, e.at);
        e.key == s.key && e.not_before > s.release_ret && !restarted()
    });
    let reads = reads.map(|e| (e.node, e.not_before, e.at));
    // The first read of each node.
    let mut nodes: Vec<(u32, Ns, Ns)> = reads.collect();
    nodes.sort_unstable();
    nodes.dedup_by_key(|n| n.0);
    let (all, quorum) = (f.model().nodes as usize, f.model().quorum as usize);
    if nodes.len() + quorum <= all {
        return;
    }
    let client = f.names.text(s.client);
    found.add(None, || {
        let sentence = format!(
            "A ({client}) was told at {} that {} was released, but {} of {all} nodes still had its value after that",
            seconds(s.release_ret),
            f.names.text(s.key),
            nodes.len(),
        );
        let blame = Blame::Library(client.to_owned());
        let shown = nodes.iter().map(|n| n.2).max().unwrap_or(s.release_ret);
        Finding {
            at: s.release_ret,
            ..finding(f, "truthful", blame, shown, &[i], sentence)
        }
        .proved(proof::truthful::released(f, i, &nodes))
    });
}
