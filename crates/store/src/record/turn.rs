//! Turns, as values, and how they may move.

use std::fmt;

use genlock_config::ProfileId;
use genlock_frames::{ExecutionId, PolicySeq, SessionId};
use genlock_policy::{Actor, GenerationNumber};

/// The id of a turn: unique in its profile.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TurnId(String);

/// A turn to admit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTurn {
    /// The profile.
    pub profile: ProfileId,
    /// The id it gets, unless the same submission was admitted before.
    pub id: TurnId,
    /// The session that it is submitted to.
    pub session: SessionId,
    /// The caller's own id of the submission: the same one makes no second turn.
    pub submission: String,
    /// What it does, as JSON.
    pub payload: String,
    /// Who submits it.
    pub actor: Actor,
    /// When, in Unix milliseconds.
    pub at_ms: i64,
}

/// A turn as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnRecord {
    /// The profile.
    pub profile: ProfileId,
    /// Its id.
    pub id: TurnId,
    /// Its session.
    pub session: SessionId,
    /// Its place in the queue of its session, from 1.
    pub sequence: u64,
    /// The caller's own id of it.
    pub submission: String,
    /// What it does, as JSON.
    pub payload: String,
    /// The policy that it was admitted under and runs with.
    pub policy_seq: PolicySeq,
    /// The generation of that policy.
    pub generation: GenerationNumber,
    /// Who submitted it.
    pub actor: Actor,
    /// When it was admitted, in Unix milliseconds.
    pub submitted_ms: i64,
    /// Where it is in its life.
    pub status: TurnStatus,
    /// What was reserved for it; `None` before it ran.
    pub reservation: Option<Reservation>,
    /// When it was over, in Unix milliseconds.
    pub ended_ms: Option<i64>,
    /// What it came to, as JSON.
    pub result: Option<String>,
    /// What went wrong.
    pub error: Option<TurnError>,
}

/// Where a turn is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TurnStatus {
    /// It waits.
    Queued,
    /// A worker runs it.
    Running,
    /// Whoever ran it was lost; nobody knows how far it came. It is never run again.
    Unknown,
    /// It is over.
    Done(TurnOutcome),
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TurnOutcome {
    /// It ran to its end.
    Completed,
    /// It ran and could not be ended.
    Failed,
    /// It was stopped while it ran.
    Interrupted,
    /// It was taken back before it ran.
    Cancelled,
    /// It could not be begun.
    Rejected,
}

/// What went wrong with a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnError {
    /// The stable code.
    pub code: String,
    /// The same for people.
    pub message: String,
}

/// The permission to run a turn once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// Its id.
    pub execution: ExecutionId,
    /// The digest of the secret that the worker proves itself with.
    pub secret: [u8; 32],
    /// When, in Unix milliseconds.
    pub started_ms: i64,
}

/// How a turn ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnEnd {
    /// How.
    pub outcome: TurnOutcome,
    /// What it came to, as JSON.
    pub result: Option<String>,
    /// What went wrong.
    pub error: Option<TurnError>,
    /// When, in Unix milliseconds.
    pub at_ms: i64,
}

/// How a turn moves on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnMove {
    /// From queued to running. The first of its session, and none other runs or is unknown.
    Reserve(Reservation),
    /// From queued to done: it never ran.
    Withdraw(TurnEnd),
    /// From running to done.
    Finish(TurnEnd),
    /// From running to unknown: whoever ran it was lost.
    Lose,
    /// From unknown to done: somebody has found out what became of it.
    Resolve(TurnEnd),
}

/// A turn that is not over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenTurn {
    /// Its id.
    pub id: TurnId,
    /// Where it is in its life.
    pub status: TurnStatus,
}

// === impl TurnId ===

impl TurnId {
    /// Takes an id as it was made, stored or sent.
    pub fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TurnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// === impl TurnStatus ===

impl TurnStatus {
    /// Returns the word that is stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Unknown => "unknown",
            Self::Done(_) => "done",
        }
    }

    /// Returns how it ended; `None` while it has not.
    pub fn outcome(self) -> Option<TurnOutcome> {
        match self {
            Self::Queued | Self::Running | Self::Unknown => None,
            Self::Done(outcome) => Some(outcome),
        }
    }

    /// Reads the words back.
    pub(crate) fn from_words(status: &str, outcome: Option<&str>) -> Option<Self> {
        match (status, outcome) {
            ("queued", None) => Some(Self::Queued),
            ("running", None) => Some(Self::Running),
            ("unknown", None) => Some(Self::Unknown),
            ("done", Some(outcome)) => TurnOutcome::from_word(outcome).map(Self::Done),
            _ => None,
        }
    }
}

// === impl TurnOutcome ===

impl TurnOutcome {
    const ALL: [Self; 5] = [
        Self::Completed,
        Self::Failed,
        Self::Interrupted,
        Self::Cancelled,
        Self::Rejected,
    ];

    /// Returns the word that is stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
            Self::Cancelled => "cancelled",
            Self::Rejected => "rejected",
        }
    }

    /// Reads a word back.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|outcome| outcome.as_str() == word)
    }
}

// === impl NewTurn ===

impl NewTurn {
    /// Returns the record that the admission of this under a policy makes.
    pub(crate) fn into_record(
        self,
        sequence: u64,
        policy_seq: PolicySeq,
        generation: GenerationNumber,
    ) -> TurnRecord {
        let Self {
            profile,
            id,
            session,
            submission,
            payload,
            actor,
            at_ms,
        } = self;
        TurnRecord {
            profile,
            id,
            session,
            sequence,
            submission,
            payload,
            policy_seq,
            generation,
            actor,
            submitted_ms: at_ms,
            status: TurnStatus::Queued,
            reservation: None,
            ended_ms: None,
            result: None,
            error: None,
        }
    }
}

// === impl TurnRecord ===

impl TurnRecord {
    /// Moves on, or says which status it is in instead.
    pub(crate) fn moved(self, step: TurnMove) -> Result<Self, TurnStatus> {
        match step {
            TurnMove::Reserve(reservation) => self.reserved(reservation),
            TurnMove::Withdraw(end) => self.ended(TurnStatus::Queued, end),
            TurnMove::Finish(end) => self.ended(TurnStatus::Running, end),
            TurnMove::Lose => self.lost(),
            TurnMove::Resolve(end) => self.ended(TurnStatus::Unknown, end),
        }
    }

    /// Begins the one execution of a queued turn.
    fn reserved(self, reservation: Reservation) -> Result<Self, TurnStatus> {
        match self.status {
            TurnStatus::Queued => Ok(Self {
                status: TurnStatus::Running,
                reservation: Some(reservation),
                ..self
            }),
            TurnStatus::Running | TurnStatus::Unknown | TurnStatus::Done(_) => Err(self.status),
        }
    }

    /// Gives up a turn whose worker was lost.
    fn lost(self) -> Result<Self, TurnStatus> {
        match self.status {
            TurnStatus::Running => Ok(Self {
                status: TurnStatus::Unknown,
                ..self
            }),
            TurnStatus::Queued | TurnStatus::Unknown | TurnStatus::Done(_) => Err(self.status),
        }
    }

    /// Ends a turn that is in the status `from`. A turn that never ran is cancelled, rejected or has failed; one that ran
    /// is none of the first two.
    fn ended(self, from: TurnStatus, end: TurnEnd) -> Result<Self, TurnStatus> {
        use TurnOutcome::{Cancelled, Completed, Failed, Interrupted, Rejected};
        let may_end_so = match self.status {
            TurnStatus::Queued => matches!(end.outcome, Cancelled | Rejected | Failed),
            TurnStatus::Running | TurnStatus::Unknown => {
                matches!(end.outcome, Completed | Failed | Interrupted)
            }
            TurnStatus::Done(_) => false,
        };
        if self.status != from || !may_end_so {
            return Err(self.status);
        }
        Ok(Self {
            status: TurnStatus::Done(end.outcome),
            ended_ms: Some(end.at_ms),
            result: end.result,
            error: end.error,
            ..self
        })
    }
}
