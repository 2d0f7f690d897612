//! The JSON Schema of the frames: a table that tests hold against the types.

use serde_json::{Map, Value, json};

use crate::{
    OLDEST_VERSION, VERSION, chunk,
    frame::{Frame, ToGateway, ToWorker},
};

/// What a field holds.
enum Kind {
    Text,
    Id,
    Flag,
    /// A whole number, and the least there is.
    Number(u64),
    /// Any JSON value.
    Any,
    /// Any JSON object.
    Mapping,
    Words(&'static [&'static str]),
    Object(&'static [Field]),
    List(&'static [Field]),
    /// A mapping whose values are such objects.
    Map(&'static [Field]),
    /// A text or `null`.
    TextOrNull,
    Texts,
}

struct Field {
    name: &'static str,
    required: bool,
    kind: Kind,
}

const fn must(name: &'static str, kind: Kind) -> Field {
    Field {
        name,
        required: true,
        kind,
    }
}

const fn may(name: &'static str, kind: Kind) -> Field {
    Field {
        name,
        required: false,
        kind,
    }
}

const EXECUTION: Field = must("execution_id", Kind::Id);

const SERVER: &[Field] = &[
    must("name", Kind::Text),
    must("state", Kind::Text),
    must("ready", Kind::Flag),
    may("reason", Kind::Text),
    may("last_error", Kind::Text),
    may("tools", Kind::Number(0)),
    may("pid", Kind::Number(1)),
    may("restarts", Kind::Number(0)),
];

const POLICY: &[Field] = &[
    must("config", Kind::Mapping),
    must("servers", Kind::List(&[must("name", Kind::Text)])),
    must("cwd", Kind::Text),
];

const PRIVATE: &[Field] = &[may("value", Kind::TextOrNull), may("secrets", Kind::Texts)];

const REVOKED: &[Field] = &[
    must("kind", Kind::Words(&["server", "tool", "session"])),
    must("name", Kind::Text),
    must("reason", Kind::Text),
    must("number", Kind::Number(1)),
];

const FAULT: &[Field] = &[must("code", Kind::Text), must("message", Kind::Text)];

/// The fields of the frames' bodies.
const BODIES: &[(&[&str], &[Field])] = &[
    (
        &["hello"],
        &[
            must("pid", Kind::Number(1)),
            must("birth", Kind::Number(0)),
            must("version", Kind::Number(1)),
        ],
    ),
    (
        &["bootstrap"],
        &[
            must("version", Kind::Number(1)),
            must("profile_id", Kind::Text),
            must("session_id", Kind::Id),
            must("generation", Kind::Number(1)),
            must("policy_seq", Kind::Number(1)),
            must("pid", Kind::Number(1)),
            must("birth", Kind::Number(0)),
            must("epoch", Kind::Number(0)),
            must("heartbeat_ms", Kind::Number(1)),
            must("silence_ms", Kind::Number(1)),
            must("policy", Kind::Object(POLICY)),
            must("private", Kind::Map(PRIVATE)),
            may("revoked", Kind::List(REVOKED)),
        ],
    ),
    (
        &["turn"],
        &[
            EXECUTION,
            must("secret", Kind::Text),
            must("epoch", Kind::Number(0)),
            must("payload", Kind::Any),
            may("deadline_ms", Kind::Number(0)),
        ],
    ),
    (&["adopt"], &[EXECUTION, must("secret", Kind::Text)]),
    (
        &["refused"],
        &[
            EXECUTION,
            must("code", Kind::Text),
            must("message", Kind::Text),
        ],
    ),
    (
        &["adopted", "finish", "finished", "interrupt"],
        &[EXECUTION],
    ),
    (
        &["event"],
        &[
            EXECUTION,
            must("sequence", Kind::Number(1)),
            must(
                "kind",
                Kind::Words(&["call_started", "progress", "call_ended"]),
            ),
            must("call", Kind::Number(0)),
            may("server", Kind::Text),
            may("tool", Kind::Text),
            may("code", Kind::Text),
            may("elapsed_ms", Kind::Number(0)),
            may("data", Kind::Any),
        ],
    ),
    (
        &["result"],
        &[
            EXECUTION,
            must(
                "outcome",
                Kind::Words(&["completed", "failed", "interrupted"]),
            ),
            may("result", Kind::Any),
            may("failure", Kind::Object(FAULT)),
        ],
    ),
    (
        &["ready", "servers"],
        &[must("servers", Kind::List(SERVER))],
    ),
    (
        &["failure"],
        &[
            must("code", Kind::Text),
            must("message", Kind::Text),
            may("execution_id", Kind::Id),
        ],
    ),
    (&["revocations"], &[must("revoked", Kind::List(REVOKED))]),
    (&["heartbeat"], &[must("sequence", Kind::Number(0))]),
    (
        &[chunk::TAG],
        &[
            must("stream", Kind::Number(0)),
            must("index", Kind::Number(0)),
            must("last", Kind::Flag),
            must("data", Kind::Text),
        ],
    ),
    (&["stop", "retire"], &[]),
];

/// Returns the fields of a frame's body.
fn fields(tag: &str) -> &'static [Field] {
    let mut bodies = BODIES.iter();
    let body = bodies.find(|(tags, _)| tags.contains(&tag));
    body.map_or(&[], |(_, fields)| fields)
}

/// Returns the JSON Schema of all frames: `$defs/to_worker` and `$defs/to_gateway` are what each side may send.
pub fn json_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": format!("The frames between a Genlock gateway and its workers, version {VERSION}"),
        "description": "One frame is one line of UTF-8 JSON of at most 4 MiB. A longer one travels as the text in `data` of \
                        consecutive chunks. Fields that are not known are ignored; a tag that is not known is an error.",
        "oneOf": [{"$ref": "#/$defs/to_worker"}, {"$ref": "#/$defs/to_gateway"}],
        "$defs": {
            "to_worker": {"oneOf": side(ToWorker::TAGS)},
            "to_gateway": {"oneOf": side(ToGateway::TAGS)},
        },
    })
}

fn side(tags: &[&str]) -> Vec<Value> {
    let tags = tags.iter().copied().chain([chunk::TAG]);
    tags.map(frame).collect()
}

fn frame(tag: &str) -> Value {
    let own = fields(tag);
    let mut properties = Map::new();
    properties.insert(
        "v".to_owned(),
        json!({"type": "integer", "minimum": OLDEST_VERSION}),
    );
    properties.insert("type".to_owned(), json!({"const": tag}));
    let required = ["v", "type"].into_iter().chain(required(own));
    let required: Vec<_> = required.collect();
    properties.extend(own.iter().map(property));
    json!({"type": "object", "title": tag, "required": required, "properties": properties})
}

fn required(fields: &'static [Field]) -> impl Iterator<Item = &'static str> {
    fields
        .iter()
        .filter(|field| field.required)
        .map(|field| field.name)
}

fn property(field: &Field) -> (String, Value) {
    (field.name.to_owned(), kind(&field.kind))
}

fn kind(kind: &Kind) -> Value {
    match kind {
        Kind::Text => json!({"type": "string"}),
        Kind::Id => json!({"type": "string", "pattern": "^[!-~]{1,256}$"}),
        Kind::Flag => json!({"type": "boolean"}),
        Kind::Number(least) => json!({"type": "integer", "minimum": least}),
        Kind::Any => json!(true),
        Kind::Mapping => json!({"type": "object"}),
        Kind::Words(words) => json!({"enum": words}),
        Kind::Object(fields) => object(fields),
        Kind::List(fields) => json!({"type": "array", "items": object(fields)}),
        Kind::Map(fields) => json!({"type": "object", "additionalProperties": object(fields)}),
        Kind::TextOrNull => json!({"type": ["string", "null"]}),
        Kind::Texts => json!({"type": "array", "items": {"type": "string"}}),
    }
}

fn object(fields: &'static [Field]) -> Value {
    let properties: Map<_, _> = fields.iter().map(property).collect();
    let required: Vec<_> = required(fields).collect();
    json!({"type": "object", "required": required, "properties": properties})
}
