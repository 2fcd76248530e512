//! The workload file: from its text, a variant and the flags to one [`Plan`] a variant, all defaults filled in.
//!
//! Owns the file's top level and the rules between its sections. Must not know how anything is run. A variant's keys
//! replace the file's, key by key; its faults come after the file's, and one with the id of a file's fault takes that
//! fault's place; `--set` comes last. `cli` hands the plans to `run`.
use super::error::PlanError;
use super::fault::{self, World, id_of};
use super::kinds::clocks::shims_servers;
use super::read::{Names, Section, keys_of, unknown_keys, unknown_name, wrong_type};
use super::replicated;
use super::sections::{cluster, expect, load_plan, lock, resource};
use super::step;
use super::tree::{self, At, Entry, Node, Table, Texts, Value};
use super::{LoadPlan, LockPlan, Plan};
use std::io::Read;
use std::path::Path;
use std::time::Duration;

/// Largest workload file, in bytes.
const FILE_MAX: u64 = 1 << 20;

/// What flags change.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// `--set path=value`, in order.
    pub set: Vec<String>,
    /// `--seed`.
    pub seed: Option<u64>,
    /// The seed where neither `--seed` nor the file gives one; the command line draws it. None: 1.
    pub drawn_seed: Option<u64>,
    /// `--variant`: only this one.
    pub variant: Option<String>,
}

/// Read a workload file: one plan a variant, or one.
///
/// # Errors
/// Every mistake of the file and of the flags, each at its place.
pub fn load(path: &Path, over: &Overrides) -> Result<Vec<Plan>, PlanError> {
    let shown = path.display().to_string();
    let text = read_text(path, &shown)?;
    let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned());
    parse(&shown, &stem.unwrap_or_default(), &text, over)
}

/// Read a resolved plan (plan.toml of a run): a workload file without variants.
///
/// # Errors
/// As [`load`]; also a file that holds several plans.
pub fn load_resolved(path: &Path) -> Result<Plan, PlanError> {
    let mut plans = load(path, &Overrides::default())?;
    if let (Some(plan), true) = (plans.pop(), plans.is_empty()) {
        return Ok(plan);
    }
    let shown = path.display().to_string();
    let message = "several variants where one plan was expected";
    Err(PlanError::whole(&shown, message, None))
}

fn read_text(path: &Path, shown: &str) -> Result<String, PlanError> {
    let whole = |message: &str, help: Option<&str>| {
        Err(PlanError::whole(shown, message, help.map(str::to_owned)))
    };
    let help = "`fencepost list workloads` names the files that are here";
    if path.is_dir() {
        return whole("a folder, not a workload file", Some("name one file in it"));
    }
    let mut bytes = Vec::new();
    let read =
        std::fs::File::open(path).and_then(|file| file.take(FILE_MAX + 1).read_to_end(&mut bytes));
    match read {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return whole("no such file", Some(help));
        }
        Err(error) => return whole(&format!("cannot be read: {error}"), None),
        Ok(_) if bytes.len() as u64 > FILE_MAX => {
            return whole("too large for a workload file: more than 1 MiB", None);
        }
        Ok(_) => {}
    }
    match String::from_utf8(bytes) {
        Ok(text) if text.trim().is_empty() => {
            let help = "the least is: lock = { name = \"set-nx-lua\" }";
            whole("an empty file", Some(help))
        }
        Ok(text) => Ok(text),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            let (before, rest) = error.as_bytes().split_at(at);
            let byte = rest.first().copied().unwrap_or_default();
            let line = before.split(|b| *b == b'\n').count();
            let why = format!("not text: byte {at} (0x{byte:02x}, line {line}) is not UTF-8");
            whole(&why, Some("a workload is a TOML file in UTF-8"))
        }
    }
}

/// Read a workload from its text; `file` is how errors call it, `stem` the workload's name unless the file says so.
///
/// # Errors
/// As [`load`].
pub fn parse(file: &str, stem: &str, text: &str, over: &Overrides) -> Result<Vec<Plan>, PlanError> {
    let mut texts = Texts::default();
    let number = texts.add(file, text);
    let plans = tree::parse(&mut texts, number)
        .map(|table| resolve(&mut texts, table, stem, &head_comment(text), over))
        .unwrap_or_default();
    if texts.any_problem() {
        let file = texts.file().to_owned();
        let (problems, more) = texts.into_problems();
        return Err(PlanError {
            file,
            problems,
            more,
        });
    }
    Ok(plans)
}

/// The first paragraph of the comment at the head of the file, with the file's own name taken off its front.
fn head_comment(text: &str) -> String {
    let lines: Vec<&str> = text
        .lines()
        .map_while(|l| l.strip_prefix('#'))
        .map(str::trim)
        .take_while(|l| !l.is_empty())
        .collect();
    let all = lines.join(" ");
    match all.split_once(".toml:") {
        Some((name, rest)) if !name.contains(' ') => rest.trim().to_owned(),
        _ => all.trim().to_owned(),
    }
}

fn resolve(
    texts: &mut Texts,
    mut top: Table,
    stem: &str,
    about: &str,
    over: &Overrides,
) -> Vec<Plan> {
    let variants = top.take("variant");
    let sets: Vec<Table> = over
        .set
        .iter()
        .filter_map(|argument| tree::parse_set(texts, argument))
        .collect();
    let mut plans = Vec::new();
    for (variant, table) in choose(texts, variants, over) {
        let mut whole = top.clone();
        if let Some(table) = table {
            lay_over(&mut whole, table);
        }
        for set in &sets {
            set_fault(texts, &mut whole, set.clone());
        }
        plans.extend(one(texts, &whole, variant, stem, about, over));
    }
    plans
}

/// The variants to resolve, by name; a file without any is one nameless variant.
fn choose(
    texts: &mut Texts,
    variants: Option<Entry>,
    over: &Overrides,
) -> Vec<(Option<String>, Option<Table>)> {
    let mut all = Vec::new();
    let mut name_of_plan = None;
    match variants.map(|v| v.node) {
        None => {}
        // A resolved plan says which variant it is.
        Some(Node {
            value: Value::Text(name),
            ..
        }) => name_of_plan = Some(name),
        Some(Node {
            value: Value::Table(table),
            ..
        }) => {
            for entry in table.0 {
                let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
                if !entry.key.chars().all(plain) || entry.key.is_empty() {
                    let label = "expected letters, digits, - and _";
                    texts.problem(
                        &entry.at,
                        format!("`{}` names no variant", entry.key),
                        label,
                        None,
                    );
                }
                match entry.node.value {
                    Value::Table(t) => {
                        let known: Vec<&str> = keys_of("")
                            .iter()
                            .filter(|k| !matches!(**k, "name" | "variant"))
                            .copied()
                            .collect();
                        unknown_keys(texts, "a variant", &t, &known);
                        all.push((Some(entry.key), Some(t)));
                    }
                    _ => wrong_type(texts, "variant", &entry.node, "a table", None),
                }
            }
        }
        Some(node) => wrong_type(texts, "variant", &node, "a table of variants", None),
    }
    if let Some(wanted) = &over.variant
        && name_of_plan.as_ref() != Some(wanted)
    {
        let known: Vec<&str> = all.iter().filter_map(|(n, _)| n.as_deref()).collect();
        if !known.contains(&wanted.as_str()) {
            let hint = if known.is_empty() {
                "this file has no variants"
            } else {
                ""
            };
            let text = texts.add("--variant", wanted);
            let at = At {
                text,
                span: 0..wanted.len(),
            };
            unknown_name(
                texts,
                &at,
                wanted,
                &Names {
                    what: "variant",
                    known: &known,
                    hint,
                },
            );
            return Vec::new();
        }
        all.retain(|(name, _)| name.as_ref() == Some(wanted));
    }
    if all.is_empty() {
        all.push((name_of_plan, None));
    }
    all
}

/// A variant over its file: keys merge, faults are added, one of the same id is replaced.
fn lay_over(whole: &mut Table, mut variant: Table) {
    if let Some(more) = variant.take("fault") {
        match (
            whole.get_mut("fault").map(|e| &mut e.node.value),
            more.node.value,
        ) {
            (Some(Value::Array(mine)), Value::Array(more)) => {
                for node in more {
                    let id = id_of(mine.len(), &node);
                    let same = mine.iter().enumerate().position(|(i, n)| id_of(i, n) == id);
                    match same.and_then(|i| mine.get_mut(i)) {
                        Some(old) => *old = node,
                        None => mine.push(node),
                    }
                }
            }
            (_, value) => {
                let node = Node {
                    at: more.node.at,
                    value,
                };
                variant.0.push(Entry {
                    key: more.key,
                    at: more.at,
                    node,
                });
            }
        }
    }
    whole.merge(variant);
}

/// `--set`: as a merge, but `fault.<id>.key` goes into the fault of that id.
fn set_fault(texts: &mut Texts, whole: &mut Table, mut set: Table) {
    if let Some(variant) = set.take("variant") {
        let help = "--variant <name> chooses one".to_owned();
        texts.problem(
            &variant.at,
            "`--set` of variants",
            "not a key of a run",
            help,
        );
    }
    let Some(entry) = set.take("fault") else {
        whole.merge(set);
        return;
    };
    let Value::Table(by_id) = entry.node.value else {
        let label = "one fault's key at a time";
        let help = "--set fault.<id>.for=3s".to_owned();
        texts.problem(&entry.at, "`--set` of all faults", label, help);
        return;
    };
    let mut none = Vec::new();
    let faults = match whole.get_mut("fault").map(|e| &mut e.node.value) {
        Some(Value::Array(faults)) => faults,
        _ => &mut none,
    };
    for over in by_id.0 {
        let ids: Vec<String> = faults
            .iter()
            .enumerate()
            .map(|(i, n)| id_of(i, n))
            .collect();
        let found = ids.iter().position(|id| *id == over.key);
        match (
            found.and_then(|i| faults.get_mut(i)).map(|n| &mut n.value),
            over.node.value,
        ) {
            (Some(Value::Table(fault)), Value::Table(keys)) => fault.merge(keys),
            (Some(_), _) => texts.problem(&over.at, "`--set` of a whole fault", "add a key", None),
            (None, _) => {
                let known: Vec<&str> = ids.iter().map(String::as_str).collect();
                let names = Names::of("fault", &known);
                unknown_name(texts, &over.at, &over.key, &names);
            }
        }
    }
}

fn one(
    texts: &mut Texts,
    whole: &Table,
    variant: Option<String>,
    stem: &str,
    about: &str,
    over: &Overrides,
) -> Option<Plan> {
    let start = At {
        text: 0,
        span: 0..0,
    };
    unknown_keys(texts, "", whole, keys_of(""));
    let top = Section::of("", whole, start.clone());
    let name = top.text(texts, "name").unwrap_or(stem).to_owned();
    check_name(texts, &top, &name);
    let about = top.text(texts, "about").unwrap_or(about).to_owned();
    let seed = seed(texts, &top);
    let seed = over.seed.or(seed).or(over.drawn_seed).unwrap_or(1);
    let cluster_s = Section::open(
        texts,
        "cluster",
        whole.get("cluster"),
        &start,
        keys_of("cluster"),
    );
    let cluster = cluster(texts, &cluster_s);
    let lock_s = Section::open(texts, "lock", whole.get("lock"), &start, keys_of("lock"));
    let lock = lock(texts, &lock_s, &cluster_s, cluster.as_ref());
    let load_s = Section::open(texts, "load", whole.get("load"), &start, keys_of("load"));
    let ttl = lock.as_ref().map_or(Duration::from_secs(2), |l| l.ttl);
    let load = load_plan(
        texts,
        &load_s,
        lock.as_ref(),
        cluster.as_ref().map_or(15, |c| c.nodes),
    );
    let resource_s = Section::open(
        texts,
        "resource",
        whole.get("resource"),
        &start,
        keys_of("resource"),
    );
    let resource = resource(texts, &resource_s, lock.as_ref());
    let expect = expect(texts, whole.get("expect"));
    check_stick(texts, &lock_s, lock.as_ref(), load.as_ref());
    // A fault is judged against the cluster and the clients, so only where these are known.
    let (mut cluster, load) = (cluster?, load?);
    let world = World {
        cluster: &cluster,
        clients: load.clients,
        load: load.length,
    };
    let faults = fault::read(texts, whole.get("fault"), &world);
    let ids = fault::ids(whole.get("fault"));
    let steps = whole.get("step");
    let steps = step::read(texts, steps, &world, &ids, load.workers, ttl);
    cluster.shim = faults.iter().any(|f| shims_servers(f.kind));
    let tap = top.bool(texts, "tap").unwrap_or(false);
    if tap {
        replicated::tap(texts, &top.at("tap"), "tap", cluster.topology);
    }
    Some(Plan {
        name,
        variant,
        about,
        seed,
        tap,
        cluster,
        lock: lock?,
        load,
        resource,
        faults,
        steps,
        expect,
    })
}

/// Those that stick to the first primary are clients of this load.
fn check_stick(
    texts: &mut Texts,
    s: &Section<'_>,
    lock: Option<&LockPlan>,
    load: Option<&LoadPlan>,
) {
    let (Some(lock), Some(load)) = (lock, load) else {
        return;
    };
    let known: Vec<String> = (1..=load.clients).map(|n| format!("c{n}")).collect();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    for name in lock.stick.iter().filter(|n| !known.contains(&n.as_str())) {
        unknown_name(texts, &s.at("stick"), name, &Names::of("client", &known));
    }
}

/// A number; beyond the integers of TOML, as a string of digits.
fn seed(texts: &mut Texts, top: &Section<'_>) -> Option<u64> {
    if let Some(Value::Text(digits)) = top.entry("seed").map(|e| &e.node.value) {
        let seed = digits.parse().ok();
        if seed.is_none() {
            let label = "expected a whole number";
            texts.problem(&top.at("seed"), "`seed` is no number", label, None);
        }
        return seed;
    }
    top.integer(texts, "seed", 0, u64::MAX)
}

/// The name becomes a folder in results/.
fn check_name(texts: &mut Texts, top: &Section<'_>, name: &str) {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '+');
    if name.is_empty() || name.len() > 100 || name.starts_with('.') || !name.chars().all(plain) {
        let message = format!("`{name}` cannot name a folder of results");
        let help = "rename the file, or add name = \"…\" at its head: letters, digits, -, _ and .";
        texts.problem(
            &top.at("name"),
            message,
            "the workload's name",
            help.to_owned(),
        );
    }
}
