//! What a first look at all operations of a history in EDN tells: its times, its threads, what its values are.
//!
//! Owns what is found out. Must not know how it is judged. Goes to the second reading, in `mod`.
use super::names::{Named, Values};
use super::parse::Value;
use crate::Options;
use crate::event::{Event, Process};
use crate::options::KeyFrom;
use std::collections::HashMap;

/// Numbers of threads that are tried.
const SIZES_MAX: usize = 1000;
/// Processes that are looked at to try them.
const STEPS_MAX: u64 = 20_000_000;

/// When a process did something, by the number of the operation.
#[derive(Debug, Clone, Copy)]
struct Life {
    first: u64,
    last: u64,
    /// Its first `:info`.
    crashed: Option<u64>,
}

impl Life {
    /// It crashed, and did nothing afterwards.
    fn ended(self) -> Option<u64> {
        self.crashed.filter(|at| *at == self.last)
    }
}

/// What a first look at all operations tells.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// Operations of a lock, and names of others, a few.
    pub known: u64,
    others: Vec<String>,
    /// Some answer has a token.
    pub tokens: bool,
    values: Values,
    earliest: i64,
    /// The first operation of a lock without a time, and whether some have one.
    pub timeless: Option<u64>,
    timed: bool,
    /// What became of each process, whatever it did.
    lives: HashMap<Process<'static>, Life>,
}

impl Survey {
    /// Looks at one operation; an event, where it is one of a lock.
    pub(super) fn see(
        &mut self,
        index: u64,
        form: &Value<'_>,
        event: Option<&Event<'static>>,
    ) -> Result<(), String> {
        self.live(index, form);
        let Some(event) = event else {
            if let Some(f) = form.get("f").and_then(Value::name)
                && self.others.len() < 8
                && !self.others.iter().any(|o| o == f)
            {
                self.others.push(f.to_owned());
            }
            return Ok(());
        };
        self.known += 1;
        self.values.see(event, &Named::of(form));
        self.tokens |= event.value.token.is_some();
        match form.get("time") {
            Some(Value::Int(t)) => {
                self.timed = true;
                self.earliest = self.earliest.min(*t);
            }
            None | Some(Value::Nil) => {
                self.timeless.get_or_insert(index);
            }
            Some(_) => return Err(":time is no whole number of 64 bits".to_owned()),
        }
        Ok(())
    }

    /// Notes that a process was there, also with what is none of a lock: Jepsen renews it after that, too.
    fn live(&mut self, index: u64, form: &Value<'_>) {
        let Some(process) = super::process(form) else {
            return;
        };
        let life = self.lives.entry(process).or_insert(Life {
            first: index,
            last: index,
            crashed: None,
        });
        life.last = index;
        if form.get("type").and_then(Value::name) == Some("info") {
            life.crashed.get_or_insert(index);
        }
    }

    /// Whether values are names of locks.
    pub(super) fn by_value(&self, options: &Options) -> bool {
        options.key == KeyFrom::FoundOut
            && self.values.are_names(|a, b| {
                let (Some(a), Some(b)) = (self.lives.get(a), self.lives.get(b)) else {
                    return false;
                };
                a.first <= b.last && b.first <= a.last
            })
    }

    /// Nanoseconds from the earliest operation, or from 0; a millisecond each where some have no time.
    pub(super) fn time(&self, form: &Value<'_>, index: u64) -> u64 {
        match form.get("time") {
            Some(Value::Int(t)) if self.timeless.is_none() => t.abs_diff(self.earliest),
            // A place is as good as a time where there is no lease.
            _ => index.saturating_mul(1_000_000),
        }
    }

    /// The highest number of a process.
    pub(super) fn highest(&self) -> Option<u64> {
        self.numbers().map(|(p, _)| p).max()
    }

    fn numbers(&self) -> impl Iterator<Item = (u64, Life)> + '_ {
        self.lives.iter().filter_map(|(p, life)| match p {
            Process::Id(p) => Some((*p, *life)),
            Process::Named(_) => None,
        })
    }

    /// The number of threads, where processes were renewed: the smallest n such that each process from n on follows the
    /// one n below it, which had crashed before and did nothing afterwards.
    pub(super) fn threads(&self) -> Option<u64> {
        let mut numbers: Vec<(u64, Life)> = self.numbers().collect();
        numbers.sort_unstable_by_key(|(p, _)| *p);
        let (highest, newest) = *numbers.last()?;
        let before = numbers.iter().rev().skip(1);
        let sizes = before
            .filter(|(_, life)| life.ended().is_some_and(|at| at < newest.first))
            .map(|(p, _)| highest - p)
            // One thread would never meet another.
            .filter(|n| *n > 1);
        let mut steps = 0;
        let follows = |p: u64, life: Life, n: u64| {
            let ended = p.checked_sub(n).and_then(|before| {
                let at = numbers.binary_search_by_key(&before, |(p, _)| *p).ok()?;
                numbers[at].1.ended()
            });
            ended.is_some_and(|at| at < life.first)
        };
        let mut all = |n: &u64| {
            numbers.iter().all(|(p, life)| {
                steps += 1;
                p < n || follows(*p, *life, *n)
            }) && steps < STEPS_MAX
        };
        sizes.take(SIZES_MAX).find(|n| all(n))
    }

    /// Whether some process began after another had an `:info`: it may be the same worker.
    fn renewed(&self) -> bool {
        let crashes = self.numbers().filter_map(|(_, life)| life.crashed);
        let first = crashes.min().unwrap_or(u64::MAX);
        self.numbers().any(|(_, life)| life.first > first)
    }

    /// What was assumed where the history does not say, for whoever reads the verdict.
    pub(super) fn notes(
        &self,
        options: &Options,
        threads: Option<u64>,
        by_value: bool,
    ) -> Vec<String> {
        let mut notes = Vec::new();
        if options.key == KeyFrom::FoundOut {
            notes.extend(self.values.note(by_value));
        }
        if let (None, Some(n)) = (options.threads, threads) {
            notes.push(format!(
                "by their numbers, process p goes on as p + {n} after an :info, with {n} threads; \
                 should there be others, --threads says how many"
            ));
        }
        if options.threads.is_none() && threads.is_none() && self.renewed() {
            notes.push(
                "each process is a worker of its own, since no number of threads fits those that came after an :info; \
                 --threads says how many there are"
                    .to_owned(),
            );
        }
        if self.timeless.is_some() {
            let which = if self.timed {
                "some have no"
            } else {
                "none has a"
            };
            notes.push(format!(
                "operations count by their order, a millisecond each, since {which} :time"
            ));
        }
        notes
    }

    /// Names of operations that are none of a lock.
    pub(super) fn other(&self) -> String {
        let names = self.others.iter().map(|o| format!(":{o}"));
        names.collect::<Vec<_>>().join(", ")
    }
}
