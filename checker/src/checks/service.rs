//! Two promises at once, by the servers' doing or without a known cause.
//!
//! Owns the verdict on exclusions. The sweep itself is in `analysis`, the search for the cause in `blame`.
use super::{Answer, CheckInfo, exclusions};
use crate::analysis::{Analysis, Found, finding};
use crate::facts::{Facts, seconds};
use crate::verdict::{Blame, Class, Finding};
use crate::{proof, tries};

pub(super) const INFO: CheckInfo = CheckInfo {
    name: "service",
    class: Class::Service,
    about: "two clients held a promise of one lock at once, by the servers' doing or for no known reason",
    invariant: "I1",
    run,
};

fn run(a: &mut Analysis) -> Answer {
    let mut found = exclusions(a, "service");
    strangers(&a.facts, &mut found);
    in_vain(&a.facts, &mut found);
    let mut notes = Vec::new();
    if a.latent > 0 {
        notes.push(format!(
            "{} promises ended early with no second holder (latent)",
            a.latent
        ));
    }
    if a.facts.model().waits && a.facts.model().ttl_ms.is_some() {
        notes.push(
            "calls wait inside, so leases are counted from their invokes: double grants after long waits are missed"
                .to_owned(),
        );
    }
    Answer {
        found,
        unknown: a
            .facts
            .sections
            .is_empty()
            .then(|| "nothing was granted".to_owned()),
        note: (!notes.is_empty()).then(|| notes.join("; ")),
    }
}

/// Without a lease, an ok release by a process that holds nothing is a violation.
fn strangers(f: &Facts, found: &mut Found) {
    if f.model().ttl_ms.is_some() {
        return;
    }
    for s in &f.strangers {
        let key = f.names.text(s.key);
        found.add(None, || Finding {
            check: "service".to_owned(),
            blame: Blame::Unknown,
            sentence: format!(
                "{} (process {}) released {key} at {}, and was told ok, but did not hold it",
                f.names.text(s.client),
                s.process,
                seconds(s.ret)
            ),
            proof: proof::stranger(key, f.names.text(s.client), (s.inv, s.ret)),
            at: s.ret,
            key: Some(key.to_owned()),
            ..finding(f, "service", Blame::Unknown, s.inv, &[], String::new())
        });
    }
}

/// Without a lease, a try that was told "held" while nobody can have held the lock.
fn in_vain(f: &Facts, found: &mut Found) {
    for (t, around) in tries::in_vain(f) {
        let key = f.names.text(t.key);
        found.add(None, || Finding {
            sentence: format!(
                "{} was told that {key} was held, but from {} to {} nobody can have held it",
                f.names.text(t.client),
                seconds(t.inv),
                seconds(t.ret)
            ),
            proof: proof::in_vain(key, f.names.text(t.client), (t.inv, t.ret), around),
            at: t.ret,
            key: Some(key.to_owned()),
            ..finding(f, "service", Blame::Unknown, t.inv, &[], String::new())
        });
    }
}
