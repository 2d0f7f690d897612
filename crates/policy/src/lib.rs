//! What a session may run, as pure values and functions: generations, their differences, picks and selections.
//!
//! Owns what a generation is ([`Generation`]: a [`Snapshot`] of a config and an [`Overlay`] of revocations), what
//! changed between two ([`diff()`]), and whether a candidate becomes the next one ([`Plan`]).
//!
//! Invariants, above all the absences:
//! - Nothing here reads a clock, a file or a database; times and keys are passed in. See `docs/architecture.md`.
//! - Only [`Generation::config`] holds private values. Everything else may be stored, shown and logged.

mod changes;
mod explain;
mod gates;
mod generation;
mod identity;
mod overlay;
mod pick;
mod place;
mod plan;
mod pointer;
mod selection;
mod snapshot;
mod tools;
mod transition;

pub use changes::{Changes, SectionChange, ServerChange, ServerChanges, diff};
pub use explain::{Explanation, Gate, GateVerdict, Stopped, Verdict, Walk};
pub use gates::{Denied, Gates};
pub use generation::Generation;
pub use identity::{Actor, Cause, GenerationDigest, GenerationNumber};
pub use overlay::{Overlay, Revocation, RevocationKind};
pub use pick::{Known, NO_MCP, Pick, PickMember, TERMINAL, UnknownMember};
pub use place::ToolPlace;
pub use plan::{Decision, Plan, Refusal, pending_restart};
pub use selection::{Selection, SelectionRule, ServerVerdict, resolve};
pub use snapshot::{Snapshot, StoredSnapshotError};
pub use tools::{RuleRefusal, ToolVerdict};
pub use transition::{TransitionCause, needs_transition};
