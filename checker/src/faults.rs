//! What the nemesis did, as windows of time, and when the machine itself stood still.
//!
//! Owns fault windows. Must not know the plan: only what events say. Windows go to findings, `coverage`, `validity`.
use crate::event::{Event, phase};
use crate::section::{NEVER, Ns};

/// Windows kept; a history with more keeps the first ones, and `coverage` says so.
pub(crate) const WINDOWS_MAX: usize = 10_000;

/// One fault from injection to healed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Window {
    pub fault: u32,
    pub kind: String,
    pub target: String,
    /// The client hit, where it is one.
    pub client: Option<String>,
    pub inject: Ns,
    /// Proved to have taken effect by then.
    pub bit: Option<Ns>,
    /// Healing began.
    pub heal: Option<Ns>,
    /// Proved to be gone by then.
    pub healed: Option<Ns>,
    pub no_bite: bool,
    pub not_healed: bool,
    /// Its trigger never matched: no window at all.
    pub never_fired: bool,
}

impl Window {
    fn new(fault: u32, target: &str, event: &Event<'_>) -> Self {
        Self {
            fault,
            kind: event.f.to_string(),
            target: target.to_owned(),
            client: event.client.as_deref().map(str::to_owned),
            inject: event.time,
            bit: None,
            heal: None,
            healed: None,
            no_bite: false,
            not_healed: false,
            never_fired: false,
        }
    }

    /// When it can have had an effect: until it is proved to be gone.
    pub(crate) fn span(&self) -> (Ns, Ns) {
        (self.inject, self.healed.unwrap_or(NEVER))
    }

    /// It has no inverse: what was killed stays dead.
    pub(crate) fn lasting(&self) -> bool {
        self.kind == "client-kill"
    }

    /// The time in which the client was certainly stopped.
    pub(crate) fn stopped(&self) -> Option<(Ns, Ns)> {
        let from = self.bit.filter(|_| self.kind == "client-pause")?;
        Some((from, self.heal.or(self.healed).unwrap_or(NEVER)))
    }
}

/// All windows.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    pub windows: Vec<Window>,
    /// Times in which the machine stood still, by the hiccup meter.
    pub stalls: Vec<(Ns, Ns)>,
    /// Windows that were not kept.
    pub dropped: u64,
}

impl Faults {
    /// Takes an event of the nemesis; false if its phase is unknown.
    pub(crate) fn push(&mut self, event: &Event<'_>) -> bool {
        let v = &event.value;
        let (Some(at), Some(fault)) = (v.phase.as_deref(), v.fault) else {
            return false;
        };
        let target = v.target.as_deref().unwrap_or_default();
        let begins = at == phase::INJECT || at == phase::NEVER_FIRED;
        let mut of_fault = self.windows.iter().enumerate().rev();
        let open = of_fault
            .find(|(_, w)| w.fault == fault && (target.is_empty() || w.target == target))
            .filter(|(_, w)| !begins && w.healed.is_none())
            .map(|(i, _)| i);
        let i = match open {
            Some(i) => i,
            None if self.windows.len() >= WINDOWS_MAX => {
                self.dropped += 1;
                return true;
            }
            None => {
                self.windows.push(Window::new(fault, target, event));
                self.windows.len() - 1
            }
        };
        let w = &mut self.windows[i];
        if w.client.is_none() {
            w.client = event.client.as_deref().map(str::to_owned);
        }
        match at {
            phase::INJECT => {}
            phase::BIT => w.bit = w.bit.or(Some(event.time)),
            phase::NO_BITE => w.no_bite = true,
            phase::HEAL => w.heal = w.heal.or(Some(event.time)),
            phase::HEALED => w.healed = Some(event.time),
            phase::NOT_HEALED => w.not_healed = true,
            phase::NEVER_FIRED => w.never_fired = true,
            _ => return false,
        }
        true
    }

    /// A stall of `ms` that ended at `at`.
    pub(crate) fn stall(&mut self, at: Ns, ms: f64) {
        let from = at.saturating_sub((ms.max(0.0) * 1e6) as Ns);
        if self.stalls.len() < WINDOWS_MAX {
            self.stalls.push((from, at));
        } else if let Some(last) = self.stalls.last_mut() {
            // Too many to keep apart: the last one grows, which only excuses more.
            last.1 = at;
        }
    }

    /// Sum of all stalls.
    pub(crate) fn stalled(&self) -> Ns {
        let lengths = self
            .stalls
            .iter()
            .map(|(from, to)| to.saturating_sub(*from));
        lengths.fold(0, Ns::saturating_add)
    }

    /// Whether the machine stood still at some time in `[from, to]`.
    pub(crate) fn stalled_in(&self, from: Ns, to: Ns) -> bool {
        self.stalls.iter().any(|s| s.0 <= to && s.1 >= from)
    }

    /// Whether all that was injected is proved to be gone.
    pub(crate) fn all_healed(&self) -> bool {
        let mut fired = self.windows.iter().filter(|w| !w.never_fired);
        self.dropped == 0 && fired.all(|w| w.healed.is_some() || w.lasting())
    }

    /// The windows that were open at some time in `[from, to]`.
    pub(crate) fn active(&self, from: Ns, to: Ns) -> impl Iterator<Item = &Window> {
        self.windows.iter().filter(move |w| {
            let (start, end) = w.span();
            !w.never_fired && start <= to && end >= from
        })
    }

    /// Whether the client was stopped at some time in `[from, to]`.
    pub(crate) fn stopped_in(&self, client: &str, from: Ns, to: Ns) -> bool {
        self.active(from, to).any(|w| {
            w.kind == "client-pause" && (w.client.as_deref() == Some(client) || w.target == client)
        })
    }
}
