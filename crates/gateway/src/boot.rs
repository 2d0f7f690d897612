//! Starts a gateway whose configurations are committed generations: from the file, or, where that is broken, from the last
//! good one.

use std::sync::Arc;

use genlock_config::{Finding, LoadError, Loaded, ProfileId};
use genlock_policy::{Actor, Cause, Decision, Generation, Overlay, Plan, Refusal, Snapshot};
use genlock_store::{CommitError, GenerationRecord};
use serde_json::{Value, json};

use crate::{
    gateway::Host,
    history::{
        Draft, History, HistoryError, RestoreFault, generation, stored_overlay, stored_snapshot,
    },
    reload::unix_ms,
    report::{not_loaded, refusal},
    source::ConfigSource,
    state_dir::StateDir,
};

/// Why a gateway does not start.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// The config is not valid, and there is no generation to start on, or none is wanted.
    #[error("the config is not valid")]
    Invalid(#[source] LoadError),
    /// The config must not become a generation, and no earlier one is wanted.
    #[error(transparent)]
    Refused(Refusal),
    /// The history cannot be opened.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// The API keys cannot be used.
    #[error(transparent)]
    Keys(#[from] crate::keys::KeysError),
    /// The first generation cannot be committed.
    #[error("commit the generation")]
    Commit(#[source] CommitError),
    /// The sessions cannot be taken over.
    #[error("take over the sessions")]
    Sessions(#[source] genlock_authority::Refusal),
    /// The last good generation cannot be put in force again.
    #[error("restore generation {number}")]
    Restore {
        /// Its number.
        number: genlock_policy::GenerationNumber,
        /// Why.
        source: RestoreFault,
    },
}

impl BootError {
    /// Returns the stable code of the error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Invalid(error) => error.code(),
            Self::Refused(refusal) => refusal.code(),
            Self::History(error) => error.code(),
            Self::Keys(error) => error.code(),
            Self::Commit(error) => error.code(),
            Self::Sessions(refusal) => refusal.code(),
            Self::Restore { .. } => "storage_unavailable",
        }
    }

    /// Returns the findings of an invalid file.
    pub fn findings(&self) -> &[Finding] {
        match self {
            Self::Invalid(error) => error.findings(),
            Self::Refused(_)
            | Self::History(_)
            | Self::Keys(_)
            | Self::Commit(_)
            | Self::Sessions(_)
            | Self::Restore { .. } => &[],
        }
    }
}

/// A generation to start on, and why it is not the one of the file, where that is so.
pub(crate) struct Booted {
    pub(crate) history: History,
    pub(crate) generation: Generation,
    pub(crate) degraded: Option<Value>,
    pub(crate) warnings: Vec<Finding>,
}

/// Finds or commits the generation to start on.
pub(crate) async fn boot(
    state_dir: &StateDir,
    source: &ConfigSource,
    strict: bool,
    host: &Host,
) -> Result<Booted, BootError> {
    let loaded = source.load();
    let profile = loaded.as_ref().map_or_else(
        |_| ProfileId::default(),
        |loaded| loaded.config.profile.clone(),
    );
    let history = History::open(state_dir.path(), profile, || host.random()).await?;
    let head = history.head().await?;
    match loaded {
        Ok(loaded) => from_file(history, head, loaded, source, strict, host).await,
        Err(error) => match head {
            Some(head) if !strict => {
                let degraded = refusal(
                    Cause::Boot,
                    error.code(),
                    &not_loaded(&error),
                    error.findings(),
                );
                from_last_good(history, &head, source, degraded)
            }
            Some(_) | None => Err(BootError::Invalid(error)),
        },
    }
}

async fn from_file(
    history: History,
    head: Option<GenerationRecord>,
    loaded: Loaded,
    source: &ConfigSource,
    strict: bool,
    host: &Host,
) -> Result<Booted, BootError> {
    let candidate = history.snapshot(&loaded.config);
    let stored = head.as_ref().map(content).transpose()?;
    let (stored, overlay) = stored.unzip();
    let plan = Plan {
        head: stored.as_ref(),
        booted: None,
        candidate: &candidate,
        confirm_mass_removal: false,
    };
    let warnings = [loaded.warnings, loaded.unavailable].concat();
    let overlay = Arc::new(overlay.unwrap_or_default());
    match (plan.decide(), head) {
        (Decision::Unchanged { .. }, Some(head)) => {
            let (snapshot, config) = (Arc::new(candidate), Arc::new(loaded.config));
            let generation = generation(&head, snapshot, overlay, config);
            Ok(Booted {
                history,
                generation,
                degraded: None,
                warnings,
            })
        }
        (Decision::Refused { reason }, Some(head)) if !strict => {
            let degraded = refusal(Cause::Boot, reason.code(), &reason.to_string(), &[]);
            from_last_good(history, &head, source, degraded)
        }
        (Decision::Refused { reason }, _) => Err(BootError::Refused(reason)),
        (Decision::Commit { .. } | Decision::Unchanged { .. }, head) => {
            let draft = Draft {
                snapshot: Arc::new(candidate),
                overlay,
                config: Arc::new(loaded.config),
                cause: Cause::Boot,
                actor: Actor::system(),
                reason: None,
                at_ms: unix_ms(host.now()),
            };
            let generation = history
                .commit(head.map(|head| head.number), draft)
                .await
                .map_err(BootError::Commit)?;
            Ok(Booted {
                history,
                generation,
                degraded: None,
                warnings,
            })
        }
    }
}

/// Reads what a stored generation holds.
fn content(record: &GenerationRecord) -> Result<(Snapshot, Overlay), HistoryError> {
    let content =
        stored_snapshot(record).and_then(|snapshot| Ok((snapshot, stored_overlay(record)?)));
    content.map_err(|source| HistoryError::Damaged {
        number: record.number,
        source,
    })
}

/// Starts on a stored generation. Servers whose private values cannot be had park; the others serve.
fn from_last_good(
    history: History,
    head: &GenerationRecord,
    source: &ConfigSource,
    degraded: Value,
) -> Result<Booted, BootError> {
    let values = source.private_values();
    let restored = history.restore(head, &values);
    let (generation, unmatched) = restored.map_err(|source| BootError::Restore {
        number: head.number,
        source,
    })?;
    let why = degraded.to_string();
    tracing::error!(
        generation = %head.number,
        why,
        "the config is not valid: the last good generation is served"
    );
    let mut degraded = degraded;
    if let (Some(object), false) = (degraded.as_object_mut(), unmatched.is_empty()) {
        object.insert("private_values_unavailable".to_owned(), json!(unmatched));
    }
    Ok(Booted {
        history,
        generation,
        degraded: Some(degraded),
        warnings: Vec::new(),
    })
}
