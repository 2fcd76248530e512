//! A comparison as tables: a row a system.
//!
//! Owns which figures stand in which table and how they are written. Must not know a format.
use super::figures::{FIGURES, Finding, Valued, checks_found};
use super::tests::tests;
use super::{Comparison, System, VERSION};
use crate::report::latency;
use crate::report::tables::{NONE, Table, total};
use fencepost_checker::stats::{self, DRAWS, EXHAUSTIVE};

/// The systems themselves.
pub(super) fn systems(c: &Comparison) -> Table {
    let mut t = Table::new(
        &["system", "lock", "servers", "fence", "episodes", "grants"],
        4,
        2,
    );
    for s in &c.systems {
        let grants = total(s.episodes.iter().map(|e| e.grants));
        t.rows.push(vec![
            s.label.clone(),
            s.lock.clone(),
            s.servers.clone(),
            s.fence.clone(),
            s.episodes.len().to_string(),
            grants.to_string(),
        ]);
    }
    t
}

/// What was found, a row for each check and system, so that the table is as narrow with many checks as with one: the
/// share of episodes, and incidents per million grants.
pub(super) fn findings(c: &Comparison) -> Table {
    let head = [
        "check",
        "system",
        "episodes (95 %)",
        "incidents per million grants (95 %)",
    ];
    let mut t = Table::new(&head, 2, 2);
    for check in checks_found(c) {
        for s in &c.systems {
            let f = Finding::of(s, &check);
            let rate = f.rate().map_or_else(|| NONE.to_owned(), |v| valued(&v, 0));
            t.rows
                .push(vec![check.clone(), s.label.clone(), share(&f), rate]);
        }
    }
    t
}

fn share(f: &Finding) -> String {
    if f.judged == 0 {
        return NONE.to_owned();
    }
    if f.episodes == 0 {
        let most = 100.0 * stats::share_one_sided(f.judged, 0.95);
        return format!("0 of {} (at most {most:.0} %)", f.judged);
    }
    let i = f.share();
    format!(
        "{} of {} ({:.0}–{:.0} %)",
        f.episodes,
        f.judged,
        100.0 * i.low,
        100.0 * i.high
    )
}

/// `12.3 (10.1–14.0)`.
pub(super) fn valued(v: &Valued, digits: usize) -> String {
    let sign = if v.at_least { "≥" } else { "" };
    match v.interval {
        None => format!("{sign}{:.digits$}", v.value),
        Some(i) => format!(
            "{sign}{:.digits$} ({:.digits$}–{:.digits$})",
            v.value, i.low, i.high
        ),
    }
}

/// What each system costs, and what it lets through: a row a figure, since there are more figures than systems.
pub(super) fn figures(c: &Comparison) -> Table {
    let mut t = Table::new(&[""], 1, c.systems.len());
    t.head.extend(c.systems.iter().map(|s| s.label.clone()));
    for figure in FIGURES {
        let value = |s: &System| {
            figure
                .value(s)
                .map_or_else(|| NONE.to_owned(), |v| valued(&v, figure.digits))
        };
        let mut row = vec![figure.name.to_owned()];
        row.extend(c.systems.iter().map(value));
        t.rows.push(row);
    }
    t
}

/// Waits for the lock, by phase.
pub(super) fn waits(c: &Comparison) -> Table {
    let head = [
        "system", "fault", "n", "p50", "p99", "p99.9", "max", "censored",
    ];
    let mut t = Table::new(&head, 2, 6);
    for s in &c.systems {
        for w in &s.latency {
            let f = &w.figures;
            let mut row = vec![
                s.label.clone(),
                w.phase.name().to_owned(),
                f.count.to_string(),
            ];
            row.extend([f.p50, f.p99, f.p999, f.max].map(|p| p.text(true)));
            row.push(f.censored.to_string());
            t.rows.push(row);
        }
    }
    t
}

/// The tests against the first system.
pub(super) fn differences(c: &Comparison) -> Table {
    let head = [
        "against",
        "measure",
        "test",
        "pairs",
        "only first",
        "only this",
        "p",
        "p, corrected",
    ];
    let mut t = Table::new(&head, 3, 5);
    for test in tests(c) {
        let only = |n: Option<u64>| n.map_or_else(|| NONE.to_owned(), |n| n.to_string());
        t.rows.push(vec![
            test.system,
            test.measure,
            test.kind.to_owned(),
            test.pairs.to_string(),
            only(test.only_first),
            only(test.only_this),
            p(test.p),
            p(test.corrected),
        ]);
    }
    t
}

fn p(p: f64) -> String {
    if p < 0.001 {
        "< 0.001".to_owned()
    } else {
        format!("{p:.3}")
    }
}

/// What a reader must know of the tables, one sentence each.
pub(super) fn notes(c: &Comparison) -> Vec<String> {
    let mut notes = vec![
        format!("Faults: {}.", c.exposure.caption()),
        format!("Number of episodes: {}. Each system's episodes have the seeds from {} on, side by side in time.", c.rule, c.seed),
        "Shares of episodes: Clopper and Pearson; rates over all grants of the runs: Garwood, as if incidents came \
         independently (where faults come at set times, who grants more meanwhile has the lower rate); other intervals: \
         bootstrap over episodes, from six on. None seen is an upper bound under these faults, never a proof."
            .to_owned(),
        "Unavailable: somebody wanted the lock, nobody held it, for at least 250 ms. Waits in ms, from the intended start \
         in an open loop, else from the first try, to the grant; ≥ marks a lower bound. A mean of the episodes' percentiles \
         is held against another system's; the percentile of all waits together is another number, in the table of waits."
            .to_owned(),
    ];
    let excused = super::not_counted(c);
    if !excused.is_empty() {
        notes.push(format!(
            "An episode does not count for a check of which all that it found fell into times in which the machine itself \
             stood still: {}.",
            excused.join("; ")
        ));
    }
    if c.systems.len() > 1 {
        notes.push(format!(
            "Each p is of a two-sided test against {}, paired by seed; corrected: Holm, over all tests of the table. McNemar \
             (on episodes, found something or not) is exact: of the seeds under which only one of the two systems had a finding, how many were \
             the one's, were each as likely?",
            c.systems[0].label
        ));
        notes.push(format!(
            "Permutation (rates and measures): the two episodes of a seed stay together, and which of them counts as which \
             system's is swapped seed by seed; p is the share of swaps in which the two overall figures lie at least as far \
             apart as they did, of all swaps where up to {EXHAUSTIVE} seeds differ, else of {DRAWS} that are drawn. Nothing \
             is permuted within an episode, or between seeds."
        ));
    }
    let twins: Vec<&str> = c
        .systems
        .iter()
        .filter(|s| s.twin)
        .map(|s| s.label.as_str())
        .collect();
    if !twins.is_empty() {
        notes.push(format!(
            "A/A, the same system once more, for what chance alone does: {}.",
            twins.join(", ")
        ));
    }
    let waits = c.systems.iter().flat_map(|s| &s.latency);
    let cut = total(waits.map(|w| w.figures.cut));
    notes.extend(latency::cut_note(cut));
    if c.fencepost < VERSION {
        notes.push(format!(
            "compare.json of version {}: where an early fencepost made it, `grants` and the rates over them are those of \
             the load alone, where a later one did, of the whole run; the file does not say which. Compare again to be sure.",
            c.fencepost
        ));
    }
    notes.extend(c.notes.iter().cloned());
    notes
}

/// All tables with their titles.
pub(super) fn all(c: &Comparison) -> Vec<(&'static str, Table)> {
    vec![
        ("systems", systems(c)),
        ("what was found", findings(c)),
        ("what it costs, and what it lets through", figures(c)),
        ("waits for the lock, ms", waits(c)),
        ("is the difference more than chance?", differences(c)),
    ]
}
