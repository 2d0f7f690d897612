//! What a session may run, as pure values and functions: generations, their differences, picks and selections.
//!
//! Nothing here reads a clock, a file or a database. See `docs/architecture.md`.

mod generation;

pub use generation::{Actor, Cause, GenerationDigest, GenerationNumber};
