//! A committed policy generation.

use std::{fmt, sync::Arc};

use genlock_config::Config;

use crate::{
    identity::{Actor, Cause, GenerationNumber},
    overlay::Overlay,
    snapshot::Snapshot,
};

/// An immutable, numbered generation of a profile, as a request or a turn holds it from admission to its last byte.
///
/// `Debug` shows no private value. There is no `Serialize`: what is stored and shown is in its parts.
#[derive(Clone)]
pub struct Generation {
    /// Its number.
    pub number: GenerationNumber,
    /// The generation before it, none for the first.
    pub parent: Option<GenerationNumber>,
    /// What asked for it.
    pub cause: Cause,
    /// Who asked for it.
    pub actor: Actor,
    /// When it was committed, in milliseconds since 1970.
    pub at_ms: i64,
    /// Why, where someone said so.
    pub reason: Option<String>,
    /// What its config means.
    pub snapshot: Arc<Snapshot>,
    /// What is denied, whatever the config says.
    pub overlay: Arc<Overlay>,
    /// The config itself, private values included: in memory only.
    pub config: Arc<Config>,
}

impl fmt::Debug for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Generation")
            .field("number", &self.number)
            .field("parent", &self.parent)
            .field("cause", &self.cause)
            .field("actor", &self.actor)
            .field("at_ms", &self.at_ms)
            .field("digest", &self.snapshot.digest())
            .field("revoked", &self.overlay.revoked.len())
            .finish_non_exhaustive()
    }
}
