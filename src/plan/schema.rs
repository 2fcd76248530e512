//! The workload file's JSON Schema, for editors: `fencepost schema workload`.
//!
//! Owns the schema, built from the same tables that the parser obeys, so that the two cannot part. Must not know how a
//! file is read.
use super::kinds::{COMMON_KEYS, KindInfo, WHEN_KEYS, kinds};
use super::names::{LOCKS, OPERATIONS, RESULTS, expectable};
use super::read::keys_of;
use serde_json::{Map, Value, json};

/// The schema (draft 2020-12) of a workload file.
pub fn schema() -> Value {
    let mut top = sections();
    top.insert("variant".into(), json!({
        "description": "Variants: the keys of each replace the file's; in a resolved plan, the variant's name.",
        "anyOf": [
            { "type": "string" },
            { "type": "object", "additionalProperties": object(sections(), &["name"]) },
        ],
    }));
    let mut schema = object(top, &[]);
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    schema["title"] = "fencepost workload".into();
    schema["$defs"] = json!({
        "duration": {
            "type": "string",
            "description": "A number and a unit: us, ms, s, m or h.",
            "pattern": "^\\s*\\+?[0-9_]*\\.?[0-9_]+\\s*(us|ms|s|m|h)\\s*$",
        },
        "trigger": trigger(),
        "fault": fault(),
    });
    schema
}

fn sections() -> Map<String, Value> {
    let section = |name: &str| {
        object(
            keys_of(name)
                .iter()
                .map(|k| ((*k).to_owned(), key(name, k)))
                .collect(),
            &[],
        )
    };
    let mut top = Map::new();
    for name in keys_of("") {
        let value = match *name {
            "name" | "about" => json!({ "type": "string" }),
            "seed" => json!({ "type": "integer", "minimum": 0 }),
            "fault" => json!({ "type": "array", "items": { "$ref": "#/$defs/fault" } }),
            "expect" => {
                let outcome = json!({ "enum": ["valid", "violated", "any"] });
                object(
                    expectable()
                        .into_iter()
                        .map(|n| (n.to_owned(), outcome.clone()))
                        .collect(),
                    &[],
                )
            }
            "variant" => continue,
            _ => section(name),
        };
        top.insert((*name).to_owned(), value);
    }
    top
}

/// The value of one key of a section.
fn key(section: &str, key: &str) -> Value {
    let duration = json!({ "$ref": "#/$defs/duration" });
    let texts = json!({ "type": "array", "items": { "type": "string" } });
    match (section, key) {
        ("cluster", "topology") => {
            json!({ "enum": ["single", "independent"], "default": "single" })
        }
        ("cluster", "nodes") => json!({ "type": "integer", "minimum": 1, "maximum": 15 }),
        ("cluster", "persistence") => json!({ "enum": ["none", "aof"], "default": "none" }),
        ("cluster", "reach") => {
            json!({ "enum": ["auto", "container", "published"], "default": "auto" })
        }
        ("lock", "name") => json!({ "enum": LOCKS.iter().map(|l| l.name).collect::<Vec<_>>() }),
        ("lock", "command" | "env") => texts,
        ("lock", "renew" | "respect_validity" | "fencing") => {
            json!({ "type": "boolean", "default": false })
        }
        ("lock", "connection") => json!({ "enum": ["shared", "worker"], "default": "shared" }),
        ("lock", "options") => json!({ "type": "object" }),
        ("load", "clients") => {
            json!({ "type": "integer", "minimum": 1, "maximum": 64, "default": 3 })
        }
        ("load", "workers") => {
            json!({ "type": "integer", "minimum": 1, "maximum": 256, "default": 1 })
        }
        ("load", "keys") => {
            json!({ "type": "integer", "minimum": 1, "maximum": 10_000, "default": 1 })
        }
        ("load", "rate") => {
            json!({ "type": "number", "exclusiveMinimum": 0, "maximum": 1_000_000 })
        }
        ("load", "work") => json!({
            "type": "object",
            "additionalProperties": false,
            "minProperties": 1,
            "maxProperties": 1,
            "properties": {
                "fixed": duration,
                "exponential": duration,
                "uniform": { "type": "array", "items": duration, "minItems": 2, "maxItems": 2 },
            },
        }),
        ("resource", "fence") => {
            json!({ "enum": ["none", "write", "first-access"], "default": "none" })
        }
        ("lock" | "load", _) => duration,
        _ => json!({ "type": "string" }),
    }
}

fn trigger() -> Value {
    let properties = json!({
        "op": { "enum": OPERATIONS },
        "result": { "enum": RESULTS },
        "client": { "type": "string" },
        "nth": { "type": "integer", "minimum": 1, "maximum": 1_000_000, "default": 1 },
        "after": { "type": "string" },
    });
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
        "required": ["op", "result"],
    })
}

/// One alternative a kind, each with the keys of its row.
fn fault() -> Value {
    json!({ "oneOf": kinds().iter().map(fault_of_kind).collect::<Vec<_>>() })
}

fn fault_of_kind(row: &KindInfo) -> Value {
    let mut properties = Map::new();
    for key in COMMON_KEYS.iter().chain(row.allowed) {
        properties.insert((*key).to_owned(), fault_key(row, key));
    }
    let mut schema = object(properties, &[]);
    schema["description"] = row.about.into();
    let mut required = vec!["kind", "target"];
    let mut all = vec![one_of_keys(WHEN_KEYS)];
    for key in row.required {
        if *key == "for" {
            all.push(one_of_keys(&["for", "until"]));
        } else {
            required.push(key);
        }
    }
    schema["required"] = json!(required);
    schema["allOf"] = json!(all);
    schema["dependentRequired"] = json!({ "delay": ["after"] });
    schema
}

fn one_of_keys(keys: &[&str]) -> Value {
    json!({ "oneOf": keys.iter().map(|k| json!({ "required": [k] })).collect::<Vec<_>>() })
}

fn fault_key(row: &KindInfo, key: &str) -> Value {
    match key {
        "kind" => json!({ "const": row.name }),
        "target" => json!({
            "type": "string",
            "description": "For example a target of this form.",
            "examples": row.targets.iter().map(|t| t.example()).collect::<Vec<_>>(),
        }),
        "id" | "after" => json!({ "type": "string" }),
        "on" | "until" => json!({ "$ref": "#/$defs/trigger" }),
        "direction" => json!({ "enum": ["both", "requests", "replies"], "default": "both" }),
        "mode" => json!({ "enum": ["black-hole", "reset", "stall"], "default": "black-hole" }),
        "data" => json!({ "enum": ["keep", "drop"], "default": "keep" }),
        _ => json!({ "$ref": "#/$defs/duration" }),
    }
}

fn object(properties: Map<String, Value>, without: &[&str]) -> Value {
    let properties: Map<_, _> = properties
        .into_iter()
        .filter(|(k, _)| !without.contains(&k.as_str()))
        .collect();
    json!({ "type": "object", "additionalProperties": false, "properties": properties })
}
