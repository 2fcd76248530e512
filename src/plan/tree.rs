//! TOML as a tree of values that know their place, so that an error found later still points at the character.
//!
//! Owns parsing, the merging of a variant over its file, and `--set`. Must not know what any key means. `read` and
//! `file` make a plan of it.
use super::error::{PlaceInText, Problem, printable};
use super::excerpt::Excerpt;
use std::collections::HashSet;
use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// A place in one of the [`Texts`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct At {
    /// Which text.
    pub text: usize,
    /// Byte range in it.
    pub span: Range<usize>,
}

/// A value with its place.
#[derive(Debug, Clone)]
pub struct Node {
    /// Where it stands.
    pub at: At,
    /// What it is.
    pub value: Value,
}

/// A TOML value.
#[derive(Debug, Clone)]
pub enum Value {
    /// A string.
    Text(String),
    /// An integer.
    Integer(i128),
    /// A number with a fraction.
    Float(f64),
    /// A boolean.
    Bool(bool),
    /// A date or time, as written.
    Date(String),
    /// An array.
    Array(Vec<Node>),
    /// A table.
    Table(Table),
}

impl Value {
    /// What to call it in an error.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "a string",
            Self::Integer(_) => "an integer",
            Self::Float(_) => "a number with a fraction",
            Self::Bool(_) => "a boolean",
            Self::Date(_) => "a date",
            Self::Array(_) => "an array",
            Self::Table(_) => "a table",
        }
    }
}

/// A table in the order of the file.
#[derive(Debug, Clone, Default)]
pub struct Table(pub Vec<Entry>);

/// One key of a table.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key stands.
    pub at: At,
    /// What it holds.
    pub node: Node,
}

impl Table {
    /// The entry of that key.
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.0.iter().find(|e| e.key == key)
    }

    /// The entry of that key, to change it.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Entry> {
        self.0.iter_mut().find(|e| e.key == key)
    }

    /// Take the entry out.
    pub fn take(&mut self, key: &str) -> Option<Entry> {
        let index = self.0.iter().position(|e| e.key == key)?;
        Some(self.0.remove(index))
    }

    /// Lay `over` over this table: tables merge key by key, everything else is replaced.
    ///
    /// Two groups of keys exclude each other, so that the later one drops the earlier: the distributions of `work`,
    /// and a lock's `name` and `command`.
    pub fn merge(&mut self, over: Table) {
        for mut entry in over.0 {
            if let ("lock", Some(lock), Value::Table(over)) = (
                entry.key.as_str(),
                self.get_mut("lock"),
                &mut entry.node.value,
            ) {
                for (one, other) in [("name", "command"), ("command", "name")] {
                    if let (Some(_), Value::Table(lock)) = (over.get(one), &mut lock.node.value) {
                        lock.take(other);
                    }
                }
            }
            let Some(mine) = self.0.iter_mut().find(|e| e.key == entry.key) else {
                self.0.push(entry);
                continue;
            };
            match (&mut mine.node.value, entry.node.value) {
                (Value::Table(mine), Value::Table(over)) if entry.key != "work" => {
                    mine.merge(over);
                }
                (_, value) => {
                    mine.at = entry.at;
                    mine.node = Node {
                        at: entry.node.at,
                        value,
                    };
                }
            }
        }
    }
}

/// Problems that are told; a file with more of them is no workload, and nobody reads them all.
const TOLD_MAX: usize = 20;

/// All that the user wrote (the file, then flags), and what is wrong with it.
#[derive(Debug, Default)]
pub struct Texts {
    /// Name and text of each.
    written: Vec<(String, String)>,
    problems: Vec<Noted>,
    noted: HashSet<(At, String)>,
}

/// A problem before its place is cut out of the text.
#[derive(Debug)]
struct Noted {
    at: At,
    message: String,
    label: String,
    help: Option<String>,
}

impl Texts {
    /// Add a text under the name that errors show; its number is for [`At`].
    pub fn add(&mut self, name: &str, text: &str) -> usize {
        self.written.push((printable(name), text.to_owned()));
        self.written.len() - 1
    }

    /// The name of the first text.
    pub fn file(&self) -> &str {
        self.written.first().map_or("", |t| &t.0)
    }

    /// Note a problem. The same one (several variants share the file's head) is noted once.
    pub fn problem(
        &mut self,
        at: &At,
        message: impl Into<String>,
        label: impl Into<String>,
        help: impl Into<Option<String>>,
    ) {
        let message = printable(&message.into());
        if self.noted.insert((at.clone(), message.clone())) {
            self.problems.push(Noted {
                at: at.clone(),
                message,
                label: label.into(),
                help: help.into(),
            });
        }
    }

    /// Whether anything is wrong so far.
    pub fn any_problem(&self) -> bool {
        !self.problems.is_empty()
    }

    /// The first problems in the order of the file, and how many more there are.
    pub fn into_problems(mut self) -> (Vec<Problem>, usize) {
        self.problems.sort_by_key(|p| (p.at.text, p.at.span.start));
        let more = self.problems.len().saturating_sub(TOLD_MAX);
        let told = self.problems.into_iter().take(TOLD_MAX).map(|noted| {
            let place = self.written.get(noted.at.text).map(|(name, text)| {
                let (text, span) = Excerpt::around(name, text, noted.at.span);
                PlaceInText {
                    text,
                    span,
                    label: printable(&noted.label),
                }
            });
            Problem {
                message: noted.message,
                place,
                help: noted.help.map(|h| printable(&h)),
            }
        });
        (told.collect(), more)
    }
}

/// Parse a whole file that was added as `text`. Syntax errors become problems; then there is no tree.
pub fn parse(texts: &mut Texts, text: usize) -> Option<Table> {
    let source = texts.written.get(text)?.1.clone();
    let (table, errors) = DeTable::parse_recoverable(&source);
    if errors.is_empty() {
        return Some(from_table(text, table.get_ref()));
    }
    for error in errors.iter().take(5) {
        syntax(texts, text, &source, error);
    }
    None
}

fn syntax(texts: &mut Texts, text: usize, source: &str, error: &toml::de::Error) {
    let span = error.span().unwrap_or(0..0);
    let span = span.start.min(source.len())..span.end.min(source.len());
    let word = source.get(span.clone()).unwrap_or_default();
    let value = bare_word(word) && !error.message().contains("duplicate key");
    let help = value.then(|| format!("a string needs quotes: \"{word}\""));
    let at = At { text, span };
    texts.problem(&at, "not TOML", error.message(), help);
}

/// A value such as `500ms` or `redlock` that was written without its quotes.
fn bare_word(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | ':' | '>' | '_');
    word.chars().any(|c| c.is_ascii_alphabetic()) && word.chars().all(plain)
}

fn from_table(text: usize, table: &DeTable<'_>) -> Table {
    let entry = |(key, value): (&toml::Spanned<_>, &toml::Spanned<DeValue<'_>>)| {
        let key: &toml::Spanned<std::borrow::Cow<'_, str>> = key;
        Entry {
            key: key.get_ref().to_string(),
            at: At {
                text,
                span: key.span(),
            },
            node: from_value(text, value),
        }
    };
    Table(table.iter().map(entry).collect())
}

fn from_value(text: usize, spanned: &toml::Spanned<DeValue<'_>>) -> Node {
    let value = match spanned.get_ref() {
        DeValue::String(s) => Value::Text(s.to_string()),
        DeValue::Integer(i) => {
            Value::Integer(i128::from_str_radix(i.as_str(), i.radix()).unwrap_or(i128::MAX))
        }
        DeValue::Float(f) => Value::Float(f.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(b) => Value::Bool(*b),
        DeValue::Datetime(d) => Value::Date(d.to_string()),
        DeValue::Array(items) => Value::Array(items.iter().map(|v| from_value(text, v)).collect()),
        DeValue::Table(table) => Value::Table(from_table(text, table)),
    };
    Node {
        at: At {
            text,
            span: spanned.span(),
        },
        value,
    }
}

/// One `--set path=value` as a table of its path. The value is TOML, or else a plain string (`--set lock.ttl=500ms`).
pub fn parse_set(texts: &mut Texts, argument: &str) -> Option<Table> {
    let text = texts.add("--set", argument);
    let whole = At {
        text,
        span: 0..argument.len(),
    };
    let Some((path, value)) = argument.split_once('=') else {
        let help = "write a key of the file and its value: --set lock.ttl=500ms".to_owned();
        texts.problem(&whole, "`--set` without a value", "no `=` here", help);
        return None;
    };
    let value_at = path.len() + 1..argument.len();
    let mut node = DeValue::parse(value).map_or_else(
        |_| Node {
            at: whole.clone(),
            value: Value::Text(value.to_owned()),
        },
        |v| from_value(text, &v),
    );
    place(
        &mut node,
        &At {
            text,
            span: value_at,
        },
    );
    let mut end = path.len();
    let mut table = None;
    for key in path.rsplit('.') {
        let start = end - key.len();
        if key.trim().is_empty() {
            texts.problem(&whole, "`--set` without a key", "a key is missing", None);
            return None;
        }
        let at = At {
            text,
            span: start..end,
        };
        if let Some(inner) = table.take() {
            node = Node {
                at: at.clone(),
                value: Value::Table(inner),
            };
        }
        table = Some(Table(vec![Entry {
            key: key.trim().to_owned(),
            at,
            node: node.clone(),
        }]));
        end = start.saturating_sub(1);
    }
    table
}

/// Give a value that was parsed out of an argument the argument's place, all the way down.
fn place(node: &mut Node, at: &At) {
    node.at = at.clone();
    match &mut node.value {
        Value::Array(items) => items.iter_mut().for_each(|n| place(n, at)),
        Value::Table(table) => {
            for entry in &mut table.0 {
                entry.at = at.clone();
                place(&mut entry.node, at);
            }
        }
        _ => {}
    }
}
