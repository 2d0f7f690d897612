//! From the redacted form and the private values back to a config.
//!
//! The form is read by the decoder that reads config files, with each private value in its
//! place, so that there is one set of rules.

use camino::Utf8Path;
use secrecy::zeroize::Zeroizing;
use serde_json::Value;

use crate::{
    decode,
    finding::Findings,
    model::Config,
    private::PrivateValues,
    tree::{self, Entry, Node, Place, Tag},
};

/// Puts a config together.
pub(crate) fn config(form: &Value, private: &PrivateValues) -> Result<Config, Findings> {
    decode::restored(&node(form), Utf8Path::new("generation"), private)
}

fn node(value: &Value) -> Node {
    let value = match value {
        Value::Null => tree::Value::Null,
        Value::Bool(value) => tree::Value::Bool(*value),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => tree::Value::Integer(number.into()),
            (None, Some(number)) => tree::Value::Integer(number.into()),
            (None, None) => tree::Value::Float(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => tree::Value::Text(Zeroizing::new(text.clone())),
        Value::Array(items) => tree::Value::List(items.iter().map(node).collect()),
        Value::Object(entries) => tree::Value::Map(entries.iter().map(entry).collect()),
    };
    Node {
        place: Place::START,
        tag: Tag::None,
        value,
    }
}

fn entry((key, value): (&String, &Value)) -> Entry {
    Entry {
        key: key.clone(),
        key_place: Place::START,
        node: node(value),
    }
}
