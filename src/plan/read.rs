//! Typed reading of one table of a workload file: what is missing, foreign or of the wrong type becomes a problem at
//! its place, and reading goes on.
//!
//! Owns the words of those problems. Must not know what a value is for. `file` and `fault` call it key by key.
use super::duration::{self, DurationError};
use super::names::nearest;
use super::tree::{At, Entry, Node, Table, Texts, Value};
use std::time::Duration;

/// The keys of the file by section, for unknown keys and for the hint that a key belongs elsewhere.
pub const SECTIONS: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "name", "about", "seed", "tap", "step", "cluster", "lock", "load", "resource", "fault",
            "expect", "variant",
        ],
    ),
    (
        "cluster",
        &[
            "topology",
            "nodes",
            "persistence",
            "image",
            "toxiproxy_image",
            "reach",
            "down_after",
            "min_replicas",
            "max_lag",
        ],
    ),
    (
        "lock",
        &[
            "name",
            "command",
            "env",
            "ttl",
            "retry",
            "timeout",
            "node_timeout",
            "renew",
            "respect_validity",
            "fencing",
            "bypass",
            "wait",
            "stick",
            "connection",
            "options",
        ],
    ),
    (
        "load",
        &[
            "clients", "workers", "keys", "work", "for", "think", "rate", "tail", "clean", "nodes",
        ],
    ),
    ("resource", &["fence"]),
];

/// The keys of a section of [`SECTIONS`].
pub fn keys_of(section: &str) -> &'static [&'static str] {
    SECTIONS
        .iter()
        .find(|(name, _)| *name == section)
        .map_or(&[], |(_, keys)| keys)
}

impl<'a> Names<'a> {
    /// Names without a further hint.
    pub fn of(what: &'a str, known: &'a [&'a str]) -> Self {
        Self {
            what,
            known,
            hint: "",
        }
    }
}

/// One table under reading.
pub struct Section<'a> {
    /// What to call it, such as `lock`.
    name: String,
    table: Option<&'a Table>,
    /// Where something missing is shown: the table's key.
    pub at: At,
}

/// What a wrong name in place of a known one is: for [`Section::one_of`].
pub struct Names<'a> {
    /// What the names are of, such as `lock`.
    pub what: &'a str,
    /// The right ones.
    pub known: &'a [&'a str],
    /// More to say.
    pub hint: &'a str,
}

impl<'a> Section<'a> {
    /// The table under that entry; foreign keys are problems at once.
    pub fn open(
        texts: &mut Texts,
        name: &str,
        entry: Option<&'a Entry>,
        top: &At,
        known: &[&str],
    ) -> Self {
        let mut section = Self {
            name: name.to_owned(),
            table: None,
            at: entry.map_or(top, |e| &e.at).clone(),
        };
        match entry.map(|e| &e.node) {
            None => {}
            Some(Node {
                value: Value::Table(table),
                ..
            }) => {
                section.table = Some(table);
                unknown_keys(texts, name, table, known);
            }
            Some(node) => wrong_type(
                texts,
                name,
                node,
                "a table",
                Some(format!("{name} = {{ … }}")),
            ),
        }
        section
    }

    /// The table itself as a section; foreign keys are left to the caller.
    pub fn of(name: &str, table: &'a Table, at: At) -> Self {
        Self {
            name: name.to_owned(),
            table: Some(table),
            at,
        }
    }

    /// The entry of that key.
    pub fn entry(&self, key: &str) -> Option<&'a Entry> {
        self.table.and_then(|t| t.get(key))
    }

    /// Where the value of that key stands, else the section.
    pub fn at(&self, key: &str) -> At {
        self.entry(key).map_or(&self.at, |e| &e.node.at).clone()
    }

    fn path(&self, key: &str) -> String {
        if self.name.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.name)
        }
    }

    /// A string.
    pub fn text(&self, texts: &mut Texts, key: &str) -> Option<&'a str> {
        let entry = self.entry(key)?;
        if let Value::Text(text) = &entry.node.value {
            return Some(text);
        }
        wrong_type(texts, &self.path(key), &entry.node, "a string", None);
        None
    }

    /// A boolean.
    pub fn bool(&self, texts: &mut Texts, key: &str) -> Option<bool> {
        let entry = self.entry(key)?;
        if let Value::Bool(b) = entry.node.value {
            return Some(b);
        }
        let hint = Some(format!("{key} = true, or {key} = false, without quotes"));
        wrong_type(texts, &self.path(key), &entry.node, "a boolean", hint);
        None
    }

    /// An integer within bounds, both included.
    pub fn integer(&self, texts: &mut Texts, key: &str, least: u64, most: u64) -> Option<u64> {
        let entry = self.entry(key)?;
        let Value::Integer(n) = entry.node.value else {
            wrong_type(texts, &self.path(key), &entry.node, "an integer", None);
            return None;
        };
        let in_bounds = u64::try_from(n).ok().filter(|n| (least..=most).contains(n));
        if in_bounds.is_none() {
            let message = format!("`{}` out of range", self.path(key));
            let label = format!("expected {least} to {most}");
            texts.problem(&entry.node.at, message, label, None);
        }
        in_bounds
    }

    /// A positive finite number.
    pub fn number(&self, texts: &mut Texts, key: &str) -> Option<f64> {
        let entry = self.entry(key)?;
        let n = match entry.node.value {
            Value::Integer(n) => n as f64,
            Value::Float(f) => f,
            _ => {
                wrong_type(texts, &self.path(key), &entry.node, "a number", None);
                return None;
            }
        };
        if n > 0.0 && n <= 1e6 {
            return Some(n);
        }
        let message = format!("`{}` out of range", self.path(key));
        texts.problem(
            &entry.node.at,
            message,
            "expected more than 0, at most a million",
            None,
        );
        None
    }

    /// A duration of at least `least`.
    pub fn duration(&self, texts: &mut Texts, key: &str, least: Duration) -> Option<Duration> {
        let entry = self.entry(key)?;
        duration_at(texts, &self.path(key), &entry.node, least)
    }

    /// An array of strings.
    pub fn texts(&self, texts: &mut Texts, key: &str) -> Option<Vec<String>> {
        let entry = self.entry(key)?;
        let path = self.path(key);
        let Value::Array(items) = &entry.node.value else {
            let hint = Some(format!("{key} = [\"…\", \"…\"]"));
            wrong_type(texts, &path, &entry.node, "an array of strings", hint);
            return None;
        };
        let mut all = Vec::new();
        for item in items {
            match &item.value {
                Value::Text(t) if t.contains('\0') => {
                    texts.problem(&item.at, "a NUL byte", "no program can be told this", None);
                }
                Value::Text(t) => all.push(t.clone()),
                _ => wrong_type(texts, &path, item, "a string", None),
            }
        }
        Some(all)
    }

    /// One of several names, as its index.
    pub fn one_of(&self, texts: &mut Texts, key: &str, names: &Names<'_>) -> Option<usize> {
        let text = self.text(texts, key)?;
        let found = names.known.iter().position(|n| *n == text);
        if found.is_none() {
            unknown_name(texts, &self.at(key), text, names);
        }
        found
    }
}

/// A duration of at least `least`, at most a day.
pub fn duration_at(
    texts: &mut Texts,
    path: &str,
    node: &Node,
    least: Duration,
) -> Option<Duration> {
    let most = Duration::from_secs(24 * 3600);
    let text = match &node.value {
        Value::Text(text) => text,
        Value::Integer(n) => {
            let hint = format!("write the unit: \"{n}ms\" or \"{n}s\"");
            let label = "expected a string such as \"300ms\"";
            texts.problem(&node.at, format!("`{path}` has no unit"), label, hint);
            return None;
        }
        _ => {
            let hint = Some("durations are strings with a unit: \"300ms\", \"2s\"".to_owned());
            wrong_type(texts, path, node, "a duration", hint);
            return None;
        }
    };
    let units = "units are us, ms, s, m and h, as in \"300ms\", \"1.5s\"";
    match duration::parse(text) {
        Ok(d) if d < least => {
            let (message, label) = if d.is_zero() {
                (
                    format!("`{path}` is zero"),
                    "this must take some time".to_owned(),
                )
            } else {
                let least = duration::text(least);
                (
                    format!("`{path}` is too short"),
                    format!("expected at least {least}"),
                )
            };
            texts.problem(&node.at, message, label, None);
            None
        }
        Ok(d) if d > most => {
            texts.problem(
                &node.at,
                format!("`{path}` is too long"),
                "expected at most 24h",
                None,
            );
            None
        }
        Ok(d) => Some(d),
        Err(why) => {
            let help = match &why {
                DurationError::NoUnit => {
                    let text = text.trim();
                    format!("write the unit: \"{text}ms\" or \"{text}s\"")
                }
                DurationError::UnknownUnit(unit) => match unit.to_lowercase().as_str() {
                    "ms" | "msec" | "millis" | "milliseconds" => {
                        format!("did you mean `ms`? {units}")
                    }
                    "s" | "sec" | "secs" | "second" | "seconds" => {
                        format!("did you mean `s`? {units}")
                    }
                    "min" | "mins" | "minute" | "minutes" => format!("did you mean `m`? {units}"),
                    "µs" | "μs" | "usec" => format!("did you mean `us`? {units}"),
                    _ => units.to_owned(),
                },
                _ => units.to_owned(),
            };
            let label = "expected a duration such as \"300ms\"";
            texts.problem(&node.at, format!("`{path}`: {why}"), label, help);
            None
        }
    }
}

/// Note each key of the table that is not known there.
pub fn unknown_keys(texts: &mut Texts, section: &str, table: &Table, known: &[&str]) {
    for entry in &table.0 {
        let key = entry.key.as_str();
        if known.contains(&key) {
            continue;
        }
        let place = if section.is_empty() {
            "the file"
        } else {
            section
        };
        let ours = SECTIONS.iter().any(|(name, _)| *name == section);
        let elsewhere = SECTIONS
            .iter()
            .filter(|_| ours)
            .filter(|(name, keys)| !name.is_empty() && *name != section && keys.contains(&key))
            .map(|(name, _)| *name)
            .next();
        let list = known.join(", ");
        let help = match (nearest(key, known.iter().copied()), elsewhere) {
            (Some(right), _) => format!("did you mean `{right}`? {place} takes: {list}"),
            (None, Some(name)) => format!("`{key}` belongs to `{name}`; {place} takes: {list}"),
            (None, None) => format!("{place} takes: {list}"),
        };
        let message = format!("unknown key `{key}`");
        texts.problem(&entry.at, message, format!("not a key of {place}"), help);
    }
}

/// Note a name that is none of the known ones.
pub fn unknown_name(texts: &mut Texts, at: &At, wrong: &str, names: &Names<'_>) {
    let Names { what, known, hint } = names;
    let list = known.join(", ");
    let mut help = match nearest(wrong, known.iter().copied()) {
        _ if known.is_empty() => "there is none".to_owned(),
        Some(right) => format!("did you mean `{right}`? known: {list}"),
        None => format!("known: {list}"),
    };
    if !hint.is_empty() {
        help = format!("{help}; {hint}");
    }
    texts.problem(
        at,
        format!("unknown {what} `{wrong}`"),
        format!("no such {what}"),
        help,
    );
}

/// Note a value of the wrong type.
pub fn wrong_type(texts: &mut Texts, path: &str, node: &Node, wanted: &str, hint: Option<String>) {
    let message = format!("`{path}` is {}", node.value.kind());
    texts.problem(&node.at, message, format!("expected {wanted}"), hint);
}
