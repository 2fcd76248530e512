//! One finding as a picture of its own: an SVG file for a README or a pull request.
//!
//! Owns which finding is drawn and what a file needs that stands alone (its style, its patterns, its paper). Must not
//! know how a finding is drawn (`sequence`). Goes to `files`.
use super::STYLE;
use super::sequence;
use super::track::track;
use crate::report::ReportError;
use crate::report::summary::Summary;
use fencepost_checker::Finding;

/// The patterns that the page has at its head.
const PATTERNS: &str = r#"<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="stripe" width="2.6" height="6"/></pattern><pattern id="fault" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(-45)"><rect class="fault-stripe" width="1.6" height="5"/></pattern></defs>"#;
/// The text of the page, in as far as a drawing has any.
const TEXT: &str = "svg{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue','DejaVu Sans',sans-serif;\
                    font-variant-numeric:tabular-nums}.paper{fill:var(--bg)}";

/// The first finding that can be drawn, of `check` where one is named; what a reader must see first (two holders whom
/// the servers let in, then what the library broke) comes first. None: there is no such finding.
///
/// # Errors
/// When the history cannot be read.
pub fn picture(s: &Summary, check: Option<&str>) -> Result<Option<String>, ReportError> {
    let track = track(s)?;
    let mut found: Vec<(usize, &Finding)> = s
        .verdict
        .checks
        .iter()
        .flat_map(|c| &c.findings)
        .enumerate()
        .filter(|(_, f)| check.is_none_or(|name| f.check == name))
        .collect();
    // Stable: among its equals, the registry's order.
    found.sort_by_key(|(_, f)| f.overlap_ns.is_none());
    let drawn = found.into_iter().find_map(|(n, finding)| {
        let scene = track.scenes.get(n)?;
        sequence::draw(s, &track, finding, scene)
    });
    Ok(drawn.map(|drawn| alone(&drawn.alone())))
}

/// The drawing with all that it takes from its page.
fn alone(svg: &str) -> String {
    let rest = svg.strip_prefix("<svg ").unwrap_or(svg);
    let (head, body) = rest.split_once('>').unwrap_or((rest, ""));
    let size = head.split("viewBox=\"0 0 ").nth(1).unwrap_or_default();
    let mut size = size.split(['"', ' ']);
    let (w, h) = (size.next().unwrap_or("0"), size.next().unwrap_or("0"));
    let style = style(svg);
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" {head}><style>{TEXT}{style}</style>{PATTERNS}<rect class="paper" width="{w}" height="{h}"/>{body}"#
    )
}

/// The rules of the page's style that this drawing uses.
fn style(svg: &str) -> String {
    let mut out = String::new();
    for (selector, rule) in rules(STYLE) {
        let wanted = match selector {
            ":root" | "@media (prefers-color-scheme: dark)" => true,
            _ if selector.starts_with("svg text") => true,
            _ => selector.split(',').any(|one| used(one.trim(), svg)),
        };
        if wanted {
            out.extend(rule.split_whitespace().flat_map(|word| [word, " "]));
        }
    }
    out.trim_end().to_owned()
}

/// Whether a selector is of one element by its class, and the drawing (or a pattern) has that class.
fn used(selector: &str, svg: &str) -> bool {
    let Some(class) = selector.strip_prefix('.') else {
        return false;
    };
    let class = class.split('.').next().unwrap_or(class);
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    class.chars().all(plain)
        && [svg, PATTERNS]
            .iter()
            .flat_map(|text| text.split("class=\"").skip(1))
            .filter_map(|rest| rest.split('"').next())
            .any(|classes| classes.split(' ').any(|c| c == class))
}

/// The rules of a style sheet: selector, and the whole rule.
fn rules(css: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let (mut start, mut depth) = (0, 0_i32);
    for (at, c) in css.char_indices() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        if c == '}' && depth == 0 {
            let rule = css[start..=at].trim();
            let selector = rule.split('{').next().unwrap_or_default().trim();
            found.push((selector, rule));
            start = at + 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_used_comes_along() {
        let svg = r#"<svg class="sequence" viewBox="0 0 1000 150" role="img"><rect class="fault h3"/></svg>"#;
        let alone = alone(svg);
        assert!(alone.starts_with("<svg xmlns="), "{alone}");
        assert!(alone.contains(r#"width="1000" height="150" class="sequence""#));
        for part in [
            ".fault {",
            ".fault-stripe {",
            ".h3 {",
            "--red:",
            "color-scheme: dark",
            "svg text.red {",
        ] {
            assert!(alone.contains(part), "{part}: {alone}");
        }
        for part in ["body", ".facts", "#canvas", "@media print", ".filters"] {
            assert!(!alone.contains(part), "{part}: {alone}");
        }
    }
}
