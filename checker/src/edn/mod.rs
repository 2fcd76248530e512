//! Histories in EDN, as Jepsen and Knossos write them: read, judged by what they hold, and written.
//!
//! Owns the mapping of operations. Must not know how a history is judged: events go to [`Checker`].
//!
//! What is read, and as what, is written down for readers in [`history`](crate::history). It is read twice: `survey` finds
//! out what the history does not say, `names` which lock each operation is of.
//!
//! Written: the header as a comment, then one map a line. This crate reads it back without loss; other tools see
//! plain operations.
mod names;
mod parse;
mod survey;
mod text;
mod times;
mod whole;

use crate::event::{Event, EventType, Process, Value as Fields};
use crate::history::HistoryError;
use crate::model::{Header, Model};
use crate::{Checker, Options, Verdict};
use names::Names;
use parse::{Forms, Value, Wrong};
use std::borrow::Cow;
use std::collections::HashMap;
use survey::Survey;
use times::Times;

pub(crate) use text::Writer;
pub(crate) use whole::whole;

/// Begins the comment that holds the header.
const HEADER: &str = "; fencepost ";

/// What some editors put before a text.
const BOM: &[u8] = b"\xef\xbb\xbf";

/// Whether a text looks like EDN, by its beginning.
pub(crate) fn looks_like(start: &[u8]) -> bool {
    let text = start.strip_prefix(BOM).unwrap_or(start);
    let text = text.trim_ascii_start();
    let next = |skip: usize| {
        text.get(skip..)
            .unwrap_or_default()
            .trim_ascii_start()
            .first()
    };
    match text.first() {
        Some(b';' | b'(') => true,
        Some(b'#') => !matches!(next(1), Some(b'!' | b' ') | None) && text.contains(&b'{'),
        Some(b'{') => matches!(next(1), Some(b':')),
        Some(b'[') => {
            matches!(next(1), Some(b'{' | b']' | b'#' | b';' | b'(')) && !text.starts_with(b"[{\"")
        }
        _ => false,
    }
}

/// Judges a history in EDN.
pub(crate) fn check(text: &str, options: &Options) -> Result<Verdict, HistoryError> {
    let mut checker: Option<Checker> = None;
    let reading = read(text, options, |header, event| {
        checker
            .get_or_insert_with(|| Checker::new(header.clone()))
            .push(event);
    })?;
    let Some(checker) = checker else {
        return Err(HistoryError::NoEvents);
    };
    let mut verdict = checker.finish();
    verdict.counts.insert("torn_bytes".to_owned(), 0);
    verdict.reading = reading;
    Ok(verdict)
}

/// Calls `each` with the header and every event, in order; returns what was assumed where the history does not say.
pub(crate) fn read(
    text: &str,
    options: &Options,
    mut each: impl FnMut(&Header, &Event<'_>),
) -> Result<Vec<String>, HistoryError> {
    let begin = text.len() - text.trim_start().len();
    if let Some(line) = header_within(text, begin) {
        return Err(HistoryError::SecondHeader { line });
    }
    if let Some(line) = text[begin..].strip_prefix(HEADER) {
        let line = line.lines().next().unwrap_or_default();
        let before = text[..begin].matches('\n').count() as u64;
        let mut header = crate::history::header_of(line, before + 1)?;
        options.apply(&mut header.model)?;
        forms(text, |_, form| {
            let json = text::json(form).to_string();
            let event: Event<'_> = serde_json::from_str(&json).map_err(|e| e.to_string())?;
            each(&header, &event);
            Ok(())
        })?;
        return Ok(Vec::new());
    }
    let mut survey = Survey::default();
    forms(text, |index, form| {
        let event = operation(form, options)?;
        survey.see(index, form, event.as_ref())
    })?;
    if survey.known == 0 {
        return Err(HistoryError::NoLock {
            seen: survey.other(),
        });
    }
    let mut header = Header {
        fencepost: crate::history::FORMAT,
        workload: "edn".to_owned(),
        seed: 0,
        model: Model {
            tokens: survey.tokens,
            ..Model::default()
        },
        expect: std::collections::BTreeMap::new(),
        versions: std::collections::BTreeMap::new(),
    };
    options.apply(&mut header.model)?;
    if let Some(index) = survey.timeless
        && header.model.needs_times()
    {
        return Err(timeless(text, index));
    }
    let threads = options.threads.or_else(|| survey.threads());
    let by_value = survey.by_value(options);
    let mut workers = Workers::after(survey.highest());
    let mut names = Names::new(&options.key, by_value);
    let mut times = Times::new(header.model.clock_uncertainty_ms > 0.0);
    forms(text, |index, form| {
        if let Some(mut event) = operation(form, options)? {
            event.index = index;
            event.time = times.next(survey.time(form, index));
            workers.number(&mut event, threads);
            names.name(&mut event, form)?;
            each(&header, &event);
        }
        Ok(())
    })?;
    let mut notes = survey.notes(options, threads, by_value);
    notes.extend(times.notes());
    Ok(notes)
}

/// The line of a header that does not begin the text.
fn header_within(text: &str, begin: usize) -> Option<u64> {
    let mut found = text.match_indices(HEADER).filter(|(at, _)| {
        let starts = *at == 0 || text.as_bytes()[at - 1] == b'\n';
        let json = text[at + HEADER.len()..].starts_with("{\"fencepost\"");
        starts && json && *at != begin
    });
    let (at, _) = found.next()?;
    Some(text[..at].matches('\n').count() as u64 + 1)
}

/// An operation without a time, where one is needed.
fn timeless(text: &str, index: u64) -> HistoryError {
    let found = forms(text, |i, _| {
        if i == index {
            return Err(String::new());
        }
        Ok(())
    });
    match found {
        Err(HistoryError::BadEdn { line, column, .. }) => HistoryError::NoTime { line, column },
        _ => HistoryError::NoTime { line: 1, column: 1 },
    }
}

/// Calls `each` with the number and the value of every form of the history.
fn forms<'a>(
    text: &'a str,
    mut each: impl FnMut(u64, &Value<'a>) -> Result<(), String>,
) -> Result<(), HistoryError> {
    let mut forms = Forms::new(text);
    let mut index = 0;
    let mut one = |forms: &mut Forms<'a>| {
        let place = forms.place()?;
        let form = forms.form()?;
        let Value::Map(_) = form else {
            return forms.wrong(place, "not an operation: a map was expected");
        };
        let said = each(index, &form);
        index += 1;
        said.or_else(|what| forms.wrong(place, format!("this operation: {what}")))
    };
    let mut all = || -> Result<(), Wrong> {
        while !forms.ended()? {
            if let Some(open) = forms.enter()? {
                while !forms.closes(open)? {
                    one(&mut forms)?;
                }
            } else {
                one(&mut forms)?;
            }
        }
        Ok(())
    };
    all().map_err(|w| HistoryError::BadEdn {
        line: w.line,
        column: w.column,
        message: w.what,
    })
}

/// The numbers of processes that have names, from the first that no other has.
struct Workers {
    next: u64,
    known: HashMap<String, u64>,
}

impl Workers {
    fn after(highest: Option<u64>) -> Self {
        Self {
            next: highest.map_or(0, |h| h.wrapping_add(1)),
            known: HashMap::new(),
        }
    }

    /// Gives an event its client: with `n` threads, process p is a worker of thread p mod n; one with a name is its own.
    fn number(&mut self, event: &mut Event<'static>, threads: Option<u64>) {
        match &event.process {
            Process::Id(p) => {
                let thread = threads.map(|n| p % n.max(1));
                event.client = thread.map(|t| Cow::Owned(format!("t{t}")));
            }
            Process::Named(name) => {
                let next = self.next.wrapping_add(self.known.len() as u64);
                let number = *self.known.entry(name.to_string()).or_insert(next);
                event.client = Some(name.clone());
                event.process = Process::Id(number);
            }
        }
    }
}

/// The process of an operation; none for what has none, such as the nemesis.
fn process(form: &Value<'_>) -> Option<Process<'static>> {
    match form.get("process") {
        Some(Value::Int(p)) => u64::try_from(*p).ok().map(Process::Id),
        Some(name @ (Value::Keyword(_) | Value::Symbol(_) | Value::Text(_))) => {
            let name = name.name().filter(|n| *n != "nemesis")?;
            Some(Process::Named(Cow::Owned(name.to_owned())))
        }
        _ => None,
    }
}

/// An operation of the lock, without its time and its lock; none for what is no such operation.
fn operation(form: &Value<'_>, options: &Options) -> Result<Option<Event<'static>>, String> {
    // Of what does something else nothing is asked: a nemesis may have no process, and types of its own.
    let f = form.get("f").and_then(Value::name);
    if f.is_some_and(|f| options.operation(f).is_none()) {
        return Ok(None);
    }
    let kind = match form.get("type").and_then(Value::name) {
        // What a generator of Jepsen's says to itself.
        Some("log" | "sleep") if f.is_none() => return Ok(None),
        Some("invoke") => EventType::Invoke,
        Some("ok") => EventType::Ok,
        Some("fail") => EventType::Fail,
        Some("info") => EventType::Info,
        _ => return Err(":type is none of :invoke, :ok, :fail, :info".to_owned()),
    };
    let process = match form.get("process") {
        Some(Value::Int(p)) if *p < 0 => return Err(":process is negative".to_owned()),
        Some(Value::Int(_)) => process(form),
        Some(Value::Keyword(_) | Value::Symbol(_) | Value::Text(_)) => match process(form) {
            None => return Ok(None),
            named => named,
        },
        Some(Value::Number(_)) => return Err(":process does not fit into 64 bits".to_owned()),
        _ => None,
    };
    let Some(process) = process else {
        return Err("no :process".to_owned());
    };
    let Some(f) = f.and_then(|f| options.operation(f)) else {
        return Ok(None);
    };
    let value = form.get("value").unwrap_or(&Value::Nil);
    let value = match value {
        Value::Many(two) if two.len() == 2 => &two[1],
        _ => value,
    };
    // What an answer tells stands in its value, or beside it.
    let field = |name: &str| value.get(name).or_else(|| form.get(name));
    let number = |names: [&str; 2]| match names.iter().find_map(|n| field(n)) {
        Some(Value::Int(i)) => u64::try_from(*i).ok(),
        _ => None,
    };
    let validity = match field("validity-ms").or_else(|| field("validity_ms")) {
        Some(Value::Int(i)) => Some(*i as f64),
        Some(Value::Float(f)) => Some(*f),
        _ => None,
    };
    Ok(Some(Event {
        index: 0,
        time: 0,
        process,
        client: None,
        worker: None,
        kind,
        f: Cow::Borrowed(f),
        key: None,
        value: Fields {
            owner: field("owner").map(|o| Cow::Owned(text::plain(o))),
            token: number(["token", "fence"]),
            ttl_ms: number(["ttl-ms", "ttl_ms"]),
            validity_ms: validity,
            shared: (field("shared") == Some(&Value::Bool(true))).then_some(true),
            ..Fields::default()
        },
        error: form.get("error").and_then(error).map(Cow::Owned),
    }))
}

/// The code of an error: a keyword, a text, or the first of several.
fn error(value: &Value<'_>) -> Option<String> {
    match value {
        Value::Many(items) => items.first().and_then(error),
        Value::Map(_) => ["type", "code", "error"]
            .iter()
            .find_map(|k| value.get(k))
            .and_then(error),
        _ => value.name().map(str::to_owned),
    }
}
