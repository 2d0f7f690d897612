//! What is stored, as values.

mod audit;
mod generation;
mod key;
mod session;
mod turn;

pub use self::{
    audit::{AuditFilter, AuditNumber, AuditOutcome, AuditRecord, NewAudit},
    generation::{Epoch, GenerationRecord, GenerationSummary, NewGeneration, PrivateFingerprint},
    key::{KeyRecord, NewKey, Replaced, Rotation},
    session::{NewSession, NewTransition, SessionRecord, TransitionRecord},
    turn::{
        NewTurn, OpenTurn, Reservation, TurnEnd, TurnError, TurnId, TurnMove, TurnOutcome,
        TurnRecord, TurnStatus,
    },
};
