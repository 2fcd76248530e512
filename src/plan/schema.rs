//! The workload file's JSON Schema, for editors: `fencepost schema workload`.
//!
//! Owns the schema, built from the same tables that the parser obeys, so that the two cannot part. Must not know how a
//! file is read.
use super::kinds::{COMMON_KEYS, KindInfo, WHEN_KEYS, kinds};
use super::message::{ACTIONS, EDGES, ERRORS};
use super::names::{LOCKS, OPERATIONS, RESULTS, expectable};
use super::read::keys_of;
use super::step::{OPS, STEP_KEYS, STEP_KINDS};
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
        "step": step(),
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
            "tap" => json!({ "type": "boolean", "default": false }),
            "seed" => json!({ "type": "integer", "minimum": 0 }),
            "fault" => json!({ "type": "array", "items": { "$ref": "#/$defs/fault" } }),
            "step" => json!({ "type": "array", "items": { "$ref": "#/$defs/step" } }),
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
            json!({ "enum": ["single", "independent", "sentinel", "etcd", "zookeeper"], "default": "single" })
        }
        ("cluster", "nodes") => json!({ "type": "integer", "minimum": 1, "maximum": 15 }),
        ("cluster", "persistence") => {
            json!({ "enum": ["none", "aof", "aof-everysec", "aof-always"], "default": "none" })
        }
        ("cluster", "reach") => {
            json!({ "enum": ["auto", "container", "published"], "default": "auto" })
        }
        ("cluster", "min_replicas") => json!({ "type": "integer", "minimum": 0, "maximum": 14 }),
        ("lock", "wait") => json!({ "type": "integer", "minimum": 0, "maximum": 14, "default": 0 }),
        ("lock", "name") => json!({ "enum": LOCKS.iter().map(|l| l.name).collect::<Vec<_>>() }),
        ("lock", "command" | "env" | "stick") | ("load", "clean") => texts,
        ("lock", "renew" | "respect_validity" | "fencing") => {
            json!({ "type": "boolean", "default": false })
        }
        ("lock", "bypass") => json!({ "type": "integer", "minimum": 0, "maximum": 1_000_000 }),
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
        ("load", "nodes") => json!({ "type": "object", "additionalProperties": texts }),
        ("resource", "fence") => {
            json!({ "enum": ["none", "write", "first-access"], "default": "none" })
        }
        ("cluster", "down_after" | "max_lag") | ("lock" | "load", _) => duration,
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
        "message": { "type": "string", "description": "A command such as SET, two words where the second counts, or *." },
        "edge": { "enum": EDGES, "default": "request" },
        "node": { "type": "string" },
        "key": { "type": "string" },
        "script": { "type": "string" },
        "word": { "type": "string" },
    });
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
        "oneOf": [{ "required": ["op", "result"] }, { "required": ["message"] }],
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

fn step() -> Value {
    let key = |key: &str| match key {
        "do" => json!({ "enum": OPS }),
        "until" => json!({ "$ref": "#/$defs/trigger" }),
        "worker" => json!({ "type": "integer", "minimum": 0, "maximum": 255, "default": 0 }),
        "background" => json!({ "type": "boolean", "default": false }),
        "then" => {
            let answer = json!({ "enum": ["ok", "fail", "info"] });
            json!({ "anyOf": [answer, { "type": "array", "items": answer }] })
        }
        "wait" | "ttl" | "for" | "pause" => json!({ "$ref": "#/$defs/duration" }),
        _ => json!({ "type": "string" }),
    };
    let keys = STEP_KEYS.iter().map(|k| ((*k).to_owned(), key(k)));
    let mut schema = object(keys.collect(), &[]);
    schema["allOf"] = json!([one_of_keys(STEP_KINDS)]);
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
            "examples": row.targets,
        }),
        "id" | "after" => json!({ "type": "string" }),
        "on" | "until" => json!({ "$ref": "#/$defs/trigger" }),
        "direction" => json!({ "enum": ["both", "requests", "replies"], "default": "both" }),
        "mode" => json!({ "enum": ["black-hole", "reset", "stall"], "default": "black-hole" }),
        "action" => json!({ "enum": ACTIONS }),
        "error" => json!({ "enum": ERRORS }),
        "connection" => json!({ "enum": ["keep", "close"], "default": "keep" }),
        "count" => json!({ "type": "integer", "minimum": 1, "maximum": 1_000_000 }),
        "data" => json!({ "enum": ["keep", "drop"], "default": "keep" }),
        key => {
            super::measures::schema(key).unwrap_or_else(|| json!({ "$ref": "#/$defs/duration" }))
        }
    }
}

fn object(properties: Map<String, Value>, without: &[&str]) -> Value {
    let properties: Map<_, _> = properties
        .into_iter()
        .filter(|(k, _)| !without.contains(&k.as_str()))
        .collect();
    json!({ "type": "object", "additionalProperties": false, "properties": properties })
}

#[cfg(test)]
mod tests {
    use super::schema;
    use serde_json::Value;

    /// Whether `v` fits `s`: the part of JSON Schema that [`schema`] uses, patterns apart.
    fn fits(root: &Value, s: &Value, v: &Value) -> bool {
        if let Some(path) = s["$ref"].as_str() {
            let target = root.pointer(path.trim_start_matches('#'));
            return fits(root, target.expect("a definition"), v);
        }
        let all = |key: &str| s[key].as_array().cloned().unwrap_or_default();
        let fitting = |key: &str| all(key).iter().filter(|s| fits(root, s, v)).count();
        let kind = match s["type"].as_str() {
            Some("object") => v.is_object(),
            Some("array") => v.is_array(),
            Some("string") => v.is_string(),
            Some("boolean") => v.is_boolean(),
            Some("integer") => v.is_u64(),
            Some("number") => v.is_number(),
            other => other.is_none(),
        };
        kind && (s.get("enum").is_none() || all("enum").contains(v))
            && s.get("const").is_none_or(|c| c == v)
            && fitting("allOf") == all("allOf").len()
            && (s.get("oneOf").is_none() || fitting("oneOf") == 1)
            && (s.get("anyOf").is_none() || fitting("anyOf") > 0)
            && all("required")
                .iter()
                .all(|k| v.get(k.as_str().unwrap_or_default()).is_some())
            && s["minimum"].as_f64().is_none_or(|m| v.as_f64() >= Some(m))
            && s["maximum"].as_f64().is_none_or(|m| v.as_f64() <= Some(m))
            && v.as_array().is_none_or(|items| {
                items
                    .iter()
                    .all(|i| s.get("items").is_none_or(|s| fits(root, s, i)))
            })
            && v.as_object().is_none_or(|o| {
                o.iter().all(|(key, value)| {
                    let schema = s["properties"].get(key).or(s.get("additionalProperties"));
                    match schema {
                        Some(Value::Bool(more)) => *more,
                        Some(s) => fits(root, s, value),
                        None => true,
                    }
                })
            })
    }

    fn valid(text: &str) -> bool {
        let schema = schema();
        let value: Value = toml::from_str(text).expect("TOML");
        fits(&schema, &schema, &value)
    }

    #[test]
    fn every_workload_fits_and_so_does_its_plan() {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/workloads");
        for entry in std::fs::read_dir(dir).expect("workloads/") {
            let path = entry.expect("an entry").path();
            if path.extension().is_none_or(|e| e != "toml") {
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("text");
            assert!(valid(&text), "{}", path.display());
            for plan in crate::plan::load(&path, &crate::plan::Overrides::default()).expect("plans")
            {
                assert!(valid(&plan.to_toml()), "{}", plan.to_toml());
            }
        }
    }

    #[test]
    fn what_the_parser_refuses_does_not_fit() {
        for wrong in [
            "lock = { nme = 'redlock' }",
            "lock = { name = 'redlok' }",
            "lock = { ttl = 500 }",
            "load = { clients = 0 }",
            "laod = {}",
            "expect.serivce = 'valid'",
            "variant.a.name = 'x'",
            "[[fault]]\nkind = 'client-pause'\ntarget = 'holder'\nat = '1s'",
            "[[fault]]\nkind = 'client-pause'\ntarget = 'holder'\nfor = '1s'",
            "[[fault]]\nkind = 'client-pause'\ntarget = 'holder'\nfor = '1s'\nat = '1s'\nevery = '1s'",
            "[[fault]]\nkind = 'client-kill'\ntarget = 'holder'\nat = '1s'\nfor = '1s'",
        ] {
            assert!(!valid(wrong), "{wrong}");
        }
    }
}
