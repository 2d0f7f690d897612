//! Why the authority does not do what it is asked.

use genlock_frames::{PolicySeq, SessionId};
use genlock_policy::{Actor, Revocation, UnknownMember};
use genlock_store::{
    AdmitError, CloseError, CreateError, Fault, MoveError, OpenTurn, TransitionError, TurnId,
    TurnStatus, WriteFault,
};

use crate::{payload::InvalidPayload, ports::GenerationsError};

/// Why the authority does not do what it is asked. Nothing was changed, but where the store says that it is in doubt.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// A parameter is not what it has to be.
    #[error("`{name}` {what}")]
    InvalidParams {
        /// The parameter.
        name: &'static str,
        /// What it has to be.
        what: String,
    },
    /// The pick names what is not there.
    #[error("`toolsets`")]
    UnknownMember(#[source] UnknownMember),
    /// The payload of a turn is none.
    #[error("`payload`")]
    InvalidPayload(#[from] InvalidPayload),
    /// There is no such session, or it is none of the caller's.
    #[error("there is no session `{0}`")]
    NoSession(String),
    /// There is no such turn, or it is of no session of the caller's.
    #[error("there is no turn `{0}`")]
    NoTurn(TurnId),
    /// The session is closed.
    #[error("session `{0}` is closed")]
    Closed(SessionId),
    /// The session is revoked.
    #[error("{0}")]
    Revoked(Revocation),
    /// The request made another session before.
    #[error("this `request_id` has made session `{found}` with other parameters")]
    OtherRequest {
        /// That session.
        found: SessionId,
    },
    /// The submission made another turn before.
    #[error("this `submission_id` has made turn `{found}` with another payload")]
    OtherSubmission {
        /// That turn.
        found: TurnId,
    },
    /// The policy has moved meanwhile.
    #[error("the session runs policy {found} by now, not {expected}")]
    OtherPolicy {
        /// The policy that the wish was for.
        expected: PolicySeq,
        /// The policy.
        found: PolicySeq,
    },
    /// Turns are in the way.
    #[error("{}", busy_message(.0))]
    Busy(Vec<OpenTurn>),
    /// The turn is in another state than the wish is for.
    #[error("turn `{turn}` is {}: {remedy}", .status.as_str())]
    WrongStatus {
        /// The turn.
        turn: TurnId,
        /// Where it is.
        status: TurnStatus,
        /// What can be done.
        remedy: &'static str,
    },
    /// Private values that a turn needs cannot be had, or are others by now.
    #[error("private values are not available: {}; `session.resume` brings the values of now", .pointers.join(", "))]
    PrivateValuesUnavailable {
        /// Where they stand in the config.
        pointers: Vec<String>,
    },
    /// The generation that the session pins cannot be had.
    #[error("generation {}: {}", .0.number, .0.why)]
    Generation(GenerationsError),
    /// The authority stops.
    #[error("the gateway stops")]
    Draining,
    /// The store failed.
    #[error("the store failed")]
    Store(#[source] WriteFault),
}

/// Says what is in the way of a transition, and what can be done.
pub(crate) fn busy_message(turns: &[OpenTurn]) -> String {
    let unknown: Vec<&str> = turns
        .iter()
        .filter(|turn| turn.status == TurnStatus::Unknown)
        .map(|turn| turn.id.as_str())
        .collect();
    if unknown.is_empty() {
        return "the change applies once the turn finishes: ask again then".to_owned();
    }
    format!(
        "the change applies once the turn finishes: nobody knows how far {} came, resolve it with `turn.resolve_unknown`",
        unknown.join(", ")
    )
}

/// Returns an error with all its causes, for people.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

// === impl Refusal ===

impl Refusal {
    /// Returns the refusal with all its causes, for people.
    pub fn explain(&self) -> String {
        with_causes(self)
    }

    /// Returns the stable code of the refusal: the reason that programs are told.
    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidParams { .. } | Self::UnknownMember(_) | Self::InvalidPayload(_) => {
                "invalid_params"
            }
            Self::NoSession(_) | Self::NoTurn(_) | Self::Closed(_) => "not_found",
            Self::Revoked(_) => Revocation::CODE,
            Self::OtherRequest { .. } | Self::OtherPolicy { .. } | Self::WrongStatus { .. } => {
                "conflict"
            }
            Self::OtherSubmission { .. } => "submission_conflict",
            Self::Busy(_) => "session_busy",
            Self::PrivateValuesUnavailable { .. } => "private_values_unavailable",
            Self::Generation(_) => "storage_unavailable",
            Self::Draining => "draining",
            Self::Store(WriteFault::StaleEpoch { .. }) => "stale_epoch",
            Self::Store(_) => "storage_unavailable",
        }
    }

    pub(crate) fn invalid(name: &'static str, what: impl Into<String>) -> Self {
        Self::InvalidParams {
            name,
            what: what.into(),
        }
    }

    pub(crate) fn of_create(error: CreateError) -> Self {
        match error {
            CreateError::Conflict { found } => Self::OtherRequest { found },
            CreateError::Write(fault) => Self::Store(fault),
        }
    }

    pub(crate) fn of_admission(error: AdmitError, session: &SessionId) -> Self {
        match error {
            AdmitError::NotFound => Self::NoSession(session.to_string()),
            AdmitError::Closed => Self::Closed(session.clone()),
            AdmitError::Conflict { found } => Self::OtherSubmission { found },
            AdmitError::Write(fault) => Self::Store(fault),
        }
    }

    pub(crate) fn of_transition(error: TransitionError, session: &SessionId) -> Self {
        match error {
            TransitionError::NotFound => Self::NoSession(session.to_string()),
            TransitionError::Closed => Self::Closed(session.clone()),
            TransitionError::Busy { turns } => Self::Busy(turns),
            TransitionError::Conflict { expected, found } => Self::OtherPolicy { expected, found },
            TransitionError::Write(fault) => Self::Store(fault),
        }
    }

    pub(crate) fn of_close(error: CloseError, session: &SessionId) -> Self {
        match error {
            CloseError::NotFound => Self::NoSession(session.to_string()),
            CloseError::Busy { turns } => Self::Busy(turns),
            CloseError::Write(fault) => Self::Store(fault),
        }
    }

    pub(crate) fn of_move(error: MoveError, turn: &TurnId, remedy: &'static str) -> Self {
        match error {
            MoveError::NotFound => Self::NoTurn(turn.clone()),
            MoveError::Status { found } => Self::WrongStatus {
                turn: turn.clone(),
                status: found,
                remedy,
            },
            MoveError::NotFirst { .. } => Self::WrongStatus {
                turn: turn.clone(),
                status: TurnStatus::Queued,
                remedy,
            },
            MoveError::Write(fault) => Self::Store(fault),
        }
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Self::Store(fault.into())
    }
}

impl From<GenerationsError> for Refusal {
    fn from(error: GenerationsError) -> Self {
        Self::Generation(error)
    }
}

/// Who asked for what belongs to somebody else: answered as what is not there.
pub(crate) fn owned_by(owner: &Actor, caller: &crate::Caller) -> bool {
    caller.operator || *owner == caller.actor
}
