//! Sections that are kept as they are written.

use std::collections::BTreeMap;

use serde_json::Number;

use crate::text::Text;

/// A value of any form, as JSON has it, whose texts may be private.
///
/// Has no `Serialize`. `Debug` shows no private value.
#[derive(Clone, Debug, PartialEq)]
pub enum Free {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A number. A whole one is an integer, however it was written.
    Number(Number),
    /// Text.
    Text(Text),
    /// Values in their order.
    List(Vec<Free>),
    /// Values by name.
    Map(BTreeMap<String, Free>),
}

// === impl Free ===

impl Free {
    /// Returns the value of `key`, where this is a mapping that has it.
    pub fn get(&self, key: &str) -> Option<&Free> {
        match self {
            Self::Map(entries) => entries.get(key),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::Text(_) | Self::List(_) => None,
        }
    }

    /// Returns the text, where this is one.
    pub fn as_text(&self) -> Option<&Text> {
        match self {
            Self::Text(text) => Some(text),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::List(_) | Self::Map(_) => None,
        }
    }

    /// Returns the value with its private texts, for use and not for show.
    pub fn expose(&self) -> serde_json::Value {
        match self {
            Self::Null => serde_json::Value::Null,
            Self::Bool(value) => (*value).into(),
            Self::Number(number) => number.clone().into(),
            Self::Text(text) => text.expose().into(),
            Self::List(items) => items.iter().map(Self::expose).collect(),
            Self::Map(entries) => entries
                .iter()
                .map(|(key, value)| (key.clone(), value.expose()))
                .collect(),
        }
    }
}
