//! Sessions and their transitions, as values.

use camino::Utf8PathBuf;
use genlock_config::ProfileId;
use genlock_frames::{PolicySeq, SessionId};
use genlock_policy::{Actor, GenerationNumber, Pick, Selection, TransitionCause};

/// A session to create. Its first policy is number 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSession {
    /// The profile it belongs to.
    pub profile: ProfileId,
    /// The id it gets, unless the same request has made one before.
    pub id: SessionId,
    /// Who asked for it, and owns it.
    pub owner: Actor,
    /// The caller's own id of the request: the same one makes no second session.
    pub request_id: String,
    /// What kind of client it is of.
    pub source: String,
    /// The directory it works in.
    pub cwd: Utf8PathBuf,
    /// A name for people.
    pub title: Option<String>,
    /// What it chose; `None` where it chose nothing.
    pub pick: Option<Pick>,
    /// The generation of its first policy.
    pub generation: GenerationNumber,
    /// What it may use under that generation.
    pub selection: Selection,
    /// When, in Unix milliseconds.
    pub at_ms: i64,
}

/// A session as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRecord {
    /// The profile it belongs to.
    pub profile: ProfileId,
    /// Its id.
    pub id: SessionId,
    /// Who owns it.
    pub owner: Actor,
    /// The caller's own id of the request that made it.
    pub request_id: String,
    /// What kind of client it is of.
    pub source: String,
    /// The directory it works in.
    pub cwd: Utf8PathBuf,
    /// A name for people.
    pub title: Option<String>,
    /// What it chose.
    pub pick: Option<Pick>,
    /// When it was created, in Unix milliseconds.
    pub created_ms: i64,
    /// The number of its policy.
    pub policy_seq: PolicySeq,
    /// The generation that its policy pins.
    pub generation: GenerationNumber,
    /// What it may use.
    pub selection: Selection,
    /// The counter that its token is derived with, from 1.
    pub token: u64,
    /// When that token began, in Unix milliseconds.
    pub token_ms: i64,
    /// When it was closed, in Unix milliseconds; `None` while it is open.
    pub closed_ms: Option<i64>,
}

/// A move of a session to another policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTransition {
    /// The profile.
    pub profile: ProfileId,
    /// The session.
    pub session: SessionId,
    /// The policy that it is made for; another one is a conflict.
    pub expected: PolicySeq,
    /// The generation of the new policy.
    pub generation: GenerationNumber,
    /// What the session may use under it.
    pub selection: Selection,
    /// What asks for it.
    pub cause: TransitionCause,
    /// Who asks for it.
    pub actor: Actor,
    /// When, in Unix milliseconds.
    pub at_ms: i64,
}

/// A committed move; the first one of a session is its creation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransitionRecord {
    /// The number of the policy that it made.
    pub policy_seq: PolicySeq,
    /// The generation of that policy.
    pub generation: GenerationNumber,
    /// What the session may use under it.
    pub selection: Selection,
    /// What asked for it.
    pub cause: TransitionCause,
    /// Who asked for it.
    pub actor: Actor,
    /// When, in Unix milliseconds.
    pub at_ms: i64,
}

// === impl NewSession ===

impl NewSession {
    /// Returns the record that this makes.
    pub(crate) fn into_record(self) -> SessionRecord {
        // Taken apart without `..`, so that a new field cannot be forgotten here.
        let Self {
            profile,
            id,
            owner,
            request_id,
            source,
            cwd,
            title,
            pick,
            generation,
            selection,
            at_ms,
        } = self;
        SessionRecord {
            profile,
            id,
            owner,
            request_id,
            source,
            cwd,
            title,
            pick,
            created_ms: at_ms,
            policy_seq: PolicySeq::new(1),
            generation,
            selection,
            token: 1,
            token_ms: at_ms,
            closed_ms: None,
        }
    }
}

// === impl SessionRecord ===

impl SessionRecord {
    /// Tells whether `new` asks for what this session was created with.
    pub(crate) fn was_asked_for_by(&self, new: &NewSession) -> bool {
        self.source == new.source
            && self.cwd == new.cwd
            && self.title == new.title
            && self.pick == new.pick
    }

    /// Returns the first transition of a session that was just created.
    pub(crate) fn creation(&self) -> TransitionRecord {
        TransitionRecord {
            policy_seq: self.policy_seq,
            generation: self.generation,
            selection: self.selection.clone(),
            cause: TransitionCause::Create,
            actor: self.owner.clone(),
            at_ms: self.created_ms,
        }
    }
}
