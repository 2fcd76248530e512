//! Tells how a run is going: a line that moves on a terminal, few plain lines elsewhere, nothing with `--json`.
//!
//! Owns what is told and how often. Must not know how anything is run: the driver calls [`Progress::tick`] as often
//! as it likes, and nothing here wakes a thread of its own, since the driver measures. Everything goes to stderr.
use super::sanitise::{guard_lines, visible};
use super::tables::plural;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::cell::RefCell;
use std::io::{IsTerminal as _, Write};
use std::time::{Duration, Instant};

/// At most one plain line in this time, but for a first finding.
const PLAIN_EVERY: Duration = Duration::from_secs(5);
/// Rates are taken over at least this time.
const RATE_OVER: Duration = Duration::from_millis(500);

/// How progress is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A moving line.
    Bar,
    /// Plain lines, rarely.
    Plain,
    /// Not at all.
    Silent,
}

impl Mode {
    /// Silent with `--json`; a moving line on a terminal that can move (not `TERM=dumb`, not in CI); else plain.
    pub fn detect(json: bool) -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|v| !v.is_empty());
        let dumb = std::env::var_os("TERM").is_none_or(|t| t == "dumb");
        match (json, std::io::stderr().is_terminal()) {
            (true, _) => Self::Silent,
            (false, true) if !dumb && !set("CI") => Self::Bar,
            (false, _) => Self::Plain,
        }
    }
}

/// The counters of one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counters {
    ops: u64,
    grants: u64,
    faults: u64,
    findings: u64,
}

struct State {
    phase: String,
    began: Instant,
    expected: Option<Duration>,
    last: Counters,
    rate: f64,
    rate_from: (Instant, u64),
    printed: Instant,
    to: Box<dyn Write>,
    bar: Option<ProgressBar>,
}

/// Tells how a run is going. One for a command, however many runs it makes.
pub struct Progress {
    mode: Mode,
    state: RefCell<State>,
}

impl std::fmt::Debug for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Progress")
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}

impl Progress {
    /// Progress on stderr.
    pub fn new(mode: Mode) -> Self {
        Self::to(mode, Box::new(std::io::stderr()))
    }

    fn to(mode: Mode, to: Box<dyn Write>) -> Self {
        let now = Instant::now();
        let bar = (mode == Mode::Bar).then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(5));
            if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
                bar.set_style(style);
            }
            bar
        });
        Self {
            mode,
            state: RefCell::new(State {
                phase: String::new(),
                began: now,
                expected: None,
                last: Counters::default(),
                rate: 0.0,
                rate_from: (now, 0),
                printed: now,
                to,
                bar,
            }),
        }
    }

    /// A new phase of the run begins (`cluster`, `warm-up`, `load`, `heal`, `tail`, `check` …), and how long it will
    /// take if that is known.
    pub fn phase(&self, name: &str, expected: Option<Duration>) {
        self.phase_at(Instant::now(), name, expected);
    }

    /// The counters so far, since the start of the run.
    pub fn tick(&self, ops: u64, grants: u64, faults: u64, findings: u64) {
        let counters = Counters {
            ops,
            grants,
            faults,
            findings,
        };
        self.tick_at(Instant::now(), counters);
    }

    /// One line to read, now.
    pub fn line(&self, text: &str) {
        if self.mode == Mode::Silent {
            return;
        }
        let text = guard_lines(&visible(text));
        let mut state = self.state.borrow_mut();
        state.printed = Instant::now();
        match &state.bar {
            Some(bar) => bar.suspend(|| print(&mut std::io::stderr(), &text)),
            None => print(&mut state.to, &text),
        }
    }

    /// Nothing more comes; the moving line goes away.
    pub fn finish(&self) {
        if let Some(bar) = &self.state.borrow().bar {
            bar.finish_and_clear();
        }
    }

    fn phase_at(&self, now: Instant, name: &str, expected: Option<Duration>) {
        let mut state = self.state.borrow_mut();
        state.phase = visible(name).into_owned();
        state.began = now;
        state.expected = expected;
        // Plain lines tell what came of a phase; that it began is nothing to read.
        if self.mode == Mode::Bar {
            self.show(&mut state, now);
        }
    }

    fn tick_at(&self, now: Instant, counters: Counters) {
        if self.mode == Mode::Silent {
            return;
        }
        let mut state = self.state.borrow_mut();
        // A new run of the same command counts from nothing again.
        if counters.ops < state.last.ops {
            state.rate_from = (now, counters.ops);
            state.rate = 0.0;
        }
        let (from, ops) = state.rate_from;
        let over = now.saturating_duration_since(from);
        if over >= RATE_OVER {
            state.rate = (counters.ops - ops) as f64 / over.as_secs_f64();
            state.rate_from = (now, counters.ops);
        }
        let first_finding = state.last.findings == 0 && counters.findings > 0;
        state.last = counters;
        let due = now.saturating_duration_since(state.printed) >= PLAIN_EVERY;
        if self.mode == Mode::Bar || due || first_finding {
            self.show(&mut state, now);
        }
    }

    fn show(&self, state: &mut State, now: Instant) {
        if self.mode == Mode::Silent {
            return;
        }
        let text = state.text(now);
        state.printed = now;
        match &state.bar {
            Some(bar) => {
                bar.set_message(text);
                bar.tick();
            }
            None => print(&mut state.to, &text),
        }
    }
}

impl State {
    fn text(&self, now: Instant) -> String {
        let spent = now.saturating_duration_since(self.began).as_secs();
        let time = match self.expected {
            Some(e) => format!("{spent} of {:.0} s", e.as_secs_f64()),
            None => format!("{spent} s"),
        };
        let c = &self.last;
        if c.ops == 0 {
            return format!("{}: {time}", self.phase);
        }
        format!(
            "{}: {time}, {} ({:.0}/s), {}, {}, {}",
            self.phase,
            plural(c.ops, "op"),
            self.rate,
            plural(c.grants, "grant"),
            plural(c.faults, "fault"),
            plural(c.findings, "finding"),
        )
    }
}

/// A line that cannot be written (a closed pipe) is no reason to stop a run.
fn print(to: &mut dyn Write, text: &str) {
    let _ = writeln!(to, "{text}");
    let _ = to.flush();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[derive(Clone, Default)]
    struct Page(Rc<RefCell<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.borrow_mut().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn told(page: &Page) -> String {
        String::from_utf8_lossy(&page.0.borrow()).into_owned()
    }

    fn ticks(mode: Mode, findings_from: u64) -> String {
        let page = Page::default();
        let progress = Progress::to(mode, Box::new(page.clone()));
        let start = Instant::now();
        progress.phase_at(start, "load", Some(Duration::from_secs(20)));
        // A tick each 10 ms for 20 s.
        for n in 0..2_000_u64 {
            let counters = Counters {
                ops: n * 5,
                grants: n,
                faults: 1,
                findings: u64::from(n >= findings_from),
            };
            progress.tick_at(start + Duration::from_millis(n * 10), counters);
        }
        progress.finish();
        told(&page)
    }

    #[test]
    fn plain_lines_are_rare_and_say_it_all() {
        let told = ticks(Mode::Plain, u64::MAX);
        assert_eq!(told.lines().count(), 3, "{told}");
        assert_eq!(
            told.lines().next(),
            Some("load: 5 of 20 s, 2500 ops (500/s), 500 grants, 1 fault, 0 findings")
        );
    }

    #[test]
    fn the_first_finding_is_told_at_once() {
        let told = ticks(Mode::Plain, 700);
        assert!(
            told.lines()
                .any(|l| l.starts_with("load: 7 of 20 s") && l.ends_with("1 finding")),
            "{told}"
        );
        assert_eq!(told.lines().count(), 4, "{told}");
    }

    #[test]
    fn with_json_nothing_is_told() {
        assert_eq!(ticks(Mode::Silent, 0), "");
    }

    #[test]
    fn hostile_lines_are_harmless_and_a_second_run_counts_anew() {
        let page = Page::default();
        let progress = Progress::to(Mode::Plain, Box::new(page.clone()));
        progress.line("::error::\u{1b}[2Jx\n::y");
        let start = Instant::now();
        progress.tick_at(
            start + Duration::from_secs(6),
            Counters {
                ops: 100,
                ..Counters::default()
            },
        );
        progress.tick_at(
            start + Duration::from_secs(12),
            Counters {
                ops: 3,
                ..Counters::default()
            },
        );
        let told = told(&page);
        assert!(
            told.starts_with("\\u{3a}:error::\\u{1b}[2Jx\\n::y\n"),
            "{told}"
        );
        assert!(told.contains("3 ops (0/s)"), "{told}");
    }
}
