//! What changed between two snapshots.

use std::collections::{BTreeMap, BTreeSet};

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

/// Returns the pointers of private values that are not the same in both, or in one of them only.
fn changed_fingerprints<'s>(from: &'s Snapshot, to: &'s Snapshot) -> BTreeSet<&'s str> {
    let (before, after) = (from.fingerprints(), to.fingerprints());
    let gone = before
        .keys()
        .filter(|pointer| !after.contains_key(*pointer));
    let other = after
        .iter()
        .filter(|(pointer, fingerprint)| before.get(*pointer) != Some(fingerprint));
    gone.chain(other.map(|(pointer, _)| pointer))
        .map(String::as_str)
        .collect()
}

fn servers(from: &Snapshot, to: &Snapshot, touched: &mut Touched) -> ServerChanges {
    let before: BTreeMap<_, _> = from.redacted().servers().collect();
    let after: BTreeMap<_, _> = to.redacted().servers().collect();
    let mut changes = ServerChanges::default();
    for (name, server) in &after {
        let Some(old) = before.get(name) else {
            changes.added.push((*name).to_owned());
            continue;
        };
        let mut keys = touched.servers.remove(*name).unwrap_or_default();
        keys.extend(changed_keys(old, server));
        if keys.is_empty() {
            changes.unchanged += 1;
        } else {
            changes.changed.push(ServerChange {
                name: (*name).to_owned(),
                keys: keys.into_iter().collect(),
            });
        }
    }
    let removed = before.keys().filter(|name| !after.contains_key(*name));
    changes.removed = removed.map(|name| (*name).to_owned()).collect();
    changes
}

fn sections(from: &Snapshot, to: &Snapshot, touched: &mut Touched) -> Vec<SectionChange> {
    let (before, after) = (from.redacted().as_json(), to.redacted().as_json());
    for name in changed_keys(before, after) {
        if name != "mcp_servers" {
            let keys = changed_keys(&before[&name], &after[&name]);
            touched.sections.entry(name).or_default().extend(keys);
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

/// Returns the keys that have other values in two mappings; none where one of them is no mapping.
fn changed_keys(before: &Value, after: &Value) -> BTreeSet<String> {
    let empty = serde_json::Map::new();
    let (before, after) = match (before, after) {
        (Value::Object(before), Value::Object(after)) => (before, after),
        (Value::Object(before), Value::Null) => (before, &empty),
        (Value::Null, Value::Object(after)) => (&empty, after),
        _ => return BTreeSet::new(),
    };
    let keys = before.keys().chain(after.keys());
    keys.filter(|key| before.get(*key) != after.get(*key))
        .cloned()
        .collect()
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
