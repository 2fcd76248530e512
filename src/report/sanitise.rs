//! Makes text from adapters, histories and servers harmless, one function an output.
//!
//! Owns what counts as dangerous where. Must not know what the text means. Every renderer passes each text that it
//! did not write itself through here: owner values, error codes, keys, proofs, sentences, versions, names of files.
//!
//! | output | danger | answer |
//! |---|---|---|
//! | terminal, log | control characters move the cursor, retitle or answer; bidi and invisible characters lie | [`visible`]: `\u{1b}` |
//! | CI log | `::set-env`, `##[command]`, `##vso[`, `##teamcity[` are commands | [`visible`] breaks them up; [`guard_lines`] is the belt |
//! | Markdown | tables break, HTML and links run, `@name` notifies | [`markdown`], [`code`], [`fence`] |
//! | XML | characters that XML 1.0 forbids, even escaped | [`xml`] |
//! | CSV | cells that begin a formula | [`csv`] |
use std::borrow::Cow;
use std::fmt::Write as _;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Longest text, in characters, that [`visible`] lets through; what is longer ends in `…`.
/// A proof or a sentence is far shorter; an adapter that babbles is not worth more.
pub const LONGEST: usize = 2_000;

/// Whether a character could deceive a reader or drive a terminal: controls (C0, DEL, C1), line separators, bidi
/// controls, invisible characters, tags, private use and unassigned specials.
pub fn is_dangerous(c: char) -> bool {
    c.is_control()
        || u32::from(c) & 0xfffe == 0xfffe // no characters at all
        || matches!(c,
            '\u{ad}'                      // soft hyphen
            | '\u{61c}'                   // Arabic letter mark
            | '\u{115f}' | '\u{1160}'     // Hangul fillers
            | '\u{180e}'                  // Mongolian vowel separator
            | '\u{200b}'..='\u{200f}'     // zero width, left-to-right and right-to-left marks
            | '\u{2028}'..='\u{202e}'     // separators, embeddings, overrides
            | '\u{2060}'..='\u{206f}'     // joiners, isolates, deprecated format characters
            | '\u{3164}'                  // Hangul filler
            | '\u{e000}'..='\u{f8ff}'     // private use
            | '\u{fe00}'..='\u{fe0f}'     // variation selectors
            | '\u{feff}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}'   // tags, further variation selectors
            | '\u{f0000}'..='\u{10ffff}') // private use
}

/// One line of text that is safe on a terminal and in a CI log: dangerous characters become visible escapes, what a
/// CI service would take for a command is broken up, and overlong text is cut.
pub fn visible(text: &str) -> Cow<'_, str> {
    let harmless = !text.chars().any(is_dangerous)
        && !text.trim_start().starts_with("::")
        && !text.contains("##")
        && text.len() <= LONGEST;
    if harmless {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut previous = ' ';
    for (n, c) in text.chars().enumerate() {
        if n == LONGEST {
            out.push('…');
            break;
        }
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if is_dangerous(c) => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
            '#' if previous == '#' => out.push_str("\\u{23}"),
            ':' if out.trim_start().is_empty() && text.trim_start().starts_with("::") => {
                out.push_str("\\u{3a}");
            }
            c => out.push(c),
        }
        previous = c;
    }
    Cow::Owned(out)
}

/// [`visible`], cut to `width` terminal columns (wide characters count two) with `…` at the end of what was cut.
/// Combining characters have no width, so their number is bounded too.
pub fn clip(text: &str, width: usize) -> String {
    let text = visible(text);
    let most = width.saturating_mul(2);
    if UnicodeWidthStr::width(&*text) <= width && text.chars().count() <= most {
        return text.into_owned();
    }
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars().take(most) {
        let w = c.width().unwrap_or(0);
        if used + w >= width {
            break;
        }
        used += w;
        out.push(c);
    }
    if width > 0 {
        out.push('…');
    }
    out
}

/// Width in terminal columns.
pub fn columns(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// The last look at a whole text for a log: no line may begin with what a CI service takes for a command, even after
/// blanks or colour. Lines that do are given a backslash.
pub fn guard_lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let start = skip_blanks_and_colour(line);
        let rest = &line[start..];
        if rest.starts_with("::") || rest.starts_with("##[") || rest.starts_with("##vso[") {
            out.push_str(&line[..start]);
            out.push('\\');
            out.push_str(rest);
        } else {
            out.push_str(line);
        }
    }
    out
}

/// Length in bytes of the blanks and SGR sequences at the start of a line.
fn skip_blanks_and_colour(line: &str) -> usize {
    let mut rest = line;
    loop {
        rest = rest.trim_start_matches([' ', '\t']);
        let Some(after) = rest.strip_prefix("\u{1b}[") else {
            return line.len() - rest.len();
        };
        let Some(end) = after.find(|c: char| !c.is_ascii_digit() && c != ';') else {
            return line.len() - rest.len();
        };
        if !after[end..].starts_with('m') {
            return line.len() - rest.len();
        }
        rest = &after[end + 1..];
    }
}

/// Markdown prose on one line: nothing in it is markup, HTML, a link, a table border, a mention or an issue.
/// `@` and `#` become full-width, since GitHub looks for `@name` and `#12` after Markdown is rendered, where no
/// escape is left.
pub fn markdown(text: &str) -> String {
    let text = visible(text);
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '@' => out.push('＠'),
            '#' => out.push('＃'),
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            // `:` and `.` matter for bare links (`https://…`, `www.…`), the rest for CommonMark and GFM.
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '(' | ')' | '+' | '-' | '!' | '|'
            | '~' | '=' | '$' | ':' | '.' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    unescape_numbers(&out)
}

/// Prose is full of `1.204 s` and `lock: x`; a point or colon between a digit or blank is no link, so the backslash
/// goes again and the file stays readable as text.
fn unescape_numbers(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    for (i, &c) in chars.iter().enumerate() {
        let mark = chars.get(i + 1).copied();
        let before = i.checked_sub(1).and_then(|i| chars.get(i)).copied();
        let after = chars.get(i + 2).copied();
        let escaped_already = before == Some('\\');
        let harmless = c == '\\'
            && !escaped_already
            && match mark {
                Some('.' | ':') => match after {
                    None => true,
                    Some(a) => {
                        a == ' '
                            || (a.is_ascii_digit()
                                && before.is_some_and(|b| b.is_ascii_digit())
                                && mark == Some('.'))
                    }
                },
                Some('-') => {
                    before.is_some_and(char::is_alphanumeric)
                        && after.is_some_and(char::is_alphanumeric)
                }
                _ => false,
            };
        // A number at the very start followed by `. ` would be a list.
        let list = mark == Some('.')
            && chars.get(i + 2).is_none_or(|c| *c == ' ')
            && out.chars().all(|c| c.is_ascii_digit());
        if !harmless || list {
            out.push(c);
        }
    }
    out
}

/// A Markdown code span, also inside a table cell.
pub fn code(text: &str) -> String {
    let text = visible(text).replace('`', "'");
    // GFM splits a row at every bare `|`, code span or not; outside tables the backslash would show, so a
    // look-alike bar is used everywhere.
    let text = text.replace('|', "¦");
    if text.trim().is_empty() {
        return String::from("–");
    }
    format!("`{}`", text.trim())
}

/// A fenced Markdown block around lines that were made visible one by one; the fence is longer than any in them.
pub fn fence(block: &str) -> String {
    let longest = block
        .lines()
        .map(|l| l.trim_start().chars().take_while(|c| *c == '`').count())
        .max()
        .unwrap_or(0);
    let fence = "`".repeat((longest + 1).max(3));
    let end = if block.ends_with('\n') { "" } else { "\n" };
    format!("{fence}text\n{block}{end}{fence}\n")
}

/// Text for XML, one or many lines: escapes stay visible, and no character is left that XML 1.0 forbids. Escaping of
/// `<` and `&` is the writer's.
pub fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (n, line) in text.split('\n').enumerate() {
        if n > 0 {
            out.push('\n');
        }
        out.push_str(&visible(line));
    }
    out.retain(|c| {
        matches!(c, '\n' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..='\u{10ffff}')
    });
    out
}

/// One CSV cell, quoted; a cell that a spreadsheet would take for a formula begins with an apostrophe.
pub fn csv(text: &str) -> String {
    let text = visible(text);
    let formula = text
        .trim_start()
        .starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠', '\\']);
    format!(
        "\"{}{}\"",
        if formula { "'" } else { "" },
        text.replace('"', "\"\"")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an adapter could send, at its worst.
    const HOSTILE: &str = "\u{1b}]0;owned\u{7}\u{1b}[2J::error::x\n::set-env name=A::b\r\u{9b}31m|`<img src=x onerror=alert(1)>\
        [x](javascript:alert(1)) @everyone #1 https://evil.example www.evil.example \u{202e}gnp.exe\u{2066}\u{0}\u{fffe}##[error]y";

    #[test]
    fn nothing_dangerous_reaches_a_terminal() {
        let safe = visible(HOSTILE);
        assert!(!safe.chars().any(is_dangerous), "{safe}");
        assert!(!safe.contains("##["), "{safe}");
        assert!(safe.contains("\\u{1b}]0;owned"), "{safe}");
        assert!(safe.contains("\\u{202e}gnp.exe"), "{safe}");
    }

    #[test]
    fn ordinary_text_is_untouched_and_not_copied() {
        assert!(matches!(
            visible("lock:0 c1>n2 · 1.204 s"),
            Cow::Borrowed(_)
        ));
        assert_eq!(visible("a::b"), "a::b");
    }

    #[test]
    fn no_text_and_no_line_is_a_ci_command() {
        assert_eq!(visible("::error::x"), "\\u{3a}:error::x");
        assert_eq!(visible("  ::error::x"), "  \\u{3a}:error::x");
        assert_eq!(visible("##vso[task]"), "#\\u{23}vso[task]");
        let guarded = guard_lines("ok\n::a\n  ::b\n\u{1b}[1;31m::c\u{1b}[0m\n##[d]\nx ::e\n");
        assert_eq!(
            guarded,
            "ok\n\\::a\n  \\::b\n\u{1b}[1;31m\\::c\u{1b}[0m\n\\##[d]\nx ::e\n"
        );
    }

    #[test]
    fn overlong_text_is_cut_and_zalgo_is_bounded() {
        assert_eq!(visible(&"a".repeat(9_999)).chars().count(), LONGEST + 1);
        assert_eq!(clip("abcdef", 4), "abc…");
        assert_eq!(clip("abcd", 4), "abcd");
        assert_eq!(columns(&clip("漢字漢字漢字", 5)), 5);
        let zalgo = format!("a{}", "\u{301}".repeat(500));
        assert!(clip(&zalgo, 10).chars().count() <= 21);
    }

    #[test]
    fn markdown_has_no_markup_left() {
        assert_eq!(
            markdown("<b>|x|</b> *y* `z` [a](b)"),
            "&lt;b&gt;\\|x\\|&lt;/b&gt; \\*y\\* \\`z\\` \\[a\\]\\(b\\)"
        );
        assert_eq!(markdown("@everyone #12"), "＠everyone ＃12");
        assert_eq!(markdown("https://evil.example"), "https\\://evil\\.example");
        assert_eq!(markdown("www.evil.example"), "www\\.evil\\.example");
        assert_eq!(markdown("a \\| b"), "a \\\\\\| b");
    }

    #[test]
    fn prose_stays_readable_in_markdown() {
        assert_eq!(
            markdown("A (c1) held lock:0 until 1.204 s; client-pause: late."),
            "A \\(c1\\) held lock\\:0 until 1.204 s; client-pause: late."
        );
        assert_eq!(markdown("1. x"), "1\\. x");
        assert_eq!(markdown("- x"), "\\- x");
    }

    #[test]
    fn code_spans_and_fences_cannot_be_left() {
        assert_eq!(code("a`b|c\n"), "`a'b¦c\\n`");
        assert_eq!(code(" "), "–");
        assert_eq!(fence("````\nx"), "`````text\n````\nx\n`````\n");
    }

    #[test]
    fn xml_has_only_what_xml_allows() {
        let safe = xml(HOSTILE);
        assert!(safe.chars().all(|c| c >= ' ' || c == '\n'));
        assert!(!safe.contains('\u{fffe}') && !safe.contains('\u{0}'));
        assert_eq!(xml("a\nb"), "a\nb");
    }

    #[test]
    fn csv_cells_are_no_formulas() {
        assert_eq!(csv("=cmd|' /C calc'!A0"), "\"'=cmd|' /C calc'!A0\"");
        assert_eq!(csv("-1"), "\"'-1\"");
        assert_eq!(csv("a\"b"), "\"a\"\"b\"");
        assert_eq!(csv("\t=1"), "\"'\\t=1\"");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_safe_everywhere(text in "\\PC*|[\\x00-\\x7f]*|(::|##|\\[|[a-z]|\n| )*") {
            let safe = visible(&text);
            proptest::prop_assert!(!safe.chars().any(is_dangerous));
            proptest::prop_assert!(!safe.trim_start().starts_with("::"));
            proptest::prop_assert!(!safe.contains("##"));
            let marked = markdown(&text);
            proptest::prop_assert!(!marked.contains(['<', '@', '#', '\n']));
            for (i, _) in marked.match_indices('|') {
                let slashes = marked[..i].chars().rev().take_while(|c| *c == '\\').count();
                proptest::prop_assert!(slashes % 2 == 1, "{}", marked);
            }
            proptest::prop_assert!([0, 2].contains(&code(&text).matches('`').count()));
            proptest::prop_assert!(columns(&clip(&text, 20)) <= 20);
        }
    }
}
