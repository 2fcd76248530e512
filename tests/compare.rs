//! `fencepost compare` as users meet it, on processes of this machine: equals do not differ, others do, and every format
//! says the same.
mod harness;

use harness::{alone, say};
use serde_json::Value;
use std::path::Path;

/// Its holder is paused past its lease, once in a run; what the resource does then is the difference.
const PAUSED: &str = "# paused.toml: a holder paused past its lease\n\
    lock = { name = \"set-nx-lua\", ttl = \"500ms\", retry = \"5ms\" }\n\
    load = { clients = 2, work = { fixed = \"20ms\" }, think = \"10ms\", for = \"1500ms\", tail = \"1600ms\" }\n\
    [expect]\noverrun = \"any\"\neffects = \"any\"\n\
    [[fault]]\nkind = \"client-pause\"\ntarget = \"holder\"\n\
    on = { op = \"acquire\", result = \"ok\", nth = 5 }\nfor = \"800ms\"\n";

fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).expect("a file");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn systems_meet_the_same_and_are_told_side_by_side() {
    let _alone = alone();
    let dir = tempfile::tempdir().expect("temp folder");
    let file = dir.path().join("paused.toml");
    std::fs::write(&file, PAUSED).expect("a workload");
    let (file, results) = (file.display().to_string(), dir.path().join("r"));
    let said = say(&[
        "compare",
        &file,
        "--fencing",
        "none,none,first-access",
        "--episodes",
        "3",
        "--seed",
        "5",
        "--backend",
        "local",
        "--results",
        &results.display().to_string(),
        "--csv",
    ]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let first = said.stderr.lines().next().unwrap_or_default();
    assert!(first.contains("3 systems, 3 episodes, about "), "{first}");
    let folder = std::fs::read_dir(results.join("campaigns"))
        .expect("campaigns")
        .flatten()
        .next();
    let folder = folder.expect("a campaign").path();
    let all = json(&folder.join("compare.json"));
    let systems = all["systems"].as_array().expect("systems");
    let labels: Vec<&str> = systems
        .iter()
        .map(|s| s["label"].as_str().expect("a label"))
        .collect();
    assert_eq!(
        labels,
        ["fence none", "fence none (A/A)", "fence first-access"]
    );
    let twins = systems.iter().map(|s| s["twin"] == true);
    assert_eq!(twins.collect::<Vec<_>>(), [false, true, false]);
    assert_eq!(all["fencepost"], 2);
    for s in systems {
        let episodes = s["episodes"].as_array().expect("episodes");
        let mut seeds: Vec<u64> = episodes
            .iter()
            .map(|e| e["seed"].as_u64().expect("a seed"))
            .collect();
        seeds.sort_unstable();
        assert_eq!(seeds, [5, 6, 7], "each system meets the same seeds");
        for e in episodes {
            assert_eq!(e["checks"]["overrun"]["violated"], true, "{e}");
            assert!(e["zombie_s"].as_f64().expect("s") > 0.2, "{e}");
            assert!(e["wait_p50_ms"].as_f64().expect("ms") > 1.0, "{e}");
        }
    }
    damage(&all, &said.stdout);
    let summary = std::fs::read_to_string(folder.join("summary.md")).expect("summary.md");
    assert!(
        summary.contains("3 of 3 \\(29–100 %\\)") && summary.contains("0 of 3 \\(at most 63 %\\)"),
        "{summary}"
    );
    let page = std::fs::read_to_string(folder.join("index.html")).expect("index.html");
    let href = page
        .split("href=\"")
        .nth(1)
        .and_then(|h| h.split('"').next());
    let href = href.expect("a link");
    assert!(folder.join(href).is_file(), "{href} leads nowhere");
    merged(&results, &all, &summary);
}

/// From the folders alone.
fn merged(results: &Path, all: &Value, summary: &str) {
    // For a page of results: the comparison, and none of its runs as workloads.
    let merged = say(&["merge", &results.display().to_string(), "--markdown"]);
    assert_eq!(merged.code, 0, "{}", merged.stderr);
    assert_eq!(merged.stdout, summary);
    let out = results.with_file_name("merged").display().to_string();
    let merge = |dirs: &[&Path]| {
        let dirs = dirs.iter().map(|d| d.display().to_string());
        let words = ["merge".to_owned()].into_iter().chain(dirs);
        let words = words.chain(["--out".to_owned(), out.clone()]);
        let words: Vec<String> = words.collect();
        say(&words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    merge(&[results]).refused(64, &["9 runs here, all of comparisons", "--markdown"]);
    // Elsewhere than the comparison a run is like any other, those of the A/A system too, and counts once by whatever name.
    let episode = all["systems"][0]["episodes"][0]["dir"].as_str();
    let of_one = Path::new(episode.expect("a folder"))
        .parent()
        .expect("a workload's");
    let merged = merge(&[of_one, &of_one.join("latest")]);
    assert!(
        merged.stdout.contains("1 workload, 6 runs"),
        "{}",
        merged.stdout
    );
}

/// Without a fence the paused holder's write goes through; with one it is refused.
fn damage(all: &Value, csv: &str) {
    let sum = |n: usize, key: &str| -> u64 {
        let episodes = all["systems"][n]["episodes"].as_array().expect("episodes");
        episodes
            .iter()
            .map(|e| e[key].as_u64().expect("a number"))
            .sum()
    };
    assert_eq!((sum(0, "refused"), sum(2, "lost_updates")), (0, 0));
    assert!(
        sum(0, "lost_updates") >= 3 && sum(2, "refused") >= 3,
        "{all}"
    );
    assert!(
        csv.starts_with("exposure,system,measure,value,low,high,episodes,at_least\n"),
        "{csv}"
    );
    assert!(
        csv.contains("\"effects: share of episodes\",1,0.29"),
        "{csv}"
    );
}

#[test]
fn mistakes_are_told_before_anything_is_started() {
    say(&["compare", "workloads/lua-plain.toml"]).refused(64, &["one system is no comparison"]);
    say(&[
        "compare",
        "workloads/no-such.toml",
        "workloads/lua-plain.toml",
    ])
    .refused(64, &["no such file"]);
    say(&[
        "compare",
        "workloads/lua-plain.toml",
        "--fencing",
        "perhaps,never",
    ])
    .refused(64, &["perhaps", "never"]);
    say(&[
        "compare",
        "workloads/lua-plain.toml",
        "--aa",
        "--budget",
        "soon",
    ])
    .refused(64, &["soon"]);
    let dir = tempfile::tempdir().expect("temp folder");
    let of_last = |seed: &str, episodes: &str| {
        say(&[
            "compare",
            "workloads/lua-plain.toml",
            "--aa",
            "--seed",
            seed,
            "--episodes",
            episodes,
            "--results",
            &dir.path().display().to_string(),
        ])
    };
    of_last("18446744073709551614", "3").refused(
        64,
        &[
            "3 episodes from seed 18446744073709551614 on would need seeds past the largest",
            "--seed 18446744073709551613 or less",
        ],
    );
    of_last("18446744073709551616", "1").refused(64, &["18446744073709551616"]);
}
