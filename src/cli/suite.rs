//! `fencepost suite`: whole folders of workloads on real servers.
//!
//! Owns the flags, which runs are made, and what is told. How runs share servers is `campaign`'s, what the tables hold
//! `report`'s.
use super::ending::{Made, end, into_folder, written};
use super::exit::{Exit, UnknownIs};
use super::stopped::{self, on_runtime};
use super::{say, start::start};
use crate::campaign::folder::{self, FolderError, Found};
use crate::campaign::{self, Flow, Job, Setting, Shard, Stop, series};
use crate::own::Own;
use crate::plan::{self, Overrides, Plan};
use crate::report::progress::{Mode, Progress};
use crate::report::suite::{self, NotRun, Run, Suite};
use crate::report::tables::plural;
use crate::report::{self, Summary};
use crate::run::{results, streams};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

/// Arguments of `suite`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fencepost suite
  fencepost suite workloads/matrix --repeat 10 --seed 1
  fencepost suite workloads --shard 2/4 --results results/shard-2    one part of four; `merge` puts them together
  fencepost suite my/workloads --dry-run
  fencepost suite workloads/plain-del.toml workloads/lua-plain.toml --fail-fast --json

A Kubernetes Indexed Job needs no --shard: JOB_COMPLETION_INDEX, which Kubernetes sets, and JOB_COMPLETION_COUNT, which
the manifest sets, say which part it is.")]
pub struct Args {
    /// Folders (read with all folders in them) and files.
    #[arg(default_value = "workloads")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) place: Where,
    /// Seed of the first repetition of each workload; drawn and printed if not given.
    #[arg(long, env = "FENCEPOST_SEED")]
    seed: Option<u64>,
    /// Make each workload this many times, with seeds `seed`, `seed`+1, …
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    repeat: u64,
    /// Only part I of N of the runs; the parts are of about equal length.
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// End after the first run that does not come out as expected.
    #[arg(long)]
    fail_fast: bool,
    /// Only say what would be run, and how long it would take.
    #[arg(long)]
    dry_run: bool,
    /// Override a key of every file, such as `load.for=5s`; may be given more than once.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Print the suite (with --dry-run: what it would be) as JSON on stdout instead of the table.
    #[arg(long)]
    json: bool,
    /// For a GitHub Actions job: print annotations, append summary.md to the job's summary, set `junit` and `page`.
    #[arg(long, conflicts_with = "json")]
    github: bool,
    /// What `unknown` counts as.
    #[arg(long, value_enum, default_value_t = UnknownIs::Fail)]
    unknown: UnknownIs,
}

/// Where servers run, and where results go.
#[derive(Debug, clap::Args)]
pub struct Where {
    /// Where servers run: in Docker, as child processes, or in Docker where an engine answers, else as processes.
    #[arg(long, default_value = "auto", env = "FENCEPOST_BACKEND", value_parser = ["auto", "docker", "local"])]
    pub(super) backend: String,
    /// Folder for results.
    #[arg(long, value_name = "FOLDER", default_value = "results")]
    pub(super) results: PathBuf,
}

pub fn main(args: &Args) -> Exit {
    let over = Overrides {
        set: args.set.clone(),
        seed: args.seed,
        drawn_seed: Some(super::run::draw_seed()),
        variant: None,
    };
    let found = match folder::load(&args.paths, &over) {
        Ok(found) => found,
        Err(error) => return no_workloads(&error),
    };
    let shard = match args.shard.map_or_else(from_environment, Ok) {
        Ok(shard) => shard,
        Err(why) => {
            say::word(&format!("error: {why}"));
            say::word("hint: or give --shard I/N");
            return Exit::Usage;
        }
    };
    let jobs = jobs(args, &found, shard);
    if args.dry_run {
        return dry(args, &jobs, shard);
    }
    if let Err(source) = results::ready(&args.place.results) {
        return stopped::no_results(&args.place.results, source);
    }
    let first = found.first().map(|f| f.plan.seed);
    on_runtime(run(args, &jobs, shard, first))
}

fn from_environment() -> Result<Shard, String> {
    let shard = Shard::from_environment(|name| std::env::var(name).ok())?;
    Ok(shard.unwrap_or(Shard::WHOLE))
}

/// Says what is wrong with the paths or the files.
pub(super) fn no_workloads(error: &FolderError) -> Exit {
    let (what, hint) = match error {
        FolderError::Plans(errors) => {
            errors.iter().for_each(say::plan_error);
            return Exit::Usage;
        }
        FolderError::Io(path, error) => (
            format!("{}: {error}", path.display()),
            "name folders or files of workloads",
        ),
        FolderError::NoFile(path) => (
            format!("{}: no file", path.display()),
            "a pipe, a socket or a device is no workload",
        ),
        FolderError::Twice(_, one, other) if one == other => (
            format!("{}: named twice", one.display()),
            "name each file, or the folder that holds it, once; --repeat makes more runs of it",
        ),
        FolderError::Twice(name, one, other) => (
            format!(
                "{} and {}: both are the workload {name}, so their results would be one",
                one.display(),
                other.display()
            ),
            "rename one of the files, or give it `name = \"…\"` at its head",
        ),
        FolderError::Empty(path) => (
            format!("{}: no workload in it", path.display()),
            "a workload is a file that ends in .toml",
        ),
        FolderError::TooMany(path) => (
            format!(
                "{}: too many files or folders for workloads",
                path.display()
            ),
            "name the folder that holds them",
        ),
    };
    say::word(&format!("error: {}", report::sanitise::visible(&what)));
    say::word(&format!("hint: {hint}"));
    Exit::Usage
}

/// This shard's runs: each plan as often as asked for, with seeds that count up.
fn jobs(args: &Args, found: &[Found], shard: Shard) -> Vec<Job> {
    let all = found.iter().flat_map(|f| {
        (0..args.repeat).map(|n| Job {
            file: f.file.clone(),
            plan: Plan {
                seed: streams::repetition(f.plan.seed, n),
                ..f.plan.clone()
            },
        })
    });
    let all: Vec<Job> = all.collect();
    let costs: Vec<Duration> = all
        .iter()
        .map(|j| plan::expected_duration(&j.plan))
        .collect();
    let mine = shard.of_costs(&costs);
    mine.into_iter().map(|i| all[i].clone()).collect()
}

/// How much there is to do, first of all.
fn size(args: &Args, jobs: &[Job], shard: Shard) -> String {
    let paths = match &args.paths[..] {
        few if few.len() <= 3 => {
            let shown = few.iter().map(|p| p.display().to_string());
            shown.collect::<Vec<_>>().join(", ")
        }
        many => format!("{} and {} more", many[0].display(), many.len() - 1),
    };
    let part = if shard.of() > 1 {
        format!(", shard {shard}")
    } else {
        String::new()
    };
    let seed = jobs.first().map_or(0, |j| j.plan.seed);
    format!(
        "{}{part}: {} on {}, about {}, seed {seed}",
        paths,
        plural(jobs.len() as u64, "run"),
        places(campaign::series::places(jobs)),
        minutes(campaign::expected_duration(jobs)),
    )
}

fn places(n: usize) -> String {
    match n {
        1 => "one set of servers".to_owned(),
        n => format!("{n} sets of servers"),
    }
}

/// `48 s`, `3 min 20 s`, `1 h 5 min`.
pub(super) fn minutes(d: Duration) -> String {
    let s = d.as_secs_f64().ceil() as u64;
    match s {
        0..60 => format!("{s} s"),
        60..3600 => format!("{} min {} s", s / 60, s % 60),
        _ => format!("{} h {} min", s / 3600, s % 3600 / 60),
    }
}

fn dry(args: &Args, jobs: &[Job], shard: Shard) -> Exit {
    if args.json {
        let row = |job: &Job| {
            serde_json::json!({
                "workload": campaign::name_of(&job.plan),
                "file": job.file,
                "seed": job.plan.seed,
                "seconds": plan::expected_duration(&job.plan).as_secs_f64(),
            })
        };
        let all = serde_json::json!({
            "runs": jobs.iter().map(row).collect::<Vec<_>>(),
            "seconds": campaign::expected_duration(jobs).as_secs_f64(),
        });
        match report::json::escaped(&all) {
            Ok(text) => say::data(&text),
            Err(error) => say::error(&error, None),
        }
        say::word(&size(args, jobs, shard));
        return Exit::Ok;
    }
    for job in jobs {
        let took = plan::expected_duration(&job.plan).as_secs_f64();
        let line = format!(
            "{} seed {} {took:.0} s",
            campaign::name_of(&job.plan),
            job.plan.seed
        );
        say::data(&report::sanitise::visible(&line));
    }
    say::word(&size(args, jobs, shard));
    Exit::Ok
}

async fn run(args: &Args, jobs: &[Job], shard: Shard, first: Option<u64>) -> Exit {
    let (mut signals, backend, why) = match start(&args.place.backend).await {
        Ok(started) => started,
        Err(exit) => return exit,
    };
    say::word(&format!("{}; {why}", size(args, jobs, shard)));
    let progress = Progress::new(Mode::detect(args.json));
    let mut made = Suites::new(args, jobs, shard, first, &progress);
    let setting = Setting {
        backend,
        results: &args.place.results,
        progress: &progress,
        own: &Own::this(),
    };
    let outcome = series(jobs, &setting, &mut signals, |job, run| made.take(job, run)).await;
    end(outcome, &progress, made)
}

/// What was made so far.
struct Suites<'a> {
    suite: Suite,
    summaries: Vec<Summary>,
    exit: Exit,
    /// Not made yet.
    left: Vec<Job>,
    args: &'a Args,
    progress: &'a Progress,
}

impl<'a> Suites<'a> {
    fn new(
        args: &'a Args,
        jobs: &[Job],
        shard: Shard,
        first: Option<u64>,
        progress: &'a Progress,
    ) -> Self {
        Self {
            suite: Suite {
                fencepost: 1,
                // The same in every shard, also where other repetitions fall to it.
                seed: first,
                shards: vec![shard.number()],
                of: shard.of(),
                planned: jobs.len() as u64,
                ..Suite::default()
            },
            summaries: Vec::new(),
            exit: Exit::Ok,
            left: jobs.to_vec(),
            args,
            progress,
        }
    }

    fn take(&mut self, job: &Job, made: Result<Summary, Rc<Stop<Exit>>>) -> Flow {
        let this = |j: &Job| {
            j.plan.seed == job.plan.seed && j.file == job.file && j.plan.variant == job.plan.variant
        };
        if let Some(at) = self.left.iter().position(this) {
            self.left.remove(at);
        }
        let (line, exit) = match made {
            Ok(summary) => {
                let line = report::tables::one_line(&summary);
                let exit = Exit::of(summary.verdict.outcome, self.args.unknown);
                self.suite
                    .runs
                    .push(Run::of(&summary, Some(job.file.clone())));
                self.summaries.push(campaign::slim(summary));
                (line, exit)
            }
            Err(stop) => {
                let not_run = NotRun {
                    workload: campaign::name_of(&job.plan),
                    seed: job.plan.seed,
                    why: stop.why(),
                };
                let line = format!(
                    "{}, seed {}: not run: {}",
                    not_run.workload, not_run.seed, not_run.why
                );
                self.suite.not_run.push(not_run);
                (line, stopped::code_of(&stop))
            }
        };
        self.exit = self.exit.worst(exit);
        let done = self.suite.runs.len() + self.suite.not_run.len();
        let left = if self.left.is_empty() {
            String::new()
        } else {
            format!(
                ", about {} left",
                minutes(campaign::expected_duration(&self.left))
            )
        };
        self.progress
            .line(&format!("[{done}/{}{left}] {line}", self.suite.planned));
        if self.args.fail_fast && exit != Exit::Ok {
            self.suite.cut =
                Some("the first run that was not as expected, and --fail-fast".to_owned());
            return Flow::Enough;
        }
        Flow::Next
    }
}

impl Made for Suites<'_> {
    fn cut(&mut self, why: String) {
        self.suite.cut = Some(why);
    }

    fn finish(self) -> Exit {
        let name = self.suite.seed.map_or_else(String::new, |s| s.to_string());
        let shard = match self.suite.of {
            1 => String::new(),
            of => format!("-shard-{}-of-{of}", self.suite.shards[0]),
        };
        let args = self.args;
        let exit = into_folder(&args.place.results, &format!("{name}{shard}"), |dir| {
            let written = write(&self.suite, &self.summaries, dir);
            let told = if args.github {
                job_files(dir)
            } else {
                Exit::Ok
            };
            written.worst(told)
        });
        tell(&self.suite, args.json);
        if args.github {
            say::data(&report::github::annotations(&self.suite));
        }
        self.exit.worst(exit)
    }
}

/// Writes the files of a campaign's folder, and says where they are.
pub(super) fn write(all: &Suite, summaries: &[Summary], dir: &Path) -> Exit {
    written(dir, suite::render(all, summaries, dir))
}

/// Adds to the files that GitHub names in the environment; those that it does not name are not there.
fn job_files(dir: &Path) -> Exit {
    let add = |name: &str, text: &str| -> std::io::Result<()> {
        let Some(file) = std::env::var_os(name).filter(|f| !f.is_empty()) else {
            return Ok(());
        };
        let mut file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(file)?;
        std::io::Write::write_all(&mut file, text.as_bytes())
    };
    let at = |name: &str| {
        dir.join(name)
            .display()
            .to_string()
            .replace(['\n', '\r'], "")
    };
    let outputs = format!("junit={}\npage={}\n", at("junit.xml"), at("index.html"));
    let added = std::fs::read_to_string(dir.join("summary.md"))
        .and_then(|summary| add("GITHUB_STEP_SUMMARY", &summary))
        .and_then(|()| add("GITHUB_OUTPUT", &outputs));
    match added {
        Ok(()) => Exit::Ok,
        Err(error) => {
            say::word(&format!(
                "error: a file of the job cannot be written: {error}"
            ));
            say::word(
                "hint: GITHUB_STEP_SUMMARY and GITHUB_OUTPUT must name files that may be written",
            );
            Exit::Missing
        }
    }
}

/// The table, or the JSON.
pub(super) fn tell(all: &Suite, json: bool) {
    if !json {
        return say::data(&suite::terminal(all, say::style()));
    }
    match report::json::escaped(all) {
        Ok(text) => say::data(&text),
        Err(error) => say::error(&error, None),
    }
}

#[cfg(test)]
mod tests {
    use super::minutes;
    use std::time::Duration;

    #[test]
    fn times_are_told_in_words() {
        let told = |s| minutes(Duration::from_millis(s));
        assert_eq!(told(48_000), "48 s");
        assert_eq!(told(59_999), "1 min 0 s");
        assert_eq!(told(200_000), "3 min 20 s");
        assert_eq!(told(3_900_000), "1 h 5 min");
    }
}
