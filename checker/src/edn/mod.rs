//! Histories in EDN, as Jepsen and Knossos write them: read, judged by what they hold, and written.
//!
//! Owns the mapping of operations. Must not know how a history is judged: events go to [`Checker`].
//!
//! Read: a vector, a list, or one map after another, each an operation with `:type`, `:process`, `:f`, and perhaps
//! `:time`, `:value`, `:error`, `:key`. The order is the order in the text, as Jepsen says; `:index` is only a name, and
//! a time that goes backwards counts as the one before it (equal times are concurrent). The nemesis and other functions
//! than those of [`Options`] are skipped, whatever else they hold. A process is a number, or a name. The lock's key is
//! `:key`, or the first of a `:value` of two, or its `:key` or `:lock`; `:value`, or the operation itself, may also hold
//! `:owner`, `:token` (or `:fence`), `:ttl-ms`, `:validity-ms` and `:shared`. A plain `:value` (a keyword, text or whole number) names the lock
//! where every invoke of an acquire and a release has one, and some value is that of several processes: one that is each
//! process's own would be an owner. A failed acquire tells that another held the lock only where its `:error` is `:held`,
//! `:locked` or `:lock-held`.
//!
//! Jepsen renews a process after an `:info`: process p goes on as p + n, with n threads. Where the numbers show that,
//! p and p + n are one worker, so that its clean-up is no stranger's.
//!
//! Written: the header as a comment, then one map a line. This crate reads it back without loss; other tools see
//! plain operations.
mod parse;
mod text;
mod whole;

use crate::event::{Event, EventType, Process, Value as Fields};
use crate::history::HistoryError;
use crate::model::{Header, Model};
use crate::{Checker, Options, Verdict};
use parse::{Forms, Value, Wrong};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

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
    let mut events = 0u64;
    read(text, options, |header, event| {
        events += 1;
        checker
            .get_or_insert_with(|| Checker::new(header.clone()))
            .push(event);
    })?;
    let Some(checker) = checker else {
        return Err(HistoryError::NoEvents);
    };
    let mut verdict = checker.finish();
    verdict.counts.insert("torn_bytes".to_owned(), 0);
    Ok(verdict)
}

/// Calls `each` with the header and every event, in order.
pub(crate) fn read(
    text: &str,
    options: &Options,
    mut each: impl FnMut(&Header, &Event<'_>),
) -> Result<(), HistoryError> {
    if let Some(line) = text.trim_start().strip_prefix(HEADER) {
        let line = line.lines().next().unwrap_or_default();
        let mut header = crate::history::header_of(line, 1)?;
        options.apply(&mut header.model);
        return forms(text, |_, form| {
            let json = text::json(form).to_string();
            let event: Event<'_> = serde_json::from_str(&json).map_err(|e| e.to_string())?;
            each(&header, &event);
            Ok(())
        });
    }
    let mut survey = Survey::default();
    forms(text, |_, form| survey.see(form, options))?;
    if survey.known == 0 {
        return Err(HistoryError::NoLock {
            seen: survey.other(),
        });
    }
    let threads = options.threads.or_else(|| survey.threads());
    let mut workers = Workers::after(&survey.first);
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
    options.apply(&mut header.model);
    let shift = survey.earliest.min(0).unsigned_abs();
    let mut now = 0;
    forms(text, |index, form| {
        if let Some(mut event) = operation(form, options)? {
            event.index = index;
            let time = survey.time(form, index).wrapping_add_unsigned(shift);
            now = time.unsigned_abs().max(now);
            event.time = now;
            workers.number(&mut event, threads);
            if survey.named_by_value() {
                event.key = lone_value(form).map(Cow::Owned).or(event.key);
            }
            each(&header, &event);
        }
        Ok(())
    })
}

/// Calls `each` with the number and the value of every form of the history.
fn forms<'a>(
    text: &'a str,
    mut each: impl FnMut(u64, &Value<'a>) -> Result<(), String>,
) -> Result<(), HistoryError> {
    let mut forms = Forms::new(text);
    let mut index = 0;
    let mut one = |forms: &mut Forms<'a>| {
        let form = forms.form()?;
        let Value::Map(_) = form else {
            return forms.here("not an operation: a map was expected before this");
        };
        let said = each(index, &form);
        index += 1;
        said.or_else(|what| forms.here(format!("the operation before this: {what}")))
    };
    let mut all = || -> Result<(), Wrong> {
        while !forms.ended()? {
            if forms.enter()? {
                while !forms.closes()? {
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
    fn after(numbers: &[u64]) -> Self {
        let highest = numbers.iter().copied().max();
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

/// The name of a lock, where it stands alone as an operation's value.
fn lone_value(form: &Value<'_>) -> Option<String> {
    let value = form.get("value").filter(|_| form.get("key").is_none())?;
    let plain = matches!(
        value,
        Value::Keyword(_) | Value::Text(_) | Value::Symbol(_) | Value::Int(_)
    );
    plain.then(|| text::plain(value))
}

/// What a first look at all operations tells.
#[derive(Default)]
struct Survey {
    /// The process that first acquired or released with a plain value, by value; whether some value is that of several;
    /// whether some operation has none.
    by_value: HashMap<String, Process<'static>>,
    several: bool,
    valueless: bool,
    known: u64,
    others: Vec<String>,
    tokens: bool,
    earliest: i64,
    /// Some operation has no time: the position counts for all.
    timeless: bool,
    seen: HashSet<u64>,
    /// Processes in the order of their first operation.
    first: Vec<u64>,
    crashed: HashSet<u64>,
}

impl Survey {
    fn see(&mut self, form: &Value<'_>, options: &Options) -> Result<(), String> {
        let Some(event) = operation(form, options)? else {
            if let Some(f) = form.get("f").and_then(Value::name)
                && self.others.len() < 8
                && !self.others.iter().any(|o| o == f)
            {
                self.others.push(f.to_owned());
            }
            return Ok(());
        };
        self.known += 1;
        if event.kind == EventType::Invoke && event.f != "extend" {
            match lone_value(form) {
                None => self.valueless = true,
                Some(_) if self.several => {}
                Some(value) => {
                    let first = self.by_value.entry(value);
                    let first = first.or_insert_with(|| event.process.clone());
                    self.several = *first != event.process;
                }
            }
        }
        self.tokens |= event.value.token.is_some();
        match form.get("time") {
            Some(Value::Int(t)) => self.earliest = self.earliest.min(*t),
            Some(Value::Float(_) | Value::Number(_)) => {
                return Err(":time is no whole number of 64 bits".to_owned());
            }
            _ => self.timeless = true,
        }
        if let Process::Id(p) = event.process {
            if self.seen.insert(p) {
                self.first.push(p);
            }
            if event.kind == EventType::Info {
                self.crashed.insert(p);
            }
        }
        Ok(())
    }

    /// Plain values are the names of locks.
    fn named_by_value(&self) -> bool {
        self.several && !self.valueless
    }

    fn time(&self, form: &Value<'_>, index: u64) -> i64 {
        match form.get("time") {
            Some(Value::Int(t)) if !self.timeless => *t,
            // A position is as good as a time where there is no lease.
            _ => i64::try_from(index.saturating_mul(1_000_000)).unwrap_or(i64::MAX),
        }
    }

    /// The number of threads, where processes were renewed: the smallest n such that each process from n on follows
    /// one, n below it, that had crashed.
    fn threads(&self) -> Option<u64> {
        let place: HashMap<u64, usize> = self.first.iter().copied().zip(0..).collect();
        let follows = |p: u64, n: u64| {
            p.checked_sub(n).is_some_and(|before| {
                self.crashed.contains(&before) && place.get(&before) < place.get(&p)
            })
        };
        let highest = self.first.iter().copied().max()?;
        let renewed = self.first.iter().copied().filter(|p| {
            let mut before = self.crashed.iter();
            before.any(|c| c < p)
        });
        let mut sizes: Vec<u64> = renewed
            .flat_map(|p| {
                self.crashed
                    .iter()
                    .filter(move |c| **c < p)
                    .map(move |c| p - c)
            })
            .take(100_000)
            .collect();
        sizes.sort_unstable();
        sizes.dedup();
        let all = |n: &u64| self.first.iter().all(|p| p < n || follows(*p, *n));
        sizes
            .into_iter()
            .filter(|n| *n <= highest)
            .take(1000)
            .find(all)
    }

    fn other(&self) -> String {
        let names = self.others.iter().map(|o| format!(":{o}"));
        names.collect::<Vec<_>>().join(", ")
    }
}

/// An operation of the lock, without its time; none for what is no such operation.
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
        Some(Value::Int(p)) if *p >= 0 => Process::Id(p.unsigned_abs()),
        Some(Value::Int(_)) => return Ok(None),
        Some(name @ (Value::Keyword(_) | Value::Symbol(_) | Value::Text(_))) => match name.name() {
            None | Some("nemesis") => return Ok(None),
            Some(name) => Process::Named(Cow::Owned(name.to_owned())),
        },
        Some(Value::Number(_)) => return Err(":process does not fit into 64 bits".to_owned()),
        _ => return Err("no :process".to_owned()),
    };
    let Some(f) = f.and_then(|f| options.operation(f)) else {
        return Ok(None);
    };
    let value = form.get("value").unwrap_or(&Value::Nil);
    let (inner, value) = match value {
        Value::Many(two) if two.len() == 2 => (Some(&two[0]), &two[1]),
        _ => (None, value),
    };
    // What an answer tells stands in its value, or beside it.
    let field = |name: &str| value.get(name).or_else(|| form.get(name));
    let key = form.get("key").or(inner);
    let key = key.or_else(|| field("key")).or_else(|| field("lock"));
    let key = key
        .filter(|k| **k != Value::Nil)
        .map_or("lock".to_owned(), text::plain);
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
        key: Some(Cow::Owned(key)),
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
