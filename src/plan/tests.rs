//! Tests of the workload file as a whole: each mistake as the user sees it, and every workload of the repository.
use super::{Overrides, Plan, Target, When, Work, load, load_resolved, parse};
use fencepost_checker::{Expect, Fence};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Every mistake in `text`, as on a terminal of 100 columns without colour.
fn told(text: &str) -> String {
    told_with(text, &Overrides::default())
}

fn told_with(text: &str, over: &Overrides) -> String {
    let error = parse("w.toml", "w", text, over).expect_err("a mistake");
    error.render(100, false, true)
}

fn one(text: &str) -> Plan {
    let plans =
        parse("w.toml", "w", text, &Overrides::default()).map_err(|e| e.render(100, false, true));
    plans.expect("a plan").pop().expect("one plan")
}

/// A workload with these lines after a lock.
fn lua(rest: &str) -> String {
    format!("lock = {{ name = \"set-nx-lua\" }}\n{rest}")
}

/// A workload with one fault of these keys.
fn fault(keys: &str) -> String {
    lua(&format!("[[fault]]\n{keys}"))
}

/// As [`fault`], where there are replicas and Sentinels.
fn replicated(keys: &str) -> String {
    lua(&format!(
        "cluster = {{ topology = \"sentinel\" }}\n[[fault]]\n{keys}"
    ))
}

/// As [`fault`], on an etcd cluster.
fn on_etcd(keys: &str) -> String {
    on("etcd", keys)
}

/// As [`fault`], on a ZooKeeper ensemble.
fn on_zookeeper(keys: &str) -> String {
    on("zookeeper", keys)
}

fn on(system: &str, keys: &str) -> String {
    format!(
        "lock = {{ name = \"{system}\" }}\ncluster = {{ topology = \"{system}\" }}\n[[fault]]\n{keys}"
    )
}

/// One snapshot a group of mistakes: what was written, then what is told.
macro_rules! mistakes {
    ($($group:ident: [$($text:expr),* $(,)?];)*) => {$(
        #[test]
        fn $group() {
            let all = [$($text.to_string()),*].map(|text| {
                let written: Vec<String> = told_lines(&text);
                format!("{}\n{}", written.join("\n"), told(&text))
            });
            insta::assert_snapshot!(stringify!($group), all.join("\n"));
        }
    )*};
}

/// The text as it was written, each line behind `| `.
fn told_lines(text: &str) -> Vec<String> {
    text.lines()
        .map(|l| format!("| {}", l.escape_default().to_string().replace("\\\"", "\"")))
        .collect()
}

mistakes! {
    keys: [
        lua("load = { clents = 3 }"),
        lua("laod = { clients = 3 }"),
        lua("load = { ttl = \"1s\" }"),
        lua("[variant.a]\nname = \"x\""),
        lua("load = { clents = 3 }\n[variant.a]\nseed = 1\n[variant.b]\nseed = 2"),
        "lock = { name = \"redlok\", tll = \"2s\" }\ncluster = { topology = \"ring\" }\n[expect]\nservce = \"valid\"",
    ];
    durations: [
        "lock = { name = \"set-nx-lua\", ttl = \"500msec\" }",
        "lock = { name = \"set-nx-lua\", ttl = 500 }",
        "lock = { name = \"set-nx-lua\", ttl = \"500\" }",
        "lock = { name = \"set-nx-lua\", ttl = 500ms }",
        "lock = { name = \"set-nx-lua\", ttl = \"0s\", retry = \"0ms\" }\nload = { for = \"0s\" }",
        "lock = { name = \"set-nx-lua\", ttl = \"-1s\" }",
    ];
    types: [
        lua("load = 3"),
        "lock = { name = \"set-nx-lua\", renew = \"yes\" }",
        lua("load = { clients = \"three\" }"),
        lua("load = { clients = 0, keys = -1, workers = 100000 }"),
        lua("load = { work = { fixed = \"1s\", exponential = \"1s\" } }"),
        lua("load = { work = { uniform = [\"2s\", \"1s\"] } }"),
        lua("load = { think = \"1s\", rate = 10 }"),
        lua("[fault]\nkind = \"node-kill\""),
        fault("kind = \"node-kill\"\ntarget = \"node:1\"\non = \"acquire\""),
    ];
    text: [
        "lock = { name = \n[[fault\n",
        "lock = { name = \"\\u001b[31mred\" }", "lock = { name = \"set-nx-lua\" } # \u{1b}[2J\u{202e}\n",
    ];
    locks: [
        "lock = { name = \"redlok\" }",
        "load = { clients = 3 }",
        "lock = { name = \"redlock\", command = [\"x\"] }\ncluster.topology = \"independent\"",
        "lock = { command = [] }",
        lua("cluster = { topology = \"singel\" }"),
        lua("cluster = { topology = \"single\", nodes = 5 }"),
        "lock = { name = \"redlock\" }",
        lua("cluster = { topology = \"independent\", nodes = 5 }"),
        "lock = { name = \"redlock\", fencing = true }\ncluster = { topology = \"independent\" }",
        lua("resource = { fence = \"first-access\" }"),
    ];
    expectations: [
        lua("[expect]\noverun = \"violated\""),
        lua("[expect]\noverrun = \"broken\""),
    ];
    fault_kinds: [
        fault("kind = \"client-freeze\"\ntarget = \"holder\"\nat = \"1s\""),
        fault("target = \"holder\"\nat = \"1s\""),
        fault("kind = \"client-pause\"\ntarget = \"holder\"\nat = \"1s\""),
        fault("kind = \"client-pause\"\ntarget = \"holder\"\nat = \"1s\"\nfor = \"1s\"\ndata = \"drop\""),
        fault("kind = \"client-pause\"\ntarget = \"holder\"\nat = \"1s\"\nfro = \"1s\""),
        fault("kind = \"partition\"\ntarget = \"link:*>*\"\nmode = \"reset\"\ndirection = \"replies\"\nat = \"1s\"\nfor = \"1s\""),
        fault("id = \"a\"\nkind = \"node-kill\"\ntarget = \"node:1\"\nat = \"1s\"\n[[fault]]\nid = \"a\"\nkind = \"node-kill\"\ntarget = \"node:1\"\nat = \"2s\""),
    ];
    fault_times: [
        fault("kind = \"client-pause\"\ntarget = \"holder\"\nfor = \"1s\""),
        fault("kind = \"client-pause\"\ntarget = \"holder\"\nat = \"1s\"\nevery = \"2s\"\nfor = \"1s\""),
        fault("kind = \"client-pause\"\ntarget = \"holder\"\nat = \"10s\"\nfor = \"1s\""),
        fault("kind = \"client-pause\"\ntarget = \"holder\"\nat = \"1s\"\nfor = \"1s\"\nuntil = { op = \"acquire\", result = \"ok\" }"),
        fault("kind = \"node-kill\"\ntarget = \"node:1\"\nafter = \"cutt\""),
        fault("id = \"a\"\nkind = \"node-kill\"\ntarget = \"node:1\"\nafter = \"a\""),
        fault("id = \"a\"\nkind = \"node-kill\"\ntarget = \"node:1\"\non = { op = \"acquire\", result = \"ok\", after = \"b\" }\n[[fault]]\nid = \"b\"\nkind = \"node-kill\"\ntarget = \"node:1\"\nafter = \"a\""),
        fault("kind = \"node-kill\"\ntarget = \"node:1\"\nat = \"1s\"\ndelay = \"1s\""),
    ];
    fault_targets: [
        fault("kind = \"client-pause\"\nat = \"1s\"\nfor = \"1s\""),
        fault("kind = \"client-pause\"\ntarget = \"hodler\"\nat = \"1s\"\nfor = \"1s\""),
        fault("kind = \"client-pause\"\ntarget = \"node:1\"\nat = \"1s\"\nfor = \"1s\""),
        fault("kind = \"node-kill\"\ntarget = \"node:4\"\nat = \"1s\""),
        fault("kind = \"client-kill\"\ntarget = \"client:c9\"\nat = \"1s\""),
        fault("kind = \"partition\"\ntarget = \"link:c1>n2\"\nat = \"1s\"\nfor = \"1s\""),
        fault("kind = \"partition\"\ntarget = \"link:c1>primary\"\nat = \"1s\"\nfor = \"1s\""),
        fault("kind = \"node-kill\"\ntarget = \"quorum-edge\"\nat = \"1s\""),
        fault("kind = \"quorum-thin\"\ntarget = \"client:c1\"\nat = \"1s\""),
    ];
    messages: [
        fault("kind = \"message\"\ntarget = \"client:c1\"\naction = \"drop\"\nat = \"1s\""),
        fault("kind = \"message\"\ntarget = \"client:c1\"\non = { message = \"SET\" }\naction = \"swallow\""),
        fault("kind = \"message\"\ntarget = \"client:c1\"\non = { message = \"SET\", edge = \"back\" }\naction = \"lose\""),
        fault("kind = \"message\"\ntarget = \"client:c1\"\non = { message = \"SET\" }\naction = \"error\""),
        fault("kind = \"message\"\ntarget = \"client:c1\"\non = { message = \"SET\" }\naction = \"hold\""),
        fault("kind = \"message\"\ntarget = \"client:c1\"\non = { message = \"SET\", node = \"n7\", op = \"acquire\" }\naction = \"reset\"\nconnection = \"close\""),
        fault("kind = \"message\"\ntarget = \"client:c1\"\non = { message = \"SET\", edge = \"reply\" }\naction = \"hold\"\nfor = \"1s\"\nconnection = \"close\""),
        fault("kind = \"client-pause\"\ntarget = \"holder\"\nfor = \"1s\"\non = { key = \"lock:0\" }"),
    ];
    steps: [
        lua("[[step]]\ndo = \"acquire\"\npause = \"1s\""),
        lua("[[step]]\nclient = \"c9\"\ndo = \"aquire\""),
        lua("[[step]]\nclient = \"c1\"\ndo = \"release\"\nwait = \"1s\"\nthen = \"yes\""),
        lua("[[step]]\nafter = \"cut\"\n[[step]]\nanswered = \"s1\""),
        lua("load = { clean = [\"c7\"], nodes = { c1 = [\"n4\"] } }"),
    ];
    sentinels: [
        lua("cluster = { down_after = \"1s\", min_replicas = 1 }"),
        lua("cluster = { topology = \"sentinel\", nodes = 1, min_replicas = 3, max_lag = \"1500ms\" }"),
        "lock = { name = \"redlock\" }\ncluster = { topology = \"sentinel\" }",
        "lock = { name = \"set-nx-lua\", wait = 3, stick = [\"c4\"] }\ncluster = { topology = \"sentinel\" }",
        "lock = { name = \"set-nx-del\", wait = 1 }\ncluster = { topology = \"sentinel\" }",
        "lock = { name = \"set-nx-lua\", wait = 1 }",
        fault("kind = \"node-kill\"\ntarget = \"primary\"\nat = \"1s\"\ndemote_after = \"1s\""),
        replicated("kind = \"node-pause\"\ntarget = \"sentinel:4\"\nat = \"1s\"\nfor = \"1s\""),
        replicated("kind = \"node-kill\"\ntarget = \"replica:3\"\nat = \"1s\""),
        replicated("kind = \"partition\"\ntarget = \"link:primary>nobody\"\nat = \"1s\"\nfor = \"1s\""),
        replicated("kind = \"node-kill\"\ntarget = \"sentinel:1\"\nat = \"1s\""),
    ];
    etcd: [
        "lock = { name = \"etcd\", ttl = \"1500ms\", connection = \"worker\" }",
        "lock = { name = \"redlock\" }\ncluster = { topology = \"etcd\", persistence = \"aof\" }",
        "tap = true\nlock = { name = \"etcd\", wait = 1 }\ncluster = { topology = \"etcd\" }",
        on_etcd("kind = \"node-flush\"\ntarget = \"nodes\"\nat = \"1s\""),
        on_etcd("kind = \"node-clock\"\ntarget = \"leader\"\nstep = \"+60s\"\nat = \"1s\"\nfor = \"1s\""),
        on_etcd("kind = \"failover\"\ntarget = \"primary\"\nat = \"1s\"\nfor = \"1s\""),
        on_etcd("kind = \"node-pause\"\ntarget = \"sentinels\"\nat = \"1s\"\nfor = \"1s\""),
        on_etcd("kind = \"node-pause\"\ntarget = \"quorum-edge\"\nat = \"1s\"\nfor = \"1s\""),
        on_etcd("kind = \"node-restart\"\ntarget = \"node:1\"\ndata = \"drop\"\nat = \"1s\""),
        fault("kind = \"leader-change\"\ntarget = \"leader\"\nat = \"1s\""),
        on_etcd("kind = \"client-pause\"\ntarget = \"client:c1\"\non = { message = \"SET\" }\nfor = \"1s\""),
        on_etcd("kind = \"client-pause\"\ntarget = \"client:c1\"\nat = \"1s\"\nuntil = { message = \"SET\", edge = \"reply\" }"),
        "lock.name = \"etcd\"\ncluster.topology = \"etcd\"\n[[step]]\nuntil = { message = \"SET\" }",
    ];
    zookeeper: [
        "lock = { name = \"zookeeper\", ttl = \"400ms\", connection = \"worker\" }\ncluster = { topology = \"etcd\" }",
        "lock = { name = \"zookeeper\", ttl = \"400ms\", connection = \"worker\" }",
        "lock = { name = \"etcd\" }\ncluster = { topology = \"zookeeper\", persistence = \"none\" }",
        "tap = true\nlock = { name = \"zookeeper\" }\ncluster = { topology = \"zookeeper\" }",
        on_zookeeper("kind = \"leader-change\"\ntarget = \"leader\"\nat = \"1s\""),
        on_zookeeper("kind = \"node-power-loss\"\ntarget = \"leader\"\nat = \"1s\""),
        on_zookeeper("kind = \"node-clock\"\ntarget = \"node:2\"\nstep = \"+60s\"\nat = \"1s\"\nfor = \"1s\""),
        on_zookeeper("kind = \"node-restart\"\ntarget = \"node:1\"\ndata = \"drop\"\nat = \"1s\""),
        on_zookeeper("kind = \"partition\"\ntarget = \"link:primary>servers\"\ndirection = \"replies\"\nat = \"1s\"\nfor = \"1s\""),
        on_etcd("kind = \"session-expiry\"\ntarget = \"holder\"\nat = \"1s\""),
        fault("kind = \"session-expiry\"\ntarget = \"holder\"\nat = \"1s\""),
    ];
    triggers: [
        fault("kind = \"node-kill\"\ntarget = \"node:1\"\non = { op = \"acquire\", result = \"ok\", client = \"other\" }"),
        fault("kind = \"node-kill\"\ntarget = \"node:1\"\non = { op = \"aquire\", result = \"okay\", nth = 0, clinet = \"c1\" }"),
        fault("kind = \"node-kill\"\ntarget = \"node:1\"\non = { op = \"acquire\" }"),
    ];
}

#[test]
fn flags_have_places_too() {
    let over = |set: &[&str], variant: Option<&str>| Overrides {
        set: set.iter().map(|s| (*s).to_owned()).collect(),
        variant: variant.map(str::to_owned),
        ..Overrides::default()
    };
    let text = lua("[variant.single]\nseed = 1");
    let all = [
        told_with(&text, &over(&["lock.ttl=500msec"], None)),
        told_with(&text, &over(&["lock.tll=500ms"], None)),
        told_with(&text, &over(&["lock.ttl"], None)),
        told_with(&text, &over(&["lock..ttl=1s"], None)),
        told_with(&text, &over(&["fault.cut.for=1s"], None)),
        told_with(&text, &over(&["variant.single.seed=2"], None)),
        told_with(&text, &over(&[], Some("singel"))),
        told_with(&lua(""), &over(&[], Some("single"))),
    ];
    insta::assert_snapshot!(all.join("\n"));
}

#[test]
fn a_line_without_end_is_not_shown_without_end() {
    let text = lua(&format!("laod = 1 # {}", "x".repeat(100_000)));
    assert!(told(&text).len() < 3_000, "{}", told(&text));
}

/// The message of a file that cannot be a workload at all, with the folder's own path taken out.
fn told_of_file(name: &str, bytes: &[u8]) -> String {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join(name);
    std::fs::write(&path, bytes).expect("written");
    let error = load(&path, &Overrides::default()).expect_err("a mistake");
    let shown = dir.path().display().to_string();
    error.to_string().replace(&shown, "DIR")
        + "\n"
        + &error.render(1000, false, true).replace(&shown, "DIR")
}

#[test]
fn files_that_are_none() {
    let dir = tempfile::tempdir().expect("a folder");
    let shown = dir.path().display().to_string();
    let missing = load(&dir.path().join("gone.toml"), &Overrides::default()).expect_err("missing");
    let folder = load(dir.path(), &Overrides::default()).expect_err("a folder");
    let all = [
        told_of_file("empty.toml", b" \n"),
        told_of_file("binary.toml", b"lock = 1\n\x7fELF\xff\x00"),
        told_of_file("large.toml", &vec![b'#'; (1 << 20) + 1]),
        told_of_file("odd name!.toml", b"lock = { name = \"set-nx-lua\" }"),
        missing.render(1000, false, true).replace(&shown, "DIR"),
        folder.render(1000, false, true).replace(&shown, "DIR"),
    ];
    insta::assert_snapshot!(all.join("\n"));
}

#[test]
fn defaults_are_filled_in() {
    let plan = one(
        "# w.toml: what it shows\n# in two lines\n#\n# and why\n\nlock = { name = \"set-nx-lua\" }",
    );
    assert_eq!(plan.about, "what it shows in two lines");
    insta::assert_snapshot!(plan.to_toml());
}

#[test]
fn the_example_of_the_design_reads_as_meant() {
    let text = "
        lock = { ttl = \"3s\" }
        load = { clients = 3, work = { uniform = [\"1s\", \"1500ms\"] }, for = \"25s\" }
        expect.overrun = \"any\"
        [variant.single]
        cluster = { topology = \"single\", persistence = \"none\" }
        lock.name = \"set-nx-lua\"
        load.work.fixed = \"1500ms\"
        expect.service = \"violated\"
        [variant.redlock]
        cluster = { topology = \"independent\", nodes = 7 }
        lock.name = \"redlock\"
        expect.service = \"valid\"
        [[variant.redlock.fault]]
        id = \"more\"
        kind = \"node-kill\"
        target = \"node:7\"
        after = \"cut\"
        delay = \"500ms\"
        [[fault]]
        id = \"cut\"
        kind = \"partition\"
        target = \"link:holder>*\"
        on = { op = \"acquire\", result = \"ok\", client = \"c1\", nth = 3 }
        until = { op = \"acquire\", result = \"ok\", client = \"other\", after = \"cut\" }";
    let plans = parse("w.toml", "w", text, &Overrides::default()).expect("plans");
    let [single, redlock] = plans.as_slice() else {
        panic!("two variants, not {}", plans.len());
    };
    assert_eq!(single.variant.as_deref(), Some("single"));
    assert_eq!(single.lock.ttl, Duration::from_secs(3));
    assert_eq!(single.load.work, Work::Fixed(Duration::from_millis(1500)));
    assert_eq!(single.faults.len(), 1);
    assert_eq!(single.expect["service"], Expect::Violated);
    assert_eq!(redlock.cluster.nodes, 7);
    assert_eq!(redlock.expect["overrun"], Expect::Any);
    assert_eq!(redlock.faults[1].target, Target::Node(7));
    let delay = Duration::from_millis(500);
    assert_eq!(redlock.faults[1].when, When::After("cut".into(), delay));
    let until = redlock.faults[0].until.as_ref().expect("until");
    assert_eq!(until.client.as_deref(), Some("other"));
}

#[test]
fn line_ends_and_byte_order_marks_do_not_matter() {
    let text = lua("# c\nload = { clients = 4 }\n");
    let plan = one(&text);
    assert_eq!(one(&text.replace('\n', "\r\n")), plan);
    assert_eq!(one(&format!("\u{feff}{text}")), plan);
}

#[test]
fn what_is_odd_but_allowed_is_said() {
    let plan = one(
        "lock = { name = \"set-nx-lua\", ttl = \"100ms\" }\nload = { keys = 3, tail = \"1s\" }",
    );
    insta::assert_snapshot!(super::warnings(&plan).join("\n"));
    let plan = one("lock = { name = \"perfect\", ttl = \"100ms\" }\nload = { tail = \"2s\" }");
    assert_eq!(super::warnings(&plan), Vec::<String>::new());
}

#[test]
fn flags_come_last() {
    let text = "lock.name = \"set-nx-lua\"\nseed = 5\n[[fault]]\nid = \"p\"\nkind = \"client-pause\"\n\
                target = \"holder\"\nevery = \"1s\"\nfor = \"1s\"";
    let set = [
        "lock.ttl=500ms",
        "load.for=3s",
        "fault.p.for=2s",
        "resource.fence=none",
        "load.work={ exponential = \"5ms\" }",
    ];
    let over = Overrides {
        set: set.iter().map(|s| (*s).to_owned()).collect(),
        seed: Some(9),
        ..Overrides::default()
    };
    let plan = parse("w.toml", "w", text, &over).expect("a plan").remove(0);
    assert_eq!(plan.lock.ttl, Duration::from_millis(500));
    assert_eq!(plan.load.length, Duration::from_secs(3));
    assert_eq!(plan.load.tail, Duration::from_millis(1520));
    assert_eq!(plan.faults[0].length, Some(Duration::from_secs(2)));
    assert_eq!(plan.load.work, Work::Exponential(Duration::from_millis(5)));
    assert_eq!(plan.resource.fence, Fence::None);
    assert_eq!(plan.seed, 9);
    let drawn = Overrides {
        drawn_seed: Some(u64::MAX),
        ..Overrides::default()
    };
    assert_eq!(
        parse("w.toml", "w", text, &drawn).expect("a plan")[0].seed,
        5
    );
    let plan = parse("w.toml", "w", &lua(""), &drawn)
        .expect("a plan")
        .remove(0);
    assert_eq!(plan.seed, u64::MAX);
    assert_eq!(one(&plan.to_toml()), plan);
}

fn workloads() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("workloads");
    let mut all: Vec<PathBuf> = std::fs::read_dir(dir)
        .expect("workloads/")
        .map(|e| e.expect("an entry").path())
        .filter(|p| p.extension().is_some_and(|e| e == "toml"))
        .collect();
    all.sort();
    all
}

/// The table of workloads/README.md, as the files have it.
fn table_of_workloads() -> String {
    let mut rows = vec![
        "| workload | lock | what it shows | must be found |".to_owned(),
        "|---|---|---|---|".to_owned(),
    ];
    for path in workloads() {
        let plans = load(&path, &Overrides::default()).map_err(|e| e.render(100, false, true));
        let plans = plans.unwrap_or_else(|e| panic!("{e}"));
        let title = plans[0].about.clone();
        let locks: Vec<&str> = plans
            .iter()
            .filter_map(|p| p.lock.name.as_deref())
            .collect();
        let found = |p: &Plan| {
            let bad = p.expect.iter().filter(|(_, e)| **e == Expect::Violated);
            let bad: Vec<&str> = bad.map(|(name, _)| name.as_str()).collect();
            if bad.is_empty() {
                "nothing".to_owned()
            } else {
                bad.join(", ")
            }
        };
        let found: Vec<String> = plans.iter().map(found).collect();
        let (locks, found) = (locks.join(" / "), found.join(" / "));
        let name = &plans[0].name;
        rows.push(format!(
            "| [{name}]({name}.toml) | {locks} | {title} | {found} |"
        ));
    }
    rows.join("\n") + "\n"
}

/// With `INSTA_UPDATE=always` the page is written anew.
#[test]
fn the_page_of_the_workloads_is_true() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("workloads/README.md");
    let page = std::fs::read_to_string(&path).expect("workloads/README.md");
    let (head, rest) = page.split_once("<!-- table -->\n").expect("a table");
    let (_, tail) = rest.split_once("<!-- end -->").expect("the table's end");
    let wanted = format!(
        "{head}<!-- table -->\n{}<!-- end -->{tail}",
        table_of_workloads()
    );
    if std::env::var_os("INSTA_UPDATE").is_some_and(|v| v == "always") {
        std::fs::write(&path, &wanted).expect("written");
    } else {
        assert_eq!(page, wanted, "run the test with INSTA_UPDATE=always");
    }
    // The first example of the page is a workload.
    let example = page
        .split("```toml\n")
        .nth(1)
        .and_then(|e| e.split("```").next());
    let plan = one(example.expect("an example"));
    assert_eq!(plan.faults.len(), 2);
}

#[test]
fn every_workload_reads_says_what_it_expects_and_replays() {
    let dir = tempfile::tempdir().expect("a folder");
    assert!(workloads().len() >= 18);
    for path in workloads() {
        let plans = load(&path, &Overrides::default()).map_err(|e| e.render(100, false, true));
        for plan in plans.unwrap_or_else(|e| panic!("{e}")) {
            let name = path.display();
            assert!(!plan.expect.is_empty(), "{name} expects nothing");
            assert!(plan.about.len() > 40, "{name} does not say what it shows");
            assert_eq!(super::warnings(&plan), Vec::<String>::new(), "{name}");
            let short = super::expected_duration(&plan) <= Duration::from_secs(8);
            assert!(short || plan.name == "single-vs-redlock", "{name} is long");
            let copy = dir.path().join("plan.toml");
            std::fs::write(&copy, plan.to_toml()).expect("written");
            let again = load_resolved(&copy).map_err(|e| e.render(100, false, true));
            assert_eq!(again.unwrap_or_else(|e| panic!("{e}")), plan, "{name}");
        }
    }
}

#[test]
fn every_cell_of_the_sentinels_reads_and_replays() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("workloads/matrix");
    let files = std::fs::read_dir(dir).expect("workloads/matrix/");
    let files = files.map(|e| e.expect("an entry").path());
    let mut seen = 0;
    for path in files.filter(|p| p.to_string_lossy().ends_with("--sentinel.toml")) {
        let plans = load(&path, &Overrides::default()).map_err(|e| e.render(100, false, true));
        let plan = plans.unwrap_or_else(|e| panic!("{e}")).remove(0);
        assert_eq!(
            super::warnings(&plan),
            Vec::<String>::new(),
            "{}",
            plan.name
        );
        assert!(!plan.expect.is_empty(), "{} expects nothing", plan.name);
        assert_eq!(one(&plan.to_toml()), plan);
        seen += 1;
    }
    assert!(seen >= 29, "{seen}");
}

proptest::proptest! {
    /// A workload with a few characters changed is a plan that replays, or a list of places inside the text.
    #[test]
    fn no_slip_of_the_pen_is_a_panic(
        which in 0usize..1000,
        slips in proptest::collection::vec((0usize..4000, proptest::option::of(proptest::char::any())), 1..4),
    ) {
        let all = workloads();
        let mut text: Vec<char> =
            std::fs::read_to_string(&all[which % all.len()]).expect("text").chars().collect();
        for (at, with) in slips {
            let at = at % text.len();
            match with {
                Some(c) => text.insert(at, c),
                None => { text.remove(at); }
            }
        }
        let text: String = text.into_iter().collect();
        match parse("w.toml", "w", &text, &Overrides::default()) {
            Ok(plans) => {
                for plan in plans {
                    proptest::prop_assert_eq!(one(&plan.to_toml()), plan);
                }
            }
            Err(error) => {
                proptest::prop_assert!(!error.problems.is_empty());
                for place in error.problems.iter().filter_map(|p| p.place.as_ref()) {
                    proptest::prop_assert!(place.span.offset() + place.span.len() <= text.len());
                }
                error.render(100, true, true);
            }
        }
    }
}

#[test]
fn names_are_those_of_the_rooms_that_own_the_things() {
    use super::Topology;
    use super::names::{CHECKS, CLASSES, LOCKS, Place};
    let rules = LOCKS.iter().map(|l| {
        let nodes = match l.place {
            Place::OneNode => "1",
            Place::Quorum => "1 or more, best odd",
            Place::Replicated(Topology::ZooKeeper) => {
                "a ZooKeeper ensemble, best of 3 or 5 servers"
            }
            Place::Replicated(_) => "an etcd cluster, best of 3 or 5 members",
            Place::Anywhere => "any",
        };
        (l.name, nodes, l.tokens)
    });
    let locks = crate::lock::LOCKS.iter();
    let locks = locks.map(|l| (l.name, l.nodes, l.no_fencing.is_none()));
    assert_eq!(rules.collect::<Vec<_>>(), locks.collect::<Vec<_>>());
    let checks = fencepost_checker::CHECKS;
    let names: Vec<&str> = checks.iter().map(|c| c.name).collect();
    assert_eq!(CHECKS, names);
    let classes: std::collections::BTreeSet<&str> = checks.iter().map(|c| c.class.name()).collect();
    assert_eq!(
        CLASSES
            .iter()
            .copied()
            .collect::<std::collections::BTreeSet<_>>(),
        classes
    );
}

/// Each cell quotes the table that it comes from, is read without a mistake, and stands in the page of the matrix.
#[test]
fn every_cell_of_the_matrix_is_a_workload() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("workloads/matrix");
    let page = std::fs::read_to_string(dir.join("README.md")).expect("README.md");
    let files = std::fs::read_dir(dir).expect("workloads/matrix/").flatten();
    let files = files
        .map(|f| f.path())
        .filter(|p| p.extension().is_some_and(|e| e == "toml"));
    let mut cells = 0;
    for path in files {
        let plans = load(&path, &Overrides::default()).map_err(|e| e.render(100, false, true));
        for plan in plans.unwrap_or_else(|e| panic!("{e}")) {
            assert!(plan.about.starts_with("Matrix, "), "{}", path.display());
            assert!(
                page.contains(&format!("({}.toml)", plan.name)),
                "{}",
                plan.name
            );
            assert!(!plan.expect.is_empty(), "{}", plan.name);
            let again = one(&plan.to_toml());
            assert_eq!(
                Plan {
                    about: plan.about.clone(),
                    ..again
                },
                plan
            );
        }
        cells += 1;
    }
    assert!(cells >= 30, "{cells} cells");
}
