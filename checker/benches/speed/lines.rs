//! The lines that are printed, each with the bound that it must keep.
//!
//! Owns the bounds, and how much of them is allowed. Must not know what a measurement does.
use crate::turns::{each_event, header, turn};
use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::process::Command;

/// How much is measured, and by how much a bound may be missed.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// A loaded machine is this many times slower.
    pub slack: f64,
    /// The best of so many runs counts.
    pub runs: u32,
    /// Operations that Porcupine judges too.
    pub porcupine: u64,
}

/// Milliseconds and MiB of a measurement, the best of some runs for time.
fn run(what: &str, n: u64, runs: u32, dir: &Path) -> Result<(f64, u64), Box<dyn Error>> {
    let mut best = (f64::INFINITY, 0);
    for _ in 0..runs {
        let mut command = Command::new(std::env::current_exe()?);
        let output = command.args([what, &n.to_string()]).arg(dir).output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
        }
        let text = String::from_utf8(output.stdout)?;
        let mut numbers = text.split_whitespace();
        let ms: f64 = numbers.next().ok_or("no answer")?.parse()?;
        let mib: u64 = numbers.next().ok_or("no answer")?.parse()?;
        best = (best.0.min(ms), best.1.max(mib));
    }
    Ok(best)
}

/// Porcupine's milliseconds on the same history; none without Go.
fn porcupine(n: u64, dir: &Path) -> Result<Option<(f64, u64)>, Box<dyn Error>> {
    let path = dir.join("history.txt");
    let mut file = BufWriter::new(File::create(&path)?);
    for i in 0..n / 2 {
        for (client, _, release, inv, ret) in turn(i, false) {
            let ret = ret.map_or(-1, |r| r as i64);
            writeln!(file, "{client} {} {inv} {ret}", u8::from(release))?;
        }
    }
    file.flush()?;
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/porcupine");
    let output = Command::new("go")
        .args(["run", "."])
        .arg(&path)
        .current_dir(program)
        .output();
    let Ok(output) = output else {
        return Ok(None);
    };
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let text = String::from_utf8(output.stdout)?;
    let words: Vec<&str> = text.split_whitespace().collect();
    let [_, "Ok", ms, mib] = words[..] else {
        return Err(format!("Porcupine said: {text}").into());
    };
    Ok(Some((ms.parse()?, mib.parse()?)))
}

/// Prints a line; whether its bound is kept.
fn line(what: &str, value: &str, bound: &str, kept: bool) -> Result<bool, Box<dyn Error>> {
    let mark = if kept { "ok    " } else { "FAILED" };
    writeln!(
        std::io::stdout().lock(),
        "{mark} {what:<44} {value:<34} {bound}"
    )?;
    Ok(kept)
}

/// Prints all lines; whether all bounds are kept.
///
/// # Errors
/// When a measurement fails, as when a good history is found to be bad.
pub fn all(dir: &Path, size: Size) -> Result<bool, Box<dyn Error>> {
    let good = growth(dir, size)? & lost(dir, size)? & reading(dir, size)?;
    Ok(beside_porcupine(dir, size)? & good)
}

/// Time and memory from 10^5 to 10^7 operations.
fn growth(dir: &Path, size: Size) -> Result<bool, Box<dyn Error>> {
    let mut good = true;
    let mut before: Option<(u64, f64, u64)> = None;
    for n in [100_000u64, 1_000_000, 10_000_000] {
        let (ms, mib) = run("good", n, size.runs, dir)?;
        let (bound, kept) = if n == 1_000_000 {
            let kept = ms <= 1000.0 * size.slack && mib <= 200;
            ("<= 1000 ms, <= 200 MiB", kept)
        } else {
            ("", true)
        };
        let value = format!("{ms:.0} ms, {mib} MiB");
        good &= line(&format!("{n} operations"), &value, bound, kept)?;
        if let Some((m, ms_before, mib_before)) = before {
            // n log n from one to the next: 10 * 6/5 and 10 * 7/6; a third more for the caches.
            let ratio = ms / ms_before;
            let bound = 10.0 * (n as f64).log2() / (m as f64).log2() * 1.33;
            good &= line(
                &format!("from {m} to {n}"),
                &format!("{ratio:.1} times as long"),
                &format!("<= {bound:.1}"),
                ratio <= bound * size.slack,
            )?;
            // What is open is the same in both.
            good &= line(
                "its peak of memory",
                &format!("{mib_before} MiB, then {mib} MiB"),
                "<= 16 MiB more",
                mib <= mib_before + 16,
            )?;
        }
        before = Some((n, ms, mib));
    }
    Ok(good)
}

/// 100,000 unlock replies that were lost.
fn lost(dir: &Path, size: Size) -> Result<bool, Box<dyn Error>> {
    let mut good = true;
    for (what, name) in [
        ("lost", "100000 lost unlock replies"),
        ("witness", "the same, with a double grant named"),
    ] {
        let (ms, mib) = run(what, 200_000, size.runs, dir)?;
        let value = format!("{ms:.0} ms, {mib} MiB");
        good &= line(name, &value, "<= 1000 ms", ms <= 1000.0 * size.slack)?;
    }
    Ok(good)
}

/// A million lines of JSON, beside what `serde_json` needs to parse them.
fn reading(dir: &Path, size: Size) -> Result<bool, Box<dyn Error>> {
    let mut file = BufWriter::new(File::create(dir.join("history.jsonl"))?);
    writeln!(file, "{}", serde_json::to_string(&header())?)?;
    let mut written = Ok(());
    each_event(250_000, false, |e| {
        let text = serde_json::to_string(&e).unwrap_or_default();
        let line = writeln!(file, "{text}");
        if written.is_ok() {
            written = line;
        }
    });
    written?;
    file.flush()?;
    let (parse, _) = run("parse", 500_000, size.runs, dir)?;
    let (read, mib) = run("read", 500_000, size.runs, dir)?;
    let value = format!("{read:.0} ms, parsing {parse:.0} ms, {mib} MiB");
    line(
        "1000000 lines of JSON read and checked",
        &value,
        "<= 2 times parsing",
        read <= 2.0 * size.slack * parse,
    )
}

/// Porcupine on the same history.
fn beside_porcupine(dir: &Path, size: Size) -> Result<bool, Box<dyn Error>> {
    let n = size.porcupine;
    let Some((theirs, mib)) = porcupine(n, dir)? else {
        return line("Porcupine", "left out: no Go here", "", true);
    };
    let (ours, _) = run("good", n, size.runs, dir)?;
    let value = format!("{theirs:.0} ms, {mib} MiB: {:.0} times", theirs / ours);
    line(
        &format!("Porcupine 1.3.1, {n} operations"),
        &value,
        ">= 50 times",
        theirs * size.slack >= 50.0 * ours,
    )
}
