//! Events on their way out: in the server's order, each waiting (shortly) for what was read behind it.
//!
//! Owns the rule which event a read belongs to. Must not know connections. Events go from here to the sink.
use super::HOLD;
use std::collections::VecDeque;
use std::rc::Rc;

/// Something that is being read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Slot<T> {
    /// The answer is on its way.
    Waiting,
    /// Read, or given up.
    Done(Option<T>),
}

impl<T> Slot<T> {
    fn give_up(&mut self) {
        if matches!(self, Self::Waiting) {
            *self = Self::Done(None);
        }
    }

    fn fill(&mut self, value: Option<T>) {
        if matches!(self, Self::Waiting) {
            *self = Self::Done(value);
        }
    }

    /// The value, if it was read.
    pub(super) fn value(self) -> Option<T> {
        match self {
            Self::Waiting => None,
            Self::Done(value) => value,
        }
    }
}

/// One event to come.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) f: &'static str,
    pub(super) key: Option<Rc<str>>,
    pub(super) not_before: u64,
    /// When it was read from the connection.
    pub(super) seen: u64,
    pub(super) owner: Slot<String>,
    pub(super) pttl: Slot<i64>,
    /// Of a `del`: it was a command at this node, no copy of what its primary did.
    pub(super) own: Slot<bool>,
    pub(super) proof: Option<String>,
}

impl Held {
    fn waits(&self) -> bool {
        matches!(self.owner, Slot::Waiting)
            || matches!(self.pttl, Slot::Waiting)
            || matches!(self.own, Slot::Waiting)
    }

    fn give_up(&mut self) {
        self.owner.give_up();
        self.pttl.give_up();
        self.own.give_up();
    }
}

/// First in, first out.
#[derive(Debug, Default)]
pub(super) struct Queue {
    events: VecDeque<Held>,
    waiting: usize,
}

impl Queue {
    pub(super) fn push(&mut self, event: Held) {
        self.waiting += usize::from(event.waits());
        self.events.push_back(event);
    }

    /// The key was written, deleted or expired: answers that come now are about what came after.
    pub(super) fn overtaken(&mut self, key: &str) {
        self.each(key, |event| {
            event.owner.give_up();
            event.pttl.give_up();
        });
    }

    /// The event pushed last was a command at this node only if the node says so once more.
    pub(super) fn doubt_last(&mut self, primary: bool) {
        if let Some(event) = self.events.back_mut() {
            self.waiting -= usize::from(event.waits());
            event.own = if primary {
                Slot::Waiting
            } else {
                Slot::Done(None)
            };
            self.waiting += usize::from(event.waits());
        }
    }

    /// The node said what it is.
    pub(super) fn role_read(&mut self, primary: bool) {
        if self.waiting == 0 {
            return;
        }
        for event in self.events.iter_mut().filter(|e| e.waits()) {
            event.own.fill(Some(primary));
            self.waiting -= usize::from(!event.waits());
        }
    }

    /// The key's time to live was changed: the value is still the same.
    pub(super) fn extended(&mut self, key: &str) {
        self.each(key, |event| event.pttl.give_up());
    }

    /// `GET` answered: all events of the key that still wait are about this value.
    pub(super) fn owner_read(&mut self, key: &str, owner: Option<&str>) {
        self.each(key, |event| event.owner.fill(owner.map(str::to_owned)));
    }

    /// `PTTL` answered.
    pub(super) fn pttl_read(&mut self, key: &str, pttl: Option<i64>) {
        self.each(key, |event| event.pttl.fill(pttl));
    }

    /// What was read together with the event that was pushed last.
    pub(super) fn amend_last(&mut self, owner: Option<String>, pttl: i64) {
        if let Some(event) = self.events.back_mut() {
            (event.owner, event.pttl) = (Slot::Done(owner), Slot::Done(Some(pttl)));
        }
    }

    /// No answer will come any more.
    pub(super) fn give_up(&mut self) {
        self.events.iter_mut().for_each(Held::give_up);
        self.waiting = 0;
    }

    /// The next event that is ready, or has waited long enough.
    pub(super) fn pop(&mut self, now: u64) -> Option<Held> {
        let mut event = self.events.pop_front()?;
        if event.waits() {
            if now < deadline(&event) {
                self.events.push_front(event);
                return None;
            }
            self.waiting -= 1;
            event.give_up();
        }
        Some(event)
    }

    /// When the first event has waited long enough.
    pub(super) fn deadline(&self) -> Option<u64> {
        self.events.front().map(deadline)
    }

    fn each(&mut self, key: &str, mut change: impl FnMut(&mut Held)) {
        if self.waiting == 0 {
            return;
        }
        for event in &mut self.events {
            if event.waits() && event.key.as_deref() == Some(key) {
                change(event);
                self.waiting -= usize::from(!event.waits());
            }
        }
    }
}

fn deadline(event: &Held) -> u64 {
    event.seen.saturating_add(HOLD.as_nanos() as u64)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn event(f: &'static str, key: &str, reads: bool) -> Held {
        let key = Some(Rc::from(key));
        let (owner, pttl) = if reads {
            (Slot::Waiting, Slot::Waiting)
        } else {
            (Slot::Done(None), Slot::Done(None))
        };
        Held {
            f,
            key,
            not_before: 0,
            seen: 1000,
            owner,
            pttl,
            own: Slot::Done(Some(true)),
            proof: None,
        }
    }

    fn drain(queue: &mut Queue) -> Vec<(&'static str, Option<String>, Option<i64>)> {
        std::iter::from_fn(|| queue.pop(1001))
            .map(|e| (e.f, e.owner.value(), e.pttl.value()))
            .collect()
    }

    #[test]
    fn order_is_kept_while_the_head_waits() {
        let mut queue = Queue::default();
        queue.push(event("set", "a", true));
        queue.push(event("del", "b", false));
        assert_eq!(drain(&mut queue), []);
        queue.owner_read("a", Some("v"));
        assert_eq!(drain(&mut queue), []);
        queue.pttl_read("a", Some(7));
        assert_eq!(
            drain(&mut queue),
            [("set", Some("v".into()), Some(7)), ("del", None, None)]
        );
        assert_eq!((queue.waiting, queue.deadline()), (0, None));
    }

    #[test]
    fn an_overtaken_set_never_gets_the_next_ones_owner() {
        let mut queue = Queue::default();
        queue.push(event("set", "a", true));
        queue.overtaken("a");
        queue.push(event("set", "a", true));
        queue.owner_read("a", Some("second"));
        queue.pttl_read("a", None);
        assert_eq!(
            drain(&mut queue),
            [("set", None, None), ("set", Some("second".into()), None)]
        );
    }

    #[test]
    fn an_extension_takes_the_time_to_live_but_not_the_owner() {
        let mut queue = Queue::default();
        queue.push(event("set", "a", true));
        queue.extended("a");
        queue.push(event("expire", "a", true));
        queue.owner_read("a", Some("v"));
        queue.pttl_read("a", Some(9));
        assert_eq!(
            drain(&mut queue),
            [
                ("set", Some("v".into()), None),
                ("expire", Some("v".into()), Some(9))
            ]
        );
    }

    #[test]
    fn a_del_counts_as_a_command_only_once_its_node_is_still_the_primary() {
        let mut queue = Queue::default();
        for primary in [true, false] {
            queue.push(event("del", "a", false));
            queue.doubt_last(true);
            assert!(queue.pop(1001).is_none());
            queue.role_read(primary);
            assert_eq!(queue.pop(1001).unwrap().own, Slot::Done(Some(primary)));
        }
        queue.push(event("del", "a", false));
        queue.doubt_last(false);
        assert_eq!(queue.pop(1001).unwrap().own, Slot::Done(None));
        assert_eq!(queue.waiting, 0);
    }

    #[test]
    fn nothing_waits_for_ever() {
        let mut queue = Queue::default();
        queue.push(event("set", "a", true));
        let late = queue.deadline().unwrap();
        assert!(queue.pop(late - 1).is_none());
        assert_eq!(queue.pop(late).unwrap().owner, Slot::Done(None));
        assert_eq!(queue.waiting, 0);
    }
}
