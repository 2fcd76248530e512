//! The files that other machines read: `junit.xml` against its schema, the GitHub action step by step, the Kubernetes
//! manifest against Kubernetes' own schemas and as processes side by side.
//!
//! What cannot be had (`xmllint`, `PyPI`) is told as skipped, and fails where CI demands everything.
mod harness;

use harness::{alone, lacking, run, say};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const GOOD: &str = "lock = { name = \"set-nx-lua\", ttl = \"500ms\", retry = \"5ms\" }\n\
    load = { clients = 2, work = { fixed = \"5ms\" }, for = \"400ms\", tail = \"1600ms\" }\n";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).expect(name)
}

/// A folder with `fencepost` in it, as it would be on PATH.
fn bin() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("temp folder");
    let at = dir.path().join("target/debug");
    std::fs::create_dir_all(&at).expect("folders");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_fencepost"), at.join("fencepost"))
        .expect("a link");
    dir
}

/// The lines of a YAML block below a line that ends in `head`, without their indentation.
fn block(yaml: &str, head: &str) -> String {
    let mut lines = yaml.lines().skip_while(|l| l.trim_start() != head);
    let depth = |l: &str| l.len() - l.trim_start().len();
    let start = depth(lines.next().expect(head));
    let inside: Vec<&str> = lines
        .take_while(|l| l.trim().is_empty() || depth(l) > start)
        .collect();
    let least = inside
        .iter()
        .filter(|l| !l.trim().is_empty())
        .map(|l| depth(l))
        .min();
    let cut = |l: &&str| l.get(least.unwrap_or(0)..).unwrap_or_default().to_owned();
    inside.iter().map(cut).collect::<Vec<_>>().join("\n")
}

#[test]
fn junit_passes_the_schema() {
    let dir = tempfile::tempdir().expect("temp folder");
    let file = dir.path().join("junit.xml");
    let goldens = std::fs::read_dir(root().join("checker/tests/golden")).expect("golden histories");
    let mut words = vec![
        "check".to_owned(),
        "--junit".to_owned(),
        file.display().to_string(),
    ];
    words.extend(goldens.flatten().map(|f| f.path().display().to_string()));
    say(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let text = std::fs::read_to_string(&file).expect("junit.xml");
    for part in ["<failure", "<error", "<skipped", "<system-out"] {
        let there = text.contains(part);
        assert!(
            there || part == "<system-out",
            "nothing in the goldens makes {part}"
        );
    }
    let schema = root().join("tests/ci/junit.xsd");
    let lint = |file: &Path| {
        Command::new("xmllint")
            .args(["--noout", "--schema"])
            .arg(&schema)
            .arg(file)
            .output()
    };
    let Ok(out) = lint(&file) else {
        return lacking("junit_passes_the_schema", "xmllint");
    };
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    // And the schema refuses what it must: the attribute that Jenkins knows nothing of.
    let wrong = text.replacen("<testsuite ", "<testsuite disabled=\"0\" ", 1);
    std::fs::write(&file, wrong).expect("a file");
    assert!(!lint(&file).expect("xmllint").status.success());
}

/// The action's inputs with their defaults.
fn defaults(action: &str) -> BTreeMap<String, String> {
    let (mut name, mut all) = (String::new(), BTreeMap::new());
    for line in block(action, "inputs:").lines() {
        if let Some(value) = line.trim().strip_prefix("default:") {
            all.insert(name.clone(), value.trim().trim_matches('"').to_owned());
        } else if !line.starts_with(' ') {
            line.trim_end_matches(':').clone_into(&mut name);
        }
    }
    all
}

/// Runs the step `Run` of action.yml as a runner does: the block in bash, inputs put in, files named in the environment.
fn run_step(dir: &Path, given: &[(&str, &str)]) -> Output {
    let action = read("action.yml");
    let mut inputs = defaults(&action);
    for (name, value) in given {
        assert!(
            inputs
                .insert((*name).to_owned(), (*value).to_owned())
                .is_some(),
            "no input {name}"
        );
    }
    let step = action.split("- name: Run\n").nth(1).expect("the step");
    let bin = bin();
    let mut command = Command::new("bash");
    for line in block(step, "env:").lines() {
        let (name, value) = line.split_once(": ").expect("a variable");
        let input = value
            .trim_start_matches("${{ inputs.")
            .trim_end_matches(" }}");
        command.env(name, &inputs[input]);
    }
    command
        .args([
            "--noprofile",
            "--norc",
            "-e",
            "-o",
            "pipefail",
            "-c",
            &block(step, "run: |"),
        ])
        .current_dir(dir)
        .env("GITHUB_ACTION_PATH", bin.path())
        .env("GITHUB_STEP_SUMMARY", dir.join("summary"))
        .env("GITHUB_OUTPUT", dir.join("output"))
        .stdin(Stdio::null())
        .output()
        .expect("bash runs")
}

#[test]
fn the_action_annotates_what_is_not_as_expected() {
    let _alone = alone();
    let dir = tempfile::tempdir().expect("temp folder");
    std::fs::create_dir(dir.path().join("w")).expect("a folder");
    let bad = format!("{GOOD}[expect]\nservice = \"violated\"\n");
    for (name, text) in [("good", GOOD), ("bad", &bad)] {
        std::fs::write(dir.path().join(format!("w/{name}.toml")), text).expect("a workload");
    }
    let given = [
        ("workloads", "w"),
        ("backend", "local"),
        ("seed", "3"),
        ("unknown", "warn"),
    ];
    let out = run_step(dir.path(), &given);
    let (stdout, stderr) = (
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr),
    );
    assert_eq!(out.status.code(), Some(1), "{stdout}\n{stderr}");
    let commands: Vec<&str> = stdout.lines().filter(|l| l.starts_with("::")).collect();
    assert_eq!(commands.len(), 1, "{stdout}");
    assert!(
        commands[0].starts_with(
            "::error file=w/bad.toml,line=1,title=bad%3A not as expected::1 of 1 runs. Seed 3: "
        ),
        "{commands:?}"
    );
    let summary = std::fs::read_to_string(dir.path().join("summary")).expect("the job's summary");
    assert!(summary.starts_with("## ❌ not as expected"), "{summary}");
    let output = std::fs::read_to_string(dir.path().join("output")).expect("outputs");
    for line in output.lines() {
        let (name, path) = line.split_once('=').expect("name=value");
        assert!(
            ["junit", "page"].contains(&name) && dir.path().join(path).is_file(),
            "{line}"
        );
    }
    assert_eq!(output.lines().count(), 2);
    // The step before it builds as `make build` does.
    let build = read("action.yml").contains("docker/setup.sh -- cargo build --locked");
    assert!(build && root().join("docker/setup.sh").is_file());
}

#[test]
fn the_manifest_is_right() {
    let out = Command::new(root().join("scripts/manifest.sh"))
        .output()
        .expect("the script runs");
    let said = String::from_utf8_lossy(&out.stdout);
    match out.status.code() {
        Some(69) => lacking("the_manifest_is_right", "kubernetes-validate"),
        code => {
            assert_eq!(
                code,
                Some(0),
                "{said}{}",
                String::from_utf8_lossy(&out.stderr)
            );
            let pods = read("deploy/kubernetes-indexed-job.yaml");
            let number = |key: &str| {
                pods.lines()
                    .find_map(|l| l.trim().strip_prefix(key).map(str::to_owned))
            };
            assert_eq!(number("completions: "), Some(pods_of(&pods).to_string()));
        }
    }
}

/// The number of pods that the manifest tells each of them.
fn pods_of(manifest: &str) -> u32 {
    let after = manifest
        .split("name: JOB_COMPLETION_COUNT")
        .nth(1)
        .expect("the count");
    let value = after
        .split("value: \"")
        .nth(1)
        .and_then(|v| v.split('"').next());
    value.and_then(|v| v.parse().ok()).expect("a number")
}

#[test]
fn the_manifests_pods_as_processes_make_the_whole_once_merged() {
    let _alone = alone();
    let dir = tempfile::tempdir().expect("temp folder");
    std::fs::create_dir(dir.path().join("workloads")).expect("a folder");
    for name in ["a", "b", "c"] {
        std::fs::write(dir.path().join(format!("workloads/{name}.toml")), GOOD)
            .expect("a workload");
    }
    let manifest = read("deploy/kubernetes-indexed-job.yaml");
    let command = block(&manifest, "args:").replace('\n', " ");
    let at = dir.path().display().to_string();
    let command = command
        .trim_start_matches("- ")
        .replace("/workloads", &format!("{at}/workloads"))
        .replace("/results", &format!("{at}/results"));
    let bin = bin();
    let path = format!(
        "{}:{}",
        bin.path().join("target/debug").display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let count = pods_of(&manifest);
    let pod = |index: u32| {
        let mut pod = Command::new("sh");
        pod.args(["-c", &command])
            .envs([("PATH", path.as_str()), ("SEED", "3"), ("REPEAT", "2")])
            .env("JOB_COMPLETION_INDEX", index.to_string())
            .env("JOB_COMPLETION_COUNT", count.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        pod.spawn().expect("sh runs")
    };
    // Two side by side: each is meant to have two cores of its own.
    for pair in (0..count).collect::<Vec<_>>().chunks(2) {
        let pods: Vec<_> = pair.iter().map(|&index| pod(index)).collect();
        for pod in pods {
            let out = pod.wait_with_output().expect("it ends");
            // A machine that is busy otherwise may stall: unknown, then, and told so.
            let code = out.status.code();
            let words = String::from_utf8_lossy(&out.stderr);
            assert!(matches!(code, Some(0 | 2)), "{code:?} {words}");
        }
    }
    let results = format!("{at}/results");
    let merged = say(&[
        "merge",
        &results,
        "--out",
        &format!("{at}/merged"),
        "--unknown",
        "warn",
    ]);
    assert_eq!(merged.code, 0, "{}", merged.stderr);
    assert!(
        merged.stdout.contains("3 workloads, 6 runs"),
        "{}",
        merged.stdout
    );
    let one = format!("{at}/results/shard-0");
    let part = say(&["merge", &one, "--out", &format!("{at}/part")]);
    assert_eq!(part.code, 2, "one shard is not the whole: {}", part.stdout);
    assert!(
        part.stdout.contains("no results of shard 2, 3, 4 of 4"),
        "{}",
        part.stdout
    );
}

#[test]
fn junit_of_a_real_run_passes_the_schema() {
    let _alone = alone();
    let ran = run(
        "lua-plain",
        "local",
        &["--set", "load.for=500ms", "--seed", "3"],
    );
    let folder = ran.folders().pop().expect("a results folder");
    let schema = root().join("tests/ci/junit.xsd");
    let out = Command::new("xmllint")
        .args(["--noout", "--schema"])
        .args([&schema, &folder.join("junit.xml")])
        .output();
    match out {
        Ok(out) => assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        ),
        Err(_) => lacking("junit_of_a_real_run_passes_the_schema", "xmllint"),
    }
}
