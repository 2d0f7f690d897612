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
}
