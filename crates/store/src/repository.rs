//! What a backend offers, one trait for each group of rows.
//!
//! The traits can be made into objects, so that a host chooses the backend by URL and a test
//! puts a store that fails at its n-th call in its place. None of it is on the path of a tool
//! call, so the allocation of each future does not matter.

use std::{collections::BTreeSet, num::NonZeroU32, pin::Pin};

use genlock_config::ProfileId;
use genlock_frames::SessionId;
use genlock_policy::GenerationNumber;

use crate::{
    fault::{
        AdmitError, CloseError, CommitError, CreateError, Fault, MoveError, PruneError,
        TransitionError, WriteFault,
    },
    record::{
        AuditFilter, AuditNumber, AuditRecord, Epoch, GenerationRecord, GenerationSummary,
        KeyRecord, NewAudit, NewGeneration, NewKey, NewSession, NewTransition, NewTurn, OpenTurn,
        Rotation, SessionRecord, TransitionRecord, TurnId, TurnMove, TurnRecord,
    },
};

/// The future that a method of a store returns.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A whole store: every group of rows, and the life of the store itself.
pub trait Store: Epochs + Generations + Sessions + Turns + Keys + Audits {
    /// Reads everything and checks it: the file's structure, and the seal of each row.
    ///
    /// Takes time in proportion to the store. [`open`](crate::open) checks heads alone.
    ///
    /// # Errors
    /// [`Fault::Corrupt`] for the first damage found.
    ///
    /// # Cancel safety
    /// Writes nothing; may be dropped at any time.
    fn verify(&self) -> Pending<'_, Result<Verified, Fault>>;

    /// Closes the store, after the write in progress; later calls answer [`Fault::Closed`].
    ///
    /// A store that is dropped instead loses nothing that was committed.
    ///
    /// # Errors
    /// The fault of the last connection, such as a full disk while the WAL was folded in.
    ///
    /// # Cancel safety
    /// The store is closed or not; call again until it is.
    fn close(&self) -> Pending<'_, Result<(), Fault>>;
}

/// What [`Store::verify`] has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified {
    /// How many profiles there are.
    pub profiles: u64,
    /// How many generations there are, over all profiles.
    pub generations: u64,
    /// How many sessions there are, over all profiles.
    pub sessions: u64,
    /// How many turns there are, over all profiles.
    pub turns: u64,
    /// How many API keys there are, over all profiles.
    pub keys: u64,
    /// How many records of the audit there are, over all profiles.
    pub audit: u64,
}

/// The epochs of profiles.
pub trait Epochs: Send + Sync {
    /// Starts an authority for `profile`: raises its epoch by 1, from then on fencing every
    /// write of the one before, and returns it. The profile is made where there is none.
    ///
    /// # Errors
    /// Any [`Fault`].
    ///
    /// # Cancel safety
    /// A dropped call has raised the epoch or not. Call again: an epoch may be skipped.
    fn take_epoch<'a>(&'a self, profile: &'a ProfileId) -> Pending<'a, Result<Epoch, Fault>>;
}

/// The generations of profiles.
pub trait Generations: Send + Sync {
    /// Commits `new` as the head of its profile if the head is `expected` (`None`: if there is
    /// none yet), in one transaction. When it returns, the generation is on the disk.
    ///
    /// # Errors
    /// [`CommitError::StaleEpoch`] before [`CommitError::Conflict`]; both write nothing. So does
    /// every fault but [`CommitError::InDoubt`], after which the head must be read again.
    ///
    /// # Cancel safety
    /// The generation of a dropped call is wholly there or not at all. Which of the two is
    /// settled when the next write to this store returns; until then it may still turn up.
    fn commit_generation(
        &self,
        epoch: Epoch,
        expected: Option<GenerationNumber>,
        new: NewGeneration,
    ) -> Pending<'_, Result<GenerationRecord, CommitError>>;

    /// Returns the newest generation of `profile`; `None` where nothing was committed.
    ///
    /// # Errors
    /// Any [`Fault`]; [`Fault::Corrupt`] where the head's row is damaged or gone.
    ///
    /// # Cancel safety
    /// Writes nothing; may be dropped at any time.
    fn head<'a>(
        &'a self,
        profile: &'a ProfileId,
    ) -> Pending<'a, Result<Option<GenerationRecord>, Fault>>;

    /// Returns the generation `number` of `profile`; `None` where it never was or was pruned.
    ///
    /// # Errors
    /// Any [`Fault`].
    ///
    /// # Cancel safety
    /// Writes nothing; may be dropped at any time.
    fn get<'a>(
        &'a self,
        profile: &'a ProfileId,
        number: GenerationNumber,
    ) -> Pending<'a, Result<Option<GenerationRecord>, Fault>>;

    /// Returns at most `limit` generations of `profile`, newest first, from the newest or from
    /// the one below `before`. The last number of a page is the `before` of the next.
    ///
    /// # Errors
    /// Any [`Fault`].
    ///
    /// # Cancel safety
    /// Writes nothing; may be dropped at any time.
    fn list<'a>(
        &'a self,
        profile: &'a ProfileId,
        before: Option<GenerationNumber>,
        limit: u32,
    ) -> Pending<'a, Result<Vec<GenerationSummary>, Fault>>;

    /// Deletes the generations of `profile` whose number is not among the newest `keep`, except
    /// those in `pinned`, and returns their numbers, ascending. The head always stays.
    ///
    /// # Errors
    /// [`PruneError::StaleEpoch`], or any [`Fault`]; a part may have been deleted.
    ///
    /// # Cancel safety
    /// Deletes in batches of whole generations; a dropped call has deleted the oldest or none.
    fn prune<'a>(
        &'a self,
        epoch: Epoch,
        profile: &'a ProfileId,
        keep: NonZeroU32,
        pinned: &'a BTreeSet<GenerationNumber>,
    ) -> Pending<'a, Result<Vec<GenerationNumber>, PruneError>>;
}

/// The sessions of profiles, and how they move.
pub trait Sessions: Send + Sync {
    /// Creates a session with its first policy, in one transaction; or returns the one that the same owner made with the
    /// same request before. When it returns, the session is on the disk.
    ///
    /// # Errors
    /// [`CreateError`]; nothing was written, but for what is in doubt.
    ///
    /// # Cancel safety
    /// The session of a dropped call is wholly there or not at all; call again with the same request.
    fn create_session(
        &self,
        epoch: Epoch,
        new: NewSession,
    ) -> Pending<'_, Result<SessionRecord, CreateError>>;

    /// Returns a session; `None` where there is none.
    ///
    /// # Errors
    /// Any [`Fault`].
    ///
    /// # Cancel safety
    /// Writes nothing; may be dropped at any time.
    fn session<'a>(
        &'a self,
        profile: &'a ProfileId,
        id: &'a SessionId,
    ) -> Pending<'a, Result<Option<SessionRecord>, Fault>>;

    /// Returns at most `limit` sessions, newest first, from the newest or from the one that was created before `before`.
    ///
    /// # Errors
    /// Any [`Fault`].
    ///
    /// # Cancel safety
    /// Writes nothing; may be dropped at any time.
    fn sessions<'a>(
        &'a self,
        profile: &'a ProfileId,
        before: Option<&'a SessionId>,
        limit: u32,
    ) -> Pending<'a, Result<Vec<SessionRecord>, Fault>>;

    /// Moves a session to its next policy, in one transaction that decides by itself whether the session is idle: no turn of
    /// it is queued, running or unknown. When it returns, the transition is on the disk.
    ///
    /// # Errors
    /// [`TransitionError`]; nothing was written, but for what is in doubt.
    ///
    /// # Cancel safety
    /// The transition of a dropped call is wholly there or not at all; read the session to know.
    fn commit_transition(
        &self,
        epoch: Epoch,
        new: NewTransition,
    ) -> Pending<'_, Result<SessionRecord, TransitionError>>;

    /// Returns the transitions of a session, oldest first.
    ///
    /// # Errors
    /// Any [`Fault`].
    ///
    /// # Cancel safety
    /// Writes nothing; may be dropped at any time.
    fn transitions<'a>(
        &'a self,
        profile: &'a ProfileId,
        id: &'a SessionId,
    ) -> Pending<'a, Result<Vec<TransitionRecord>, Fault>>;

    /// Closes a session and cancels its queued turns, in one transaction. A closed one is returned as it is.
    ///
    /// # Errors
    /// [`CloseError`]; [`CloseError::Busy`] where a turn runs or is unknown.
    ///
    /// # Cancel safety
    /// A dropped call has closed it or not; call again.
    fn close_session<'a>(
        &'a self,
        epoch: Epoch,
        profile: &'a ProfileId,
        id: &'a SessionId,
        at_ms: i64,
    ) -> Pending<'a, Result<SessionRecord, CloseError>>;

    /// Raises the counter that a session's token is derived with, which ends the token before.
    ///
    /// # Errors
    /// [`CloseError`]; never [`CloseError::Busy`].
    ///
    /// # Cancel safety
    /// A dropped call has raised it or not; call again.
    fn rotate_token<'a>(
        &'a self,
        epoch: Epoch,
        profile: &'a ProfileId,
        id: &'a SessionId,
        at_ms: i64,
    ) -> Pending<'a, Result<SessionRecord, CloseError>>;

    /// Returns the generations that open sessions of `profile` pin.
    ///
    /// # Errors
    /// Any [`Fault`].
    ///
    /// # Cancel safety
    /// Writes nothing; may be dropped at any time.
    fn pinned_generations<'a>(
        &'a self,
        profile: &'a ProfileId,
    ) -> Pending<'a, Result<BTreeSet<GenerationNumber>, Fault>>;

    /// Returns the names of all servers that any generation of `profile` ever had.
    ///
    /// # Errors
    /// Any [`Fault`].
    ///
    /// # Cancel safety
    /// Writes nothing; may be dropped at any time.
    fn server_names<'a>(
        &'a self,
        profile: &'a ProfileId,
    ) -> Pending<'a, Result<BTreeSet<String>, Fault>>;
}

/// The turns of sessions: a durable queue for each, first in first out.
pub trait Turns: Send + Sync {
    /// Admits a turn under the policy of its session, in one transaction; or returns the one that the same submission made
    /// before. When it returns, the turn is on the disk.
    ///
    /// # Errors
    /// [`AdmitError`]; nothing was written, but for what is in doubt.
    ///
    /// # Cancel safety
    /// The turn of a dropped call is wholly there or not at all; call again with the same submission.
    fn admit_turn(&self, epoch: Epoch, new: NewTurn)
    -> Pending<'_, Result<TurnRecord, AdmitError>>;

    /// Returns a turn; `None` where there is none.
    ///
    /// # Errors
    /// Any [`Fault`].
    ///
    /// # Cancel safety
    /// Writes nothing; may be dropped at any time.
    fn turn<'a>(
        &'a self,
        profile: &'a ProfileId,
        id: &'a TurnId,
    ) -> Pending<'a, Result<Option<TurnRecord>, Fault>>;

    /// Returns the turn that a submission made; `None` where it made none.
    ///
    /// # Errors
    /// Any [`Fault`].
    ///
    /// # Cancel safety
    /// Writes nothing; may be dropped at any time.
    fn submitted_turn<'a>(
        &'a self,
        profile: &'a ProfileId,
        session: &'a SessionId,
        submission: &'a str,
    ) -> Pending<'a, Result<Option<TurnRecord>, Fault>>;

    /// Returns the turns of a session that are not over, in their order.
    ///
    /// # Errors
    /// Any [`Fault`].
    ///
    /// # Cancel safety
    /// Writes nothing; may be dropped at any time.
    fn open_turns<'a>(
        &'a self,
        profile: &'a ProfileId,
        session: &'a SessionId,
    ) -> Pending<'a, Result<Vec<OpenTurn>, Fault>>;

    /// Returns the sessions that have turns which are not over.
    ///
    /// # Errors
    /// Any [`Fault`].
    ///
    /// # Cancel safety
    /// Writes nothing; may be dropped at any time.
    fn sessions_with_open_turns<'a>(
        &'a self,
        profile: &'a ProfileId,
    ) -> Pending<'a, Result<Vec<SessionId>, Fault>>;

    /// Moves a turn on, in one transaction. When it returns, the move is on the disk.
    ///
    /// # Errors
    /// [`MoveError`]; nothing was written, but for what is in doubt.
    ///
    /// # Cancel safety
    /// A dropped call has moved it or not; read the turn to know.
    fn move_turn<'a>(
        &'a self,
        epoch: Epoch,
        profile: &'a ProfileId,
        id: &'a TurnId,
        step: TurnMove,
    ) -> Pending<'a, Result<TurnRecord, MoveError>>;

    /// Makes every running turn of `profile` unknown: at the start of an authority, nobody runs one. Returns them.
    ///
    /// # Errors
    /// [`WriteFault`].
    ///
    /// # Cancel safety
    /// A dropped call has moved all of them or none; call again.
    fn give_up_running<'a>(
        &'a self,
        epoch: Epoch,
        profile: &'a ProfileId,
    ) -> Pending<'a, Result<Vec<TurnId>, WriteFault>>;
}

/// The API keys of profiles: what is kept of them.
pub trait Keys: Send + Sync {
    /// Adds a key. When it returns, the key is on the disk.
    ///
    /// # Errors
    /// [`WriteFault`]; also where there is a key with this id or this hash. Nothing was written, but for what is in doubt.
    ///
    /// # Cancel safety
    /// The key of a dropped call is wholly there or not at all.
    fn add_key(&self, epoch: Epoch, new: NewKey) -> Pending<'_, Result<KeyRecord, WriteFault>>;

    /// Returns all keys of `profile`, revoked ones included, oldest first.
    ///
    /// # Errors
    /// Any [`Fault`].
    ///
    /// # Cancel safety
    /// Writes nothing; may be dropped at any time.
    fn keys<'a>(&'a self, profile: &'a ProfileId) -> Pending<'a, Result<Vec<KeyRecord>, Fault>>;

    /// Replaces the key `id` by a new one: the old one is not taken from `ends_ms` on. When it returns, both are on the disk.
    ///
    /// # Errors
    /// [`WriteFault`]; also where there is a key with the id or the hash of the new one. Nothing was written, but for what is in
    /// doubt.
    ///
    /// # Cancel safety
    /// A dropped call has replaced it wholly or not at all.
    fn rotate_key<'a>(
        &'a self,
        epoch: Epoch,
        id: &'a str,
        new: NewKey,
        ends_ms: i64,
    ) -> Pending<'a, Result<Rotation, WriteFault>>;

    /// Notes when keys were used last, in Unix milliseconds by their id; an earlier time than what is noted changes nothing.
    ///
    /// # Errors
    /// [`WriteFault`]; nothing was written, but for what is in doubt.
    ///
    /// # Cancel safety
    /// A dropped call has noted all of it or nothing; call again.
    fn note_key_uses<'a>(
        &'a self,
        epoch: Epoch,
        profile: &'a ProfileId,
        uses: Vec<(String, i64)>,
    ) -> Pending<'a, Result<(), WriteFault>>;

    /// Revokes a key for good; `None` where there is none. One that was revoked before is returned as it is.
    ///
    /// # Errors
    /// [`WriteFault`]; nothing was written, but for what is in doubt.
    ///
    /// # Cancel safety
    /// A dropped call has revoked it or not; call again.
    fn revoke_key<'a>(
        &'a self,
        epoch: Epoch,
        profile: &'a ProfileId,
        id: &'a str,
        at_ms: i64,
    ) -> Pending<'a, Result<Option<KeyRecord>, WriteFault>>;
}

/// The audit of profiles: records are appended, and deleted by [`Audits::prune_audit`] alone.
pub trait Audits: Send + Sync {
    /// Appends records in their order, in one transaction; returns the number of the newest record there is then. When it
    /// returns, the records are on the disk.
    ///
    /// # Errors
    /// [`WriteFault`]; nothing was written, but for what is in doubt.
    ///
    /// # Cancel safety
    /// The records of a dropped call are all there or none is.
    fn append_audit<'a>(
        &'a self,
        epoch: Epoch,
        profile: &'a ProfileId,
        entries: Vec<NewAudit>,
    ) -> Pending<'a, Result<Option<AuditNumber>, WriteFault>>;

    /// Returns at most `limit` records that `filter` lets through, newest first. The last number of a page is the `before` of
    /// the next.
    ///
    /// # Errors
    /// Any [`Fault`].
    ///
    /// # Cancel safety
    /// Writes nothing; may be dropped at any time.
    fn audit<'a>(
        &'a self,
        profile: &'a ProfileId,
        filter: &'a AuditFilter,
        limit: u32,
    ) -> Pending<'a, Result<Vec<AuditRecord>, Fault>>;

    /// Deletes the oldest records, up to the first that is of `before_ms` (in Unix milliseconds) or later, and returns how many.
    /// The newest record always stays, so that no number is given twice.
    ///
    /// # Errors
    /// [`WriteFault`]; a part may have been deleted.
    ///
    /// # Cancel safety
    /// Deletes in batches; a dropped call has deleted the oldest or none.
    fn prune_audit<'a>(
        &'a self,
        epoch: Epoch,
        profile: &'a ProfileId,
        before_ms: i64,
    ) -> Pending<'a, Result<u64, WriteFault>>;
}
