//! Damage at the protected resource: stale writes accepted, updates lost.
//!
//! Owns the walk over accepted effects. A write is stale when a grant that was asked for after the writer's own had
//! an effect before it; an update is lost when another's write came between its read and its write.
use super::{Answer, CheckInfo};
use crate::analysis::{Analysis, Found, finding};
use crate::blame::cause;
use crate::facts::{Effect, Facts, seconds};
use crate::proof::{self, effects::Before};
use crate::section::{NO_SECTION, Ns};
use crate::verdict::{Blame, Class};
use std::collections::HashMap;

pub(super) const INFO: CheckInfo = CheckInfo {
    name: "effects",
    class: Class::Damage,
    about: "the protected resource accepted a stale write, or lost an update",
    invariant: "",
    run,
};

/// A key's resource.
#[derive(Debug, Clone, Copy)]
struct Resource {
    /// The section of the latest grant (by invoke) that had an effect, and the time of its first.
    latest: u32,
    latest_at: Ns,
    /// Writes accepted so far, and the section and time of the last.
    writes: u64,
    writer: u32,
    wrote: Ns,
}

fn run(a: &mut Analysis) -> Answer {
    let f = &a.facts;
    let mut found = Found::default();
    let mut resources: HashMap<u32, Resource> = HashMap::new();
    // Writes accepted when a section read last, and when that was.
    let mut reads: HashMap<u32, (u64, Ns)> = HashMap::new();
    for e in &f.effects {
        let s = f.section(e.section);
        let r = resources.entry(s.key).or_insert(Resource {
            latest: e.section,
            latest_at: e.time,
            writes: 0,
            writer: NO_SECTION,
            wrote: 0,
        });
        if e.write {
            let later = f.section(r.latest).inv > s.ret && !f.section(r.latest).same_owner(s);
            let read = reads.remove(&e.section);
            let lost = read.filter(|(n, _)| *n < r.writes && r.writer != e.section);
            let before = Before {
                stale: later.then_some(r.latest_at),
                lost: lost.map(|(_, read)| (read, r.wrote, r.writer)),
            };
            let other = if later {
                Some(r.latest)
            } else {
                lost.map(|_| r.writer)
            };
            if let Some(other) = other {
                report(f, e, other, before, &mut found);
            }
            r.writes += 1;
            (r.writer, r.wrote) = (e.section, e.time);
        } else {
            reads.insert(e.section, (r.writes, e.time));
        }
        if s.inv > f.section(r.latest).inv {
            (r.latest, r.latest_at) = (e.section, e.time);
        }
    }
    Answer {
        found,
        unknown: f
            .effects
            .is_empty()
            .then(|| "no effects were recorded".to_owned()),
        note: None,
    }
}

fn report(f: &Facts, e: &Effect, other: u32, before: Before, found: &mut Found) {
    let (s, o) = (f.section(e.section), f.section(other));
    let client = f.names.text(s.client);
    let over = e.time >= s.promise_end;
    if over && f.faults.stalled_in(s.inv, e.time) {
        found.excused += 1;
    }
    found.add(None, || {
        let blame = if over {
            Blame::Client(client.to_owned())
        } else if o.ret < s.promise_end && s.ret < o.promise_end {
            // Both were promised it at once: the blame is that of the exclusion.
            cause(f, e.section, other).blame
        } else {
            Blame::Client(f.names.text(o.client).to_owned())
        };
        let what = match (before.stale, before.lost) {
            (Some(_), Some(_)) => "a stale write, and an update lost",
            (Some(_), None) => "a stale write",
            (None, _) => "an update lost",
        };
        let promise = if over {
            format!(", whose promise had ended at {},", seconds(s.promise_end))
        } else {
            String::new()
        };
        let sentence = format!(
            "the resource of {} accepted {what}, at {}: A ({client}){promise} wrote version {} after B ({}), granted at {}",
            f.names.text(s.key),
            seconds(e.time),
            e.version,
            f.names.text(o.client),
            seconds(o.ret),
        );
        finding(f, "effects", blame, e.time, &[e.section, other], sentence)
            .proved(proof::effects::effects(f, e, other, before))
    });
}
