//! What the checker says: an outcome a check, findings with their evidence, and whether that was expected.
//!
//! Owns the verdict's shape (verdict.json). Must not know how it is shown. Goes to `src/report`.
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Outcome of one check, or of a whole run against what was expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Nothing found, and the history holds enough to say so. For a run: as expected.
    Valid,
    /// Found. For a run: not as expected.
    Violated,
    /// The history does not hold enough to say.
    Unknown,
}

/// The class of a check: what kind of promise it is about.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// The lock service let two clients hold at once.
    Service,
    /// A holder went on past its lease.
    Overrun,
    /// The lock library broke a rule.
    Library,
    /// Somebody waits for ever, or too long.
    Liveness,
    /// Tokens.
    Fencing,
    /// The protected resource was harmed.
    Damage,
    /// The history holds too little.
    Coverage,
}

/// Who is to blame for a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Blame {
    /// The servers lost or let go of the key.
    Service,
    /// The library in the named client.
    Library(String),
    /// The client's discipline: it went on past its lease.
    Client(String),
    /// No evidence.
    Unknown,
}

/// One critical section in a finding. Times in ns since the start of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SectionView {
    /// `A`, `B` … as the finding's sentence names it.
    pub label: String,
    /// Client.
    pub client: String,
    /// Worker in the client.
    pub worker: u32,
    /// Logical process.
    pub process: u64,
    /// Owner value, if known.
    pub owner: Option<String>,
    /// Fencing token, if any.
    pub token: Option<u64>,
    /// The winning acquire's invoke.
    pub acquire_invoke: u64,
    /// The winning acquire's return: the start of promise and belief.
    pub acquire_return: u64,
    /// End of the promise; none: without end.
    pub promise_end: Option<u64>,
    /// End of the belief; none: never ended.
    pub belief_end: Option<u64>,
}

/// One violation, with all that proves it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Finding {
    /// Name of the check.
    pub check: String,
    /// Who is to blame.
    pub blame: Blame,
    /// Which of the ways to break the check it is, where the check tells them apart. Of `validity`: `too-long`, `beyond-lease`,
    /// `nothing-left`, `late-quorum`, `past-end`, `stopped`, `too-short`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// What happened, in one sentence with times, clients and nodes.
    pub sentence: String,
    /// The proof, step by step: let A be …; then …; but ….
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proof: Vec<String>,
    /// When it can first be said, ns since the start of the run.
    pub at: u64,
    /// The lock key.
    pub key: Option<String>,
    /// The sections, A first.
    pub sections: Vec<SectionView>,
    /// How long two holders overlapped, in ns, where that applies.
    pub overlap_ns: Option<u64>,
    /// The server-side and other events that prove it, in order.
    /// Each is an event as it stands in the history.
    pub evidence: Vec<serde_json::Value>,
    /// Faults active then: `client-pause c1 (1.200 s to 4.203 s)`.
    pub faults: Vec<String>,
}

/// One check's result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CheckResult {
    /// Name, as in `expect`.
    pub name: String,
    /// Class.
    pub class: Class,
    /// Outcome.
    pub outcome: Outcome,
    /// Number of violations (each unordered pair counts once).
    pub count: u64,
    /// Number of incidents: maximal clusters of overlapping sections.
    pub incidents: u64,
    /// Of `count`, those during which the machine itself stood still, by no fault of the plan.
    #[serde(default)]
    pub excused: u64,
    /// Why it is unknown, or what its reader must know.
    pub note: Option<String>,
    /// The first findings, at most [`Verdict::FINDINGS_MAX`].
    pub findings: Vec<Finding>,
}

/// The checker's whole answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Verdict {
    /// Against what was expected: valid = as expected, violated = not as expected.
    pub outcome: Outcome,
    /// One line a check that came out otherwise than expected, or is unknown.
    pub reasons: Vec<String>,
    /// All checks, in the registry's order.
    pub checks: Vec<CheckResult>,
    /// The first sign that lines were lost, changed or moved after they were written: the outcome is then unknown, whatever
    /// was found and expected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damaged: Option<String>,
    /// What was assumed where a history in EDN does not say it: which locks there are, Jepsen's threads, times.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reading: Vec<String>,
    /// Numbers: `events`, `acquires`, `grants`, `keys`, `clients`, `observed` (events of the observer), `faults`,
    /// `stalls`, `latent` (promises lost early with no second holder), `anomalies`, `torn_bytes`.
    pub counts: BTreeMap<String, u64>,
}

impl CheckResult {
    /// All that it found fell into times in which the machine itself stood still, by no fault of the plan. Such a check says
    /// nothing of the lock: a run that expects it valid is unknown.
    pub fn all_excused(&self) -> bool {
        self.outcome == Outcome::Violated && self.excused >= self.count
    }
}

impl Finding {
    /// The same, of this kind.
    pub(crate) fn of_kind(mut self, kind: &str) -> Self {
        self.kind = Some(kind.to_owned());
        self
    }

    /// The same, with its proof.
    pub(crate) fn proved(mut self, proof: Vec<String>) -> Self {
        self.proof = proof;
        self
    }
}

impl Class {
    /// Its name in `expect`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Service => "service",
            Self::Overrun => "overrun",
            Self::Library => "library",
            Self::Liveness => "liveness",
            Self::Fencing => "fencing",
            Self::Damage => "damage",
            Self::Coverage => "coverage",
        }
    }
}

impl Verdict {
    /// Findings kept a check; `count` goes on.
    pub const FINDINGS_MAX: usize = 20;

    /// The same checks, judged against other expectations (`check --expect FILE`).
    ///
    /// ```
    /// # use fencepost_checker::{Expect, Outcome, check_path};
    /// # let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/mutex-twice.jsonl");
    /// let verdict = check_path(&path)?;
    /// let expect = [("service".to_owned(), Expect::Violated)].into();
    /// assert_eq!(verdict.judge_with(&expect).outcome, Outcome::Valid);
    /// assert_eq!(verdict.judge_with(&Default::default()).outcome, Outcome::Violated);
    /// # Ok::<(), fencepost_checker::HistoryError>(())
    /// ```
    #[must_use]
    pub fn judge_with(&self, expect: &BTreeMap<String, crate::Expect>) -> Self {
        self.clone().judged(expect)
    }

    /// As [`Self::judge_with`], in place. Of a damaged history nothing is certain.
    pub(crate) fn judged(mut self, expect: &BTreeMap<String, crate::Expect>) -> Self {
        (self.outcome, self.reasons) = crate::judge::judge(&self.checks, expect);
        if let Some(what) = &self.damaged
            && self.outcome != Outcome::Unknown
        {
            self.outcome = Outcome::Unknown;
            let why = format!("the history is damaged ({what}): what was found may come of that");
            self.reasons.insert(0, why);
        }
        self
    }

    /// The result of the named check.
    pub fn check(&self, name: &str) -> Option<&CheckResult> {
        self.checks.iter().find(|c| c.name == name)
    }
}
