//! Why a write that the resource accepted did damage.
//!
//! Owns the wording. Must not know how it was found.
use super::{exact, let_be};
use crate::facts::{Effect, Facts};
use crate::section::Ns;

/// What was before a write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Before {
    /// A later grant had had an effect by then, at this time.
    pub stale: Option<Ns>,
    /// The writer had read at this time, and after that, at that time, this section had written.
    pub lost: Option<(Ns, Ns, u32)>,
}

/// The write `e`, of A, came after an effect of `other`, B.
pub(crate) fn effects(f: &Facts, e: &Effect, other: u32, before: Before) -> Vec<String> {
    let (a, b) = (f.section(e.section), f.section(other));
    let mut steps = vec![let_be(f, "A", e.section), let_be(f, "B", other)];
    if let Some(at) = before.stale {
        steps.push(format!(
            "Then B is the later grant: it was asked for at {}, after A had been granted at {}; and the resource had \
             accepted an effect of B at {}.",
            exact(b.inv),
            exact(a.ret),
            exact(at)
        ));
    }
    if let Some((read, wrote, writer)) = before.lost {
        let who = if writer == other {
            "B"
        } else {
            f.names.text(f.section(writer).client)
        };
        steps.push(format!(
            "Then A, which had read at {}, did not know what {who} wrote at {}.",
            exact(read),
            exact(wrote)
        ));
    }
    let what = match (before.stale, before.lost) {
        (Some(_), Some(_)) => {
            "a write of a holder that is no more, over an update that it never saw"
        }
        (Some(_), None) => "a write of a holder that is no more",
        (None, _) => "a write over an update that its writer never saw, which is lost",
    };
    steps.push(format!(
        "But at {} the resource accepted version {} from A: {what}.",
        exact(e.time),
        e.version
    ));
    steps
}
