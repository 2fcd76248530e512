//! Two promises at once, by the servers' doing or without a known cause.
//!
//! Owns the verdict on exclusions. The sweep itself is in `analysis`, the search for the cause in `blame`.
use super::{Answer, CheckInfo, exclusions};
use crate::analysis::{Analysis, Found, finding_on};
use crate::facts::{Facts, seconds};
use crate::names::Name;
use crate::section::{NEVER, Ns};
use crate::verdict::{Blame, Class};
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
    // Where an event does not fit, it may be the one that granted it.
    if f.model().ttl_ms.is_some() || f.anomalies > 0 {
        return;
    }
    for s in &f.strangers {
        let (key, client) = (f.names.text(s.key), f.names.text(s.client));
        found.add(None, || {
            let sentence = format!(
                "{client} (process {}) released {key} at {}, and was told ok, but did not hold it",
                s.process,
                seconds(s.ret)
            );
            let span = (s.inv, s.ret);
            finding_on(f, "service", Blame::Unknown, s.key, span, &[], sentence)
                .proved(proof::service::stranger(f, s))
        });
    }
}

/// Without a lease, a try that was told "held" while nobody can have held the lock.
fn in_vain(f: &Facts, found: &mut Found) {
    // As for strangers: whoever held it then may be an event that does not fit.
    if f.anomalies > 0 {
        return;
    }
    for (t, around) in tries::in_vain(f) {
        found.add(None, || {
            let sentence = format!(
                "{} was told that {} was held, but from {} to {} nobody can have held it",
                f.names.text(t.client),
                f.names.text(t.key),
                seconds(t.inv),
                seconds(t.ret)
            );
            let beside = beside(f, t.key, t.inv);
            let sections: Vec<u32> = [beside.0, beside.1].into_iter().flatten().collect();
            let span = (t.inv, t.ret);
            finding_on(
                f,
                "service",
                Blame::Unknown,
                t.key,
                span,
                &sections,
                sentence,
            )
            .proved(proof::service::in_vain(f, &t, around, beside))
        });
    }
}

/// The last section that was granted before `at`, and the first after it.
fn beside(f: &Facts, key: Name, at: Ns) -> (Option<u32>, Option<u32>) {
    let before = f.granted_in(key, 0, at).last().copied();
    let after = f
        .granted_in(key, at.saturating_add(1), NEVER)
        .first()
        .copied();
    (before, after)
}
