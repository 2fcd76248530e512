//! A finding as a sequence diagram on a true axis of time: faults, who held a promise and who went on without, calls,
//! writes with versions and tokens, and whose value each server had.
//!
//! Owns the picture. Must not judge: what is marked as damage is the finding's own time, and all the rest is drawn as
//! the history has it. Goes to the page, with the table of [`steps`] behind it.
use super::nodes::Holding;
use super::svg::{Anchor, Picture, Scale, Svg, fit};
use super::track::{Kind, Scene, Step, Track};
use crate::report::evidence::marks;
use crate::report::latency::number;
use crate::report::summary::Summary;
use crate::report::tables::seconds;
use crate::report::timeline::{killed, overlap};
use fencepost_checker::{EventType, Finding, SectionView};

/// Width of a drawing, units.
const WIDTH: f64 = 1_000.0;
/// Where the axis begins.
pub const LEFT: f64 = 118.0;
/// Height of the axis of time below the rows.
pub const AXIS: f64 = 22.0;
/// Units a character of the small text.
const CHAR: f64 = 5.9;
/// Heights of rows.
const FAULT: f64 = 20.0;
const STRIP: f64 = 26.0;
const CLIENT: f64 = 44.0;
const NODE: f64 = 24.0;
/// Sections, faults and servers drawn at most.
const ROWS_MAX: usize = 8;

/// The picture; none where the finding names nobody.
pub fn draw(s: &Summary, track: &Track, finding: &Finding, scene: &Scene) -> Option<Picture> {
    let (from, to) = scene.range?;
    let mut d = Drawing {
        svg: Svg::default(),
        scale: Scale {
            from,
            to,
            left: LEFT,
            right: WIDTH - 8.0,
        },
        s,
        track,
        finding,
        scene,
        y: 4.0,
        client_rows: Vec::new(),
    };
    let holdings = d.holdings();
    let faults = d.shown_faults();
    let nodes = rows_of(&holdings);
    let clients = finding.sections.len().min(ROWS_MAX) as f64;
    let body = 4.0 + faults.len() as f64 * FAULT + STRIP + clients * CLIENT;
    let height = body + nodes.len() as f64 * NODE + 6.0;
    d.grid(height);
    d.faults(&faults);
    let strip = d.y;
    d.y += STRIP;
    let first_client = d.y;
    for section in finding.sections.iter().take(ROWS_MAX) {
        d.client_rows.push(d.y + CLIENT / 2.0);
        d.tint(&section.client, CLIENT, &faults);
        d.y += CLIENT;
    }
    d.overlap(strip, first_client);
    for (n, section) in finding.sections.iter().take(ROWS_MAX).enumerate() {
        d.section(n, section);
    }
    for node in &nodes {
        d.tint(node, NODE, &faults);
        d.node(node, &holdings);
    }
    d.damage(first_client);
    let label = format!(
        "Sequence diagram from {} to {}. {} The table below it lists each step.",
        seconds(from),
        seconds(to),
        finding.sentence
    );
    Some(d.svg.finish("sequence", WIDTH, height + AXIS, &label))
}

/// Servers and keys that have a row.
fn rows_of(holdings: &[&Holding]) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    for h in holdings {
        if !rows.contains(&h.node) {
            rows.push(h.node.clone());
        }
    }
    rows.truncate(ROWS_MAX);
    rows
}

/// A fault's window: name, target, begin, end.
struct Window {
    name: String,
    target: String,
    from: u64,
    to: Option<u64>,
}

struct Drawing<'a> {
    svg: Svg,
    scale: Scale,
    s: &'a Summary,
    track: &'a Track,
    finding: &'a Finding,
    scene: &'a Scene,
    y: f64,
    client_rows: Vec<f64>,
}

impl<'a> Drawing<'a> {
    /// What stood on the servers under the finding's key, in the drawn time.
    fn holdings(&self) -> Vec<&'a Holding> {
        let (from, to) = (self.scale.from, self.scale.to);
        let of = |h: &&Holding| {
            self.finding.key.as_deref().is_none_or(|k| k == h.key)
                && h.not_before <= to
                && h.to >= from
        };
        self.track.holdings.iter().filter(of).take(400).collect()
    }

    fn shown_faults(&self) -> Vec<Window> {
        let (from, to) = (self.scale.from, self.scale.to);
        let all = self.s.faults.iter().flat_map(|f| {
            f.injections.iter().map(|i| Window {
                name: format!("{} {}", f.kind, i.target),
                target: i.target.clone(),
                from: i.at,
                to: i.healed,
            })
        });
        all.filter(|w| w.from <= to && w.to.is_none_or(|t| t >= from))
            .take(ROWS_MAX)
            .collect()
    }

    fn grid(&mut self, height: f64) {
        for (at, text) in self.scale.ticks(8) {
            let x = self.scale.x(at);
            self.svg.line("grid", (x, 0.0), (x, height)).text(
                "tick",
                x,
                height + 15.0,
                Anchor::Middle,
                &text,
            );
        }
        self.svg
            .name("tick", 2.0, height + 15.0, Anchor::Start, "time, s");
    }

    fn faults(&mut self, faults: &[Window]) {
        for w in faults {
            let (a, b) = (self.scale.x(w.from), self.end(w.to));
            let (y, svg) = (self.y, &mut self.svg);
            svg.rect("fault", a, y + 3.0, b - a, FAULT - 8.0);
            let label = fit(&w.name, LEFT - 4.0, CHAR);
            svg.name("label faint", 2.0, y + 13.0, Anchor::Start, &label);
            self.y += FAULT;
        }
    }

    /// Shade the row of a client or server while a fault has it.
    fn tint(&mut self, name: &str, height: f64, faults: &[Window]) {
        for w in faults {
            // A link belongs to its client; several targets stand with commas between.
            let hit = w
                .target
                .split(',')
                .any(|t| t.split('>').next() == Some(name));
            if hit {
                let (a, b) = (self.scale.x(w.from), self.end(w.to));
                self.svg.rect("fault-row", a, self.y, b - a, height);
            }
        }
    }

    fn end(&self, to: Option<u64>) -> f64 {
        to.map_or(self.scale.right, |t| self.scale.x(t))
    }

    /// The time in which two held, as a red band over the clients' rows with its length above.
    fn overlap(&mut self, strip: f64, top: f64) {
        let Some((from, to)) = overlap(self.finding) else {
            return;
        };
        let (a, b) = (self.scale.x(from), self.scale.x(to));
        let rows = self.finding.sections.len().min(2) as f64;
        self.svg.rect("overlap", a, top, b - a, rows * CLIENT);
        let ms = self.finding.overlap_ns.unwrap_or_default() as f64 / 1e6;
        let text = format!("two holders, {} ms", number(ms));
        self.above(a, b, strip, &text);
    }

    /// A red bracket from `a` to `b` with a text beside or above it.
    fn above(&mut self, a: f64, b: f64, y: f64, text: &str) {
        let width = text.chars().count() as f64 * CHAR + 8.0;
        let b = b.max(a + 1.0);
        self.svg
            .path("bracket", &format!("M{a:.1} {:.1}v-4H{b:.1}v4", y + STRIP));
        let (x, anchor) = if b - a > width {
            (f64::midpoint(a, b), Anchor::Middle)
        } else if a - width > LEFT {
            (a - 5.0, Anchor::End)
        } else {
            (b + 5.0, Anchor::Start)
        };
        self.svg.text("red", x, y + 15.0, anchor, text);
    }

    fn section(&mut self, row: usize, who: &SectionView) {
        let y = self.client_rows[row];
        let hue = self.hue(who);
        let right = self.scale.right;
        let x = self.scale.x(who.acquire_return);
        let promise = self.end(who.promise_end);
        let belief = self.end(who.belief_end);
        let svg = &mut self.svg;
        svg.line("life", (LEFT, y), (right, y)).name(
            "label strong",
            2.0,
            y + 4.0,
            Anchor::Start,
            &fit(
                &format!("{} {}/{}", who.label, who.client, who.worker),
                LEFT - 6.0,
                6.6,
            ),
        );
        let (top, height) = (y - 9.0, 18.0);
        self.others(who, y);
        let svg = &mut self.svg;
        let within = promise.min(belief);
        svg.titled(&said(who), |svg| {
            svg.rect(&format!("h{hue}"), x, top, within - x, height);
            if belief > promise {
                svg.rect(
                    &format!("h{hue} beyond"),
                    promise,
                    top,
                    belief - promise,
                    height,
                )
                .rect("hatch", promise, top, belief - promise, height);
            }
        });
        let token = who.token.map(|t| format!("token {t}"));
        let inside = token.unwrap_or_else(|| String::from("holds"));
        svg.text(
            "inside",
            x + 5.0,
            y + 4.0,
            Anchor::Start,
            &fit(&inside, within - x - 6.0, CHAR),
        );
        if belief > promise {
            let text = fit("past its lease", belief - promise - 8.0, CHAR);
            svg.text("past", promise + 5.0, y + 4.0, Anchor::Start, &text);
        }
        if who.promise_end.is_some_and(|t| t <= self.scale.to) {
            svg.line(
                "lease-end",
                (promise, top - 4.0),
                (promise, top + height + 4.0),
            );
        }
        if let Some(end) = who.belief_end
            && self.s.faults.iter().any(|f| killed(f, &who.client, end))
        {
            let d = format!("M{:.1} {:.1}l8 8m0 -8l-8 8", belief - 4.0, y - 4.0);
            svg.path("death", &d);
        }
        self.steps(row, y);
    }

    /// What else the same worker held in this time, faintly.
    fn others(&mut self, v: &SectionView, y: f64) {
        let Some(lane) = self.lane(v) else { return };
        let class = format!("h{} other", super::hue(lane));
        for span in &self.track.lanes[lane].spans {
            let held = matches!(span.kind, Kind::Held | Kind::Beyond);
            let itself =
                span.from <= v.belief_end.unwrap_or(u64::MAX) && span.to >= v.acquire_return;
            if held && !itself && span.from <= self.scale.to && span.to >= self.scale.from {
                let (a, b) = (self.scale.x(span.from), self.scale.x(span.to));
                self.svg.rect(&class, a, y - 9.0, b - a, 18.0);
            }
        }
    }

    /// Calls as brackets below the row, reads and writes as marks above it.
    fn steps(&mut self, row: usize, y: f64) {
        let mut free = f64::MIN;
        for step in self.scene.steps.iter().filter(|step| step.section == row) {
            let (a, b) = (self.scale.x(step.from), self.scale.x(step.to));
            let svg = &mut self.svg;
            svg.titled(&sentence(step), |svg| match &*step.f {
                "read" | "write" => {
                    let class = match (&*step.f, step.kind) {
                        ("write", EventType::Ok) => "write",
                        ("write", _) => "refused",
                        _ => "read",
                    };
                    svg.diamond(class, b, y - 14.0, 4.0);
                }
                _ => {
                    let (low, tip) = (y + 13.0, y + 9.5);
                    let class = if step.kind == EventType::Info {
                        "call unsure"
                    } else {
                        "call"
                    };
                    svg.path(
                        class,
                        &format!("M{a:.1} {tip:.1}V{low:.1}H{:.1}V{tip:.1}", b.max(a + 1.5)),
                    );
                }
            });
            let short = match (&*step.f, step.version) {
                ("read" | "write", Some(version)) => format!("{} v{version}", &step.f[..1]),
                ("write", None) => String::from("w refused"),
                _ => continue,
            };
            let width = short.len() as f64 * 5.2;
            let mid = b.max(LEFT + width / 2.0);
            if mid - width / 2.0 > free && mid + width / 2.0 < WIDTH {
                let text_y = y - 20.0;
                self.svg
                    .text("tiny", mid, text_y + 2.0, Anchor::Middle, &short);
                free = mid + width / 2.0 + 3.0;
            }
        }
    }

    /// What stood on one server.
    fn node(&mut self, node: &str, holdings: &[&Holding]) {
        let y = self.y;
        let mid = y + NODE / 2.0;
        self.svg
            .line("life", (LEFT, mid), (self.scale.right, mid))
            .name(
                "label",
                2.0,
                mid + 4.0,
                Anchor::Start,
                &fit(&format!("on {node}"), LEFT - 6.0, 6.2),
            );
        for h in holdings.iter().filter(|h| h.node == node) {
            let (a, b) = (self.scale.x(h.from), self.scale.x(h.to));
            let who = self.who(h);
            let class = h.lane.map_or_else(
                || String::from("nobody"),
                |l| format!("h{} value", super::hue(l)),
            );
            let early = self.scale.x(h.not_before);
            let late = self.scale.x(h.gone_not_before);
            let title = holding_text(h, &who);
            let inside = fit(&who, b - a - 6.0, CHAR);
            let how = h.how.as_str();
            self.svg.titled(&title, |svg| {
                svg.rect(&class, a, mid - 7.0, b - a, 14.0)
                    .line("unsure", (early, mid), (a, mid));
                if b - late > 1.5 {
                    svg.rect("fade", late, mid - 7.0, b - late, 14.0);
                }
                svg.text("on-value", a + 4.0, mid + 4.0, Anchor::Start, &inside);
                if matches!(
                    how,
                    "del" | "evicted" | "flushed" | "restarted" | "overwritten"
                ) {
                    svg.line("gone", (b, mid - 10.0), (b, mid + 10.0));
                }
            });
            self.message(h, a, mid);
        }
        self.y += NODE;
    }

    /// A line from the client whose value it is to the server that took it.
    fn message(&mut self, h: &Holding, x: f64, mid: f64) {
        if h.from < self.scale.from || h.from > self.scale.to {
            return;
        }
        let names = self.finding.sections.iter().take(ROWS_MAX);
        let row = names
            .zip(&self.client_rows)
            .find(|(v, _)| self.lane(v).is_some_and(|l| Some(l) == h.lane));
        if let Some((_, y)) = row {
            let (from, tip) = (y + 9.0, mid - 8.0);
            self.svg.line("message", (x, from), (x, tip)).path(
                "arrow",
                &format!("M{:.1} {:.1}h6l-3 5Z", x - 3.0, tip - 4.0),
            );
        }
    }

    /// The finding's own moment, where it is no overlap: a write, a delete, a token.
    fn damage(&mut self, top: f64) {
        if self.finding.overlap_ns.is_some() {
            return;
        }
        let at = self.finding.at;
        if !(self.scale.from..=self.scale.to).contains(&at) {
            return;
        }
        let x = self.scale.x(at);
        let found = self
            .scene
            .steps
            .iter()
            .find(|s| s.to == at && s.f == "write");
        let text = found.map_or_else(
            || format!("{} at {}", self.finding.check, seconds(at)),
            |s| {
                let version = s.version.map_or_else(String::new, |v| format!(" of v{v}"));
                let token = s.token.map_or_else(String::new, |t| format!(", token {t}"));
                format!("the write{version}{token}")
            },
        );
        let bottom = self.y;
        self.svg.line("damage", (x, top), (x, bottom));
        if let Some(step) = found
            && let Some(y) = self.client_rows.get(step.section)
        {
            self.svg.diamond("harm", x, y - 14.0, 5.5);
        }
        self.above(x, x + 1.0, top - STRIP, &text);
    }

    fn lane(&self, v: &SectionView) -> Option<usize> {
        let name = format!("{}/{}", v.client, v.worker);
        self.track.lanes.iter().position(|l| l.name == name)
    }

    fn hue(&self, v: &SectionView) -> usize {
        super::hue(self.lane(v).unwrap_or_default())
    }

    /// Whose value it is, by the finding's letter where it has one.
    fn who(&self, h: &Holding) -> String {
        let Some(lane) = h.lane else {
            return String::from("not known");
        };
        let section = self
            .finding
            .sections
            .iter()
            .find(|v| self.lane(v) == Some(lane));
        let name = &self.track.lanes[lane].name;
        section.map_or_else(|| name.clone(), |v| format!("{} {name}", v.label))
    }
}

fn holding_text(h: &Holding, who: &str) -> String {
    let how = if h.how.is_empty() {
        "there at the end"
    } else {
        &h.how
    };
    format!(
        "{} held the value of {who} from {} to {} ({how})",
        h.node,
        micro(h.from),
        micro(h.to)
    )
}

fn said(v: &SectionView) -> String {
    let end = |at: Option<u64>| at.map_or_else(|| String::from("without end"), micro);
    let token = v.token.map_or_else(String::new, |t| format!(", token {t}"));
    format!(
        "{} ({}/{}): granted {}{token}; promised until {}; believed until {}",
        v.label,
        v.client,
        v.worker,
        micro(v.acquire_return),
        end(v.promise_end),
        end(v.belief_end)
    )
}

/// A time in s to the µs.
fn micro(ns: u64) -> String {
    format!("{} s", super::svg::seconds(ns, 6))
}

fn sentence(step: &Step) -> String {
    let mut text = match step.kind {
        EventType::Ok => step.f.clone(),
        EventType::Fail => format!("{} refused", step.f),
        _ => format!("{} without an answer", step.f),
    };
    for (name, value) in [("version", step.version), ("token", step.token)] {
        if let Some(value) = value {
            text = format!("{text}, {name} {value}");
        }
    }
    if let Some(error) = &step.error {
        text = format!("{text}, {error}");
    }
    if step.from == step.to {
        format!("{} {text}", micro(step.to))
    } else {
        format!("{} to {} {text}", micro(step.from), micro(step.to))
    }
}

/// All that the drawing shows, as rows of time, who, and what: for screen readers, and for exact figures.
pub fn steps(finding: &Finding, scene: &Scene) -> Vec<[String; 3]> {
    let mut rows: Vec<(u64, [String; 3])> = Vec::new();
    for step in &scene.steps {
        let Some(v) = finding.sections.get(step.section) else {
            continue;
        };
        let who = format!("{} {}/{}", v.label, v.client, v.worker);
        rows.push((step.to, [micro(step.to), who, sentence(step)]));
    }
    for v in &finding.sections {
        if let Some(end) = v.promise_end {
            let who = format!("{} {}/{}", v.label, v.client, v.worker);
            rows.push((end, [micro(end), who, String::from("its promise ends")]));
        }
    }
    for m in marks(finding) {
        rows.push((m.time, [micro(m.time), m.row, m.text]));
    }
    rows.sort_by_key(|r| r.0);
    rows.dedup();
    rows.into_iter().map(|r| r.1).collect()
}
