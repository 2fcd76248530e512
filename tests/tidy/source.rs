//! Reads Rust source as far as the rules need it: code without comments, literals and tests, and the paths it names.
//!
//! Owns the reading. Must not know any rule. Goes to the tests in `main.rs`.

/// The text with comments and the contents of string and character literals left out, line for line.
pub fn code_only(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let skip = literal(rest).unwrap_or(0);
        if skip == 0 {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        } else {
            // What is left out keeps its lines, and parts what stood around it.
            out.extend(rest[..skip].chars().filter(|c| *c == '\n'));
            out.push(' ');
            rest = &rest[skip..];
        }
    }
    out
}

/// The length of the comment or literal that `rest` begins with; none if it begins with neither.
fn literal(rest: &str) -> Option<usize> {
    let end_of = |from: usize, mark: &str| {
        rest[from..]
            .find(mark)
            .map_or(rest.len(), |at| from + at + mark.len())
    };
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return Some(end_of(2, "*/"));
    }
    if let Some(raw) = rest.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if raw[hashes..].starts_with('"') {
            return Some(end_of(hashes + 2, &format!("\"{}", "#".repeat(hashes))));
        }
    }
    if rest.starts_with('"') {
        return Some(end_of_quoted(rest, '"'));
    }
    if let Some(quoted) = rest.strip_prefix('\'') {
        // A character, not a lifetime: the closing quote follows at once, or after an escape.
        let mut chars = quoted.chars();
        let first = chars.next()?;
        if first == '\\' || chars.next() == Some('\'') {
            return Some(end_of_quoted(rest, '\''));
        }
    }
    None
}

/// The length of a literal up to and with the closing quote that no backslash escapes.
fn end_of_quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    rest.len()
}

/// The code with each `#[cfg(test)] mod name { … }` blanked, line for line: tests may use what their room may not.
pub fn without_tests(code: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut out = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(at) = rest.find(MARK) {
        out.push_str(&rest[..at]);
        let item = &rest[at..];
        let is_module = item[MARK.len()..].trim_start().starts_with("mod ");
        let end = match (is_module, item.find('{'), item.find(';')) {
            (true, Some(open), semicolon) if semicolon.is_none_or(|s| open < s) => {
                open + end_of_block(&item[open..])
            }
            _ => MARK.len(),
        };
        out.extend(item[..end].chars().filter(|c| *c == '\n'));
        rest = &item[end..];
    }
    out.push_str(rest);
    out
}

/// The length of the block that `code` opens with, its closing brace included.
fn end_of_block(code: &str) -> usize {
    let mut depth = 0;
    for (at, c) in code.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => return at + 1,
            '}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

/// Every path that a `use` brings in, written out in full, with the line of the `use`.
pub fn uses(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut rest = code;
    let mut offset = 0;
    while let Some(at) = rest.find("use ") {
        let start = offset + at;
        let whole = code[..start]
            .chars()
            .next_back()
            .is_none_or(|c| !c.is_alphanumeric() && c != '_');
        let body = &code[start + 4..];
        let end = body.find(';').unwrap_or(body.len());
        if whole {
            let line = code[..start].matches('\n').count() + 1;
            let mut paths = Vec::new();
            expand("", &body[..end], &mut paths);
            found.extend(paths.into_iter().map(|p| (line, p)));
        }
        offset = start + 4;
        rest = &code[offset..];
    }
    found
}

/// Writes a use tree out: `a::{b, c::{d}}` is `a::b` and `a::c::d`.
fn expand(prefix: &str, tree: &str, out: &mut Vec<String>) {
    for part in split_top(tree) {
        let part = part.trim().trim_start_matches("::");
        if part.is_empty() {
            continue;
        }
        if let Some((head, inner)) = part.split_once('{') {
            let inner = inner.trim_end().trim_end_matches('}');
            expand(&format!("{prefix}{}", head.trim()), inner, out);
        } else {
            let name = part.split_whitespace().next().unwrap_or_default();
            out.push(format!("{prefix}{name}"));
        }
    }
}

/// Splits at the commas outside of braces.
fn split_top(tree: &str) -> Vec<&str> {
    let (mut depth, mut from, mut parts) = (0i32, 0, Vec::new());
    for (at, c) in tree.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&tree[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&tree[from..]);
    parts
}

/// Paths written out in expressions and types (`tokio::spawn`, `Instant::now`), and bare type names.
pub fn plain_paths(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in code.lines().enumerate() {
        let trimmed = line.trim_start();
        if trimmed.starts_with("use ") || trimmed.starts_with("pub use ") {
            continue;
        }
        for token in line.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':') {
            let path = token.trim_matches(':');
            if path.contains("::") || path.starts_with(char::is_uppercase) {
                found.push((number + 1, path.to_owned()));
            }
        }
    }
    found
}
