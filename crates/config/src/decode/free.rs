//! Sections of any form.

use std::collections::BTreeMap;

use serde_json::Number;

use super::{section::Field, text::Privacy};
use crate::{
    free::Free,
    privacy,
    tree::{Tag, Value},
};

// === impl Field ===

impl Field<'_> {
    /// Takes this value as a mapping of any form.
    ///
    /// Texts are filled in. Private are those under a secret name or a `!private` tag, those
    /// with a reference, and parts of URLs.
    pub(crate) fn free_mapping(&self) -> Option<Free> {
        match &self.node.value {
            Value::Map(_) => self.free(false),
            Value::Null => Some(Free::Map(BTreeMap::new())),
            Value::Bool(_)
            | Value::Integer(_)
            | Value::Float(_)
            | Value::Text(_)
            | Value::List(_) => {
                self.wrong_type("a mapping");
                None
            }
        }
    }

    fn free(&self, private: bool) -> Option<Free> {
        self.refuse_tag(true);
        let private = private || self.node.tag == Tag::Private;
        match &self.node.value {
            Value::Null => Some(Free::Null),
            Value::Bool(value) => Some(Free::Bool(*value)),
            Value::Integer(_) | Value::Float(_) if private => {
                let message = "expected text in a private place, found a number";
                self.error_with("config.wrong_type", message, "quote it");
                None
            }
            Value::Integer(value) => {
                let number = i64::try_from(*value)
                    .map(Number::from)
                    .or_else(|_| u64::try_from(*value).map(Number::from));
                self.number(number.ok())
            }
            Value::Float(value) => self.number(whole_or_float(*value)),
            Value::Text(_) => {
                let privacy = match private {
                    true => Privacy::Whole { secret: true },
                    false => Privacy::Url,
                };
                self.text(privacy).map(Free::Text)
            }
            Value::List(items) => {
                let items = items.iter().enumerate();
                let values = items.filter_map(|(index, node)| {
                    Field::new(self.context, node, &self.path.item(index)).free(private)
                });
                Some(Free::List(values.collect()))
            }
            Value::Map(entries) => {
                let mut values = BTreeMap::new();
                for entry in entries {
                    let path = self.path.key(&entry.key);
                    let field = Field::new(self.context, &entry.node, &path);
                    let private = private || field.is_private_by(&entry.key);
                    if let Some(value) = field.free(private) {
                        values.insert(entry.key.clone(), value);
                    }
                }
                Some(Free::Map(values))
            }
        }
    }

    // `max_tokens: 4096` counts tokens, and is none.
    fn is_private_by(&self, key: &str) -> bool {
        let number = matches!(self.node.value, Value::Integer(_) | Value::Float(_));
        let counts = number && key.to_lowercase().ends_with("tokens");
        privacy::is_secret_name(key) && !counts
    }

    fn number(&self, number: Option<Number>) -> Option<Free> {
        if number.is_none() {
            self.error("config.out_of_range", "a number that JSON does not hold");
        }
        number.map(Free::Number)
    }
}

/// A whole number is one however it is written.
fn whole_or_float(value: f64) -> Option<Number> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= EXACT {
        return Some(Number::from(value as i64));
    }
    Number::from_f64(value)
}
