//! A mapping with a known set of keys.

use std::collections::BTreeMap;

use super::{
    context::{Context, Report},
    path::{Path, segment},
};
use crate::{
    schema::Key,
    tree::{Entry, Node, Place, Tag, Value},
};

/// A value and where it stands.
#[derive(Clone, Copy)]
pub(crate) struct Field<'n> {
    pub(crate) context: &'n Context<'n>,
    pub(crate) node: &'n Node,
    pub(crate) path: &'n Path<'n>,
}

/// A mapping whose keys are checked against a table.
pub(crate) struct Section<'n> {
    context: &'n Context<'n>,
    path: &'n Path<'n>,
    place: Place,
    entries: &'n [Entry],
}

// === impl Field ===

impl<'n> Field<'n> {
    pub(crate) fn new(context: &'n Context<'n>, node: &'n Node, path: &'n Path<'n>) -> Self {
        Self {
            context,
            node,
            path,
        }
    }

    /// Reports an error about this value.
    pub(crate) fn error(&self, code: &'static str, message: impl Into<String>) {
        self.context
            .report(Report::error(code, self.node.place, self.path, message));
    }

    /// Reports an error about this value, and what would help.
    pub(crate) fn error_with(
        &self,
        code: &'static str,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.context
            .report(Report::error(code, self.node.place, self.path, message).hint(hint));
    }

    /// Reports that this value is of another type than `expected`.
    pub(crate) fn wrong_type(&self, expected: &str) {
        let found = match &self.node.value {
            Value::Null => {
                let hint = "give it a value, or remove the key";
                return self.error_with(
                    "config.wrong_type",
                    format!("has no value; expected {expected}"),
                    hint,
                );
            }
            Value::Bool(_) => "true or false",
            Value::Integer(_) | Value::Float(_) => "a number",
            Value::Text(_) => "text",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
        };
        self.error(
            "config.wrong_type",
            format!("expected {expected}, found {found}"),
        );
    }

    /// Says whether this would be text if it were quoted.
    pub(crate) fn is_unquoted(&self) -> bool {
        matches!(
            self.node.value,
            Value::Bool(_) | Value::Integer(_) | Value::Float(_)
        )
    }

    /// Reports a tag that has no meaning at this value.
    pub(crate) fn refuse_tag(&self, private_is_known: bool) {
        match self.node.tag {
            Tag::None => {}
            Tag::Private if private_is_known => {}
            Tag::Private => self.error_with(
                "config.private_not_allowed",
                "`!private` has no meaning here",
                "it marks values in which `${…}` is read, such as those of `env` and `headers`",
            ),
            Tag::Unknown => self.error_with(
                "config.unknown_tag",
                "an unknown tag",
                "the one known tag is `!private`",
            ),
        }
    }

    /// Returns the entries of this mapping. Nothing at all (`env:`) is an empty one.
    pub(crate) fn entries(&self, expected: &str) -> &'n [Entry] {
        match &self.node.value {
            Value::Map(entries) => entries,
            Value::Null => &[],
            Value::Bool(_)
            | Value::Integer(_)
            | Value::Float(_)
            | Value::Text(_)
            | Value::List(_) => {
                self.wrong_type(expected);
                &[]
            }
        }
    }

    /// Returns the items of this list. Nothing at all (`args:`) is an empty one.
    pub(crate) fn items(&self, expected: &str) -> &'n [Node] {
        match &self.node.value {
            Value::List(items) => items,
            Value::Null => &[],
            Value::Bool(_)
            | Value::Integer(_)
            | Value::Float(_)
            | Value::Text(_)
            | Value::Map(_) => {
                self.wrong_type(expected);
                &[]
            }
        }
    }

    /// Takes this value as a mapping from names that people choose.
    pub(crate) fn names<T>(
        &self,
        expected: &str,
        decode: impl Fn(&Field<'_>) -> T,
    ) -> BTreeMap<String, T> {
        let mut values = BTreeMap::new();
        for entry in self.entries(expected) {
            let path = self.path.key(&entry.key);
            let field = Field::new(self.context, &entry.node, &path);
            if entry.key.is_empty() || entry.key.chars().any(char::is_control) {
                let message = "expected a name without control characters";
                let place = entry.key_place;
                let report = Report::error("config.invalid_name", place, path, message);
                self.context.report(report);
            }
            if entry.key.contains("${") {
                field.refuse_interpolation();
            }
            values.insert(entry.key.clone(), decode(&field));
        }
        values
    }

    /// Takes this value as a section with the keys `known`, and reports all other keys.
    pub(crate) fn section(&self, known: &'static [Key]) -> Section<'n> {
        self.section_with(known, &[])
    }

    /// Like [`Field::section`], with keys of text that stand in a redacted form only.
    pub(crate) fn section_with(&self, known: &'static [Key], extra: &[&str]) -> Section<'n> {
        self.refuse_tag(false);
        let entries = self.entries("a mapping");
        let section = Section {
            context: self.context,
            path: self.path,
            place: self.node.place,
            entries,
        };
        section.check_keys(known, extra);
        section
    }
}

// === impl Section ===

impl<'n> Section<'n> {
    /// Moves the place of the section itself, such as to its key.
    pub(crate) fn at(self, place: Place) -> Self {
        Self { place, ..self }
    }

    /// Reports an error about the section itself.
    pub(crate) fn report(
        &self,
        code: &'static str,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.context
            .report(Report::error(code, self.place, self.path, message).hint(hint));
    }

    /// Hands the value of `key` to `decode`, if the key is there.
    pub(crate) fn with<T>(&self, key: Key, decode: impl FnOnce(Field<'_>) -> T) -> Option<T> {
        let entry = self.entry(key)?;
        let path = self.path.key(&entry.key);
        Some(decode(Field::new(self.context, &entry.node, &path)))
    }

    /// Like [`Section::with`], for a `decode` that may find no usable value.
    pub(crate) fn get<T>(
        &self,
        key: Key,
        decode: impl FnOnce(Field<'_>) -> Option<T>,
    ) -> Option<T> {
        self.with(key, decode).flatten()
    }

    /// Replaces `target` by the value of `key`, if there is a usable one.
    pub(crate) fn set<T>(
        &self,
        key: Key,
        target: &mut T,
        decode: impl FnOnce(Field<'_>) -> Option<T>,
    ) {
        if let Some(value) = self.get(key, decode) {
            *target = value;
        }
    }

    /// Returns the text of a key that stands in a redacted form only.
    pub(crate) fn extra(&self, key: &str) -> Option<&str> {
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        let text = entry.node.value.as_text();
        text.filter(|_| self.context.is_restored())
    }

    /// Says whether this is the redacted form of the server inside the process.
    pub(crate) fn is_builtin(&self) -> bool {
        let transport = self.entry(crate::schema::server::TRANSPORT);
        let word = transport.and_then(|entry| entry.node.value.as_text());
        word == Some("builtin") && self.context.is_restored()
    }

    /// Says whether `key` is there.
    pub(crate) fn has(&self, key: Key) -> bool {
        self.entry(key).is_some()
    }

    /// Reports an error about `key`, if it is there: at the key, not at its value.
    pub(crate) fn refuse(
        &self,
        key: Key,
        code: &'static str,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        if let Some(entry) = self.entry(key) {
            let path = self.path.key(&entry.key);
            self.context
                .report(Report::error(code, entry.key_place, path, message).hint(hint));
        }
    }

    fn entry(&self, key: Key) -> Option<&'n Entry> {
        self.entries.iter().find(|entry| key.is(&entry.key))
    }

    fn check_keys(&self, known: &'static [Key], extra: &[&str]) {
        let mut seen = Vec::<(Key, &Entry)>::new();
        for entry in self.entries {
            let Some(&key) = known.iter().find(|key| key.is(&entry.key)) else {
                if !extra.contains(&entry.key.as_str()) {
                    self.unknown_key(entry, known);
                }
                continue;
            };
            match seen.iter().find(|(other, _)| other.name == key.name) {
                Some((_, first)) => self.second_spelling(entry, first),
                None => seen.push((key, entry)),
            }
        }
    }

    fn unknown_key(&self, entry: &Entry, known: &'static [Key]) {
        let path = self.path.key(&entry.key);
        let report = Report::error("config.unknown_key", entry.key_place, path, "unknown key");
        let hint = match nearest(&entry.key, known.iter().map(|key| key.name)) {
            Some(name) => format!("did you mean `{name}`?"),
            None => {
                let names: Vec<_> = known.iter().map(|key| format!("`{}`", key.name)).collect();
                format!("known here: {}", names.join(", "))
            }
        };
        self.context.report(report.hint(hint));
    }

    fn second_spelling(&self, entry: &Entry, first: &Entry) {
        let Place { line, column } = first.key_place;
        let message = format!(
            "means the same as `{}` at {line}:{column}",
            segment(&first.key)
        );
        let path = self.path.key(&entry.key);
        let report = Report::error("config.conflicting_keys", entry.key_place, path, message);
        self.context.report(report.hint("keep one of the two"));
    }
}

/// Returns the word of `known` that `word` is most likely a slip of.
pub(crate) fn nearest(
    word: &str,
    known: impl Iterator<Item = &'static str>,
) -> Option<&'static str> {
    if word.len() > 64 {
        return None;
    }
    let word = word.to_lowercase().replace('-', "_");
    known
        .map(|name| (distance(&word, name), name))
        .filter(|(distance, name)| *distance <= name.len().max(3) / 3)
        .min()
        .map(|(_, name)| name)
}

// camelCase and snake_case differ by underscores only, and count as the same.
fn distance(word: &str, name: &str) -> usize {
    if word.replace('_', "") == name.replace('_', "") {
        0
    } else {
        strsim::osa_distance(word, name)
    }
}
