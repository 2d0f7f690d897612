//! Generations, as values.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use genlock_config::ProfileId;
use genlock_policy::{Actor, Cause, GenerationDigest, GenerationNumber};

/// The count of a profile's authorities: rises by 1 with each [`take_epoch`], and every write
/// of an authority carries its own.
///
/// [`take_epoch`]: crate::Epochs::take_epoch
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(u64);

/// The keyed fingerprint of one private value.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PrivateFingerprint([u8; 32]);

/// A generation to commit. Number and parent come from the commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewGeneration {
    /// The profile it is committed to.
    pub profile: ProfileId,
    /// The digest of the snapshot.
    pub digest: GenerationDigest,
    /// The redacted config as canonical JSON; it comes back byte for byte.
    pub config: String,
    /// The fingerprints of the private values, by JSON pointer.
    pub fingerprints: BTreeMap<String, PrivateFingerprint>,
    /// The overlay of revocations as JSON; it comes back byte for byte.
    pub overlay: String,
    /// The names of the servers in the config, which are remembered for good.
    pub servers: BTreeSet<String>,
    /// What asked for it.
    pub cause: Cause,
    /// Who asked for it.
    pub actor: Actor,
    /// Why, in the words of whoever asked.
    pub reason: Option<String>,
    /// When, in Unix milliseconds.
    pub at_ms: i64,
}

/// A committed generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GenerationRecord {
    /// The profile it belongs to.
    pub profile: ProfileId,
    /// Its number.
    pub number: GenerationNumber,
    /// The head it was committed on; `None` for the first.
    pub parent: Option<GenerationNumber>,
    /// The digest of the snapshot.
    pub digest: GenerationDigest,
    /// The redacted config as canonical JSON.
    pub config: String,
    /// The fingerprints of the private values, by JSON pointer.
    pub fingerprints: BTreeMap<String, PrivateFingerprint>,
    /// The overlay of revocations as JSON.
    pub overlay: String,
    /// What asked for it.
    pub cause: Cause,
    /// Who asked for it.
    pub actor: Actor,
    /// Why, in the words of whoever asked.
    pub reason: Option<String>,
    /// When, in Unix milliseconds.
    pub at_ms: i64,
}

/// A committed generation without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GenerationSummary {
    /// Its number.
    pub number: GenerationNumber,
    /// The head it was committed on; `None` for the first.
    pub parent: Option<GenerationNumber>,
    /// The digest of the snapshot.
    pub digest: GenerationDigest,
    /// What asked for it.
    pub cause: Cause,
    /// Who asked for it.
    pub actor: Actor,
    /// Why, in the words of whoever asked.
    pub reason: Option<String>,
    /// When, in Unix milliseconds.
    pub at_ms: i64,
}

// === impl Epoch ===

impl Epoch {
    /// Takes an epoch as it was stored or sent; `None` for 0.
    pub fn new(number: u64) -> Option<Self> {
        (number > 0).then_some(Self(number))
    }

    /// Returns the number.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

// === impl PrivateFingerprint ===

impl PrivateFingerprint {
    /// Takes the bytes of a fingerprint.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for PrivateFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateFingerprint(..)")
    }
}

// === impl NewGeneration ===

impl NewGeneration {
    /// Returns the record that the commit of this as `number` on `parent` makes.
    pub(crate) fn into_record(
        self,
        number: GenerationNumber,
        parent: Option<GenerationNumber>,
    ) -> GenerationRecord {
        // Taken apart without `..`, so that a new field cannot be forgotten here.
        let Self {
            profile,
            digest,
            config,
            fingerprints,
            overlay,
            servers: _,
            cause,
            actor,
            reason,
            at_ms,
        } = self;
        GenerationRecord {
            profile,
            number,
            parent,
            digest,
            config,
            fingerprints,
            overlay,
            cause,
            actor,
            reason,
            at_ms,
        }
    }
}

// === impl GenerationRecord ===

impl GenerationRecord {
    /// Returns the record without its content.
    pub fn summary(&self) -> GenerationSummary {
        GenerationSummary {
            number: self.number,
            parent: self.parent,
            digest: self.digest,
            cause: self.cause,
            actor: self.actor.clone(),
            reason: self.reason.clone(),
            at_ms: self.at_ms,
        }
    }
}
