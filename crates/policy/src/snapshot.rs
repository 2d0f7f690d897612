//! What a config means, without its private values.

use genlock_config::{
    Config, FingerprintKey, Fingerprints, Mode, PrivateValues, ProfileId, RedactedConfig,
    fingerprints, snapshot_digest,
};
use serde::Serialize;
use serde_json::Value;

use crate::identity::GenerationDigest;

/// A config as it is stored: its redacted form, the fingerprints of its private values, and the digest of both.
///
/// May be stored, shown and logged. Two snapshots are equal exactly if their digests are.
///
/// ```
/// use genlock_config::{FingerprintKey, Variables, parse};
/// use genlock_policy::Snapshot;
///
/// let text = "mcp_servers: { a: { command: a, env: { TOKEN: s3cr3t-value } } }";
/// let config = parse(text, "genlock.yaml".into(), &Variables::empty())?.config;
///
/// let (snapshot, private) = Snapshot::of(&config, &config.profile, &FingerprintKey::from_bytes([7; 32]));
///
/// assert!(!serde_json::to_string(&snapshot).unwrap().contains("s3cr3t"));
/// assert_eq!(snapshot.fingerprints().len(), private.len());
/// # Ok::<(), genlock_config::LoadError>(())
/// ```
#[derive(Debug, Clone, Serialize)]
pub struct Snapshot {
    digest: GenerationDigest,
    #[serde(rename = "config")]
    redacted: RedactedConfig,
    fingerprints: Fingerprints,
}

/// Why what was stored is no snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StoredSnapshotError {
    /// It is not the redacted form of a config, or the fingerprints are those of another one.
    #[error("stored snapshot is not a config")]
    NotAConfig,
    /// The overlay beside it is none. To go on without it would lift what it revokes.
    #[error("stored overlay is not one")]
    NotAnOverlay,
    /// It was changed since it was stored.
    #[error("stored snapshot does not match its digest: expected {expected}, found {found}")]
    Digest {
        /// The digest that was stored with it.
        expected: GenerationDigest,
        /// The digest that it has.
        found: GenerationDigest,
    },
}

// === impl Snapshot ===

impl Snapshot {
    /// Takes `config` apart, with fingerprints for the profile that runs, whatever profile the config names.
    pub fn of(config: &Config, profile: &ProfileId, key: &FingerprintKey) -> (Self, PrivateValues) {
        let (redacted, private) = config.split();
        let fingerprints = fingerprints(&private, profile, key);
        (Self::new(redacted, fingerprints), private)
    }

    fn new(redacted: RedactedConfig, fingerprints: Fingerprints) -> Self {
        let digest = GenerationDigest::new(snapshot_digest(&redacted, &fingerprints));
        Self {
            digest,
            redacted,
            fingerprints,
        }
    }

    /// Takes a snapshot as it was stored, and checks it against its digest.
    ///
    /// # Errors
    /// [`StoredSnapshotError`] where it is not what was stored.
    pub fn from_stored(
        config: Value,
        fingerprints: Fingerprints,
        expected: GenerationDigest,
    ) -> Result<Self, StoredSnapshotError> {
        let redacted = RedactedConfig::from_stored(config, fingerprints.keys())
            .map_err(|_| StoredSnapshotError::NotAConfig)?;
        let snapshot = Self::new(redacted, fingerprints);
        if snapshot.digest == expected {
            return Ok(snapshot);
        }
        Err(StoredSnapshotError::Digest {
            expected,
            found: snapshot.digest,
        })
    }

    /// Returns the form of the config that may be shown.
    pub fn redacted(&self) -> &RedactedConfig {
        &self.redacted
    }

    /// Returns the fingerprints of the private values, by their pointers.
    pub fn fingerprints(&self) -> &Fingerprints {
        &self.fingerprints
    }

    /// Returns the digest of all of it.
    pub fn digest(&self) -> GenerationDigest {
        self.digest
    }

    /// Returns whom the gateway serves by this config.
    pub fn mode(&self) -> Option<Mode> {
        Mode::from_word(self.redacted.get("/tool_access/mode")?.as_str()?)
    }

    /// Returns the pointers of the private values in `values` that are not those of this snapshot, or not there.
    ///
    /// Only a value that is not named may be used in its place.
    pub fn unmatched(
        &self,
        values: &PrivateValues,
        profile: &ProfileId,
        key: &FingerprintKey,
    ) -> Vec<String> {
        let matches = |pointer: &str, fingerprint| {
            let value = values.get(pointer);
            value.is_some_and(|value| key.fingerprint(profile, pointer, value) == fingerprint)
        };
        let unmatched = self
            .fingerprints
            .iter()
            .filter(|(pointer, fingerprint)| !matches(pointer, **fingerprint));
        unmatched.map(|(pointer, _)| pointer.clone()).collect()
    }
}

impl PartialEq for Snapshot {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for Snapshot {}

// === impl StoredSnapshotError ===

impl StoredSnapshotError {
    /// Returns the stable code of this kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotAConfig => "snapshot.not_a_config",
            Self::NotAnOverlay => "snapshot.not_an_overlay",
            Self::Digest { .. } => "snapshot.digest",
        }
    }
}
