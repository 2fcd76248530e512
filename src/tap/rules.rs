//! Rules keyed on messages: what a message must be like, the how-manieth counts, and what is done to it.
//!
//! Owns the matching, in one place and as each message passes, so that a rule hits exactly the message that it names.
//! Must not know faults, locks or the plan: whoever adds a [`Rule`] says in closures when it is armed, whose messages it
//! is for, and what happens at the first hit. `conn` asks for each message and does what is asked.
use super::command::Command;
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::{oneshot, watch};

/// Scripts whose text is remembered by their sha1.
const SCRIPTS_MAX: usize = 1000;

/// On which side of the server a message is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// The command, before the server sees it.
    Request,
    /// Its reply, before the client sees it.
    Reply,
}

/// What becomes of the connection from which a message was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// It stays open, and nothing more passes in that direction: a stream cannot lose a part of itself.
    Keep,
    /// It is closed.
    Close,
}

/// What is done to a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// It passes; at the rule's gate it may have waited.
    Pass,
    /// As `Pass`, but the client's end of the connection is closed while it waits: it outlives its connection.
    Outlive,
    /// It passes that much later, and so does what stands behind it.
    Delay(Duration),
    /// It vanishes.
    Lose(After),
    /// The client gets this instead of the server's reply; at the request's edge the server never sees the command.
    Answer(Bytes),
    /// Both connections end with a RST; the message is lost.
    Reset,
    /// Nothing passes any more, in both directions; the connections stay open.
    BlackHole,
    /// The command is sent twice; the second reply is swallowed.
    Duplicate,
}

impl Action {
    /// The message goes on: what there was to do was done by then, or cannot be done to this one.
    pub(super) fn passes(&self) -> bool {
        matches!(
            self,
            Self::Pass | Self::Outlive | Self::Delay(_) | Self::Duplicate
        )
    }
}

/// A message as rules look at it.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// The client.
    pub client: &'a str,
    /// The node, from 0.
    pub node: usize,
    /// Where it is met.
    pub edge: Edge,
    /// The command, or the one that is answered.
    pub command: &'a Command,
    /// Its number on its connection.
    pub number: u64,
}

/// What a message must be like.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pattern {
    /// The command's name; with a space the first two words (`SCRIPT LOAD`); none: any.
    pub command: Option<String>,
    /// The lock key, without the run's prefix.
    pub key: Option<String>,
    /// A part of the script's text, the beginning of its sha1, or a function's name.
    pub script: Option<String>,
    /// A part of one of the words, such as the owner value.
    pub word: Option<String>,
}

/// What the first hit of a rule does beside its action: the message waits for what this gives.
pub type Fired = Box<dyn Fn(&Message<'_>) -> Option<oneshot::Receiver<()>>>;

/// Whether messages between this client and this node (from 0) are meant.
pub type Between = Box<dyn Fn(&str, usize) -> bool>;

/// A rule.
pub struct Rule {
    /// What a message must be like.
    pub pattern: Pattern,
    /// Where it is met.
    pub edge: Edge,
    /// Whether messages between this client and this node are meant.
    pub between: Between,
    /// Whether matches are counted by now.
    pub armed: Box<dyn Fn() -> bool>,
    /// The first match that is hit, from 1.
    pub nth: u32,
    /// How many are hit from then on; none: all.
    pub count: Option<u32>,
    /// What is done to them.
    pub action: Action,
    /// Called at each hit, before anything is done.
    pub fired: Fired,
}

/// What became of a rule; shared with whoever added it.
#[derive(Debug)]
pub struct Hits {
    /// Messages that matched while it was armed.
    pub matched: Cell<u32>,
    /// Messages that it hit.
    pub hit: Cell<u32>,
    /// Of those, the ones to which its action was done, and the first of them in words.
    done: watch::Sender<(u32, Option<String>)>,
    removed: watch::Sender<bool>,
}

impl Hits {
    /// Waits until the action was done `n` times, and says how the first one went.
    pub async fn done(&self, n: u32) -> String {
        let mut done = self.done.subscribe();
        match done.wait_for(|(count, _)| *count >= n).await {
            Ok(state) => state.1.clone().unwrap_or_default(),
            Err(_) => std::future::pending().await,
        }
    }

    /// How often its action was done.
    pub fn count(&self) -> u32 {
        self.done.borrow().0
    }

    /// The rule hits nothing any more, and what it keeps in a black hole is closed.
    pub fn remove(&self) {
        self.removed.send_replace(true);
    }

    /// Whether [`Hits::remove`] was called.
    pub fn is_removed(&self) -> bool {
        *self.removed.borrow()
    }

    /// Waits for [`Hits::remove`].
    pub async fn removed(&self) {
        let mut removed = self.removed.subscribe();
        if removed.wait_for(|r| *r).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// The action was done to a message.
    pub(super) fn was_done(&self, how: &str) {
        self.done.send_modify(|(count, first)| {
            *count += 1;
            first.get_or_insert_with(|| how.to_owned());
        });
    }
}

/// A hit: what is to be done to one message.
pub struct Hit {
    /// What is to be done.
    pub action: Action,
    /// The message waits for this first.
    pub gate: Option<oneshot::Receiver<()>>,
    /// Is told when it was done.
    pub hits: Rc<Hits>,
}

/// All rules of a run.
#[derive(Default)]
pub struct Rules {
    all: RefCell<Vec<(Rc<Rule>, Rc<Hits>)>>,
    scripts: RefCell<HashMap<String, String>>,
    prefix: String,
}

impl Rules {
    /// No rules yet; lock keys begin with `prefix` on the servers.
    pub fn new(prefix: &str) -> Self {
        Self {
            prefix: prefix.to_owned(),
            ..Self::default()
        }
    }

    /// Adds a rule.
    pub fn add(&self, rule: Rule) -> Rc<Hits> {
        let hits = Rc::new(Hits {
            matched: Cell::new(0),
            hit: Cell::new(0),
            done: watch::Sender::new((0, None)),
            removed: watch::Sender::new(false),
        });
        self.all.borrow_mut().push((Rc::new(rule), hits.clone()));
        hits
    }

    /// Remembers a script's text; true if it was new.
    pub fn learn(&self, sha: &str, text: &[u8]) -> bool {
        let mut scripts = self.scripts.borrow_mut();
        if scripts.contains_key(sha) || scripts.len() >= SCRIPTS_MAX {
            return false;
        }
        scripts.insert(sha.to_owned(), String::from_utf8_lossy(text).into_owned());
        true
    }

    /// The lock key that a command names: what follows the run's prefix in one of its words.
    pub fn key_of(&self, command: &Command) -> Option<String> {
        if self.prefix.is_empty() {
            return None;
        }
        command.words().skip(1).find_map(|word| {
            let text = std::str::from_utf8(word).ok()?;
            let at = text.find(&self.prefix)?;
            let key = &text[at + self.prefix.len()..];
            let end = key.find(['}', ' ', '"']).unwrap_or(key.len());
            (end <= 200).then(|| key[..end].to_owned())
        })
    }

    /// The rules that this message meets, each counted; what they ask for, in their order.
    pub fn meet(&self, message: &Message<'_>) -> Vec<Hit> {
        let mut found = Vec::new();
        if self.all.borrow().is_empty() {
            return found;
        }
        let rules: Vec<_> = self.all.borrow().clone();
        for (rule, hits) in rules {
            let spent = rule.count.is_some_and(|count| hits.hit.get() >= count);
            if spent || hits.is_removed() || !(rule.armed)() || !self.fits(&rule, message) {
                continue;
            }
            hits.matched.set(hits.matched.get() + 1);
            if hits.matched.get() < rule.nth {
                continue;
            }
            hits.hit.set(hits.hit.get() + 1);
            found.push(Hit {
                action: rule.action.clone(),
                gate: (rule.fired)(message),
                hits,
            });
        }
        self.all.borrow_mut().retain(|(rule, hits)| {
            !hits.is_removed() && rule.count.is_none_or(|count| hits.hit.get() < count)
        });
        found
    }

    fn fits(&self, rule: &Rule, message: &Message<'_>) -> bool {
        let (command, pattern) = (message.command, &rule.pattern);
        rule.edge == message.edge
            && (rule.between)(message.client, message.node)
            && pattern.command.as_deref().is_none_or(|c| named(command, c))
            && pattern.key.as_deref().is_none_or(|k| {
                self.key_of(command).is_some_and(|key| {
                    // A library may put its own words around the key.
                    key == k
                        || key
                            .strip_prefix(k)
                            .is_some_and(|more| more.starts_with(':'))
                })
            })
            && pattern.word.as_deref().is_none_or(|w| {
                let part = |word: &[u8]| word.windows(w.len()).any(|x| x == w.as_bytes());
                command.words().skip(1).any(part)
            })
            && pattern
                .script
                .as_deref()
                .is_none_or(|s| self.runs(command, s))
    }

    /// Whether the command runs a script like this.
    fn runs(&self, command: &Command, script: &str) -> bool {
        if matches!(command.name.as_str(), "FCALL" | "FCALL_RO") {
            return command.says(1, script);
        }
        let Some(sha) = command.sha() else {
            return false;
        };
        let scripts = self.scripts.borrow();
        let known = scripts.get(&sha).is_some_and(|text| text.contains(script));
        known || (script.len() >= 8 && sha.starts_with(&script.to_ascii_lowercase()))
    }
}

fn named(command: &Command, name: &str) -> bool {
    match name.split_once(' ') {
        None => command.name.eq_ignore_ascii_case(name),
        Some((first, second)) => {
            command.name.eq_ignore_ascii_case(first) && command.says(1, second)
        }
    }
}
