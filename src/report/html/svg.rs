//! A small writer of SVG for a page with a strict content policy: classes instead of styles, all text escaped.
//!
//! Owns escaping for HTML and SVG, scales and ticks. Must not know what is drawn.
use crate::report::sanitise::visible;
use std::fmt::Write as _;

/// Text that is safe between tags and in quoted attributes: nothing invisible or reordering, nothing that is markup.
pub fn escape(text: &str) -> String {
    let text = visible(text);
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// Text cut to about `width` units of a drawing, at `size` units a character; empty where not even two fit.
pub fn fit(text: &str, width: f64, per_char: f64) -> String {
    let most = (width / per_char).max(0.0) as usize;
    let text = visible(text);
    if text.chars().count() <= most {
        return text.into_owned();
    }
    if most < 3 {
        return String::new();
    }
    let mut out: String = text.chars().take(most - 1).collect();
    out.push('…');
    out
}

/// Where the text of a drawing goes from its point.
#[derive(Debug, Clone, Copy)]
pub enum Anchor {
    /// To the right.
    Start,
    /// Both ways.
    Middle,
    /// To the left.
    End,
}

/// A drawing that grows.
#[derive(Debug, Default)]
pub struct Svg {
    body: String,
    /// What names the rows and the values of the axis at the left.
    names: String,
}

/// A drawing that is done.
#[derive(Debug)]
pub struct Picture {
    svg: Svg,
    class: &'static str,
    w: f64,
    h: f64,
    label: String,
}

impl Svg {
    /// A filled rectangle, at least a hair wide.
    pub fn rect(&mut self, class: &str, x: f64, y: f64, w: f64, h: f64) -> &mut Self {
        let w = w.max(0.6);
        let _ = write!(
            self.body,
            r#"<rect class="{class}" x="{x:.1}" y="{y:.1}" width="{w:.1}" height="{h:.1}"/>"#
        );
        self
    }

    /// A line.
    pub fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) -> &mut Self {
        let _ = write!(
            self.body,
            r#"<line class="{class}" x1="{:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}"/>"#,
            from.0, from.1, to.0, to.1
        );
        self
    }

    /// A path; `d` is ours.
    pub fn path(&mut self, class: &str, d: &str) -> &mut Self {
        let _ = write!(self.body, r#"<path class="{class}" d="{d}"/>"#);
        self
    }

    /// A rhombus around a point.
    pub fn diamond(&mut self, class: &str, x: f64, y: f64, r: f64) -> &mut Self {
        let d = format!(
            "M{:.1} {y:.1}L{x:.1} {:.1}L{:.1} {y:.1}L{x:.1} {:.1}Z",
            x - r,
            y - r,
            x + r,
            y + r
        );
        self.path(class, &d)
    }

    /// Text, escaped.
    pub fn text(&mut self, class: &str, x: f64, y: f64, anchor: Anchor, text: &str) -> &mut Self {
        write_text(&mut self.body, class, (x, y), anchor, text);
        self
    }

    /// Text at the left that names a row or a value of the axis, escaped: it stays in view where the rest is scrolled.
    pub fn name(&mut self, class: &str, x: f64, y: f64, anchor: Anchor, text: &str) -> &mut Self {
        write_text(&mut self.names, class, (x, y), anchor, text);
        self
    }

    /// A group with a title, which a pointer at rest and a screen reader are told; `draw` fills it.
    pub fn titled(&mut self, title: &str, draw: impl FnOnce(&mut Self)) -> &mut Self {
        let _ = write!(self.body, "<g><title>{}</title>", escape(title));
        draw(self);
        self.body.push_str("</g>");
        self
    }

    /// The drawing, `w` by `h` units; `label` says what it shows.
    pub fn finish(self, class: &'static str, w: f64, h: f64, label: &str) -> Picture {
        Picture {
            svg: self,
            class,
            w,
            h,
            label: escape(label),
        }
    }
}

impl Picture {
    /// One element that stands alone.
    pub fn alone(&self) -> String {
        let Self { svg, class, .. } = self;
        let (w, h, label) = (self.w, self.h, &self.label);
        format!(
            r#"<svg class="{class}" viewBox="0 0 {w:.0} {h:.0}" role="img" aria-label="{label}">{}{}</svg>"#,
            svg.body, svg.names
        )
    }

    /// Two elements for a box that scrolls: the drawing, and over its first `left` units the names, which stay where they
    /// are. On their paper nothing shows through but the axis of time, `axis` units high, beside its own name.
    pub fn scrolled(&self, left: f64, axis: f64) -> String {
        let Self { svg, class, .. } = self;
        let (w, h, label) = (self.w, self.h, &self.label);
        // Down to the axis, with the line of it and the lower half of a value beside it.
        let rows = h - axis + 4.5;
        format!(
            r#"<div class="wide"><svg class="{class}" viewBox="0 0 {w:.0} {h:.0}" role="img" aria-label="{label}">{}</svg><svg class="names" viewBox="0 0 {left:.0} {h:.0}" aria-hidden="true"><path class="paper" d="M0 0H{:.1}V{rows:.1}H44V{h:.0}H0Z"/>{}</svg></div>"#,
            svg.body,
            left - 1.0,
            svg.names
        )
    }

    /// Bytes, about.
    pub fn len(&self) -> usize {
        self.svg.body.len() + self.svg.names.len()
    }
}

fn write_text(out: &mut String, class: &str, (x, y): (f64, f64), anchor: Anchor, text: &str) {
    let anchor = match anchor {
        Anchor::Start => "",
        Anchor::Middle => r#" text-anchor="middle""#,
        Anchor::End => r#" text-anchor="end""#,
    };
    let _ = write!(
        out,
        r#"<text class="{class}" x="{x:.1}" y="{y:.1}"{anchor}>{}</text>"#,
        escape(text)
    );
}

/// A linear scale from ns to units.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// First time, ns.
    pub from: u64,
    /// Last time, ns.
    pub to: u64,
    /// Left edge.
    pub left: f64,
    /// Right edge.
    pub right: f64,
}

impl Scale {
    /// The place of a time, within the edges.
    pub fn x(&self, at: u64) -> f64 {
        let span = self.to.saturating_sub(self.from).max(1) as f64;
        let at = at.clamp(self.from, self.to.max(self.from)) - self.from;
        self.left + at as f64 / span * (self.right - self.left)
    }

    /// Round times within the scale, about `n` of them, with their texts.
    pub fn ticks(&self, n: u64) -> Vec<(u64, String)> {
        let step = round_step(self.to.saturating_sub(self.from) / n.max(1));
        let decimals = (0..9)
            .find(|d| step.is_multiple_of(10_u64.pow(9 - d)))
            .unwrap_or(9);
        let first = self.from.div_ceil(step).saturating_mul(step);
        (0..64)
            .map(|i| first.saturating_add(step.saturating_mul(i)))
            .take_while(|t| *t <= self.to)
            .map(|t| (t, seconds(t, decimals as usize)))
            .collect()
    }
}

/// A time in s with so many decimals, cut.
pub fn seconds(ns: u64, decimals: usize) -> String {
    let whole = ns / 1_000_000_000;
    if decimals == 0 {
        return whole.to_string();
    }
    let fraction = format!("{:09}", ns % 1_000_000_000);
    format!("{whole}.{}", &fraction[..decimals.min(9)])
}

/// The next of 1, 2, 5, 10 … above.
pub fn round_step(least: u64) -> u64 {
    let mut power = 1_u64;
    loop {
        for m in [1, 2, 5] {
            if power.saturating_mul(m) >= least.max(1) {
                return power.saturating_mul(m);
            }
        }
        power = power.saturating_mul(10);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_text_becomes_markup_or_reorders() {
        let out = escape("<script>a&b\"'\u{202e}</script>");
        assert_eq!(
            out,
            "&lt;script&gt;a&amp;b&#34;&#39;\\u{202e}&lt;/script&gt;"
        );
    }

    #[test]
    fn ticks_are_round_and_inside() {
        let scale = Scale {
            from: 398_000_000,
            to: 2_521_000_000,
            left: 0.0,
            right: 100.0,
        };
        let ticks = scale.ticks(6);
        let texts: Vec<&str> = ticks.iter().map(|t| t.1.as_str()).collect();
        assert_eq!(texts, ["0.5", "1.0", "1.5", "2.0", "2.5"]);
        assert!(scale.x(0) == 0.0 && (scale.x(u64::MAX) - 100.0).abs() < 1e-9);
        assert_eq!(round_step(0), 1);
        assert!(round_step(u64::MAX) > 0, "and it ends");
    }
}
