//! How operations of a store fail.

use std::{error::Error, fmt, io};

use camino::Utf8PathBuf;
use genlock_frames::{PolicySeq, SessionId};
use genlock_policy::GenerationNumber;

use crate::record::{Epoch, OpenTurn, TurnId, TurnStatus};

/// What the database said, for people. Its text is not stable: programs use `code()`.
#[derive(Debug)]
pub struct BackendError(Box<dyn Error + Send + Sync>);

/// Why the store could not do what it was asked, whatever that was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The disk is full, or the store has reached its `max_bytes`.
    #[error("the store has no space left")]
    Full {
        /// What the database said.
        source: BackendError,
    },
    /// The file, its directory or the file system cannot be written, or the store was opened
    /// for reading.
    #[error("the store is read-only")]
    ReadOnly {
        /// What the database said.
        source: BackendError,
    },
    /// Another writer held the store for longer than `busy_timeout`.
    #[error("the store is busy")]
    Busy {
        /// What the database said; `None` where the other writer is of this process.
        source: Option<BackendError>,
    },
    /// The store is damaged. Nothing of the damaged part was used.
    #[error("the store is corrupt: {what}")]
    Corrupt {
        /// What is damaged.
        what: String,
        /// What the database said.
        source: Option<BackendError>,
    },
    /// The file was moved, deleted or replaced while the store was open, so that a write would
    /// be lost.
    #[error("the file of the open store is gone: {path}")]
    Missing {
        /// The file.
        path: Utf8PathBuf,
    },
    /// The disk or the database failed in another way.
    #[error("the store is unavailable")]
    Unavailable {
        /// What the database said.
        source: BackendError,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

/// Why a store was not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no database, or an empty one, where there was one or has to be one.
    #[error("the store's database is missing or empty: {path}")]
    Missing {
        /// The database.
        path: Utf8PathBuf,
        /// The file that says that there was one; `None` where the caller says so.
        evidence: Option<Utf8PathBuf>,
    },
    /// The file is no database, or one of another program.
    #[error("not a Genlock store: {path}")]
    Foreign {
        /// The file.
        path: Utf8PathBuf,
    },
    /// A later version of Genlock wrote the store.
    #[error("the store is of a newer version ({found}) than this program reads: {supported}")]
    Newer {
        /// The version of the store's schema.
        found: i64,
        /// The last version that this program knows.
        supported: i64,
    },
    /// A file beside the database, or the database as a file, could not be handled.
    #[error("{action} {path}")]
    File {
        /// What was being done, as a verb: `create`, `sync`, …
        action: &'static str,
        /// The file.
        path: Utf8PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The store failed as it may at any time.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Why a generation was not committed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// The head is not the expected one: another commit was first. Nothing was written.
    #[error("the head has moved: expected {}, found {}", Shown(*expected), Shown(*found))]
    Conflict {
        /// The head that the commit was made for.
        expected: Option<GenerationNumber>,
        /// The head.
        found: Option<GenerationNumber>,
    },
    /// A newer authority has taken over the profile. Nothing was written.
    #[error("stale epoch: ours is {ours}, current is {}", Shown(*current))]
    StaleEpoch {
        /// The epoch of the caller.
        ours: Epoch,
        /// The epoch of the profile; `None` where none was taken.
        current: Option<Epoch>,
    },
    /// The disk failed while the commit was made durable: read the head to know whether it is.
    #[error("whether the generation was committed is not known")]
    InDoubt {
        /// How the disk failed.
        source: Fault,
    },
    /// The store failed. Nothing was written.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Why generations were not pruned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PruneError {
    /// A newer authority has taken over the profile. Nothing was deleted.
    #[error("stale epoch: ours is {ours}, current is {}", Shown(*current))]
    StaleEpoch {
        /// The epoch of the caller.
        ours: Epoch,
        /// The epoch of the profile; `None` where none was taken.
        current: Option<Epoch>,
    },
    /// The store failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Why a write was not made, whatever it was.
#[derive(Debug, thiserror::Error)]
pub enum WriteFault {
    /// A newer authority has taken over the profile. Nothing was written.
    #[error("stale epoch: ours is {ours}, current is {}", Shown(*current))]
    StaleEpoch {
        /// The epoch of the caller.
        ours: Epoch,
        /// The epoch of the profile; `None` where none was taken.
        current: Option<Epoch>,
    },
    /// The disk failed while the write was made durable: read it back to know whether it is.
    #[error("whether it was written is not known")]
    InDoubt {
        /// How the disk failed.
        source: Fault,
    },
    /// The store failed. Nothing was written.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Why a session was not created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The same owner has made another session with the same request.
    #[error("the request has made session `{found}`, which is another one")]
    Conflict {
        /// That session.
        found: SessionId,
    },
    /// The write failed.
    #[error(transparent)]
    Write(#[from] WriteFault),
}

/// Why a session was not moved to another policy.
#[derive(Debug, thiserror::Error)]
pub enum TransitionError {
    /// There is no such session.
    #[error("there is no such session")]
    NotFound,
    /// It is closed.
    #[error("the session is closed")]
    Closed,
    /// Turns of it are not over. They win: what was admitted ends under the policy that it was admitted under.
    #[error("turns are not over: {}", .turns.len())]
    Busy {
        /// The turns, in their order.
        turns: Vec<OpenTurn>,
    },
    /// The policy is not the expected one: another transition was first.
    #[error("the policy has moved: expected {expected}, found {found}")]
    Conflict {
        /// The policy that the transition was made for.
        expected: PolicySeq,
        /// The policy.
        found: PolicySeq,
    },
    /// The write failed.
    #[error(transparent)]
    Write(#[from] WriteFault),
}

/// Why a session was not closed, or its token not changed.
#[derive(Debug, thiserror::Error)]
pub enum CloseError {
    /// There is no such session.
    #[error("there is no such session")]
    NotFound,
    /// Turns of it run or are unknown.
    #[error("turns run or are unknown: {}", .turns.len())]
    Busy {
        /// The turns, in their order.
        turns: Vec<OpenTurn>,
    },
    /// The write failed.
    #[error(transparent)]
    Write(#[from] WriteFault),
}

/// Why a turn was not admitted.
#[derive(Debug, thiserror::Error)]
pub enum AdmitError {
    /// There is no such session.
    #[error("there is no such session")]
    NotFound,
    /// It is closed.
    #[error("the session is closed")]
    Closed,
    /// The same submission was admitted with another payload.
    #[error("the submission has made turn `{found}`, which is another one")]
    Conflict {
        /// That turn.
        found: TurnId,
    },
    /// The write failed.
    #[error(transparent)]
    Write(#[from] WriteFault),
}

/// Why a turn was not moved on.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// There is no such turn.
    #[error("there is no such turn")]
    NotFound,
    /// It is in another status than the move begins in, or may not end so.
    #[error("the turn is {}", .found.as_str())]
    Status {
        /// The status.
        found: TurnStatus,
    },
    /// It is not the first of its session, or another one runs or is unknown.
    #[error("another turn is before it: `{before}`")]
    NotFirst {
        /// The turn that has to be over first.
        before: TurnId,
    },
    /// The write failed.
    #[error(transparent)]
    Write(#[from] WriteFault),
}

/// Shows what may be missing.
struct Shown<T>(Option<T>);

// === impl BackendError ===

impl BackendError {
    pub(crate) fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(error.into())
    }
}

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for BackendError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

// === impl Fault ===

impl Fault {
    /// Returns the stable name of the variant.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Full { .. } => "store.full",
            Self::ReadOnly { .. } => "store.read_only",
            Self::Busy { .. } => "store.busy",
            Self::Corrupt { .. } => "store.corrupt",
            Self::Missing { .. } => "store.missing",
            Self::Unavailable { .. } => "store.unavailable",
            Self::Closed => "store.closed",
        }
    }

    /// Returns what to do about it, for people.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Full { .. } => Some("free space on the disk; the last generation stays in force"),
            Self::ReadOnly { .. } => {
                Some("make the state directory and the database in it writable for this user")
            }
            Self::Busy { .. } => {
                Some("another process is writing to the store: try again, or stop it")
            }
            Self::Corrupt { .. } => Some(
                "stop the gateway, keep a copy of the database and its `-wal`, and restore the last backup",
            ),
            Self::Missing { .. } => {
                Some("put the database and its `-wal` back in place and restart the gateway")
            }
            Self::Unavailable { .. } | Self::Closed => None,
        }
    }

    pub(crate) fn corrupt(what: impl Into<String>) -> Self {
        Self::Corrupt {
            what: what.into(),
            source: None,
        }
    }
}

// === impl OpenError ===

impl OpenError {
    /// Returns the stable name of the variant.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "store.missing",
            Self::Foreign { .. } => "store.foreign",
            Self::Newer { .. } => "store.newer",
            Self::File { .. } => "store.file",
            Self::Fault(fault) => fault.code(),
        }
    }

    /// Returns what to do about it, for people.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Missing { path, evidence } => Some(match evidence {
                Some(evidence) => format!(
                    "restore `{path}` from a backup, or, to begin with an empty history, remove `{evidence}`"
                ),
                None => format!("restore `{path}` from a backup"),
            }),
            Self::Foreign { .. } => {
                Some("name another file, or move this one away if nothing needs it".to_owned())
            }
            Self::Newer { .. } => Some(
                "run the version of Genlock that wrote it, or restore a backup from before the update"
                    .to_owned(),
            ),
            Self::File { .. } => None,
            Self::Fault(fault) => fault.hint().map(str::to_owned),
        }
    }
}

// === impl CommitError ===

impl CommitError {
    /// Returns the stable name of the variant.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Conflict { .. } => "store.conflict",
            Self::StaleEpoch { .. } => "store.stale_epoch",
            Self::InDoubt { .. } => "store.in_doubt",
            Self::Fault(fault) => fault.code(),
        }
    }
}

// === impl PruneError ===

impl PruneError {
    /// Returns the stable name of the variant.
    pub fn code(&self) -> &'static str {
        match self {
            Self::StaleEpoch { .. } => "store.stale_epoch",
            Self::Fault(fault) => fault.code(),
        }
    }
}

// === impl WriteFault ===

impl WriteFault {
    /// Returns the stable name of the variant.
    pub fn code(&self) -> &'static str {
        match self {
            Self::StaleEpoch { .. } => "store.stale_epoch",
            Self::InDoubt { .. } => "store.in_doubt",
            Self::Fault(fault) => fault.code(),
        }
    }
}

// === impl CreateError ===

impl CreateError {
    /// Returns the stable name of the variant.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Conflict { .. } => "conflict",
            Self::Write(fault) => fault.code(),
        }
    }
}

// === impl TransitionError ===

impl TransitionError {
    /// Returns the stable name of the variant.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound | Self::Closed => "not_found",
            Self::Busy { .. } => "session_busy",
            Self::Conflict { .. } => "conflict",
            Self::Write(fault) => fault.code(),
        }
    }
}

// === impl CloseError ===

impl CloseError {
    /// Returns the stable name of the variant.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::Busy { .. } => "session_busy",
            Self::Write(fault) => fault.code(),
        }
    }
}

// === impl AdmitError ===

impl AdmitError {
    /// Returns the stable name of the variant.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound | Self::Closed => "not_found",
            Self::Conflict { .. } => "submission_conflict",
            Self::Write(fault) => fault.code(),
        }
    }
}

// === impl MoveError ===

impl MoveError {
    /// Returns the stable name of the variant.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::Status { .. } | Self::NotFirst { .. } => "conflict",
            Self::Write(fault) => fault.code(),
        }
    }
}

// === impl Shown ===

impl<T: fmt::Display> fmt::Display for Shown<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("none"),
        }
    }
}
