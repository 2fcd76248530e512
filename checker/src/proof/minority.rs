//! Why releases and extensions should have succeeded while a minority of the servers was lost.
//!
//! Owns the wording. Must not know how it was found.
use super::{exact, let_be};
use crate::facts::{Facts, length};
use crate::outage::{servers, spare};
use crate::section::Ns;

/// Failures shown, at most.
const SHOWN: usize = 4;

/// These calls of `all`, each of a section, did not succeed; `spare` servers may be lost without harm.
pub(crate) fn in_vain(
    f: &Facts,
    failed: &[(u32, Ns, &str)],
    all: usize,
    spare: usize,
) -> Vec<String> {
    let mut steps = Vec::new();
    for (n, (i, inv, op)) in failed.iter().take(SHOWN).enumerate() {
        let label = char::from(b'A' + n as u8).to_string();
        steps.push(format!(
            "{} Its {op} was invoked at {} and did not succeed.",
            let_be(f, &label, *i),
            exact(*inv)
        ));
    }
    steps.push(format!(
        "Then {} of {} servers or more granted each of these holds in the outage in which its call failed, and no \
         more than {spare} servers were lost all along; each call was invoked in the first half of the lease.",
        servers(f) as usize - spare,
        servers(f)
    ));
    steps.push(format!(
        "But the servers that granted were there, and {} of {all} such calls did not succeed: were one in twenty spoiled by \
         a slow machine, so many would be in less than one of a thousand runs.",
        failed.len()
    ));
    steps
}

/// Nobody was granted a key since then.
pub(crate) fn nobody(f: &Facts, since: Ns, tries: usize, last: (Ns, Ns), bound: Ns) -> Vec<String> {
    let (all, spare) = (servers(f), spare(f));
    vec![
        format!(
            "Let S be the time from {} on, in which no more than {} of {} servers were lost, nothing else was wrong, and \
             nobody held the lock.",
            exact(since),
            spare,
            all
        ),
        format!(
            "Then {tries} tries were answered in S, and none was a grant; the last was invoked at {} and answered at {}.",
            exact(last.0),
            exact(last.1)
        ),
        format!(
            "But whatever had been left on the servers by then was gone after {}, and {} servers were there: that is {} \
             later.",
            length(bound),
            all as usize - spare,
            length(last.0.saturating_sub(since))
        ),
    ]
}
