//! `fencepost scorecard`: fifteen named checks on a lock library, each with its evidence and the command that replays it.
//!
//! Owns the flags, which libraries get a card, and what is told. Which runs that takes is `campaign`'s, what they show
//! `report`'s.
use super::exit::Exit;
use super::say;
use super::start::start;
use super::stopped::{self, code_of, on_runtime, stopped};
use super::suite::{Where, minutes};
use crate::campaign::{self, Flow, Job, Setting, Stop, scorecard, series};
use crate::own::Own;
use crate::plan::{Overrides, PlanError};
use crate::report::Summary;
use crate::report::progress::{Mode, Progress};
use crate::report::sanitise::visible;
use crate::report::scorecard::{About, Card, Grade, Run, Subject, about, page, terminal};
use crate::report::tables;
use crate::run::{RunError, results};
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Most libraries that are tried side by side unless more are asked for: more of them would wait for each other on few
/// processors, and what waits cannot be judged.
const LANES_MAX: usize = 3;

/// Arguments of `scorecard`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fencepost scorecard -- python3 my_adapter.py
  fencepost scorecard --several -- node my_redlock.js
  fencepost scorecard --library redsync --library redlock
  fencepost scorecard --markdown > docs/libraries.md    every library that is set up

Exit codes: 0 nothing is broken; 1 something is; 2 nothing is, but something could not be judged.")]
pub struct Args {
    /// A library of adapters/libraries.toml; may be given more than once. Without it and without CMD: all that are set up.
    #[arg(long = "library", value_name = "NAME")]
    libraries: Vec<String>,
    /// CMD takes several servers: it is also asked what becomes of it when one of three is lost.
    #[arg(long)]
    several: bool,
    /// Only this schedule of workloads/scorecard/; may be given more than once.
    #[arg(long = "schedule", value_name = "NAME", value_parser = schedules())]
    schedules: Vec<String>,
    /// Seed of the first try of each schedule.
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// Override a key of every schedule, such as `lock.options.retries=0`; may be given more than once.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Print the page of all cards as Markdown: of a finding that no public report is known for, without the recipe.
    #[arg(long)]
    markdown: bool,
    /// How many libraries are tried side by side, each on servers of its own [default: one more than there are processors,
    /// three at most].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    jobs: Option<u8>,
    #[command(flatten)]
    place: Where,
    /// The adapter and its arguments.
    #[arg(last = true, value_name = "CMD", conflicts_with = "libraries")]
    command: Vec<String>,
}

/// The names of the schedules, for the flag.
fn schedules() -> clap::builder::PossibleValuesParser {
    clap::builder::PossibleValuesParser::new(scorecard::SCHEDULES.iter().map(|s| s.0))
}

pub fn main(args: &Args) -> Exit {
    let subjects = match subjects(args) {
        Ok(subjects) => subjects,
        Err(exit) => return exit,
    };
    let results = args.place.results.join("scorecard");
    if let Err(source) = results::ready(&results) {
        return stopped::no_results(&results, source);
    }
    let outcome = lanes(args, subjects, &results);
    if outcome.halted {
        say::word("interrupted; everything that was started is removed");
    }
    let exit = if outcome.whole {
        tell(args, outcome.cards)
    } else {
        tell_part(args, outcome.cards);
        Exit::Ok
    };
    outcome.exit.worst(exit)
}

/// What came of some of the libraries.
struct Outcome {
    cards: Vec<Card>,
    exit: Exit,
    /// Nothing ended the command before all was done.
    whole: bool,
    /// A signal did.
    halted: bool,
}

impl Outcome {
    /// With the cards that there are. Each lane hears a signal; it is told once.
    fn broken_off(cards: Vec<Card>, stop: &Stop<Exit>) -> Self {
        let (exit, halted) = match stop {
            Stop::Halted(exit) => (*exit, true),
            stop => (stopped(stop), false),
        };
        Self {
            cards,
            halted,
            ..Self::ended(exit)
        }
    }

    /// Without a card.
    fn ended(exit: Exit) -> Self {
        Self {
            cards: Vec::new(),
            exit,
            whole: false,
            halted: false,
        }
    }
}

/// Makes the cards, some libraries side by side: a schedule mostly waits. Each lane has a thread, and on it servers and runs
/// that share nothing with those of the others.
fn lanes(args: &Args, subjects: Vec<Subject>, results: &Path) -> Outcome {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let wanted = args.jobs.map_or(LANES_MAX.min(cores + 1), usize::from);
    let count = wanted.clamp(1, subjects.len().max(1));
    let order: Vec<String> = subjects.iter().map(|s| s.name.clone()).collect();
    let mut shares: Vec<Vec<Subject>> = (0..count).map(|_| Vec::new()).collect();
    for (n, subject) in subjects.into_iter().enumerate() {
        shares[n % count].push(subject);
    }
    let alone = count == 1;
    if !alone {
        match expected(args, &shares) {
            Ok(time) => say::word(&format!(
                "{} libraries, {count} side by side, about {}",
                order.len(),
                minutes(time)
            )),
            Err(error) => {
                say::plan_error(&error);
                return Outcome::ended(Exit::Usage);
            }
        }
    }
    let told = AtomicBool::new(false);
    let lane = |share| {
        let cell = std::cell::RefCell::new(None);
        let exit = on_runtime(async {
            let outcome = cards(args, share, results, alone, &told).await;
            let exit = outcome.exit;
            *cell.borrow_mut() = Some(outcome);
            exit
        });
        cell.into_inner().unwrap_or(Outcome::ended(exit))
    };
    let outcomes: Vec<Outcome> = std::thread::scope(|scope| {
        let lanes: Vec<_> = shares
            .into_iter()
            .map(|share| scope.spawn(move || lane(share)))
            .collect();
        let joined = lanes.into_iter().map(std::thread::ScopedJoinHandle::join);
        joined
            .map(|lane| lane.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let mut all = Outcome {
        whole: true,
        ..Outcome::ended(Exit::Ok)
    };
    for outcome in outcomes {
        all.cards.extend(outcome.cards);
        all.exit = all.exit.worst(outcome.exit);
        all.whole &= outcome.whole;
        all.halted |= outcome.halted;
    }
    let place = |card: &Card| order.iter().position(|name| *name == card.subject.name);
    all.cards.sort_by_key(place);
    all
}

/// Who gets a card.
fn subjects(args: &Args) -> Result<Vec<Subject>, Exit> {
    if !args.command.is_empty() {
        return Ok(vec![Subject {
            name: "own".to_owned(),
            command: args.command.clone(),
            several: args.several,
            known: BTreeMap::new(),
        }]);
    }
    let mut all = scorecard::libraries().map_err(|error| {
        say::error(&error, None);
        Exit::Defect
    })?;
    let names: Vec<String> = all.iter().map(|s| s.name.clone()).collect();
    if let Some(odd) = args.libraries.iter().find(|l| !names.contains(l)) {
        let odd = visible(odd);
        say::word(&format!("error: no library `{odd}`"));
        say::word(&format!("hint: one of {}", names.join(", ")));
        return Err(Exit::Usage);
    }
    all.retain(|s| args.libraries.is_empty() || args.libraries.contains(&s.name));
    Ok(all)
}

/// A run that is to be made, and whose it is.
struct Wanted {
    subject: usize,
    schedule: &'static str,
    job: Job,
}

fn wanted(
    args: &Args,
    cards: &[Card],
    n: u64,
    which: impl Fn(&Card, &'static str) -> bool,
) -> Result<Vec<Wanted>, PlanError> {
    let over = Overrides {
        set: args.set.clone(),
        seed: Some(args.seed + n),
        ..Overrides::default()
    };
    let mut all = Vec::new();
    for (subject, card) in cards.iter().enumerate() {
        for (schedule, text) in scorecard::SCHEDULES {
            let named = args.schedules.is_empty() || args.schedules.iter().any(|s| s == schedule);
            // The first one tells who is there.
            let asked = named || *schedule == scorecard::FIRST;
            if asked && scorecard::fits(&card.subject, schedule) && which(card, schedule) {
                let plan = scorecard::plan(&card.subject, (schedule, text), &over)?;
                let file = format!("workloads/scorecard/{schedule}.toml").into();
                let job = Job { file, plan };
                all.push(Wanted {
                    subject,
                    schedule,
                    job,
                });
            }
        }
    }
    Ok(all)
}

/// How long the longest of the shares takes, about.
fn expected(args: &Args, shares: &[Vec<Subject>]) -> Result<Duration, PlanError> {
    let mut longest = Duration::ZERO;
    for share in shares {
        let cards: Vec<Card> = share.iter().cloned().map(fresh).collect();
        let jobs: Vec<Job> = wanted(args, &cards, 0, |_, _| true)?
            .into_iter()
            .map(|w| w.job)
            .collect();
        longest = longest.max(campaign::expected_duration(&jobs));
    }
    Ok(longest)
}

/// The cards of these libraries, one after the other on the same servers. `alone`: nobody else is told of beside them;
/// `told`: another lane has said already why there are no servers.
async fn cards(
    args: &Args,
    subjects: Vec<Subject>,
    results: &Path,
    alone: bool,
    told: &AtomicBool,
) -> Outcome {
    let (mut signals, backend, why) = match start(&args.place.backend).await {
        Ok(started) => started,
        Err(exit) => return Outcome::ended(exit),
    };
    let mode = if alone {
        Mode::detect(args.markdown)
    } else {
        Mode::Silent
    };
    let progress = Progress::new(mode);
    let own = Own::this();
    let setting = Setting {
        backend,
        results,
        progress: &progress,
        own: &own,
    };
    let mut sheet = Sheet::new(args, subjects, &progress, alone);
    for round in 0..=scorecard::TRIES {
        let runs = match sheet.open(args, round) {
            Ok(runs) => runs,
            Err(error) => {
                say::plan_error(&error);
                return Outcome::ended(Exit::Usage);
            }
        };
        let jobs: Vec<Job> = runs.iter().map(|w| w.job.clone()).collect();
        if jobs.is_empty() {
            continue;
        }
        if alone {
            let time = minutes(campaign::expected_duration(&jobs));
            let count = tables::plural(jobs.len() as u64, "run");
            say::word(&format!("{count}, about {time}; {why}"));
        }
        let outcome = series(&jobs, &setting, &mut signals, |job, made| {
            let of = |w: &&Wanted| w.job.plan.name == job.plan.name;
            if let Some(wanted) = runs.iter().find(of) {
                sheet.take(wanted, made, round);
            }
            Flow::Next
        })
        .await;
        sheet.dismiss();
        // Without servers nothing is tried again, and there is no card.
        if let Some(stop) = sheet.no_servers()
            && outcome.is_ok()
        {
            progress.finish();
            let first = !told.swap(true, Ordering::Relaxed);
            return Outcome::ended(if first {
                stopped(&stop)
            } else {
                code_of(&stop)
            });
        }
        if let Err(stop) = outcome {
            progress.finish();
            sheet.cards.retain(|card| !card.runs.is_empty());
            return Outcome::broken_off(sheet.cards, &stop);
        }
    }
    progress.finish();
    Outcome {
        cards: sheet.cards,
        whole: true,
        ..Outcome::ended(sheet.exit)
    }
}

/// A card with nothing on it.
fn fresh(subject: Subject) -> Card {
    Card {
        subject,
        about: About::default(),
        runs: BTreeMap::new(),
    }
}

/// The cards as they fill.
struct Sheet<'a> {
    cards: Vec<Card>,
    /// Cards of those that did not speak.
    silent: Vec<usize>,
    /// These very libraries were asked for: that one does not speak is a failure.
    asked: bool,
    exit: Exit,
    progress: &'a Progress,
    /// Lanes beside this one: each run is one line, and no more.
    beside: bool,
    /// Why there were no servers for a run.
    serverless: Option<Rc<Stop<Exit>>>,
}

impl<'a> Sheet<'a> {
    fn new(args: &Args, subjects: Vec<Subject>, progress: &'a Progress, alone: bool) -> Self {
        Self {
            cards: subjects.into_iter().map(fresh).collect(),
            silent: Vec::new(),
            asked: !args.libraries.is_empty() || !args.command.is_empty(),
            exit: Exit::Ok,
            progress,
            beside: !alone,
            serverless: None,
        }
    }

    /// The runs of a round. The first, without a fault, shows who is there at all; after the second, what could not be
    /// judged is asked again.
    fn open(&self, args: &Args, round: u64) -> Result<Vec<Wanted>, PlanError> {
        let seed = round.saturating_sub(1);
        wanted(args, &self.cards, seed, |card, schedule| {
            match card.runs.get(schedule) {
                None if round == 0 => schedule == scorecard::FIRST,
                None => round == 1,
                Some(run) => round > 1 && run.is_unknown(),
            }
        })
    }

    fn take(&mut self, w: &Wanted, made: Result<Summary, Rc<Stop<Exit>>>, round: u64) {
        let (name, seed) = (&w.job.plan.name, w.job.plan.seed);
        let run = match made {
            Ok(summary) => Run::of(summary, seed),
            Err(stop) => {
                if round == 0 && matches!(&*stop, Stop::Run(RunError::Client(_))) {
                    self.silent.push(w.subject);
                    if self.asked {
                        self.exit = self.exit.worst(stopped(&stop));
                    }
                }
                if matches!(&*stop, Stop::Cluster(_)) {
                    self.serverless = Some(stop.clone());
                }
                Run::not_made(first_words(&stop.why()), seed)
            }
        };
        let what = match &run.made {
            Ok(verdict) => format!("{:?}", verdict.outcome).to_lowercase(),
            Err(why) => format!("not run: {}", visible(why)),
        };
        let line = format!("{name}, seed {seed}: {what}");
        if self.beside {
            say::word(&line);
        } else {
            self.progress.line(&line);
        }
        self.cards[w.subject].runs.insert(w.schedule, run);
    }

    /// Why there are no servers, where no run could be made for it.
    fn no_servers(&self) -> Option<Rc<Stop<Exit>>> {
        let mut runs = self.cards.iter().flat_map(|c| c.runs.values());
        let stop = self.serverless.clone()?;
        (!runs.any(|run| run.made.is_ok())).then_some(stop)
    }

    /// Who does not speak gets no card.
    fn dismiss(&mut self) {
        self.silent.sort_unstable();
        for subject in self.silent.drain(..).rev() {
            self.cards.remove(subject);
        }
    }
}

/// The page needs no path of this machine: what stands before the first semicolon says it.
fn first_words(why: &str) -> String {
    why.split(';').next().unwrap_or_default().to_owned()
}

/// Tells what there is of the cards when something ended the command. A page that lacks a part is none: there the cards
/// are told beside it.
fn tell_part(args: &Args, mut cards: Vec<Card>) {
    read_about(&mut cards);
    for card in &cards {
        let card = terminal::terminal(card);
        if args.markdown {
            say::word(card.trim_end());
        } else {
            say::data(&card);
        }
    }
}

/// Whose card it is, as the adapter itself said.
fn read_about(cards: &mut [Card]) {
    for card in cards {
        if let Some(run) = card.runs.get(scorecard::FIRST)
            && run.made.is_ok()
        {
            match about(&run.dir) {
                Ok(found) => card.about = found,
                Err(error) => say::error(&error, None),
            }
        }
    }
}

/// Tells all cards; the exit code is the worst of them.
fn tell(args: &Args, mut cards: Vec<Card>) -> Exit {
    read_about(&mut cards);
    if args.markdown {
        say::data(&page::page(&cards));
    } else {
        for card in &cards {
            say::data(&terminal::terminal(card));
        }
    }
    let doubtful = |card: &Card| !matches!(card.worst(), Grade::Ok | Grade::NotAsked);
    if !args.command.is_empty() && cards.iter().any(doubtful) {
        say::word(
            "hint: what the adapter gets wrong counts as the library's here: `fencepost adapter check -- CMD` tells that",
        );
    }
    let exits = cards.iter().map(|card| match card.worst() {
        Grade::Broken => Exit::Failed,
        Grade::Unknown => Exit::Unknown,
        _ => Exit::Ok,
    });
    exits.fold(Exit::Ok, Exit::worst)
}
