//! Extensions: a successful one means that nobody else owned the key since the last confirmed moment, and that the
//! servers moved the lease.
//!
//! Owns the rules on `extend`. Exclusions that come of a false extension are found by `blame`.
use super::{Answer, CheckInfo, exclusions};
use crate::analysis::{Analysis, finding};
use crate::blame::appliers;
use crate::facts::{Facts, seconds};
use crate::proof;
use crate::section::{Ended, Extension, usable};
use crate::verdict::{Blame, Class};

pub(super) const INFO: CheckInfo = CheckInfo {
    name: "continuity",
    class: Class::Library,
    about: "an extension was reported ok though another had owned the key, its own time was over, or no quorum applied it",
    invariant: "I3",
    run,
};

fn run(a: &mut Analysis) -> Answer {
    let mut found = exclusions(a, "continuity");
    let f = &a.facts;
    let mut last: Option<Extension> = None;
    for e in &f.extensions {
        let s = f.section(e.section);
        let before = last.filter(|l| l.section == e.section && l.ended == Ended::Ok);
        let confirmed = before.map_or(s.ret, |l| l.ret);
        last = Some(*e);
        // What the library made by itself, it reported to nobody.
        if e.ended != Ended::Ok || e.wire {
            continue;
        }
        let mut wrong = another(f, e, confirmed);
        if wrong.is_none() && !e.told {
            wrong = late(f, e).or_else(|| unapplied(f, e));
        }
        if let Some(wrong) = wrong {
            let client = f.names.text(s.client);
            found.add(None, || {
                let key = f.names.text(s.key);
                let when = seconds(e.ret);
                let what = wrong.what(f, e);
                let sentence =
                    format!("A ({client}) was told at {when} that {key} was extended: {what}");
                let mut sections = vec![e.section];
                if let Wrong::Another(other) = wrong {
                    sections.push(other);
                }
                let blame = Blame::Library(client.to_owned());
                finding(f, "continuity", blame, e.ret, &sections, sentence)
                    .proved(proof::continuity::continuity(f, e, confirmed, wrong))
            });
        }
    }
    let none = f.extensions.is_empty();
    Answer {
        found,
        unknown: none.then(|| "nothing was extended".to_owned()),
        note: None,
    }
}

/// What is wrong with an extension that was answered ok.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wrong {
    /// This section held meanwhile.
    Another(u32),
    /// It was answered after the time that it could add.
    Late,
    /// At most so many nodes applied it.
    Unapplied(usize),
}

impl Wrong {
    fn what(self, f: &Facts, e: &Extension) -> String {
        match self {
            Self::Another(other) => {
                let b = f.section(other);
                format!(
                    "B ({}) had been granted it at {}",
                    f.names.text(b.client),
                    seconds(b.ret)
                )
            }
            Self::Late => format!(
                "all that it can have added was over at {}",
                seconds(e.inv.saturating_add(usable(e.lease, f.model())))
            ),
            Self::Unapplied(applied) => format!(
                "at most {applied} of {} nodes applied it, {} needed",
                f.model().nodes,
                f.model().quorum
            ),
        }
    }
}

/// Somebody else was granted the key between two confirmed moments.
fn another(f: &Facts, e: &Extension, confirmed: u64) -> Option<Wrong> {
    let s = f.section(e.section);
    let granted = f.granted_in(s.key, confirmed, e.inv);
    let mut others = granted.iter().copied();
    let other = others.find(|i| {
        let b = f.section(*i);
        *i != e.section
            && !b.same_owner(s)
            && b.inv >= confirmed
            && crate::blame::never_had(f, *i).is_none()
    });
    other.map(Wrong::Another)
}

/// Answered after the time that it could add, with nothing that delayed the answer behind the library's back.
fn late(f: &Facts, e: &Extension) -> Option<Wrong> {
    let end = e.inv.saturating_add(usable(e.lease, f.model()));
    let client = f.names.text(f.section(e.section).client);
    let delayed = f.faults.stopped_in(client, e.inv, e.ret) || f.faults.stalled_in(e.inv, e.ret);
    (e.ret >= end && !delayed).then_some(Wrong::Late)
}

/// No quorum of nodes shows it.
fn unapplied(f: &Facts, e: &Extension) -> Option<Wrong> {
    let s = f.section(e.section);
    let model = f.model();
    let shown = model.observed && !model.silent_renewals;
    let known = shown && f.ended && f.owned_by(s.owner) == Some(e.section);
    // Where the value itself was never seen, the key is no plain string, or the grant was a lie of its own.
    if !known || f.servers.sets_of(s.owner).next().is_none() {
        return None;
    }
    let applied = appliers(f, e);
    (applied < model.quorum as usize).then_some(Wrong::Unapplied(applied))
}
