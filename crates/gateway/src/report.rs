//! [`Report`]: what a reload did, and [`ReloadError`]: why it was refused.

use genlock_config::{Finding, LoadError, RestoreError};
use genlock_policy::{Cause, Changes, GenerationNumber, Refusal, SectionChange};
use genlock_store::CommitError;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    history::{HistoryError, RestoreFault},
    reload::ReloadRequest,
};

/// What a reload did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The generation in force.
    pub generation: GenerationNumber,
    /// Whether it is a new one; in a dry run, whether it would be.
    pub changed: bool,
    /// Whether nothing was committed because nothing was to be.
    pub dry_run: bool,
    /// What became of the servers.
    pub servers: ServersReport,
    /// What changed besides.
    pub sections: Vec<SectionChange>,
    /// Where private values changed behind the same reference.
    pub private_rotated: Vec<String>,
    /// What goes on as it was booted until a restart.
    pub restart_required: Vec<String>,
    /// What should be known about the file.
    pub warnings: Vec<Finding>,
    /// How long it took.
    pub duration_ms: u64,
    /// `pending` where the record of it is not on the disk yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audit: Option<&'static str>,
    /// How much of that the steps took; the rest is waiting, for another reload and for servers.
    pub phases: Phases,
}

/// How long the steps of a reload took, in milliseconds. A step that was not taken took none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Phases {
    /// Reading the file, checking it, and taking its private values apart from the rest.
    pub load_ms: f64,
    /// The comparison with the head.
    pub plan_ms: f64,
    /// The write to the store.
    pub commit_ms: f64,
    /// Putting it in force.
    pub publish_ms: f64,
}

/// What became of the servers in a reload, by name.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ServersReport {
    /// Those that are new.
    pub added: Vec<String>,
    /// Those whose definition is another one.
    pub changed: Vec<String>,
    /// Those that are gone.
    pub removed: Vec<String>,
    /// How many were not touched.
    pub unchanged: usize,
    /// Those that do not serve, and why.
    pub unavailable: Vec<Unavailable>,
}

/// An enabled server that is not ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unavailable {
    /// Its name.
    pub name: String,
    /// Why: the last failure, else the word for its state.
    pub reason: String,
    /// When it is tried again, where that is known.
    pub retry_at: Option<String>,
}

/// Why a reload was refused. The generation before it stays in force.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// The file is not valid.
    #[error("the config is not valid")]
    Invalid(#[source] LoadError),
    /// The candidate must not become a generation.
    #[error(transparent)]
    Refused(Refusal),
    /// The head is another one than the caller has seen, or another process committed meanwhile.
    #[error("the head is generation {found}, not {expected}")]
    Conflict {
        /// What was expected.
        expected: GenerationNumber,
        /// What was found.
        found: GenerationNumber,
    },
    /// There is no such generation.
    #[error("there is no generation {0}")]
    NotFound(GenerationNumber),
    /// Private values of the generation are not those of today.
    #[error("private values are not available: {}", .pointers.join(", "))]
    PrivateValuesUnavailable {
        /// Where they stand.
        pointers: Vec<String>,
    },
    /// The stored generation is damaged.
    #[error("restore the generation")]
    Restore(#[source] RestoreFault),
    /// The commit failed.
    #[error("commit the generation")]
    Commit(#[source] CommitError),
    /// The store failed.
    #[error(transparent)]
    History(#[from] HistoryError),
}

impl ReloadError {
    /// Returns the stable code of the error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Invalid(error) => error.code(),
            Self::Refused(refusal) => refusal.code(),
            Self::Conflict { .. } => "conflict",
            Self::NotFound(_) => "not_found",
            Self::PrivateValuesUnavailable { .. } => "private_values_unavailable",
            Self::Restore(_) => "storage_unavailable",
            Self::Commit(error) => error.code(),
            Self::History(error) => error.code(),
        }
    }

    /// Returns the findings of an invalid file.
    pub fn findings(&self) -> &[Finding] {
        match self {
            Self::Invalid(error) => error.findings(),
            Self::Refused(_)
            | Self::Conflict { .. }
            | Self::NotFound(_)
            | Self::PrivateValuesUnavailable { .. }
            | Self::Restore(_)
            | Self::Commit(_)
            | Self::History(_) => &[],
        }
    }
}

impl Report {
    pub(crate) fn take(&mut self, changes: Changes) {
        self.servers = ServersReport {
            added: changes.servers.added,
            changed: changes
                .servers
                .changed
                .into_iter()
                .map(|change| change.name)
                .collect(),
            removed: changes.servers.removed,
            unchanged: changes.servers.unchanged,
            unavailable: Vec::new(),
        };
        self.sections = changes.sections;
        self.private_rotated = changes.private_rotated;
    }
}

impl From<RestoreError> for ReloadError {
    fn from(error: RestoreError) -> Self {
        Self::Restore(error.into())
    }
}

/// What the status and listeners are told of a refusal: `{cause, code, message, findings}`.
pub(crate) fn refusal(cause: Cause, code: &str, message: &str, findings: &[Finding]) -> Value {
    let findings: Vec<String> = findings.iter().map(ToString::to_string).collect();
    json!({"cause": cause.as_str(), "code": code, "message": message, "findings": findings})
}

/// What the status says of a refusal: findings are listed beside it, any other cause is not.
pub(crate) fn message(error: &ReloadError) -> String {
    if let ReloadError::Invalid(error) = error {
        return not_loaded(error);
    }
    error.to_string()
}

/// What the status says of a file that is no config.
pub(crate) fn not_loaded(error: &LoadError) -> String {
    let mut text = "the config is not valid".to_owned();
    if error.findings().is_empty() {
        let mut cause: Option<&dyn std::error::Error> = Some(error);
        while let Some(inner) = cause {
            text = format!("{text}: {inner}");
            cause = inner.source();
        }
    }
    text
}

/// Whether a refusal leaves the file and what is in force apart. A caller that has seen another head, and a rollback, can ask
/// again or not: their refusal says nothing of the file.
pub(crate) fn is_about_the_file(request: &ReloadRequest, error: &ReloadError) -> bool {
    let is_stale = request.expected.is_some() && matches!(error, ReloadError::Conflict { .. });
    request.cause != Cause::Rollback && !is_stale
}
