//! The one connection that writes.

use std::time::Duration;

use sqlx::{ConnectOptions, Connection, SqliteConnection, sqlite::SqliteConnectOptions};
use tokio::{
    sync::{Mutex, MutexGuard},
    time::timeout,
};

use super::{
    CommitFault,
    fault::{commit_fault, fault},
    files::Anchor,
};
use crate::fault::{BackendError, Fault};

/// Gives out write transactions, one at a time.
pub(super) struct Writer {
    access: Option<WriteAccess>,
    slot: Mutex<Slot>,
}

/// What a store that may be written needs to do so.
struct WriteAccess {
    connect: SqliteConnectOptions,
    anchor: Anchor,
    wait: Duration,
}

enum Slot {
    /// The connection, outside a transaction; `None` where the last one was thrown away.
    Idle(Option<SqliteConnection>),
    Closed,
}

/// A write transaction.
///
/// It owns its connection and gives it back only after a clean end. One that was dropped or
/// has failed closes its connection, whereby SQLite rolls back, whatever state it was in.
pub(super) struct WriteTransaction<'a> {
    // Dropped before the slot is free.
    connection: SqliteConnection,
    slot: MutexGuard<'a, Slot>,
}

// === impl Writer ===

impl Writer {
    pub(super) fn new(
        connection: SqliteConnection,
        connect: SqliteConnectOptions,
        anchor: Anchor,
        wait: Duration,
    ) -> Self {
        Self {
            access: Some(WriteAccess {
                connect,
                anchor,
                wait,
            }),
            slot: Mutex::new(Slot::Idle(Some(connection))),
        }
    }

    pub(super) fn read_only() -> Self {
        Self {
            access: None,
            slot: Mutex::new(Slot::Idle(None)),
        }
    }

    /// Begins a write transaction, with the write lock taken.
    ///
    /// With a plain `BEGIN`, a transaction that reads and then writes fails at once beside
    /// another writer, whatever the busy timeout is.
    pub(super) async fn begin_write(&self) -> Result<WriteTransaction<'_>, Fault> {
        let access = self.access.as_ref().ok_or_else(|| Fault::ReadOnly {
            source: BackendError::new("it was opened for reading"),
        })?;
        let mut slot = timeout(access.wait, self.slot.lock())
            .await
            .map_err(|_| Fault::Busy { source: None })?;
        let idle = match &mut *slot {
            Slot::Idle(idle) => idle.take(),
            Slot::Closed => return Err(Fault::Closed),
        };
        let mut connection = match idle {
            Some(connection) => connection,
            None => access.connect.connect().await.map_err(fault)?,
        };
        sqlx::query("BEGIN IMMEDIATE")
            .execute(&mut connection)
            .await
            .map_err(fault)?;
        access.anchor.check()?;
        Ok(WriteTransaction { connection, slot })
    }

    pub(super) async fn close(&self) -> Result<(), Fault> {
        let mut slot = self.slot.lock().await;
        match std::mem::replace(&mut *slot, Slot::Closed) {
            Slot::Idle(Some(connection)) => connection.close().await.map_err(fault),
            Slot::Idle(None) | Slot::Closed => Ok(()),
        }
    }
}

// === impl WriteTransaction ===

impl WriteTransaction<'_> {
    pub(super) fn connection(&mut self) -> &mut SqliteConnection {
        &mut self.connection
    }

    /// Makes the transaction durable.
    pub(super) async fn commit(mut self) -> Result<(), CommitFault> {
        sqlx::query("COMMIT")
            .execute(&mut self.connection)
            .await
            .map_err(commit_fault)?;
        self.give_back();
        Ok(())
    }

    /// Undoes the transaction. One that cannot be undone is closed, which undoes it too.
    pub(super) async fn abandon(mut self) {
        let undone = sqlx::query("ROLLBACK").execute(&mut self.connection).await;
        if undone.is_ok() {
            self.give_back();
        }
    }

    fn give_back(self) {
        let Self {
            connection,
            mut slot,
        } = self;
        *slot = Slot::Idle(Some(connection));
    }
}
