//! What a value comes to that this version does not act upon.

use super::{Key, Kind, Serving};
use crate::tree::{Entry, Node, Value};

/// What a value comes to whose key is not acted upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It asks for nothing.
    Silent,
    /// It asks for something that does not happen.
    Warn,
    /// As [`Verdict::Warn`], and without it more is granted than the file grants.
    Refuse,
}

/// A value that is not acted upon.
#[derive(Debug)]
pub(crate) struct Unserved<'n> {
    /// The keys and indices that lead to it, from the root.
    pub(crate) path: Vec<Step<'n>>,
    /// The entry, for its place.
    pub(crate) entry: &'n Entry,
    pub(crate) verdict: Verdict,
}

/// A part of a path.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step<'n> {
    Key(&'n str),
    Item(usize),
}

/// Finds every outermost value below `root` that is not acted upon and asks for something.
pub(crate) fn judge(root: &Node) -> Vec<Unserved<'_>> {
    let mut found = Vec::new();
    section(root, super::top::ALL, &[], &mut found);
    found
}

fn section<'n>(node: &'n Node, keys: &[Key], path: &[Step<'n>], found: &mut Vec<Unserved<'n>>) {
    let Value::Map(entries) = &node.value else {
        return;
    };
    for entry in entries {
        let Some(key) = keys.iter().find(|key| key.is(&entry.key)) else {
            continue;
        };
        let path = [path, &[Step::Key(&entry.key)]].concat();
        match key.serving {
            Serving::Live | Serving::Restart | Serving::ByKey => {
                below(&entry.node, key.kind, &path, found);
            }
            Serving::LiveBut(judge) | Serving::RestartBut(judge) | Serving::Not(judge) => {
                match judge(&entry.node.value) {
                    Verdict::Silent => {}
                    verdict @ (Verdict::Warn | Verdict::Refuse) => found.push(Unserved {
                        path,
                        entry,
                        verdict,
                    }),
                }
            }
        }
    }
}

fn below<'n>(node: &'n Node, kind: Kind, path: &[Step<'n>], found: &mut Vec<Unserved<'n>>) {
    match (kind, &node.value) {
        (Kind::Section(keys), _) => section(node, keys, path, found),
        (Kind::Map(kind), Value::Map(entries)) => {
            for entry in entries {
                let path = [path, &[Step::Key(&entry.key)]].concat();
                below(&entry.node, *kind, &path, found);
            }
        }
        (Kind::List(kind), Value::List(items)) => {
            for (index, item) in items.iter().enumerate() {
                let path = [path, &[Step::Item(index)]].concat();
                below(item, *kind, &path, found);
            }
        }
        _ => {}
    }
}

// === What values come to ===

/// Ignoring it leaves something undone.
pub(crate) fn warn(value: &Value) -> Verdict {
    asked(value, Verdict::Warn)
}

/// Ignoring it would grant what the file does not.
pub(crate) fn refuse(value: &Value) -> Verdict {
    asked(value, Verdict::Refuse)
}

/// `auth.storage.driver`: keys that outlive the process do no less than those that do not.
pub(crate) fn driver(value: &Value) -> Verdict {
    match value.as_text() {
        Some("memory") => Verdict::Warn,
        Some(_) | None => Verdict::Silent,
    }
}

/// `worker.mode`: the gateway starts workers, whatever else is asked for.
pub(crate) fn worker_mode(value: &Value) -> Verdict {
    match value.as_text() {
        Some("supervised") => Verdict::Warn,
        Some(_) | None => Verdict::Silent,
    }
}

/// A server's `tools`: a list of definitions is not shown before the first start.
pub(crate) fn tools(value: &Value) -> Verdict {
    match value {
        Value::List(_) => asked(value, Verdict::Warn),
        Value::Null
        | Value::Bool(_)
        | Value::Integer(_)
        | Value::Float(_)
        | Value::Text(_)
        | Value::Map(_) => Verdict::Silent,
    }
}

/// A server's `scope`: the narrower ones keep callers apart who would share a connection here.
pub(crate) fn scope(value: &Value) -> Verdict {
    match value.as_text() {
        Some("shared" | "tenant") => Verdict::Silent,
        Some(_) | None => asked(value, Verdict::Refuse),
    }
}

/// A server's `transport`: every word but `sse` only repeats what other keys say.
pub(crate) fn transport(value: &Value) -> Verdict {
    match value.as_text() {
        Some("sse") => Verdict::Warn,
        Some(_) | None => Verdict::Silent,
    }
}

fn asked(value: &Value, verdict: Verdict) -> Verdict {
    match asks(value) {
        true => verdict,
        false => Verdict::Silent,
    }
}

/// Says whether a value is more than `false`, 0, or nothing at all.
fn asks(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) | Value::Integer(0) => false,
        Value::Bool(true) | Value::Integer(_) | Value::Float(_) | Value::Text(_) => true,
        Value::List(items) => !items.is_empty(),
        Value::Map(entries) => entries.iter().any(|entry| asks(&entry.node.value)),
    }
}
