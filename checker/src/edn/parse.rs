//! EDN as it stands in Jepsen's histories: one form after another, each as a value.
//!
//! Owns the syntax, with its places, and a bound on depth. Must not know what a history is. Values go to `mod`.
//!
//! Tolerant where a history needs it: any tag is dropped and its value kept (`#inst "…"`, `#jepsen.history.Op{…}`),
//! `#:ns{…}` and metadata too; what does not fit into 64 bits stays as text.

use std::borrow::Cow;

/// How deep forms may be nested.
const DEPTH_MAX: usize = 128;

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value<'a> {
    Nil,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// A big or rational number, as it was written.
    Number(&'a str),
    Text(String),
    /// Without its colon.
    Keyword(&'a str),
    /// A symbol or a character, as it was written.
    Symbol(&'a str),
    /// A vector, list or set.
    Many(Vec<Value<'a>>),
    Map(Vec<(Value<'a>, Value<'a>)>),
}

impl<'a> Value<'a> {
    /// The value under a key of a map: a keyword, else a symbol, a text or a keyword in a namespace.
    pub(super) fn get(&self, key: &str) -> Option<&Value<'a>> {
        let Self::Map(entries) = self else {
            return None;
        };
        let plain = |k: &Value<'a>| matches!(k, Value::Keyword(k) if *k == key);
        let found = entries.iter().find(|(k, _)| plain(k));
        let found = found.or_else(|| entries.iter().find(|(k, _)| k.name() == Some(key)));
        found.map(|(_, v)| v)
    }

    /// The text of a keyword, symbol or text; a keyword's namespace is dropped.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Self::Keyword(s) => Some(s.rsplit_once('/').map_or(s, |(_, name)| name)),
            Self::Symbol(s) => Some(s),
            Self::Text(s) => Some(s),
            _ => None,
        }
    }
}

/// What is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wrong {
    pub line: u64,
    pub column: usize,
    pub what: String,
}

/// Reads forms from a text.
pub(super) struct Forms<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

/// Ends a symbol, keyword or number.
fn is_end(b: u8) -> bool {
    b.is_ascii_whitespace() || b",;\"()[]{}".contains(&b)
}

impl<'a> Forms<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            depth: 0,
        }
    }

    fn bytes(&self) -> &'a [u8] {
        self.text.as_bytes()
    }

    fn peek(&self) -> Option<u8> {
        self.bytes().get(self.at).copied()
    }

    /// An error at a place.
    pub(super) fn wrong<T>(&self, at: usize, what: impl Into<String>) -> Result<T, Wrong> {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = before.matches('\n').count() as u64 + 1;
        let start = before.rfind('\n').map_or(0, |i| i + 1);
        Err(Wrong {
            line,
            column: before.len() - start + 1,
            what: what.into(),
        })
    }

    /// An error at the place that was reached.
    pub(super) fn here<T>(&self, what: impl Into<String>) -> Result<T, Wrong> {
        self.wrong(self.at, what)
    }

    /// Where the next form begins.
    pub(super) fn place(&mut self) -> Result<usize, Wrong> {
        self.skip()?;
        Ok(self.at)
    }

    /// Steps into a vector or list, if one begins here; the place of its bracket.
    pub(super) fn enter(&mut self) -> Result<Option<usize>, Wrong> {
        let place = self.place()?;
        let is = matches!(self.peek(), Some(b'[' | b'('));
        self.at += usize::from(is);
        Ok(is.then_some(place))
    }

    /// Whether the bracket that was opened there closes here; steps over it.
    pub(super) fn closes(&mut self, open: usize) -> Result<bool, Wrong> {
        self.skip()?;
        let close = match self.bytes().get(open) {
            Some(b'[') => b']',
            _ => b')',
        };
        let closes = match self.peek() {
            None => return self.wrong(open, "a bracket is never closed"),
            Some(b) => b == close,
        };
        self.at += usize::from(closes);
        Ok(closes)
    }

    /// Whether nothing but space and comments is left.
    pub(super) fn ended(&mut self) -> Result<bool, Wrong> {
        self.skip()?;
        Ok(self.at >= self.text.len())
    }

    /// Steps over space, commas, comments and discarded forms.
    fn skip(&mut self) -> Result<(), Wrong> {
        loop {
            match self.peek() {
                Some(b) if b.is_ascii_whitespace() || b == b',' => self.at += 1,
                Some(b';') => self.line_end(),
                Some(b'#') if self.text[self.at..].starts_with("#_") => {
                    self.at += 2;
                    self.form()?;
                }
                Some(b'#') if self.text[self.at..].starts_with("#!") => self.line_end(),
                _ => return Ok(()),
            }
        }
    }

    fn line_end(&mut self) {
        let rest = &self.bytes()[self.at..];
        self.at += rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
    }

    /// The next form.
    pub(super) fn form(&mut self) -> Result<Value<'a>, Wrong> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return self.here(format!("nested deeper than {DEPTH_MAX}"));
        }
        self.skip()?;
        let start = self.at;
        let Some(first) = self.peek() else {
            return self.here("the text ends inside of a form");
        };
        let value = match first {
            b'"' => Value::Text(self.string()?),
            b'[' => self.many(b']')?,
            b'(' => self.many(b')')?,
            b'{' => self.map()?,
            b'#' => self.dispatch()?,
            b'^' => {
                self.at += 1;
                self.form()?;
                self.form()?
            }
            b'\'' | b'`' | b'~' | b'@' => {
                self.at += 1;
                self.form()?
            }
            b'\\' => {
                // The first character may be one that ends a word, such as a bracket.
                let c = self.text[start + 1..].chars().next();
                self.at += 1 + c.map_or(0, char::len_utf8);
                self.word();
                Value::Symbol(&self.text[start..self.at])
            }
            b']' | b')' | b'}' => return self.here("a bracket closes that was not opened"),
            b':' => {
                self.at += 1;
                let name = self.word();
                if name.is_empty() {
                    return self.wrong(start, "a keyword without a name");
                }
                Value::Keyword(name.trim_start_matches(':'))
            }
            _ => atom(self.word()),
        };
        self.depth -= 1;
        Ok(value)
    }

    fn word(&mut self) -> &'a str {
        let start = self.at;
        let rest = &self.bytes()[start..];
        self.at += rest.iter().position(|b| is_end(*b)).unwrap_or(rest.len());
        &self.text[start..self.at]
    }

    /// After `#`: a set, a regular expression, a symbolic number, a namespaced map, or a tag.
    fn dispatch(&mut self) -> Result<Value<'a>, Wrong> {
        self.at += 1;
        match self.peek() {
            Some(b'{') => self.many(b'}'),
            Some(b'"') => Ok(Value::Text(self.string()?)),
            // A var, as Clojure prints one: no EDN, but in histories.
            Some(b'\'') => {
                self.at += 1;
                self.form()
            }
            Some(b'#') => {
                self.at += 1;
                Ok(Value::Symbol(self.word()))
            }
            _ => {
                self.word();
                self.form()
            }
        }
    }

    fn many(&mut self, close: u8) -> Result<Value<'a>, Wrong> {
        let open = self.at;
        self.at += 1;
        let mut items = Vec::new();
        loop {
            self.skip()?;
            match self.peek() {
                None => return self.wrong(open, "a bracket is never closed"),
                Some(b) if b == close => break,
                Some(_) => items.push(self.form()?),
            }
        }
        self.at += 1;
        Ok(Value::Many(items))
    }

    fn map(&mut self) -> Result<Value<'a>, Wrong> {
        let open = self.at;
        let Value::Many(items) = self.many(b'}')? else {
            return self.wrong(open, "no map");
        };
        if items.len() % 2 == 1 {
            return self.wrong(open, "a map with a key and no value");
        }
        let mut entries = Vec::with_capacity(items.len() / 2);
        let mut items = items.into_iter();
        while let (Some(key), Some(value)) = (items.next(), items.next()) {
            entries.push((key, value));
        }
        if let Some(key) = twice(&entries) {
            return self.wrong(open, format!("a map that has {key} twice"));
        }
        Ok(Value::Map(entries))
    }

    fn string(&mut self) -> Result<String, Wrong> {
        let open = self.at;
        let mut text = String::new();
        let mut chars = self.text[open + 1..].char_indices();
        while let Some((i, c)) = chars.next() {
            match c {
                '"' => {
                    self.at = open + 1 + i + 1;
                    return Ok(text);
                }
                '\\' => match chars.next().map(|(_, c)| c) {
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some('r') => text.push('\r'),
                    Some('b') => text.push('\u{8}'),
                    Some('f') => text.push('\u{c}'),
                    Some('u') => {
                        let digits: String = chars.by_ref().take(4).map(|(_, c)| c).collect();
                        let code = u32::from_str_radix(&digits, 16).ok();
                        text.push(code.and_then(char::from_u32).unwrap_or('\u{fffd}'));
                    }
                    Some(c) => text.push(c),
                    None => break,
                },
                c => text.push(c),
            }
        }
        self.wrong(open, "a text is never closed")
    }
}

/// A key that a map has twice.
fn twice(entries: &[(Value<'_>, Value<'_>)]) -> Option<String> {
    let keys = entries.iter().filter_map(|(key, _)| match key {
        Value::Keyword(k) => Some((":", Cow::Borrowed(*k))),
        Value::Symbol(k) => Some(("", Cow::Borrowed(*k))),
        Value::Text(k) => Some(("text ", Cow::Borrowed(k.as_str()))),
        Value::Int(k) => Some(("number ", Cow::Owned(k.to_string()))),
        _ => None,
    });
    let mut keys: Vec<_> = keys.collect();
    keys.sort_unstable();
    let same = keys.windows(2).find(|two| two[0] == two[1])?;
    let (kind, key) = &same[0];
    let shown: String = key.chars().take(40).collect();
    Some(format!("{kind}{shown}"))
}

/// A word that is no keyword: nil, a boolean, a number or a symbol.
fn atom(word: &str) -> Value<'_> {
    match word {
        "nil" => return Value::Nil,
        "true" => return Value::Bool(true),
        "false" => return Value::Bool(false),
        _ => {}
    }
    let digits = word.trim_start_matches(['+', '-']);
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return Value::Symbol(word);
    }
    if let Ok(i) = word.trim_end_matches('N').parse() {
        return Value::Int(i);
    }
    let float = word.trim_end_matches('M');
    if float.contains(['.', 'e', 'E'])
        && let Ok(f) = float.parse()
    {
        return Value::Float(f);
    }
    Value::Number(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Value<'_> {
        Forms::new(text).form().expect("a form")
    }

    #[test]
    fn all_kinds_of_forms() {
        assert_eq!(one(" ,; comment\n 7N"), Value::Int(7));
        assert_eq!(one("-12.5e1M"), Value::Float(-125.0));
        assert_eq!(
            one("18446744073709551616"),
            Value::Number("18446744073709551616")
        );
        assert_eq!(one("1/3"), Value::Number("1/3"));
        assert_eq!(
            one("#inst \"2026-01-01\""),
            Value::Text("2026-01-01".to_owned())
        );
        assert_eq!(one("\"a\\n\\u0041\\\"\""), Value::Text("a\nA\"".to_owned()));
        assert_eq!(one("\\newline"), Value::Symbol("\\newline"));
        assert_eq!(one("\\("), Value::Symbol("\\("));
        assert_eq!(one("#_ {:a 1} :b/c").name(), Some("c"));
        assert_eq!(one("##Inf"), Value::Symbol("Inf"));
        let op = one("#jepsen.history.Op{:index 3, :value #{1 (2 [nil])}, :f ^:meta lock}");
        assert_eq!(op.get("index"), Some(&Value::Int(3)));
        assert_eq!(op.get("f"), Some(&Value::Symbol("lock")));
        assert_eq!(one("#:a{:b 1}").get("b"), Some(&Value::Int(1)));
    }

    #[test]
    fn errors_have_their_place() {
        for (text, line, column) in [
            ("{:a 1", 1, 1),
            ("\n {:a}", 2, 2),
            ("[1\n \"x]", 2, 2),
            ("[1 2}", 1, 5),
            (": ", 1, 1),
            ("", 1, 1),
        ] {
            let wrong = Forms::new(text).form().expect_err(text);
            assert_eq!(
                (wrong.line, wrong.column),
                (line, column),
                "{text}: {}",
                wrong.what
            );
        }
        let deep = "[".repeat(100_000);
        assert!(Forms::new(&deep).form().is_err());
        let deep = "#a ".repeat(100_000);
        assert!(Forms::new(&deep).form().is_err());
    }
}
