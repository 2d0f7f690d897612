//! The published schema, held against what is really read and written.

use std::path::Path;

use genlock_frames::{Frame, ToGateway, ToWorker, json_schema};
use serde_json::Value;

use crate::{Any, lines};

const PUBLISHED: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/reference/frames.schema.json"
);

#[test]
#[expect(clippy::disallowed_methods, reason = "a test, asked by hand")]
fn the_published_schema_is_the_one_of_this_version() {
    let schema = serde_json::to_string_pretty(&json_schema()).unwrap() + "\n";
    if std::env::var_os("GENLOCK_REGENERATE").is_some() {
        std::fs::write(PUBLISHED, &schema).unwrap();
    }
    let published = std::fs::read_to_string(Path::new(PUBLISHED)).unwrap();
    assert!(
        published == schema,
        "run `GENLOCK_REGENERATE=1 cargo test -p genlock-frames` and look at the difference"
    );
}

/// The schema of the frame in a line.
fn of(line: &Value) -> Value {
    let schema = json_schema();
    let sides = [
        &schema["$defs"]["to_worker"]["oneOf"],
        &schema["$defs"]["to_gateway"]["oneOf"],
    ];
    let all = sides.iter().flat_map(|side| side.as_array().unwrap());
    let mut own = all.filter(|frame| frame["properties"]["type"]["const"] == line["type"]);
    own.next().unwrap().clone()
}

/// Everything in `value` that `schema` does not allow. Only what the schema of the frames uses is understood.
fn wrong(schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    let Some(schema) = schema.as_object() else {
        return;
    };
    let is = |word: &str| match word {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64(),
        "null" => value.is_null(),
        word => panic!("{word}"),
    };
    let typed = match schema.get("type") {
        None => true,
        Some(Value::String(word)) => is(word),
        Some(words) => words
            .as_array()
            .unwrap()
            .iter()
            .any(|word| is(word.as_str().unwrap())),
    };
    let listed = schema
        .get("enum")
        .is_none_or(|words| words.as_array().unwrap().contains(value));
    let constant = schema.get("const").is_none_or(|constant| constant == value);
    let enough = schema
        .get("minimum")
        .is_none_or(|least| value.as_u64() >= least.as_u64());
    if !(typed && listed && constant && enough) {
        found.push(at.to_owned());
    }
    for name in schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        if value.get(name.as_str().unwrap()).is_none() {
            found.push(format!("{at}/{name} is missing"));
        }
    }
    let empty = serde_json::Map::new();
    let properties = schema
        .get("properties")
        .and_then(Value::as_object)
        .unwrap_or(&empty);
    for (name, value) in value.as_object().into_iter().flatten() {
        let at = format!("{at}/{name}");
        match properties
            .get(name)
            .or_else(|| schema.get("additionalProperties"))
        {
            Some(schema) => wrong(schema, value, &at, found),
            None if schema.contains_key("properties") => found.push(format!("{at} is unknown")),
            None => {}
        }
    }
    if let Some(items) = schema.get("items") {
        for value in value.as_array().into_iter().flatten() {
            wrong(items, value, &format!("{at}/…"), found);
        }
    }
}

#[test]
fn every_frame_is_as_the_schema_says() {
    let mut tags = Vec::new();
    for line in lines() {
        let value: Value = serde_json::from_str(line).unwrap();
        let mut found = Vec::new();
        wrong(&of(&value), &value, "", &mut found);
        assert_eq!(found, [""; 0], "{line}");
        tags.push(value["type"].as_str().unwrap().to_owned());
    }
    let known = ToWorker::TAGS.iter().chain(ToGateway::TAGS);
    for tag in known {
        assert!(tags.iter().any(|seen| seen == tag), "no example of {tag}");
    }
}

#[test]
fn what_the_schema_requires_is_what_a_reader_requires() {
    for line in lines() {
        let value: Value = serde_json::from_str(line).unwrap();
        let required = of(&value)["required"].clone();
        for name in value.as_object().unwrap().keys() {
            let mut without = value.clone();
            without.as_object_mut().unwrap().remove(name);
            let read = Any::read(&without.to_string());
            let is_required = required.as_array().unwrap().contains(&name.as_str().into());
            assert_eq!(
                read.is_err(),
                is_required,
                "{} without {name}",
                value["type"]
            );
        }
    }
}

#[test]
fn a_wrong_frame_would_be_noticed() {
    let line: Value = serde_json::from_str(lines().next().unwrap()).unwrap();
    let schema = of(&line);
    for (name, planted) in [
        ("pid", Value::from("71")),
        ("pid", Value::from(0)),
        ("more", Value::Null),
    ] {
        let mut changed = line.clone();
        changed[name] = planted;
        let mut found = Vec::new();
        wrong(&schema, &changed, "", &mut found);
        assert_eq!(found.len(), 1, "{name}");
    }
}
