//! The JSON Schema of the config.

use serde_json::{Map, Value, json};

use super::{Key, Kind, Serving, Verdict, top};
use crate::{
    canonical::Walk,
    model::Config,
    server::{ServerDefinition, ServerName, StdioDefinition, TransportDefinition},
    text::Text,
};

/// Defaults that other keys decide on, or that only stand for a required key.
const NO_DEFAULT: &[&str] = &["command", "prefix", "scope", "surface", "transport"];

/// Returns the JSON Schema (2020-12) of the config file, for editors.
///
/// It is as strict as it can be about a document alone. What it cannot say, such as that two
/// servers have the same prefix, loading says.
///
/// ```
/// let schema = genlock_config::json_schema();
/// assert_eq!(schema["properties"]["drain_s"]["default"], 300);
/// ```
pub fn json_schema() -> Value {
    let mut walk = Walk::default();
    let defaults = walk.config(&Config::default());
    let mut schema = section(top::ALL, Some(&defaults));
    let keys = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Genlock configuration",
        "type": "object",
    });
    if let (Some(schema), Value::Object(keys)) = (schema.as_object_mut(), keys) {
        schema.extend(keys);
    }
    schema
}

fn section(keys: &[Key], defaults: Option<&Value>) -> Value {
    let mut properties = Map::new();
    for key in keys {
        let default = defaults.and_then(|defaults| defaults.get(key.name));
        let mut schema = kind(key, key.kind, default);
        describe(key, default, &mut schema);
        for alias in key.aliases {
            let reference = format!("Another spelling of `{}`.", key.name);
            let mut again = schema.clone();
            again["description"] = reference.into();
            properties.insert((*alias).to_owned(), again);
        }
        properties.insert(key.name.to_owned(), schema);
    }
    json!({
        "type": ["object", "null"],
        "properties": properties,
        "additionalProperties": false,
    })
}

fn describe(key: &Key, default: Option<&Value>, schema: &mut Value) {
    let served = match key.serving {
        Serving::Live | Serving::LiveBut(_) | Serving::ByKey => "",
        Serving::Restart | Serving::RestartBut(_) => " A change needs a restart.",
        Serving::Not(judge) if judge(&crate::tree::Value::Bool(true)) == Verdict::Refuse => {
            " Refused by this version."
        }
        Serving::Not(_) => " Not acted upon by this version.",
    };
    schema["description"] = format!("{}{served}", key.doc).into();
    let is_section = matches!(key.kind, Kind::Section(_));
    if let Some(default) = default
        && !is_section
        && !NO_DEFAULT.contains(&key.name)
    {
        schema["default"] = default.clone();
    }
}

fn kind(key: &Key, kind_of: Kind, default: Option<&Value>) -> Value {
    match kind_of {
        Kind::Boolean => json!({ "type": "boolean" }),
        Kind::Count(range) => json!({
            "type": "integer", "minimum": range.start(), "maximum": range.end(),
        }),
        Kind::Size(range) => either(
            &json!({ "type": "integer", "minimum": range.start(), "maximum": range.end() }),
            "^[0-9]+ *(KiB|MiB|GiB)$",
        ),
        Kind::Duration(range) => {
            let (least, most) = (range.start().as_secs_f64(), range.end().as_secs_f64());
            either(
                &json!({ "type": "number", "minimum": least, "maximum": most }),
                "^[0-9]+(\\.[0-9]+)? *(ms|s|m|h)$",
            )
        }
        Kind::Word(words) => json!({ "enum": words }),
        Kind::Label(None) | Kind::Text => json!({ "type": "string" }),
        Kind::Label(Some(pattern)) => json!({ "type": "string", "pattern": pattern }),
        Kind::Section(keys) => section(keys, default),
        Kind::Map(Kind::Section(keys)) if key.is(top::MCP_SERVERS.name) => json!({
            "type": ["object", "null"],
            "additionalProperties": server(keys),
        }),
        Kind::Map(value) => json!({
            "type": ["object", "null"],
            "additionalProperties": kind(key, *value, None),
        }),
        Kind::List(item) => json!({
            "type": ["array", "null"],
            "items": kind(key, *item, None),
        }),
        Kind::OneOf(kinds) => {
            let kinds: Vec<_> = kinds
                .iter()
                .map(|kind_of| kind(key, *kind_of, None))
                .collect();
            json!({ "anyOf": kinds })
        }
        Kind::Free => json!({ "type": ["object", "null"] }),
        Kind::Tool => json!({
            "type": "object",
            "properties": { "name": { "type": "string" } },
            "required": ["name"],
        }),
    }
}

fn either(number: &Value, pattern: &str) -> Value {
    json!({ "anyOf": [number, { "type": "string", "pattern": pattern }] })
}

fn server(keys: &[Key]) -> Value {
    let stdio = StdioDefinition::new(Text::plain("program"));
    let transport = TransportDefinition::Stdio(stdio);
    let definition = ServerDefinition::new(ServerName::demo(), transport);
    let defaults = Walk::default().server(&definition);
    let mut schema = section(keys, Some(&defaults));
    schema["type"] = "object".into();
    let required = |key: &str| json!({ "required": [key] });
    schema["oneOf"] = json!([required("command"), required("url"), required("endpoint")]);
    schema
}
