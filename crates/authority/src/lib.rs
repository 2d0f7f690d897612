//! The session authority: the single writer for a profile's sessions.
//!
//! One actor per session owns its transitions, its queue and the publication of its policy; see `docs/design/` for the fence
//! and what it promises. What the authority needs from the rest of a gateway it asks of three ports: the [`Store`] for what
//! is durable, [`Generations`] for what a number stands for, and [`Runners`] for the processes that run turns.
//!
//! Invariants, above all the absences:
//! - No SQL, no HTTP, no clock and no random numbers of its own: they are passed in.
//! - A session runs the policy that it was committed to, and has no way to ask for a newer one: a head comes in with the
//!   transition that a caller asked for, and with nothing else.
//! - A turn is reserved in the store before a worker hears of it, and reserved once: what was lost is `unknown` and is never
//!   run again.
//!
//! [`Store`]: genlock_store::Store

mod actor;
mod authority;
mod execution;
mod managed;
mod outcome;
mod payload;
mod ports;
mod refusal;
mod token;
mod waiting;
pub mod worker;

pub use self::{
    actor::{Moved, SessionPolicy, SessionView, Transition},
    authority::{Authority, Caller, NewSessionRequest, Parts, Submission},
    managed::ManagedWorkers,
    outcome::{ReloadFacts, ReloadOutcome, SessionPart, reload_outcome},
    payload::{Call, InvalidPayload, Payload},
    ports::{
        Execution, Generations, GenerationsError, Pending, Pinned, RunEnd, RunFault, Runner,
        RunnerOrder, Runners,
    },
    refusal::Refusal,
    token::TokenKey,
};
