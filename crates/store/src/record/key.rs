//! API keys, as values. The keys themselves are nowhere: only a keyed hash is stored.

use std::collections::BTreeSet;

use genlock_config::ProfileId;
use genlock_policy::Actor;

/// A key to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewKey {
    /// The profile it belongs to.
    pub profile: ProfileId,
    /// Its id, which is no secret.
    pub id: String,
    /// The keyed hash of the key.
    pub hash: [u8; 32],
    /// Who it is of.
    pub principal: String,
    /// The tenant of its principal.
    pub tenant: Option<String>,
    /// The groups of its principal.
    pub groups: BTreeSet<String>,
    /// Who made it.
    pub actor: Actor,
    /// When, in Unix milliseconds.
    pub at_ms: i64,
    /// From when on it is not taken, in Unix milliseconds.
    pub expires_ms: Option<i64>,
}

/// A key as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRecord {
    /// What it was made with.
    pub made: NewKey,
    /// When it was revoked, in Unix milliseconds; `None` while it is taken.
    pub revoked_ms: Option<i64>,
    /// What replaces it, where something does.
    pub replaced: Option<Replaced>,
    /// When it was used last as far as that was noted, in Unix milliseconds.
    pub used_ms: Option<i64>,
}

/// How a key was replaced by another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replaced {
    /// The id of the key that replaces it.
    pub by: String,
    /// From when on it is not taken any more, in Unix milliseconds.
    pub ends_ms: i64,
}

/// What became of the wish to replace a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rotation {
    /// It was replaced: the key that was, and the one that replaces it.
    Done(Box<(KeyRecord, KeyRecord)>),
    /// It is revoked, or was replaced before: nothing was written.
    Over(Box<KeyRecord>),
    /// There is no such key.
    Unknown,
}

// === impl KeyRecord ===

impl KeyRecord {
    /// Returns a key that was just made.
    pub fn new(made: NewKey) -> Self {
        Self {
            made,
            revoked_ms: None,
            replaced: None,
            used_ms: None,
        }
    }

    /// Returns from when on it is not taken, in Unix milliseconds, be it by its own time or since it is replaced.
    pub fn ends_ms(&self) -> Option<i64> {
        let replaced = self.replaced.as_ref().map(|replaced| replaced.ends_ms);
        let own = self.made.expires_ms;
        own.into_iter().chain(replaced).min()
    }
}
