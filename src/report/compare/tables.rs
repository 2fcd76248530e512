//! A comparison as tables: a row a system.
//!
//! Owns which figures stand in which table and how they are written. Must not know a format.
use super::figures::{FIGURES, Finding, Valued, checks_found};
use super::tests::tests;
use super::{Comparison, System};
use crate::report::tables::{NONE, Table};
use fencepost_checker::stats;

/// The systems themselves.
pub(super) fn systems(c: &Comparison) -> Table {
    let mut t = Table::new(
        &["system", "lock", "servers", "fence", "episodes", "grants"],
        4,
        2,
    );
    for s in &c.systems {
        let grants: u64 = s.episodes.iter().map(|e| e.grants).sum();
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

/// What was found: for each check the share of episodes, and incidents per million grants.
pub(super) fn findings(c: &Comparison) -> Table {
    let checks = checks_found(c);
    let mut head = vec!["system".to_owned()];
    for check in &checks {
        head.push(format!("{check}: episodes (95 %)"));
        head.push(format!("{check}: incidents per million grants (95 %)"));
    }
    let mut t = Table::new(&[], 1, checks.len() * 2);
    t.head = head;
    if checks.is_empty() {
        return t;
    }
    for s in &c.systems {
        let mut row = vec![s.label.clone()];
        for check in &checks {
            let f = Finding::of(s, check);
            row.push(share(&f));
            row.push(f.rate().map_or_else(|| NONE.to_owned(), |v| valued(&v, 0)));
        }
        t.rows.push(row);
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
    match v.interval {
        None => format!("{:.digits$}", v.value),
        Some(i) => format!(
            "{:.digits$} ({:.digits$}–{:.digits$})",
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
pub(super) fn latency(c: &Comparison) -> Table {
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
         bootstrap over episodes. None seen is an upper bound under these faults, never a proof."
            .to_owned(),
        "Unavailable: somebody wanted the lock, nobody held it, for at least 250 ms. Waits in ms, from the intended start \
         in an open loop, else from the first try, to the grant; ≥ marks a lower bound."
            .to_owned(),
    ];
    if c.systems.len() > 1 {
        notes.push(format!(
            "Tests are against {}, paired by seed: McNemar on episodes, a permutation test over seeds on rates and \
             measures; corrected over all tests of the table (Holm).",
            c.systems[0].label
        ));
    }
    if c.systems.iter().any(|s| s.twin) {
        notes.push("A/A: the first system once more, for what chance alone does.".to_owned());
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
        ("waits for the lock, ms", latency(c)),
        ("is the difference more than chance?", differences(c)),
    ]
}
