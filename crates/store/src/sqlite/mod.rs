//! The store in one SQLite file.
//!
//! One connection writes, a small pool reads. WAL, with `synchronous=FULL`: a commit that was
//! acknowledged survives a loss of power and not only the death of the process.

mod audit;
mod fault;
mod files;
mod generations;
mod keys;
mod open;
mod rows;
mod schema;
mod session_rows;
mod sessions;
mod turns;
mod writer;

use std::{collections::BTreeSet, num::NonZeroU32};

use camino::Utf8Path;
use genlock_config::ProfileId;
use genlock_frames::SessionId;
use genlock_policy::GenerationNumber;
use sqlx::{Connection, Sqlite, SqliteConnection, SqlitePool, pool::PoolConnection};
use tokio::sync::Mutex;

use self::{fault::fault, writer::Writer};
use crate::{
    fault::{
        AdmitError, CloseError, CommitError, CreateError, Fault, MoveError, OpenError, PruneError,
        TransitionError, WriteFault,
    },
    location::Options,
    record::{
        AuditFilter, AuditNumber, AuditRecord, Epoch, GenerationRecord, GenerationSummary,
        KeyRecord, NewAudit, NewGeneration, NewKey, NewSession, NewTransition, NewTurn, OpenTurn,
        Rotation, SessionRecord, TransitionRecord, TurnId, TurnMove, TurnRecord,
    },
    repository::{Audits, Epochs, Generations, Keys, Pending, Sessions, Store, Turns, Verified},
};

/// A store in one SQLite file.
pub(crate) struct SqliteStore {
    readers: SqlitePool,
    writer: Writer,
    /// Open as long as the store is, so that no other connection is ever the last one, which
    /// would delete the WAL: while the store is open, its files are the same ones.
    keeper: Mutex<Option<SqliteConnection>>,
}

// === impl SqliteStore ===

impl SqliteStore {
    pub(crate) async fn open(path: &Utf8Path, options: &Options) -> Result<Self, OpenError> {
        open::open(path, options).await
    }

    async fn reader(&self) -> Result<PoolConnection<Sqlite>, Fault> {
        self.readers.acquire().await.map_err(fault)
    }

    async fn close_all(&self) -> Result<(), Fault> {
        self.readers.close().await;
        if let Some(keeper) = self.keeper.lock().await.take() {
            keeper.close().await.map_err(fault)?;
        }
        // The last one, so that it is the writer that folds the WAL in.
        self.writer.close().await
    }
}

impl Store for SqliteStore {
    fn verify(&self) -> Pending<'_, Result<Verified, Fault>> {
        Box::pin(async {
            let mut reader = self.reader().await?;
            schema::check_structure(&mut reader).await?;
            generations::check_all(&mut reader).await
        })
    }

    fn close(&self) -> Pending<'_, Result<(), Fault>> {
        Box::pin(self.close_all())
    }
}

impl Epochs for SqliteStore {
    fn take_epoch<'a>(&'a self, profile: &'a ProfileId) -> Pending<'a, Result<Epoch, Fault>> {
        Box::pin(async {
            let mut write = self.writer.begin_write().await?;
            let epoch = generations::take_epoch(write.connection(), profile).await?;
            write.commit().await.map_err(CommitFault::into_fault)?;
            Ok(epoch)
        })
    }
}

impl Generations for SqliteStore {
    fn commit_generation(
        &self,
        epoch: Epoch,
        expected: Option<GenerationNumber>,
        new: NewGeneration,
    ) -> Pending<'_, Result<GenerationRecord, CommitError>> {
        Box::pin(async move {
            let mut write = self.writer.begin_write().await?;
            match generations::add(write.connection(), epoch, expected, new).await {
                Ok(record) => {
                    write.commit().await?;
                    Ok(record)
                }
                Err(error) => {
                    write.abandon().await;
                    Err(error)
                }
            }
        })
    }

    fn head<'a>(
        &'a self,
        profile: &'a ProfileId,
    ) -> Pending<'a, Result<Option<GenerationRecord>, Fault>> {
        Box::pin(async {
            let mut reader = self.reader().await?;
            generations::head(&mut reader, profile).await
        })
    }

    fn get<'a>(
        &'a self,
        profile: &'a ProfileId,
        number: GenerationNumber,
    ) -> Pending<'a, Result<Option<GenerationRecord>, Fault>> {
        Box::pin(async move {
            let mut reader = self.reader().await?;
            generations::get(&mut reader, profile, number).await
        })
    }

    fn list<'a>(
        &'a self,
        profile: &'a ProfileId,
        before: Option<GenerationNumber>,
        limit: u32,
    ) -> Pending<'a, Result<Vec<GenerationSummary>, Fault>> {
        Box::pin(async move {
            let mut reader = self.reader().await?;
            generations::list(&mut reader, profile, before, limit).await
        })
    }

    fn prune<'a>(
        &'a self,
        epoch: Epoch,
        profile: &'a ProfileId,
        keep: NonZeroU32,
        pinned: &'a BTreeSet<GenerationNumber>,
    ) -> Pending<'a, Result<Vec<GenerationNumber>, PruneError>> {
        Box::pin(async move {
            let mut pruned = Vec::new();
            loop {
                let mut write = self.writer.begin_write().await?;
                let connection = write.connection();
                let batch = generations::prune(connection, epoch, profile, keep, pinned).await;
                match batch {
                    Ok(batch) if batch.is_empty() => {
                        write.abandon().await;
                        return Ok(pruned);
                    }
                    Ok(batch) => {
                        write.commit().await.map_err(CommitFault::into_fault)?;
                        pruned.extend(batch);
                    }
                    Err(error) => {
                        write.abandon().await;
                        return Err(error);
                    }
                }
            }
        })
    }
}

/// Runs statements in one write transaction: they are all made durable, or none is.
macro_rules! write {
    ($store:expr, |$connection:ident| $statements:expr) => {{
        let mut write = $store
            .writer
            .begin_write()
            .await
            .map_err(WriteFault::from)?;
        let $connection = write.connection();
        match $statements.await {
            Ok(done) => {
                write.commit().await.map_err(WriteFault::from)?;
                Ok(done)
            }
            Err(error) => {
                write.abandon().await;
                Err(error)
            }
        }
    }};
}

impl Sessions for SqliteStore {
    fn create_session(
        &self,
        epoch: Epoch,
        new: NewSession,
    ) -> Pending<'_, Result<SessionRecord, CreateError>> {
        Box::pin(async move { write!(self, |connection| sessions::create(connection, epoch, new)) })
    }

    fn session<'a>(
        &'a self,
        profile: &'a ProfileId,
        id: &'a SessionId,
    ) -> Pending<'a, Result<Option<SessionRecord>, Fault>> {
        Box::pin(async {
            let mut reader = self.reader().await?;
            sessions::get(&mut reader, profile, id).await
        })
    }

    fn sessions<'a>(
        &'a self,
        profile: &'a ProfileId,
        before: Option<&'a SessionId>,
        limit: u32,
    ) -> Pending<'a, Result<Vec<SessionRecord>, Fault>> {
        Box::pin(async move {
            let mut reader = self.reader().await?;
            sessions::list(&mut reader, profile, before, limit).await
        })
    }

    fn commit_transition(
        &self,
        epoch: Epoch,
        new: NewTransition,
    ) -> Pending<'_, Result<SessionRecord, TransitionError>> {
        Box::pin(async move {
            write!(self, |connection| sessions::transition(
                connection, epoch, new
            ))
        })
    }

    fn transitions<'a>(
        &'a self,
        profile: &'a ProfileId,
        id: &'a SessionId,
    ) -> Pending<'a, Result<Vec<TransitionRecord>, Fault>> {
        Box::pin(async {
            let mut reader = self.reader().await?;
            sessions::transitions(&mut reader, profile, id).await
        })
    }

    fn close_session<'a>(
        &'a self,
        epoch: Epoch,
        profile: &'a ProfileId,
        id: &'a SessionId,
        at_ms: i64,
    ) -> Pending<'a, Result<SessionRecord, CloseError>> {
        Box::pin(async move {
            write!(self, |connection| sessions::close(
                connection, epoch, profile, id, at_ms
            ))
        })
    }

    fn rotate_token<'a>(
        &'a self,
        epoch: Epoch,
        profile: &'a ProfileId,
        id: &'a SessionId,
        at_ms: i64,
    ) -> Pending<'a, Result<SessionRecord, CloseError>> {
        Box::pin(async move {
            write!(self, |connection| sessions::rotate_token(
                connection, epoch, profile, id, at_ms
            ))
        })
    }

    fn pinned_generations<'a>(
        &'a self,
        profile: &'a ProfileId,
    ) -> Pending<'a, Result<BTreeSet<GenerationNumber>, Fault>> {
        Box::pin(async {
            let mut reader = self.reader().await?;
            sessions::pinned(&mut reader, profile).await
        })
    }

    fn server_names<'a>(
        &'a self,
        profile: &'a ProfileId,
    ) -> Pending<'a, Result<BTreeSet<String>, Fault>> {
        Box::pin(async {
            let mut reader = self.reader().await?;
            generations::server_names(&mut reader, profile).await
        })
    }
}

impl Turns for SqliteStore {
    fn admit_turn(
        &self,
        epoch: Epoch,
        new: NewTurn,
    ) -> Pending<'_, Result<TurnRecord, AdmitError>> {
        Box::pin(async move { write!(self, |connection| turns::admit(connection, epoch, new)) })
    }

    fn turn<'a>(
        &'a self,
        profile: &'a ProfileId,
        id: &'a TurnId,
    ) -> Pending<'a, Result<Option<TurnRecord>, Fault>> {
        Box::pin(async {
            let mut reader = self.reader().await?;
            turns::get(&mut reader, profile, id).await
        })
    }

    fn submitted_turn<'a>(
        &'a self,
        profile: &'a ProfileId,
        session: &'a SessionId,
        submission: &'a str,
    ) -> Pending<'a, Result<Option<TurnRecord>, Fault>> {
        Box::pin(async move {
            let mut reader = self.reader().await?;
            turns::of_submission(&mut reader, profile, session, submission).await
        })
    }

    fn open_turns<'a>(
        &'a self,
        profile: &'a ProfileId,
        session: &'a SessionId,
    ) -> Pending<'a, Result<Vec<OpenTurn>, Fault>> {
        Box::pin(async {
            let mut reader = self.reader().await?;
            turns::open(&mut reader, profile, session).await
        })
    }

    fn sessions_with_open_turns<'a>(
        &'a self,
        profile: &'a ProfileId,
    ) -> Pending<'a, Result<Vec<SessionId>, Fault>> {
        Box::pin(async {
            let mut reader = self.reader().await?;
            turns::sessions_with_open(&mut reader, profile).await
        })
    }

    fn move_turn<'a>(
        &'a self,
        epoch: Epoch,
        profile: &'a ProfileId,
        id: &'a TurnId,
        step: TurnMove,
    ) -> Pending<'a, Result<TurnRecord, MoveError>> {
        Box::pin(async move {
            write!(self, |connection| turns::move_on(
                connection, epoch, profile, id, step
            ))
        })
    }

    fn give_up_running<'a>(
        &'a self,
        epoch: Epoch,
        profile: &'a ProfileId,
    ) -> Pending<'a, Result<Vec<TurnId>, WriteFault>> {
        Box::pin(async move {
            write!(self, |connection| turns::give_up_running(
                connection, epoch, profile
            ))
        })
    }
}

impl Keys for SqliteStore {
    fn add_key(&self, epoch: Epoch, new: NewKey) -> Pending<'_, Result<KeyRecord, WriteFault>> {
        Box::pin(async move { write!(self, |connection| keys::add(connection, epoch, new)) })
    }

    fn keys<'a>(&'a self, profile: &'a ProfileId) -> Pending<'a, Result<Vec<KeyRecord>, Fault>> {
        Box::pin(async {
            let mut reader = self.reader().await?;
            keys::all(&mut reader, profile).await
        })
    }

    fn rotate_key<'a>(
        &'a self,
        epoch: Epoch,
        id: &'a str,
        new: NewKey,
        ends_ms: i64,
    ) -> Pending<'a, Result<Rotation, WriteFault>> {
        Box::pin(async move {
            write!(self, |connection| keys::rotate(
                connection, epoch, id, new, ends_ms
            ))
        })
    }

    fn note_key_uses<'a>(
        &'a self,
        epoch: Epoch,
        profile: &'a ProfileId,
        uses: Vec<(String, i64)>,
    ) -> Pending<'a, Result<(), WriteFault>> {
        Box::pin(async move {
            write!(self, |connection| keys::note_uses(
                connection, epoch, profile, &uses
            ))
        })
    }

    fn revoke_key<'a>(
        &'a self,
        epoch: Epoch,
        profile: &'a ProfileId,
        id: &'a str,
        at_ms: i64,
    ) -> Pending<'a, Result<Option<KeyRecord>, WriteFault>> {
        Box::pin(async move {
            write!(self, |connection| keys::revoke(
                connection, epoch, profile, id, at_ms
            ))
        })
    }
}

impl Audits for SqliteStore {
    fn append_audit<'a>(
        &'a self,
        epoch: Epoch,
        profile: &'a ProfileId,
        entries: Vec<NewAudit>,
    ) -> Pending<'a, Result<Option<AuditNumber>, WriteFault>> {
        Box::pin(async move {
            write!(self, |connection| audit::append(
                connection, epoch, profile, entries
            ))
        })
    }

    fn audit<'a>(
        &'a self,
        profile: &'a ProfileId,
        filter: &'a AuditFilter,
        limit: u32,
    ) -> Pending<'a, Result<Vec<AuditRecord>, Fault>> {
        Box::pin(async move {
            let mut reader = self.reader().await?;
            audit::list(&mut reader, profile, filter, limit).await
        })
    }

    fn prune_audit<'a>(
        &'a self,
        epoch: Epoch,
        profile: &'a ProfileId,
        before_ms: i64,
    ) -> Pending<'a, Result<u64, WriteFault>> {
        Box::pin(async move {
            let mut pruned = 0;
            loop {
                let batch: Result<u64, WriteFault> = write!(self, |connection| audit::prune(
                    connection, epoch, profile, before_ms
                ));
                match batch? {
                    0 => return Ok(pruned),
                    batch => pruned += batch,
                }
            }
        })
    }
}

/// How the `COMMIT` of a transaction failed.
enum CommitFault {
    /// Nothing was written.
    Refused(Fault),
    /// What was written may turn up.
    InDoubt(Fault),
}

// === impl CommitFault ===

impl CommitFault {
    /// For writes that may be repeated, so that doubt does not matter.
    fn into_fault(self) -> Fault {
        match self {
            Self::Refused(fault) | Self::InDoubt(fault) => fault,
        }
    }
}

impl From<CommitFault> for WriteFault {
    fn from(failed: CommitFault) -> Self {
        match failed {
            CommitFault::Refused(fault) => Self::Fault(fault),
            CommitFault::InDoubt(source) => Self::InDoubt { source },
        }
    }
}

impl From<CommitFault> for CommitError {
    fn from(failed: CommitFault) -> Self {
        match failed {
            CommitFault::Refused(fault) => Self::Fault(fault),
            CommitFault::InDoubt(source) => Self::InDoubt { source },
        }
    }
}
