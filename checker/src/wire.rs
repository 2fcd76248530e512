//! What the tap saw: commands and replies that carry a grant's owner value, and what follows from their stamps.
//!
//! Owns the winning attempt of a call that waits or tries again inside, the reply that made its quorum, and renewals
//! that a library makes by itself. Must not know checks. Events come from `collect`, results go into `facts`.
//!
//! Sound whatever a library sends: an attempt is begun no later than its commands, and its quorum was made no earlier
//! than the q-th of its replies.
use crate::event::Event;
use crate::model::Model;
use crate::names::{NONE, Name, Names};
use crate::section::{Ended, Extension, NEVER, Ns, Section};
use std::collections::HashMap;

/// Commands kept; of more, the first, and what is not kept is no evidence.
const SENT_MAX: usize = 1_000_000;

/// A command that went to a server.
#[derive(Debug, Clone)]
struct Sent {
    client: Name,
    node: Name,
    at: Ns,
    text: Box<str>,
    /// When the client got its reply.
    reply: Option<Ns>,
    /// The reply was an error.
    refused: bool,
    /// The reply says yes: it is no error, no zero and no null.
    agreed: bool,
}

/// See the module's page.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    sent: Vec<Sent>,
    /// Commands by connection and number.
    open: HashMap<(u64, u64), usize>,
    /// Commands by a word in them, for the words that occur elsewhere in the history (owner values).
    by_word: HashMap<Name, Vec<usize>>,
    /// Of each script, by its sha1: whether it gives a key a time to live, and whether it deletes one.
    scripts: HashMap<Box<str>, (bool, bool)>,
}

/// The attempt that a call succeeded with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Attempt {
    start: Ns,
    quorum: Ns,
}

impl Wire {
    /// Takes an event of the tap; false if it knows none of that name.
    pub(crate) fn push(&mut self, event: &Event<'_>, names: &mut Names) -> bool {
        let v = &event.value;
        let place = (v.conn.unwrap_or(0), v.message.unwrap_or(0));
        let text = v.text.as_deref().unwrap_or_default();
        match (event.f.as_ref(), v.phase.as_deref()) {
            ("request", None | Some("doubled")) if self.sent.len() < SENT_MAX => {
                self.open.insert(place, self.sent.len());
                self.sent.push(Sent {
                    client: names.optional(event.client.as_deref()),
                    node: names.optional(v.node.as_deref()),
                    at: event.time,
                    text: text.into(),
                    reply: None,
                    refused: false,
                    agreed: false,
                });
            }
            ("reply", None | Some("passed" | "made")) => {
                if let Some(i) = self.open.remove(&place) {
                    let sent = &mut self.sent[i];
                    sent.reply = Some(event.time);
                    sent.refused = text.starts_with('-');
                    let no = [":0", "$-1", "*-1", "_", "#f", "*0"];
                    sent.agreed = !sent.refused && !no.contains(&text);
                }
            }
            ("script", _) => {
                if let Some(sha) = event.key.as_deref() {
                    let text = text.to_ascii_lowercase();
                    let does = (text.contains("expire"), text.contains("'del'"));
                    self.scripts.insert(sha.into(), does);
                }
            }
            (
                "request" | "reply" | "push" | "open" | "close" | "unread" | "refused" | "full",
                _,
            ) => {}
            _ => return false,
        }
        true
    }

    /// Gives each section the start of its winning attempt and the time of the reply that made its quorum, and adds
    /// the renewals that no call of `extend` asked for.
    pub(crate) fn tell(
        &mut self,
        names: &Names,
        model: &Model,
        owned_by: impl Fn(Name) -> Option<u32>,
        sections: &mut [Section],
        extensions: &mut Vec<Extension>,
    ) {
        if self.sent.is_empty() {
            return;
        }
        for (i, sent) in self.sent.iter().enumerate() {
            for word in sent.text.split(' ').skip(1).filter_map(|w| names.find(w)) {
                let sent = self.by_word.entry(word).or_default();
                if sent.last() != Some(&i) {
                    sent.push(i);
                }
            }
        }
        let by_section = self
            .by_word
            .iter()
            .filter_map(|(word, sent)| Some((owned_by(*word)?, sent)));
        let called = extensions.clone();
        for (me, carrying) in by_section {
            let s = &mut sections[me as usize];
            let mine: Vec<&Sent> = carrying
                .iter()
                .map(|i| &self.sent[*i])
                .filter(|sent| sent.client == s.client)
                .collect();
            if let Some(attempt) = attempt(&mine, s, model.quorum as usize) {
                s.start = s.start.max(attempt.start);
                s.quorum = attempt.quorum;
            }
            let calls = called.iter().filter(|e| e.section == me);
            let calls: Vec<(Ns, Ns)> = calls.map(|e| (e.inv, e.ret)).collect();
            let renewals = mine.iter().filter(|sent| {
                let asked = calls
                    .iter()
                    .any(|(inv, ret)| (inv..=ret).contains(&&sent.at));
                let held = s.ret < sent.at && sent.at < s.hold_end();
                held && !asked && self.renews(sent, s.lease)
            });
            let renewals: Vec<&Sent> = renewals.copied().collect();
            extensions.extend(rounds(&renewals, me, s.lease, model.quorum as usize));
        }
    }

    /// The nodes to which the client sent commands with this word, one entry a command.
    pub(crate) fn carried(&self, client: Name, word: Name) -> Vec<Name> {
        let with = self.by_word.get(&word).map_or(&[][..], Vec::as_slice);
        let sent = with.iter().map(|i| &self.sent[*i]);
        let mine = sent.filter(|sent| sent.client == client);
        mine.map(|sent| sent.node).collect()
    }

    /// How many commands the client sent in `[from, to]`.
    pub(crate) fn sent_in(&self, client: Name, from: Ns, to: Ns) -> usize {
        let first = self.sent.partition_point(|sent| sent.at < from);
        let later = self.sent[first..].iter().take_while(|sent| sent.at <= to);
        later.filter(|sent| sent.client == client).count()
    }

    /// Whether the tap was there.
    pub(crate) fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// Whether a command gives the key the whole lease again.
    fn renews(&self, sent: &Sent, lease: Ns) -> bool {
        if lease == NEVER {
            return false;
        }
        let mut words = sent.text.split(' ');
        let command = words.next().unwrap_or_default().to_ascii_uppercase();
        let kind = match command.as_str() {
            "PEXPIRE" | "EXPIRE" | "GETEX" => true,
            "SET" => sent.text.split(' ').any(|w| w.eq_ignore_ascii_case("XX")),
            "EVALSHA" | "EVAL" => {
                let sha = words.next().unwrap_or_default();
                let sha = sha.strip_prefix("sha1:").unwrap_or(sha);
                matches!(self.scripts.get(sha), Some((true, false)))
            }
            _ => false,
        };
        let (ms, seconds) = (lease / 1_000_000, lease / 1_000_000_000);
        let whole =
            |w: &str| w == ms.to_string() || (ms == seconds * 1000 && w == seconds.to_string());
        kind && sent.text.split(' ').any(whole)
    }
}

/// The last commands of the call, back to the first node that is met again: what came before was another attempt. A
/// command that got no answer belongs to what its sender then sent again.
fn attempt(mine: &[&Sent], s: &Section, quorum: usize) -> Option<Attempt> {
    let mut nodes: Vec<Name> = Vec::new();
    let mut replies: Vec<Ns> = Vec::new();
    let mut start = NEVER;
    for sent in mine.iter().rev() {
        if sent.at > s.ret {
            continue;
        }
        if sent.at < s.inv {
            break;
        }
        let again = nodes.contains(&sent.node);
        if again && sent.reply.is_some() {
            break;
        }
        start = sent.at;
        if !again && sent.node != NONE {
            nodes.push(sent.node);
            let in_time = sent.reply.filter(|at| !sent.refused && *at <= s.ret);
            replies.extend(in_time);
        }
    }
    if nodes.len() < quorum {
        return None;
    }
    replies.sort_unstable();
    let made = quorum.checked_sub(1).and_then(|q| replies.get(q));
    Some(Attempt {
        start,
        quorum: made.copied().unwrap_or(NEVER),
    })
}

/// Renewals on a quorum, each counted from its first command.
fn rounds(renewals: &[&Sent], section: u32, lease: Ns, quorum: usize) -> Vec<Extension> {
    let mut all = Vec::new();
    let mut from = 0;
    while from < renewals.len() {
        let mut nodes: Vec<Name> = Vec::new();
        let round = renewals[from..].iter().take_while(|sent| {
            let fresh = !nodes.contains(&sent.node);
            nodes.push(sent.node);
            fresh
        });
        let round: Vec<&&Sent> = round.collect();
        let mut agreed: Vec<Ns> = round
            .iter()
            .filter(|sent| sent.agreed)
            .filter_map(|sent| sent.reply)
            .collect();
        agreed.sort_unstable();
        if let Some(ret) = quorum.checked_sub(1).and_then(|q| agreed.get(q)) {
            all.push(Extension {
                section,
                inv: round[0].at,
                ret: *ret,
                lease,
                validity_ms: f64::NAN,
                ended: Ended::Ok,
                wire: true,
                told: false,
            });
        }
        from += round.len().max(1);
    }
    all
}
