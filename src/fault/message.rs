//! `message`: a rule of the tap, keyed on single messages; and every other fault that waits for a message.
//!
//! Owns the way from a plan's words to a rule of the tap and back to the fault's life. Must not know how messages are
//! carried. Proof: the wire's own record of the message that was hit, and of what became of it.
use super::{Fault, Proof, World, cripple};
use crate::plan::{
    FaultKind, FaultPlan, MessageAction, MessageConnection, MessagePattern, Target, Trigger, When,
    message,
};
use crate::run::board::{Hit, Hold, Scope};
use crate::tap::rules::Between;
use crate::tap::{self, Action, After, Edge, Hits, Message, Pattern, Rule};
use async_trait::async_trait;
use bytes::Bytes;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::oneshot;

/// How long what a rule does to its first message may take beyond the delay that it asks for.
const DONE: Duration = Duration::from_secs(5);

/// A rule of the plan, laid before the first operation.
#[derive(Clone)]
struct Armed {
    hits: Rc<Hits>,
    /// Opens the gates at which messages wait (`hold`).
    held: Rc<RefCell<Vec<oneshot::Sender<()>>>>,
    /// The first message that was hit, in words.
    first: Rc<RefCell<String>>,
}

/// The rules that the plan's faults laid, by the number of the fault.
#[derive(Default)]
pub struct Messages(RefCell<BTreeMap<u32, Armed>>);

/// Watches for a trigger, wherever it is matched.
pub fn watch(world: &Rc<World>, trigger: &Trigger, scope: Scope) -> oneshot::Receiver<Hit> {
    let Some(pattern) = &trigger.message else {
        return world.board.watch(trigger, scope);
    };
    let (tell, told) = oneshot::channel();
    let tell = RefCell::new(Some(tell));
    let client = trigger.client.clone();
    let board = world.board.clone();
    let node = pattern.node.clone();
    let between = move |who: &str, at: usize| {
        let this_client = match client.as_deref() {
            None => true,
            Some("holder") => scope.0.as_deref() == Some(who),
            Some("other") => scope.0.as_deref() != Some(who),
            Some(name) => name == who,
        };
        this_client && node.as_deref().is_none_or(|n| n == node_name(at))
    };
    let fired = move |message: &Message<'_>| {
        let tell = tell.borrow_mut().take()?;
        let (gate, wait) = oneshot::channel();
        let hold = board.hold_of(message.client).unwrap_or(Hold {
            client: message.client.to_owned(),
            worker: 0,
            key: String::new(),
            owner: None,
        });
        // Nobody waits any more: then the message passes at once.
        tell.send(Hit { hold, gate }).is_ok().then_some(wait)
    };
    lay(
        world,
        trigger,
        pattern,
        Box::new(between),
        Some(1),
        Action::Pass,
        Box::new(fired),
    );
    told
}

/// Lays the rule of a fault of kind `message`; the receiver gets its first hit.
pub(super) fn arm(
    world: &Rc<World>,
    number: u32,
    plan: &FaultPlan,
) -> Option<oneshot::Receiver<Hit>> {
    let (When::On(trigger), Some(message)) = (&plan.when, &plan.message) else {
        return None;
    };
    let pattern = trigger.message.as_ref()?;
    let (tell, told) = oneshot::channel();
    let tell = RefCell::new(Some(tell));
    let held = Rc::new(RefCell::new(Vec::new()));
    let first = Rc::new(RefCell::new(String::new()));
    // The tap does what there is to inject, so a crippled rule is one that lets its messages pass.
    let crippled = cripple::is_crippled(FaultKind::Message);
    let holds = message.action == MessageAction::Hold && !crippled;
    let (gates, words) = (held.clone(), first.clone());
    let fired = move |message: &Message<'_>| {
        let (opens, wait) = oneshot::channel();
        if let Some(tell) = tell.borrow_mut().take() {
            words.replace(in_words(message));
            let hold = Hold {
                client: message.client.to_owned(),
                worker: 0,
                key: String::new(),
                owner: None,
            };
            // The first message waits until its fault is on record, and a held one until the fault ends.
            let (gate, recorded) = oneshot::channel();
            if tell.send(Hit { hold, gate }).is_ok() && !holds {
                return Some(recorded);
            }
        }
        holds.then(|| {
            gates.borrow_mut().push(opens);
            wait
        })
    };
    let between = links(world, plan, trigger, pattern);
    let count = message::hits(message, plan.length, plan.until.as_ref());
    let action = if crippled { Action::Pass } else { action(plan) };
    let hits = lay(
        world,
        trigger,
        pattern,
        between,
        count,
        action,
        Box::new(fired),
    )?;
    let armed = Armed { hits, held, first };
    world.messages.0.borrow_mut().insert(number, armed);
    Some(told)
}

fn lay(
    world: &Rc<World>,
    trigger: &Trigger,
    pattern: &MessagePattern,
    between: Between,
    count: Option<u32>,
    action: Action,
    fired: tap::rules::Fired,
) -> Option<Rc<Hits>> {
    let (board, after) = (world.board.clone(), trigger.after.clone());
    let command = (pattern.command != "*").then(|| pattern.command.clone());
    let rule = Rule {
        pattern: Pattern {
            command,
            key: pattern.key.clone(),
            script: pattern.script.clone(),
            word: pattern.word.clone(),
        },
        edge: if trigger.on_reply() {
            Edge::Reply
        } else {
            Edge::Request
        },
        between,
        armed: Box::new(move || after.as_ref().is_none_or(|fault| board.has_bitten(fault))),
        nth: trigger.nth,
        count,
        action,
        fired,
    };
    Some(world.taps.as_ref()?.rules().add(rule))
}

fn action(plan: &FaultPlan) -> Action {
    let Some(message) = &plan.message else {
        return Action::Pass;
    };
    let after = match message.connection {
        MessageConnection::Keep => After::Keep,
        MessageConnection::Close => After::Close,
    };
    match message.action {
        MessageAction::Hold => match after {
            After::Keep => Action::Pass,
            After::Close => Action::Outlive,
        },
        MessageAction::Delay => Action::Delay(plan.latency.unwrap_or_default()),
        MessageAction::Drop | MessageAction::Swallow => Action::Lose(after),
        MessageAction::Error => Action::Answer(error(message.error.as_deref())),
        MessageAction::Reset => Action::Reset,
        MessageAction::BlackHole => Action::BlackHole,
        MessageAction::Duplicate => Action::Duplicate,
    }
}

fn error(word: Option<&str>) -> Bytes {
    let error = word.and_then(tap::error);
    error.unwrap_or_else(|| Bytes::from_static(b"-ERR\r\n"))
}

/// The links that the fault's target names; roles are looked up as each message passes.
fn links(
    world: &Rc<World>,
    plan: &FaultPlan,
    trigger: &Trigger,
    pattern: &MessagePattern,
) -> Between {
    let (from, to) = match &plan.target {
        Target::Link(from, to) => (from.clone(), to.clone()),
        Target::Client(name) => (name.clone(), "*".to_owned()),
        Target::Holder => ("holder".to_owned(), "*".to_owned()),
        Target::Waiter => ("waiter".to_owned(), "*".to_owned()),
        Target::Node(number) => ("*".to_owned(), format!("n{number}")),
        _ => ("*".to_owned(), "*".to_owned()),
    };
    let (board, world_plan) = (world.board.clone(), world.plan.clone());
    let (client, node) = (trigger.client.clone(), pattern.node.clone());
    Box::new(move |who, at| {
        let name = node_name(at);
        let from_fits = match from.as_str() {
            "*" => !world_plan.load.clean.iter().any(|c| c == who),
            "holder" => board.holder().is_some_and(|h| h.client == who),
            "waiter" => board.waits(who),
            name => name == who,
        };
        from_fits
            && (to == "*" || to == name)
            && client.as_deref().is_none_or(|c| c == who)
            && node.as_deref().is_none_or(|n| n == name)
    })
}

fn node_name(at: usize) -> String {
    format!("n{}", at + 1)
}

fn in_words(message: &Message<'_>) -> String {
    let edge = match message.edge {
        Edge::Request => "the command",
        Edge::Reply => "the reply to",
    };
    let node = node_name(message.node);
    let text = message.command.text();
    format!("{}>{node}: {edge} `{text}`", message.client)
}

/// A rule that has hit its first message.
pub(super) struct MessageRule {
    armed: Armed,
    target: String,
    client: Option<String>,
    action: MessageAction,
    patience: Duration,
    /// Messages after which nothing is left to be done, where it does not last.
    spent: Option<u32>,
}

impl MessageRule {
    pub(super) fn new(
        plan: &FaultPlan,
        number: u32,
        hold: Option<&Hold>,
        world: &World,
    ) -> Result<Self, String> {
        let armed = world.messages.0.borrow().get(&number).cloned();
        let armed = armed.ok_or("there is no tap on the links of this run")?;
        let message = plan.message.as_ref().ok_or("a message rule without one")?;
        let lasts = match message.action {
            MessageAction::Hold | MessageAction::BlackHole => true,
            MessageAction::Drop | MessageAction::Swallow => {
                message.connection == MessageConnection::Keep
            }
            _ => false,
        };
        let ends = plan.length.is_some() || plan.until.is_some();
        let count = message::hits(message, plan.length, plan.until.as_ref());
        Ok(Self {
            armed,
            target: plan.target.to_string(),
            client: hold.map(|h| h.client.clone()),
            action: message.action,
            patience: plan.latency.unwrap_or_default() + DONE,
            spent: count.filter(|_| !lasts && !ends),
        })
    }
}

#[async_trait(?Send)]
impl Fault for MessageRule {
    fn target(&self) -> String {
        self.target.clone()
    }

    fn client(&self) -> Option<&str> {
        self.client.as_deref()
    }

    async fn inject(&mut self, _world: &World) -> Result<(), String> {
        Ok(())
    }

    async fn bit(&mut self, _world: &World) -> Proof {
        if self.action == MessageAction::Hold {
            let held = self.armed.held.borrow().len();
            let first = self.armed.first.borrow().clone();
            return if held > 0 {
                Ok(format!("on the wire, {first} waits"))
            } else {
                Err(format!("{first} did not wait"))
            };
        }
        let done = tokio::time::timeout(self.patience, self.armed.hits.done(1)).await;
        match done {
            Err(_) => Err(format!("nothing became of {}", self.armed.first.borrow())),
            Ok(how) if how.ends_with(tap::LET_PASS) => Err(format!("on the wire, {how}")),
            Ok(how) => Ok(format!("on the wire, {how}")),
        }
    }

    async fn spent(&mut self) {
        match self.spent {
            Some(count) => {
                self.armed.hits.done(count).await;
            }
            None => std::future::pending().await,
        }
    }

    async fn heal(&mut self, _world: &World) -> Result<(), String> {
        self.armed.hits.remove();
        self.armed.held.borrow_mut().clear();
        Ok(())
    }

    async fn healed(&mut self, _world: &World) -> Proof {
        let hit = self.armed.hits.hit.get();
        if self.action == MessageAction::Hold {
            let done = tokio::time::timeout(DONE, self.armed.hits.done(hit)).await;
            return done
                .map(|_| format!("{hit} of {hit} went on"))
                .map_err(|_| "a message that was held did not go on".to_owned());
        }
        Ok(format!("the rule is gone; it hit {hit}"))
    }
}
