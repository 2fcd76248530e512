//! `fencepost compare`: several locks or topologies under the same seeds and faults.
//!
//! Owns the flags, which systems there are, and how many episodes. Who runs when is `campaign`'s, what the tables hold
//! `report`'s.
use super::ending::{Made, end, into_folder, written};
use super::exit::Exit;
use super::stopped::{self, on_runtime};
use super::suite::{Where, minutes};
use super::{say, start::start};
use crate::campaign::compare::{System, compare, episodes_within};
use crate::campaign::{self, Setting, Stop};
use crate::own::Own;
use crate::plan::{self, Overrides, Plan, duration};
use crate::report::compare::{self, Comparison, Exposure};
use crate::report::progress::{Mode, Progress};
use crate::report::suite::NotRun;
use crate::report::tables::plural;
use crate::report::{self, Summary};
use crate::run::{results, streams};
use fencepost_checker::Outcome;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

/// Arguments of `compare`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fencepost compare workloads/single-vs-redlock.toml                              the variants of one file
  fencepost compare a.toml b.toml --episodes 40 --seed 1
  fencepost compare workloads/lua-pause-overrun.toml --fencing none,write,first-access
  fencepost compare my.toml --lock set-nx-lua,redlock --topology single,independent:5
  fencepost compare workloads/single-vs-redlock.toml --budget 30m --aa --markdown > table.md")]
pub struct Args {
    /// Workload files; each variant of each is a system. The first is the one that the others are held against.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    place: Where,
    /// Seed of the first episode; drawn and printed if not given.
    #[arg(long, env = "FENCEPOST_SEED")]
    seed: Option<u64>,
    /// Episodes of each system, with seeds `seed`, `seed`+1, …
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    episodes: u64,
    /// As many episodes as fit in this time by estimate, such as `30m`; their number is fixed before the first.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, conflicts_with = "episodes")]
    budget: Option<Duration>,
    /// Where a workload has faults on each-node: the same rate for each node, one node's share for each cluster, or first
    /// the one and then the other, as two tables.
    #[arg(long, value_enum, default_value_t = Dealt::PerNode)]
    exposure: Dealt,
    /// Add the first system once more, to see what chance alone does.
    #[arg(long)]
    aa: bool,
    /// Print as Markdown instead of for a terminal.
    #[arg(long, conflicts_with_all = ["csv", "json"])]
    markdown: bool,
    /// Print every figure on a line of its own, as CSV.
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print everything as JSON.
    #[arg(long)]
    json: bool,
    /// Override a key of every file, such as `load.for=5s`; may be given more than once.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    axes: Axes,
}

/// How faults on each node are dealt out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Dealt {
    /// Each node at the same rate.
    PerNode,
    /// Each cluster as many as one node.
    PerCluster,
    /// Both, one after the other.
    Both,
}

/// One workload as several systems: every combination that makes sense.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Axes over one workload")]
struct Axes {
    /// Built-in locks.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    lock: Vec<String>,
    /// Topologies, with a number of nodes behind a colon where there is one: single,independent:5
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    topology: Vec<String>,
    /// How the resource checks tokens: none, write, first-access; all but none give tokens with each grant.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    fencing: Vec<String>,
}

/// One combination: what it is called, and what it sets.
type Point = (Vec<String>, Vec<String>);

impl Axes {
    fn points(&self) -> Vec<Point> {
        let lock = |l: &String| (l.clone(), vec![format!("lock.name={}", text(l))]);
        let topology = |t: &String| {
            let (name, nodes) = t
                .split_once(':')
                .map_or((t.as_str(), None), |(a, b)| (a, Some(b)));
            let nodes = nodes.map(|n| format!("cluster.nodes={n}"));
            let mut sets = vec![format!("cluster.topology={}", text(name))];
            sets.extend(nodes);
            (t.clone(), sets)
        };
        let fencing = |f: &String| {
            let sets = vec![
                format!("resource.fence={}", text(f)),
                format!("lock.fencing={}", f != "none"),
            ];
            (format!("fence {f}"), sets)
        };
        let axes = [
            self.lock.iter().map(lock).collect::<Vec<_>>(),
            self.topology.iter().map(topology).collect(),
            self.fencing.iter().map(fencing).collect(),
        ];
        let mut points: Vec<Point> = vec![(Vec::new(), Vec::new())];
        for axis in axes.iter().filter(|a| !a.is_empty()) {
            points = points
                .iter()
                .flat_map(|(names, sets)| {
                    axis.iter().map(move |(name, more)| {
                        let name = [names.as_slice(), std::slice::from_ref(name)].concat();
                        (name, [sets.as_slice(), more.as_slice()].concat())
                    })
                })
                .collect();
        }
        points
    }
}

/// A text as TOML writes it.
fn text(value: &str) -> toml::Value {
    toml::Value::String(value.to_owned())
}

pub fn main(args: &Args) -> Exit {
    let systems = match systems(args) {
        Ok(systems) => systems,
        Err(exit) => return exit,
    };
    if let Err(source) = results::ready(&args.place.results) {
        return stopped::no_results(&args.place.results, source);
    }
    let notes = notes(&systems);
    let exposures: &[Exposure] = match args.exposure {
        _ if !systems.iter().any(|s| plan::each::on_each_node(&s.plan)) => &[Exposure::AsStated],
        Dealt::PerNode => &[Exposure::PerNode],
        Dealt::PerCluster => &[Exposure::PerCluster],
        Dealt::Both => &[Exposure::PerNode, Exposure::PerCluster],
    };
    let mut exit = Exit::Ok;
    for &exposure in exposures {
        let dealt: Vec<System> = systems
            .iter()
            .map(|s| System {
                label: s.label.clone(),
                plan: match exposure {
                    Exposure::AsStated | Exposure::PerNode => s.plan.clone(),
                    Exposure::PerCluster => plan::each::one_per_cluster(s.plan.clone()),
                },
            })
            .collect();
        exit = exit.worst(on_runtime(run(args, &dealt, exposure, &notes)));
        if matches!(exit, Exit::Interrupted | Exit::Terminated) {
            break;
        }
    }
    exit
}

/// Every system, each with a name of its own.
fn systems(args: &Args) -> Result<Vec<System>, Exit> {
    let drawn = super::run::draw_seed();
    let points = args.axes.points();
    let (mut systems, mut left_out): (Vec<System>, _) = (Vec::new(), None);
    for file in &args.files {
        for (names, sets) in &points {
            let over = Overrides {
                set: args.set.iter().chain(sets).cloned().collect(),
                seed: args.seed,
                drawn_seed: Some(drawn),
                variant: None,
            };
            match plan::load(file, &over) {
                Ok(plans) => {
                    let short = args.files.len() == 1 && plans.len() > 1;
                    systems.extend(plans.into_iter().map(|plan| system(plan, names, short)));
                }
                // A lock that needs a quorum on one server: a combination that makes no sense.
                Err(error) if points.len() > 1 => {
                    say::word(&format!("left out: {}: {error}", names.join(" · ")));
                    left_out = Some(error);
                }
                Err(error) => {
                    say::plan_error(&error);
                    return Err(Exit::Usage);
                }
            }
        }
    }
    if args.aa
        && let Some(first) = systems.first()
    {
        let twin = System {
            label: first.label.clone(),
            plan: first.plan.clone(),
        };
        systems.insert(1, twin);
    }
    if systems.len() < 2 {
        if let Some(error) = &left_out {
            say::plan_error(error);
        } else {
            say::word("error: one system is no comparison");
            say::word(
                "hint: name two files, a file with variants, an axis such as --fencing none,write, or --aa",
            );
        }
        return Err(Exit::Usage);
    }
    name_apart(&mut systems);
    Ok(systems)
}

/// A label of its own for each system; one that is the same as one before it is A/A.
fn name_apart(systems: &mut [System]) {
    let mut labels: Vec<String> = Vec::new();
    for n in 0..systems.len() {
        if is_twin(systems, n) {
            systems[n].label.push_str(" (A/A)");
        }
        let label = systems[n].label.clone();
        let again = labels.iter().filter(|l| **l == label).count();
        if again > 0 {
            systems[n].label = format!("{label} ({})", again + 1);
        }
        labels.push(label);
    }
}

/// Whether a system is one before it once more, by whatever name: an axis with one value twice, a file named twice.
fn is_twin(systems: &[System], n: usize) -> bool {
    // What it is called, and what is expected of it, make no other system; the seeds are the same for all.
    let same = |a: &Plan, b: &Plan| {
        let named = Plan {
            name: b.name.clone(),
            variant: b.variant.clone(),
            about: b.about.clone(),
            expect: b.expect.clone(),
            seed: b.seed,
            ..a.clone()
        };
        named == *b
    };
    systems[..n]
        .iter()
        .any(|before| same(&before.plan, &systems[n].plan))
}

/// A plan under the name of its combination, so that its results have a folder of their own. Where all are variants of
/// one file, the variant's name is enough.
fn system(plan: Plan, names: &[String], short: bool) -> System {
    if names.is_empty() {
        let whole = campaign::name_of(&plan);
        let label = plan.variant.clone().filter(|_| short).unwrap_or(whole);
        return System { label, plan };
    }
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let slug: String = names.join("-").chars().map(plain).collect();
    let variant = plan
        .variant
        .iter()
        .cloned()
        .chain([slug])
        .collect::<Vec<_>>()
        .join("-");
    let label = plan
        .variant
        .iter()
        .chain(names)
        .cloned()
        .collect::<Vec<_>>()
        .join(" · ");
    System {
        label,
        plan: Plan {
            variant: Some(variant),
            ..plan
        },
    }
}

/// How many episodes, and by which rule.
fn rule(args: &Args, systems: &[System]) -> (u64, String) {
    match args.budget {
        None => (
            args.episodes,
            format!("{} of each system, fixed beforehand", args.episodes),
        ),
        Some(budget) => {
            let n = episodes_within(budget, systems);
            let rule = format!(
                "{n} of each system, as many as fit in {} by estimate, one at least, fixed beforehand",
                duration::text(budget)
            );
            (n, rule)
        }
    }
}

async fn run(args: &Args, systems: &[System], exposure: Exposure, notes: &[String]) -> Exit {
    let (episodes, rule) = rule(args, systems);
    let seed = systems[0].plan.seed;
    if seed.checked_add(episodes - 1).is_none() {
        let last = u64::MAX - (episodes - 1);
        say::word(&format!(
            "error: {} from seed {seed} on would need seeds past the largest, {}",
            plural(episodes, "episode"),
            u64::MAX
        ));
        say::word(&format!("hint: --seed {last} or less, or fewer episodes"));
        return Exit::Usage;
    }
    let (mut signals, backend, why) = match start(&args.place.backend).await {
        Ok(started) => started,
        Err(exit) => return exit,
    };
    let round: Duration = systems
        .iter()
        .map(|s| campaign::run_duration(&s.plan))
        .sum();
    say::word(&format!(
        "{}, {}, about {} and the set-up, seed {seed}; {why}",
        plural(systems.len() as u64, "system"),
        plural(episodes, "episode"),
        minutes(round * u32::try_from(episodes).unwrap_or(u32::MAX)),
    ));
    let progress = Progress::new(Mode::detect(args.json || args.csv || args.markdown));
    let setting = Setting {
        backend,
        results: &args.place.results,
        progress: &progress,
        own: &Own::this(),
    };
    let seeds: Vec<u64> = (0..episodes)
        .map(|n| streams::repetition(seed, n))
        .collect();
    let mut made = Compared::new(args, systems, episodes, rule, &progress);
    made.comparison.exposure = exposure;
    made.comparison.notes = notes.to_vec();
    let outcome = compare(
        systems,
        &seeds,
        &setting,
        &mut signals,
        |system, seed, run| {
            made.take(system, seed, run);
        },
    )
    .await;
    end(outcome, &progress, made)
}

/// What was made so far.
struct Compared<'a> {
    comparison: Comparison,
    exit: Exit,
    args: &'a Args,
    progress: &'a Progress,
}

impl<'a> Compared<'a> {
    fn new(
        args: &'a Args,
        systems: &[System],
        planned: u64,
        rule: String,
        progress: &'a Progress,
    ) -> Self {
        let of = |(n, s): (usize, &System)| compare::System {
            label: s.label.clone(),
            twin: is_twin(systems, n),
            ..compare::System::default()
        };
        let names: Vec<&str> = systems.iter().map(|s| s.label.as_str()).collect();
        Self {
            comparison: Comparison {
                fencepost: compare::VERSION,
                name: format!("{}: {}", systems[0].plan.name, names.join(", ")),
                seed: systems[0].plan.seed,
                planned,
                rule,
                systems: systems.iter().enumerate().map(of).collect(),
                ..Comparison::default()
            },
            exit: Exit::Ok,
            args,
            progress,
        }
    }

    fn take(&mut self, system: usize, seed: u64, made: Result<Summary, Rc<Stop<Exit>>>) {
        let all: u64 = self.comparison.planned * self.comparison.systems.len() as u64;
        let into = &mut self.comparison.systems[system];
        let line = match made {
            Ok(summary) => {
                // What its workload states is no matter here, and an axis changes it; unknown is unknown.
                let found = report::tables::found_line(&summary);
                let mut line = format!("{}, seed {seed}: {found}", into.label);
                if summary.verdict.outcome == Outcome::Unknown {
                    line = format!("{line}; unknown: {}", summary.verdict.reasons.join("; "));
                }
                if let Err(error) = into.take(&summary) {
                    say::error(&error, None);
                    self.exit = self.exit.worst(Exit::Missing);
                }
                line
            }
            Err(stop) => {
                self.exit = self.exit.worst(stopped::code_of(&stop));
                let why = stop.why();
                let line = format!("{}, seed {seed}: not run: {why}", into.label);
                into.not_run.push(NotRun {
                    workload: into.label.clone(),
                    seed,
                    why,
                });
                line
            }
        };
        let systems = self.comparison.systems.iter();
        let done: usize = systems.map(|s| s.episodes.len() + s.not_run.len()).sum();
        self.progress.line(&format!("[{done}/{all}] {line}"));
    }
}

impl Made for Compared<'_> {
    fn cut(&mut self, why: String) {
        self.comparison.cut = Some(why);
    }

    /// A comparison measures and does not judge: it is 0 unless something could not be had.
    fn finish(self) -> Exit {
        let (c, args) = (&self.comparison, self.args);
        let name = format!("compare-{}", c.seed);
        let files = into_folder(&args.place.results, &name, |dir| {
            written(dir, compare::render(c, dir))
        });
        if args.json {
            match report::json::escaped(c) {
                Ok(text) => say::data(&text),
                Err(error) => say::error(&error, None),
            }
        } else if args.csv {
            say::data(&compare::csv(c));
        } else if args.markdown {
            say::data(&compare::markdown(c));
        } else {
            say::data(&compare::terminal(c, say::style()));
        }
        self.exit.worst(files)
    }
}

/// In what the systems differ beside their lock, servers and resource: then it is workloads that are compared.
fn notes(systems: &[System]) -> Vec<String> {
    let first = &systems[0].plan;
    let mut notes = Vec::new();
    let different = |what: &str, differs: &dyn Fn(&Plan) -> bool| {
        let who = systems.iter().filter(|s| differs(&s.plan));
        let who: Vec<&str> = who.map(|s| s.label.as_str()).collect();
        (!who.is_empty()).then(|| {
            format!(
                "Not the same {what} as {}: {}.",
                systems[0].label,
                who.join(", ")
            )
        })
    };
    let faults = plan::each::of_one_node;
    notes.extend(different("faults", &|p| faults(p) != faults(first)));
    notes.extend(different("load", &|p| p.load != first.load));
    notes.extend(different("lease", &|p| p.lock.ttl != first.lock.ttl));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_once_more_is_called_so() {
        let text = "lock = { name = \"set-nx-lua\", ttl = \"500ms\" }\n";
        let plan = plan::parse("w.toml", "w", text, &Overrides::default());
        let plan = plan.expect("a plan").remove(0);
        let named = |label: &str, variant: &str, ttl: u64| {
            let mut plan = plan.clone();
            plan.variant = Some(variant.to_owned());
            plan.lock.ttl = Duration::from_millis(ttl);
            System {
                label: label.to_owned(),
                plan,
            }
        };
        let mut systems = [
            named("a", "a", 500),
            named("b", "b", 400),
            named("a", "a", 500),
            named("b, too", "c", 400),
            named("a", "a", 500),
            named("b", "d", 300),
        ];
        name_apart(&mut systems);
        let labels: Vec<&str> = systems.iter().map(|s| s.label.as_str()).collect();
        let want = ["a", "b", "a (A/A)", "b, too (A/A)", "a (A/A) (2)", "b (2)"];
        assert_eq!(labels, want);
        let twins: Vec<bool> = (0..6).map(|n| is_twin(&systems, n)).collect();
        assert_eq!(twins, [false, false, true, true, true, false]);
    }

    #[test]
    fn axes_multiply() {
        let words = |w: &[&str]| w.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        let axes = Axes {
            lock: words(&["set-nx-lua", "redlock"]),
            topology: words(&["single", "independent:5"]),
            fencing: Vec::new(),
        };
        let points = axes.points();
        let names: Vec<String> = points.iter().map(|(n, _)| n.join(" ")).collect();
        assert_eq!(
            names,
            [
                "set-nx-lua single",
                "set-nx-lua independent:5",
                "redlock single",
                "redlock independent:5"
            ]
        );
        assert_eq!(
            points[3].1,
            [
                "lock.name=\"redlock\"",
                "cluster.topology=\"independent\"",
                "cluster.nodes=5"
            ]
        );
        let none = Axes {
            lock: Vec::new(),
            topology: Vec::new(),
            fencing: Vec::new(),
        };
        assert_eq!(none.points(), [(Vec::new(), Vec::new())]);
    }
}
