//! [`History`]: the committed generations of one profile, and the key that fingerprints private values.

use std::{
    collections::BTreeSet,
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    sync::Arc,
};

use camino::{Utf8Path, Utf8PathBuf};
use genlock_authority::TokenKey;
use genlock_config::{
    Config, Fingerprint, FingerprintKey, PrivateValue, PrivateValues, ProfileId, RestoreError,
};
use genlock_policy::{
    Actor, Cause, Generation, GenerationNumber, Overlay, Snapshot, StoredSnapshotError,
};
use genlock_store::{
    CommitError, Epoch, Fault, GenerationRecord, GenerationSummary, Location, NewGeneration,
    OpenError, Options, PrivateFingerprint, Store,
};

/// The generations of one profile. A clone shares them.
#[derive(Clone)]
pub(crate) struct History {
    store: Arc<dyn Store>,
    profile: ProfileId,
    epoch: Epoch,
    key: Arc<FingerprintKey>,
}

/// Why the history cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The key cannot be read or made.
    #[error("fingerprint key {path}")]
    Key {
        /// The file.
        path: Utf8PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The key is no key, or others can read it.
    #[error("fingerprint key {path} {what}")]
    BadKey {
        /// The file.
        path: Utf8PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The store cannot be opened.
    #[error("open the store")]
    Open(#[from] OpenError),
    /// The store failed.
    #[error("read the store")]
    Store(#[from] Fault),
    /// A generation in the store is none.
    #[error("generation {number} in the store")]
    Damaged {
        /// Its number.
        number: GenerationNumber,
        /// Why.
        source: StoredSnapshotError,
    },
}

impl HistoryError {
    /// Returns the stable code of the error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Key { .. } => "fingerprint_key.unusable",
            Self::BadKey { .. } => "fingerprint_key.invalid",
            Self::Open(error) => error.code(),
            Self::Store(fault) => fault.code(),
            Self::Damaged { source, .. } => source.code(),
        }
    }
}

/// What becomes a generation.
pub(crate) struct Draft {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) overlay: Arc<Overlay>,
    pub(crate) config: Arc<Config>,
    pub(crate) cause: Cause,
    pub(crate) actor: Actor,
    pub(crate) reason: Option<String>,
    pub(crate) at_ms: i64,
}

impl History {
    /// Opens the history of a profile in a state directory, and fences every authority before this one.
    pub(crate) async fn open(
        state_dir: &Utf8Path,
        profile: ProfileId,
        random: impl Fn() -> [u8; 16],
    ) -> Result<Self, HistoryError> {
        let (key, made) = load_key(&state_dir.join("fingerprint.key"), random)?;
        // A key that was there before says that there was a store as well.
        let options = Options {
            must_exist: !made,
            ..Options::default()
        };
        let store =
            genlock_store::open(&Location::sqlite(state_dir.join("genlock.db")), &options).await?;
        let epoch = store.take_epoch(&profile).await?;
        Ok(Self {
            store,
            profile,
            epoch,
            key: Arc::new(key),
        })
    }

    /// Returns what hashes API keys, with a key that is derived from the one of this installation.
    pub(crate) fn key_hasher(&self) -> genlock_access::KeyHasher {
        genlock_access::KeyHasher::new(self.key.expose_bytes())
    }

    /// Takes a config apart into what may be stored.
    pub(crate) fn snapshot(&self, config: &Config) -> Snapshot {
        Snapshot::of(config, &self.profile, &self.key).0
    }

    /// Returns the newest generation as it was stored.
    pub(crate) async fn head(&self) -> Result<Option<GenerationRecord>, HistoryError> {
        Ok(self.store.head(&self.profile).await?)
    }

    /// Returns a generation as it was stored.
    pub(crate) async fn get(
        &self,
        number: GenerationNumber,
    ) -> Result<Option<GenerationRecord>, HistoryError> {
        Ok(self.store.get(&self.profile, number).await?)
    }

    /// Returns at most `limit` generations, newest first, below `before`.
    pub(crate) async fn list(
        &self,
        before: Option<GenerationNumber>,
        limit: u32,
    ) -> Result<Vec<GenerationSummary>, HistoryError> {
        Ok(self.store.list(&self.profile, before, limit).await?)
    }

    /// Commits a draft as the head, where the head is still `expected`.
    pub(crate) async fn commit(
        &self,
        expected: Option<GenerationNumber>,
        draft: Draft,
    ) -> Result<Generation, CommitError> {
        let fingerprints = draft.snapshot.fingerprints().iter();
        let new = NewGeneration {
            profile: self.profile.clone(),
            digest: draft.snapshot.digest(),
            config: draft.snapshot.redacted().as_json().to_string(),
            fingerprints: fingerprints
                .map(|(pointer, print)| {
                    (pointer.clone(), PrivateFingerprint::new(*print.as_bytes()))
                })
                .collect(),
            overlay: serde_json::to_string(&*draft.overlay).unwrap_or_default(),
            servers: draft
                .config
                .servers
                .keys()
                .map(|name| name.as_str().to_owned())
                .collect(),
            cause: draft.cause,
            actor: draft.actor,
            reason: draft.reason,
            at_ms: draft.at_ms,
        };
        let committed = self.store.commit_generation(self.epoch, expected, new);
        let record = match committed.await {
            Ok(record) => record,
            Err(CommitError::InDoubt { source }) => self.after_doubt(expected, source).await?,
            Err(error) => return Err(error),
        };
        Ok(generation(
            &record,
            draft.snapshot,
            draft.overlay,
            draft.config,
        ))
    }

    /// Looks whether a commit in doubt was made: the head is the next one then, since nobody else commits under this epoch.
    async fn after_doubt(
        &self,
        expected: Option<GenerationNumber>,
        source: Fault,
    ) -> Result<GenerationRecord, CommitError> {
        let next = expected.map_or(GenerationNumber::FIRST, GenerationNumber::next);
        match self.head().await {
            Ok(Some(head)) if head.number == next => {
                tracing::warn!(generation = %next, error = %source, "a commit in doubt was made");
                Ok(head)
            }
            Ok(_) | Err(_) => Err(CommitError::InDoubt { source }),
        }
    }

    /// Puts a stored generation together with private values: those of `found` whose fingerprints match. The others are
    /// missing, which parks the servers that need them.
    ///
    /// # Errors
    /// Where the stored form is none, or would be no valid config.
    pub(crate) fn restore(
        &self,
        record: &GenerationRecord,
        found: &PrivateValues,
    ) -> Result<(Generation, Vec<String>), RestoreFault> {
        let snapshot = stored_snapshot(record)?;
        let unmatched = snapshot.unmatched(found, &self.profile, &self.key);
        let mut values = PrivateValues::empty();
        for pointer in snapshot.fingerprints().keys() {
            let value = found
                .get(pointer)
                .filter(|_| !unmatched.contains(pointer))
                .cloned();
            values.insert(pointer.clone(), value.unwrap_or_else(PrivateValue::missing));
        }
        let mut config = Config::from_redacted(snapshot.redacted(), &values)?;
        for (name, definition) in &mut config.servers {
            let missing = values.of_server(name);
            let missing: Vec<_> = missing
                .iter()
                .filter(|(_, value)| value.is_missing())
                .map(|(at, _)| at.to_owned())
                .collect();
            if !missing.is_empty() {
                definition.unavailable = Some(format!(
                    "private_values_unavailable: {}",
                    missing.join(", ")
                ));
            }
        }
        let overlay = Arc::new(stored_overlay(record)?);
        let generation = generation(record, Arc::new(snapshot), overlay, Arc::new(config));
        Ok((generation, unmatched))
    }

    /// Returns the generations that open sessions pin.
    pub(crate) async fn pinned(&self) -> Result<BTreeSet<GenerationNumber>, Fault> {
        self.store.pinned_generations(&self.profile).await
    }

    /// Returns what an authority writes with: the store, the profile, and the epoch that was taken when this was opened.
    pub(crate) fn authority(&self) -> (Arc<dyn Store>, ProfileId, Epoch) {
        (Arc::clone(&self.store), self.profile.clone(), self.epoch)
    }

    /// Derives the key of session tokens from that of the fingerprints: neither says anything of the other.
    pub(crate) fn token_key(&self) -> TokenKey {
        let context = "genlock session token v1";
        TokenKey::new(blake3::derive_key(context, self.key.expose_bytes()))
    }

    /// Closes the store, after the write in progress.
    pub(crate) async fn close(&self) {
        if let Err(error) = self.store.close().await {
            tracing::warn!(%error, "close the store");
        }
    }
}

/// Why a stored generation cannot be put in force again.
#[derive(Debug, thiserror::Error)]
pub enum RestoreFault {
    /// The stored form is none.
    #[error(transparent)]
    Stored(#[from] StoredSnapshotError),
    /// It would be no valid config.
    #[error(transparent)]
    Restore(#[from] RestoreError),
}

/// Puts a stored generation together with the content that it stands for.
pub(crate) fn generation(
    record: &GenerationRecord,
    snapshot: Arc<Snapshot>,
    overlay: Arc<Overlay>,
    config: Arc<Config>,
) -> Generation {
    Generation {
        number: record.number,
        parent: record.parent,
        cause: record.cause,
        actor: record.actor.clone(),
        at_ms: record.at_ms,
        reason: record.reason.clone(),
        snapshot,
        overlay,
        config,
    }
}

/// Reads the snapshot out of a stored generation.
pub(crate) fn stored_snapshot(record: &GenerationRecord) -> Result<Snapshot, StoredSnapshotError> {
    let config =
        serde_json::from_str(&record.config).map_err(|_| StoredSnapshotError::NotAConfig)?;
    let fingerprints = record
        .fingerprints
        .iter()
        .map(|(pointer, stored)| (pointer.clone(), Fingerprint::from_bytes(*stored.as_bytes())))
        .collect();
    Snapshot::from_stored(config, fingerprints, record.digest)
}

/// Reads the overlay out of a stored generation.
pub(crate) fn stored_overlay(record: &GenerationRecord) -> Result<Overlay, StoredSnapshotError> {
    serde_json::from_str(&record.overlay).map_err(|_| StoredSnapshotError::NotAnOverlay)
}

/// Reads the key, or makes it; tells whether it was made.
fn load_key(
    path: &Utf8Path,
    random: impl Fn() -> [u8; 16],
) -> Result<(FingerprintKey, bool), HistoryError> {
    let failed = |source| HistoryError::Key {
        path: path.to_owned(),
        source,
    };
    match fs::metadata(path) {
        Ok(metadata) if metadata.mode() & 0o077 != 0 => {
            let what = "is open to other users: run `chmod 600` on it";
            Err(HistoryError::BadKey {
                path: path.to_owned(),
                what,
            })
        }
        Ok(_) => {
            let bytes: Result<[u8; 32], _> = fs::read(path).map_err(failed)?.try_into();
            let what = "is not a key of 32 bytes";
            let bytes = bytes.map_err(|_| HistoryError::BadKey {
                path: path.to_owned(),
                what,
            })?;
            Ok((FingerprintKey::from_bytes(bytes), false))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let mut bytes = [0; 32];
            for (to, from) in bytes.iter_mut().zip(random().into_iter().chain(random())) {
                *to = from;
            }
            write_key(path, &bytes).map_err(failed)?;
            Ok((FingerprintKey::from_bytes(bytes), true))
        }
        Err(error) => Err(failed(error)),
    }
}

/// Writes the key whole or not at all.
fn write_key(path: &Utf8Path, bytes: &[u8]) -> io::Result<()> {
    let fresh = path.with_extension("new");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&fresh)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&fresh, path)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use genlock_config::ProfileId;
    use genlock_policy::{Actor, Cause, GenerationDigest, GenerationNumber, Overlay};
    use genlock_store::GenerationRecord;

    use super::stored_overlay;

    fn record(overlay: &str) -> GenerationRecord {
        GenerationRecord {
            profile: ProfileId::default(),
            number: GenerationNumber::FIRST,
            parent: None,
            digest: GenerationDigest::from_bytes([0; 32]),
            config: "{}".to_owned(),
            fingerprints: BTreeMap::new(),
            overlay: overlay.to_owned(),
            cause: Cause::Boot,
            actor: Actor::system(),
            reason: None,
            at_ms: 0,
        }
    }

    #[test]
    fn an_overlay_that_cannot_be_read_is_not_taken_for_one_that_revokes_nothing() {
        let unreadable = [
            "",
            "null",
            r#"{"revoked":[7]}"#,
            r#"{"revoked":[],"more":1}"#,
        ];
        for overlay in unreadable {
            let read = stored_overlay(&record(overlay)).map_err(|error| error.code());
            assert_eq!(read, Err("snapshot.not_an_overlay"), "{overlay}");
        }
        let empty = stored_overlay(&record(r#"{"revoked":[]}"#));
        assert_eq!(empty, Ok(Overlay::default()));
    }
}
