//! Whose database a file is, and its schema.
//!
//! `application_id` and `user_version` are in the database's header and part of a transaction,
//! so a migration and its number are committed together.

use camino::Utf8Path;
use sqlx::SqliteConnection;

use super::fault::fault;
use crate::fault::{BackendError, Fault, OpenError};

/// `GNLK`.
const APPLICATION_ID: i64 = 0x474E_4C4B;

/// The migrations; the one at `n - 1` brings a schema from version `n - 1` to `n`.
const MIGRATIONS: [&str; 5] = [
    include_str!("../../migrations/sqlite/0001_generations.sql"),
    include_str!("../../migrations/sqlite/0002_sessions.sql"),
    include_str!("../../migrations/sqlite/0003_keys.sql"),
    include_str!("../../migrations/sqlite/0004_key_rotation.sql"),
    include_str!("../../migrations/sqlite/0005_audit.sql"),
];

/// The version of the schema that this program writes.
const VERSION: i64 = MIGRATIONS.len() as i64;

/// What a database says about itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Identity {
    application: i64,
    version: i64,
    objects: i64,
}

/// What a database that is ours needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing is in it yet.
    Fresh,
    /// It is of an earlier version.
    Old { version: i64 },
    /// Nothing.
    Current,
}

// === impl Identity ===

impl Identity {
    pub(super) fn state(self, path: &Utf8Path) -> Result<State, OpenError> {
        match self {
            Self {
                application: 0,
                version: 0,
                objects: 0,
            } => Ok(State::Fresh),
            Self {
                application: APPLICATION_ID,
                version,
                ..
            } if version > VERSION => Err(OpenError::Newer {
                found: version,
                supported: VERSION,
            }),
            Self {
                application: APPLICATION_ID,
                version: VERSION,
                ..
            } => Ok(State::Current),
            Self {
                application: APPLICATION_ID,
                version,
                ..
            } if version >= 1 => Ok(State::Old { version }),
            Self { .. } => Err(OpenError::Foreign {
                path: path.to_owned(),
            }),
        }
    }
}

/// Reads what the database says about itself.
pub(super) async fn identity(connection: &mut SqliteConnection) -> Result<Identity, sqlx::Error> {
    let (application, version, objects) = sqlx::query_as(
        "SELECT (SELECT application_id FROM pragma_application_id),
                (SELECT user_version FROM pragma_user_version),
                (SELECT count(*) FROM sqlite_schema)",
    )
    .fetch_one(connection)
    .await?;
    Ok(Identity {
        application,
        version,
        objects,
    })
}

/// Sees to it that the database has a WAL, which is a property of its file.
pub(super) async fn use_wal(connection: &mut SqliteConnection) -> Result<(), Fault> {
    let mode: String = sqlx::query_scalar("PRAGMA journal_mode = WAL")
        .fetch_one(connection)
        .await
        .map_err(fault)?;
    if mode == "wal" {
        Ok(())
    } else {
        let source = format!("the file system has no shared memory for a WAL: {mode}");
        Err(Fault::Unavailable {
            source: BackendError::new(source),
        })
    }
}

/// Runs the migrations that the database lacks, in one transaction.
///
/// The transaction is opened also where none is lacking: it finds out whether the database can
/// be written before anything depends on it.
pub(super) async fn bring_up_to_date(
    connection: &mut SqliteConnection,
    path: &Utf8Path,
) -> Result<(), OpenError> {
    execute(connection, "BEGIN IMMEDIATE").await?;
    // Looked at again under the lock: another process may have been first.
    let done = match identity(connection).await.map_err(fault)?.state(path)? {
        State::Fresh => 0,
        State::Old { version } => usize::try_from(version).unwrap_or(0),
        State::Current => MIGRATIONS.len(),
    };
    for migration in &MIGRATIONS[done.min(MIGRATIONS.len())..] {
        sqlx::raw_sql(*migration)
            .execute(&mut *connection)
            .await
            .map_err(fault)?;
    }
    execute(connection, "COMMIT").await?;
    Ok(())
}

/// Checks the structure of the whole file.
pub(super) async fn check_structure(connection: &mut SqliteConnection) -> Result<(), Fault> {
    let first: String = sqlx::query_scalar("PRAGMA integrity_check(1)")
        .fetch_one(&mut *connection)
        .await
        .map_err(fault)?;
    if first != "ok" {
        return Err(Fault::corrupt(first));
    }
    let dangling = sqlx::query("PRAGMA foreign_key_check")
        .fetch_optional(connection)
        .await
        .map_err(fault)?;
    match dangling {
        None => Ok(()),
        Some(_) => Err(Fault::corrupt("a row refers to one that is gone")),
    }
}

async fn execute(connection: &mut SqliteConnection, sql: &'static str) -> Result<(), Fault> {
    sqlx::query(sql)
        .execute(connection)
        .await
        .map(|_| ())
        .map_err(fault)
}
