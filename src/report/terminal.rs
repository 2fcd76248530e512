//! The report on a terminal: the verdict first, then what was found and why, then the figures.
//!
//! Owns layout, width and colour. Must not know where the text goes: it gives back a `String`, and `cli` prints it.
//! One run is shown whole; several runs are compared side by side (up to four), or listed a row a run with a tally,
//! each with one drawn example a violated check.
use super::glyphs::{Paint, legend};
use super::sanitise::{clip, columns, guard_lines, visible};
use super::summary::{Judged, Judgement, Summary};
use super::tables::{self, Table};
use super::timeline;
use anstyle::{AnsiColor, Style as Ansi};
use comfy_table::{CellAlignment, ContentArrangement, presets};
use fencepost_checker::{Blame, CheckResult, Finding};
use std::fmt::Write as _;

/// How a terminal wants its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// With colours (SGR sequences).
    pub color: bool,
    /// With box-drawing and other characters beyond ASCII.
    pub unicode: bool,
    /// Columns.
    pub width: usize,
}

impl Default for Style {
    fn default() -> Self {
        Self {
            color: false,
            unicode: true,
            width: 100,
        }
    }
}

const GOOD: Ansi = AnsiColor::Green.on_default().bold();
const BAD: Ansi = AnsiColor::Red.on_default().bold();
const DOUBT: Ansi = AnsiColor::Yellow.on_default().bold();
const TITLE: Ansi = Ansi::new().bold();
const FAINT: Ansi = Ansi::new().dimmed();

/// The report of one run, or of several.
pub fn terminal(summaries: &[Summary], style: Style) -> String {
    let mut page = Page {
        out: String::new(),
        style: Style {
            width: style.width.clamp(40, 400),
            ..style
        },
    };
    match summaries {
        [] => page.line("no runs"),
        [one] => page.one(one),
        many => page.many(many),
    }
    guard_lines(&page.out)
}

/// Any tables below a verdict: how it came out with a headline, lines to read, tables with their titles.
pub(super) fn sheet(
    judgement: Judgement,
    word: &str,
    headline: &str,
    lines: &[String],
    tables: &[(&str, Table)],
    style: Style,
) -> String {
    let mut page = Page {
        out: String::new(),
        style: Style {
            width: style.width.clamp(40, 400),
            ..style
        },
    };
    page.judgement(judgement, word, headline);
    for line in lines {
        page.paragraph(line, 2);
    }
    for (title, table) in tables {
        page.section(title, table);
    }
    guard_lines(&page.out)
}

/// A judgement at the head of a report.
pub(super) fn word(j: Judgement) -> &'static str {
    match j {
        Judgement::Expected | Judgement::Skipped => "AS EXPECTED",
        Judgement::Unexpected => "NOT AS EXPECTED",
        Judgement::Unknown => "UNKNOWN",
    }
}

struct Page {
    out: String,
    style: Style,
}

impl Page {
    fn one(&mut self, s: &Summary) {
        self.verdict(s);
        self.paragraph(&tables::setup(s), 2);
        if !s.setup.about.is_empty() {
            let first = s.setup.about.split("\n\n").next().unwrap_or_default();
            self.paragraph(&first.replace('\n', " "), 2);
        }
        self.examples(&[s], false);
        self.section("checks", &tables::checks(s));
        self.section("", &tables::operations(s));
        self.section("", &tables::latency(s));
        for note in tables::latency_notes(s) {
            self.paragraph(&note, 2);
        }
        self.section("", &tables::faults(s));
        self.gap();
        for (name, value) in tables::numbers(s) {
            self.item(&name, &value);
        }
        self.results(s);
    }

    fn many(&mut self, runs: &[Summary]) {
        let tally = tables::tally(runs);
        let few = runs.len() <= tables::SIDE_BY_SIDE;
        for s in tables::headlines(runs) {
            self.verdict(s);
        }
        for line in &tally {
            self.paragraph(line, 0);
        }
        let mut first: Vec<&Summary> = Vec::new();
        for s in runs {
            // One example a check and workload: the first run that shows it.
            let new = s
                .violated()
                .iter()
                .any(|(c, _)| !shown(&first, &s.setup.workload, &c.name));
            if new {
                first.push(s);
            }
        }
        self.examples(&first, true);
        if few {
            self.section("side by side", &tables::comparison(runs));
        } else {
            self.section("runs (acquire in ms)", &tables::runs(runs));
        }
        self.gap();
        for s in runs {
            self.results(s);
        }
    }

    /// `✔ AS EXPECTED  plain-del  seed 7`, and the reasons where it is not.
    fn verdict(&mut self, s: &Summary) {
        let name = clip(
            &s.setup.workload,
            self.style.width.saturating_sub(30).max(10),
        );
        let name = self.paint(TITLE, &name);
        let what = format!("{name}  seed {}", s.setup.seed);
        let j = tables::run_judgement(s);
        self.judgement(j, word(j), &what);
        for reason in &s.verdict.reasons {
            self.paragraph(reason, 2);
        }
        for assumed in &s.verdict.reading {
            self.paragraph(&format!("assumed: {assumed}"), 2);
        }
    }

    /// The sign and word of a judgement, and what it is of.
    fn judgement(&mut self, j: Judgement, word: &str, what: &str) {
        let paint = match j {
            Judgement::Expected | Judgement::Skipped => GOOD,
            Judgement::Unexpected => BAD,
            Judgement::Unknown => DOUBT,
        };
        let head = format!("{} {word}", self.sign(j));
        let head = self.paint(paint, &head);
        let _ = writeln!(self.out, "{head}  {what}");
    }

    /// Each violated check with its sentence and one example, each check of a workload once.
    fn examples(&mut self, runs: &[&Summary], named: bool) {
        let mut done: Vec<(&str, &str)> = Vec::new();
        let mut drawn = false;
        for s in runs {
            for (check, judged) in s.violated() {
                let what = (s.setup.workload.as_str(), check.name.as_str());
                if done.contains(&what) {
                    continue;
                }
                done.push(what);
                drawn |= self.example(s, check, judged, named);
            }
        }
        if drawn {
            self.gap();
            for line in legend(self.style.unicode) {
                let line = self.paint(FAINT, &clip(&line, self.style.width - 2));
                self.line(&format!("  {line}"));
            }
        }
    }

    fn example(&mut self, s: &Summary, check: &CheckResult, judged: &Judged, named: bool) -> bool {
        self.gap();
        let head = finding_head(check, judged);
        let head = format!("{} {head}", self.sign(judged.judgement));
        let paint = if judged.judgement == Judgement::Unexpected {
            BAD
        } else {
            TITLE
        };
        let of = if named {
            format!("  {}, seed {}", visible(&s.setup.workload), s.setup.seed)
        } else {
            String::new()
        };
        for line in self.wrap(&format!("{head}{of}"), 0).lines() {
            let line = self.paint(paint, line);
            self.line(&line);
        }
        let Some(finding) = check.findings.first() else {
            return false;
        };
        self.paragraph(&finding.sentence, 2);
        for step in &finding.proof {
            self.paragraph(step, 4);
        }
        let more = finding_more(finding);
        if !more.is_empty() {
            self.paragraph(&more, 2);
        }
        let width = self.style.width - 2;
        for line in timeline::draw(finding, &s.faults, width, self.style.unicode) {
            let mut text = String::from("  ");
            for (paint, run) in line {
                text.push_str(&self.paint(ansi(paint), &run));
            }
            self.line(text.trim_end());
        }
        true
    }

    fn section(&mut self, title: &str, table: &Table) {
        if table.rows.is_empty() {
            return;
        }
        self.gap();
        if !title.is_empty() {
            let title = self.paint(TITLE, title);
            self.line(&title);
        }
        let text = if self.fits(table) {
            self.table(table)
        } else {
            self.list(table)
        };
        let bad = self.sign(Judgement::Unexpected);
        for line in text.lines() {
            let line = line.trim_end();
            let bad = line.trim_start().starts_with(&bad) || line.contains("NOT as expected");
            let line = if bad {
                self.paint(BAD, line)
            } else {
                line.to_owned()
            };
            self.line(&line);
        }
    }

    /// Whether no word of the table has to be broken.
    fn fits(&self, table: &Table) -> bool {
        let longest = |column: usize| {
            let cells = table.rows.iter().filter_map(|row| row.get(column));
            let words = cells
                .chain(table.head.get(column))
                .flat_map(|cell| cell.split(' '));
            words.map(columns).max().unwrap_or(0) + 1
        };
        (0..table.head.len()).map(longest).sum::<usize>() <= self.style.width
    }

    /// A table on a screen that is too narrow for its columns: a paragraph a row.
    fn list(&self, table: &Table) -> String {
        let mut text = String::new();
        for row in &table.rows {
            let figure = (0..row.len()).find(|&column| table.is_figure(column));
            let (names, rest) = row.split_at(figure.unwrap_or(1).min(row.len()));
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            text += &self.wrap(names.join(" ").trim_start(), 0);
            let head = table.head.iter().skip(names.len());
            let told = rest.iter().zip(head).filter(|(cell, _)| !cell.is_empty());
            let told: Vec<String> = told.map(|(cell, head)| format!("{head} {cell}")).collect();
            if !told.is_empty() {
                text.push('\n');
                text += &self.wrap(&told.join(", "), 4);
            }
            text.push('\n');
        }
        text
    }

    fn table(&self, table: &Table) -> String {
        let mut t = comfy_table::Table::new();
        t.load_preset(if self.style.unicode {
            presets::UTF8_HORIZONTAL_ONLY
        } else {
            presets::ASCII_HORIZONTAL_ONLY
        });
        // Only the rules around the head: rows of figures are read better without.
        t.remove_style(comfy_table::TableComponent::HorizontalLines);
        t.remove_style(comfy_table::TableComponent::MiddleIntersections);
        t.remove_style(comfy_table::TableComponent::VerticalLines);
        t.remove_style(comfy_table::TableComponent::LeftBorder);
        t.remove_style(comfy_table::TableComponent::RightBorder);
        t.set_content_arrangement(ContentArrangement::Dynamic);
        t.set_width(u16::try_from(self.style.width).unwrap_or(u16::MAX));
        let cell = |text: &String| self.ascii(&visible(text));
        t.set_header(table.head.iter().map(cell));
        for row in &table.rows {
            t.add_row(row.iter().map(cell));
        }
        for (n, column) in t.column_iter_mut().enumerate() {
            column.set_padding((0, 1));
            if table.is_figure(n) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        t.to_string()
    }

    fn item(&mut self, name: &str, value: &str) {
        let name = clip(name, 22);
        let pad = " ".repeat(24_usize.saturating_sub(columns(&name)));
        let name = self.paint(FAINT, &name);
        let text = self.wrap(value, 26);
        self.line(&format!("  {name}{pad}{}", text.trim()));
    }

    /// Where the results are: never broken into lines, since people copy it.
    fn results(&mut self, s: &Summary) {
        let name = self.paint(FAINT, "results");
        let path = s.dir.display().to_string();
        self.line(&format!("  {name}{}{}", " ".repeat(17), visible(&path)));
    }

    fn paragraph(&mut self, text: &str, indent: usize) {
        let text = self.wrap(text, indent);
        self.line(&text);
    }

    /// Text in lines of at most the width, each indented; one word longer than a line is left whole.
    fn wrap(&self, text: &str, indent: usize) -> String {
        let text = self.ascii(&visible(text));
        let room = self.style.width.saturating_sub(indent).max(20);
        let pad = " ".repeat(indent);
        let mut lines = vec![String::new()];
        for word in text.split(' ') {
            let last = lines.len() - 1;
            let used = columns(&lines[last]);
            if used > 0 && used + 1 + columns(word) > room {
                lines.push(word.to_owned());
            } else {
                if used > 0 {
                    lines[last].push(' ');
                }
                lines[last].push_str(word);
            }
        }
        let lines: Vec<String> = lines.iter().map(|l| format!("{pad}{l}")).collect();
        lines.join("\n")
    }

    fn line(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn gap(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
    }

    fn sign(&self, j: Judgement) -> String {
        self.ascii(tables::sign(j))
    }

    /// Our own signs in ASCII where the terminal wants that; anything else beyond it becomes `?`.
    fn ascii(&self, text: &str) -> String {
        if self.style.unicode || text.is_ascii() {
            return text.to_owned();
        }
        let mut out = String::with_capacity(text.len());
        for c in text.chars() {
            match c {
                '✔' => out.push_str("ok"),
                '✘' => out.push('X'),
                '–' | '·' => out.push('-'),
                '×' => out.push('x'),
                '≥' => out.push_str(">="),
                '…' => out.push_str("..."),
                '→' => out.push_str("->"),
                c if c.is_ascii() => out.push(c),
                _ => out.push('?'),
            }
        }
        out
    }

    fn paint(&self, style: Ansi, text: &str) -> String {
        if self.style.color && style != Ansi::new() && !text.is_empty() {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }
}

/// Whether one of these runs already shows a check of a workload.
fn shown(runs: &[&Summary], workload: &str, check: &str) -> bool {
    runs.iter()
        .any(|s| s.setup.workload == workload && s.violated().iter().any(|(c, _)| c.name == check))
}

/// `ownership: violated, as expected: 3 in 1 incident, first at 4.203 s`.
pub fn finding_head(check: &CheckResult, judged: &Judged) -> String {
    let first = check.findings.iter().map(|f| f.at).min();
    let first = first.map_or_else(String::new, |at| {
        format!(", first at {}", tables::seconds(at))
    });
    format!(
        "{}: {}, {}: {} in {}{first}",
        visible(&check.name),
        tables::outcome(check.outcome),
        tables::judgement(judged.judgement),
        tables::count(check),
        tables::plural(check.incidents, "incident"),
    )
}

/// Who is to blame for a finding, and what was going on.
pub fn finding_more(finding: &Finding) -> String {
    let mut parts = vec![match &finding.blame {
        Blame::Service => String::from("blame: the lock service"),
        Blame::Library(client) => format!("blame: the lock library in {client}"),
        Blame::Client(client) => format!("blame: client {client}, which went on past its lease"),
        Blame::Unknown => String::from("blame: not known"),
    }];
    parts.extend(finding.key.iter().map(|k| format!("key {k}")));
    if !finding.faults.is_empty() {
        parts.push(format!("faults then: {}", finding.faults.join(", ")));
    }
    parts.join("; ")
}

fn ansi(paint: Paint) -> Ansi {
    match paint {
        Paint::Plain => Ansi::new(),
        Paint::Faint => FAINT,
        Paint::Promise => AnsiColor::Green.on_default(),
        Paint::Beyond => AnsiColor::Yellow.on_default(),
        Paint::Overlap => BAD,
        Paint::Fault => AnsiColor::Magenta.on_default(),
        Paint::Event => AnsiColor::Cyan.on_default(),
    }
}
