//! [`ReloadRequest`]: what is asked of a reload.

use std::time::Duration;

use genlock_policy::{Actor, Cause, GenerationNumber};

use crate::{audit::Who, reload::WAIT};

/// What is asked of a reload.
#[derive(Debug, Clone)]
pub struct ReloadRequest {
    /// What asks.
    pub cause: Cause,
    /// Who asks.
    pub actor: Actor,
    /// The head that the caller has seen; another one is a conflict.
    pub expected: Option<GenerationNumber>,
    /// Whether to stop before the commit.
    pub dry_run: bool,
    /// Whether the last servers may be removed.
    pub confirm_mass_removal: bool,
    /// How long the report waits for servers that were started.
    pub wait: Duration,
    /// Whom the record of it names.
    pub(crate) who: Who,
}

impl ReloadRequest {
    /// Asks for a plain reload.
    pub fn new(cause: Cause, actor: Actor) -> Self {
        Self {
            cause,
            who: Who::new(actor.clone()),
            actor,
            expected: None,
            dry_run: false,
            confirm_mass_removal: false,
            wait: WAIT,
        }
    }

    /// Asks for a plain reload on behalf of somebody who is known more closely.
    pub(crate) fn of(cause: Cause, who: Who) -> Self {
        Self {
            who: who.clone(),
            ..Self::new(cause, who.actor)
        }
    }
}
