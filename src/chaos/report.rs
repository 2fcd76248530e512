//! What the runs showed, for a test: outcome, findings by check, folders, and the assertion.
//!
//! Owns [`Report`]. Must not know how runs are made, and never judges: the verdicts stand in the folders.
use crate::report::{self, Style, Summary};
use fencepost_checker::{CheckResult, Outcome, Verdict};
use std::path::Path;

/// What the runs showed: at least one, in the order in which they were made.
#[derive(Debug, Clone)]
pub struct Report {
    runs: Vec<Summary>,
}

impl Report {
    /// None where there was no run.
    pub(super) fn of(runs: Vec<Summary>) -> Option<Self> {
        (!runs.is_empty()).then_some(Self { runs })
    }

    /// All runs: one a variant and repetition.
    pub fn runs(&self) -> &[Summary] {
        &self.runs
    }

    /// The run that decides: the first that was not as expected, else the first unknown one, else the first.
    pub fn decisive(&self) -> &Summary {
        let with = |outcome| self.runs.iter().find(|s| s.verdict.outcome == outcome);
        let worst = with(Outcome::Violated).or_else(|| with(Outcome::Unknown));
        worst.unwrap_or(&self.runs[0])
    }

    /// Over all runs: `Valid`: each came out as its workload expects; `Violated`: one did not, in either direction;
    /// `Unknown`: none did otherwise, and one cannot be judged.
    pub fn outcome(&self) -> Outcome {
        self.decisive().verdict.outcome
    }

    /// The verdict of [`Report::decisive`].
    pub fn verdict(&self) -> &Verdict {
        &self.decisive().verdict
    }

    /// The results folder of [`Report::decisive`], with `report.html` and `history.jsonl`.
    pub fn dir(&self) -> &Path {
        &self.decisive().dir
    }

    /// One check of [`Report::decisive`], by its name as in `expect` (`fencepost list checks`); none: there is no such
    /// check.
    pub fn check(&self, name: &str) -> Option<&CheckResult> {
        self.verdict().check(name)
    }

    /// The runs in which this check was violated, whatever was expected of it.
    pub fn violated<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Summary> + 'a {
        let violated = |c: &CheckResult| c.outcome == Outcome::Violated;
        let in_run = move |s: &&Summary| s.verdict.check(name).is_some_and(violated);
        self.runs.iter().filter(in_run)
    }

    /// The report that `fencepost run` prints, without colours.
    pub fn terminal(&self) -> String {
        report::terminal(&self.runs, Style::default())
    }

    /// Every run came out as its workload expects.
    ///
    /// # Panics
    /// With the report, when one did not, or cannot be judged: that nothing could be found out is no success either.
    #[track_caller]
    pub fn assert_expected(&self) -> &Self {
        let word = match self.outcome() {
            Outcome::Valid => return self,
            Outcome::Violated => "not as expected",
            Outcome::Unknown => "unknown",
        };
        panic!("{word}\n{}", self.terminal());
    }
}
