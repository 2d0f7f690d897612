//! [`KeyRing`]: the keys that are taken now, in memory.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use arc_swap::ArcSwap;

use crate::{
    key::{ApiKey, KeyHash, KeyHasher},
    principal::Principal,
};

/// What is known of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredKey {
    /// Its id, which is no secret.
    pub id: String,
    /// What is kept of the key itself.
    pub hash: KeyHash,
    /// Who it is of.
    pub principal: Arc<Principal>,
    /// From when on it is not taken, in Unix milliseconds.
    pub expires_ms: Option<i64>,
    /// Whether it was revoked.
    pub revoked: bool,
}

/// Why a key is not taken. Callers are told no more than that it is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyFault {
    /// It is no key at all.
    #[error("the credential is not an API key of this gateway")]
    Malformed,
    /// No key of this gateway.
    #[error("the API key is not known")]
    Unknown,
    /// Its time is over.
    #[error("the API key has expired")]
    Expired,
    /// It was revoked.
    #[error("the API key was revoked")]
    Revoked,
}

/// The keys that are stored, for whoever verifies one. A clone shares them.
#[derive(Debug, Clone)]
pub struct KeyRing {
    hasher: Arc<KeyHasher>,
    keys: Arc<ArcSwap<HashMap<KeyHash, Held>>>,
}

/// A key in the ring, and when it was verified last, in Unix milliseconds; 0 while it was not.
#[derive(Debug, Clone)]
struct Held {
    key: StoredKey,
    used_ms: Arc<AtomicI64>,
}

// === impl KeyFault ===

impl KeyFault {
    /// Returns the stable code of the refusal.
    pub fn code(self) -> &'static str {
        match self {
            Self::Malformed => "auth.malformed_key",
            Self::Unknown => "auth.unknown_key",
            Self::Expired => "auth.expired_key",
            Self::Revoked => "auth.revoked_key",
        }
    }
}

// === impl StoredKey ===

impl StoredKey {
    /// Returns why it is not taken, where it is not.
    fn fault(&self, now_ms: i64) -> Option<KeyFault> {
        let expired = self.expires_ms.is_some_and(|expires| expires <= now_ms);
        match (self.revoked, expired) {
            (true, _) => Some(KeyFault::Revoked),
            (false, true) => Some(KeyFault::Expired),
            (false, false) => None,
        }
    }
}

// === impl KeyRing ===

impl KeyRing {
    /// Makes a ring without keys.
    pub fn new(hasher: KeyHasher) -> Self {
        Self {
            hasher: Arc::new(hasher),
            keys: Arc::default(),
        }
    }

    /// Returns what hashes keys for this ring.
    pub fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }

    /// Replaces all keys: whoever verifies from now on sees these.
    pub fn replace(&self, keys: impl IntoIterator<Item = StoredKey>) {
        let keys = keys.into_iter().map(|key| {
            let used_ms = Arc::default();
            (key.hash, Held { key, used_ms })
        });
        self.keys.store(Arc::new(keys.collect()));
    }

    /// Takes one more key. One that is there already is only ever narrowed: what was revoked stays so, and what ends earlier
    /// ends then, whoever comes later with an older state of it.
    pub fn add(&self, key: &StoredKey) {
        self.keys.rcu(|keys| {
            let mut keys = HashMap::clone(keys);
            let mut held = Held {
                key: key.clone(),
                used_ms: Arc::default(),
            };
            if let Some(known) = keys.get(&key.hash) {
                held.used_ms = Arc::clone(&known.used_ms);
                held.key.revoked |= known.key.revoked;
                let ends = [held.key.expires_ms, known.key.expires_ms];
                held.key.expires_ms = ends.into_iter().flatten().min();
            }
            keys.insert(key.hash, held);
            keys
        });
    }

    /// Takes a key no more.
    pub fn revoke(&self, id: &str) {
        self.keys.rcu(|keys| {
            let mut keys = HashMap::clone(keys);
            for held in keys.values_mut().filter(|held| held.key.id == id) {
                held.key.revoked = true;
            }
            keys
        });
    }

    /// Returns when each key was verified last, by its id, in Unix milliseconds; those that were not since they are in the ring
    /// are left out.
    pub fn uses(&self) -> HashMap<String, i64> {
        let keys = self.keys.load();
        let uses = keys.values().map(|held| {
            let used_ms = held.used_ms.load(Ordering::Relaxed);
            (held.key.id.clone(), used_ms)
        });
        uses.filter(|(_, used_ms)| *used_ms > 0).collect()
    }

    /// Tells whether the key with this id is taken at `now_ms`. Looks at each key: not for the path of a request.
    pub fn takes(&self, id: &str, now_ms: i64) -> bool {
        matches!(self.find(id, now_ms), Some((_, None)))
    }

    /// Returns who the key with this id is of, and why it is not taken at `now_ms`, where it is not. Looks at each key: not for
    /// the path of a request.
    pub fn find(&self, id: &str, now_ms: i64) -> Option<(Arc<Principal>, Option<KeyFault>)> {
        let keys = self.keys.load();
        let Held { key, .. } = keys.values().find(|held| held.key.id == id)?;
        Some((Arc::clone(&key.principal), key.fault(now_ms)))
    }

    /// Returns who a key is or was of, also where it is not taken any more; `None` where there was never such a key.
    pub fn owner(&self, key: &str) -> Option<Arc<Principal>> {
        let key = ApiKey::parse(key).ok()?;
        let keys = self.keys.load();
        let stored = keys.get(&self.hasher.hash(&key))?;
        Some(Arc::clone(&stored.key.principal))
    }

    /// Returns who a key is of. Reads memory alone.
    ///
    /// # Errors
    /// [`KeyFault`] where it is not taken at `now_ms`.
    pub fn verify(&self, key: &str, now_ms: i64) -> Result<Arc<Principal>, KeyFault> {
        let key = ApiKey::parse(key).map_err(|_| KeyFault::Malformed)?;
        let keys = self.keys.load();
        let stored = keys.get(&self.hasher.hash(&key)).ok_or(KeyFault::Unknown)?;
        match stored.key.fault(now_ms) {
            Some(fault) => Err(fault),
            None => {
                stored.used_ms.store(now_ms, Ordering::Relaxed);
                Ok(Arc::clone(&stored.key.principal))
            }
        }
    }
}
