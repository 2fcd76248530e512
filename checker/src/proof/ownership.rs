//! Why a command must have changed a key that carried another's grant.
//!
//! Owns the wording. Must not know how it was found.
use super::{exact, let_be};
use crate::facts::Facts;
use crate::section::NEVER;

/// The grant of `owner` stood on the node since the event `set`.
fn carried(f: &Facts, owner: u32, set: u32) -> Vec<String> {
    let s = f.servers.at(set);
    vec![
        let_be(f, "B", owner),
        format!(
            "Then {} on {} carried B's value since {}, and no event took it away before the one below.",
            f.names.text(s.key),
            f.names.text(s.node),
            exact(s.at)
        ),
    ]
}

/// The releases of `by` were the only commands that can have made the event `del`.
pub(crate) fn deleted(f: &Facts, owner: u32, set: u32, del: u32, by: &[u32]) -> Vec<String> {
    let (b, e) = (f.section(owner), f.servers.at(del));
    let mut steps = carried(f, owner, set);
    steps.push(format!(
        "Then the key was deleted between {} and {}, while B was held (until {}) and no release or extension of B \
         was at work.",
        exact(e.not_before),
        exact(e.at),
        exact(b.belief_end)
    ));
    for (i, section) in by.iter().take(4).enumerate() {
        let a = f.section(*section);
        let label = if i == 0 { "A" } else { "another hold" };
        let until = if a.release_ret == NEVER {
            "is not known to have ended".to_owned()
        } else {
            format!("was answered at {}", exact(a.release_ret))
        };
        steps.push(format!(
            "Let {label} be that of {} granted at {}, whose release was invoked at {} and {until}; no other event is \
             the removal of its own value.",
            f.names.text(a.client),
            exact(a.ret),
            exact(a.release_inv)
        ));
    }
    steps.push(format!(
        "But only lock clients delete lock keys, and no other release was under way: {} deleted what was B's, and a \
         release may only remove its own value.",
        if by.len() > 1 { "one of these" } else { "that of A" }
    ));
    steps
}

/// The extension of `by` was confirmed around the event `expire`.
pub(crate) fn retimed(f: &Facts, owner: u32, set: u32, expire: u32, by: u32) -> Vec<String> {
    let (b, e) = (f.section(owner), f.servers.at(expire));
    let mut steps = carried(f, owner, set);
    steps.push(format!(
        "Then the key's time to live was set anew between {} and {}, while B was held (until {}) and no release or \
         extension of B was at work.",
        exact(e.not_before),
        exact(e.at),
        exact(b.belief_end)
    ));
    steps.push(let_be(f, "A", by));
    let around = f.extensions_of(by).iter();
    let around = around.filter(|x| x.inv <= e.at && x.ret >= e.not_before);
    for x in around.take(1) {
        steps.push(format!(
            "But A's extension was under way then, from {} until it was answered ok at {}: it re-timed what was B's.",
            exact(x.inv),
            exact(x.ret)
        ));
    }
    steps
}
