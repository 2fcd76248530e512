//! How a hold ends by its worker's own release.
//!
//! Owns what a release may have done that failed, that has no definite answer, or whose worker held nothing. Must not know the
//! checks. Used by `collect`.
use super::Collector;
use crate::event::{Event, EventType};
use crate::facts::{Denied, Ghost, Stranger};
use crate::model::LockKind;
use crate::mutant::{self, Mutant};
use crate::operation::{Open, is_not_yours};
use crate::section::{Ended, NEVER, NO_SECTION, Ns};

impl Collector {
    /// Where the release of its last permit was begun already, the next release is of the one below.
    pub(super) fn next_permit(&mut self, seat: u32) {
        let hold = self.seats.hold(seat);
        if let Some(s) = self.facts.sections.get(hold.section as usize)
            && s.release != Ended::Not
            && s.below != NO_SECTION
        {
            (hold.section, hold.depth, hold.undone) = (s.below, 1, 0);
        }
    }

    pub(super) fn release_begins(&mut self, crowd: u32, section: u32, at: Ns) {
        let s = &mut self.facts.sections[section as usize];
        // With a lease, the first release ends the hold whatever its answer.
        if s.release_inv == NEVER {
            if s.hold_end() == NEVER {
                self.crowds.let_go(crowd, at);
            }
            s.release_inv = at;
            s.release = Ended::Open;
        }
    }

    /// The answer to a release.
    pub(super) fn released(&mut self, process: u64, open: Open, event: &Event<'_>) {
        let leased = self.facts.header.model.ttl_ms.is_some();
        let hold = self.seats.hold(open.seat);
        let section = hold.section;
        // Where a worker may hold several, or several times, a release that it was not sure of may not have happened.
        let several = self.facts.header.model.kind != LockKind::Mutex;
        let stranger = !(several && hold.most > 0);
        if event.kind == EventType::Ok {
            hold.most = hold.most.saturating_sub(1);
        }
        // An acquire that another process of its worker began may have been granted meanwhile.
        let doubt = hold.doubt.min(hold.asks);
        if section == NO_SECTION || open.subject == NO_SECTION {
            if stranger || doubt != NEVER {
                self.released_nothing(process, open, doubt, event);
            }
            return;
        }
        let crowd = self.seats.get(open.seat).crowd;
        if event.kind == EventType::Fail {
            self.facts.denied.push(Denied {
                section,
                inv: open.inv,
                ret: event.time,
                not_yours: is_not_yours(event),
            });
            let hold = self.seats.hold(open.seat);
            hold.undone = hold.undone.saturating_sub(1);
        }
        let s = &mut self.facts.sections[section as usize];
        // Inside of a reentrant hold.
        if s.release == Ended::Not {
            return;
        }
        // An earlier one was begun, and may have happened.
        let again = s.release_inv < open.inv;
        // One of its other acquires may have been granted late, and this may have let go of it.
        let cleans_up = match s.release {
            Ended::Open => again || event.kind == EventType::Info,
            _ => true,
        };
        match (s.release, event.kind) {
            // Whichever of them did it: it is done now.
            (Ended::Info, EventType::Ok) if !leased => s.release_ret = event.time,
            (Ended::Open, EventType::Ok) => {
                s.release = Ended::Ok;
                // Another process of its worker may have begun it, by a later stamp.
                s.release_ret = event.time.max(s.release_inv);
            }
            (Ended::Open, EventType::Fail) if again => {}
            // A failed release did not happen: without a lease the hold goes on.
            (Ended::Open, EventType::Fail) if !leased => {
                s.release = Ended::Not;
                s.release_inv = NEVER;
                self.crowds.holds_on(crowd);
            }
            (Ended::Open, EventType::Fail) => {
                s.release = Ended::Fail;
                s.release_ret = event.time.max(s.release_inv);
            }
            (Ended::Open, _) if !again => {
                s.release = Ended::Info;
                self.crowds.gave_up(crowd, event.time);
            }
            _ => {}
        }
        if event.kind == EventType::Ok && !leased {
            let below = s.below;
            let hold = self.seats.hold(open.seat);
            (hold.section, hold.depth, hold.undone) = (below, 1, 0);
        }
        if cleans_up && doubt != NEVER {
            self.released_nothing(process, open, doubt, event);
        }
    }

    /// A release of a worker that was granted nothing that it did not release: a stranger's, or clean-up.
    fn released_nothing(&mut self, process: u64, open: Open, doubt: Ns, event: &Event<'_>) {
        if event.kind == EventType::Fail {
            return;
        }
        let known = event.kind == EventType::Ok;
        if doubt != NEVER && !mutant::wrong(Mutant::CleanUp) {
            self.facts.ghosts.push(Ghost {
                key: open.key,
                inv: doubt,
                release: (open.inv, if known { event.time } else { NEVER }),
            });
        } else if known {
            self.facts.strangers.push(Stranger {
                key: open.key,
                client: open.client,
                process,
                inv: open.inv,
                ret: event.time,
            });
        }
    }
}
