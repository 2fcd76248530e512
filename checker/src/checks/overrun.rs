//! Two beliefs at once where the promises do not overlap: a holder went on past its lease.
//!
//! Owns nothing but the answer; the sweep is in `analysis`.
use super::{Answer, CheckInfo};
use crate::analysis::Analysis;
use crate::verdict::Class;

pub(super) const INFO: CheckInfo = CheckInfo {
    name: "overrun",
    class: Class::Overrun,
    about: "a holder went on past its lease while the next one held the lock",
    invariant: "I1",
    run,
};

fn run(a: &mut Analysis) -> Answer {
    let found = std::mem::take(&mut a.overrun);
    let note = (found.excused > 0).then(|| {
        format!(
            "{} of {} while the machine itself stood still, by no fault of the plan",
            found.excused, found.count
        )
    });
    Answer {
        found,
        unknown: a
            .facts
            .sections
            .is_empty()
            .then(|| "nothing was granted".to_owned()),
        note,
    }
}
