//! The runs of scorecards: each library through each schedule, again with another seed where it could not be judged.
//!
//! Owns the schedules and the list of known libraries, both built in, so that anybody's adapter gets its card anywhere.
//! Must not know what the runs show: `report::scorecard` reads them.
use crate::plan::{self, Overrides, Plan, PlanError};
use crate::report::scorecard::Subject;
use serde::Deserialize;

/// Name and text of each schedule, as they stand in workloads/scorecard/.
pub const SCHEDULES: &[(&str, &str)] = &[
    (
        "plain",
        include_str!("../../workloads/scorecard/plain.toml"),
    ),
    (
        "late-replies",
        include_str!("../../workloads/scorecard/late-replies.toml"),
    ),
    (
        "pause",
        include_str!("../../workloads/scorecard/pause.toml"),
    ),
    (
        "slow-release",
        include_str!("../../workloads/scorecard/slow-release.toml"),
    ),
    (
        "renew-lost",
        include_str!("../../workloads/scorecard/renew-lost.toml"),
    ),
    (
        "lost-replies",
        include_str!("../../workloads/scorecard/lost-replies.toml"),
    ),
    (
        "lost-requests",
        include_str!("../../workloads/scorecard/lost-requests.toml"),
    ),
    (
        "crash",
        include_str!("../../workloads/scorecard/crash.toml"),
    ),
    (
        "one-node-dead",
        include_str!("../../workloads/scorecard/one-node-dead.toml"),
    ),
    (
        "one-node-hung",
        include_str!("../../workloads/scorecard/one-node-hung.toml"),
    ),
];

/// The schedule that every library is asked first: no fault.
pub const FIRST: &str = "plain";

/// How often a schedule is made with another seed before it stays unknown.
pub const TRIES: u64 = 3;

const LIBRARIES: &str = include_str!("../../adapters/libraries.toml");

/// The libraries of adapters/libraries.toml, in their order.
///
/// # Errors
/// The list is none; it is built in, so that is a defect, and a test holds it.
pub fn libraries() -> Result<Vec<Subject>, toml::de::Error> {
    #[derive(Deserialize)]
    struct File {
        library: Vec<Subject>,
    }
    Ok(toml::from_str::<File>(LIBRARIES)?.library)
}

/// Whether a library can be asked this: schedules that lose one server of several are for those that know several.
pub fn fits(subject: &Subject, schedule: &str) -> bool {
    subject.several || !schedule.starts_with("one-node")
}

/// A schedule's plan for a library, named `<library>--<schedule>`.
///
/// # Errors
/// Mistakes in `over`.
pub fn plan(
    subject: &Subject,
    (schedule, text): (&str, &str),
    over: &Overrides,
) -> Result<Plan, PlanError> {
    let command = subject.command.iter().cloned().map(toml::Value::String);
    let command = toml::Value::Array(command.collect());
    let mut over = over.clone();
    over.set.insert(0, format!("lock.command={command}"));
    let file = format!("workloads/scorecard/{schedule}.toml");
    let mut plans = plan::parse(&file, schedule, text, &over)?.into_iter();
    // The schedules have no variants.
    let mut plan = plans
        .next()
        .unwrap_or_else(|| unreachable!("one plan a file"));
    plan.name = format!("{}--{schedule}", subject.name);
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::scorecard::CHECKS;

    #[test]
    fn each_check_has_its_schedule_and_each_schedule_is_built_in() {
        let names: Vec<&str> = SCHEDULES.iter().map(|s| s.0).collect();
        for check in CHECKS {
            assert!(names.contains(&check.schedule), "{}", check.name);
        }
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/workloads/scorecard");
        let files = std::fs::read_dir(folder)
            .expect("workloads/scorecard")
            .count();
        assert_eq!(files, SCHEDULES.len());
        assert_eq!(names[0], FIRST);
    }

    /// `Redisson` and `ShedLock` tell no owner: none of the class can be judged, and their cards were unknown for it.
    #[test]
    fn no_schedule_asks_for_what_a_library_may_not_offer() {
        for (name, text) in SCHEDULES {
            let plans = plan::parse(name, name, text, &Overrides::default()).expect("a plan");
            let asked = plans[0].expect.contains_key("library");
            assert!(!asked, "{name} expects `library`, which takes owners");
        }
    }

    #[test]
    fn each_library_has_a_plan_of_each_schedule() {
        let libraries = libraries().expect("the list");
        assert!(libraries.len() >= 8);
        for subject in &libraries {
            for schedule in SCHEDULES {
                let over = Overrides::default();
                let plan = plan(subject, *schedule, &over).expect("a plan");
                assert_eq!(plan.lock.command, subject.command);
            }
            for check in subject.known.keys() {
                assert!(CHECKS.iter().any(|c| c.name == check), "{check}");
            }
        }
    }
}
