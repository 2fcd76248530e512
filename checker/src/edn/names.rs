//! Which lock an operation in EDN is of.
//!
//! Owns the rule by which values are taken for names of locks, and what is said of it. Must not know verdicts. The rule
//! itself is written down for readers in `history`.
use super::parse::Value;
use super::text;
use crate::event::{Event, EventType, Process};
use crate::options::KeyFrom;
use std::borrow::Cow;
use std::collections::HashMap;

/// The lock of operations that name none.
const LOCK: &str = "lock";
/// Values that are looked at to find out what they are.
const VALUES_MAX: usize = 1 << 16;
/// Users of a value that are looked at.
const USERS_MAX: usize = 8;
/// Locks of a worker that are remembered.
const HELD_MAX: usize = 64;

/// What stands in an operation as the name of its lock.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Named {
    /// Under `:key` or `:lock`.
    stated: Option<String>,
    /// A plain value, or the first of two, which may be a name.
    value: Option<String>,
    /// That value as a number.
    number: Option<i64>,
    /// It is the first of two of which the other is nil or a map, as `jepsen.independent` writes a key.
    keyed: bool,
}

impl Named {
    pub(super) fn of(form: &Value<'_>) -> Self {
        let whole = form.get("value").unwrap_or(&Value::Nil);
        let (value, rest) = match whole {
            Value::Many(two) if two.len() == 2 => (&two[0], Some(&two[1])),
            other => (other, None),
        };
        let field = |name: &str| {
            let inner = rest.and_then(|r| r.get(name));
            let inner = inner.or_else(|| whole.get(name));
            inner.or_else(|| form.get(name))
        };
        let stated = form.get("key").or_else(|| field("key"));
        let stated = stated.or_else(|| field("lock"));
        let plain = matches!(
            value,
            Value::Keyword(_) | Value::Text(_) | Value::Symbol(_) | Value::Int(_)
        );
        let pair = rest.is_some() && *value != Value::Nil;
        Self {
            stated: stated.filter(|k| **k != Value::Nil).map(text::plain),
            value: (plain || pair).then(|| text::plain(value)),
            number: match value {
                Value::Int(i) => Some(*i),
                _ => None,
            },
            keyed: pair && matches!(rest, Some(Value::Nil | Value::Map(_))),
        }
    }

    /// By what the user said.
    fn by(form: &Value<'_>, key: &KeyFrom) -> Option<String> {
        let value = form.get("value").filter(|v| **v != Value::Nil);
        match key {
            KeyFrom::Nothing => Some(LOCK.to_owned()),
            KeyFrom::Field(name) => {
                let inner = value.and_then(|v| v.get(name));
                let found = form.get(name).or(inner);
                found.filter(|k| **k != Value::Nil).map(text::plain)
            }
            KeyFrom::Value | KeyFrom::FoundOut => {
                let named = Self::of(form);
                let map = matches!(value, Some(Value::Map(_)));
                let whole = || value.filter(|_| !map).map(text::plain);
                let stated = named.stated.filter(|_| map);
                stated.or(named.value).or_else(whole)
            }
        }
    }
}

/// What a first look tells of values.
#[derive(Debug, Default)]
pub(super) struct Values {
    /// Processes that use a value, some, and the first values in their order.
    users: HashMap<String, Vec<Process<'static>>>,
    first: Vec<String>,
    /// The last value that each process acquired with.
    last: HashMap<Process<'static>, (String, Option<i64>)>,
    acquires: u64,
    /// An acquire has no value, or has a name beside it.
    otherwise: bool,
    /// Some operation names its lock.
    stated: bool,
    /// Of some acquire the value is none of a pair with nil or a map.
    unkeyed: bool,
    /// One process acquires with several values, and not only with rising numbers.
    varies: bool,
    falls: bool,
}

impl Values {
    /// Looks at an operation of the lock.
    pub(super) fn see(&mut self, event: &Event<'static>, named: &Named) {
        self.stated |= named.stated.is_some();
        if event.kind != EventType::Invoke || event.f == "extend" {
            return;
        }
        let Some(value) = named.value.as_ref().filter(|_| named.stated.is_none()) else {
            self.otherwise |= event.f == "acquire";
            return;
        };
        if !self.users.contains_key(value) {
            if self.users.len() >= VALUES_MAX {
                return;
            }
            if self.first.len() < 2 {
                self.first.push(value.clone());
            }
        }
        let users = self.users.entry(value.clone()).or_default();
        if users.len() < USERS_MAX && !users.contains(&event.process) {
            users.push(event.process.clone());
        }
        if event.f != "acquire" {
            return;
        }
        self.acquires += 1;
        self.unkeyed |= !named.keyed;
        let now = (value.clone(), named.number);
        if let Some(before) = self.last.insert(event.process.clone(), now) {
            self.varies |= before.0 != *value;
            self.falls |= match (before.1, named.number) {
                (Some(before), Some(now)) => now < before,
                _ => before.0 != *value,
            };
        }
    }

    /// Whether values are the names of locks; `at_once` says of two processes whether they were there at the same time.
    pub(super) fn are_names(
        &self,
        at_once: impl Fn(&Process<'static>, &Process<'static>) -> bool,
    ) -> bool {
        if self.otherwise || self.acquires == 0 || self.stated {
            return false;
        }
        let shared = || {
            self.users.values().any(|users| {
                let pairs = users.iter().enumerate();
                let mut pairs = pairs.flat_map(|(i, a)| users[..i].iter().map(move |b| (a, b)));
                pairs.any(|(a, b)| at_once(a, b))
            })
        };
        !self.unkeyed || (self.varies && self.falls && shared())
    }

    /// What was assumed of them, for whoever reads the verdict.
    pub(super) fn note(&self, names: bool) -> Option<String> {
        let [one, other] = &self.first[..] else {
            return None;
        };
        let such = |name: &String| -> String { name.chars().take(40).collect() };
        let such = format!("such as {} and {}", such(one), such(other));
        let said = if names {
            format!(
                "locks are named by :value ({such}); should that be something else, --key none says that there is one lock"
            )
        } else if self.stated || self.acquires == 0 {
            return None;
        } else {
            format!(
                "there is one lock: :value ({such}) was not taken for its name; should it be, --key value says so"
            )
        };
        Some(said)
    }
}

/// Gives each event the lock that it is of.
pub(super) struct Names<'a> {
    key: &'a KeyFrom,
    by_value: bool,
    /// Locks of operations without an answer.
    open: HashMap<(Process<'static>, Cow<'static, str>), String>,
    workers: HashMap<Worker, Held>,
}

/// A thread of Jepsen's, or a process.
type Worker = (Option<Cow<'static, str>>, Option<Process<'static>>);

/// What a worker acquired and did not release, and its last lock.
#[derive(Default)]
struct Held {
    locks: Vec<String>,
    last: Option<String>,
}

impl<'a> Names<'a> {
    pub(super) fn new(key: &'a KeyFrom, by_value: bool) -> Self {
        Self {
            key,
            by_value,
            open: HashMap::new(),
            workers: HashMap::new(),
        }
    }

    /// Names the lock of an event. A release that does not say of which lock is of the one that its worker acquired last.
    pub(super) fn name(
        &mut self,
        event: &mut Event<'static>,
        form: &Value<'_>,
    ) -> Result<(), String> {
        let stated = match self.key {
            KeyFrom::FoundOut => {
                let named = Named::of(form);
                let value = named.value.filter(|_| self.by_value);
                named.stated.or(value)
            }
            said => Named::by(form, said),
        };
        let operation = (event.process.clone(), event.f.clone());
        let worker = match &event.client {
            Some(client) => (Some(client.clone()), None),
            None => (None, Some(event.process.clone())),
        };
        let worker = self.workers.entry(worker).or_default();
        let key = if event.kind == EventType::Invoke {
            let own = || worker.locks.last().or(worker.last.as_ref()).cloned();
            let key = match stated {
                None if event.f != "acquire" => own(),
                stated => stated,
            };
            let key = match key {
                None if matches!(self.key, KeyFrom::Value | KeyFrom::Field(_)) => {
                    return Err("it does not say of which lock it is, which --key says".to_owned());
                }
                key => key.unwrap_or_else(|| LOCK.to_owned()),
            };
            self.open.insert(operation, key.clone());
            if event.f == "acquire" {
                worker.last = Some(key.clone());
            }
            key
        } else {
            let asked = self.open.remove(&operation);
            let key = asked.or(stated).unwrap_or_else(|| LOCK.to_owned());
            match (event.f.as_ref(), event.kind) {
                ("acquire", EventType::Ok | EventType::Info) => {
                    if worker.locks.len() == HELD_MAX {
                        worker.locks.remove(0);
                    }
                    worker.locks.push(key.clone());
                }
                ("release", EventType::Ok) => {
                    if let Some(at) = worker.locks.iter().rposition(|k| *k == key) {
                        worker.locks.remove(at);
                    }
                }
                _ => {}
            }
            key
        };
        event.key = Some(Cow::Owned(key));
        Ok(())
    }
}
