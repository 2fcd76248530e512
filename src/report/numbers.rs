//! Single figures of a run, as name and value.
//!
//! Owns which there are and their names: no two things have one name, but several of a kind (errors) may. Must not know a
//! format. Goes to every renderer, as `tables::numbers`.
use super::latency::number;
use super::summary::Summary;
use super::tables::{plural, seconds};

/// Single figures, as name and value.
pub fn numbers(s: &Summary) -> Vec<(String, String)> {
    let mut n = vec![
        (String::from("operations"), s.total_operations().to_string()),
        (String::from("grants"), s.grants.to_string()),
        (
            String::from("lock cycles"),
            format!("{:.1} a second over {}", s.cycles_per_s, seconds(s.load_ns)),
        ),
    ];
    let mut add = |name: &str, value: String| n.push((name.to_owned(), value));
    if let Some(ns) = s.first_finding_ns {
        add(
            "first finding",
            format!("{} after the load began", seconds(ns)),
        );
    }
    if let Some(o) = &s.overlap {
        let f = &o.figures;
        add(
            "overlaps",
            format!(
                "p50 {} ms, max {} ms ({} of {} violations)",
                f.p50.text(true),
                f.max.text(true),
                f.count,
                o.violations
            ),
        );
    }
    add("stalls of the machine", stalls(s));
    if s.deaths > 0 {
        add("client deaths", s.deaths.to_string());
    }
    for (what, count) in &s.misbehaved {
        add(
            "client misbehaved",
            format!("{}: {what}", plural(*count, "time")),
        );
    }
    for (code, count) in &s.errors {
        add("error", format!("{}: {code}", plural(*count, "time")));
    }
    for (name, count) in &s.verdict.counts {
        // Beside the acquires that were answered ok: those of them that became a section, which the checks judge.
        let name = if name == "grants" {
            String::from("grants judged")
        } else {
            name.replace('_', " ")
        };
        add(&name, count.to_string());
    }
    let h = &s.history;
    if !h.complete {
        add("history", String::from("was cut: it has no end"));
    }
    if h.torn_bytes > 0 {
        add(
            "history",
            format!("its last line is torn ({} bytes)", h.torn_bytes),
        );
    }
    if h.bad_lines > 0 {
        add(
            "history",
            format!("{} are no events", plural(h.bad_lines, "line")),
        );
    }
    n
}

/// How often the machine itself stood still, and how long.
pub(super) fn stalls(s: &Summary) -> String {
    let all = match s.stalls.count {
        0 => return String::from("none over 50 ms"),
        n => format!(
            "{n}, {} ms in all, longest {} ms",
            number(s.stalls.total_ms),
            number(s.stalls.longest_ms)
        ),
    };
    match s.stalls.during_faults {
        0 => all,
        n => format!("{all}, {n} of them beside a fault"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn no_name_stands_for_two_things() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut verdict = fixture::verdict(true);
        let counts = [("grants", 3), ("events", 9), ("torn_bytes", 0)];
        verdict.counts = counts.map(|(n, c)| (n.to_owned(), c)).into();
        fixture::folder(dir.path(), "", &fixture::plain_del().text(), &verdict);
        let s = crate::report::summarise(dir.path()).expect("a summary");
        let numbers = numbers(&s);
        let of = |name: &str| {
            let all = numbers.iter().filter(|n| n.0 == name);
            all.map(|n| n.1.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(of("grants"), [s.grants.to_string()]);
        assert_eq!(of("grants judged"), ["3"]);
        let kinds = ["error", "client misbehaved", "history"];
        let mut names: Vec<&str> = numbers.iter().map(|n| n.0.as_str()).collect();
        names.retain(|n| !kinds.contains(n));
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "{numbers:?}");
    }
}
