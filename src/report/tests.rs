//! The room as a whole: folders in, texts out. Snapshots are in `snapshots/`; `cargo insta review` looks at changes.
use super::fixture::{self, HOSTILE, History, MS, PLAN};
use super::latency::{Measure, Phase};
use super::summary::{Judgement, Summary};
use super::{
    Renderer as _, Style, json, junit, markdown, render_all, render_several, summarise, terminal,
};
use fencepost_checker::{Blame, Event, EventType, Expect, Outcome, Process, Value, Verdict};
use std::path::PathBuf;

type Failure = Box<dyn std::error::Error>;

fn summary(plan: &str, history: &str, verdict: &Verdict) -> Result<Summary, Failure> {
    let dir = tempfile::tempdir()?;
    fixture::folder(dir.path(), plan, history, verdict);
    let mut summary = summarise(dir.path())?;
    summary.dir = PathBuf::from("results/plain-del/20260101T000000Z-7");
    Ok(summary)
}

fn plain_del() -> Result<Summary, Failure> {
    summary(PLAN, &fixture::plain_del().text(), &fixture::verdict(true))
}

/// The same workload's other variant, in which all held.
fn holds(name: &str, seed: u64) -> Result<Summary, Failure> {
    let mut s = summary(PLAN, &fixture::plain_del().text(), &fixture::verdict(false))?;
    s.setup.workload = name.to_owned();
    s.setup.lock = String::from("redlock");
    s.setup.seed = seed;
    s.dir = PathBuf::from(format!("results/{name}/20260101T000000Z-{seed}"));
    s.judged
        .iter_mut()
        .for_each(|j| j.judgement = Judgement::Expected);
    s.first_finding_ns = None;
    Ok(s)
}

#[test]
fn the_summary_counts_what_the_history_says() -> Result<(), Failure> {
    let s = plain_del()?;
    let acquire = s.operations["acquire"];
    assert_eq!(
        (acquire.ok, acquire.fail, acquire.info, acquire.open),
        (14, 5, 1, 1)
    );
    assert_eq!(s.grants, 14);
    assert_eq!(s.load_ns, 4_000 * MS);
    assert!(
        (s.cycles_per_s - 3.0).abs() < 1e-9,
        "12 releases in 4 s: {}",
        s.cycles_per_s
    );
    assert_eq!(s.first_finding_ns, Some(2_231 * MS));
    assert_eq!(
        (s.faults[0].injected, s.faults[0].bit, s.faults[0].healed),
        (1, 1, 1)
    );
    assert_eq!(s.fault_id(0), "pause");
    assert_eq!((s.stalls.count, s.deaths), (1, 0));
    assert_eq!(s.errors["acquire held"], 5);
    assert!(s.history.complete);
    let overlap = s.overlap.ok_or("an overlap")?;
    assert_eq!((overlap.figures.count, overlap.violations), (1, 2));
    Ok(())
}

#[test]
fn latencies_fall_into_their_phases_and_the_warm_up_into_none() -> Result<(), Failure> {
    let s = plain_del()?;
    let count = |measure, phase| {
        let found = s
            .latency
            .iter()
            .find(|l| l.measure == measure && l.phase == phase);
        found.map_or((0, 0), |l| (l.figures.count, l.figures.censored))
    };
    // Ten by c2 and c1's own; the 80 ms of the warm-up are not there.
    assert_eq!(count(Measure::Acquire, Phase::Before), (11, 0));
    assert_eq!(
        s.over_all(Measure::Acquire).map(|f| f.p50.ms.round()),
        Some(1.0)
    );
    assert_eq!(count(Measure::AcquireRefused, Phase::During), (5, 0));
    // c2's grant and c3's timeout.
    assert_eq!(count(Measure::Acquire, Phase::During), (2, 1));
    // c1's try in the tail, and c3's that was never answered.
    assert_eq!(count(Measure::Acquire, Phase::After), (2, 1));
    // c2 waited from 1300 to 3231; c3 waits from 3240 on and is never granted.
    let wait = s
        .latency
        .iter()
        .find(|l| l.measure == Measure::AcquireWait && l.phase == Phase::During);
    let wait = wait.ok_or("a wait")?.figures;
    assert_eq!((wait.count, wait.censored), (2, 1));
    assert!((1_931.0..=2_062.0).contains(&wait.max.ms), "{wait:?}");
    Ok(())
}

#[test]
fn an_open_loop_waits_from_the_intended_start() -> Result<(), Failure> {
    let mut h = History::new("open", &[]);
    let intended = Value {
        intended: Some(50 * MS),
        ..Value::default()
    };
    h.phase(0, "load");
    h.op(150, "c1", EventType::Invoke, "acquire", intended);
    h.op(151, "c1", EventType::Ok, "acquire", Value::default());
    h.phase(200, "end");
    let s = summary("", &h.text(), &fixture::verdict(false))?;
    let at = |m| s.over_all(m).map(|f| f.max.ms.round());
    assert_eq!(at(Measure::Acquire), Some(1.0));
    assert_eq!(at(Measure::AcquireWait), Some(101.0));
    Ok(())
}

#[test]
fn a_dead_clients_wait_is_censored() -> Result<(), Failure> {
    let mut h = History::new("death", &[]);
    h.phase(0, "load");
    h.call(100, 101, "c1", EventType::Fail, "acquire");
    h.push(Event {
        index: 0,
        time: 600 * MS,
        process: Process::Named("driver".into()),
        client: Some("c1".into()),
        worker: None,
        kind: EventType::Info,
        f: "death".into(),
        key: None,
        value: Value::default(),
        error: None,
    });
    let s = summary("", &h.text(), &fixture::verdict(false))?;
    let wait = s.over_all(Measure::AcquireWait).ok_or("a wait")?;
    assert_eq!((wait.count, wait.censored, s.deaths), (1, 1, 1));
    assert!((499.0..=501.0).contains(&wait.max.ms) && wait.max.at_least);
    Ok(())
}

#[test]
fn an_expectation_is_found_by_name_then_by_class() -> Result<(), Failure> {
    use Judgement::{Expected as E, Skipped as S, Unexpected as U, Unknown as N};
    let judge = |expect: &[(&str, Expect)], violated, outcome| -> Result<Vec<Judgement>, Failure> {
        let history = History::new("w", expect).text();
        let mut verdict = fixture::verdict(violated);
        verdict.outcome = outcome;
        let s = summary("", &history, &verdict)?;
        Ok(s.judged.iter().map(|j| j.judgement).collect())
    };
    let (good, bad, doubt) = (Outcome::Valid, Outcome::Violated, Outcome::Unknown);
    assert_eq!(judge(&[], false, good)?, [E, E, E, S, E, E]);
    assert_eq!(judge(&[], true, bad)?, [E, U, U, S, E, E]);
    let named = [("ownership", Expect::Violated), ("overrun", Expect::Any)];
    assert_eq!(judge(&named, true, good)?, [E, E, E, S, E, E]);
    let unseen = [("truthful", Expect::Valid)];
    assert_eq!(judge(&unseen, false, doubt)?, [E, E, E, N, E, E]);
    // Of a class, any check will do.
    let class = [("library", Expect::Violated), ("overrun", Expect::Any)];
    assert_eq!(judge(&class, true, good)?, [E, E, E, S, E, E]);
    assert_eq!(judge(&class, false, bad)?, [E, E, U, N, E, E]);
    assert_eq!(
        judge(&[("library", Expect::Valid)], false, good)?,
        [E, E, E, S, E, E]
    );
    // The whole verdict was milder (a stalled machine): no check says otherwise.
    assert_eq!(judge(&[], true, doubt)?, [E, N, N, S, E, E]);
    Ok(())
}

#[test]
fn a_verdict_on_another_history_is_no_verdict() -> Result<(), Failure> {
    let text = fixture::plain_del().text();
    let events = text.lines().count() as u64 - 1;
    let mut verdict = fixture::verdict(true);
    verdict.counts.insert("events".to_owned(), events);
    let whole = summary(PLAN, &text, &verdict)?;
    assert_eq!(whole.verdict.outcome, verdict.outcome);
    let half: String = text.split_inclusive('\n').take(9).collect();
    let s = summary(PLAN, &half, &verdict)?;
    assert_eq!(s.verdict.outcome, Outcome::Unknown);
    let why = &s.verdict.reasons[0];
    assert!(
        why.contains(&format!("of {events} events, and history.jsonl has 8")),
        "{why}"
    );
    Ok(())
}

#[test]
fn torn_foreign_and_missing_files_are_told() -> Result<(), Failure> {
    let text = fixture::plain_del().text();
    let torn = format!("{text}not json\n\n{{\"index\":9,\"ti");
    let s = summary(PLAN, &torn, &fixture::verdict(false))?;
    assert_eq!((s.history.bad_lines, s.history.torn_bytes), (1, 14));

    for (history, says) in [
        ("", "empty"),
        ("hello\n", ":1: no fencepost history"),
        ("\u{0}\u{1b}\n", ":1:"),
    ] {
        let error = summary("", history, &fixture::verdict(false))
            .err()
            .ok_or(history)?;
        assert!(error.to_string().contains(says), "{error}");
    }
    let error = summary("[cluster", &text, &fixture::verdict(false))
        .err()
        .ok_or("TOML")?;
    assert!(error.to_string().contains("plan.toml"), "{error}");
    let dir = tempfile::tempdir()?;
    let error = summarise(dir.path()).err().ok_or("nothing there")?;
    assert!(error.to_string().contains("verdict.json"), "{error}");
    Ok(())
}

#[test]
fn terminal_of_one_run() -> Result<(), Failure> {
    insta::assert_snapshot!(terminal(&[plain_del()?], Style::default()));
    Ok(())
}

#[test]
fn terminal_in_ascii_is_ascii() -> Result<(), Failure> {
    let style = Style {
        unicode: false,
        width: 80,
        ..Style::default()
    };
    let text = terminal(&[plain_del()?], style);
    assert!(
        text.is_ascii(),
        "{:?}",
        text.lines().find(|l| !l.is_ascii())
    );
    insta::assert_snapshot!(text);
    Ok(())
}

#[test]
fn terminal_of_forty_columns_breaks_no_word() -> Result<(), Failure> {
    let style = Style {
        width: 40,
        ..Style::default()
    };
    let run = plain_del()?;
    let text = terminal(std::slice::from_ref(&run), style);
    for check in &run.verdict.checks {
        assert!(text.contains(&check.name), "{}: {text}", check.name);
    }
    assert!(text.contains("p99.9 "), "{text}");
    Ok(())
}

#[test]
fn terminal_side_by_side() -> Result<(), Failure> {
    let runs = [plain_del()?, holds("plain-del/redlock", 7)?];
    insta::assert_snapshot!(terminal(&runs, Style::default()));
    Ok(())
}

#[test]
fn terminal_of_many_runs() -> Result<(), Failure> {
    let mut runs = vec![plain_del()?; 4];
    runs.push(holds("plain-del", 8)?);
    runs.push(holds("plain-del", 9)?);
    insta::assert_snapshot!(terminal(&runs, Style::default()));
    Ok(())
}

#[test]
fn of_many_runs_each_bad_one_gives_its_reasons() -> Result<(), Failure> {
    let mut runs: Vec<Summary> = (1..=20).map(|n| holds("w", n)).collect::<Result<_, _>>()?;
    runs[12].verdict.outcome = Outcome::Violated;
    runs[12].verdict.reasons = vec![String::from("service: found 1 violation")];
    let text = terminal(&runs, Style::default());
    assert_eq!(
        text.matches("NOT AS EXPECTED  w  seed 13\n  service: found 1 violation")
            .count(),
        1,
        "{text}"
    );
    assert_eq!(text.matches("AS EXPECTED").count(), 1, "{text}");
    assert!(text.contains("w: as expected 19 of 20"), "{text}");
    let marked = markdown::several(&runs);
    assert_eq!(
        marked
            .matches("not as expected: `w`, seed 13\n\n* service: found 1 violation")
            .count(),
        1,
        "{marked}"
    );
    Ok(())
}

#[test]
fn no_line_is_wider_than_the_terminal_but_for_one_word() -> Result<(), Failure> {
    let s = plain_del()?;
    for width in [60, 80, 100, 160] {
        let style = Style {
            width,
            ..Style::default()
        };
        let text = terminal(std::slice::from_ref(&s), style);
        // A path is never broken: people copy it.
        for line in text.lines().filter(|l| !l.starts_with("  results ")) {
            assert!(super::sanitise::columns(line) <= width, "{width}: {line}");
        }
    }
    Ok(())
}

#[test]
fn colour_changes_nothing_but_colour() -> Result<(), Failure> {
    let s = [plain_del()?];
    let coloured = terminal(
        &s,
        Style {
            color: true,
            ..Style::default()
        },
    );
    assert!(coloured.contains("\u{1b}["));
    let mut plain = String::new();
    let mut rest = coloured.as_str();
    while let Some(at) = rest.find('\u{1b}') {
        plain.push_str(&rest[..at]);
        let end = rest[at..].find('m').ok_or("only colours")?;
        rest = &rest[at + end + 1..];
    }
    plain.push_str(rest);
    assert_eq!(plain, terminal(&s, Style::default()));
    Ok(())
}

#[test]
fn markdown_of_one_and_of_several() -> Result<(), Failure> {
    let one = markdown::Markdown.render(&plain_del()?)?;
    insta::assert_snapshot!(one[0].text);
    insta::assert_snapshot!(markdown::several(&[
        plain_del()?,
        holds("plain-del/redlock", 7)?
    ]));
    Ok(())
}

#[test]
fn junit_of_one() -> Result<(), Failure> {
    let mut s = plain_del()?;
    // One of each: failed, error.
    s.judged[2].judgement = Judgement::Unexpected;
    s.judged[5].judgement = Judgement::Unknown;
    let text = junit::several(&[s])?;
    well_formed(&text)?;
    insta::assert_snapshot!(text);
    Ok(())
}

#[test]
fn a_junit_file_never_passes_where_the_run_did_not() -> Result<(), Failure> {
    for (outcome, tag) in [
        (Outcome::Violated, "<failure"),
        (Outcome::Unknown, "<error"),
    ] {
        let mut s = holds("w", 1)?;
        s.verdict.outcome = outcome;
        s.verdict.reasons = vec![String::from("something else")];
        let text = junit::several(&[s])?;
        assert!(
            text.contains(tag) && text.contains("something else"),
            "{text}"
        );
    }
    Ok(())
}

#[test]
fn all_files_are_written_and_the_old_ones_replaced() -> Result<(), Failure> {
    let dir = tempfile::tempdir()?;
    let verdict = fixture::verdict(true);
    fixture::folder(dir.path(), PLAN, &fixture::plain_del().text(), &verdict);
    let s = summarise(dir.path())?;
    for _ in 0..2 {
        render_all(&s, dir.path())?;
        render_several(std::slice::from_ref(&s), &dir.path().join("all"))?;
    }
    let mut names: Vec<String> = std::fs::read_dir(dir.path())?
        .chain(std::fs::read_dir(dir.path().join("latency"))?)
        .map(|f| Ok(f?.file_name().to_string_lossy().into_owned()))
        .collect::<Result<_, std::io::Error>>()?;
    names.sort();
    let hgrm: Vec<&String> = names.iter().filter(|n| n.contains(".hgrm")).collect();
    assert!(hgrm.len() >= 8, "{names:?}");
    for name in [
        "acquire-during.hgrm",
        "summary.md",
        "junit.xml",
        "violations.hgrm",
        "report.html",
        "all",
    ] {
        assert!(names.iter().any(|n| n == name), "{name} {names:?}");
    }
    assert!(names.iter().all(|n| !n.starts_with('.')), "{names:?}");
    Ok(())
}

#[test]
fn json_reads_back() -> Result<(), Failure> {
    let text = json(&[plain_del()?])?;
    let value: serde_json::Value = serde_json::from_str(&text)?;
    assert_eq!(value["runs"][0]["grants"], 14);
    let one: Summary = serde_json::from_value(value["runs"][0].clone())?;
    assert_eq!(one.verdict, fixture::verdict(true));
    assert_eq!(text.lines().count(), 1);
    Ok(())
}

/// Every text in every input is hostile at once.
fn hostile() -> Result<Summary, Failure> {
    let mut verdict = fixture::verdict(true);
    verdict.outcome = Outcome::Violated;
    verdict.reasons = vec![HOSTILE.to_owned()];
    verdict.counts.insert(HOSTILE.to_owned(), 1);
    for check in &mut verdict.checks {
        check.name = format!("{HOSTILE}{}", check.name);
        check.note = Some(HOSTILE.to_owned());
        for f in &mut check.findings {
            f.sentence = HOSTILE.to_owned();
            f.key = Some(HOSTILE.to_owned());
            f.blame = Blame::Library(HOSTILE.to_owned());
            f.faults = vec![HOSTILE.to_owned()];
            for s in &mut f.sections {
                s.client = HOSTILE.to_owned();
                s.label = HOSTILE.to_owned();
            }
            f.evidence.push(
                serde_json::json!({"time": 4_000 * MS, "process": HOSTILE, "f": HOSTILE,
                "key": HOSTILE, "value": {"node": HOSTILE, "owner": HOSTILE}}),
            );
        }
    }
    let mut h = fixture::plain_del();
    h.fault(6_000, HOSTILE, "inject", HOSTILE, HOSTILE);
    h.named(
        6_001,
        "driver",
        "adapter",
        Value {
            proof: Some(HOSTILE.into()),
            ..Value::default()
        },
    );
    h.op(6_002, HOSTILE, EventType::Info, HOSTILE, Value::default());
    let mut s = summary(PLAN, &h.text(), &verdict)?;
    s.setup.workload = HOSTILE.to_owned();
    s.setup.about = HOSTILE.to_owned();
    s.setup.lock = HOSTILE.to_owned();
    s.setup
        .versions
        .insert(HOSTILE.to_owned(), HOSTILE.to_owned());
    s.dir = PathBuf::from(HOSTILE.replace('\0', ""));
    Ok(s)
}

#[test]
fn hostile_text_is_harmless_in_every_format() -> Result<(), Failure> {
    let one = [hostile()?];
    let few = [hostile()?, plain_del()?];
    let many: Vec<Summary> = std::iter::repeat_with(hostile)
        .take(6)
        .collect::<Result<_, _>>()?;
    let mut texts = Vec::new();
    for runs in [&one[..], &few, &many] {
        for unicode in [true, false] {
            texts.push(terminal(
                runs,
                Style {
                    unicode,
                    ..Style::default()
                },
            ));
        }
        texts.push(markdown::several(runs));
        texts.push(junit::several(runs)?);
        texts.push(json(runs)?);
        well_formed(&junit::several(runs)?)?;
    }
    let marked = markdown::Markdown.render(&one[0])?[0].text.clone();
    texts.push(marked.clone());
    for text in &texts {
        let bad = text
            .chars()
            .find(|c| *c != '\n' && super::sanitise::is_dangerous(*c));
        assert_eq!(bad, None, "{text}");
        for line in text.lines() {
            assert!(!line.trim_start().starts_with("::"), "{line}");
            assert!(!line.contains("##["), "{line}");
        }
    }
    // Outside of code, nothing of it is markup.
    let prose: Vec<&str> = marked.split("```").step_by(2).collect();
    for text in prose {
        let text = text.replace("\\`", "");
        let spans: String = text.split('`').step_by(2).collect();
        assert!(
            !spans.contains("<script") && !spans.contains("](") && !spans.contains("@everyone"),
            "{spans}"
        );
    }
    for line in marked.lines().filter(|l| l.starts_with("| ")) {
        let bars = line.replace("\\|", "").matches('|').count();
        assert!([6, 9, 10, 8].contains(&bars), "{bars}: {line}");
    }
    Ok(())
}

/// Parses XML and checks that each character is one that XML 1.0 allows.
fn well_formed(text: &str) -> Result<(), Failure> {
    let mut reader = quick_xml::Reader::from_str(text);
    reader.config_mut().check_end_names = true;
    let mut depth = 0;
    loop {
        match reader.read_event()? {
            quick_xml::events::Event::Start(tag) => {
                depth += 1;
                for attribute in tag.attributes() {
                    attribute?.unescape_value()?;
                }
            }
            quick_xml::events::Event::End(_) => depth -= 1,
            quick_xml::events::Event::Text(t) => drop(t.decode()?),
            quick_xml::events::Event::Eof => break,
            _ => {}
        }
    }
    assert_eq!(depth, 0);
    let allowed = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
    assert_eq!(text.chars().find(|c| !allowed(*c)), None);
    assert!(
        !text.contains("&#x1b") && !text.contains("&#27"),
        "escaped controls are forbidden too"
    );
    Ok(())
}

/// The checker's golden histories come from all that can happen to a lock: each can be shown in every format, and no
/// format says that something is wrong where the verdict does not, nor the other way round.
#[test]
fn every_golden_history_can_be_shown() -> Result<(), Failure> {
    let mut seen = 0;
    for entry in std::fs::read_dir("checker/tests/golden")? {
        let path = entry?.path();
        let verdict = fencepost_checker::check_path(&path)?;
        let text = std::fs::read_to_string(&path)?;
        let mut s = summary("", &text, &verdict)?;
        let xml = junit::several(std::slice::from_ref(&s))?;
        well_formed(&xml)?;
        let dir = tempfile::tempdir()?;
        // The page reads the history again, for its pictures.
        std::fs::write(dir.path().join("history.jsonl"), &text)?;
        s.dir = dir.path().to_owned();
        render_all(&s, dir.path())?;
        let judged = |judgement| s.judged.iter().any(|j| j.judgement == judgement);
        let name = path.display();
        assert_eq!(
            judged(Judgement::Unexpected),
            verdict.outcome == Outcome::Violated,
            "{name}: {:?}",
            verdict.reasons
        );
        if verdict.outcome == Outcome::Valid {
            assert!(!judged(Judgement::Unknown), "{name}");
            assert!(
                !xml.contains("<failure") && !xml.contains("<error"),
                "{name}: {xml}"
            );
        }
        let shown = terminal(&[s], Style::default());
        for check in &verdict.checks {
            assert!(shown.contains(&check.name), "{name}: {}", check.name);
            for finding in check.findings.iter().take(1) {
                let words = finding
                    .sentence
                    .split(' ')
                    .take(3)
                    .collect::<Vec<_>>()
                    .join(" ");
                assert!(shown.contains(&words), "{name}: {words}");
            }
        }
        seen += 1;
    }
    assert!(seen >= 40, "{seen}");
    Ok(())
}
