//! `fencepost predict`: how often will a section outlast its lease, by one's own work times and pauses?
//!
//! Owns the flags and the reading of samples. The model is the checker's; nothing is run.
use super::exit::Exit;
use super::say;
use crate::plan::duration;
use fencepost_checker::stats::{Habits, Lengths, Overruns, overruns};
use std::path::Path;
use std::time::Duration;

/// Bytes of a file of samples that are read.
const FILE_MAX: u64 = 64 << 20;
/// Samples kept of a file: each is looked at for each lease.
const SAMPLES_MAX: usize = 1_000_000;

/// Leases that are shown beside the one that was asked for, as multiples of it.
const OTHERS: [f64; 4] = [0.5, 2.0, 4.0, 8.0];
/// Of a million: less is once in 10¹² sections, more than any model of pauses is good for.
const LEAST: f64 = 1e-6;

/// What stands for lengths.
const ACCEPTED: &str =
    "a duration such as 300ms, uniform:A-B, exponential:MEAN, or the path of a file of samples";

/// Arguments of `predict`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fencepost predict --ttl 2s --work 300ms --pause exponential:400ms --pause-every 60s
  fencepost predict --ttl 10s --work work.txt --pause gc.txt --pause-seen-for 24h --json
  fencepost predict --ttl 1s --work uniform:20ms-200ms --pause 3s --pause-every 1h

A file of samples has one duration a line, such as 12ms or 1.5s; a bare number is in ms. Each
sample is as likely as any other. The range behind a figure is a 95 % interval: samples of work
and of pauses, and how many pauses came, are drawn by chance, and the longest may not be among
them; none seen in n leaves 3.7 of n open. (Of work times: Korn and Graubard 1998; of pauses: gamma
intervals, Fay and Feuer 1997; the two joined as by Zou and Donner 2008.)

Pauses are taken to begin at random, independent of the work; those of one section add up. Each
section that outlasts its lease is an overrun as soon as somebody else wants the lock; what it
damages depends on the fence.")]
pub struct Args {
    /// The lease.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    ttl: Duration,
    /// Time in the critical section: a duration, uniform:A-B, exponential:MEAN, or a file of samples.
    #[arg(long, value_name = "LENGTHS")]
    work: String,
    /// Lengths of pauses of the process (garbage collection, a suspended machine, a busy host): as --work.
    #[arg(long, value_name = "LENGTHS")]
    pause: String,
    /// Mean time between two pauses.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pause_every: Option<Duration>,
    /// The time in which the pauses of the file were seen: their number tells how often they come, and how surely.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, conflicts_with = "pause_every")]
    pause_seen_for: Option<Duration>,
    /// The work waits, for a network or a disk, and goes on while the process is paused; else it computes.
    #[arg(long)]
    waits: bool,
    /// Time from the request to the grant, which the lease has already lost.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "0ms")]
    grant: Duration,
    /// Print as JSON.
    #[arg(long)]
    json: bool,
}

pub fn main(args: &Args) -> Exit {
    let habits = match habits(args) {
        Ok(habits) => habits,
        Err((what, hint)) => {
            say::word(&format!(
                "error: {}",
                crate::report::sanitise::visible(&what)
            ));
            say::word(&format!("hint: {hint}"));
            return Exit::Usage;
        }
    };
    let at = |ttl: Duration| overruns(&habits, slack(ttl, args.grant));
    let answer = at(args.ttl);
    let others = OTHERS.map(|times| args.ttl.mul_f64(times));
    if args.json {
        let lease = |ttl: Duration, o: &Overruns| {
            serde_json::json!({
                "ttl_ms": ttl.as_secs_f64() * 1e3,
                "slack_ms": slack(ttl, args.grant) * 1e3,
                "chance": o.chance,
                "known": o.known,
                "of_a_million": o.of_a_million,
            })
        };
        let mut json = lease(args.ttl, &answer);
        json["fencepost"] = 1.into();
        json["others"] = others.iter().map(|&ttl| lease(ttl, &at(ttl))).collect();
        json["assumes"] = assumes(args).into();
        say::data(&json.to_string());
        return Exit::Ok;
    }
    say::data(&format!(
        "lease {}: {} of a million sections outlast it{}",
        duration::text(args.ttl),
        per_million(answer.chance),
        known(&answer),
    ));
    say::data(&format!(
        "count a million sections, and you will find {:.0} to {:.0} of them (95 %: {})",
        answer.of_a_million.low,
        answer.of_a_million.high,
        if answer.known.high > answer.known.low {
            "chance, and what the samples leave open"
        } else {
            "chance alone"
        },
    ));
    for ttl in others {
        let other = at(ttl);
        say::data(&format!(
            "lease {}: {}{}",
            duration::text(ttl),
            per_million(other.chance),
            known(&other)
        ));
    }
    say::data(&format!("assumes: {}", assumes(args)));
    Exit::Ok
}

/// What is counted, in one line.
fn assumes(args: &Args) -> String {
    let pause = if args.waits {
        "work goes on in a pause, so the latest end of one counts; none begins in another"
    } else {
        "work stands still in a pause, so all that begin in a section add up; none begins in another"
    };
    format!(
        "pauses begin at random, whatever the work; {pause}; a lease of {} ends after {:.0} ms (1 % of drift, 2 ms{})",
        duration::text(args.ttl),
        slack(args.ttl, args.grant) * 1e3,
        if args.grant.is_zero() {
            ""
        } else {
            " and the grant off"
        },
    )
}

/// From the grant to the end of the lease, s, as the checker counts it: drift of 1 % and 2 ms off.
fn slack(ttl: Duration, grant: Duration) -> f64 {
    (ttl.as_secs_f64() * 0.99 - 0.002 - grant.as_secs_f64()).max(0.0)
}

fn known(o: &Overruns) -> String {
    if o.known.high <= o.known.low {
        return String::new();
    }
    format!(
        " ({} to {} as far as the samples tell, 95 %)",
        per_million(o.known.low),
        per_million(o.known.high)
    )
}

/// Three digits are more than any model of pauses is good for.
fn per_million(chance: f64) -> String {
    let n = chance * 1e6;
    if n >= 100.0 {
        format!("{n:.0}")
    } else if n >= 1.0 {
        format!("{n:.1}")
    } else if n >= LEAST {
        format!("{n:.2e}")
    } else if n > 0.0 {
        format!("< {LEAST:.0e}")
    } else {
        "0".to_owned()
    }
}

type Wrong = (String, &'static str);

fn habits(args: &Args) -> Result<Habits, Wrong> {
    if args.ttl.is_zero() {
        return Err((
            "--ttl 0s: a lease of no time is over at once".to_owned(),
            "a duration above 0, such as --ttl 2s",
        ));
    }
    let (work, pauses) = (lengths(&args.work)?, lengths(&args.pause)?);
    let seen = args.pause_seen_for.map(|d| d.as_secs_f64());
    let rate = match (args.pause_every, seen, &pauses) {
        (Some(every), ..) if !every.is_zero() => 1.0 / every.as_secs_f64(),
        (None, Some(s), Lengths::Observed(all)) if s > 0.0 => all.len() as f64 / s,
        (None, Some(_), _) => {
            return Err((
                "--pause-seen-for without a file of pauses".to_owned(),
                "say how often they come with --pause-every",
            ));
        }
        _ => {
            return Err((
                "how often do pauses come?".to_owned(),
                "--pause-every 60s, or --pause-seen-for 24h with a file of samples",
            ));
        }
    };
    Ok(Habits {
        work,
        pauses,
        rate,
        counted: args.pause_every.is_none(),
        waits: args.waits,
    })
}

fn lengths(text: &str) -> Result<Lengths, Wrong> {
    let hint = ACCEPTED;
    let one = |t: &str| {
        let d = duration::parse(t).map_err(|e| (format!("`{text}`: {e}"), hint))?;
        Ok(d.as_secs_f64())
    };
    if let Some(mean) = text.strip_prefix("exponential:") {
        return one(mean).map(Lengths::Exponential);
    }
    if let Some((low, high)) = text
        .strip_prefix("uniform:")
        .and_then(|t| t.split_once('-'))
    {
        let (low, high) = (one(low)?, one(high)?);
        if low > high {
            return Err((format!("`{text}`: the first is the longer one"), hint));
        }
        return Ok(Lengths::Uniform(low, high));
    }
    let path = Path::new(text);
    if path.is_file() {
        return samples(path).map_err(|why| (format!("{text}: {why}"), hint));
    }
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        // A number with a unit that is none may be a file's name as well: both are told.
        return one(text)
            .map(Lengths::Fixed)
            .map_err(|(why, hint)| (format!("{why}, and no such file"), hint));
    }
    let why = if text == "-" {
        "samples are not read from standard input"
    } else if path.is_dir() {
        "a folder, not a file of samples"
    } else if path.exists() {
        "not a regular file"
    } else {
        "no such file, and not a duration"
    };
    Err((format!("`{text}`: {why}"), hint))
}

fn samples(path: &Path) -> Result<Lengths, String> {
    let size = std::fs::metadata(path).map_err(|e| e.to_string())?.len();
    if size > FILE_MAX {
        return Err("too large for samples: more than 64 MiB".to_owned());
    }
    let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
    let mut all = Vec::new();
    for (n, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let ms = line
            .parse::<f64>()
            .ok()
            .filter(|ms| ms.is_finite() && *ms >= 0.0);
        let seconds = ms.map(|ms| ms / 1e3);
        let parsed = seconds.or_else(|| duration::parse(line).ok().map(|d| d.as_secs_f64()));
        all.push(parsed.ok_or_else(|| format!("line {n}: `{line}` is no duration"))?);
        if all.len() > SAMPLES_MAX {
            return Err(format!(
                "more than {SAMPLES_MAX} samples: draw as many at random (`shuf -n`)"
            ));
        }
    }
    if all.is_empty() {
        return Err("no sample in it".to_owned());
    }
    Ok(Lengths::Observed(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_and_mistakes_are_told() {
        assert_eq!(lengths("300ms").expect("fixed"), Lengths::Fixed(0.3));
        assert_eq!(
            lengths("exponential:1s").expect("a mean"),
            Lengths::Exponential(1.0)
        );
        assert_eq!(
            lengths("uniform:1s-2s").expect("two"),
            Lengths::Uniform(1.0, 2.0)
        );
        let file = tempfile::NamedTempFile::new().expect("temp");
        std::fs::write(file.path(), "# pauses\n12ms\n 1.5s \n\n250\n").expect("a file");
        let path = file.path().display().to_string();
        assert_eq!(
            lengths(&path).expect("samples"),
            Lengths::Observed(vec![0.012, 1.5, 0.25])
        );
        std::fs::write(file.path(), "12ms\nsoon\n").expect("a file");
        for (text, why) in [
            ("soon", "`soon`: no such file, and not a duration"),
            ("/no/such/work.txt", "no such file"),
            ("5x", "`x` is no unit of time, and no such file"),
            ("300", "a duration without a unit"),
            ("-", "standard input"),
            ("-5s", "no such file, and not a duration"),
            ("/dev", "a folder"),
            ("/dev/null", "not a regular file"),
            ("uniform:2s-1s", "longer"),
            (path.as_str(), "line 2: `soon` is no duration"),
        ] {
            let (what, hint) = lengths(text).expect_err(text);
            assert!(what.contains(why), "{what}");
            assert!(hint.contains("path of a file"), "{hint}");
        }
    }

    #[test]
    fn what_is_too_seldom_is_no_figure() {
        assert_eq!(per_million(0.0), "0");
        assert_eq!(per_million(1.35e-17), "< 1e-6");
        assert_eq!(per_million(5.65e-7), "5.65e-1");
        assert_eq!(per_million(7.6e-5), "76.0");
    }
}
