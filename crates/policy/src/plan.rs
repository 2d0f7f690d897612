//! Whether a candidate becomes the next generation.

use std::collections::BTreeSet;

use genlock_config::{Effect, Mode};
use serde::Serialize;

use crate::{
    changes::{Changes, SectionChange, changed_sections, diff},
    snapshot::Snapshot,
};

/// What a reload has to decide upon.
#[derive(Debug, Clone, Copy)]
pub struct Plan<'s> {
    /// The head, none for a profile without a generation.
    pub head: Option<&'s Snapshot>,
    /// What the process booted with; none while it boots.
    pub booted: Option<&'s Snapshot>,
    /// What was loaded.
    pub candidate: &'s Snapshot,
    /// Whether the caller wants the last server to be removed.
    pub confirm_mass_removal: bool,
}

/// What becomes of a candidate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum Decision {
    /// It means what the head means: nothing is committed, no server is touched.
    Unchanged {
        /// The sections of which the process still runs what it booted with.
        restart_required: Vec<String>,
    },
    /// It becomes the next generation.
    Commit {
        /// What changes; all of it, where there is no head.
        changes: Changes,
        /// The sections of which the process goes on to run what it booted with.
        restart_required: Vec<String>,
    },
    /// It does not.
    Refused {
        /// Why.
        reason: Refusal,
    },
}

/// Why a candidate is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum Refusal {
    /// It would remove the last servers, and nobody confirmed that.
    #[error("the config removes every server ({}): confirm it with `confirm_mass_removal`", .removed.join(", "))]
    MassRemoval {
        /// The servers, by name.
        removed: Vec<String>,
    },
    /// It changes what is pinned while the process runs.
    #[error("`tool_access.mode` is `{running}` until a restart: restart required for `{wanted}`")]
    RestartRequired {
        /// The mode that the process booted with.
        running: Mode,
        /// The mode of the candidate.
        wanted: Mode,
    },
}

/// Returns the changes that wait for a restart: those of `now` against what the process booted with.
pub fn pending_restart(booted: &Snapshot, now: &Snapshot) -> Vec<SectionChange> {
    let mut sections = changed_sections(booted, now);
    sections.retain(|change| change.effect == Effect::RestartRequired);
    sections
}

// === impl Plan ===

impl Plan<'_> {
    /// Decides.
    ///
    /// ```
    /// use genlock_config::{Config, FingerprintKey};
    /// use genlock_policy::{Decision, Plan, Snapshot};
    ///
    /// let config = Config::default();
    /// let (snapshot, _) = Snapshot::of(&config, &config.profile, &FingerprintKey::from_bytes([7; 32]));
    /// let plan = Plan { head: Some(&snapshot), booted: None, candidate: &snapshot, confirm_mass_removal: false };
    ///
    /// assert_eq!(plan.decide(), Decision::Unchanged { restart_required: Vec::new() });
    /// ```
    pub fn decide(&self) -> Decision {
        let restart_required = || {
            let booted = self
                .booted
                .map(|booted| pending_restart(booted, self.candidate));
            let sections = booted.into_iter().flatten().map(|change| change.section);
            sections.collect::<BTreeSet<_>>().into_iter().collect()
        };
        if self.head == Some(self.candidate) {
            return Decision::Unchanged {
                restart_required: restart_required(),
            };
        }
        match self.refusal() {
            Some(reason) => Decision::Refused { reason },
            None => Decision::Commit {
                changes: self.changes(),
                restart_required: restart_required(),
            },
        }
    }

    fn refusal(&self) -> Option<Refusal> {
        let modes = (self.booted.and_then(Snapshot::mode), self.candidate.mode());
        if let (Some(running), Some(wanted)) = modes
            && running != wanted
        {
            return Some(Refusal::RestartRequired { running, wanted });
        }
        let removed: Vec<_> = self.head.into_iter().flat_map(names).collect();
        let last = !removed.is_empty() && names(self.candidate).next().is_none();
        (last && !self.confirm_mass_removal).then_some(Refusal::MassRemoval { removed })
    }

    fn changes(&self) -> Changes {
        match self.head {
            Some(head) => diff(head, self.candidate),
            None => {
                let mut changes = Changes::default();
                changes.servers.added = names(self.candidate).collect();
                changes
            }
        }
    }
}

fn names(snapshot: &Snapshot) -> impl Iterator<Item = String> + '_ {
    snapshot
        .redacted()
        .servers()
        .map(|(name, _)| name.to_owned())
}

// === impl Refusal ===

impl Refusal {
    /// Returns the stable code of this kind of refusal.
    pub fn code(&self) -> &'static str {
        match self {
            Self::MassRemoval { .. } => "mass_removal",
            Self::RestartRequired { .. } => "restart_required",
        }
    }
}
