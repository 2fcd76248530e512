//! Where a library promises renewal, or a notice of loss: its holder knows at or before its lease's end.
//!
//! Owns only the choice of overruns that nothing forced: no stop of the client, no fault, no stall meanwhile.
use super::{Answer, CheckInfo};
use crate::analysis::{Analysis, Found, finding};
use crate::facts::{length, seconds};
use crate::proof;
use crate::verdict::{Blame, Class};

pub(super) const INFO: CheckInfo = CheckInfo {
    name: "notice",
    class: Class::Library,
    about: "a library that promises renewal or a notice let its holder go on past its lease, with nothing in its way",
    invariant: "I7",
    run,
};

fn run(a: &mut Analysis) -> Answer {
    if !a.facts.model().promises_notice {
        return Answer::unknown("not asked: the library promises neither renewal nor a notice");
    }
    let f = &a.facts;
    let mut found = Found::default();
    for pair in &a.unforced {
        let (s, b) = (f.section(pair.a), f.section(pair.b));
        let client = f.names.text(s.client);
        let blame = Blame::Library(client.to_owned());
        found.add(Some(pair.cluster), || {
            let zombie = length(s.belief_end.min(pair.to).saturating_sub(s.promise_end));
            let sentence = format!(
                "A ({client}) was not told that its lease of {} ended at {}: it went on for {zombie}, while B ({}) held it from {}",
                f.names.text(s.key),
                seconds(s.promise_end),
                f.names.text(b.client),
                seconds(b.ret),
            );
            finding(f, "notice", blame, pair.from, &[pair.a, pair.b], sentence)
                .proved(proof::notice::notice(f, *pair))
        });
    }
    Answer {
        found,
        ..Answer::default()
    }
}
