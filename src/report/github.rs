//! Annotations of a GitHub Actions job: one workflow command a workload that did not come out as it states.
//!
//! Owns their escaping, which is not that of any other output. Must not know where they are printed. These are the only
//! lines that begin `::` on purpose: all text in them is made visible first, and what could end a command or one of its
//! properties is percent-encoded.
use super::sanitise::visible;
use super::suite::{Suite, groups};
use fencepost_checker::Outcome;
use std::fmt::Write as _;

/// GitHub shows ten of a kind and step; the rest is in the summary.
const SHOWN_MAX: usize = 10;

/// A line a workload, failures as errors, unknown ones as warnings.
pub fn annotations(suite: &Suite) -> String {
    let mut out = String::new();
    for (wanted, level, word) in [
        (Outcome::Violated, "error", "not as expected"),
        (Outcome::Unknown, "warning", "unknown"),
    ] {
        let bad = groups(suite).into_iter().filter(|g| g.outcome() == wanted);
        for g in bad.take(SHOWN_MAX) {
            let run = g.example();
            let file = run.file.as_ref().map_or_else(String::new, |f| {
                format!("file={},line=1,", property(&f.display().to_string()))
            });
            let title = property(&format!("{}: {word}", run.workload));
            let count = format!("{} of {} runs. ", g.count(wanted), g.runs.len());
            let text = format!("{count}Seed {}: {}", run.seed, run.reasons.join("; "));
            let _ = writeln!(out, "::{level} {file}title={title}::{}", message(&text));
        }
    }
    for n in suite.not_run.iter().take(SHOWN_MAX) {
        let title = property(&format!("{}: not run", n.workload));
        let _ = writeln!(out, "::error title={title}::{}", message(&n.why));
    }
    out
}

fn message(text: &str) -> String {
    visible(text).replace('%', "%25")
}

fn property(text: &str) -> String {
    message(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::HOSTILE;
    use crate::report::suite::NotRun;

    #[test]
    fn no_text_ends_its_command_or_begins_another() {
        let mut suite = Suite::default();
        suite.not_run.push(NotRun {
            workload: format!("a,b::c%0A{HOSTILE}"),
            seed: 1,
            why: format!("x\n::set-env name=A::b%0a{HOSTILE}"),
        });
        let text = annotations(&suite);
        assert_eq!(text.lines().count(), 1, "{text}");
        let rest = text.strip_prefix("::error title=").expect("a command");
        let (title, message) = rest.split_once("::").expect("a message");
        assert!(title.starts_with("a%2Cb%3A%3Ac%250A"), "{title}");
        assert!(!title.contains([',', ':']), "{title}");
        assert!(
            message.starts_with("x\\n::set-env name=A::b%250a"),
            "{message}"
        );
    }
}
