//! What changed between two snapshots.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
};

use genlock_config::{Effect, effect_of};
use serde::Serialize;
use serde_json::Value;

use crate::{
    pointer::{Part, part},
    snapshot::Snapshot,
};

/// What changed from one snapshot to another: names and pointers, no value.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Changes {
    /// The servers.
    pub servers: ServerChanges,
    /// The other sections, by section and effect, in their order.
    pub sections: Vec<SectionChange>,
    /// Where private values changed behind the same reference or marker, as JSON pointers.
    pub private_rotated: Vec<String>,
}

/// What changed of the servers, by name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct ServerChanges {
    /// Those that were not there before.
    pub added: Vec<String>,
    /// Those that are no longer there.
    pub removed: Vec<String>,
    /// Those with another definition.
    pub changed: Vec<ServerChange>,
    /// How many have the same definition.
    pub unchanged: usize,
}

/// What changed of one server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServerChange {
    /// Its name.
    pub name: String,
    /// The keys of its definition that changed, or private values below them.
    pub keys: Vec<String>,
}

/// What changed of one section, as far as it takes effect in one way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SectionChange {
    /// The key of the top level.
    pub section: String,
    /// The keys in it; empty where the section is a value itself.
    pub keys: Vec<String>,
    /// How the change takes effect.
    pub effect: Effect,
}

/// Compares two snapshots. The result is empty exactly if their digests are equal.
///
/// ```
/// use genlock_config::{FingerprintKey, Variables, parse};
/// use genlock_policy::{Snapshot, diff};
///
/// let snapshot = |token: &str| {
///     let text = format!("mcp_servers: {{ a: {{ command: a, env: {{ TOKEN: {token} }} }} }}");
///     let config = parse(&text, "genlock.yaml".into(), &Variables::empty())?.config;
///     Ok::<_, genlock_config::LoadError>(Snapshot::of(&config, &config.profile, &FingerprintKey::from_bytes([7; 32])).0)
/// };
///
/// let changes = diff(&snapshot("first-token")?, &snapshot("other-token")?);
///
/// assert_eq!(changes.servers.changed[0].keys, ["env"]);
/// assert_eq!(changes.private_rotated, ["/mcp_servers/a/env/TOKEN"]);
/// # Ok::<(), genlock_config::LoadError>(())
/// ```
pub fn diff(from: &Snapshot, to: &Snapshot) -> Changes {
    if from.digest() == to.digest() {
        let unchanged = to.redacted().servers().count();
        return Changes {
            servers: ServerChanges {
                unchanged,
                ..ServerChanges::default()
            },
            ..Changes::default()
        };
    }
    let mut touched = Touched::default();
    let mut private_rotated = Vec::new();
    for pointer in changed_fingerprints(from, to) {
        touched.add(part(pointer));
        let shown = (from.redacted().get(pointer), to.redacted().get(pointer));
        if shown.0 == shown.1 {
            private_rotated.push(pointer.to_owned());
        }
    }
    Changes {
        servers: servers(from, to, &mut touched),
        sections: sections(from, to, &mut touched),
        private_rotated,
    }
}

/// The keys in which something changed that the redacted forms do not show.
#[derive(Default)]
struct Touched {
    servers: BTreeMap<String, BTreeSet<String>>,
    sections: BTreeMap<String, BTreeSet<String>>,
}

// === impl Touched ===

impl Touched {
    fn add(&mut self, part: Part) {
        match part {
            Part::Server { name, key } => {
                self.servers.entry(name).or_default().insert(key);
            }
            Part::Section { name, key } => {
                self.sections.entry(name).or_default().extend(key);
            }
        }
    }
}

/// Returns only what changed besides the servers, as [`diff`] does.
pub(crate) fn changed_sections(from: &Snapshot, to: &Snapshot) -> Vec<SectionChange> {
    if from.digest() == to.digest() {
        return Vec::new();
    }
    let mut touched = Touched::default();
    for pointer in changed_fingerprints(from, to) {
        touched.add(part(pointer));
    }
    sections(from, to, &mut touched)
}

/// Walks over two mappings at once, both in the order of their keys.
fn joined<'k, V>(
    before: impl IntoIterator<Item = (&'k str, V)>,
    after: impl IntoIterator<Item = (&'k str, V)>,
) -> impl Iterator<Item = (&'k str, Option<V>, Option<V>)> {
    let mut before = before.into_iter().peekable();
    let mut after = after.into_iter().peekable();
    std::iter::from_fn(move || {
        let order = match (before.peek(), after.peek()) {
            (Some((old, _)), Some((new, _))) => old.cmp(new),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return None,
        };
        let old = order.is_le().then(|| before.next()).flatten();
        let new = order.is_ge().then(|| after.next()).flatten();
        let key = old.as_ref().or(new.as_ref())?.0;
        Some((
            key,
            old.map(|(_, value)| value),
            new.map(|(_, value)| value),
        ))
    })
}

/// Returns the pointers of private values that are not the same in both, or in one of them only.
fn changed_fingerprints<'s>(from: &'s Snapshot, to: &'s Snapshot) -> impl Iterator<Item = &'s str> {
    let of = |snapshot: &'s Snapshot| {
        let fingerprints = snapshot.fingerprints().iter();
        fingerprints.map(|(pointer, fingerprint)| (pointer.as_str(), fingerprint))
    };
    joined(of(from), of(to))
        .filter(|(_, before, after)| before != after)
        .map(|(pointer, _, _)| pointer)
}

fn servers(from: &Snapshot, to: &Snapshot, touched: &mut Touched) -> ServerChanges {
    let mut changes = ServerChanges::default();
    for (name, before, after) in joined(from.redacted().servers(), to.redacted().servers()) {
        let (before, after) = match (before, after) {
            (Some(before), Some(after)) => (before, after),
            (None, _) => {
                changes.added.push(name.to_owned());
                continue;
            }
            (Some(_), None) => {
                changes.removed.push(name.to_owned());
                continue;
            }
        };
        let mut keys = touched.servers.remove(name).unwrap_or_default();
        keys.extend(changed_keys(before, after).map(str::to_owned));
        if keys.is_empty() {
            changes.unchanged += 1;
        } else {
            changes.changed.push(ServerChange {
                name: name.to_owned(),
                keys: keys.into_iter().collect(),
            });
        }
    }
    changes
}

fn sections(from: &Snapshot, to: &Snapshot, touched: &mut Touched) -> Vec<SectionChange> {
    let all = joined(
        entries(from.redacted().as_json()),
        entries(to.redacted().as_json()),
    );
    // The servers are most of a config, and were compared one by one.
    for (name, before, after) in all.filter(|(name, _, _)| *name != "mcp_servers") {
        if before != after {
            let none = &Value::Null;
            let keys = changed_keys(before.unwrap_or(none), after.unwrap_or(none));
            let section = touched.sections.entry(name.to_owned()).or_default();
            section.extend(keys.map(str::to_owned));
        }
    }
    let changed = std::mem::take(&mut touched.sections);
    changed
        .into_iter()
        .flat_map(|(section, keys)| by_effect(&section, keys))
        .collect()
}

/// Returns the changes of one section: one for each way in which keys of it take effect.
fn by_effect(section: &str, keys: BTreeSet<String>) -> Vec<SectionChange> {
    let change = |keys, effect| SectionChange {
        section: section.to_owned(),
        keys,
        effect,
    };
    if keys.is_empty() {
        let effect = effect_of(&[section]).unwrap_or(Effect::NotServed);
        return vec![change(Vec::new(), effect)];
    }
    let mut effects = BTreeMap::<Effect, Vec<String>>::new();
    for key in keys {
        let effect = effect_of(&[section, &key]).unwrap_or(Effect::NotServed);
        effects.entry(effect).or_default().push(key);
    }
    effects
        .into_iter()
        .map(|(effect, keys)| change(keys, effect))
        .collect()
}

/// Returns the keys that have other values in two mappings; none where one of them is another value.
fn changed_keys<'v>(before: &'v Value, after: &'v Value) -> impl Iterator<Item = &'v str> {
    let is_mapping = |value: &Value| value.is_object() || value.is_null();
    let both = is_mapping(before) && is_mapping(after);
    let both = both.then(|| joined(entries(before), entries(after)));
    both.into_iter()
        .flatten()
        .filter(|(_, before, after)| before != after)
        .map(|(key, _, _)| key)
}

/// Returns the entries of a mapping out of a redacted config, whose mappings are all in the order of their keys.
fn entries(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let entries = value.as_object().into_iter().flatten();
    entries.map(|(key, value)| (key.as_str(), value))
}

// === impl Changes ===

impl Changes {
    /// Says whether nothing changed.
    pub fn is_empty(&self) -> bool {
        let ServerChanges {
            added,
            removed,
            changed,
            unchanged: _,
        } = &self.servers;
        let servers = added.is_empty() && removed.is_empty() && changed.is_empty();
        servers && self.sections.is_empty() && self.private_rotated.is_empty()
    }
}
