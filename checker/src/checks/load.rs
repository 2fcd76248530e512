//! Commands a second stay bounded during an outage.
//!
//! Owns the counting of commands on the wire, server by server and second by second, while a fault stands. The bound
//! is the model's `load_max`, which whoever made the load derives from it: so many workers, each with a pause between two
//! tries, and so many commands a try. Only a tap sees commands; without one it is not judged.
use super::{Answer, CheckInfo};
use crate::analysis::{Analysis, Found, finding_on};
use crate::facts::{Facts, seconds};
use crate::names::NONE;
use crate::proof;
use crate::section::Ns;
use crate::verdict::{Blame, Class};

pub(super) const INFO: CheckInfo = CheckInfo {
    name: "load",
    class: Class::Liveness,
    about: "during an outage more commands a second were sent to a server than the workers' pauses allow",
    invariant: "I11",
    run,
};

const SECOND: Ns = 1_000_000_000;

fn run(a: &mut Analysis) -> Answer {
    let f = &a.facts;
    let Some(max) = f.model().load_max else {
        return Answer::unknown("not asked: no bound on commands a second is stated");
    };
    if f.commands.is_empty() {
        return Answer::unknown("no tap counted commands");
    }
    let mut found = Found::default();
    let mut seconds_judged = 0u64;
    let mut most = 0u64;
    for ((node, second), count) in &f.commands {
        let from = second * SECOND;
        let to = from.saturating_add(SECOND);
        if !whole_outage(f, from, to) {
            continue;
        }
        seconds_judged += 1;
        most = most.max(*count);
        if *count as f64 > max {
            report(f, *node, from, *count, max, &mut found);
        }
    }
    let unknown = (seconds_judged == 0).then(|| "no fault stood for a whole second".to_owned());
    Answer {
        found,
        unknown,
        note: Some(format!(
            "at most {most} commands a second and server in {seconds_judged} seconds of outage, {max:.0} are allowed"
        )),
    }
}

/// One fault stood all through.
fn whole_outage(f: &Facts, from: Ns, to: Ns) -> bool {
    f.faults.active(from, to).any(|w| {
        let (start, end) = w.span();
        start <= from && end >= to && !w.lasting()
    })
}

fn report(f: &Facts, node: u32, from: Ns, count: u64, max: f64, found: &mut Found) {
    found.add(None, || {
        let sentence = format!(
            "{count} commands were sent to {} in the second from {} on, while a fault stood, though the workers' pauses \
             allow {max:.0} at most",
            f.names.text(node),
            seconds(from),
        );
        let span = (from, from.saturating_add(SECOND));
        finding_on(f, "load", Blame::Unknown, NONE, span, &[], sentence)
            .proved(proof::load::load(f, node, span, count, max))
    });
}
