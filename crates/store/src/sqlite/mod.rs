//! The store in one SQLite file.
//!
//! One connection writes, a small pool reads. WAL, with `synchronous=FULL`: a commit that was
//! acknowledged survives a loss of power and not only the death of the process.

mod fault;
mod files;
mod generations;
mod open;
mod rows;
mod schema;
mod writer;

use std::{collections::BTreeSet, num::NonZeroU32};

use camino::Utf8Path;
use genlock_config::ProfileId;
use genlock_policy::GenerationNumber;
use sqlx::{Connection, SqliteConnection, SqlitePool};
use tokio::sync::Mutex;

use self::{fault::fault, writer::Writer};
use crate::{
    fault::{CommitError, Fault, OpenError, PruneError},
    location::Options,
    record::{Epoch, GenerationRecord, GenerationSummary, NewGeneration},
    repository::{Epochs, Generations, Pending, Store, Verified},
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
            let mut reader = self.readers.acquire().await.map_err(fault)?;
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
            let mut reader = self.readers.acquire().await.map_err(fault)?;
            generations::head(&mut reader, profile).await
        })
    }

    fn get<'a>(
        &'a self,
        profile: &'a ProfileId,
        number: GenerationNumber,
    ) -> Pending<'a, Result<Option<GenerationRecord>, Fault>> {
        Box::pin(async move {
            let mut reader = self.readers.acquire().await.map_err(fault)?;
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
            let mut reader = self.readers.acquire().await.map_err(fault)?;
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

impl From<CommitFault> for CommitError {
    fn from(failed: CommitFault) -> Self {
        match failed {
            CommitFault::Refused(fault) => Self::Fault(fault),
            CommitFault::InDoubt(source) => Self::InDoubt { source },
        }
    }
}
