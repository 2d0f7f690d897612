//! [`KeyStore`]: the API keys of one profile, on disk and in the ring that verifies them.
//!
//! They are in the profile's own store, or, where `auth.storage` names a file, in a store of the same kind there: rows, seals
//! and fences are the same in both.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use camino::{Utf8Path, Utf8PathBuf};
use genlock_access::{ApiKey, KeyHash, KeyRing, Principal, StoredKey};
use genlock_config::{Auth, LoadError, ProfileId, StorageDriver};
use genlock_mcp::{Outcome, RawJson, RawObject};
use genlock_policy::{Overlay, StoredSnapshotError};
use genlock_store::{
    Epoch, Fault, KeyRecord, Location, NewKey, OpenError, Options, Rotation, Store, WriteFault,
    open,
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{
    audit::{Act, Audit, Kept, Who},
    control::{ControlError, outcome},
    gateway::Host,
    history::{History, HistoryError, stored_overlay},
    methods,
    reload::{timestamp, unix_ms},
    source::ConfigSource,
    state_dir::StateDir,
};

/// The file of keys below the state directory, where `auth.storage` names a driver and no path.
const FILE: &str = "auth.db";

/// The API keys of one profile. A clone shares them.
#[derive(Clone)]
pub(crate) struct KeyStore {
    store: Arc<dyn Store>,
    /// Whether the store holds keys alone, and nobody else closes it.
    own: bool,
    profile: ProfileId,
    epoch: Epoch,
    ring: KeyRing,
    host: Host,
    audit: Audit,
    /// When keys were used last, as far as that is written down.
    noted: Arc<Mutex<HashMap<String, i64>>>,
}

/// Why the keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// The config that says where they are is not valid.
    #[error("the config is not valid")]
    Config(#[source] LoadError),
    /// The profile's store cannot be opened.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// The store of keys cannot be opened.
    #[error("open the store of keys {path}")]
    Open {
        /// The file.
        path: Utf8PathBuf,
        /// Why.
        source: OpenError,
    },
    /// The store of keys cannot be read.
    #[error("read the keys")]
    Read(#[from] Fault),
    /// What the head revokes cannot be read.
    #[error("read what is revoked")]
    Revoked(#[from] StoredSnapshotError),
}

/// A key to make.
#[derive(Debug, Clone)]
pub(crate) struct KeyRequest {
    pub(crate) principal: String,
    pub(crate) tenant: Option<String>,
    pub(crate) groups: BTreeSet<String>,
    pub(crate) lasts: Option<Duration>,
}

/// What became of the wish to replace a key.
pub(crate) enum Rotated {
    /// It is replaced: the new one, which is shown for the only time.
    Done(Value),
    /// It cannot be replaced any more, and why.
    Over(&'static str),
    /// There is no such key.
    Unknown,
}

/// The keys and the audit of a state directory that no gateway runs on.
pub struct Offline {
    keys: KeyStore,
    history: History,
    /// What the head revokes.
    revoked: Overlay,
    // Held as long as the keys are worked on.
    _claimed: StateDir,
}

// === impl KeysError ===

impl KeysError {
    /// Returns the stable code of the error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Config(error) => error.code(),
            Self::History(error) => error.code(),
            Self::Open { source, .. } => source.code(),
            Self::Read(fault) => fault.code(),
            Self::Revoked(error) => error.code(),
        }
    }
}

// === impl KeyStore ===

impl KeyStore {
    /// Opens the keys of the profile of a history, as `auth` says where they are, and takes them into the ring.
    pub(crate) async fn open(
        history: &History,
        state_dir: &Utf8Path,
        auth: &Auth,
        host: &Host,
        audit: &Audit,
    ) -> Result<Self, KeysError> {
        let (store, profile, epoch) = history.authority();
        let mut keys = Self {
            store,
            own: false,
            profile,
            epoch,
            ring: KeyRing::new(history.key_hasher()),
            host: host.clone(),
            audit: audit.clone(),
            noted: Arc::default(),
        };
        if let Some(path) = file(state_dir, auth) {
            let opened = open(&Location::sqlite(&path), &Options::default()).await;
            keys.store = opened.map_err(|source| KeysError::Open { path, source })?;
            keys.own = true;
            keys.epoch = keys.store.take_epoch(&keys.profile).await?;
        }
        let records = keys.store.keys(&keys.profile).await?;
        keys.ring.replace(records.iter().map(stored));
        Ok(keys)
    }

    pub(crate) fn ring(&self) -> &KeyRing {
        &self.ring
    }

    /// Makes a key. It is taken from the moment this returns; what is returned shows it for the only time.
    pub(crate) async fn create(&self, request: KeyRequest, who: Who) -> Result<Value, WriteFault> {
        let key = self.new_key();
        let now = unix_ms(self.host.now());
        let lasts = request
            .lasts
            .map(|lasts| i64::try_from(lasts.as_millis()).unwrap_or(i64::MAX));
        let new = NewKey {
            profile: self.profile.clone(),
            id: self.new_id(),
            hash: *self.ring.hasher().hash(&key).as_bytes(),
            principal: request.principal,
            tenant: request.tenant,
            groups: request.groups,
            actor: who.actor.clone(),
            at_ms: now,
            expires_ms: lasts.map(|lasts| now.saturating_add(lasts)),
        };
        let record = self.store.add_key(self.epoch, new).await?;
        self.ring.add(&stored(&record));
        tracing::info!(
            id = record.made.id,
            principal = record.made.principal,
            by = record.made.actor.as_str(),
            "API key made"
        );
        let act = Act::new(who, "key.create").on(record.made.id.as_str());
        let kept = self.audit.done(act.detail(of(&record))).await;
        let mut shown = shown(&record);
        shown["key"] = json!(key.expose());
        say(&mut shown, kept);
        Ok(shown)
    }

    /// Makes a key that replaces another: for the same principal, for as long as that one was made for. The other one is taken
    /// for `grace` more, or until it expires.
    pub(crate) async fn rotate(
        &self,
        id: &str,
        grace: Duration,
        who: Who,
    ) -> Result<Rotated, WriteFault> {
        let records = self.store.keys(&self.profile).await?;
        let Some(old) = records.into_iter().find(|record| record.made.id == id) else {
            return Ok(Rotated::Unknown);
        };
        let now = unix_ms(self.host.now());
        if old.ends_ms().is_some_and(|ends| ends <= now) {
            return Ok(Rotated::Over(
                "it has expired: make another with `genlock keys create`",
            ));
        }
        let key = self.new_key();
        let lasts = old
            .made
            .expires_ms
            .map(|expires| expires.saturating_sub(old.made.at_ms));
        let new = NewKey {
            id: self.new_id(),
            hash: *self.ring.hasher().hash(&key).as_bytes(),
            actor: who.actor.clone(),
            at_ms: now,
            expires_ms: lasts.map(|lasts| now.saturating_add(lasts)),
            ..old.made
        };
        let grace = i64::try_from(grace.as_millis()).unwrap_or(i64::MAX);
        let ends_ms = now.saturating_add(grace);
        let rotation = self.store.rotate_key(self.epoch, id, new, ends_ms);
        let (old, new) = match rotation.await? {
            Rotation::Done(both) => *both,
            Rotation::Over(over) if over.revoked_ms.is_some() => {
                return Ok(Rotated::Over(
                    "it is revoked: make another with `genlock keys create`",
                ));
            }
            Rotation::Over(_) => {
                return Ok(Rotated::Over(
                    "another key replaces it already: `genlock keys list` names it",
                ));
            }
            Rotation::Unknown => return Ok(Rotated::Unknown),
        };
        self.ring.add(&stored(&new));
        self.ring.add(&stored(&old));
        tracing::info!(id, by = new.made.id, "API key replaced");
        let act = Act::new(who, "key.rotate").on(id);
        let detail = format!("replaced by {}, {}", new.made.id, of(&new));
        let kept = self.audit.done(act.detail(detail)).await;
        let mut answer = shown(&new);
        answer["key"] = json!(key.expose());
        answer["replaces"] = json!(id);
        answer["old_ends_at"] = json!(old.ends_ms().map(timestamp));
        say(&mut answer, kept);
        Ok(Rotated::Done(answer))
    }

    /// Writes down when keys were used since it was written down last. It is a hint for people, so that a failure is logged and
    /// made up for the next time.
    pub(crate) async fn note_uses(&self) {
        let uses = self.ring.uses();
        let fresh: Vec<(String, i64)> = {
            let noted = self.noted.lock();
            let is_new = |(id, used_ms): &(String, i64)| noted.get(id) != Some(used_ms);
            uses.into_iter().filter(is_new).collect()
        };
        if fresh.is_empty() {
            return;
        }
        let writing = self
            .store
            .note_key_uses(self.epoch, &self.profile, fresh.clone());
        match writing.await {
            Ok(()) => self.noted.lock().extend(fresh),
            Err(error) => tracing::warn!(%error, "the last uses of keys were not written"),
        }
    }

    fn new_key(&self) -> ApiKey {
        let mut random = [0; 32];
        let bytes = self.host.random().into_iter().chain(self.host.random());
        random
            .iter_mut()
            .zip(bytes)
            .for_each(|(to, from)| *to = from);
        ApiKey::new(&random)
    }

    /// Returns all keys, without what is secret of them.
    pub(crate) async fn list(&self) -> Result<Value, Fault> {
        let records = self.store.keys(&self.profile).await?;
        let uses = self.ring.uses();
        let keys = records.into_iter().map(|mut record| {
            let used_ms = uses.get(&record.made.id).copied();
            record.used_ms = record.used_ms.max(used_ms);
            shown(&record)
        });
        Ok(json!({ "keys": keys.collect::<Vec<Value>>() }))
    }

    /// Tells whether there is a key with this id, taken or not.
    pub(crate) async fn has(&self, id: &str) -> Result<bool, Fault> {
        let records = self.store.keys(&self.profile).await?;
        Ok(records.iter().any(|record| record.made.id == id))
    }

    /// Revokes a key; `None` where there is none. It is not taken from the moment this is asked for, also where the disk
    /// fails.
    pub(crate) async fn revoke(&self, id: &str, who: Who) -> Result<Option<Value>, WriteFault> {
        self.ring.revoke(id);
        let now = unix_ms(self.host.now());
        let revoked = self.store.revoke_key(self.epoch, &self.profile, id, now);
        let Some(record) = revoked.await? else {
            return Ok(None);
        };
        tracing::info!(id, by = who.actor.as_str(), "API key revoked");
        let act = Act::new(who, "key.revoke").on(record.made.id.as_str());
        let kept = self.audit.done(act.detail(of(&record))).await;
        let mut shown = shown(&record);
        say(&mut shown, kept);
        Ok(Some(shown))
    }

    fn new_id(&self) -> String {
        let random = self.host.random();
        let hex: String = random
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        format!("key_{hex}")
    }

    /// Closes the store, where it is one of keys alone.
    pub(crate) async fn close(&self) {
        if self.own
            && let Err(error) = self.store.close().await
        {
            tracing::warn!(%error, "close the store of keys");
        }
    }
}

/// Returns the file that keys are stored in apart; `None` where they are in the profile's own store.
fn file(state_dir: &Utf8Path, auth: &Auth) -> Option<Utf8PathBuf> {
    let storage = auth.storage.as_ref()?;
    match (storage.driver, &storage.path) {
        (StorageDriver::Sqlite, path) => Some(state_dir.join(path.as_deref().unwrap_or(FILE))),
        (StorageDriver::Store | StorageDriver::Memory, _) => None,
    }
}

fn stored(record: &KeyRecord) -> StoredKey {
    let made = &record.made;
    StoredKey {
        id: made.id.clone(),
        hash: KeyHash::from_bytes(made.hash),
        principal: Arc::new(Principal {
            subject: made.principal.clone(),
            tenant: made.tenant.clone(),
            groups: made.groups.clone(),
            key: Some(made.id.clone()),
            capabilities: None,
        }),
        expires_ms: record.ends_ms(),
        revoked: record.revoked_ms.is_some(),
    }
}

/// Says of a key what a record of the audit has.
fn of(record: &KeyRecord) -> String {
    let made = &record.made;
    let mut text = format!("of {}", made.principal);
    if let Some(tenant) = &made.tenant {
        text.push_str(&format!(", tenant {tenant}"));
    }
    for group in &made.groups {
        text.push_str(&format!(", group {group}"));
    }
    text
}

/// Says in an answer that the record of what was done is not on the disk, where that is so.
fn say(answer: &mut Value, kept: Kept) {
    if let Some(word) = kept.word() {
        answer["audit"] = json!(word);
    }
}

fn shown(record: &KeyRecord) -> Value {
    let made = &record.made;
    json!({
        "id": made.id,
        "principal": made.principal,
        "tenant": made.tenant,
        "groups": made.groups,
        "created_at": timestamp(made.at_ms),
        "expires_at": made.expires_ms.map(timestamp),
        "revoked_at": record.revoked_ms.map(timestamp),
        "replaced_by": record.replaced.as_ref().map(|replaced| &replaced.by),
        "ends_at": record.ends_ms().map(timestamp),
        "last_used_at": record.used_ms.map(timestamp),
    })
}

// === impl Offline ===

impl Offline {
    /// Opens the stores of a claimed state directory, the keys where its config says that they are.
    ///
    /// # Errors
    /// Where the config is not valid, or a store cannot be opened.
    pub async fn open(
        claimed: StateDir,
        source: &ConfigSource,
        host: &Host,
    ) -> Result<Self, KeysError> {
        let config = source.load().map_err(KeysError::Config)?.config;
        let path = claimed.path().to_owned();
        let history = History::open(&path, config.profile.clone(), || host.random()).await?;
        let audit = Audit::new(&history, host.clock());
        let mut revoked = Overlay::default();
        if let Some(head) = history.head().await? {
            audit.in_force(head.number);
            revoked = stored_overlay(&head)?;
        }
        let keys = KeyStore::open(&history, &path, &config.auth, host, &audit).await?;
        Ok(Self {
            keys,
            history,
            revoked,
            _claimed: claimed,
        })
    }

    /// Answers `key.create`, `key.list`, `key.rotate`, `key.revoke`, `audit.list` or `revoke.list`, as a running gateway does.
    ///
    /// # Errors
    /// Where it is refused.
    pub async fn call(&self, method: &str, params: &RawObject) -> Result<RawJson, ControlError> {
        let answered = match method {
            "audit.list" => methods::answer_audit(&self.keys.audit, params).await,
            "revoke.list" => Ok(json!({"revoked": self.revoked.revoked})),
            method => methods::answer_keys(&self.keys, &self.revoked, method, params).await,
        };
        answered
            .map(|value| RawJson::encode(&value))
            .or_else(|error| outcome(method, Outcome::Error(error.to_raw())))
    }

    /// Closes the stores.
    pub async fn close(self) {
        self.keys.close().await;
        self.keys.audit.flush().await;
        self.history.close().await;
    }
}

impl std::fmt::Debug for Offline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Offline").finish_non_exhaustive()
    }
}
