//! The table of checks: one file each, registered here and nowhere else.
//!
//! Owns the registry, from which `list checks`, the documentation and the verdict's order come. Must not know
//! files or expectations. Results go to the verdict.
pub(crate) mod continuity;
mod coverage;
mod deadlock;
mod effects;
mod fencing;
mod leak;
mod load;
mod minority;
mod notice;
mod overrun;
mod ownership;
mod progress;
mod service;
mod starvation;
mod truthful;
pub(crate) mod validity;

use crate::analysis::{Analysis, Found};
use crate::verdict::{CheckResult, Class, Outcome};

/// A check as `list checks` shows it.
#[derive(Debug, Clone, Copy)]
pub struct CheckInfo {
    /// Name, as in `expect` and in the verdict.
    pub name: &'static str,
    /// Class, whose name in `expect` means all of its checks.
    pub class: Class,
    /// What it finds, in one sentence.
    pub about: &'static str,
    /// The invariant of public bug reports that it looks after (I1 …), or an empty string.
    pub invariant: &'static str,
    run: fn(&mut Analysis) -> Answer,
}

/// All checks, in the order of the verdict.
pub const CHECKS: &[CheckInfo] = &[
    service::INFO,
    overrun::INFO,
    validity::INFO,
    continuity::INFO,
    ownership::INFO,
    truthful::INFO,
    notice::INFO,
    leak::INFO,
    deadlock::INFO,
    progress::INFO,
    minority::INFO,
    load::INFO,
    starvation::INFO,
    fencing::INFO,
    effects::INFO,
    coverage::INFO,
];

/// What a check has to say.
#[derive(Debug, Default)]
struct Answer {
    found: Found,
    /// Why nothing found would not mean that nothing was there.
    unknown: Option<String>,
    /// What its reader must know all the same.
    note: Option<String>,
}

impl Answer {
    /// It cannot be judged, unless something was found.
    fn unknown(why: &str) -> Self {
        Self {
            unknown: Some(why.to_owned()),
            ..Self::default()
        }
    }
}

/// Runs all checks.
pub(crate) fn run_all(a: &mut Analysis) -> Vec<CheckResult> {
    CHECKS
        .iter()
        .map(|info| {
            let answer = (info.run)(a);
            let outcome = match (answer.found.count, &answer.unknown) {
                (1.., _) => Outcome::Violated,
                (0, Some(_)) => Outcome::Unknown,
                (0, None) => Outcome::Valid,
            };
            CheckResult {
                name: info.name.to_owned(),
                class: info.class,
                outcome,
                count: answer.found.count,
                incidents: answer.found.incidents,
                excused: answer.found.excused,
                note: if outcome == Outcome::Unknown {
                    answer.unknown
                } else {
                    answer.note
                },
                findings: answer.found.findings,
            }
        })
        .collect()
}

/// Why server-side evidence is lacking, if it is.
fn no_evidence(a: &Analysis) -> Option<String> {
    if !a.facts.model().observed {
        return Some("no observer watched the servers".to_owned());
    }
    let mut sections = a.facts.sections.iter();
    let named = sections.any(|s| s.owner != crate::names::NONE);
    (!named && !a.facts.sections.is_empty())
        .then(|| "the library does not tell its owner values".to_owned())
}

/// Exclusions that were found to belong under the named check.
fn exclusions(a: &mut Analysis, check: &'static str) -> Found {
    a.exclusions.remove(check).unwrap_or_default()
}
