//! Who calls, and what they may.
//!
//! Owns principals, API keys, roles and the one decision over them, [`Roles::may`]. Each part is a value or a pure function,
//! but for [`KeyRing`] and [`Attempts`], which are shared and never wait.
//!
//! Invariants, above all the absences:
//! - Knows no store, no HTTP and no MCP; reads no clock and no random numbers: the host passes them in.
//! - A key is shown once, when it is made. What is kept of it is a keyed hash, of no use without the host's own key.
//! - Nothing is granted that no binding grants.
//! - Verifying a key touches no disk: [`KeyRing`] holds what is stored, and is replaced when that changes.

mod attempts;
mod key;
mod permission;
mod principal;
mod ring;
mod roles;

pub use self::{
    attempts::Attempts,
    key::{ApiKey, KeyHash, KeyHasher, MalformedKey},
    permission::Permission,
    principal::{Principal, Visitor},
    ring::{KeyFault, KeyRing, StoredKey},
    roles::{Decision, Roles},
};
