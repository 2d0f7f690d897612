//! Puts what a document means and where its nodes stand together.

use std::collections::HashMap;

use super::{
    Entry, Node, Place, Value,
    meaning::{self, Meaningless, Raw, RawValue, Reason},
    places::{At, Places},
};
use crate::decode::Path;

/// Faults beyond this many are only counted.
const MAX_FAULTS: usize = 200;

/// Something that is wrong with a document whatever its schema is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) place: Place,
    pub(crate) path: String,
    pub(crate) kind: FaultKind,
}

/// Faults in the order of the document.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    pub(crate) first: Vec<Fault>,
    /// How many more there are.
    pub(crate) more: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// The document has no meaning.
    Meaningless(Reason),
    DuplicateKey {
        first: Place,
    },
    MergeKey,
    KeyNotText,
}

/// Reads a document: the tree, as far as there is one, and every fault.
pub(crate) fn read(text: &str, json: bool) -> (Option<Node>, Faults) {
    let (json, meaning) = meaning_of(text, json);
    match meaning {
        Ok(raw) if matches!(raw.value, RawValue::Null) => {
            let fault = Fault {
                place: Place::START,
                path: String::new(),
                kind: FaultKind::Meaningless(Reason::Empty),
            };
            (None, Faults::one(fault))
        }
        Ok(raw) => {
            let places = if json {
                Places::of_json(text)
            } else {
                Places::of_yaml(text)
            };
            let mut faults = Faults::default();
            let node = merge(raw, places.root(), &Path::Root, &mut faults);
            (Some(node), faults)
        }
        Err(meaningless) => (None, Faults::one(fault_of(meaningless, text))),
    }
}

/// Finds what a document means, and whether it is JSON.
fn meaning_of(text: &str, json: bool) -> (bool, Result<Raw, Meaningless>) {
    // Programs write JSON into YAML files, where it means the same and takes the YAML reader far longer.
    if !json && text.trim_start().starts_with('{') {
        let meaning = meaning::json(text);
        if meaning.is_ok() {
            return (true, meaning);
        }
    }
    let meaning = if json {
        meaning::json(text)
    } else {
        meaning::yaml(text)
    };
    (json, meaning)
}

// === impl Faults ===

impl Faults {
    fn one(fault: Fault) -> Self {
        Self {
            first: vec![fault],
            more: 0,
        }
    }

    // Paths may be long, so that only as many are kept as are of use.
    fn push(&mut self, place: Place, path: &Path<'_>, kind: FaultKind) {
        if self.first.len() < MAX_FAULTS {
            self.first.push(Fault {
                place,
                path: path.to_string(),
                kind,
            });
        } else {
            self.more += 1;
        }
    }
}

fn fault_of(Meaningless { reason, place }: Meaningless, text: &str) -> Fault {
    let number = |number: usize| u32::try_from(number.max(1)).unwrap_or(u32::MAX);
    let known = place.map(|(line, column)| Place {
        line: number(line),
        column: number(column),
    });
    let second =
        (reason == Reason::SeveralDocuments).then(|| Places::of_yaml(text).second_document);
    let place = second.flatten().or(known);
    Fault {
        place: place.unwrap_or(Place::START),
        path: String::new(),
        kind: FaultKind::Meaningless(reason),
    }
}

fn merge(raw: Raw, at: At<'_>, path: &Path<'_>, faults: &mut Faults) -> Node {
    let value = match raw.value {
        RawValue::Null => Value::Null,
        RawValue::Bool(value) => Value::Bool(value),
        RawValue::Integer(value) => Value::Integer(value),
        RawValue::Float(value) => Value::Float(value),
        RawValue::Text(value) => Value::Text(value),
        RawValue::List(items) => Value::List(
            items
                .into_iter()
                .enumerate()
                .map(|(index, item)| merge(item, at.item(index), &path.item(index), faults))
                .collect(),
        ),
        RawValue::Map(entries) => Value::Map(merge_entries(entries, at, path, faults)),
    };
    Node {
        place: at.place(),
        tag: raw.tag,
        value,
    }
}

fn merge_entries(
    entries: Vec<(Raw, Raw)>,
    at: At<'_>,
    path: &Path<'_>,
    faults: &mut Faults,
) -> Vec<Entry> {
    let mut merged = Vec::<Entry>::new();
    let mut known = HashMap::<String, Place>::new();
    for (index, (key, raw)) in entries.into_iter().enumerate() {
        let (key_at, node_at) = at.entry(index);
        let place = key_at.place();
        let RawValue::Text(key) = key.value else {
            faults.push(place, path, FaultKind::KeyNotText);
            continue;
        };
        let key = key.to_string();
        let key_path = path.key(&key);
        if key == "<<" {
            faults.push(place, path, FaultKind::MergeKey);
            continue;
        }
        // A duplicate is walked as well, for the faults inside of it.
        let node = merge(raw, node_at, &key_path, faults);
        if let Some(&first) = known.get(&key) {
            let kind = FaultKind::DuplicateKey { first };
            faults.push(place, &key_path, kind);
            continue;
        }
        known.insert(key.clone(), place);
        merged.push(Entry {
            key,
            key_place: place,
            node,
        });
    }
    merged
}
