//! How far one server's clock must step for Redlock to break, against the formula.
//!
//! The lock-theory: with a thin quorum a step forward by δ breaks the promise iff δ > (grant − inv) + d·L + 2 ms; to be
//! seen, the other client's answer must also come before the lease's end, so its tries are a few ms apart here.
//! `make threshold` steps through all of them, prints the table and writes it into the file that `FENCEPOST_THRESHOLD`
//! names, for docs/results.md; a plain run looks on both sides of the line.
mod harness;

use fencepost_checker::Outcome;
use harness::{Ran, alone, backend, fencepost, remark};
use std::path::Path;

const LEASE_MS: f64 = 2500.0;
/// How near to the formula the break must be.
const NEAR_MS: f64 = 15.0;

fn workload(wide_ms: u32) -> String {
    format!(
        "cluster = {{ topology = 'independent', nodes = 5 }}\n\
         lock = {{ name = 'redlock', ttl = '2500ms', retry = '2ms' }}\n\
         load = {{ clients = 2, work = {{ fixed = '60ms' }}, think = '30ms', for = '4s', tail = '2s' }}\n\
         [[fault]]\nid = 'thin'\nkind = 'quorum-thin'\ntarget = 'client:c1'\nmode = 'reset'\n\
         on = {{ op = 'release', result = 'ok', client = 'c1' }}\n\
         [[fault]]\nid = 'slow'\nkind = 'slow-work'\ntarget = 'client:c1'\nwork = '2700ms'\n\
         on = {{ op = 'acquire', result = 'ok', client = 'c1', after = 'thin' }}\n\
         [[fault]]\nid = 'clock'\nkind = 'node-clock'\ntarget = 'quorum-edge'\nstep = '+{wide_ms}ms'\n\
         on = {{ op = 'acquire', result = 'ok', client = 'c1', after = 'thin' }}\n\
         [expect]\nservice = 'any'\noverrun = 'any'\neffects = 'any'\ndeadlock = 'any'\n"
    )
}

/// What one step showed.
struct Step {
    wide_ms: f64,
    /// The formula's line, from this very run's grant.
    line_ms: f64,
    broke: bool,
}

impl Step {
    fn above_ms(&self) -> f64 {
        self.wide_ms - self.line_ms
    }

    fn found(&self) -> &'static str {
        if self.broke {
            "two holders"
        } else {
            "one holder"
        }
    }

    fn words(&self) -> String {
        format!(
            "step {:>4.0} ms, line {:.1} ms ({:+.1}): {}",
            self.wide_ms,
            self.line_ms,
            self.above_ms(),
            self.found()
        )
    }

    /// Neither side of the line is contradicted: a step below it breaks nothing, one clearly above it does.
    fn holds(&self) -> bool {
        let above = self.above_ms();
        if self.broke {
            above > 0.0
        } else {
            above < NEAR_MS
        }
    }
}

/// The section of docs/results.md.
fn markdown(table: &[Step]) -> String {
    let mut text = "## Redlock's clock threshold\n\n\
        One server of a thin quorum steps forward by δ (`make threshold`). The promise breaks iff δ is above the line \
        (grant − inv) + d·L + 2 ms, which is each run's own.\n\n\
        | step δ | line | δ − line | found |\n|---:|---:|---:|---|\n"
        .to_owned();
    for step in table {
        let (wide, line, above) = (step.wide_ms, step.line_ms, step.above_ms());
        let row = [
            format!("{wide:.0} ms"),
            format!("{line:.1} ms"),
            format!("{above:+.1} ms"),
        ];
        text += &["| ", &row.join(" | "), " | ", step.found(), " |\n"].concat();
    }
    text
}

fn step(wide_ms: u32) -> Step {
    let results = tempfile::tempdir().expect("temp folder");
    let file = results.path().join("threshold.toml");
    std::fs::write(&file, workload(wide_ms)).expect("written");
    let mut command = fencepost();
    command
        .arg("run")
        .arg(&file)
        .args(["--seed", "5", "--results"]);
    command.arg(results.path().join("results"));
    command.args(["--backend", backend("clock_threshold")]);
    let output = command.output().expect("fencepost runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let folder = results.path().join("results/threshold/latest");
    let verdict = Ran::verdict(&folder);
    let service = verdict.check("service").expect("a check").outcome;
    Step {
        wide_ms: f64::from(wide_ms),
        line_ms: grant_ms(&folder).unwrap_or_else(|| panic!("no clock stepped:\n{said}"))
            + LEASE_MS * 0.01
            + 2.0,
        broke: service == Outcome::Violated,
    }
}

/// From c1's invoke to the answer of the grant that the clock's step follows.
fn grant_ms(folder: &Path) -> Option<f64> {
    let history = std::fs::read_to_string(folder.join("history.jsonl")).ok()?;
    let (mut invoked, mut took) = (0, None);
    for line in history.lines() {
        let event: serde_json::Value = serde_json::from_str(line).ok()?;
        let time = event["time"].as_u64().unwrap_or_default();
        if event["f"] == "node-clock" && event["value"]["phase"] == "bit" {
            return took;
        }
        if event["client"] == "c1" && event["f"] == "acquire" {
            match event["type"].as_str() {
                Some("invoke") => invoked = time,
                Some("ok") => took = Some((time - invoked) as f64 / 1e6),
                _ => {}
            }
        }
    }
    None
}

#[test]
fn redlock_breaks_where_the_formula_says() {
    let _alone = alone();
    let page = std::env::var_os("FENCEPOST_THRESHOLD");
    let steps: Vec<u32> = if page.is_some() {
        (10..=70).step_by(5).collect()
    } else {
        vec![15, 55]
    };
    let mut table = Vec::new();
    for ms in steps {
        let seen = step(ms);
        remark(&seen.words());
        table.push(seen);
    }
    if let Some(page) = page {
        std::fs::write(page, markdown(&table)).expect("written");
    }
    let words: Vec<String> = table.iter().map(Step::words).collect();
    assert!(table.iter().all(Step::holds), "{}", words.join("\n"));
    assert!(table.iter().any(|s| s.broke), "{}", words.join("\n"));
    assert!(table.iter().any(|s| !s.broke), "{}", words.join("\n"));
}
