//! Tokens are unique, and rise in real-time order: token j < token k whenever j returned before k was invoked.
//!
//! Owns the sweep over tokens, O(n log n) a key. Order by cores would give false alarms.
use super::{Answer, CheckInfo};
use crate::analysis::{Analysis, Found, finding};
use crate::facts::{Facts, seconds};
use crate::proof;
use crate::section::NO_TOKEN;
use crate::servers::SeenKind;
use crate::verdict::{Blame, Class};

pub(super) const INFO: CheckInfo = CheckInfo {
    name: "fencing",
    class: Class::Fencing,
    about: "two grants got one fencing token, or a later grant a smaller one",
    invariant: "I10",
    run,
};

fn run(a: &mut Analysis) -> Answer {
    let f = &a.facts;
    // Tokens that nobody asked for are judged, too.
    let given = || f.sections.iter().any(|s| s.token != NO_TOKEN);
    if !f.model().tokens && !given() {
        return Answer::unknown("not asked: the lock gives out no tokens");
    }
    let mut found = Found::default();
    let mut tokens = 0;
    for sections in f.keys() {
        let with = sections.iter().copied();
        let with: Vec<u32> = with.filter(|i| f.section(*i).token != NO_TOKEN).collect();
        tokens += with.len();
        order(f, &with, &mut found);
        unique(f, &with, &mut found);
    }
    Answer {
        found,
        unknown: (tokens == 0).then(|| "no grant carried a token".to_owned()),
        note: None,
    }
}

/// One violation for each grant with a token below that of some grant before it. `by_return` is one key's.
fn order(f: &Facts, by_return: &[u32], found: &mut Found) {
    let mut by_invoke = by_return.to_vec();
    by_invoke.sort_unstable_by_key(|i| (f.section(*i).inv, *i));
    let u = f.uncertainty().saturating_mul(2);
    let mut returned = by_return.iter().copied().peekable();
    let mut highest: Option<u32> = None;
    for k in by_invoke {
        let inv = f.section(k).inv;
        while let Some(j) = returned.next_if(|j| f.section(*j).ret.saturating_add(u) < inv) {
            if highest.is_none_or(|h| f.section(h).token < f.section(j).token) {
                highest = Some(j);
            }
        }
        if let Some(j) = highest.filter(|j| f.section(*j).token > f.section(k).token) {
            report(f, j, k, found);
        }
    }
}

fn unique(f: &Facts, sections: &[u32], found: &mut Found) {
    let mut by_token = sections.to_vec();
    by_token.sort_unstable_by_key(|i| (f.section(*i).token, f.section(*i).ret, *i));
    for two in by_token.windows(2) {
        let (a, b) = (f.section(two[0]), f.section(two[1]));
        // A session that locks again over its own lost unlock keeps its token.
        let again = a.client == b.client && a.release != crate::section::Ended::Ok;
        if a.token == b.token && !again {
            report(f, two[0], two[1], found);
        }
    }
}

fn report(f: &Facts, first: u32, second: u32, found: &mut Found) {
    let (x, y) = (f.section(first), f.section(second));
    let lost = f
        .servers
        .of_nodes()
        .iter()
        .map(|i| f.servers.at(*i))
        .find(|e| {
            let loses = matches!(
                e.kind,
                SeenKind::Restarted | SeenKind::Flushed | SeenKind::Promoted
            );
            loses && e.at >= x.inv && e.not_before <= y.ret
        });
    let blame = if lost.is_some() {
        Blame::Service
    } else {
        Blame::Unknown
    };
    found.add(None, || {
        let cause = lost.map_or(String::new(), |e| {
            format!(
                ": {} {} by {}",
                f.names.text(e.node),
                e.kind.name(),
                seconds(e.at)
            )
        });
        let sentence = format!(
            "B ({}) was granted {} at {} with token {}, after A ({}) at {} with token {}{cause}",
            f.names.text(y.client),
            f.names.text(y.key),
            seconds(y.ret),
            y.token,
            f.names.text(x.client),
            seconds(x.ret),
            x.token,
        );
        finding(f, "fencing", blame, y.ret, &[first, second], sentence)
            .proved(proof::fencing::fencing(f, first, second))
    });
}
