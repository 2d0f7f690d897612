//! The canonical form of a config, and its private values: both from one walk.
//!
//! The walk is the only way from a config to something that may be shown. It writes the shown
//! form of a private text into the form and the text itself into the private values in the same
//! step, so that no value can be in one and not in the other.

mod config;
mod server;

pub(crate) use self::server::UNAVAILABLE;

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Map, Number, Value};

use crate::{
    free::Free,
    private::{PrivateValue, push_token},
    schema::Key,
    text::Text,
};

/// One walk.
#[derive(Default)]
pub(crate) struct Walk {
    /// Where it is.
    pointer: String,
    /// What it found that is private.
    pub(crate) private: BTreeMap<String, PrivateValue>,
}

/// A mapping that is being written.
pub(crate) struct Entries<'w> {
    walk: &'w mut Walk,
    /// In the order of writing.
    entries: Vec<(String, Value)>,
}

// === impl Walk ===

impl Walk {
    /// Starts a walk at `pointer`.
    pub(crate) fn at(pointer: String) -> Self {
        Self {
            pointer,
            private: BTreeMap::new(),
        }
    }

    fn text(&mut self, text: &Text) -> Value {
        if let Some(value) = text.private_value() {
            self.private.insert(self.pointer.clone(), value.clone());
        }
        text.shown().into()
    }

    fn map(&mut self, write: impl FnOnce(&mut Entries<'_>)) -> Value {
        let mut map = Entries {
            walk: self,
            entries: Vec::new(),
        };
        write(&mut map);
        let mut entries = map.entries;
        entries.sort_by(|(one, _), (other, _)| one.cmp(other));
        Value::Object(entries.into_iter().collect())
    }

    fn mapping<'v, T: 'v>(
        &mut self,
        entries: impl IntoIterator<Item = (&'v str, &'v T)>,
        write: impl Fn(&mut Self, &T) -> Value,
    ) -> Value {
        self.map(|map| {
            for (key, value) in entries {
                map.entry(key, |walk| write(walk, value));
            }
        })
    }

    fn list<'v, T: 'v>(
        &mut self,
        items: impl IntoIterator<Item = &'v T>,
        write: impl Fn(&mut Self, &T) -> Value,
    ) -> Value {
        let items = items.into_iter().enumerate();
        items
            .map(|(index, item)| self.below(&index.to_string(), |walk| write(walk, item)))
            .collect()
    }

    fn texts(&mut self, texts: &BTreeMap<String, Text>) -> Value {
        let texts = texts.iter().map(|(key, text)| (key.as_str(), text));
        self.mapping(texts, Self::text)
    }

    fn free(&mut self, value: &Free) -> Value {
        match value {
            Free::Null => Value::Null,
            Free::Bool(value) => (*value).into(),
            Free::Number(number) => number.clone().into(),
            Free::Text(text) => self.text(text),
            Free::List(items) => self.list(items, Self::free),
            Free::Map(entries) => {
                let entries = entries.iter().map(|(key, value)| (key.as_str(), value));
                self.mapping(entries, Self::free)
            }
        }
    }

    fn below(&mut self, token: &str, write: impl FnOnce(&mut Self) -> Value) -> Value {
        let length = self.pointer.len();
        push_token(&mut self.pointer, token);
        let value = write(self);
        self.pointer.truncate(length);
        value
    }
}

// === impl Entries ===

impl Entries<'_> {
    fn entry(&mut self, key: &str, write: impl FnOnce(&mut Walk) -> Value) {
        let value = self.walk.below(key, write);
        self.entries.push((key.to_owned(), value));
    }

    fn with(&mut self, key: Key, write: impl FnOnce(&mut Walk) -> Value) {
        self.entry(key.name, write);
    }

    fn set(&mut self, key: Key, value: impl Into<Value>) {
        self.entry(key.name, |_| value.into());
    }

    fn section(&mut self, key: Key, write: impl FnOnce(&mut Entries<'_>)) {
        self.with(key, |walk| walk.map(write));
    }

    fn set_some(&mut self, key: Key, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.set(key, value);
        }
    }

    fn some_text(&mut self, key: Key, text: Option<&Text>) {
        if let Some(text) = text {
            self.with(key, |walk| walk.text(text));
        }
    }

    fn some_free(&mut self, key: Key, value: Option<&Free>) {
        if let Some(value) = value {
            self.with(key, |walk| walk.free(value));
        }
    }
}

/// A number of seconds: whole where it is.
fn seconds(duration: Duration) -> Value {
    match duration.subsec_nanos() {
        0 => duration.as_secs().into(),
        _ => Number::from_f64(duration.as_secs_f64()).map_or(Value::Null, Value::Number),
    }
}

/// Sorts the keys of every mapping, whatever features `serde_json` was built with.
pub(crate) fn sorted(value: Value) -> Value {
    match value {
        Value::Object(entries) => {
            let entries: BTreeMap<_, _> = entries.into_iter().collect();
            let entries = entries.into_iter().map(|(key, value)| (key, sorted(value)));
            Value::Object(entries.collect::<Map<_, _>>())
        }
        Value::Array(items) => items.into_iter().map(sorted).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}
